//! Gradients of whole models, through the whole step, against finite differences of the loss.

use crate::common::{config, mixed, optimizer, ranks_after, synthetic_log};
use data::{Batch, Split, SyntheticLog};
use kernels::Device;
use spec::model::ModelLabel;
use spec::optimizer::UpdateRule;
use spec::placement::Cut;
use spec::presets::ModelKind;
use spec::run::{Config, Run};
use spec::towers::Assignment;
use training::{RankState, Source};

/// Weights that change together: a dense parameter, which several ranks have, or a shard of a table, which one has.
#[derive(Clone, Copy, Debug)]
enum Tensor {
    Dense(usize),
    Shard { rank: usize, table: usize },
}

/// A run and its log, or one batch that is used instead.
struct Trial {
    run: Run,
    log: SyntheticLog,
    batch: Option<Batch>,
}

impl Trial {
    /// All ranks after some steps, and the losses of each.
    fn after(
        &self,
        steps: u64,
        prepare: impl Fn(usize, &mut RankState) + Sync,
    ) -> Vec<(RankState, Vec<f64>)> {
        let source = || match &self.batch {
            Some(batch) => Source::resident(vec![batch.clone()]),
            None => Source::Synthetic(self.log.clone()),
        };
        ranks_after(&self.run, || Ok(Device::Reference), source, steps, prepare)
    }

    /// Mean loss of the first batch with `tensor` replaced wherever it is.
    fn loss(&self, tensor: Tensor, weights: &[f32]) -> f64 {
        let ranks = self.after(1, |number, rank| match tensor {
            Tensor::Dense(index) if rank.parameters.place(index).is_some() => {
                rank.parameters.set_weights(index, weights).unwrap();
            }
            Tensor::Shard { rank: holder, table } if holder == number => {
                rank.tables[table].weights.write(0, weights).unwrap();
            }
            _ => {}
        });
        ranks.iter().map(|(_, losses)| losses[0]).sum::<f64>() / self.run.batch as f64
    }

    /// All tensors, with their names.
    fn tensors(&self) -> Vec<(Tensor, String)> {
        let Run { model, placement, .. } = &self.run;
        let list = model.dense_parameter_list().into_iter().enumerate();
        let dense = list.map(|(index, parameter)| (Tensor::Dense(index), parameter.name));
        let shards = (0..placement.topology().ranks()).flat_map(|rank| {
            let held = placement.owned_by(rank).iter().enumerate();
            held.map(move |(table, shard)| {
                let name = &model.features()[shard.feature].name;
                (Tensor::Shard { rank, table }, format!("{name} {:?} × {:?}", shard.rows, shard.columns))
            })
        });
        dense.chain(shards).collect()
    }
}

/// The weights of `tensor` and its gradient: what one step of SGD at rate 1 takes off a table, and what it leaves in the
/// buckets of the dense layers.
fn weights_and_gradient(
    tensor: Tensor,
    before: &[(RankState, Vec<f64>)],
    after: &[(RankState, Vec<f64>)],
) -> (Vec<f32>, Vec<f32>) {
    match tensor {
        Tensor::Dense(index) => {
            let here = |(rank, _): &(RankState, _)| rank.parameters.place(index).is_some();
            let home = before.iter().position(here).expect("some rank has every parameter");
            (
                before[home].0.parameters.weights(index).unwrap(),
                after[home].0.parameters.gradient(index).unwrap(),
            )
        }
        Tensor::Shard { rank, table } => {
            let weights = before[rank].0.tables[table].weights.to_vec().unwrap();
            let moved = after[rank].0.tables[table].weights.to_vec().unwrap();
            let gradient = weights.iter().zip(moved).map(|(w, v)| w - v).collect();
            (weights, gradient)
        }
    }
}

fn check(config: Config) {
    check_with(config, false);
}

/// Two labels, of which the second counts half, sample weights of ½ to 1½, and clicks that count twice.
fn with_labels(mut run: Run, log: &SyntheticLog) -> (Run, Batch) {
    let label = |name: &str, weight| ModelLabel { name: name.into(), weight };
    run.model = run.model.with_labels(vec![label("click", 1.0), label("buy", 0.5)]).unwrap();
    (run.sample_weights, run.positive_weight) = (true, 2.0);
    let mut batch = Batch::default();
    log.clone().fill(0..run.batch as u64, &mut batch);
    let both = |(i, &label): (usize, &f32)| [label, f32::from(i % 5 == 0)];
    batch.labels = batch.labels.iter().enumerate().flat_map(both).collect();
    batch.sample_weights = (0..batch.samples).map(|i| 0.5 + (i % 5) as f32 / 4.0).collect();
    (run, batch)
}

