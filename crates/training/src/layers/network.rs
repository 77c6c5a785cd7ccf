//! The dense network of a model: blocks that run by what they read. No communication, no arithmetic of its own.
//!
//! A buffer (the dense inputs, the vectors of a sample, a block's output) may be read by several blocks. In the backward
//! pass the first of them sets the buffer's gradient and the others add to it, always in the same order: that of the blocks,
//! last first. The first must therefore read all columns.

mod inputs;

use crate::Error;
use crate::layers::dense::{Back, CrossNet, Dot, Fm, Mlp, Parameters, Project};
use inputs::{From, Inputs};
use kernels::{Buffer, Device, DotShape, Stored};
use spec::model::{self, Block, BlockName};
use std::ops::Range;

type Result<T = ()> = std::result::Result<T, Error>;

/// The blocks of a network, with the buffers that they read and fill.
#[derive(Debug)]
pub struct Network {
    nodes: Vec<Node>,
    /// The block whose output is laid out before the vectors.
    leading: Option<usize>,
    /// All vectors of each sample, behind the output of the leading block.
    pub features: Buffer<f32>,
    /// Gradient of [`features`](Self::features).
    dfeatures: Buffer<f32>,
}

/// A block at work.
#[derive(Debug)]
struct Node {
    name: BlockName,
    layers: Layers,
    inputs: Inputs,
    /// What the block reads, joined, where that is more or less than one whole buffer.
    joined: Buffer<f32>,
    /// The only block that reads the output, where that is an MLP which reads nothing else: the gradient of the output
    /// then lies in that MLP's buffer.
    gradient_in: Option<usize>,
    /// Gradient of the output, where it lies neither there nor in an MLP of this block.
    gradient: Buffer<f32>,
    /// Gradient of the input, where it must be added to that of other blocks.
    dx: Buffer<f32>,
}

/// Layers of one kind.
#[derive(Debug)]
enum Layers {
    Mlp(Mlp),
    Dot(Dot),
    Cross(CrossNet),
    Fm(Fm),
    Project(Project),
    /// The inputs are added up as they are joined.
    Sum,
}

/// The samples that go through the network.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    /// Number of samples.
    pub rows: usize,
    /// Dense inputs of the samples, row by row.
    pub dense: &'a Buffer<f32>,
    /// Position of the first sample, by which hidden units are dropped; `None` to drop none.
    pub first: Option<u64>,
}

/// Buffers of dot products that are fused with the lookup of their vectors.
#[derive(Debug)]
pub struct PairsForward<'a> {
    /// Sizes of the products.
    pub shape: DotShape,
    /// Output of the leading block, vector 0 of each sample.
    pub first: &'a Buffer<f32>,
    /// Room for the vectors of each sample.
    pub vectors: &'a mut Buffer<f32>,
    /// Receives vector 0 and the products.
    pub out: &'a mut Buffer<f32>,
}

/// Buffers of the gradients of dot products that are fused with the update of tables.
#[derive(Debug)]
pub struct PairsBackward<'a> {
    /// Sizes of the products.
    pub shape: DotShape,
    /// Output of the leading block, vector 0 of each sample.
    pub first: &'a Buffer<f32>,
    /// Gradient of vector 0 and the products.
    pub dout: &'a Buffer<f32>,
    /// Receives the gradient of the leading block's output.
    pub dfirst: &'a mut Buffer<f32>,
    /// Vectors as the lookup left them.
    pub vectors: &'a Buffer<f32>,
    /// Room for gradients of vectors.
    pub gradients: &'a mut Buffer<f32>,
}

impl Network {
    /// Instantiates the blocks of `network` over `parameters`.
    pub fn new(network: &model::Network, parameters: &Parameters) -> Result<Self> {
        let node = |(i, block): (usize, &Block)| {
            Ok(Node {
                name: block.name,
                layers: Layers::new(&block.layers, parameters)?,
                inputs: Inputs::new(network, i),
                joined: parameters.buffer(),
                gradient_in: inputs::gradient_in_reader(network, block),
                gradient: parameters.buffer(),
                dx: parameters.buffer(),
            })
        };
        let nodes = network.blocks().iter().enumerate().map(node);
        let mut nodes = nodes.collect::<Result<Vec<_>>>()?;
        keep_between_products(&mut nodes);
        Ok(Self {
            nodes,
            leading: network.leading().map(|block| inputs::position(network, block.name)),
            features: parameters.buffer(),
            dfeatures: parameters.buffer(),
        })
    }

