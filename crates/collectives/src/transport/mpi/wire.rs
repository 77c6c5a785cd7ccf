//! What ranks tell each other beside the data: a header before each exchange, and what they say when a run ends.

use crate::transport::Header;
use crate::{Activity, Call, CollectiveStatus, Label, RankStatus};
use std::time::Duration;

/// What a member says to each other member of an exchange: how many bytes it sends and expects, the operation, the
/// element, the label and the phase, each in its place. Names that are too long are cut.
pub(super) type HeaderBytes = [u8; 160];

/// The longest data that travel with their header. Header and data are then below what MPI libraries send at once (Open
/// MPI: 4 KiB in shared memory, 64 KiB over TCP).
pub(super) const SHORT: usize = 2048;

/// What one member sends another first: the header, and the data if they are short.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Envelope {
    pub(super) header: HeaderBytes,
    pub(super) data: [u8; SHORT],
}

impl Envelope {
    pub(super) const EMPTY: Self = Self { header: [0; size_of::<HeaderBytes>()], data: [0; SHORT] };

    /// Bytes to send for so many of data.
    pub(super) fn len(data: usize) -> usize {
        size_of::<HeaderBytes>() + if data <= SHORT { data } else { 0 }
    }
}

const SENDS: std::ops::Range<usize> = 0..8;
const EXPECTS: std::ops::Range<usize> = 8..16;
const OPERATION: std::ops::Range<usize> = 16..48;
const ELEMENT: std::ops::Range<usize> = 48..56;
const LABEL: std::ops::Range<usize> = 56..108;
const PHASE: std::ops::Range<usize> = 108..160;
/// What members must agree on, but for the lengths.
const AGREED: std::ops::Range<usize> = 16..56;

/// The header, with the lengths still to be set.
pub(super) fn header(header: &Header, phase: &Label) -> HeaderBytes {
    let mut bytes = [0; size_of::<HeaderBytes>()];
    put(&mut bytes[OPERATION], header.operation);
    put(&mut bytes[ELEMENT], header.element);
    put(&mut bytes[LABEL], header.label.as_str());
    put(&mut bytes[PHASE], phase.as_str());
    bytes
}

pub(super) fn set_lengths(bytes: &mut HeaderBytes, sends: usize, expects: usize) {
    bytes[SENDS].copy_from_slice(&(sends as u64).to_le_bytes());
    bytes[EXPECTS].copy_from_slice(&(expects as u64).to_le_bytes());
}

/// Whether two members' calls fit each other.
pub(super) fn agree(mine: &HeaderBytes, theirs: &HeaderBytes) -> bool {
    mine[AGREED] == theirs[AGREED] && mine[SENDS] == theirs[EXPECTS] && mine[EXPECTS] == theirs[SENDS]
}

/// The call that a header tells of. Its names are never freed: calls are looked at once, when the run ends.
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

/// Writes a text to its place, cut if it is too long, with zeros after it.
pub(super) fn put(place: &mut [u8], text: &str) {
    let text = cut(text, place.len()).as_bytes();
    let (start, rest) = place.split_at_mut(text.len());
    start.copy_from_slice(text);
    rest.fill(0);
}

pub(super) fn get(place: &[u8]) -> String {
    let len = place.iter().position(|&byte| byte == 0).unwrap_or(place.len());
    String::from_utf8_lossy(&place[..len]).into_owned()
}

/// At most `len` bytes of a text, in whole characters.
fn cut(text: &str, len: usize) -> &str {
    let mut len = len.min(text.len());
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

/// The longest message, in bytes.
pub(super) const LONGEST: usize = 8192;
/// The longest text in a message; five of them fit.
const TEXT: usize = 1500;

/// What one rank says to all others, outside any collective.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// It will start nothing more.
    Left { rank: usize, phase: Label },
    /// The run has ended, because of `cause`, which `origin` noticed or for which it gave up; and where the sender is.
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

    /// Reads a message, if it is one.
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
                // Never freed: this is read once, when the run ends.
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
