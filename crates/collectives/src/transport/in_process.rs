//! Transport between ranks that are threads of one process. There are no worker threads: the ranks copy for each other.

mod exchange;
mod mover;
mod world;

pub(crate) use world::World;

use super::{Control, GroupId, ROOM};
use crate::sync::lock;
use crate::{CollectiveError, CollectiveStatus, Label};
use exchange::Pair;
use mover::Started;
use std::sync::atomic::AtomicBool;
#[cfg(test)]
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use world::Group;

type Result<T = ()> = std::result::Result<T, CollectiveError>;

/// One rank's end of the in-process transport.
pub(crate) struct InProcess {
    world: Arc<World>,
    rank: usize,
    wait_limit: Duration,
    /// Whether host memory too is moved as device memory is, for tests on machines without devices.
    all_on_queues: AtomicBool,
    local: Mutex<Local>,
}

/// State that only this rank's thread uses.
struct Local {
    groups: Vec<Arc<Group>>,
    under_way: Vec<Option<Started>>,
    free: Vec<usize>,
    pairs: Vec<Pair>,
}

impl InProcess {
    pub(crate) fn new(world: Arc<World>, rank: usize, wait_limit: Duration) -> Self {
        let groups = vec![world.everyone.clone()];
        let (under_way, free) = (Vec::with_capacity(ROOM), Vec::with_capacity(ROOM));
        let local = Local { groups, under_way, free, pairs: Vec::with_capacity(world.topology.ranks()) };
        Self { world, rank, wait_limit, all_on_queues: AtomicBool::new(false), local: Mutex::new(local) }
    }

    /// World rank.
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// Number of ranks in all.
    #[cfg(test)]
    pub(crate) fn ranks(&self) -> usize {
        self.world.topology.ranks()
    }

    /// Moves host memory too as device memory is moved, for tests on machines without devices.
    #[cfg(test)]
    pub(crate) fn use_queues(&self) {
        self.all_on_queues.store(true, Ordering::Relaxed);
    }

    /// Marks that this rank will start no more exchanges. Fails the run if another rank needs it in one.
    pub(crate) fn leave(&self) -> Result {
        self.world.leave(self.rank);
        let groups = lock(&self.local).groups.clone();
        for group in &groups {
            for (sequence, exchange) in group.active() {
                self.world.check_left(group, sequence, &exchange)?;
            }
        }
        Ok(())
    }
}

impl Control for InProcess {
    fn create_group(
        &self,
        parent: GroupId,
        sequence: u64,
        color: usize,
        members: &[usize],
    ) -> Result<GroupId> {
        self.world.check()?;
        let group = self.world.join(parent, sequence, color, members);
        let id = group.id;
        lock(&self.local).groups.push(group);
        Ok(id)
    }

    fn abort(&self, cause: CollectiveError) -> CollectiveError {
        self.world.fail(cause)
    }

    fn check(&self) -> Result {
        self.world.check()
    }

    fn enter(&self, phase: &Label) {
        lock(&self.world.seats[self.rank].status).phase = phase.clone();
    }

    fn started(&self, collective: &CollectiveStatus) {
        lock(&self.world.seats[self.rank].status).collective = Some(collective.clone());
    }
}

#[cfg(test)]
mod tests;