    /// The blocks of `model`, with dropout where the model has it. `seed` is that of the run.
    pub fn with_dropout(mut self, model: &model::Model, seed: u64) -> Self {
        for (node, block) in self.nodes.iter_mut().zip(model.network().blocks()) {
            if let (Layers::Mlp(mlp), model::Layers::Mlp(layers)) = (&mut node.layers, &block.layers) {
                mlp.set_dropout(layers, model.dropout(), seed);
            }
        }
        self
    }

    /// Prepares for dot products that are fused with the lookup: the leading block's output goes to them alone.
    pub fn fuse_pairs(&mut self) {
        if let Some(leading) = self.leading
            && let Layers::Mlp(mlp) = &mut self.nodes[leading].layers
        {
            mlp.keeps_output = true;
        }
    }

    /// Buffers of dot products that are fused with the lookup, of `rows` samples.
    pub fn pairs_forward(
        &mut self,
        device: &Device,
        block: BlockName,
        rows: usize,
    ) -> Result<PairsForward<'_>> {
        let at = self.position(block)?;
        let (below, node) = self.nodes.split_at_mut(at);
        let first = self.leading.and_then(|leading| below.get(leading));
        match (first, &mut node[0].layers) {
            (Some(first), Layers::Dot(dot)) => {
                dot.make_room(device, rows)?;
                let (shape, first) = (dot.shape(rows), first.output());
                Ok(PairsForward { shape, first, vectors: &mut self.features, out: &mut dot.output })
            }
            _ => Err(Error::NoBlock { name: block }),
        }
    }

    /// Buffers of the gradients of dot products that are fused with the update of tables, of `rows` samples.
    pub fn pairs_backward(
        &mut self,
        device: &Device,
        block: BlockName,
        rows: usize,
    ) -> Result<PairsBackward<'_>> {
        let at = self.position(block)?;
        let Self { nodes, leading, features, dfeatures } = self;
        let (below, rest) = nodes.split_at_mut(at);
        let (node, above) = rest.split_at_mut(1);
        let Node { layers, gradient_in, gradient, .. } = &mut node[0];
        let dout = match gradient_in {
            Some(reader) => above[*reader - at - 1].input_gradient(),
            None => gradient,
        };
        let first = leading.and_then(|leading| below.get_mut(leading));
        match (first, layers) {
            (Some(first), Layers::Dot(dot)) => {
                let shape = dot.shape(rows);
                let (first, dfirst) = first.output_and_gradient();
                // The gradient is stored as the output is: the leading block reads both.
                let stored =
                    if first.stored() == Stored::Plain { Stored::Plain } else { device.keeps(shape.dim) };
                dfirst.resize_rows(stored, rows, shape.dim)?;
                let (vectors, gradients) = (&*features, dfeatures);
                Ok(PairsBackward { shape, first, dout, dfirst, vectors, gradients })
            }
            _ => Err(Error::NoBlock { name: block }),
        }
    }

    fn position(&self, name: BlockName) -> Result<usize> {
        let found = self.nodes.iter().position(|node| node.name == name);
        found.ok_or(Error::NoBlock { name })
    }

    /// Output of a block.
    pub fn output(&self, block: BlockName) -> Result<&Buffer<f32>> {
        Ok(self.nodes[self.position(block)?].output())
    }

    /// Output of the last block.
    pub fn logits(&self) -> &Buffer<f32> {
        self.nodes.last().expect("a network has blocks").output()
    }

    /// Output of the last block, and the buffer for its gradient.
    pub fn logits_and_gradient(&mut self) -> (&Buffer<f32>, &mut Buffer<f32>) {
        self.nodes.last_mut().expect("a network has blocks").output_and_gradient()
    }

    /// Output of the leading block, and the buffer in which it and the vectors of a sample stand side by side.
    pub fn leading_and_features(&mut self) -> (Option<&Buffer<f32>>, &mut Buffer<f32>) {
        (self.leading.map(|i| self.nodes[i].output()), &mut self.features)
    }

    /// How [`features`](Self::features) are stored where vectors are looked up in place: as their only reader keeps them, if those are
    /// cross layers. `device` gives the device that a block computes on.
    pub fn features_stored(&self, device: impl Fn(BlockName) -> Device) -> Stored {
        let reads = |node: &&Node| node.inputs.parts.iter().any(|part| part.from == From::Features);
        let mut readers = self.nodes.iter().filter(reads);
        match (readers.next(), readers.next()) {
            (Some(Node { name, layers: Layers::Cross(_), inputs, .. }), None) if inputs.whole.is_some() => {
                device(*name).keeps(inputs.width)
            }
            _ => Stored::Plain,
        }
    }

    /// Gradient of [`features`](Self::features), and the buffer for that of the leading block's output.
    pub fn features_and_leading_gradient(&mut self) -> (&Buffer<f32>, Option<&mut Buffer<f32>>) {
        let leading = self.leading.map(|i| self.nodes[i].output_and_gradient().1);
        (&self.dfeatures, leading)
    }

    /// Packs the matrices of a bucket that was updated, where operations are queued; `device` gives that of a block's precision.
    pub fn pack(
        &mut self,
        device: impl Fn(BlockName) -> Device,
        parameters: &Parameters,
        bucket: usize,
    ) -> Result {
        for Node { name, layers, .. } in &mut self.nodes {
            match layers {
                Layers::Mlp(mlp) => mlp.pack(&device(*name), parameters, bucket)?,
                Layers::Cross(cross) => cross.pack(&device(*name), parameters, bucket)?,
                Layers::Dot(_) | Layers::Fm(_) | Layers::Project(_) | Layers::Sum => {}
            }
        }
        Ok(())
    }

    /// One block forward.
    pub fn forward(
        &mut self,
        device: &Device,
        parameters: &Parameters,
        block: BlockName,
        samples: Samples<'_>,
    ) -> Result {
        let at = self.position(block)?;
        let (below, node) = self.nodes.split_at_mut(at);
        let Node { layers, inputs, joined, .. } = &mut node[0];
        let source = |from| match from {
            From::Dense => samples.dense,
            From::Features => &self.features,
            From::Block(i) => below[i].output(),
        };
        let x = match inputs.whole {
            Some(from) => source(from),
            None => {
                inputs.join(device, samples.rows, joined, source)?;
                joined
            }
        };
        match layers {
            Layers::Mlp(mlp) => mlp.forward(device, parameters, samples.rows, x, samples.first)?,
            Layers::Dot(dot) => dot.forward(device, samples.rows, x)?,
            Layers::Cross(cross) => cross.forward(device, parameters, samples.rows, x)?,
            Layers::Fm(fm) => fm.forward(device, samples.rows, x)?,
            Layers::Project(project) => project.forward(device, parameters, samples.rows, x)?,
            Layers::Sum => {}
        }
        Ok(())
    }

    /// Some layers of a block backward.
    pub fn backward(
        &mut self,
        device: &Device,
        parameters: &mut Parameters,
        block: BlockName,
        range: Range<usize>,
        samples: Samples<'_>,
    ) -> Result {
        let Samples { rows, dense, .. } = samples;
        let at = self.position(block)?;
        let Self { nodes, features, dfeatures, .. } = self;
        let (below, rest) = nodes.split_at_mut(at);
        let (node, above) = rest.split_at_mut(1);
        let Node { layers, inputs, joined, gradient_in, gradient, dx, .. } = &mut node[0];
        let gradient = match gradient_in {
            Some(reader) => above[*reader - at - 1].input_gradient(),
            None => gradient,
        };
        let complete = range.start == 0;
        // Where the block is the only reader of one buffer, its layers write the gradient of their input where it belongs.
        let straight = inputs.set_whole() && !matches!(layers, Layers::Mlp(_));
        let (input, input_gradient) = match inputs.whole {
            Some(From::Dense) => (dense, &mut *dx),
            Some(From::Features) => (&*features, if straight { &mut *dfeatures } else { &mut *dx }),
            Some(From::Block(i)) => {
                let (output, gradient) = below[i].output_and_gradient();
                (output, if straight { gradient } else { &mut *dx })
            }
            None => (&*joined, &mut *dx),
        };
        let back = Back { input, gradient: &mut *gradient, input_gradient };
        match layers {
            Layers::Mlp(mlp) => {
                if gradient_in.is_some() && range.end == mlp.count() {
                    std::mem::swap(mlp.output_and_gradient().1, back.gradient);
                }
                mlp.backward(device, parameters, rows, input, range)?;
            }
            Layers::Dot(dot) => dot.backward(device, rows, back)?,
            Layers::Cross(cross) => cross.backward(device, parameters, rows, back, range)?,
            Layers::Fm(fm) => fm.backward(device, rows, back)?,
            Layers::Project(project) => project.backward(device, parameters, rows, back, range)?,
            Layers::Sum => {}
        }
        if !complete || straight {
            return Ok(());
        }
        let given: &Buffer<f32> = match layers {
            Layers::Mlp(mlp) => &mlp.input_gradient,
            Layers::Dot(_) | Layers::Cross(_) | Layers::Fm(_) | Layers::Project(_) => dx,
            Layers::Sum => gradient,
        };
        for part in &inputs.parts {
            let to = match part.from {
                From::Dense => continue,
                From::Features => &mut *dfeatures,
                From::Block(i) => below[i].output_and_gradient().1,
            };
            part.hand_on(device, rows, given, inputs.width, to)?;
        }
        Ok(())
    }
}

