//! Matrix products by cuBLASLt: what is described and chosen once for each shape, then run.

use super::Cuda;
use super::algorithms::Algorithm;
use super::arrays::Scratch;
use super::blas::{Blas, Descriptors, Run, WORKSPACE};
use super::memory::{CardMemory, Pointer};
use super::stream::CardEvent;
use super::work::Work;
use crate::KernelError;
use ground::precision::Precision;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Times that a candidate runs to be measured.
const TRIALS: usize = 5;

/// A product of matrices whose columns are contiguous, as cuBLASLt counts: `d (+)= op(a)·op(b)`, where d is m × n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// How operands are stored and read.
    pub precision: Precision,
    /// Whether each operand is transposed.
    pub transposed: [bool; 2],
    /// Rows and columns of the output, and terms of a sum.
    pub sizes: [usize; 3],
    /// Elements from column to column, of both operands and the output.
    pub strides: [usize; 3],
    /// Powers of two, up to 256 bytes, that divide the addresses of both operands and the output.
    pub alignments: [u32; 3],
    /// How the output is stored.
    pub output: Form,
    /// What follows the product.
    pub epilogue: Epilogue,
    /// Whether the product is added to what is there.
    pub add: bool,
}

/// How floats are stored on the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// As f32.
    F32,
    /// As bf16.
    Bf16,
}

impl Form {
    /// Bytes of a float.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Form::F32 => size_of::<f32>(),
            Form::Bf16 => size_of::<u16>(),
        }
    }
}

/// What follows a product inside its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Epilogue {
    /// Nothing.
    None,
    /// A bias for each row of the output is added.
    Bias,
    /// As [`Epilogue::Bias`], then ReLU.
    ReluBias,
}

/// Addresses of a product's operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands {
    pub(crate) a: Pointer,
    pub(crate) b: Pointer,
    pub(crate) d: Pointer,
    /// Bias, with an epilogue that adds one; stored as the output is.
    pub(crate) bias: Option<Pointer>,
}

impl fmt::Display for Product {
    /// The product in words, as the file of pinned algorithms has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |transposed: bool| if transposed { 't' } else { 'n' };
        let ([m, n, k], [a, b, d]) = (self.sizes, self.strides);
        let [x, y, z] = self.alignments;
        let operation = [letter(self.transposed[0]), letter(self.transposed[1])].map(String::from).concat();
        write!(
            f,
            "{} {operation} {m}x{n}x{k} strides {a},{b},{d} aligned {x},{y},{z}",
            self.precision.name()
        )?;
        f.write_str(match self.output {
            Form::F32 => "",
            Form::Bf16 => " to bf16",
        })?;
        f.write_str(match self.epilogue {
            Epilogue::None => "",
            Epilogue::Bias => " bias",
            Epilogue::ReluBias => " relu-bias",
        })?;
        f.write_str(if self.add { " add" } else { "" })
    }
}

/// Largest power of two, up to 16, that divides an address. Algorithms differ by whether a thread may load 16 bytes at once; were more told
/// apart, the same product at two addresses could have two algorithms, and so two results.
pub fn alignment(address: Pointer) -> u32 {
    1 << (address.0 | 16).trailing_zeros()
}

/// Products that a rank has run before.
#[derive(Default)]
pub(crate) struct Products(HashMap<Product, Arc<Plan>>);

/// A product with its algorithm.
pub(crate) struct Plan {
    product: Product,
    descriptors: Mutex<Descriptors>,
    algorithm: Algorithm,
    /// Whether the epilogue is part of it.
    fused: bool,
}

impl Plan {
    /// Puts the product into its queue.
    pub(crate) fn run(&self, blas: &Blas, run: Run, bias: Option<u64>) -> Result<(), KernelError> {
        let mut descriptors = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bias) = bias {
            descriptors.set_bias(bias)?;
        }
        descriptors.run(blas, &self.algorithm, run)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({})", self.product)
    }
}

impl fmt::Debug for Products {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Products({})", self.0.len())
    }
}

impl Cuda {
    /// Runs a product. Gives false where the epilogue remains to be done, because no algorithm has it.
    pub(crate) fn product(&self, product: Product, operands: Operands) -> Result<bool, KernelError> {
        self.product_onto(product, operands, operands.d)
    }

