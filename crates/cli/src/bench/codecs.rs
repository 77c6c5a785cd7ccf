//! `campanile bench codecs`: encoding and decoding floats for the wire on one thread, beside a copy of the same floats.

use crate::text::{columns, median};
use anyhow::{Result, ensure};
use kernels::{BlockCopy, Buffer, Cpu, Decode, Device, Encode, Round, Rows};
use serde_json::{Value, json};
use spec::codec::{Codec, Row};
use spec::random::RandomSequence;
use std::time::Instant;

/// Arguments of `bench codecs`.
#[derive(clap::Args)]
pub struct Args {
    /// Size of the floats in megabytes: small enough for the second-level cache, or more to measure the memory too
    #[arg(long, value_name = "M", default_value_t = 0.25)]
    megabytes: f64,
    /// Number of interleaved repetitions of each measurement
    #[arg(long, value_name = "N", default_value_t = 101, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rounds: u16,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Widths of the rows: the longest of a reduction, and a vector of few floats.
const WIDTHS: [usize; 2] = [Codec::LONGEST_ROW, 16];

pub fn run(args: Args) -> Result<()> {
    let Args { megabytes, rounds, json } = args;
    ensure!(
        (0.01..=10_000.0).contains(&megabytes),
        "--megabytes {megabytes}: expected a number from 0.01 to 10000"
    );
    let rows = (megabytes * 1e6 / (4 * Codec::LONGEST_ROW) as f64) as usize;
    let cpu = Cpu::new(1)?;
    let instructions = cpu.instructions();
    let mut bench = Bench::new(Device::Cpu(cpu), rows * Codec::LONGEST_ROW)?;
    bench.measure(rounds)?;
    let copy = bench.rate(&mut bench.copies.clone());
    let speeds: Vec<[Speed; 2]> = Codec::ALL
        .iter()
        .enumerate()
        .map(|(c, codec)| [0, 1].map(|w| Speed::new(&bench, *codec, WIDTHS[w], &bench.times[c][w])))
        .collect();
    if json {
        let codecs: Vec<Value> = speeds.iter().map(to_json).collect();
        println!(
            "{}",
            json!({ "megabytes": megabytes, "rounds": rounds, "threads": 1, "instructions": instructions,
                "copy_gbs": copy, "codecs": codecs })
        );
        return Ok(());
    }
    println!(
        "GB/s of f32 on one thread ({instructions}), {megabytes} MB of floats; a copy of them: {copy:.1}"
    );
    print!("{}", to_text(&speeds));
    Ok(())
}

/// Floats, and room for what becomes of them.
struct Bench {
    device: Device,
    from: Buffer<f32>,
    encoded: Buffer<u8>,
    decoded: Buffer<f32>,
    /// Seconds of copies of all floats.
    copies: Vec<f64>,
    /// Seconds of each codec and width.
    times: Vec<[Times; 2]>,
}

/// Seconds of each round.
#[derive(Clone, Default)]
struct Times {
    encode: Vec<f64>,
    stochastic: Vec<f64>,
    decode: Vec<f64>,
}

impl Bench {
    fn new(device: Device, floats: usize) -> Result<Self> {
        let random = RandomSequence::new(1, "bench.codecs");
        let mut from = Buffer::zeroed(&device, floats)?;
        from.write_blocks(0, floats, 1 << 16, |first, block| {
            let numbers = (first as u64..).map(|i| random.symmetric(i, 1.0));
            block.iter_mut().zip(numbers).for_each(|(to, number)| *to = number);
        })?;
        // Rows of few floats take most bytes, for their headers, and f32 more than these.
        let encoded = Buffer::zeroed(&device, 4 * floats)?;
        let decoded = Buffer::zeroed(&device, floats)?;
        Ok(Self { device, from, encoded, decoded, copies: Vec::new(), times: vec![Default::default(); 8] })
    }

