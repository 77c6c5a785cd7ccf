//! A search for towers as it is asked for, and who gets its result.

use super::recipe::Recipe;
use super::{FoundTowers, TowersError};
use crate::affinity::SAMPLES;
use crate::cluster::control_of;
use crate::control::Control;
use crate::partition::{Divided, Division};
use crate::{Error, Event};
use planning::partitioner::Strategy;
use spec::presets::ModelKind;
use spec::run::Config;
use spec::towers::Module;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use training::{Cluster, Cosines};

type Picture = dyn Fn(&Divided) -> String + Send + Sync;

/// A search for the best towers of a model. Everything but config and folder is optional.
///
/// ```
/// use campanile::{Config, towers::Towers};
/// # let folder = tempfile::tempdir().unwrap();
/// # let mut config = Config::default();
/// # (config.train.steps, config.train.batch) = (Some(3), Some(64));
/// # config.topology.ranks_per_host = Some(1);
/// # config.data.synthetic = Some(spec::synthetic::Synthetic { eval_samples: 512, ..Default::default() });
/// let found = Towers::new(config, folder.path().join("towers")).count(2).affinity_samples(256).run()?;
/// assert_eq!(found.best().divided.towers.len(), 2);
/// # Ok::<(), campanile::Error>(())
/// ```
#[derive(Clone)]
pub struct Towers {
    pub(super) config: Config,
    pub(super) out: PathBuf,
    pub(super) count: Option<usize>,
    pub(super) module: Option<Module>,
    pub(super) strategies: Vec<Strategy>,
    pub(super) flat_model: ModelKind,
    pub(super) flat_steps: Option<u64>,
    pub(super) division: Division,
    pub(super) cosines: Cosines,
    pub(super) affinity_samples: u64,
    pub(super) picture: Option<Arc<Picture>>,
    pub(super) described: String,
    pub(super) control: Control,
}

impl fmt::Debug for Towers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Towers").field("config", &self.config).field("out", &self.out).finish_non_exhaustive()
    }
}

impl Towers {
    /// Towers for the flat model of `config`. All runs are kept in the folder `out`, where a search that was stopped goes on.
    pub fn new(config: Config, out: impl Into<PathBuf>) -> Self {
        Self {
            config,
            out: out.into(),
            count: None,
            module: None,
            strategies: vec![Strategy::Coherent, Strategy::Diverse, Strategy::Strided],
            flat_model: ModelKind::Dlrm,
            flat_steps: None,
            division: Division::default(),
            cosines: Cosines::default(),
            affinity_samples: SAMPLES,
            picture: None,
            described: "the run".into(),
            control: Control::default(),
        }
    }

    /// Number of towers. By default 4, or as many as there are hosts.
    pub fn count(self, towers: usize) -> Self {
        Self { count: Some(towers), ..self }
    }

    /// Module of the towers. By default half of a vector for each feature with DLRM, one vector for each tower with DCN.
    pub fn module(self, module: Option<Module>) -> Self {
        Self { module, ..self }
    }

    /// Strategies to try. By default coherent, diverse and strided.
    pub fn strategies(self, strategies: Vec<Strategy>) -> Self {
        Self { strategies, ..self }
    }

    /// Kind of the flat model that affinity is measured on. By default a DLRM, whose dot products teach embeddings to have
    /// cosines.
    pub fn flat_model(self, kind: ModelKind) -> Self {
        Self { flat_model: kind, ..self }
    }

    /// Steps of the flat model. By default half of those of the run.
    pub fn flat_steps(self, steps: Option<u64>) -> Self {
        Self { flat_steps: steps, ..self }
    }

    /// What towers shall be like.
    pub fn division(self, division: Division) -> Self {
        Self { division, ..self }
    }

    /// What affinity is: the absolute value of the mean cosine by default.
    pub fn cosines(self, cosines: Cosines) -> Self {
        Self { cosines, ..self }
    }

    /// Samples to measure affinity on, at most.
    pub fn affinity_samples(self, samples: u64) -> Self {
        Self { affinity_samples: samples, ..self }
    }

    /// Draws the towers of every strategy, as a page that is kept in the folder.
    pub fn picture(self, picture: impl Fn(&Divided) -> String + Send + Sync + 'static) -> Self {
        Self { picture: Some(Arc::new(picture)), ..self }
    }

    /// Says in errors where the config came from.
    pub fn described(self, described: impl Into<String>) -> Self {
        Self { described: described.into(), ..self }
    }

    /// Tells `observer` what happens.
    pub fn observe(self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { control: self.control.observe(observer), ..self }
    }

    /// Takes observer and stop flag from `control`.
    pub fn control(self, control: Control) -> Self {
        Self { control, ..self }
    }

    /// Finds the best towers on ranks that are threads of this process.
    pub fn run(self) -> Result<FoundTowers, Error> {
        self.run_on(Cluster::Threads)?.ok_or(Error::Training(training::Error::NoRank))
    }

    /// Finds the best towers on the ranks of `cluster`. The process that has rank 0 decides, writes all files but checkpoints,
    /// and gets the result; other processes get none. Processes need an `out` on a file system that all of them share.
    pub fn run_on(self, cluster: Cluster) -> Result<Option<FoundTowers>, Error> {
        let asked = Self { control: control_of(&cluster, &self.control), ..self };
        let found = Recipe::checked(&asked, &cluster).and_then(|recipe| recipe.run());
        let stopped = matches!(found, Err(Error::Towers(TowersError::Stopped { .. })));
        let first = cluster.has_first_rank();
        // Other failures may be those of one rank.
        if found.is_ok() || stopped {
            cluster.leave()?;
        }
        if stopped && !first { Ok(None) } else { found }
    }
}
