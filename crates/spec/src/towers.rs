//! Towers as a user describes them: the features of each tower, and the module over them (DMT §3.2, §4).
//!
//! ```
//! use spec::towers::{Assignment, Module};
//! assert_eq!("strided:8".parse(), Ok(Assignment::Strided(8)));
//! assert_eq!("dlrm:d=64".parse(), Ok(Module::Dlrm { c: 1, p: 0, d: 64 }));
//! assert_eq!("dlrm:d=0".parse::<Module>().unwrap_err(), "dlrm:d=0: d is 0; a tower gives vectors of at least 1");
//! ```

use crate::feature::Feature;
use crate::model::{Member, ModelError};
use crate::placement::share;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Assignment of features to towers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "AssignmentText", into = "AssignmentText")]
pub enum Assignment {
    /// One tower for every feature.
    Each,
    /// Feature `f` goes to tower `f mod T`: the naive assignment of DMT §5.2.3.
    Strided(usize),
    /// Names of features, tower by tower. `C1[0..8]` names columns 0 to 8 of a table that is cut into equal slices.
    Lists(Vec<Vec<String>>),
}

/// Contents of a file of an assignment, `{"towers": [["C1", "C7"], ["C2"]]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TowersFile {
    /// Names of features, tower by tower.
    pub towers: Vec<Vec<String>>,
}

/// Module over the features of a tower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum Module {
    /// No module: vectors pass through.
    #[default]
    None,
    /// Linear module (DMT, listing 1): `p` vectors of length `d` from all features, and `c` vectors of length `d` from each
    /// feature by one map that all features of a width share.
    Dlrm {
        /// Number of vectors from each feature.
        c: usize,
        /// Number of vectors from all features of the tower.
        p: usize,
        /// Length of an output vector, D.
        d: usize,
    },
    /// Cross module (DMT, listing 2): a cross layer, then a linear map.
    Dcn {
        /// Length of the output of the map, D.
        d: usize,
        /// Matrix rank of the cross layer; `None` for that of the model's cross layers.
        rank: Option<usize>,
        /// Whether the output of length D is per tower or per feature.
        out: DcnOutput,
    },
}

/// Output of a DCN tower module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DcnOutput {
    /// One vector of D for the tower. Inferred from the FLOPs of the DMT paper's Table 4; its text does not say so.
    #[default]
    Tower,
    /// One vector of D for every feature, as the DMT paper's listing 2 and §4 print it.
    Features,
}

/// An assignment as it stands in a config: a word or lists.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "towers are strided:T, each, or a list of names per tower")]
enum AssignmentText {
    /// `"strided:T"`: feature `f` goes to tower `f mod T`. `"each"`: one tower for every feature.
    Word(String),
    /// Names of features, tower by tower. `C1[0..8]` names columns 0 to 8 of a table that is cut into equal slices.
    Lists(Vec<Vec<String>>),
}

impl TryFrom<AssignmentText> for Assignment {
    type Error = String;

    fn try_from(written: AssignmentText) -> Result<Self, String> {
        match written {
            AssignmentText::Word(word) => word.parse(),
            AssignmentText::Lists(lists) => Ok(Assignment::Lists(lists)),
        }
    }
}

impl From<Assignment> for AssignmentText {
    fn from(assignment: Assignment) -> Self {
        match assignment {
            Assignment::Lists(lists) => AssignmentText::Lists(lists),
            other => AssignmentText::Word(other.to_string()),
        }
    }
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "each" {
            return Ok(Assignment::Each);
        }
        let towers = text.strip_prefix("strided:").and_then(|towers| towers.parse().ok());
        towers.map(Assignment::Strided).ok_or_else(|| {
            format!(
                "unknown assignment of features to towers {text:?}; use strided:T, each, or a list of names per tower"
            )
        })
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Assignment::Each => f.write_str("each"),
            Assignment::Strided(towers) => write!(f, "strided:{towers}"),
            Assignment::Lists(lists) => write!(f, "{} towers by name", lists.len()),
        }
    }
}