    /// Runs all operations in turn, so that what else the machine does meets all; a first round is not counted.
    fn measure(&mut self, rounds: u16) -> Result<()> {
        let Self { device, from, encoded, decoded, copies, times } = self;
        let whole = [BlockCopy { from: 0, to: 0, len: from.len() }];
        for round in 0..=rounds {
            let counted = round > 0;
            let lap = |seconds: &mut Vec<f64>, work: &mut dyn FnMut() -> Result<()>| {
                let began = Instant::now();
                work()?;
                seconds.extend(counted.then(|| began.elapsed().as_secs_f64()));
                anyhow::Ok(())
            };
            lap(copies, &mut || Ok(device.copy_blocks(&whole, from, decoded)?))?;
            for (codec, times) in Codec::ALL.into_iter().zip(times.iter_mut()) {
                for (width, times) in WIDTHS.into_iter().zip(times) {
                    let row = [Row { at: 0, byte: 0, width }];
                    let bytes = bytes(codec, width);
                    let rows = Rows { rows: &row, count: from.len() / width, floats: width, bytes };
                    let mut encode = |round: Round| {
                        let to = &mut *encoded;
                        let from = &*from;
                        Ok(device.encode(Encode { codec, round, rows, from, to, to_at: 0, error: None })?)
                    };
                    lap(&mut times.encode, &mut || encode(Round::Nearest))?;
                    lap(&mut times.stochastic, &mut || encode(Round::Stochastic { key: 1 }))?;
                    lap(&mut times.decode, &mut || {
                        let (from, to, block_bytes) = (&*encoded, &mut *decoded, bytes * rows.count);
                        Ok(device.decode(Decode {
                            codec,
                            rows,
                            blocks: 1,
                            block_bytes,
                            from,
                            from_at: 0,
                            to,
                            to_at: 0,
                            add: false,
                        })?)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Floats in gigabytes a second, from the median of the rounds.
    fn rate(&self, seconds: &mut [f64]) -> f64 {
        4e-9 * self.from.len() as f64 / median(seconds)
    }
}

/// Size of one encoded row, in bytes.
fn bytes(codec: Codec, width: usize) -> usize {
    codec.encoded_bytes(1, width as u64) as usize
}

/// Speed of a codec with rows of one width, in gigabytes of f32 a second.
struct Speed {
    codec: Codec,
    width: usize,
    encode: f64,
    stochastic: f64,
    decode: f64,
}

impl Speed {
    fn new(bench: &Bench, codec: Codec, width: usize, times: &Times) -> Self {
        let Times { mut encode, mut stochastic, mut decode } = times.clone();
        let [encode, stochastic, decode] =
            [&mut encode, &mut stochastic, &mut decode].map(|seconds| bench.rate(seconds));
        Self { codec, width, encode, stochastic, decode }
    }

    /// Speed of encoding and decoding one behind the other.
    fn both(&self) -> f64 {
        1.0 / (1.0 / self.encode + 1.0 / self.decode)
    }

    fn to_json(&self) -> Value {
        json!({
            "codec": self.codec.name(), "width": self.width, "bytes": bytes(self.codec, self.width),
            "encode_gbs": self.encode, "decode_gbs": self.decode, "both_gbs": self.both(),
            "stochastic_encode_gbs": self.stochastic,
        })
    }
}

/// Speed with the longest rows, and beside it that with rows of few floats.
fn to_json([long, short]: &[Speed; 2]) -> Value {
    let (mut value, mut short) = (long.to_json(), short.to_json());
    if let Some(fields) = short.as_object_mut() {
        fields.remove("codec");
    }
    value["narrow"] = short;
    value
}

fn to_text(speeds: &[[Speed; 2]]) -> String {
    let heads =
        ["", "bytes", "encode", "decode", "both", "stochastic", "16: bytes", "encode", "decode", "both"];
    let mut lines = vec![heads.map(String::from).to_vec()];
    for [long, short] in speeds {
        let of = |speed: &Speed| {
            let rates = [speed.encode, speed.decode, speed.both(), speed.stochastic];
            let bytes = bytes(speed.codec, speed.width).to_string();
            [bytes].into_iter().chain(rates.map(|rate| format!("{rate:.1}"))).collect::<Vec<_>>()
        };
        let name = vec![long.codec.name().to_string()];
        lines.push([name, of(long), of(short)[..4].to_vec()].concat());
    }
    columns(&lines)
}
