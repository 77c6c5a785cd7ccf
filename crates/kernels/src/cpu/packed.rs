//! Matrices of linear maps, packed once for all products that read them until their weights change.
//!
//! Panels of the forward product lie first, those of the product that gives the input's gradient behind them: of bf16 where products of
//! the pool's precision read such panels ([`super::matrix`]), otherwise of floats ([`super::gemm`]).

use super::Cpu;
use super::gemm::RightPanels;
use super::level::Level;
#[cfg(target_arch = "x86_64")]
use super::matrix;
use super::pack::Operand;
#[cfg(target_arch = "x86_64")]
use super::panels::Form;
use super::units::Units;
use super::values::Values;
use crate::op::Result;
use crate::op::packed::Packing;
use crate::{LinearAt, LinearShape, PackLinear, PackedLinear};
use ground::precision::Precision;

/// Panels of the right operand of one product.
#[derive(Clone, Copy)]
enum Side {
    Floats(RightPanels),
    #[cfg(target_arch = "x86_64")]
    Bf16 {
        form: Form,
        columns: usize,
    },
}

impl Side {
    /// Panels of `columns` columns and `terms` terms, as products in `precision` read them with these instructions.
    fn new((level, units): (Level, Units), precision: Precision, columns: usize, terms: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(form) = matrix::form(units, precision, terms) {
            return Self::Bf16 { form, columns };
        }
        let _ = (units, precision);
        Self::Floats(RightPanels::new(level, columns, terms))
    }

    /// Length of the panels, in numbers of 16 bits.
    fn numbers(self) -> usize {
        match self {
            Self::Floats(panels) => panels.floats() * (size_of::<f32>() / size_of::<u16>()),
            #[cfg(target_arch = "x86_64")]
            Self::Bf16 { form, columns } => form.panels(columns),
        }
    }

    fn pack(self, cpu: &Cpu, operand: Operand, to: &mut [u16]) {
        match self {
            Self::Floats(panels) => panels.pack(cpu, operand, bytemuck::cast_slice_mut(to)),
            #[cfg(target_arch = "x86_64")]
            Self::Bf16 { form, columns } => matrix::pack_right(cpu, operand, columns, 0, form, to),
        }
    }
}

/// Both sides of a map's matrix: for the forward product, and for the input's gradient.
fn sides(instructions: (Level, Units), precision: Precision, inputs: usize, outputs: usize) -> [Side; 2] {
    [[outputs, inputs], [inputs, outputs]]
        .map(|[columns, terms]| Side::new(instructions, precision, columns, terms))
}

/// Packs the matrix of a linear map. Maps with one output are no matrix products, and read the matrix itself.
pub(crate) fn pack_linear(cpu: &Cpu, args: &mut PackLinear) -> Result {
    let LinearShape { inputs, outputs, .. } = args.shape;
    args.packed.clear();
    if outputs <= 1 {
        return Ok(());
    }
    let [forward, input_gradient] = sides((cpu.level, cpu.units), cpu.precision, inputs, outputs);
    let backward = args.backward;
    args.packed.panels.resize(forward.numbers() + if backward { input_gradient.numbers() } else { 0 })?;
    let (w, _) = LinearAt { bias: None, ..args.at }.find(args.shape, args.parameters.host());
    let (front, back) = args.packed.panels.host_mut().split_at_mut(forward.numbers());
    forward.pack(cpu, Operand { data: Values::Plain(w), stride: inputs, by_k: false }, front);
    if backward {
        input_gradient.pack(cpu, Operand { data: Values::Plain(w), stride: inputs, by_k: true }, back);
    }
    let instructions = cpu.matrix_instructions();
    args.packed.made = Some(Packing { inputs, outputs, precision: cpu.precision, instructions, backward });
    Ok(())
}

/// Bytes of the panels of a linear map's matrix on this machine's cores.
pub(crate) fn bytes(shape: LinearShape, precision: Precision, backward: bool) -> usize {
    let LinearShape { inputs, outputs, .. } = shape;
    if outputs <= 1 {
        return 0;
    }
    let [forward, input_gradient] = sides((Level::detect(), Units::detect()), precision, inputs, outputs);
    (forward.numbers() + if backward { input_gradient.numbers() } else { 0 }) * size_of::<u16>()
}

/// Panels of the forward product; `None` where there are none for this pool's products.
pub(crate) fn forward<'a>(cpu: &Cpu, packed: Option<&'a PackedLinear>) -> Option<&'a [u16]> {
    panels(cpu, packed).map(|(panels, forward, _)| &panels[..forward])
}

/// Panels of the product that gives the input's gradient; `None` where there are none for this pool's products.
pub(crate) fn backward<'a>(cpu: &Cpu, packed: Option<&'a PackedLinear>) -> Option<&'a [u16]> {
    panels(cpu, packed).filter(|of| of.2).map(|(panels, forward, _)| &panels[forward..])
}

/// All panels, the length of those of the forward product, and whether there are others.
fn panels<'a>(cpu: &Cpu, packed: Option<&'a PackedLinear>) -> Option<(&'a [u16], usize, bool)> {
    let packed = packed?;
    let Packing { inputs, outputs, backward, .. } = packed
        .made
        .filter(|made| made.precision == cpu.precision && made.instructions == cpu.matrix_instructions())?;
    let [forward, _] = sides((cpu.level, cpu.units), cpu.precision, inputs, outputs);
    Some((packed.panels.host(), forward.numbers(), backward))
}
