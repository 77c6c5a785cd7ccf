//! The device memory of an exchange, and page-locked memory of the host through which it goes.

use super::Route;
use crate::transport::{ExchangeRequest, Exchanged, GroupId, Header, Span};
use kernels::{Bytes, Device, Event, KernelError};

type Result<T = ()> = std::result::Result<T, KernelError>;

/// Device memory that is on its way.
pub(super) struct Parcel {
    device: Device,
    group: GroupId,
    me: usize,
    sequence: u64,
    header: Header,
    send: Bytes,
    recv: Bytes,
    route: Route,
    ranges: Ranges,
    /// Bytes of the host that are sent, and the end of the device's work before the exchange.
    out: Piece,
    /// Bytes of the host that are received, and the end of the copy to the device.
    back: Piece,
    /// Number of looks that still find the copy unfinished, in tests.
    looks: usize,
}

/// Ranges of an exchange, by member.
#[derive(Default)]
pub(super) struct Ranges {
    /// Ranges that are sent, in the memory that the wrapped mover gets.
    to: Vec<Span>,
    /// Ranges that are received, in the memory that the wrapped mover gets.
    from: Vec<Span>,
    /// Ranges that are received, on the device.
    places: Vec<Span>,
}

impl Parcel {
    /// Queues what comes before the exchange: copies of this rank's own part, and of what is sent to others.
    pub(super) fn pack(
        request: ExchangeRequest<'_>,
        route: Route,
        mut ranges: Ranges,
        pieces: &mut Pieces,
    ) -> Result<Self> {
        let ExchangeRequest { device, group, me, sequence, header, send, to, mut recv, from } = request;
        if to[me].len > 0 {
            device.copy(&mut recv, from[me].at, &send, to[me].at, to[me].len)?;
        }
        ranges.fill(me, to, from);
        let (sent, received) = match route {
            Route::Direct => (Span::default(), 0),
            _ => ranges.compact(),
        };
        let (mut out, back) = (pieces.take(device, sent.len)?, pieces.take(device, received)?);
        device.copy(&mut out.bytes, 0, &send, sent.at, sent.len)?;
        device.record(&out.event)?;
        let looks = match route {
            #[cfg(test)]
            Route::Everything { looks } => looks,
            _ => 0,
        };
        let device = device.clone();
        Ok(Self { device, group, me, sequence, header, send, recv, route, ranges, out, back, looks })
    }

    /// Whether the device has done all work before the exchange. With `wait`, waits until it has.
    pub(super) fn has_left(&mut self, wait: bool) -> Result<bool> {
        if wait {
            self.out.event.synchronise()?;
            return Ok(true);
        }
        match self.looks.checked_sub(1) {
            Some(fewer) => {
                self.looks = fewer;
                Ok(false)
            }
            None => self.out.event.is_past(),
        }
    }

    /// Request for the wrapped mover, once the bytes have left the device. The wrapped mover gets the memory until it is done.
    pub(super) fn request(&mut self) -> ExchangeRequest<'_> {
        let (send, recv) = match self.route {
            Route::Direct => (&mut self.send, &mut self.recv),
            _ => (&mut self.out.bytes, &mut self.back.bytes),
        };
        ExchangeRequest {
            device: &self.device,
            group: self.group,
            me: self.me,
            sequence: self.sequence,
            header: self.header.clone(),
            send: send.take(),
            to: &self.ranges.to,
            recv: recv.take(),
            from: &self.ranges.from,
        }
    }

    /// Queues the copy of what has arrived to the device, and returns the device memory.
    pub(super) fn unpack(mut self, arrived: Exchanged, pieces: &mut Pieces) -> Result<(Exchanged, Ranges)> {
        let Exchanged { send, recv, at } = arrived;
        if self.route == Route::Direct {
            (self.send, self.recv) = (send, recv);
        } else {
            (self.out.bytes, self.back.bytes) = (send, recv);
            let Self { device, recv, back, ranges, .. } = &mut self;
            ranges.landings(|place, from, len| device.copy(recv, place, &back.bytes, from, len))?;
            device.record(&back.event)?;
        }
        pieces.give_back(self.out);
        pieces.give_back(self.back);
        Ok((Exchanged { send: self.send, recv: self.recv, at }, self.ranges))
    }
}

