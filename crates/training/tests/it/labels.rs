//! Several labels, sample weights and a weight of clicks: the same on any cluster and dataflow, with scores of every label.

use crate::common::{ADAM, labelled_config, labelled_log, optimizer};
use spec::dataflow::DataflowKind;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::{Config, LogFacts};
use training::metrics::Evaluation;
use training::{Logs, Outcome, Session, train};

fn outcome(config: &Config, facts: &LogFacts, logs: &Logs) -> Outcome {
    let run = planning::check_log(config, facts).unwrap();
    train(&run, logs, &Session::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// Metrics of every label.
fn evaluations(outcome: &Outcome) -> Vec<Evaluation> {
    outcome.scores.as_ref().unwrap().labels.iter().map(|label| label.evaluation).collect()
}

#[test]
fn any_cluster_and_dataflow() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, facts) = labelled_log(folder.path());
    for kind in [ModelKind::Dlrm, ModelKind::Dcn] {
        let alone = outcome(&labelled_config(kind, 1, 1), &facts, &logs);
        let mut config = labelled_config(kind, 2, 2);
        config.placement.cut = Some(Cut::Whole);
        config.train.dataflow = Some(DataflowKind::Flat);
        let flat = outcome(&config, &facts, &logs);
        for (step, (a, b)) in alone.losses.iter().zip(&flat.losses).enumerate() {
            assert!((a - b).abs() <= 1e-5 * a.abs(), "{kind:?}, step {step}: {a} alone, {b} on four ranks");
        }
        // SPTT and threads change no bit.
        config.train.dataflow = Some(DataflowKind::Sptt);
        let sptt = outcome(&config, &facts, &logs);
        config.train.threads = Some(3);
        let threads = outcome(&config, &facts, &logs);
        for other in [&sptt, &threads] {
            assert_eq!(flat.losses, other.losses, "{kind:?}");
            assert_eq!(flat.parameters_sha256, other.parameters_sha256, "{kind:?}");
            assert_eq!(evaluations(&flat), evaluations(other), "{kind:?}");
        }
        assert_eq!(evaluations(&flat).len(), 2);
        assert_ne!(flat.losses[0], flat.losses[1]);
    }
}

#[test]
fn scores_of_every_label_group_and_slice() {
    let folder = tempfile::tempdir().unwrap();
    let (logs, facts) = labelled_log(folder.path());
    let mut config = labelled_config(ModelKind::Dlrm, 2, 2);
    config.train.epochs = Some(5);
    config.optimizer.dense = Some(optimizer(ADAM, 0.01));
    config.optimizer.tables = Some(optimizer(ADAM, 0.02));
    config.data.group = Some("user".into());
    config.data.slices = vec!["user".into(), "A".into()];
    let scores = outcome(&config, &facts, &logs).scores.unwrap();
    let [click, buy] = &scores.labels[..] else { panic!("two labels") };
    assert_eq!((click.name.as_str(), buy.name.as_str()), ("click", "buy"));
    assert_eq!(scores.evaluation, click.evaluation);
    assert_ne!(click.evaluation.click_rate, buy.evaluation.click_rate);
    assert!(click.evaluation.auc.unwrap() > 0.55, "users click by their number: {:?}", click.evaluation.auc);
    let group = click.group.as_ref().unwrap();
    assert_eq!((group.column.as_str(), group.of_groups), ("user", 40));
    let [by_user, by_a] = &click.slices[..] else { panic!("two columns") };
    assert_eq!((by_user.values, by_user.slices.len(), &by_user.other), (40, 40, &None));
    assert!(by_user.slices[0].value.starts_with("user "), "{}", by_user.slices[0].value);
    // A feature serves as a column too, without texts; its hashed ids are the users'.
    assert_eq!((by_a.values, by_a.slices[0].samples), (32, by_a.slices[0].samples));
    assert!(by_a.slices[0].value.starts_with('#'), "{}", by_a.slices[0].value);
    let samples: u64 = by_user.slices.iter().map(|slice| slice.samples).sum();
    assert_eq!(samples, 1000);
    // A column that is neither kept nor a feature with one id is refused before anything is scored.
    for (column, reason) in [("city", "name it under `keep`"), ("B", "several of its ids")] {
        config.data.group = Some(column.into());
        let run = planning::check_log(&config, &facts).unwrap();
        let refused = train(&run, &logs, &Session::default()).unwrap_err().to_string();
        assert!(refused.contains(reason), "{refused}");
    }
}

#[test]
fn labels_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_, facts) = labelled_log(folder.path());
    let refused = |change: &dyn Fn(&mut Config)| {
        let mut config = labelled_config(ModelKind::Dlrm, 1, 1);
        change(&mut config);
        planning::check_log(&config, &facts).unwrap_err().to_string()
    };
    let deepfm = refused(&|config| {
        config.model.kind = Some(ModelKind::DeepFm);
        (config.model.bottom, config.model.top) = (None, None);
    });
    assert!(deepfm.starts_with("model.labels: ") && deepfm.contains("dlrm or dcn"), "{deepfm}");
    let weight = refused(&|config| config.train.positive_weight = Some(0.0));
    assert!(weight.starts_with("train.positive_weight"), "{weight}");
    let label = |name: &str| spec::model::ModelLabel { name: name.into(), weight: 1.0 };
    let others = refused(&|config| config.model.labels = vec![label("click"), label("like")]);
    assert!(others.contains("this log has click, buy"), "{others}");
    // The explicit config of a run says everything that matters.
    let config = labelled_config(ModelKind::Dlrm, 1, 1);
    let run = planning::check_log(&config, &facts).unwrap();
    let explicit = config.explicit(&run);
    assert_eq!(explicit.train.positive_weight, Some(3.0));
    let names: Vec<_> = explicit.model.labels.iter().map(|label| (&label.name[..], label.weight)).collect();
    assert_eq!(names, [("click", 1.0), ("buy", 0.5)]);
    assert_eq!(planning::check_log(&explicit, &facts).unwrap().model, run.model);
}
