//! Gradients of whole models, through the whole step, against finite differences of the loss.

mod common;

use common::{config, optimizer, ranks_after};
use kernels::Device;
use spec::optimizer::UpdateRule;
use spec::presets::ModelKind;
use spec::run::Run;
use training::Rank;

/// The parameters of a rank by name, with a way to read and write each.
#[derive(Clone, Copy, Debug)]
enum Tensor {
    Dense(usize),
    Table(usize),
}

fn get(rank: &Rank, tensor: Tensor) -> Vec<f32> {
    match tensor {
        Tensor::Dense(index) => rank.parameters.weights(index),
        Tensor::Table(index) => rank.tables[index].weights.to_vec(),
    }
}

fn set(rank: &mut Rank, tensor: Tensor, weights: &[f32]) {
    match tensor {
        Tensor::Dense(index) => rank.parameters.set_weights(index, weights),
        Tensor::Table(index) => rank.tables[index].weights.write(0, weights),
    }
}

/// Mean loss of the first batch with `tensor` replaced.
fn loss(run: &Run, tensor: Tensor, weights: &[f32]) -> f64 {
    let source = || common::training_source(run);
    let ranks = ranks_after(run, || Ok(Device::Reference), source, 1, |rank| set(rank, tensor, weights));
    ranks[0].1[0] / run.batch as f64
}

fn check(kind: ModelKind, full_rank: bool) {
    let mut config = config(kind, true, 1, 1);
    // Many samples, so that the kinks of ReLUs average out.
    config.train.batch = Some(480);
    if full_rank {
        config.model.cross_rank = Some(0);
    }
    config.optimizer.tables = Some(optimizer(UpdateRule::Sgd, 1.0));
    let run = config.check().unwrap();
    let source = || common::training_source(&run);

    // Initial weights: a run of no steps. Gradients: what one step of SGD at rate 1 takes off a table, and what it
    // leaves in the buckets of the dense layers.
    let (before, _) = &ranks_after(&run, || Ok(Device::Reference), source, 0, |_| ())[0];
    let (after, _) = &ranks_after(&run, || Ok(Device::Reference), source, 1, |_| ())[0];
    let dense = (0..before.parameters.list().len()).map(Tensor::Dense);
    let tables = (0..before.tables.len()).map(Tensor::Table);
    for tensor in dense.chain(tables) {
        let weights = get(before, tensor);
        let gradient: Vec<f32> = match tensor {
            Tensor::Dense(index) => after.parameters.gradient(index),
            Tensor::Table(_) => weights.iter().zip(get(after, tensor)).map(|(w, v)| w - v).collect(),
        };
        let norm = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        assert!(norm > 1e-3, "{kind:?}: the gradient of {tensor:?} is {norm}, too small to be checked");
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
            let up = loss(&run, tensor, &moved(step / length, &direction));
            let down = loss(&run, tensor, &moved(-step / length, &direction));
            let slope = (up - down) / (2.0 * step);
            assert!(
                (slope - expected).abs() <= 1e-2 * norm + 1e-4,
                "{kind:?}, {tensor:?}: slope {slope}, gradient says {expected} (norm {norm})"
            );
        }
    }
}

#[test]
fn dlrm() {
    check(ModelKind::Dlrm, false);
}

#[test]
fn dcn_low_rank() {
    check(ModelKind::Dcn, false);
}

#[test]
fn dcn_full_rank() {
    check(ModelKind::Dcn, true);
}
