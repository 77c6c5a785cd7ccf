use super::measure::{Effort, Measured, Peaks};
use super::result::{About, Group, Limit, Roofline};
use super::{html, step, table};
use crate::args::RunArgs;
use spec::machine_rates::Class;
use spec::precision::Precision;
use spec::run::Run;
use spec::schedule::{Task, Work};

fn run(flags: &str) -> Run {
    let config = RunArgs::from_words(flags.split_whitespace()).unwrap().config().unwrap();
    step::checked(config, 0.0, step::BATCHES).unwrap()
}

/// Three steps in which phase `i` takes `i + 1` milliseconds, in the median, and 1 ms passes between phases.
fn measured(run: &Run) -> Measured {
    let phases = run.schedule(Task::Train).phases().len();
    let of_phase = |i: usize| vec![1e-3 * (i + 1) as f64, 1e-3 * (i + 1) as f64, 1.0];
    Measured {
        steps: vec![0.5, 0.4, 0.9],
        between: vec![1e-3, 1e-3, 5e-3],
        phases: (0..phases).map(of_phase).collect(),
        beside: Vec::new(),
        peaks: Peaks {
            products: vec![(Precision::F32, vec![1e11, 3e11, 2e11])],
            gather: vec![1e10],
            update: vec![2e10, 1e10],
            stream: vec![2e10],
        },
    }
}

fn roofline(flags: &str) -> (Run, Roofline) {
    let run = run(flags);
    let effort = Effort { warm_up: 0, rounds: 3, steps: 1, bytes: 1 };
    let result = Roofline::new(&run, &effort, &measured(&run), about(None));
    (run, result)
}

fn about(gpu: Option<&str>) -> About {
    About { preset: Some("mlperf".into()), zipf: 0.0, gpu: gpu.map(String::from) }
}

/// A GPU prepares the next batch while it computes: that is told, and is no part of the step.
#[test]
fn what_runs_beside_the_step_is_part_of_no_group() {
    let run = run(MLPERF);
    let effort = Effort { warm_up: 0, rounds: 3, steps: 30, bytes: 1 };
    let beside = Measured { beside: vec![0], ..measured(&run) };
    let result = Roofline::new(&run, &effort, &beside, about(Some("NVIDIA H200")));
    let (_, all) = roofline(MLPERF);
    assert!((all.ms_of_phases - result.ms_of_phases - result.phases[0].ms).abs() < 1e-9);
    let groups: f64 = result.groups.iter().map(|group| group.ms).sum();
    assert!((groups - result.ms_of_phases).abs() < 1e-9);
    let record = serde_json::to_value(&result).unwrap();
    assert_eq!((&record["device"], &record["device_name"]), (&"cuda".into(), &"NVIDIA H200".into()));
    assert_eq!(
        (&record["phases"][0]["beside"], &record["phases"][1]["beside"]),
        (&true.into(), &serde_json::Value::Null)
    );
    let said = table::about(&result);
    assert!(said.contains("NVIDIA H200") && said.contains("3 rounds of 30 steps"), "{said}");
}

const MLPERF: &str = "--preset mlperf --rows-cap 100 --batch 2048";

#[test]
fn every_phase_appears_once_with_the_costs_of_the_schedule() {
    for flags in [MLPERF, "--preset mlperf --rows-cap 100 --model dcn", "--model deepfm", "--dropout 0.1"] {
        let (run, result) = roofline(flags);
        let schedule = run.schedule(Task::Train);
        let names: Vec<&str> = schedule.phases().iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(result.phases.iter().map(|phase| phase.name.as_str()).collect::<Vec<_>>(), names);
        let sizes = spec::volume::BatchSizes::typical(&run.model, &run.placement, run.batch);
        for (i, phase) in result.phases.iter().enumerate() {
            let flops = schedule.flops(spec::schedule::PhaseId(i), &sizes, 0) as f64;
            assert_eq!(phase.flops, flops, "{}", phase.name);
        }
    }
}

