//! What travels between ranks, and how it is laid out. No layer mathematics.

mod exchange;
mod flat;
mod input;
mod order;
mod sptt;
mod tables;
mod vectors;

pub use exchange::{Exchange, Payload, PendingExchange};
pub use flat::Flat;
pub use input::Input;
pub use sptt::Sptt;
pub use tables::allocate;
pub use vectors::Vectors;

use crate::Error;
use kernels::{Buffer, ColumnCopy, Device, Table, Update, UpdateTables};
use spec::optimizer::UpdateRule;
use spec::volume::Leg;
use std::ops::Range;

/// How vectors get from the tables to the samples.
#[derive(Debug)]
pub enum Dataflow {
    /// Over the world, at once.
    Flat(Box<Flat>),
    /// By way of tower groups.
    Sptt(Box<Sptt>),
}

impl Dataflow {
    /// SPTT; a schedule asks only for phases of its own dataflow.
    pub fn sptt(&mut self) -> &mut Sptt {
        match self {
            Dataflow::Sptt(sptt) => sptt,
            Dataflow::Flat(_) => unreachable!("a phase of SPTT in a schedule of the flat dataflow"),
        }
    }

    /// The vectors of a leg; a schedule asks only for legs of its own dataflow.
    pub fn leg(&mut self, leg: Leg) -> &mut Vectors {
        match (leg, self) {
            (Leg::Pooled, Dataflow::Flat(flat)) => &mut flat.pooled,
            (Leg::Gradient, Dataflow::Flat(flat)) => &mut flat.gradients,
            (Leg::Group, Dataflow::Sptt(sptt)) => &mut sptt.gathered,
            (Leg::Peer, Dataflow::Sptt(sptt)) => &mut sptt.leaving,
            (Leg::PeerGradient, Dataflow::Sptt(sptt)) => &mut sptt.returned,
            (Leg::GroupGradient, Dataflow::Sptt(sptt)) => &mut sptt.gathered_gradients,
            (leg, _) => unreachable!("the {leg} exchange is of the other dataflow"),
        }
    }
}

/// The update of tables in one step.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The rule.
    pub rule: UpdateRule,
    /// The rate.
    pub rate: f32,
    /// Which step it is, from 1.
    pub number: u64,
}

impl Step {
    /// Updates the tables `which` by the gradients of their vectors, which stand side by side in `gradients`.
    fn update(
        &self,
        device: &Device,
        tables: &mut [Table],
        which: Range<usize>,
        columns: &[usize],
        width: usize,
        input: &Input,
        gradients: &Buffer<f32>,
    ) -> Result<(), Error> {
        let Self { rule, rate, number } = self;
        let (index, sorted, weights) = (&input.index, &input.sorted, input.weights());
        Ok(device.update_tables(UpdateTables {
            tables,
            which,
            columns,
            width,
            index,
            sorted,
            weights,
            dout: gradients,
            update: Update { rule: *rule, rate: *rate, step: *number },
        })?)
    }
}

/// The same columns, the other way.
fn reversed(copies: Vec<ColumnCopy>) -> Vec<ColumnCopy> {
    copies.into_iter().map(|c| ColumnCopy { from: c.to, to: c.from, ..c }).collect()
}

/// Joins copies that continue each other.
fn merge(copies: Vec<ColumnCopy>) -> Vec<ColumnCopy> {
    let mut merged: Vec<ColumnCopy> = Vec::new();
    for copy in copies {
        match merged.last_mut() {
            Some(last) if last.from + last.width == copy.from && last.to + last.width == copy.to => {
                last.width += copy.width;
            }
            _ => merged.push(copy),
        }
    }
    merged
}
