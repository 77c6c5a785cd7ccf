//! Updates of dense parameters.

use super::Cuda;
use super::arrays::Scratch;
use super::rule::Rule;
use crate::UpdateDense;
use crate::op::Result;

/// Elements of a chunk of a tensor, which one block has: `CHUNK` of `kernels/optimizer.cu`.
const CHUNK: usize = 4096;

pub(super) fn update_dense(cuda: &Cuda, args: UpdateDense) -> Result {
    let (rule, len) = (Rule::dense(args.update), args.weights.len());
    if rule.is_lamb() {
        return lamb(cuda, rule, args);
    }
    cuda.kernel("update_dense")
        .grid(cuda.blocks_for(len))
        .words(&rule.words())
        .arg(len)
        .arg(args.weights)
        .arg(args.gradient)
        .arg(args.state)
        .launch()
}

/// One update by LAMB: what comes before the rule, then moments and norms, then the rate of each tensor, then weights.
fn lamb(cuda: &Cuda, rule: Rule, args: UpdateDense) -> Result {
    let len = args.weights.len();
    if rule.precedes() {
        cuda.kernel("before_the_rule")
            .grid(cuda.blocks_for(len))
            .words(&rule.words())
            .arg(len)
            .arg(&*args.weights)
            .arg(&*args.gradient)
            .launch()?;
    }
    let mut chunks = 0;
    let mut tensors: Vec<[u64; 3]> = Vec::with_capacity(args.tensors.len());
    for tensor in args.tensors.iter().filter(|tensor| !tensor.is_empty()) {
        tensors.push([tensor.start as u64, tensor.end as u64, chunks as u64]);
        chunks += tensor.len().div_ceil(CHUNK);
    }
    let (list, count) = (cuda.constant(&tensors)?, tensors.len() as u32);
    let norms =
        cuda.scratch(Scratch::Sums, 2 * chunks * size_of::<f64>() + tensors.len() * size_of::<f32>())?;
    let rates = norms.plus(2 * chunks * size_of::<f64>());
    cuda.kernel("lamb_moments")
        .grid(chunks)
        .words(&rule.words())
        .arg(list)
        .arg(count)
        .arg(len)
        .arg(&*args.weights)
        .arg(&*args.gradient)
        .arg(&*args.state)
        .arg(norms)
        .launch()?;
    cuda.kernel("lamb_rates")
        .grid(tensors.len())
        .words(&rule.words())
        .arg(list)
        .arg(chunks)
        .arg(count)
        .arg(norms)
        .arg(rates)
        .launch()?;
    cuda.kernel("lamb_weights")
        .grid(chunks)
        .words(&rule.words())
        .arg(list)
        .arg(count)
        .arg(len)
        .arg(args.weights)
        .arg(&*args.state)
        .arg(rates)
        .launch()
}
