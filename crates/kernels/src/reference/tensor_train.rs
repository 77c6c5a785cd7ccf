//! Tensor trains, one number at a time, in f64.

use super::embedding::{bag, check};
use crate::op::need;
use crate::{KernelError, LookupTensorTrains, TensorTrainAt, TensorTrainGradients};
use ground::Pooling;

/// Cores of a train among the parameters.
pub(crate) fn cores_of<'a>(at: &TensorTrainAt, parameters: &'a [f32]) -> [&'a [f32]; 3] {
    let lens = at.train.cores();
    [0, 1, 2].map(|core| &parameters[at.cores[core]..][..lens[core]])
}

/// Refuses bags past the values, and ids past the end of their table.
pub(crate) fn check_ids(args: &LookupTensorTrains) -> Result<(), KernelError> {
    let values = args.values.host();
    for at in args.trains {
        for s in 0..args.samples {
            for value in bag(args.index, at.table, s) {
                need("lookup_tensor_trains", "values", value + 1, values.len())?;
                check(at.table, &args.tables[at.table], values[value])?;
            }
        }
    }
    Ok(())
}

/// Pooled vectors: `out[s, columns[t]..] = Σᵢ weightᵢ·row(idᵢ)` over the ids of bag (t, s), divided by their number for mean pooling.
pub fn lookup_tensor_trains(args: LookupTensorTrains) -> Result<(), KernelError> {
    check_ids(&args)?;
    let (values, weights) = (args.values.host(), args.weights.map(|weights| weights.host()));
    let out = args.out.host_mut();
    for at in args.trains {
        let (cores, table) = (cores_of(at, args.parameters.host()), &args.tables[at.table]);
        let mut row = vec![0.0; at.train.width];
        for s in 0..args.samples {
            let bag = bag(args.index, at.table, s);
            let out = &mut out[s * args.width + args.columns[at.table]..][..at.train.width];
            out.fill(0.0);
            let count = bag.len();
            for value in bag {
                at.train.row(cores, values[value] as usize, &mut row);
                let weight = weights.map_or(1.0, |weights| weights[value]);
                out.iter_mut().zip(&row).for_each(|(out, row)| *out += weight * row);
            }
            if table.pooling == Pooling::Mean && count > 1 {
                out.iter_mut().for_each(|out| *out /= count as f32);
            }
        }
    }
    Ok(())
}

/// Refuses rows past the end of their table.
pub(crate) fn check_rows(args: &TensorTrainGradients) -> Result<(), KernelError> {
    let rows = args.rows.host();
    for (at, of) in args.trains.iter().zip(args.runs.bounds.windows(2)) {
        rows[of[0]..of[1]]
            .iter()
            .try_for_each(|&row| check(at.table, &args.tables[at.table], row).map(|_| ()))?;
    }
    Ok(())
}

/// Gradients of the cores, by the formulas of [`Device::tensor_train_gradients`](crate::Device::tensor_train_gradients).
pub fn tensor_train_gradients(args: TensorTrainGradients) -> Result<(), KernelError> {
    check_rows(&args)?;
    let (rows, mut sums) = (args.rows.host(), args.sums.host());
    for (at, of) in args.trains.iter().zip(args.runs.bounds.windows(2)) {
        let (train, cores) = (at.train, cores_of(at, args.parameters.host()));
        let ([_, b, c], rank, slices) = (train.columns, train.rank, train.slices());
        let mut gradients = train.cores().map(|len| vec![0.0f64; len]);
        for &row in &rows[of[0]..of[1]] {
            let (d, rest) = sums.split_at(train.width);
            sums = rest;
            let starts = {
                let digits = train.digits(row as usize);
                [0, 1, 2].map(|core| digits[core] * slices[core])
            };
            let weight = |core: usize, i: usize| f64::from(cores[core][starts[core] + i]);
            for (column, &d) in d.iter().enumerate() {
                let (i, j, k) = (column / (b * c), column / c % b, column % c);
                for r in 0..rank {
                    for s in 0..rank {
                        let places = [i * rank + r, (r * b + j) * rank + s, k * rank + s];
                        let [x, y, z] = [0, 1, 2].map(|core| weight(core, places[core]));
                        let shares = [y * z, x * z, x * y];
                        for core in 0..3 {
                            gradients[core][starts[core] + places[core]] += f64::from(d) * shares[core];
                        }
                    }
                }
            }
        }
        let to = args.gradient.host_mut();
        for (core, gradient) in gradients.iter().enumerate() {
            let to = &mut to[at.cores[core]..][..gradient.len()];
            to.iter_mut().zip(gradient).for_each(|(to, &from)| *to = from as f32);
        }
    }
    Ok(())
}