impl Assignment {
    /// Members of each tower, for tables with rows of these widths. Fails unless every column of every feature is in exactly
    /// one tower.
    pub fn members(&self, features: &[Feature], widths: &[usize]) -> Result<Vec<Vec<Member>>, ModelError> {
        let whole = |feature| Member { feature, columns: 0..widths[feature] };
        match self {
            Assignment::Each => Ok((0..features.len()).map(|f| vec![whole(f)]).collect()),
            Assignment::Strided(towers) if (1..=features.len()).contains(towers) => {
                Ok((0..*towers).map(|t| (t..features.len()).step_by(*towers).map(whole).collect()).collect())
            }
            Assignment::Strided(towers) => Err(refuse(format!(
                "strided:{towers} of {} features leaves a tower empty or makes none; use 1 to {0}",
                features.len()
            ))),
            Assignment::Lists(lists) => by_name(lists, features, widths),
        }
    }
}

fn refuse(problem: String) -> ModelError {
    ModelError { field: "model.towers".into(), problem }
}

fn by_name(
    lists: &[Vec<String>],
    features: &[Feature],
    widths: &[usize],
) -> Result<Vec<Vec<Member>>, ModelError> {
    let index: BTreeMap<&str, usize> =
        features.iter().enumerate().map(|(i, f)| (f.name.as_str(), i)).collect();
    // Where each slice of a feature was named, to find doubles and gaps.
    let mut seen: Vec<Vec<(Range<usize>, usize)>> = vec![Vec::new(); features.len()];
    let mut towers = Vec::with_capacity(lists.len());
    for (t, names) in lists.iter().enumerate() {
        if names.is_empty() {
            return Err(refuse(format!("tower {t} is empty; leave it out, or give it features")));
        }
        let mut tower = Vec::with_capacity(names.len());
        for text in names {
            let member = match index.get(text.as_str()) {
                Some(&feature) => Member { feature, columns: 0..widths[feature] },
                None => slice(t, text, &index, widths)?,
            };
            let before = &mut seen[member.feature];
            let overlaps = |(columns, _): &&(Range<usize>, usize)| {
                columns.start < member.columns.end && member.columns.start < columns.end
            };
            if let Some((_, first)) = before.iter().find(overlaps) {
                return Err(refuse(format!(
                    "{text:?} is in tower {first} and again in tower {t}; once is enough"
                )));
            }
            before.push((member.columns.clone(), t));
            tower.push(member);
        }
        towers.push(tower);
    }
    if lists.is_empty() {
        return Err(refuse("no tower; name the features of at least one".into()));
    }
    for ((feature, slices), &width) in features.iter().zip(&mut seen).zip(widths) {
        let name = &feature.name;
        if slices.is_empty() {
            return Err(refuse(format!("feature {name} is in no tower; every feature needs one")));
        }
        slices.sort_by_key(|(columns, _)| columns.start);
        let equal = |i: usize| slices[i].0 == share(width, slices.len(), i);
        if let Some(i) = (0..slices.len()).find(|&i| !equal(i)) {
            return Err(refuse(format!(
                "the slices of {name} are not {} equal parts of its {width} columns: {}..{} should be {:?}",
                slices.len(),
                slices[i].0.start,
                slices[i].0.end,
                share(width, slices.len(), i)
            )));
        }
    }
    Ok(towers)
}

/// `C1[0..8]`, named by tower `t`, as a member.
fn slice(
    t: usize,
    text: &str,
    index: &BTreeMap<&str, usize>,
    widths: &[usize],
) -> Result<Member, ModelError> {
    let cut = text.strip_suffix(']').and_then(|text| text.rsplit_once('['));
    let Some((&feature, columns)) = cut.and_then(|(name, columns)| Some((index.get(name)?, columns))) else {
        return Err(refuse(format!("tower {t} names {text:?}; the model has no such feature")));
    };
    let range =
        columns.split_once("..").and_then(|(start, end)| Some(start.parse().ok()?..end.parse().ok()?));
    let width = widths[feature];
    match range {
        Some(columns) if columns.start < columns.end && columns.end <= width => {
            Ok(Member { feature, columns })
        }
        _ => Err(refuse(format!("tower {t} names {text:?}; a slice lies inside of columns 0..{width}"))),
    }
}

