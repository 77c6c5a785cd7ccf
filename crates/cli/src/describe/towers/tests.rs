use super::*;
use spec::run::Config;
use spec::towers::Assignment;

#[test]
fn towers_cost_what_the_model_says_and_have_their_groups() {
    let mut config = Config::default();
    config.model.towers = Some(Assignment::Strided(4));
    config.model.tower_module = Some("dlrm:d=8".parse().unwrap());
    let run = planning::check(&config).unwrap();
    let towers = of_run(&run);
    assert_eq!(towers.iter().map(|tower| tower.columns_in).sum::<usize>(), 26 * 16);
    let weights: u64 = towers.iter().map(|tower| tower.parameters).sum();
    let network: usize = run.model.network().parameters().iter().map(|parameter| parameter.len).sum();
    assert_eq!(weights + network as u64, run.model.dense_parameters());
    let mflops: f64 = towers.iter().map(|tower| tower.mflops_per_sample).sum();
    assert!((mflops - run.model.tower_flops() as f64 / 1e6).abs() < 1e-9);
    let sptt = run.dataflow.sptt().unwrap();
    for (index, tower) in towers.iter().enumerate() {
        assert_eq!(tower.groups, [sptt.group_of_tower(index).unwrap()]);
    }
    assert!(table(&towers).contains("0: C1 C5 C9 C13 C17 C21 C25 "), "{}", table(&towers));
}

#[test]
fn names_are_shortened() {
    let features: Vec<String> = (1..=8).map(|f| format!("C{f}")).collect();
    assert_eq!(names(&features[..7]), "C1 C2 C3 C4 C5 C6 C7");
    assert_eq!(names(&features), "C1 C2 C3 C4 C5 C6 and 2 more");
}
