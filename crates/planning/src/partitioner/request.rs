//! Request of a partition, and its errors.

use super::distances::Distance;
use super::groups;
use std::str::FromStr;

/// Strategy by which features are divided into towers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Features that have much to do with each other share a tower.
    Coherent,
    /// Features that have little to do with each other share a tower.
    Diverse,
    /// Feature `f` goes to tower `f mod T`.
    Strided,
    /// At random, in equal numbers.
    Random,
    /// Largest load first, to the least loaded tower; affinity is not looked at.
    Greedy,
    /// Constrained k-means on the leading eigenvectors of the normalised affinity: a balanced spectral cut.
    Spectral,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 6] = [
        Strategy::Coherent,
        Strategy::Diverse,
        Strategy::Strided,
        Strategy::Random,
        Strategy::Greedy,
        Strategy::Spectral,
    ];

    /// Name of the strategy as users write it.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Coherent => "coherent",
            Strategy::Diverse => "diverse",
            Strategy::Strided => "strided",
            Strategy::Random => "random",
            Strategy::Greedy => "greedy",
            Strategy::Spectral => "spectral",
        }
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|strategy| strategy.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown strategy {text:?}; the known ones are {names}")
        })
    }
}

/// Quantity that is counted when towers are compared in size.
#[derive(Clone, Debug, PartialEq)]
pub enum Balance {
    /// Number of features.
    Features,
    /// The sum of a load for every feature, such as bytes looked up.
    Loads(Vec<f64>),
}

/// Towers that are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Towers, T.
    pub towers: usize,
    /// Strategy by which features are divided.
    pub strategy: Strategy,
    /// The largest tower may have this many times the size of the smallest, among those of a group where there are groups; 1
    /// for sizes as equal as can be.
    pub ratio: f64,
    /// Measure of the size of a tower.
    pub balance: Balance,
    /// Rule that turns affinities into distances.
    pub distance: Distance,
    /// Dimensions of the plane.
    pub dims: usize,
    /// Group of each feature. Features of different groups never share a tower; towers are divided among the groups in
    /// proportion.
    pub groups: Option<Vec<usize>>,
    /// Whether features move and swap between towers after k-means, by the distances asked for; only where features are counted.
    pub settle: bool,
    /// Random starts of k-means; the plane takes half as many, and both few where there are many features.
    pub restarts: usize,
    /// Seed from which all randomness follows.
    pub seed: u64,
}

impl Request {
    /// Towers of equal numbers of features, by the defaults.
    pub fn new(towers: usize, strategy: Strategy) -> Self {
        Self {
            towers,
            strategy,
            ratio: 1.0,
            balance: Balance::Features,
            distance: Distance::default(),
            dims: 2,
            groups: None,
            settle: true,
            restarts: 48,
            seed: 0,
        }
    }
}

/// Reason why there is no partition.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PartitionError {
    /// More towers than features, or none.
    #[error("{towers} towers are impossible for {features} features; use 1 to {features}")]
    Towers {
        /// Asked for.
        towers: usize,
        /// Number of features.
        features: usize,
    },
    /// Fewer towers than groups that must not be mixed.
    #[error("{towers} towers cannot keep {groups} groups of features apart; use at least {groups}")]
    Groups {
        /// Asked for.
        towers: usize,
        /// Groups.
        groups: usize,
    },
    /// The number of values differs from the number of features.
    #[error("{got} {what} were given for {features} features; give one for each")]
    Count {
        /// Loads or groups.
        what: &'static str,
        /// Number of features.
        features: usize,
        /// Number of features.
        got: usize,
    },
    /// A load that cannot be.
    #[error("the load of feature {feature} is {load}; loads are finite and at least 0")]
    Load {
        /// The feature's index.
        feature: usize,
        /// Load of the feature.
        load: f64,
    },
    /// Fewer features with a load than towers.
    #[error(
        "only {loaded} features have a load above 0, too few for {towers} towers; use fewer towers, or loads above 0"
    )]
    Unloaded {
        /// Asked for.
        towers: usize,
        /// Features with a load.
        loaded: usize,
    },
    /// A group whose features have no load.
    #[error(
        "the features of group {0} have no load, so it cannot have a tower; give them loads above 0, or join the group \
         with another"
    )]
    GroupWithoutLoad(usize),
    /// Loads whose sum is no number.
    #[error("the sum of the loads is too large for a float; scale them down")]
    Overflow,
    /// A ratio below 1.
    #[error("{0} is not a ratio of the largest tower to the smallest; use a finite number of at least 1")]
    Ratio(f64),
    /// A plane that is none.
    #[error("{dims} dimensions are impossible for {features} features; use 1 to {features} (2 is usual)")]
    Dims {
        /// Asked for.
        dims: usize,
        /// Number of features.
        features: usize,
    },
}

impl Request {
    /// Random starts for so many features: at least one, and few of many.
    pub(super) fn restarts_for(&self, features: usize) -> usize {
        self.restarts.clamp(1, if features > super::MANY { 4 } else { usize::MAX })
    }

    /// Whether so many features can be divided so.
    pub fn check(&self, features: usize) -> Result<(), PartitionError> {
        let towers = self.towers;
        if !(1..=features).contains(&towers) {
            return Err(PartitionError::Towers { towers, features });
        }
        if !(self.ratio >= 1.0 && self.ratio.is_finite()) {
            return Err(PartitionError::Ratio(self.ratio));
        }
        let on_a_plane = matches!(self.strategy, Strategy::Coherent | Strategy::Diverse);
        if on_a_plane && !(1..=features).contains(&self.dims) {
            return Err(PartitionError::Dims { dims: self.dims, features });
        }
        let count = |what, got| {
            if got == features { Ok(()) } else { Err(PartitionError::Count { what, features, got }) }
        };
        if let Some(groups) = &self.groups {
            count("groups", groups.len())?;
        }
        if let Balance::Loads(loads) = &self.balance {
            count("loads", loads.len())?;
            if let Some(feature) = loads.iter().position(|load| !(load.is_finite() && *load >= 0.0)) {
                return Err(PartitionError::Load { feature, load: loads[feature] });
            }
            if !loads.iter().sum::<f64>().is_finite() {
                return Err(PartitionError::Overflow);
            }
            let loaded = loads.iter().filter(|&&load| load > 0.0).count();
            if loaded < towers {
                return Err(PartitionError::Unloaded { towers, loaded });
            }
        }
        groups::shared_out(&self.loads(features), self).map(drop)
    }

    /// The load of each feature: 1 where features are counted.
    pub(super) fn loads(&self, features: usize) -> Vec<f64> {
        match &self.balance {
            Balance::Features => vec![1.0; features],
            Balance::Loads(loads) => loads.clone(),
        }
    }
}
