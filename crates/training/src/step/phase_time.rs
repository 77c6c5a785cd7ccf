//! The time of a phase on one rank.

use std::time::Duration;

/// Time of one phase on one rank, summed over steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhaseTime {
    /// At work: computing, or laying out and starting a collective.
    pub busy: Duration,
    /// CPU time of that, on the thread that issues phases: where ranks share cores, it is less.
    pub cpu: Duration,
    /// Time between the start of a collective and its completion by the transport.
    pub communication: Duration,
    /// Waiting for a collective with nothing else to do.
    pub exposed: Duration,
    /// Steps in which the phase ran on a device with queues, and those of them that were timed.
    pub(super) steps: u64,
    pub(super) timed: u64,
}

impl PhaseTime {
    /// The time in all steps, for which those that were timed stand; the host's own time is known of every step.
    pub(super) fn of_all_steps(self) -> Self {
        if self.timed == 0 {
            return self;
        }
        let of = |time: Duration| time.mul_f64(self.steps as f64 / self.timed as f64);
        let (busy, communication, exposed) = (of(self.busy), of(self.communication), of(self.exposed));
        Self { busy, communication, exposed, ..self }
    }
}
