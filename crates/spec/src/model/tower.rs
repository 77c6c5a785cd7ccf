//! Towers of a model: some features, and the module that combines them before the interaction with the others.

use super::Model;
use super::block::BlockName;
use super::layer::{CrossLayer, LinearLayer, Parameter};
use crate::towers::{DcnOutput, Module};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Range;

/// A feature of a tower, or a slice of its columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Member {
    /// Index of the feature.
    pub feature: usize,
    /// Columns of the feature's table.
    pub columns: Range<usize>,
}

/// A tower of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tower {
    /// Features of the tower, in the order in which its module sees them.
    pub members: Vec<Member>,
    /// Layers over the members.
    pub module: TowerModule,
}

/// Layers of a tower.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum TowerModule {
    /// No layers: the vectors of the members pass through.
    PassThrough,
    /// Linear module (DMT, listing 1): the outputs of `all`, then those of `each` for every member.
    Projection {
        /// Layer over the concatenation of all members.
        all: Option<LinearLayer>,
        /// Layer over each member: one for all members of a width.
        each: Vec<LinearLayer>,
    },
    /// Cross module (DMT, listing 2), whose map returns one vector for every member. One vector for the whole tower, as with
    /// [`DcnOutput::Tower`], is inferred from the paper's FLOPs.
    Cross {
        /// Cross layer over the concatenation of all members.
        layer: CrossLayer,
        /// Linear map of the output of the cross layer; `None` if that already has the output width.
        map: Option<LinearLayer>,
    },
}

impl Member {
    /// Name of the member in its model: `C1`, or `C1[0..8]` for a slice of a table.
    pub fn name(&self, model: &Model) -> String {
        self.name_of(&model.features[self.feature].name, model.row_width(self.feature))
    }

    /// Name of the member, given the name of its feature: `C1`, or `C1[0..8]` for a slice of a table of `width` columns.
    pub fn name_of(&self, feature: &str, width: usize) -> String {
        let Range { start, end } = &self.columns;
        if (*start, *end) == (0, width) { feature.into() } else { format!("{feature}[{start}..{end}]") }
    }
}

impl Tower {
    /// Tower number `index` over `members`. `usual_rank` is that of the model's own cross layers.
    pub(super) fn new(index: usize, members: Vec<Member>, module: Module, usual_rank: Option<usize>) -> Self {
        let widths: Vec<usize> = members.iter().map(|m| m.columns.len()).collect();
        let width: usize = widths.iter().sum();
        let single = members.len() == 1;
        let name = |part: &str| format!("towers.{index}.{part}");
        let map = |part: &str, inputs, outputs| LinearLayer::map(name(part), inputs, outputs);
        let module = match module {
            Module::None => TowerModule::PassThrough,
            // One vector to one vector of the same length: the paper leaves such towers alone.
            Module::Dlrm { c: 0, p: 1, d } if single && d == width => TowerModule::PassThrough,
            Module::Dlrm { c, p, d } => {
                let all = (p > 0).then(|| map("all", width, p * d));
                let distinct: BTreeSet<usize> = widths.iter().copied().filter(|_| c > 0).collect();
                let each = |&width: &usize| match distinct.len() {
                    1 => map("each", width, c * d),
                    _ => map(&format!("each.{width}"), width, c * d),
                };
                TowerModule::Projection { all, each: distinct.iter().map(each).collect() }
            }
            Module::Dcn { d, rank, out } => {
                let outputs = if out == DcnOutput::Tower { d } else { d * members.len() };
                TowerModule::Cross {
                    layer: CrossLayer::new(&name("cross"), width, rank.or(usual_rank)),
                    map: (!(single && outputs == width)).then(|| map("map", width, outputs)),
                }
            }
        };
        Self { members, module }
    }

    /// Whether the tower has no layers, so that vectors pass through.
    pub fn passes_through(&self) -> bool {
        self.module == TowerModule::PassThrough
    }

    /// Number of columns per sample that enter the tower.
    pub fn input_width(&self) -> usize {
        self.members.iter().map(|m| m.columns.len()).sum()
    }

