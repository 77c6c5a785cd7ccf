use kernels::ColumnCopy;
use kernels::internals::cuda::columns::groups;

fn copy(to: usize, width: usize) -> ColumnCopy {
    ColumnCopy { from: 0, to, width }
}

#[test]
fn blocks_apart_run_together() {
    let apart = [copy(5, 2), copy(0, 5), copy(3, 0), copy(7, 1)];
    assert_eq!(groups(&apart), [[copy(5, 2), copy(0, 5), copy(7, 1)]]);
}

#[test]
fn blocks_on_top_of_each_other_keep_their_order() {
    let (a, b, c, d) = (copy(0, 4), copy(4, 4), copy(3, 2), copy(0, 1));
    assert_eq!(groups(&[a, b, c, d]), [vec![a, b], vec![c, d]]);
    assert_eq!(groups(&[c, a, b]), [vec![c], vec![a, b]]);
    assert_eq!(groups(&[a, c, copy(4, 1)]), [vec![a], vec![c], vec![copy(4, 1)]]);
}
