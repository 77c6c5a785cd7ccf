//! Encodes and decodes of rows: how the kernels of `codec.cu` share them.

use super::Cuda;
use super::launch::{At, Launch};
use super::memory::Pointer;
use crate::op::Result;
use crate::{Decode, Encode, KernelError, Rows};
use ground::codec::Codec;

/// Threads of a block.
const BLOCK: usize = 256;

/// Rows up to so many values are shared by lanes of a warp, wider ones by a block.
const NARROW: usize = 1024;

/// Values of a part of a wide row, in codecs without a header.
const PART: usize = 4096;

/// Rows as the kernels read them: `Work` of `codec.cu`.
struct Work {
    /// Place and width of each row, relative to the first; `None` for one row.
    rows: Option<Pointer>,
    /// Width of the widest row.
    width: usize,
    count: u32,
    parts: u32,
    /// Values of a part.
    part: u32,
    /// Threads that share a part.
    group: usize,
    /// Parts of all rows and repetitions.
    units: usize,
    floats: usize,
    bytes: usize,
}

impl Work {
    /// How `rows` are shared; `None` if they hold nothing.
    fn new(cuda: &Cuda, op: &'static str, codec: Codec, rows: &Rows) -> Result<Option<Self>> {
        let width = rows.rows.iter().map(|row| row.width).max().unwrap_or(0);
        if width == 0 || rows.count == 0 {
            return Ok(None);
        }
        let narrow = width <= NARROW;
        let group = if narrow { width.div_ceil(4).next_power_of_two().min(32) } else { BLOCK };
        let part = if narrow || codec.by_rows() { width } else { PART };
        let parts = width.div_ceil(part);
        let number = |what: &str, count: usize| {
            let refused = |_| KernelError::Device(format!("{op}: {count} {what} are too many for a GPU"));
            u32::try_from(count).map_err(refused)
        };
        Ok(Some(Self {
            rows: if rows.rows.len() == 1 { None } else { Some(places(cuda, rows)?) },
            width,
            count: number("rows", rows.rows.len())?,
            parts: number("values of a row", parts)?,
            part: number("values of a row", part)?,
            group,
            units: rows.rows.len() * rows.count * parts,
            floats: rows.floats,
            bytes: rows.bytes,
        }))
    }

    /// The kernel `name` with a grid for all parts, and with the arguments that describe them.
    fn kernel<'a>(&self, cuda: &'a Cuda, name: &'static str) -> Launch<'a> {
        let blocks = self.units.div_ceil(BLOCK / self.group).min(i32::MAX as usize);
        let kernel = cuda.kernel(name).block(BLOCK as u32).grid(blocks);
        let kernel = kernel.arg(self.rows).arg(self.width).arg(self.count).arg(self.parts).arg(self.part);
        kernel.arg(self.group as u32).arg(self.units).arg(self.floats).arg(self.bytes)
    }
}

/// Start in the floats, start in the bytes and width of each row, relative to the first row.
fn places(cuda: &Cuda, rows: &Rows) -> Result<Pointer> {
    let first = rows.rows[0];
    let places = rows.rows.iter().flat_map(|row| [row.at - first.at, row.byte - first.byte, row.width]);
    cuda.constant(&places.map(|number| number as u64).collect::<Vec<u64>>())
}

pub(super) fn encode(cuda: &Cuda, args: Encode) -> Result {
    let Some(work) = Work::new(cuda, "encode", args.codec, &args.rows)? else { return Ok(()) };
    let name = match args.codec {
        Codec::F32 => "encode_f32",
        Codec::F16 => "encode_f16",
        Codec::Bf16 => "encode_bf16",
        Codec::Fp8E4m3 => "encode_e4m3",
        Codec::Fp8E5m2 => "encode_e5m2",
        Codec::U8 => "encode_u8",
        Codec::U4 => "encode_u4",
        Codec::U2 => "encode_u2",
    };
    let first = args.rows.rows[0].at;
    let dice = args.round.dice();
    let [low, high] = dice.map_or([0, 0], |dice| dice.halves());
    let error = args.error.as_ref().map(|error| At(&*error.buffer, error.at));
    let kernel = work.kernel(cuda, name).arg(At(args.from, first)).arg(first);
    let kernel = kernel.arg(At(&*args.to, args.to_at)).arg(error);
    kernel.arg(low).arg(high).arg(u32::from(dice.is_none())).arg(cuda.faults()).launch()
}

pub(super) fn decode(cuda: &Cuda, args: Decode) -> Result {
    if args.blocks == 0 && args.add {
        return Ok(());
    }
    let Some(work) = Work::new(cuda, "decode", args.codec, &args.rows)? else { return Ok(()) };
    let name = match args.codec {
        Codec::F32 => "decode_f32",
        Codec::F16 => "decode_f16",
        Codec::Bf16 => "decode_bf16",
        Codec::Fp8E4m3 => "decode_e4m3",
        Codec::Fp8E5m2 => "decode_e5m2",
        Codec::U8 => "decode_u8",
        Codec::U4 => "decode_u4",
        Codec::U2 => "decode_u2",
    };
    let kernel = work.kernel(cuda, name).arg(At(args.from, args.from_at));
    let kernel = kernel.arg(args.blocks).arg(args.block_bytes);
    kernel.arg(At(&*args.to, args.to_at)).arg(u32::from(args.add)).launch()
}
