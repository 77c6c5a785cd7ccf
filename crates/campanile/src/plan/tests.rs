use super::*;
use spec::placement::{Layout, Placement};

#[test]
fn a_placement_is_told_in_a_line() {
    let mut run = planning::check(&spec::run::Config::default()).unwrap();
    let line = in_words(&run);
    assert!(line.starts_with("26 tables table-wise on 4 ranks; the largest rank has 1."), "{line}");
    let mut layouts: Vec<Layout> = (0..26).map(|_| Layout::Replicated).collect();
    layouts[25] = Layout::TableWise { rank: 1 };
    run.placement = Placement::of_layouts(&run.model, run.topology(), &layouts).unwrap();
    // Rank 1 looks up a quarter of 25 tables and a whole one: 7.25 of a mean of 6.5.
    let expected =
        "25 tables replicated, 1 table-wise on 4 ranks; the largest rank has 1.12 × the mean lookups";
    assert_eq!(in_words(&run), expected);
}
