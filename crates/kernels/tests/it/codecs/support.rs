//! Rows, encoded and decoded on a device.

pub use crate::gpu::checked;
use ground::codec::{Codec, Row};
use kernels::{Buffer, CarriedError, Cpu, Decode, Device, Encode, KernelError, Round, Rows};

/// The reference, the host's cores with one thread and with two, both without vector instructions, and a GPU if there is one.
pub fn devices() -> Vec<Device> {
    let cpus = [1, 2].map(|threads| Cpu::new(threads).unwrap());
    let portable = [cpus[0].portable(), cpus[1].portable()];
    let host = [Device::Reference].into_iter().chain(cpus.into_iter().chain(portable).map(Device::Cpu));
    crate::gpu::and_gpu(host.collect())
}

pub fn buffer<T: kernels::Element>(device: &Device, data: &[T]) -> Buffer<T> {
    Buffer::from_slice(device, data).unwrap()
}

/// One row that fills the floats and the bytes.
pub fn row(width: usize) -> [Row; 1] {
    [Row { at: 0, byte: 0, width }]
}

/// Encoded bytes of one row.
pub fn encoded(device: &Device, codec: Codec, round: Round, values: &[f32]) -> Result<Vec<u8>, KernelError> {
    let mut to = buffer(device, &vec![0xa5; codec.encoded_bytes(1, values.len() as u64) as usize]);
    let (from, rows) = (&buffer(device, values), &row(values.len()));
    let rows = Rows::once(rows);
    let args = Encode { codec, round, rows, from, to: &mut to, to_at: 0, error: None };
    checked(device, device.encode(args))?;
    to.to_vec()
}

/// Values of one encoded row.
pub fn decoded(device: &Device, codec: Codec, width: usize, bytes: &[u8]) -> Vec<f32> {
    let mut to = buffer(device, &vec![f32::NAN; width]);
    let (from, rows) = (&buffer(device, bytes), &row(width));
    let (rows, block_bytes) = (Rows::once(rows), bytes.len());
    let args =
        Decode { codec, rows, blocks: 1, block_bytes, from, from_at: 0, to: &mut to, to_at: 0, add: false };
    checked(device, device.decode(args)).unwrap();
    to.to_vec().unwrap()
}

/// Values as they come out of the codec.
pub fn coded(device: &Device, codec: Codec, round: Round, values: &[f32]) -> Vec<f32> {
    decoded(device, codec, values.len(), &encoded(device, codec, round, values).unwrap())
}

/// Everything that an encode writes: bytes, and errors.
pub fn encode_rows(
    device: &Device,
    (codec, round): (Codec, Round),
    rows: Rows,
    from: &[f32],
    (bytes, to_at): (usize, usize),
    error: Option<(&[f32], usize)>,
) -> Result<(Vec<u8>, Vec<f32>), KernelError> {
    let mut to = buffer(device, &vec![0xa5; bytes]);
    let mut errors = buffer(device, error.map_or(&[][..], |(errors, _)| errors));
    let error = error.map(|(_, at)| CarriedError { buffer: &mut errors, at });
    let args = Encode { codec, round, rows, from: &buffer(device, from), to: &mut to, to_at, error };
    checked(device, device.encode(args))?;
    Ok((to.to_vec()?, errors.to_vec()?))
}

/// Numbers in [−1, 1) that depend on nothing but the seed.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 ^ self.0 >> 29) >> 16
    }

    pub fn float(&mut self) -> f32 {
        (self.next() % (1 << 20)) as f32 / (1 << 19) as f32 - 1.0
    }

    pub fn floats(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.float()).collect()
    }
}

/// Bits, for comparisons that tell zeros and NaNs apart.
pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
