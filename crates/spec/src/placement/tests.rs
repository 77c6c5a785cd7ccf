use super::{CopyUpdate, Holders, Layout, Placement, PlacementError, Scheme, Shard};
use crate::model::Model;
use crate::presets::{ModelKind, Preset};
use crate::topology::Topology;

fn model() -> Model {
    Preset::Demo.model(ModelKind::Dlrm, Some(100), None).unwrap()
}

/// The demo on 2 × 2 ranks, all tables on rank 0 but the first, whose shards are given.
fn placed(first: Vec<Shard>) -> Result<Placement, PlacementError> {
    let model = model();
    let cluster = Topology::new(2, 2).unwrap();
    let mut shards = first;
    for feature in 1..model.features().len() {
        shards.extend(Layout::TableWise { rank: 0 }.shards(&model, feature, cluster).unwrap());
    }
    Placement::new(&model, cluster, shards)
}

fn shard(rows: std::ops::Range<usize>, columns: std::ops::Range<usize>, rank: usize) -> Shard {
    Shard::new(0, rows, columns, Holders::Rank(rank))
}

#[test]
fn schemes_are_named_by_their_shards() {
    let (model, cluster) = (model(), Topology::new(2, 2).unwrap());
    let (rows, dim) = (model.features()[0].rows, model.row_width(0));
    let of = |layout: Layout| {
        placed(layout.shards(&model, 0, cluster).unwrap())
            .unwrap_or_else(|e| panic!("{layout:?}: {e}"))
            .scheme(0)
    };
    assert_eq!(of(Layout::TableWise { rank: 3 }), Scheme::TableWise);
    assert_eq!(of(Layout::RowWise { ranks: vec![3] }), Scheme::TableWise);
    assert_eq!(of(Layout::RowWise { ranks: vec![1, 2] }), Scheme::RowWise);
    assert_eq!(of(Layout::RowWise { ranks: vec![2, 3] }), Scheme::HierarchicalRows);
    assert_eq!(of(Layout::ColumnWise { ranks: vec![3, 0] }), Scheme::ColumnWise);
    assert_eq!(of(Layout::ColumnWise { ranks: vec![0, 1] }), Scheme::HierarchicalColumns);
    assert_eq!(of(Layout::Grid { rows: 2, columns: 2, ranks: vec![0, 1, 2, 3] }), Scheme::Grid);
    assert_eq!(of(Layout::Grid { rows: 2, columns: 2, ranks: vec![0, 0, 1, 1] }), Scheme::HierarchicalGrid);
    assert_eq!(of(Layout::Replicated), Scheme::Replicated);
    assert_eq!(of(Layout::DataParallel { ranks: None }), Scheme::DataParallel);
    // Pieces need not be even, nor be given in order.
    let uneven = placed(vec![
        shard(0..1, 2..dim, 1),
        shard(1..rows, 0..2, 2),
        shard(0..1, 0..2, 0),
        shard(1..rows, 2..dim, 3),
    ]);
    let uneven = uneven.unwrap();
    assert_eq!(uneven.scheme(0), Scheme::Grid);
    assert_eq!(uneven.shards_of(0).iter().map(Shard::piece).collect::<Vec<_>>(), [0, 0, 1, 1]);
    assert_eq!((uneven.row_pieces(0), uneven.column_pieces(0)), (2, 2));
}

#[test]
fn what_does_not_tile_a_table_is_refused() {
    let model = model();
    let (rows, dim) = (model.features()[0].rows, model.row_width(0));
    let refused = |shards: Vec<Shard>| placed(shards).unwrap_err().to_string();
    assert!(refused(vec![]).contains("there is none"));
    assert!(refused(vec![shard(0..rows, 0..dim - 1, 0)]).contains(&format!("columns end at {}", dim - 1)));
    assert!(refused(vec![shard(1..rows, 0..dim, 0)]).contains("follow rows that end at 0"));
    let overlap = vec![shard(0..rows, 0..8, 0), shard(0..rows, 7..dim, 1)];
    assert!(refused(overlap).contains(&format!("columns 7..{dim} follow columns that end at 8")));
    // Three rectangles around a corner tile the table, but are no grid.
    let corner = vec![shard(0..5, 0..dim, 0), shard(5..rows, 0..8, 1), shard(5..rows, 8..dim, 2)];
    assert!(refused(corner).contains(&format!("follow rows that end at {rows}")));
    let shifted = vec![
        shard(0..5, 0..8, 0),
        shard(0..5, 8..dim, 0),
        shard(5..rows, 0..8, 1),
        shard(5..rows, 7..dim, 1),
    ];
    assert!(refused(shifted).contains("are no rectangle of a grid"));
    assert!(refused(vec![shard(0..rows, 0..dim, 4)]).contains("rank 4 does not exist; there are 4"));
    let descending = vec![shard(0..5, 0..dim, 2), shard(5..rows, 0..dim, 1)];
    assert!(refused(descending).contains("ranks [2, 1]"));
    let copies = |ranks: &[usize]| Holders::Copies { ranks: ranks.into(), update: CopyUpdate::Rows };
    assert!(refused(vec![Shard::new(0, 0..rows, 0..dim, copies(&[1, 1]))]).contains("ranks [1, 1]"));
    let cut = vec![Shard::new(0, 0..rows, 0..8, copies(&[0, 1])), shard(0..rows, 8..dim, 2)];
    assert!(refused(cut).contains("a table with copies is not cut"));
    let strangers = vec![Shard::new(99, 0..rows, 0..dim, Holders::Rank(0))];
    assert!(refused(strangers).contains("feature 99, but the model has 26"));
}
