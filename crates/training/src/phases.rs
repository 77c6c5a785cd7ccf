//! What each phase took, over all ranks.

use crate::{Error, PhaseTime};
use collectives::{Communicator, Label};
use serde::Serialize;
use spec::schedule::{Lane, Schedule};
use spec::topology::LinkClass;
use spec::volume::LinkBytes;

/// One phase over all steps of a run.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Its name.
    pub name: String,
    /// Where it queued.
    pub lane: Lane,
    /// Seconds at work, mean over ranks.
    pub busy_s: f64,
    /// Seconds waited for with nothing else to do, mean over ranks.
    pub exposed_s: f64,
    /// Bytes sent by all ranks, as the transport counted them.
    pub sent: LinkBytes,
}

/// Sums what every rank measured of every phase.
pub(crate) fn report(
    world: &Communicator,
    schedule: &Schedule,
    times: &[PhaseTime],
) -> Result<Vec<PhaseReport>, Error> {
    const COLUMNS: usize = 4;
    let metered = world.meter();
    let mut sums = Vec::with_capacity(times.len() * COLUMNS);
    for (phase, time) in schedule.phases().iter().zip(times) {
        let traffic = metered.iter().find(|t| t.label.as_str() == phase.name);
        let sent = |link| traffic.map_or(0.0, |t| t.sent(link) as f64);
        sums.extend([
            time.busy.as_secs_f64(),
            time.exposed.as_secs_f64(),
            sent(LinkClass::Host),
            sent(LinkClass::Network),
        ]);
    }
    world.all_reduce_f64(&Label::from("report"), &mut sums)?;
    let ranks = world.size() as f64;
    let reports = schedule.phases().iter().zip(sums.chunks(COLUMNS)).map(|(phase, sums)| PhaseReport {
        name: phase.name.clone(),
        lane: phase.lane,
        busy_s: sums[0] / ranks,
        exposed_s: sums[1] / ranks,
        sent: LinkBytes { host: sums[2] as u64, network: sums[3] as u64 },
    });
    Ok(reports.collect())
}