/// Lets blocks hand values to an MLP, and the MLP their gradient back, as the device keeps them: where nothing but products reads
/// them.
fn keep_between_products(nodes: &mut [Node]) {
    for i in 0..nodes.len() {
        let (below, above) = nodes.split_at_mut(i + 1);
        let Some(Layers::Mlp(reader)) = below[i].gradient_in.map(|reader| &mut above[reader - i - 1].layers)
        else {
            continue;
        };
        reader.keeps_input_gradient = match &mut below[i].layers {
            Layers::Mlp(mlp) => {
                mlp.keeps_output = true;
                true
            }
            Layers::Dot(dot) => {
                dot.keeps_output = true;
                true
            }
            Layers::Cross(cross) => {
                cross.keeps_output = true;
                true
            }
            Layers::Fm(_) | Layers::Project(_) | Layers::Sum => false,
        };
    }
}

impl Layers {
    fn new(layers: &model::Layers, parameters: &Parameters) -> Result<Self> {
        Ok(match layers {
            model::Layers::Mlp(layers) => Layers::Mlp(Mlp::new(layers, parameters)?),
            model::Layers::Dot { vectors, dim } => Layers::Dot(Dot::new(parameters.space(), *vectors, *dim)),
            model::Layers::Cross { width, layers } => {
                Layers::Cross(CrossNet::new(*width, layers, parameters)?)
            }
            model::Layers::Fm { vectors, dim } => Layers::Fm(Fm::new(parameters.space(), *vectors, *dim)),
            model::Layers::Project(parts) => Layers::Project(Project::new(parts, parameters)?),
            model::Layers::Sum { .. } => Layers::Sum,
        })
    }
}

