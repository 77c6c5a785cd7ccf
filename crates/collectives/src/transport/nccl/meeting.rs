//! Meetings of ranks over the transport of host memory: before they make a communicator together, and at the end of the run.

use super::link::{Card, Id};
use super::{NcclMover, Place, Result};
use crate::transport::{ExchangeRequest, GroupId, Header, Span};
use crate::{CollectiveError, Label};
use kernels::{Buffer, Bytes, Device, KernelError, NCCL_ID_BYTES};
use std::time::Instant;

/// Numbers of the exchanges of meetings in their group. Collectives count from 0, and never get there.
const INTRODUCTION: u64 = u64::MAX;
const READY: u64 = u64::MAX - 1;
const END: u64 = u64::MAX - 2;

/// What a member tells the others: the group's id (the first member alone), its card, and its world rank.
const MESSAGE: usize = NCCL_ID_BYTES + 16 + 8 + 8;

impl NcclMover {
    /// Meets the other members of a group. Returns the id that joins them, on all members at about the same time. Refuses
    /// members that share a card.
    pub(super) fn meet(&self, device: &Device, place: Place, label: &Label) -> Result<Id> {
        let id = match place.me {
            0 => self.checked(self.fabric.new_id())?,
            _ => [0; NCCL_ID_BYTES],
        };
        let card = self.checked(self.fabric.card(device))?;
        let mut message = Vec::with_capacity(MESSAGE);
        message.extend(id);
        message.extend(card.identity);
        message.extend((card.index as u64).to_le_bytes());
        message.extend((self.seat.rank as u64).to_le_bytes());
        let told = self.gather(device, place, label.clone(), INTRODUCTION, &message)?;
        let members: Vec<(usize, Card)> = told.chunks_exact(MESSAGE).map(introduced).collect();
        for (second, (rank, card)) in members.iter().enumerate() {
            if let Some((first, _)) =
                members[..second].iter().find(|(_, other)| other.identity == card.identity)
            {
                let shared = CollectiveError::SharedGpu { first: *first, second: *rank, gpu: card.index };
                return Err(self.control.abort(shared));
            }
        }
        // Who has come so far comes to the library's own meeting too, which cannot be left.
        self.gather(device, place, label.clone(), READY, &[])?;
        let mut id = [0; NCCL_ID_BYTES];
        id.copy_from_slice(&told[..NCCL_ID_BYTES]);
        Ok(id)
    }

    /// Waits until all ranks have come here.
    pub(super) fn meet_all(&self) -> Result {
        let (me, size) = (self.seat.rank, self.seat.ranks);
        if size == 1 {
            return Ok(());
        }
        let world = Place { group: GroupId::WORLD, me, size, sequence: 0 };
        self.gather(&Device::Reference, world, Label::from("end of the run"), END, &[]).map(drop)
    }

    /// Gathers the messages of all members, which are equally long, in the order of the group.
    fn gather(
        &self,
        device: &Device,
        place: Place,
        label: Label,
        sequence: u64,
        message: &[u8],
    ) -> Result<Vec<u8>> {
        let Place { group, me, size, .. } = place;
        let (space, len) = (device.host(), message.len());
        let send = self.checked(Buffer::from_slice(&space, message))?.into_bytes();
        let recv = self.checked(Bytes::zeroed(&space, size * len))?;
        let to = vec![Span { at: 0, len }; size];
        let from: Vec<Span> = (0..size).map(|member| Span { at: member * len, len }).collect();
        let header = Header { operation: "nccl set-up", element: "u8", label };
        let (to, from) = (&*to, &*from);
        let request = ExchangeRequest { device, group, me, sequence, header, send, to, recv, from };
        let ticket = self.inner.start(request)?;
        let deadline = Instant::now().checked_add(self.seat.wait_limit);
        loop {
            if let Some(exchanged) = self.inner.test(ticket)? {
                let read: std::result::Result<_, KernelError> = exchanged.recv.into_buffer::<u8>().to_vec();
                return self.checked(read);
            }
            self.inner.wait(ticket, &[], deadline)?;
        }
    }
}

/// World rank and card of a member that has introduced itself.
fn introduced(message: &[u8]) -> (usize, Card) {
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&message[at..at + 8]);
        u64::from_le_bytes(bytes) as usize
    };
    let mut identity = [0; 16];
    identity.copy_from_slice(&message[NCCL_ID_BYTES..NCCL_ID_BYTES + 16]);
    (number(MESSAGE - 8), Card { identity, index: number(MESSAGE - 16) })
}
