//! Dataflows at run time: what ranks send to each other, and how it is laid out in buffers. No layer mathematics.
//!
//! [`Dataflow`] is the interface, with an implementation for each dataflow of a schedule: [`Flat`] and [`Sptt`].

mod carries;
mod copies;
mod exchange;
mod flat;
mod input;
mod order;
mod reduction;
mod sptt;
mod tables;
mod tensor_trains;
mod touched;
mod vectors;

pub use carries::{Carries, Payload};
pub use copies::Copies;
pub use exchange::{Exchange, PendingExchange, Sums};
pub use flat::Flat;
pub use input::{Input, LossWeights};
pub use reduction::Reduction;
pub use sptt::Sptt;
pub use tables::{TableSettings, allocate};
pub use touched::TouchedRows;
pub use vectors::{Vectors, Way};

use crate::Error;
use crate::layers::tower::Tower;
use kernels::{Buffer, ColumnCopy, Device, Stored, Table, Update};
use spec::volume::Leg;
use std::fmt;

/// How vectors get from the tables to the samples, and their gradients back.
///
/// Each method is the code behind an operation of a schedule, or says what a collective carries. Operations that only some
/// dataflows have are, in the others, an error that names the operation and the dataflow.
pub trait Dataflow: fmt::Debug + Send {
    /// Name of the dataflow, as errors give it.
    fn name(&self) -> &'static str;

    /// Data-parallel tables of this rank.
    fn copies(&mut self) -> &mut Copies;

    /// Vectors of a leg of the way.
    fn leg(&mut self, leg: Leg) -> Result<&mut Vectors, Error>;

    /// Looks up and pools samples of the world in the tables held here.
    fn lookup(&mut self, device: &Device, tables: &[Table], input: &Input) -> Result<(), Error>;

    /// Brings all vectors of this rank's samples, and the `dense` ones, into the order that the interaction sees.
    fn restore_order(
        &self,
        device: &Device,
        input: &Input,
        dense: Option<&Buffer<f32>>,
        features: &mut Buffer<f32>,
    ) -> Result<(), Error>;

    /// Lays out the gradients of this rank's vectors by where the vectors came from, and those of the dense vectors apart.
    fn split_gradients(
        &mut self,
        device: &Device,
        input: &Input,
        gradients: &Buffer<f32>,
        dense: Option<&mut Buffer<f32>>,
    ) -> Result<(), Error>;

    /// Updates the tables by the gradients that arrived: the backward pass of the lookup, fused with the optimizer.
    fn update(
        &self,
        device: &Device,
        tables: &mut [Table],
        input: &Input,
        update: Update,
    ) -> Result<(), Error>;

    /// First column of the vector of each table among all vectors of a sample, where no vector leaves its rank.
    fn pair_columns(&self) -> Result<&[usize], Error> {
        no_phase(self.name(), "a lookup fused with dot products")
    }

    /// Looks up and pools this rank's vectors in the order that the interaction sees, behind the `dense` ones, where no vector leaves
    /// its rank. `stored` is how the interaction takes them.
    fn lookup_in_place(
        &self,
        _device: &Device,
        _tables: &[Table],
        _input: &Input,
        _dense: Option<&Buffer<f32>>,
        (_features, _stored): (&mut Buffer<f32>, Stored),
    ) -> Result<(), Error> {
        no_phase(self.name(), "a lookup in place")
    }

    /// Updates the tables by the gradients of this rank's vectors, in the order that the interaction sees, and lays those of the
    /// `dense` ones apart.
    fn update_in_place(
        &self,
        _device: &Device,
        _tables: &mut [Table],
        _input: &Input,
        _update: Update,
        (_gradients, _dense): (&Buffer<f32>, Option<&mut Buffer<f32>>),
    ) -> Result<(), Error> {
        no_phase(self.name(), "an update in place")
    }

    /// Buffers that a collective works on.
    fn payload(&mut self, carries: Carries) -> Result<Payload<'_>, Error> {
        match carries {
            Carries::Vectors(leg) => Ok(self.leg(leg)?.last()),
            Carries::VectorsInHost(leg) => self.leg(leg)?.in_host(),
            carries => no_phase(self.name(), format_args!("an exchange of {carries}")),
        }
    }

    /// Order of ranks in which their bags are indexed.
    fn peer_order(&self) -> Result<&[usize], Error> {
        no_phase(self.name(), "indexing ids in peer order")
    }

    /// Brings looked-up vectors from the order of ranks into peer order.
    fn permute_peers(&mut self, _device: &Device, _input: &Input) -> Result<(), Error> {
        no_phase(self.name(), "peer permute")
    }

    /// Puts the vectors that arrived from the group side by side, for each tower module and for what leaves as it is.
    fn transpose(&mut self, _device: &Device, _input: &Input, _towers: &mut [Tower]) -> Result<(), Error> {
        no_phase(self.name(), "transpose")
    }

    /// Samples that the tower modules of this rank see.
    fn tower_rows(&self, _input: &Input) -> Result<usize, Error> {
        no_phase(self.name(), "tower modules")
    }

    /// Takes the outputs of the tower modules to where they leave the group.
    fn take_outputs(&mut self, _device: &Device, _input: &Input, _towers: &[Tower]) -> Result<(), Error> {
        no_phase(self.name(), "towers forward")
    }

    /// Gives the tower modules the gradients of their outputs.
    fn give_gradients(&self, _device: &Device, _input: &Input, _towers: &mut [Tower]) -> Result<(), Error> {
        no_phase(self.name(), "towers backward")
    }

    /// Lays out the gradients of what the tower modules saw, and of what left as it was, by member of the group.
    fn reverse_transpose(
        &mut self,
        _device: &Device,
        _input: &Input,
        _towers: &[Tower],
    ) -> Result<(), Error> {
        no_phase(self.name(), "reverse transpose")
    }

    /// Brings gradients from peer order back into the order of ranks.
    fn reverse_permute(&mut self, _device: &Device, _input: &Input) -> Result<(), Error> {
        no_phase(self.name(), "reverse permute")
    }
}

/// The error of an operation that a dataflow does not have.
fn no_phase<T>(dataflow: &'static str, phase: impl fmt::Display) -> Result<T, Error> {
    Err(Error::NotInDataflow { phase: phase.to_string(), dataflow })
}

/// Copies of the same columns in the other direction.
fn reversed(copies: Vec<ColumnCopy>) -> Vec<ColumnCopy> {
    copies.into_iter().map(|c| ColumnCopy { from: c.to, to: c.from, ..c }).collect()
}

/// Merges copies of adjacent columns.
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
