//! Messages between ranks besides the data: a header before each exchange, and control messages when a run ends.

use crate::transport::Header;
use crate::{Activity, Call, CollectiveStatus, Label, RankStatus};
use std::time::Duration;

/// Header that a member of an exchange sends to each other member: how many bytes it sends and expects, the operation, the
/// element type, the label and the phase, at fixed offsets. Names that are too long are cut.
pub(super) type HeaderBytes = [u8; 160];

/// Longest data in bytes that are sent with their header. Header and data together then stay below what MPI libraries send
/// eagerly (Open MPI: 4 KiB in shared memory, 64 KiB over TCP).
pub(super) const SHORT: usize = 2048;

/// First message of one member to another: the header, and the data if they are short.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Envelope {
    pub(super) header: HeaderBytes,
    pub(super) data: [u8; SHORT],
}

impl Envelope {
    pub(super) const EMPTY: Self = Self { header: [0; size_of::<HeaderBytes>()], data: [0; SHORT] };

    /// Length of the message, in bytes, when there are `data` bytes of data, and up to `short` go with the header.
    pub(super) fn len(data: usize, short: usize) -> usize {
        size_of::<HeaderBytes>() + if data <= short { data } else { 0 }
    }
}

const SENDS: std::ops::Range<usize> = 0..8;
const EXPECTS: std::ops::Range<usize> = 8..16;
const OPERATION: std::ops::Range<usize> = 16..48;
const ELEMENT: std::ops::Range<usize> = 48..56;
const LABEL: std::ops::Range<usize> = 56..108;
const PHASE: std::ops::Range<usize> = 108..160;
/// Part of the header on which members must agree: operation and element type.
const AGREED: std::ops::Range<usize> = 16..56;

/// Encodes a header, without the lengths, which [`set_lengths`] sets.
pub(super) fn header(header: &Header, phase: &Label) -> HeaderBytes {
    let mut bytes = [0; size_of::<HeaderBytes>()];
    put(&mut bytes[OPERATION], header.operation);
    put(&mut bytes[ELEMENT], header.element);
    put(&mut bytes[LABEL], header.label.as_str());
    put(&mut bytes[PHASE], phase.as_str());
    bytes
}

/// Sets the number of bytes that the member sends and expects.
pub(super) fn set_lengths(bytes: &mut HeaderBytes, sends: usize, expects: usize) {
    bytes[SENDS].copy_from_slice(&(sends as u64).to_le_bytes());
    bytes[EXPECTS].copy_from_slice(&(expects as u64).to_le_bytes());
}

/// Whether the calls of two members match.
pub(super) fn agree(mine: &HeaderBytes, theirs: &HeaderBytes) -> bool {
    mine[AGREED] == theirs[AGREED] && mine[SENDS] == theirs[EXPECTS] && mine[EXPECTS] == theirs[SENDS]
}

/// Decodes the call that a header describes. The names are leaked: this happens once, when the run ends.
pub(super) fn call(rank: usize, bytes: &HeaderBytes) -> Call {
    let number = |range: std::ops::Range<usize>| {
        u64::from_le_bytes(bytes[range].try_into().expect("eight bytes")) as usize
    };
    Call {
        rank,
        operation: get(&bytes[OPERATION]).leak(),
        element: get(&bytes[ELEMENT]).leak(),
        label: get(&bytes[LABEL]).into(),
        phase: get(&bytes[PHASE]).into(),
        sends: number(SENDS),
        expects: number(EXPECTS),
    }
}

/// Writes a text into a field, cut if it is too long, and fills the rest with zeros.
pub(super) fn put(place: &mut [u8], text: &str) {
    let text = cut(text, place.len()).as_bytes();
    let (start, rest) = place.split_at_mut(text.len());
    start.copy_from_slice(text);
    rest.fill(0);
}

/// Reads the text of a field.
pub(super) fn get(place: &[u8]) -> String {
    let len = place.iter().position(|&byte| byte == 0).unwrap_or(place.len());
    String::from_utf8_lossy(&place[..len]).into_owned()
}

/// Cuts a text to at most `len` bytes, between characters.
fn cut(text: &str, len: usize) -> &str {
    let mut len = len.min(text.len());
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

/// Longest control message, in bytes.
pub(super) const LONGEST: usize = 8192;
/// Longest text in a control message, in bytes; five of them fit into a message.
const TEXT: usize = 1500;

/// Control message of one rank to all others, outside any collective.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// The rank will start no more exchanges.
    Left { rank: usize, phase: Label },
    /// The run has ended because of `cause`, which rank `origin` reported; `status` is what the sender was doing.
    Ended { origin: usize, cause: String, gave_up: bool, status: RankStatus },
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Self::Left { rank, phase } => {
                to.numbers([0, *rank as u64]);
                to.text(phase.as_str());
            }
            Self::Ended { origin, cause, gave_up, status } => {
                let (activity, waited) = match status.activity {
                    Activity::Computing => (0, Duration::ZERO),
                    Activity::Waiting(time) => (1, time),
                    Activity::Finished => (2, Duration::ZERO),
                    Activity::Failed => (3, Duration::ZERO),
                    Activity::Silent => (4, Duration::ZERO),
                };
                to.numbers([1, *origin as u64, u64::from(*gave_up), status.rank as u64, status.host as u64]);
                to.numbers([activity, waited.as_nanos() as u64, u64::from(status.collective.is_some())]);
                to.text(cause);
                to.text(status.phase.as_str());
                if let Some(collective) = &status.collective {
                    to.numbers([collective.sequence, collective.size as u64]);
                    to.text(collective.operation);
                    to.text(collective.label.as_str());
                }
            }
        }
        to.0
    }

    /// Decodes a message; none if the bytes are not a message.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        if from.number()? == 0 {
            return Some(Self::Left { rank: from.size()?, phase: from.text()?.into() });
        }
        let (origin, gave_up) = (from.size()?, from.number()? != 0);
        let (rank, host) = (from.size()?, from.size()?);
        let (activity, waited, started) = (from.number()?, from.number()?, from.number()?);
        let activity = match activity {
            0 => Activity::Computing,
            1 => Activity::Waiting(Duration::from_nanos(waited)),
            2 => Activity::Finished,
            3 => Activity::Failed,
            _ => Activity::Silent,
        };
        let (cause, phase) = (from.text()?, Label::from(from.text()?));
        let collective = match started {
            0 => None,
            _ => {
                let (sequence, size) = (from.number()?, from.size()?);
                // Leaked: this happens once, when the run ends.
                let (operation, label) = (&*from.text()?.leak(), from.text()?.into());
                Some(CollectiveStatus { operation, label, sequence, size })
            }
        };
        Some(Self::Ended {
            origin,
            cause,
            gave_up,
            status: RankStatus { rank, host, phase, activity, collective, answers: true },
        })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn numbers<const N: usize>(&mut self, numbers: [u64; N]) {
        numbers.iter().for_each(|number| self.0.extend_from_slice(&number.to_le_bytes()));
    }

    fn text(&mut self, text: &str) {
        let text = cut(text, TEXT);
        self.numbers([text.len() as u64]);
        self.0.extend_from_slice(text.as_bytes());
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn size(&mut self) -> Option<usize> {
        self.number()?.try_into().ok()
    }

    fn text(&mut self) -> Option<String> {
        let len = self.size()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

#[cfg(test)]
mod tests;
