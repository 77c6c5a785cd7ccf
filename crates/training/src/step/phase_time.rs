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
}

impl PhaseTime {
    /// The time as it would be in `share` times as many steps; the host's own time is known of every step.
    pub(super) fn of_steps(self, share: f64) -> Self {
        let of = |time: Duration| time.mul_f64(share);
        let Self { busy, cpu, communication, exposed } = self;
        Self { busy: of(busy), cpu, communication: of(communication), exposed: of(exposed) }
    }
}
