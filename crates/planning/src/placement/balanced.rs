//! Tables laid out over the world, so that every rank has about as much to look up and to exchange.

use super::columns_over;
use spec::model::Model;
use spec::placement::{Layout, Placement};
use spec::topology::Topology;

/// A placement over all ranks: tensor trains, and tables of at most `replicate_rows` rows, on every rank; the others whole, each on the rank with
/// the least to look up and exchange so far, largest first. Where there are more ranks than tables, the columns of the largest
/// tables are halved until every rank has some.
pub fn balanced(model: &Model, topology: Topology, replicate_rows: usize) -> Placement {
    let layouts = balanced_layouts(model, topology, replicate_rows);
    Placement::of_layouts(model, topology, &layouts).expect("built from the model and the cluster themselves")
}

/// Layouts of a [`balanced`] placement.
pub(crate) fn balanced_layouts(model: &Model, topology: Topology, replicate_rows: usize) -> Vec<Layout> {
    let features = model.features();
    let is_train = |f: usize| model.tensor_train(f).is_some();
    let placed: Vec<usize> =
        (0..features.len()).filter(|&f| features[f].rows > replicate_rows && !is_train(f)).collect();
    let ranks: Vec<usize> = (0..topology.ranks()).collect();
    let mut layouts = vec![Layout::Replicated; features.len()];
    for (table, layout) in columns_over(model, &placed, &ranks) {
        layouts[table] = layout;
    }
    for (train, _) in model.tensor_trains() {
        layouts[train] = Layout::DataParallel { ranks: None };
    }
    layouts
}
