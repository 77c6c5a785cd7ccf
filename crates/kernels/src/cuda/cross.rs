//! Cross layers on the card: the passes around their products read and write every value once; `kernels/cross.cu`.

use super::Cuda;
use super::arrays::Scratch;
use super::beside::Beside;
use super::chain::{bias_sums, map_of};
use super::cross_product;
use super::gradient::SUM_ROWS;
use super::linear::{Gradient, Map, Sums};
use super::memory::Pointer;
use super::operand::{LaterSums, Rows, Values, parts};
use super::product::{Epilogue, Form, Operands, Product, alignment};
use crate::backend::cross_layers_one_by_one;
use crate::op::Result;
use crate::{
    Buffer, CrossInputs, CrossKept, CrossLayerBackward, CrossLayersBackward, CrossLayersForward, CrossMaps,
    CrossX0Gradient, InputGradient, LinearShape,
};

/// Layers whose shares of the gradient of `x0` a pass adds up.
const LAYERS: usize = 4;

pub(super) fn forward(cuda: &Cuda, args: CrossLayersForward) -> Result {
    let CrossLayersForward { rows, layers, x0, x, kept } = args;
    let width = layers.first().map_or(0, |layer| layer.w.outputs);
    let (x0, mut x) = (Values::of(x0, width), Values::of(x, width));
    for (maps, kept) in layers.iter().zip(kept) {
        let (z, out) = (Values::of(&kept.z, width), Values::of(&kept.output, width));
        let mut inner = x;
        if let Some(v) = &maps.v {
            inner = Values::of(&kept.h, v.outputs);
            map_of(v, rows).forward(cuda, x, false, inner)?;
        }
        let w = map_of(&maps.w, rows);
        if !cross_product::forward(cuda, &w, inner, [x0, x], [z, out])? {
            w.forward(cuda, inner, false, z)?;
            output(cuda, rows, [x0, z, x], out)?;
        }
        x = out;
    }
    Ok(())
}

pub(super) fn backward(cuda: &Cuda, args: CrossLayerBackward) -> Result {
    let CrossLayerBackward { rows, maps, kept, gradients, .. } = args;
    let width = maps.w.outputs;
    let [x0, x, z, g, dz] =
        [args.x0, args.x, &kept.z, &*args.gradient, &*args.dz].map(|of| Values::of(of, width));
    let (share, to) = match &args.inputs {
        CrossInputs::Summed { dx0, accumulate, .. } => {
            (Some(Share { z, dx0: Values::of(dx0, width), accumulate: *accumulate }), g)
        }
        CrossInputs::Kept { dx } => (None, Values::of(dx, width)),
    };
    let (w, v) = (map_of(&maps.w, rows), maps.v.as_ref().map(|v| map_of(v, rows)));
    let floats = w.floats_of_sums() + v.as_ref().map_or(0, Map::floats_of_sums);
    let (mut later, beside) = (LaterSums::new(cuda, floats)?, Beside::new(cuda));
    let sums = gradient_of_z(cuda, rows, [x0, g, dz], share, (bias_sums(&maps.w, gradients), &mut later))?;
    match v {
        Some(v) => {
            let [h, dh] = [&kept.h, &*args.dh].map(|of| Values::of(of, v.shape.outputs));
            let set = Gradient { to: dh, into: InputGradient::default(), sums: None };
            w.backward((cuda, &beside), h, dz, Some(set), sums, (gradients, &mut later))?;
            let onto = onto(cuda, &v, dh, g, to)?;
            v.backward((cuda, &beside), x, dh, onto, Sums::Missing, (gradients, &mut later))?;
        }
        None => {
            let onto = onto(cuda, &w, dz, g, to)?;
            w.backward((cuda, &beside), x, dz, onto, sums, (gradients, &mut later))?;
        }
    }
    later.add()?;
    beside.join()?;
    match args.inputs {
        CrossInputs::Summed { dx0, first: true, .. } => add(cuda, rows, to, Values::of(dx0, width)),
        CrossInputs::Summed { .. } | CrossInputs::Kept { .. } => Ok(()),
    }
}