impl Ranges {
    /// Sets the ranges of an exchange. The part that member `me` sends to itself is left out.
    fn fill(&mut self, me: usize, to: &[Span], from: &[Span]) {
        for (ranges, given) in [(&mut self.to, to), (&mut self.from, from), (&mut self.places, from)] {
            ranges.clear();
            ranges.extend_from_slice(given);
            ranges[me] = Span::default();
        }
    }

    /// Moves the ranges into memory that holds nothing else. Returns the range of what is sent, which goes to the beginning of
    /// such memory as it is, and the number of bytes that are received.
    fn compact(&mut self) -> (Span, usize) {
        let sent = self.to.iter().filter(|span| span.len > 0);
        let begin = sent.clone().map(|span| span.at).min().unwrap_or(0);
        let end = sent.map(|span| span.at + span.len).max().unwrap_or(0);
        // An empty range may lie anywhere, also behind the end of what is sent.
        self.to.iter_mut().for_each(|span| span.at = if span.len > 0 { span.at - begin } else { 0 });
        let mut received = 0;
        for span in &mut self.from {
            span.at = received;
            received += span.len;
        }
        (Span { at: begin, len: end - begin }, received)
    }

    /// Calls `copy` with the place on the device, the place in the received bytes, and the length of each run of bytes: parts of
    /// several members where they lie side by side.
    fn landings(&self, mut copy: impl FnMut(usize, usize, usize) -> Result) -> Result {
        let mut run = (0, 0, 0);
        for (place, from) in self.places.iter().zip(&self.from).filter(|(place, _)| place.len > 0) {
            if run.2 > 0 && place.at == run.0 + run.2 {
                run.2 += place.len;
                continue;
            }
            if run.2 > 0 {
                copy(run.0, run.1, run.2)?;
            }
            run = (place.at, from.at, place.len);
        }
        if run.2 > 0 { copy(run.0, run.1, run.2) } else { Ok(()) }
    }
}

/// Page-locked memory of the host.
struct Piece {
    bytes: Bytes,
    /// Past once the device is done with the bytes.
    event: Event,
}

/// Page-locked memory that is not in use. Pieces never shrink, so the length of a piece is its capacity.
#[derive(Default)]
pub(super) struct Pieces(Vec<Piece>);

impl Pieces {
    /// Takes a piece of at least `len` bytes that the device is done with: the smallest, or else a new one in place of the
    /// largest. If the device still uses all that are large enough, waits for it: another piece would be one more in every step
    /// whose timing differs.
    fn take(&mut self, device: &Device, len: usize) -> Result<Piece> {
        let mut best: Option<(bool, usize, usize)> = None;
        for (index, piece) in self.0.iter().enumerate().filter(|(_, piece)| piece.bytes.len() >= len) {
            let found = (!piece.event.is_past()?, piece.bytes.len(), index);
            best = Some(best.map_or(found, |best| best.min(found)));
        }
        if let Some((in_use, _, index)) = best {
            if in_use {
                self.0[index].event.synchronise()?;
            }
            return Ok(self.0.swap_remove(index));
        }
        if let Some((largest, _)) = self.0.iter().enumerate().max_by_key(|(_, piece)| piece.bytes.len()) {
            self.0.swap_remove(largest);
        }
        let len = len.checked_next_multiple_of(64).ok_or(KernelError::OutOfMemory { bytes: len })?;
        Ok(Piece { bytes: Bytes::zeroed(device.pinned(), len)?, event: device.event()? })
    }

    fn give_back(&mut self, piece: Piece) {
        self.0.push(piece);
    }
}

#[cfg(test)]
mod tests;