impl Node {
    fn output(&self) -> &Buffer<f32> {
        match &self.layers {
            Layers::Mlp(mlp) => mlp.output(),
            Layers::Dot(dot) => &dot.output,
            Layers::Cross(cross) => cross.output(),
            Layers::Fm(fm) => &fm.output,
            Layers::Project(project) => &project.output,
            Layers::Sum => &self.joined,
        }
    }

    /// Gradient of the input: of an MLP that leaves it where it lies, or of a block that must add it to others.
    fn input_gradient(&mut self) -> &mut Buffer<f32> {
        match &mut self.layers {
            Layers::Mlp(mlp) => &mut mlp.input_gradient,
            Layers::Dot(_) | Layers::Cross(_) | Layers::Fm(_) | Layers::Project(_) | Layers::Sum => {
                &mut self.dx
            }
        }
    }

    /// Output, and the buffer for its gradient.
    fn output_and_gradient(&mut self) -> (&Buffer<f32>, &mut Buffer<f32>) {
        let Self { layers, joined, gradient, .. } = self;
        match layers {
            Layers::Mlp(mlp) => mlp.output_and_gradient(),
            Layers::Dot(dot) => (&dot.output, gradient),
            Layers::Cross(cross) => (cross.output(), gradient),
            Layers::Fm(fm) => (&fm.output, gradient),
            Layers::Project(project) => (&project.output, gradient),
            Layers::Sum => (joined, gradient),
        }
    }
}