impl FromStr for Module {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, settings) = text.split_once(':').unwrap_or((text, ""));
        if !["none", "dlrm", "dcn"].contains(&kind) || (kind == "none" && text != kind) {
            return Err(format!("unknown tower module {text:?}; {KINDS}"));
        }
        let (mut c, mut p, mut d, mut rank, mut out) = (1, 0, None, None, DcnOutput::Tower);
        let mut seen = Vec::new();
        for setting in settings.split(',').filter(|_| text != kind) {
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| format!("{text}: {setting:?} is not a setting; write settings as d=64"))?;
            if seen.contains(&key) {
                return Err(format!("{text}: {key} is set twice"));
            }
            seen.push(key);
            let number = || -> Result<usize, String> {
                let parsed = value.parse().ok().filter(|&n| n <= MAX_SETTING);
                parsed.ok_or_else(|| format!("{text}: {key} is {value:?}; use a number up to {MAX_SETTING}"))
            };
            match (kind, key) {
                ("dlrm", "c") => c = number()?,
                ("dlrm", "p") => p = number()?,
                ("dlrm" | "dcn", "d") => d = Some(number()?),
                ("dcn", "rank") => rank = Some(number()?),
                ("dcn", "out") => {
                    out = match value {
                        "tower" => DcnOutput::Tower,
                        "features" => DcnOutput::Features,
                        _ => return Err(format!("{text}: out is {value:?}; use tower or features")),
                    }
                }
                _ => return Err(format!("{text}: {kind} has no setting {key:?}; {KINDS}")),
            }
        }
        let length = || {
            d.ok_or_else(|| {
                format!("{text}: d is missing; it is the length of the tower's vectors, as in {kind}:d=64")
            })
        };
        let module = match kind {
            "dlrm" => Module::Dlrm { c, p, d: length()? },
            "dcn" => Module::Dcn { d: length()?, rank, out },
            _ => Module::None,
        };
        module.check().map_err(|problem| format!("{text}: {problem}"))?;
        Ok(module)
    }
}

impl Module {
    /// Whether its numbers can be, and what is wrong with them if not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (c, p, d, rank) = match *self {
            Module::None => return Ok(()),
            Module::Dlrm { c, p, d } => (c, p, d, None),
            Module::Dcn { d, rank, .. } => (0, 1, d, rank),
        };
        if let Some(large) = [c, p, d, rank.unwrap_or(0)].into_iter().find(|&n| n > MAX_SETTING) {
            return Err(format!("{large} is too large; c, p, d and rank are at most {MAX_SETTING}"));
        }
        match (c, p, d, rank) {
            (_, _, 0, _) => Err("d is 0; a tower gives vectors of at least 1".into()),
            (0, 0, _, _) => Err("c and p are 0, so the tower would give nothing; set one of them".into()),
            (_, _, _, Some(0)) => Err("rank is 0; use at least 1, or leave it out".into()),
            _ => Ok(()),
        }
    }
}

/// The largest c, p, d or rank: products of them with a width cannot overflow.
const MAX_SETTING: usize = 1 << 20;
const KINDS: &str =
    "the known ones are none, dlrm:c=1,p=0,d=64 and dcn:d=128[,rank=512][,out=tower|features]";

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Module::None => f.write_str("none"),
            Module::Dlrm { c, p, d } => write!(f, "dlrm:c={c},p={p},d={d}"),
            Module::Dcn { d, rank, out } => {
                write!(f, "dcn:d={d}")?;
                if let Some(rank) = rank {
                    write!(f, ",rank={rank}")?;
                }
                match out {
                    DcnOutput::Tower => Ok(()),
                    DcnOutput::Features => f.write_str(",out=features"),
                }
            }
        }
    }
}

impl TryFrom<String> for Module {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Module> for String {
    fn from(module: Module) -> Self {
        module.to_string()
    }
}