fn check_with(mut config: Config, labels: bool) {
    // Many samples, so that the kinks of ReLUs average out.
    config.train.batch = Some(480);
    config.optimizer.tables = Some(optimizer(UpdateRule::Sgd, 1.0));
    let run = planning::check(&config).unwrap();
    let log = synthetic_log(&run, Split::Train);
    let trial = match labels {
        false => Trial { log, run, batch: None },
        true => {
            let (run, batch) = with_labels(run, &log);
            Trial { log, run, batch: Some(batch) }
        }
    };
    let (before, after) = (trial.after(0, |_, _| ()), trial.after(1, |_, _| ()));
    for (tensor, name) in trial.tensors() {
        let (weights, gradient) = weights_and_gradient(tensor, &before, &after);
        let norm = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        assert!(norm > 1e-3, "the gradient of {name} is {norm}, too small to be checked");
        let moved = |by: f64, direction: &[f32]| -> Vec<f32> {
            weights.iter().zip(direction).map(|(w, d)| w + (by * f64::from(*d)) as f32).collect()
        };
        // Along the gradient the loss must climb by its norm; along a scrambled one by the dot product of the two.
        let scrambled: Vec<f32> = (0..gradient.len())
            .map(|i| gradient[(i * 7 + 3) % gradient.len()] * [1.0, -1.0][i % 2])
            .collect();
        for direction in [gradient.clone(), scrambled] {
            let length = direction.iter().map(|d| f64::from(*d).powi(2)).sum::<f64>().sqrt();
            let expected =
                gradient.iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum::<f64>()
                    / length;
            // Short, because a step across the kink of a ReLU bends the slope; not shorter, because losses are f32.
            let step = 1e-3;
            let up = trial.loss(tensor, &moved(step / length, &direction));
            let down = trial.loss(tensor, &moved(-step / length, &direction));
            let slope = (up - down) / (2.0 * step);
            assert!(
                (slope - expected).abs() <= 1e-2 * norm + 1e-4,
                "{name}: slope {slope}, gradient says {expected} (norm {norm})"
            );
        }
    }
}

#[test]
fn dlrm() {
    check(config(ModelKind::Dlrm, true, 1, 1));
}

#[test]
fn two_labels_and_weights() {
    check_with(config(ModelKind::Dcn, true, 1, 1), true);
}

#[test]
fn dcn_low_rank() {
    check(config(ModelKind::Dcn, true, 1, 1));
}

#[test]
fn dcn_full_rank() {
    let mut config = config(ModelKind::Dcn, true, 1, 1);
    config.model.cross_rank = Some(0);
    check(config);
}

/// Two branches and a linear term, of which the vectors get the sum of the gradients.
#[test]
fn deepfm() {
    check(config(ModelKind::DeepFm, true, 1, 1));
}

/// Without dense inputs there is no linear map, and the linear weights are those of the rows.
#[test]
fn deepfm_without_dense_inputs() {
    let mut config = config(ModelKind::DeepFm, true, 1, 1);
    config.model.dense_features = Some(0);
    config.data.synthetic.as_mut().unwrap().dense = 0.0;
    check(config);
}

/// Vectors of other lengths than the model's go through a map each: in DLRM all of them, in DeepFM on one of two ways.
#[test]
fn mixed_dims() {
    for kind in [ModelKind::Dlrm, ModelKind::DeepFm] {
        let mut config = mixed(config(kind, true, 1, 1));
        // Tables of few rows have large weights, and the maps over them large gradients.
        config.model.features.as_mut().unwrap().iter_mut().for_each(|f| f.rows = f.rows.min(8));
        check(config);
    }
}

/// The config with some tables as tensor trains: of a single id, a mean, and weighted ones.
fn with_tensor_trains(mut config: Config) -> Config {
    let features = config.model.features.as_mut().into_iter().flatten();
    for feature in features.filter(|feature| ["C0", "C2", "C4"].contains(&feature.name.as_str())) {
        // Tables of few rows have large weights, and cores large gradients.
        (feature.tt_rank, feature.rows) = (Some(3), feature.rows.min(8));
    }
    config
}

#[test]
fn tensor_trains() {
    for kind in [ModelKind::Dlrm, ModelKind::DeepFm] {
        check(with_tensor_trains(config(kind, true, 1, 1)));
    }
}

/// Cores lie beside the parameters of tower modules.
#[test]
fn tensor_trains_in_towers() {
    let mut config = with_tensor_trains(on_towers(ModelKind::Dlrm, "dlrm:c=1,p=1,d=4"));
    config.model.bottom = Some(vec![16, 4]);
    check(config);
}

/// Members of one width share a map.
#[test]
fn dmt_dlrm_of_mixed_dims() {
    let mut config = mixed(on_towers(ModelKind::Dlrm, "dlrm:c=1,p=1,d=4"));
    config.model.bottom = Some(vec![16, 4]);
    let run = planning::check(&config).unwrap();
    let names =
        |t: usize| run.model.towers()[t].parameters(t).into_iter().map(|p| p.name).collect::<Vec<_>>();
    assert!(names(2).contains(&"towers.2.each.5.weight".to_owned()), "{:?}", names(2));
    assert!(names(1).contains(&"towers.1.each.weight".to_owned()), "{:?}", names(1));
    check(config);
}

/// Three towers on two groups of two ranks, tables cut as the paper cuts them.
fn on_towers(kind: ModelKind, module: &str) -> Config {
    let mut config = config(kind, true, 2, 2);
    // Tables of few rows have large weights: a cross layer bends by their squares, and its gradients by their cubes.
    config.model.features.as_mut().unwrap().iter_mut().for_each(|f| f.rows = f.rows.min(8));
    let towers = [vec!["C4", "C0"], vec!["C1"], vec!["C5", "C2", "C3"]];
    let names = towers.map(|tower| tower.into_iter().map(String::from).collect());
    config.model.towers = Some(Assignment::Lists(names.into()));
    config.model.tower_module = Some(module.parse().unwrap());
    config.placement.cut = Some(Cut::Hotness);
    config
}

#[test]
fn dmt_dlrm() {
    let mut config = on_towers(ModelKind::Dlrm, "dlrm:c=1,p=1,d=4");
    config.model.bottom = Some(vec![16, 4]);
    check(config);
}

/// C1 is alone in its tower: a cross layer without a map.
#[test]
fn dmt_dcn() {
    check(on_towers(ModelKind::Dcn, "dcn:d=8,rank=3"));
}