/// All layers, last first. The product that gives the gradient of a layer's input also gives that of the `z` below, and the last one
/// adds up the gradient of `x0`, where the card has kernels for it.
pub(super) fn layers_backward(cuda: &Cuda, args: CrossLayersBackward) -> Result {
    if !go_together(cuda, &args) {
        return cross_layers_one_by_one(cuda, args);
    }
    let CrossLayersBackward { rows, layers, kept, of_outputs, gradients, .. } = args;
    let (width, top) = (layers[0].w.outputs, layers.len() - 1);
    let x0 = Values::of(args.x0, width);
    // Gradients of `z` of layers that follow each other take turns: the gradient of the first layer's input is never stored.
    let rooms = [&*args.dz, &of_outputs[0]].map(|room| Values::of(room, width));
    let of_output = |i: usize| Values::of(&of_outputs[i + 1], width);
    let maps = |i: usize| (map_of(&layers[i].w, rows), layers[i].v.as_ref().map(|v| map_of(v, rows)));
    let floats = (0..=top).map(maps);
    let floats = floats.map(|(w, v)| w.floats_of_sums() + v.as_ref().map_or(0, Map::floats_of_sums)).sum();
    let (mut later, beside) = (LaterSums::new(cuda, floats)?, Beside::new(cuda));
    let bias = bias_sums(&layers[top].w, gradients);
    let mut sums = gradient_of_z(cuda, rows, [x0, of_output(top), rooms[0]], None, (bias, &mut later))?;
    for i in (0..=top).rev() {
        let (dz, below) = (rooms[(top - i) % 2], rooms[(top - i + 1) % 2]);
        let x = if i == 0 { x0 } else { Values::of(&kept[i - 1].output, width) };
        if i < top {
            // What reads gradients of the layer above, whose rooms are about to be overwritten.
            beside.wait()?;
        }
        let (w, v) = maps(i);
        let (map, dy) = match v {
            Some(v) => {
                let [h, dh] = [&kept[i].h, &*args.dh].map(|of| Values::of(of, v.shape.outputs));
                let set = Gradient { to: dh, into: InputGradient::default(), sums: None };
                w.backward((cuda, &beside), h, dz, Some(set), sums, (gradients, &mut later))?;
                v.parameters_backward(&beside, x, dh, Sums::Missing, (gradients, &mut later))?;
                (v, dh)
            }
            None => {
                w.parameters_backward(&beside, x, dz, sums, (gradients, &mut later))?;
                (w, dz)
            }
        };
        beside.mark()?;
        if i == 0 {
            let shares = (0..=top).rev().map(|i| [of_output(i), Values::of(&kept[i].z, width)]);
            let shares: Vec<[Values; 2]> = shares.collect();
            cross_product::last(cuda, &map, dy, &shares, Values::of(args.dx0, width))?;
            break;
        }
        let bias = bias_sums(&layers[i - 1].w, gradients);
        let parts = bias.map(|bias| later.room(rows.div_ceil(SUM_ROWS), width, bias)).transpose()?;
        let (read, written) = ([of_output(i), x0], [of_output(i - 1), below]);
        cross_product::backward(cuda, &map, dy, read, written, parts)?;
        sums = if bias.is_some() { Sums::Done } else { Sums::Missing };
    }
    later.add()?;
    beside.join()
}

/// Whether all layers can go back by kernels that take a product with what surrounds it.
fn go_together(cuda: &Cuda, args: &CrossLayersBackward) -> bool {
    let CrossLayersBackward { rows, layers, kept, .. } = *args;
    let width = layers[0].w.outputs;
    let wide = |of: &Buffer<f32>| Values::of(of, width);
    let dx0 = wide(args.dx0);
    let fits = |(i, (maps, kept)): (usize, (&CrossMaps, &CrossKept))| {
        let inner = maps.w.inputs;
        let [h, dh] = [&kept.h, &*args.dh].map(|of| Values::of(of, inner));
        // Nothing here reads the output of the last layer.
        let output = if i + 1 == layers.len() { args.x0 } else { &kept.output };
        let values = [wide(args.x0), wide(args.dz), wide(&kept.z), wide(output), h, dh];
        // At full rank there is neither `h` nor its gradient.
        let values = if maps.v.is_some() { &values[..] } else { &values[..4] };
        let (w, v) = (map_of(&maps.w, rows), maps.v.as_ref().map(|v| map_of(v, rows)));
        cross_product::fits(cuda, &w, values) && v.is_none_or(|v| cross_product::fits(cuda, &v, &[]))
    };
    let gradients = args.of_outputs.iter().map(wide);
    args.gradients.len() == 1
        && layers.len() <= cross_product::LAYERS
        && layers.iter().zip(kept).enumerate().all(fits)
        && gradients.into_iter().all(|of| of.form == Form::Bf16 && of.by_pieces())
        && dx0.form == Form::F32
        && dx0.by_pieces()
}

