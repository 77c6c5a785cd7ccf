//! What the library tells, shown on the console.

use crate::logs;
use crate::progress::{Console, Progress};
use crate::report;
use crate::signals::Stop;
use crate::text::{si, tell};
use campanile::{Control, Event};
use std::sync::{Mutex, PoisonError};

/// Work that is being shown.
struct Shown {
    name: String,
    progress: Progress,
}

impl Console {
    /// Shows here what the library does, ends it by signals, and adds the report to the folders of runs.
    pub fn control(self, stop: &Stop) -> Control {
        let shown = Mutex::new(None);
        Control::default()
            .observe(move |event| {
                show(self, &mut shown.lock().unwrap_or_else(PoisonError::into_inner), event)
            })
            .stop_on(stop.flag())
            .finish_folders(|folder| Ok(report::write_report(folder).map(drop)?))
    }
}

fn show(console: Console, shown: &mut Option<Shown>, event: &Event) {
    if let Event::Noticed(notice) = event {
        return if notice.is_warning() { tell(notice) } else { console.note(notice) };
    }
    if let Event::Started(work) = event {
        let progress = console.progress(work.name.clone(), work.total, work.unit);
        *shown = Some(Shown { name: work.name.clone(), progress });
        return;
    }
    let Some(Shown { name, progress }) = shown else { return };
    match event {
        Event::Reading(step) => logs::show(progress, name, *step),
        Event::Advanced { done, total } => {
            progress.set_total(*total);
            progress.at(*done, "");
        }
        Event::Training { progress: at, paced } => {
            let auc = at.auc.map_or("–".into(), |auc| format!("{auc:.4}"));
            let learning = match paced {
                false => format!("loss {:.4}  AUC so far {auc}", at.loss),
                true => "paced".into(),
            };
            progress.at(at.step, &format!("{learning}  {} samples/s", si(at.samples_per_s)));
        }
        Event::Evaluating { samples } => progress.say(&format!("evaluating {} samples", si(*samples as f64))),
        Event::Finished => *shown = None,
        _ => {}
    }
}