    /// Number of columns per sample that leave the tower.
    pub fn output_width(&self) -> usize {
        match &self.module {
            TowerModule::PassThrough => self.input_width(),
            TowerModule::Projection { all, each } => {
                let outputs = |layer: Option<&LinearLayer>| layer.map_or(0, |l| l.outputs);
                outputs(all.as_ref()) + outputs(each.first()) * self.members.len()
            }
            TowerModule::Cross { layer, map } => map.as_ref().map_or(layer.w.outputs, |m| m.outputs),
        }
    }

    /// Number of members that go through a map over each member: those as wide as its input.
    pub fn members_of(&self, map: &LinearLayer) -> usize {
        self.members.iter().filter(|member| member.columns.len() == map.inputs).count()
    }

    /// FLOPs of the forward pass, per sample.
    pub fn forward_flops(&self) -> u64 {
        match &self.module {
            TowerModule::PassThrough => 0,
            TowerModule::Projection { all, each } => {
                let each = each.iter().map(|map| self.members_of(map) as u64 * map.forward_flops());
                all.as_ref().map_or(0, LinearLayer::forward_flops) + each.sum::<u64>()
            }
            TowerModule::Cross { layer, map } => {
                layer.forward_flops() + map.as_ref().map_or(0, LinearLayer::forward_flops)
            }
        }
    }

    /// FLOPs to train on one sample: forward and both gradients.
    pub fn training_flops(&self) -> u64 {
        3 * self.forward_flops()
    }

    /// Number of weights of the tower's module.
    pub fn weights(&self) -> u64 {
        match &self.module {
            TowerModule::PassThrough => 0,
            TowerModule::Projection { all, each } => all.iter().chain(each).map(LinearLayer::weights).sum(),
            TowerModule::Cross { layer, map } => {
                layer.weights() + map.as_ref().map_or(0, LinearLayer::weights)
            }
        }
    }

    /// Parameters of the tower, which is number `index` of its model, in forward order.
    pub fn parameters(&self, index: usize) -> Vec<Parameter> {
        let owner = (BlockName::TOWERS, index);
        match &self.module {
            TowerModule::PassThrough => Vec::new(),
            TowerModule::Projection { all, each } => {
                all.iter().chain(each).flat_map(|layer| layer.parameters(owner)).collect()
            }
            TowerModule::Cross { layer, map } => {
                let map = map.iter().flat_map(|map| map.parameters(owner));
                layer.parameters(owner).into_iter().chain(map).collect()
            }
        }
    }
}

impl Model {
    /// Towers of the model; empty for a model without towers.
    pub fn towers(&self) -> &[Tower] {
        &self.towers
    }

    /// Names of the members of each tower, as in an assignment.
    pub fn tower_names(&self) -> Vec<Vec<String>> {
        let names = |t: &Tower| t.members.iter().map(|m| m.name(self)).collect();
        self.towers.iter().map(names).collect()
    }

    /// Whether any tower has layers. If none has, the model equals the one without towers.
    pub fn has_tower_modules(&self) -> bool {
        self.towers.iter().any(|tower| !tower.passes_through())
    }

    /// Compression ratio (DMT, Table 5): columns that enter the towers over columns that leave them.
    pub fn compression_ratio(&self) -> f64 {
        let sum = |width: fn(&Tower) -> usize| self.towers.iter().map(width).sum::<usize>().max(1) as f64;
        sum(Tower::input_width) / sum(Tower::output_width)
    }

    /// Offset of the output of tower `index` in the input of the interaction. The towers follow the dense vector in their
    /// order; if all towers pass through, columns are in the order of the features.
    pub fn tower_offset(&self, index: usize) -> usize {
        self.network.leading_width() + self.towers[..index].iter().map(Tower::output_width).sum::<usize>()
    }

    /// Offset of a column of a feature in the input of the interaction, if the column passes through.
    pub fn feature_offset(&self, feature: usize, column: usize) -> usize {
        if self.has_tower_modules() {
            let holds = |m: &Member| m.feature == feature && m.columns.contains(&column);
            for (t, tower) in self.towers.iter().enumerate() {
                if let Some(at) = tower.members.iter().position(holds) {
                    let before: usize = tower.members[..at].iter().map(|m| m.columns.len()).sum();
                    return self.tower_offset(t) + before + column - tower.members[at].columns.start;
                }
            }
        }
        self.network.leading_width() + self.starts[feature] + column
    }
}
