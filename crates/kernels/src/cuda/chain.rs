//! Chains of linear layers on the card: each gradient of hidden units is masked in the pass that sums it for the bias below.

use super::Cuda;
use super::beside::Beside;
use super::linear::{FLOAT, Gradient, Map, Sums};
use super::memory::Pointer;
use super::operand::{LaterSums, Values, mask};
use crate::op::Result;
use crate::{Buffer, ChainBackward, ChainForward, ChainLayer, InputGradient};

pub(super) fn chain_forward(cuda: &Cuda, args: ChainForward) -> Result {
    let ChainForward { rows, layers, x, outputs } = args;
    let mut x = Values::of(x, layers[0].inputs);
    for (layer, y) in layers.iter().zip(outputs) {
        let y = Values::of(y, layer.outputs);
        map_of(layer, rows).forward(cuda, x, layer.relu(), y)?;
        x = y;
    }
    Ok(())
}

pub(super) fn chain_backward(cuda: &Cuda, args: ChainBackward) -> Result {
    let ChainBackward { rows, layers, outputs, output_gradients, activated, gradients, .. } = args;
    let last = layers.len() - 1;
    let output = |i: usize| Values::of(&outputs[i], layers[i].outputs);
    let input = |i: usize| if i == 0 { Values::of(args.x, layers[0].inputs) } else { output(i - 1) };
    let gradient = |i: usize| Values::of(&output_gradients[i], layers[i].outputs);
    let floats = layers.iter().map(|layer| map_of(layer, rows).floats_of_sums()).sum::<usize>();
    let (mut later, beside) = (LaterSums::new(cuda, floats)?, Beside::new(cuda));
    let mut sums = Sums::Missing;
    if activated && layers[last].relu() {
        let (y, dy) = (output(last), gradient(last));
        match bias_sums(&layers[last], gradients) {
            Some(to) => {
                later.mask_and_sum(rows, Some(y), dy, to)?;
                sums = Sums::Done;
            }
            None => mask(cuda, rows, y, dy)?,
        }
    }
    for i in (0..layers.len()).rev() {
        let (map, x, dy) = (map_of(&layers[i], rows), input(i), gradient(i));
        let below = match (i.checked_sub(1), &args.dx) {
            (Some(below), _) => {
                let into = InputGradient { accumulate: false, relu: layers[below].relu() };
                Some(Gradient { to: gradient(below), into, sums: bias_sums(&layers[below], gradients) })
            }
            (None, Some((dx, into))) => {
                Some(Gradient { to: Values::of(dx, layers[0].inputs), into: *into, sums: None })
            }
            (None, None) => None,
        };
        map.backward((cuda, &beside), x, dy, below, sums, (gradients, &mut later))?;
        sums = if below.is_some_and(|below| below.sums.is_some()) { Sums::Done } else { Sums::Missing };
    }
    later.add()?;
    beside.join()
}

pub(super) fn map_of(layer: &ChainLayer, rows: usize) -> Map {
    Map::new(layer.shape(rows), layer.parameters.card_address(), layer.at, layer.packed)
}

/// Where the sums of a bias go, where all samples are summed at once.
pub(super) fn bias_sums(layer: &ChainLayer, gradients: &[Buffer<f32>]) -> Option<Pointer> {
    match (layer.at.bias, gradients) {
        (Some(bias), [gradient]) => Some(gradient.card_address().plus(bias * FLOAT)),
        _ => None,
    }
}
