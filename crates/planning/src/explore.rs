//! Many simulations: every way to spread a model over every system that is asked for, folded into what is best.
//!
//! ```
//! use planning::cost::CostKind;
//! use planning::explore::{Space, Subject, ExploreProgress, WhatIf, explore};
//! use planning::system::System;
//! use planning::workload::{Layered, TaskKind};
//! let model = Subject::Layered(Layered::named("dlrm-a").unwrap());
//! let system = System::named("zionex:128").unwrap();
//! let space =
//!     Space::new(vec![model], vec![system], vec![512], TaskKind::PreTraining, WhatIf::default()).unwrap();
//! let summary = explore(&space, CostKind::MadMax, 1, 10, &ExploreProgress::default());
//! let best = space.point(summary.as_is.best.within_memory.unwrap().index);
//! // MAD-Max's Figure 9 has one strategy for both MLPs, (TP, DDP); small bottom layers are better replicated.
//! assert_eq!(space.described(&best), "bottom MLP (DDP), top MLP (TP, DDP), tables (MP)");
//! ```

mod distribution;
mod evaluate;
mod front;
mod nesting;
mod space;
mod summary;
mod tally;
mod what_if;

pub use distribution::Distribution;
pub use evaluate::{Evaluator, Outcome};
pub use front::Front;
pub use nesting::{Nesting, Plan};
pub use space::{Point, Space, SpaceError, Subject};
pub use summary::{Cell, Summary};
pub use tally::{Best, Found, Refused, Tally};
pub use what_if::{Capability, Scaling, WhatIf};

use crate::cost::CostKind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Progress of an exploration, and a request to stop it.
#[derive(Debug, Default)]
pub struct ExploreProgress {
    /// Points that were looked at.
    pub done: AtomicUsize,
    /// Set to end early, with what was found so far.
    pub stop: AtomicBool,
}

/// Points that a thread takes at a time.
const CHUNK: usize = 256;

/// Looks at every point of `space` on so many threads, and keeps the `top` fastest beside the summary.
pub fn explore(
    space: &Space,
    cost: CostKind,
    threads: usize,
    top: usize,
    watch: &ExploreProgress,
) -> Summary {
    let next = AtomicUsize::new(0);
    let of_thread = || {
        let mut evaluator = Evaluator::new(space, cost);
        let mut summary = Summary::new(space, top);
        while !watch.stop.load(Ordering::Relaxed) {
            let first = next.fetch_add(CHUNK, Ordering::Relaxed);
            if first >= space.len() {
                break;
            }
            for index in first..(first + CHUNK).min(space.len()) {
                if watch.stop.load(Ordering::Relaxed) {
                    break;
                }
                let point = space.point(index);
                summary.add(space, index, &point, &evaluator.evaluate(&point));
                watch.done.fetch_add(1, Ordering::Relaxed);
            }
        }
        summary
    };
    let mut summary = Summary::new(space, top);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(of_thread)).collect();
        for thread in threads {
            match thread.join() {
                Ok(part) => summary.merge(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    summary
}