    /// As [`Cuda::product`], but what the product is added to lies at `c`, stored and aligned as the output is.
    pub(crate) fn product_onto(
        &self,
        product: Product,
        operands: Operands,
        c: Pointer,
    ) -> Result<bool, KernelError> {
        let run = Run {
            a: operands.a.0,
            b: operands.b.0,
            c: c.0,
            d: operands.d.0,
            workspace: self.scratch(Scratch::Workspace, WORKSPACE)?.0,
            queue: self.stream().queue(),
        };
        let mut products = self.products();
        let plan = match products.0.entry(product) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(new) => {
                // Candidates are measured in the queue.
                self.place().flush()?;
                new.insert(Arc::new(self.plan(&product, run, operands.bias)?)).clone()
            }
        };
        let (fused, bias) = (plan.fused, operands.bias.filter(|_| plan.fused).map(|bias| bias.0));
        self.counters().launched();
        self.place().put(Work::Product { plan, run, bias })?;
        Ok(fused || product.epilogue == Epilogue::None)
    }

    /// Describes a product and finds its algorithm; without the epilogue where no algorithm has it.
    fn plan(&self, product: &Product, run: Run, bias: Option<Pointer>) -> Result<Plan, KernelError> {
        let blas = self.gpu().blas();
        let mut epilogue = product.epilogue;
        let (descriptors, candidates) = loop {
            let mut descriptors = Descriptors::new(product, epilogue)?;
            if let (true, Some(bias)) = (epilogue != Epilogue::None, bias) {
                descriptors.set_bias(bias.0)?;
            }
            let candidates = descriptors.candidates(blas, product.alignments)?;
            if !candidates.is_empty() {
                break (descriptors, candidates);
            }
            if epilogue == Epilogue::None {
                return Err(KernelError::Device(format!(
                    "cuBLASLt has no algorithm for the product {product}"
                )));
            }
            epilogue = Epilogue::None;
        };
        let name = format!(
            "{}, cuBLASLt {}: {}",
            self.gpu().name(),
            blas.version(),
            Product { epilogue, ..*product }
        );
        let algorithm = blas.algorithms.pick(
            &name,
            |algorithm| descriptors.allows(blas, algorithm),
            || self.choose(product, &descriptors, &candidates, run),
        )?;
        let (product, descriptors) = (*product, Mutex::new(descriptors));
        Ok(Plan { product, descriptors, algorithm, fused: epilogue != Epilogue::None })
    }

    /// The fastest candidate, or the first where nothing is measured. The output is overwritten, unless the product is added to it.
    fn choose(
        &self,
        product: &Product,
        descriptors: &Descriptors,
        candidates: &[Algorithm],
        run: Run,
    ) -> Result<Algorithm, KernelError> {
        if candidates.len() == 1 || !self.gpu().options().tune {
            return Ok(candidates[0]);
        }
        // Sums go to memory of their own, if there is any.
        let bytes = if product.add { product.strides[2] * product.sizes[1] * size_of::<f32>() } else { 0 };
        let Ok(trial) = CardMemory::zeroed(self.place(), bytes) else { return Ok(candidates[0]) };
        let (to, in_place) = (trial.address().0, run.c == run.d);
        let run = if product.add { Run { c: if in_place { to } else { run.c }, d: to, ..run } } else { run };
        let blas = self.gpu().blas();
        let (begin, end) = (CardEvent::new(self.place())?, CardEvent::new(self.place())?);
        let mut best = None;
        for candidate in candidates {
            // The first run loads the kernel. An algorithm that cannot run after all is none.
            if descriptors.run(blas, candidate, run).is_err() {
                continue;
            }
            begin.record(self.stream())?;
            for _ in 0..TRIALS {
                descriptors.run(blas, candidate, run)?;
            }
            end.record(self.stream())?;
            end.synchronise()?;
            let time = end.since(&begin)?;
            if best.is_none_or(|(fastest, _)| time < fastest) {
                best = Some((time, *candidate));
            }
        }
        Ok(best.map_or(candidates[0], |(_, candidate)| candidate))
    }
}