pub(super) fn x0_gradient(cuda: &Cuda, args: CrossX0Gradient) -> Result {
    let CrossX0Gradient { rows, width, kept, gradients, .. } = args;
    let (dx, dx0) = (Values::of(args.dx, width), Values::of(args.dx0, width));
    if gradients.is_empty() {
        return copy(cuda, rows, dx, dx0);
    }
    let pairs = kept.iter().zip(gradients).rev();
    let mut pairs = pairs.map(|(kept, g)| [Values::of(g, width), Values::of(&kept.z, width)]);
    for start in (0..gradients.len()).step_by(LAYERS) {
        let mut layers = [[dx; 2]; LAYERS];
        let count = LAYERS.min(gradients.len() - start);
        layers[..count].iter_mut().zip(&mut pairs).for_each(|(to, pair)| *to = pair);
        let last = (start + count == gradients.len()).then_some(dx);
        add_layers(cuda, rows, &layers[..count], start > 0, last, dx0)?;
    }
    Ok(())
}

/// Copies rows, each stored in its own way.
pub(super) fn copy(cuda: &Cuda, rows: usize, from: Values, to: Values) -> Result {
    if from.form == to.form {
        return cuda.stream().copy(to.at.0, from.at.0, rows * from.stride() * from.form.bytes());
    }
    from.store(cuda, rows, to)
}

/// `out = x0 ⊙ z + x`.
fn output(cuda: &Cuda, rows: usize, [x0, z, x]: [Values; 3], out: Values) -> Result {
    let (width, len) = (out.width, rows * out.width);
    let of = |form: Form| [x0, z, x].iter().all(|values| values.form == form);
    // Without padding there are no gaps in rows of floats either.
    let pieces = width.is_multiple_of(8) && alignment(out.at) >= 16;
    let launch = match out.form {
        Form::F32 if of(Form::F32) => {
            let launch = cuda.kernel("cross_forward").grid(cuda.blocks_for(len)).arg(len);
            return launch.arg(x0.at).arg(z.at).arg(x.at).arg(out.at).launch();
        }
        Form::F32 if of(Form::Bf16) && pieces => cuda.kernel("cross_output_to_f32"),
        Form::Bf16 if of(Form::Bf16) => cuda.kernel("cross_output_bf16"),
        Form::F32 | Form::Bf16 => {
            let launch = cuda.kernel("cross_output_of_any").grid(cuda.blocks_for(len));
            let launch = launch.arg(rows).arg(width as u32).words(&view(x0)).words(&view(z));
            return launch.words(&view(x)).words(&view(out)).launch();
        }
    };
    let len = rows * x0.stride();
    launch.grid(cuda.blocks_for(len)).arg(len / 8).arg(x0.at).arg(z.at).arg(x.at).arg(out.at).launch()
}

/// Share of a layer of the gradient of `x0`: `dx0 (+)= g ⊙ z`.
#[derive(Clone, Copy)]
struct Share {
    z: Values,
    dx0: Values,
    accumulate: bool,
}

/// `dz = g ⊙ x0`, and the share of `x0`, if there is one. The sums of the columns of `dz`, where the pass has them, go to `sums`.
fn gradient_of_z(
    cuda: &Cuda,
    rows: usize,
    [x0, g, dz]: [Values; 3],
    share: Option<Share>,
    (sums, later): (Option<Pointer>, &mut LaterSums),
) -> Result<Sums> {
    let (width, len) = (dz.width, rows * dz.width);
    let all = |form: Form| {
        let fits = |values: Values| values.form == form && values.by_pieces();
        [x0, g, dz].into_iter().all(fits) && share.is_none_or(|share| fits(share.z) && fits(share.dx0))
    };
    let (launch, piece) = if all(Form::F32) {
        (cuda.kernel("cross_gradients_f32"), 4)
    } else if all(Form::Bf16) {
        (cuda.kernel("cross_gradients_bf16"), 8)
    } else {
        let z = share.map_or(dz, |share| share.z);
        let launch = cuda.kernel("cross_gradients_of_any").grid(cuda.blocks_for(len));
        let launch = launch.arg(rows).arg(width as u32).words(&view(x0)).words(&view(g)).words(&view(dz));
        let launch = launch.words(&view(z)).arg(u32::from(share.is_some_and(|share| share.accumulate)));
        launch.arg(share.map(|share| share.dx0.at)).launch()?;
        return Ok(Sums::Missing);
    };
    let (part, count) = parts(rows);
    let parts = sums.map(|sums| later.room(count, width, sums)).transpose()?;
    let launch = launch.grid3([width.div_ceil(32 * piece), count, 1]).arg(rows).arg(width as u32);
    let launch = launch.arg(dz.stride() as u32).arg(x0.at).arg(g.at).arg(dz.at);
    let launch = if dz.form == Form::F32 {
        let launch = launch.arg(share.map(|share| share.z.at));
        let launch = launch.arg(u32::from(share.is_some_and(|share| share.accumulate)));
        launch.arg(share.map(|share| share.dx0.at))
    } else {
        launch
    };
    launch.arg(part).arg(parts).launch()?;
    Ok(if sums.is_some() { Sums::Done } else { Sums::Missing })
}