#[test]
fn shares_are_reached_over_peak_and_groups_add_up_to_the_step() {
    let (_, result) = roofline(MLPERF);
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs().max(b.abs());
    for (i, phase) in result.phases.iter().enumerate() {
        assert!(near(phase.ms, (i + 1) as f64), "{}: the median", phase.name);
        let amount = if phase.unit == "FLOP/s" { phase.flops } else { phase.bytes };
        match phase.share.zip(phase.reached) {
            Some((share, reached)) => {
                assert!(near(reached, amount / (1e-3 * phase.ms)), "{}", phase.name);
                assert!(near(share, reached / phase.peak), "{}", phase.name);
            }
            None => assert_eq!(amount, 0.0, "{}", phase.name),
        }
        assert!(near(phase.share_of_step, phase.ms / result.ms_of_phases));
    }
    assert_eq!(result.peaks.products["f32"].median, 2e11);
    assert_eq!((result.peaks.update.median, result.peaks.update.best), (1.5e10, 2e10));
    let sum = |of: fn(&super::result::GroupShare) -> f64| result.groups.iter().map(of).sum::<f64>();
    assert!(near(sum(|group| group.ms), result.ms_of_phases));
    assert!(near(sum(|group| group.share_of_step), 1.0));
    assert!(near(result.ms_per_step, 500.0) && near(result.ms_of_best_step, 400.0));
    let phases = result.phases.iter().map(|phase| phase.ms).sum::<f64>();
    assert!(near(phases + result.ms_between_phases, result.ms_of_phases));
}

#[test]
fn phases_have_the_limit_that_binds_them() {
    let (_, result) = roofline(MLPERF);
    let of = |name: &str| result.phases.iter().find(|phase| phase.name == name).expect(name);
    let products = Limit::Products(Precision::F32);
    for (name, limit, group) in [
        ("bottom forward", products, Group::Products),
        ("top forward", products, Group::Products),
        ("lookup in place", Limit::Gather, Group::Embeddings),
        ("update tables in place", Limit::Update, Group::Embeddings),
        ("sort ids", Limit::Stream, Group::Embeddings),
        ("interaction forward", Limit::Stream, Group::Rest),
        ("update bucket 0", Limit::Stream, Group::Rest),
        ("loss", Limit::Stream, Group::Rest),
    ] {
        assert_eq!((of(name).limit, of(name).group), (limit, group), "{name}");
    }
    assert_eq!(result.row_bytes, 512);
    // 13 × 512 and 256 × 128 are narrow, 512 × 256 is wide.
    let wide = 131_072.0 / (131_072.0 + 6_656.0 + 32_768.0);
    assert!((of("bottom forward").wide_share.unwrap() - wide).abs() < 1e-12);
    assert!(of("top forward").wide_share.unwrap() > 0.99 && of("lookup in place").wide_share.is_none());
    let (_, dcn) = roofline("--preset mlperf --rows-cap 100 --model dcn");
    let cross = dcn.phases.iter().find(|phase| phase.name == "interaction forward").unwrap();
    assert_eq!((cross.limit, cross.group, cross.wide_share), (products, Group::Products, Some(1.0)));
}

#[test]
fn the_page_and_the_table_show_every_phase() {
    let (_, result) = roofline(MLPERF);
    let (page, text) = (html::page(&result).to_html(), table::to_text(&result));
    for phase in &result.phases {
        assert!(page.contains(&phase.name) && text.contains(&phase.name), "{}", phase.name);
    }
    for part in ["products in f32", "random rows, 512 B each", "changed rows", "stream", "everything else"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(page.contains("products in f32: 200 G FLOP/s"), "the flat roof has a name");
}

/// Phases that are fused have the limit of the rows that they touch.
#[test]
fn fused_phases_are_held_against_rows() {
    let (run, result) = roofline(&format!("{MLPERF} --device cuda --precision bf16"));
    let of = |class: Class| {
        let schedule = run.schedule(Task::Train);
        let is = |phase: &&spec::schedule::Phase| match &phase.work {
            Work::Compute(operation) => schedule.describe(operation).class == class,
            Work::Collective(_) => false,
        };
        let name = schedule.phases().iter().find(is).unwrap_or_else(|| panic!("{class}")).name.clone();
        result.phases.iter().find(|phase| phase.name == name).unwrap()
    };
    assert_eq!(of(Class::LookupDot).limit, Limit::Gather);
    assert_eq!(of(Class::DotUpdate).limit, Limit::Update);
    assert_eq!(result.row_bytes, 512);
}
