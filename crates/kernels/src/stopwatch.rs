//! Times of work on a device: by the host's clock where work is done when it returns, by events where it is queued.

use crate::{Device, Event, KernelError};
use std::time::{Duration, Instant};

/// Shortest and longest time that a queue is held before a lap.
const HELD: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(20));

/// Times of pieces of work, lap by lap.
///
/// On a device whose operations are queued, a lap lies between two events of the device's queue. The queue is held before the first
/// of them until the host has queued the work, so that a lap has no gaps in which the device waits for the host. Laps are read
/// together, at the end: the host waits once.
///
/// ```
/// use kernels::{Buffer, Device, KernelError, Stopwatch};
/// let device = Device::cpu(1)?;
/// let x = Buffer::from_slice(&device, &[1.0f32; 1000])?;
/// let mut watch = Stopwatch::new(&device);
/// for _ in 0..3 {
///     watch.lap(|| device.sum(&x).map(|_| ()))?;
/// }
/// assert_eq!(watch.read()?.len(), 3);
/// assert!(watch.read()?.is_empty(), "every lap is read once");
/// # Ok::<(), KernelError>(())
/// ```
#[derive(Debug)]
pub struct Stopwatch {
    device: Device,
    /// Events around the laps of a queued device; those from `laps` on wait to be used again.
    events: Vec<(Event, Event)>,
    /// Number of laps that were not read.
    laps: usize,
    /// Seconds of the laps of a host device.
    seconds: Vec<f64>,
    /// Time in which the host queued the last lap.
    queued_in: Duration,
}

impl Stopwatch {
    /// Makes a stopwatch for the work of `device`'s queue.
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            events: Vec::new(),
            laps: 0,
            seconds: Vec::new(),
            queued_in: Duration::ZERO,
        }
    }

    /// Times `work`, which uses the stopwatch's device and queue. A lap that fails is none.
    pub fn lap<E: From<KernelError>>(&mut self, work: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let Device::Cuda(cuda) = &self.device else {
            let began = Instant::now();
            work()?;
            self.seconds.push(began.elapsed().as_secs_f64());
            return Ok(());
        };
        if self.laps == self.events.len() {
            self.events.push((self.device.event()?, self.device.event()?));
        }
        let (began, ended) = &self.events[self.laps];
        let (shortest, longest) = HELD;
        cuda.hold((2 * self.queued_in).clamp(shortest, longest))?;
        self.device.record(began)?;
        let clock = Instant::now();
        work()?;
        self.queued_in = clock.elapsed();
        self.device.record(ended)?;
        self.laps += 1;
        Ok(())
    }

    /// Seconds of the laps since the last reading, in order. Waits for their work.
    pub fn read(&mut self) -> Result<Vec<f64>, KernelError> {
        let mut seconds = std::mem::take(&mut self.seconds);
        for (began, ended) in &self.events[..std::mem::take(&mut self.laps)] {
            ended.synchronise()?;
            seconds.push(ended.since(began)?.unwrap_or_default().as_secs_f64());
        }
        Ok(seconds)
    }
}