/// `to = from + dy·w`, where `to` may be `from`: what remains to be added to `to`, unless the product is added as it is written.
fn onto(cuda: &Cuda, map: &Map, dy: Values, from: Values, to: Values) -> Result<Option<Gradient>> {
    let LinearShape { rows, inputs, outputs } = map.shape;
    let in_place = from.at == to.at;
    if in_place || from.form != to.form || outputs <= 1 || rows * inputs == 0 {
        if !in_place {
            copy(cuda, rows, from, to)?;
        }
        let into = InputGradient { accumulate: true, relu: false };
        return Ok(Some(Gradient { to, into, sums: None }));
    }
    let (w, dy) = (map.matrix(cuda)?, Rows::new(cuda, Scratch::Left, dy, rows)?);
    let product = Product {
        precision: cuda.precision(),
        transposed: [false, false],
        sizes: [inputs, rows, outputs],
        strides: [w.stride, dy.stride, to.stride()],
        alignments: [alignment(w.at), alignment(dy.at), alignment(to.at).min(alignment(from.at))],
        output: to.form,
        epilogue: Epilogue::None,
        add: true,
    };
    cuda.product_onto(product, Operands { a: w.at, b: dy.at, d: to.at, bias: None }, from.at)?;
    Ok(None)
}

/// `y += x`, for `y` of floats.
fn add(cuda: &Cuda, rows: usize, x: Values, y: Values) -> Result {
    if x.form != Form::F32 {
        return add_layers(cuda, rows, &[], true, Some(x), y);
    }
    let len = rows * y.width;
    cuda.kernel("add").grid(cuda.blocks_for(len)).arg(len).arg(x.at).arg(y.at).launch()
}

/// `dx0 (+)= Σ g ⊙ z`, for at most [`LAYERS`] layers, then `dx0 += dx`, if there is a `dx`.
fn add_layers(
    cuda: &Cuda,
    rows: usize,
    layers: &[[Values; 2]],
    accumulate: bool,
    dx: Option<Values>,
    dx0: Values,
) -> Result {
    let (width, len) = (dx0.width, rows * dx0.width);
    let mut words = [0; 4 * LAYERS];
    for (i, &[g, z]) in layers.iter().enumerate() {
        words[2 * i..][..2].copy_from_slice(&view(g));
        words[2 * (LAYERS + i)..][..2].copy_from_slice(&view(z));
    }
    let (count, accumulate) = (layers.len() as u32, u32::from(accumulate));
    let mut read = layers.iter().flatten().chain(&dx);
    // Rows of bf16 that are not padded lie as rows of floats do.
    let pieces = width.is_multiple_of(8) && alignment(dx0.at) >= 16 && count > 0;
    if pieces && read.all(|values| values.form == Form::Bf16) {
        let launch = cuda.kernel("cross_x0_gradient_bf16").grid(cuda.blocks_for(len)).arg(len / 8);
        let launch = launch.words(&words).arg(count).arg(accumulate);
        return launch.arg(dx.map(|dx| dx.at)).arg(dx0.at).launch();
    }
    let launch = cuda.kernel("cross_x0_gradient_of_any").grid(cuda.blocks_for(len)).arg(rows);
    let launch = launch.arg(width as u32).words(&words).arg(count).arg(accumulate);
    launch.words(&dx.map_or([0; 2], view)).arg(dx0.at).launch()
}

/// Rows in either form, as `View` of `kernels/cross.cu` has them.
fn view(of: Values) -> [u64; 2] {
    [of.at.0, of.stride() as u64 | u64::from(of.form == Form::Bf16) << 32]
}
