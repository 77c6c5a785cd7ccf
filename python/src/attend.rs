//! Long work on a thread of its own, while the caller's thread attends to signals and shows progress.
//!
//! ```text
//! worker    without the interpreter's lock ──── events ────► caller: progress callback, Ctrl-C
//!           ◄──────────────────── stop flag ──────────────
//! ```

use crate::error::{of, refuse};
use campanile::{Control, Error, Event, Unit};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time between looks at signals.
const LOOK: Duration = Duration::from_millis(50);
/// Time between two events of the same work, at least.
const BETWEEN: Duration = Duration::from_millis(100);

/// What the worker sends.
enum Message {
    Event(Shown),
    Done,
}

/// An event as the callback is told of it.
enum Shown {
    Started { name: String, total: u64, unit: &'static str },
    Advanced { done: u64, total: u64 },
    Finished,
    Training { step: u64, steps: u64, loss: f64, auc: Option<f64>, samples_per_s: f64 },
    Evaluated { step: u64, auc: Option<f64>, logloss: f64 },
    Saved { step: u64, path: String },
    Noticed { text: String, warning: bool },
}

/// Result of attended work, and what interrupted it.
pub struct Attended<T> {
    /// What the work gave; `Err` with an exception.
    pub result: PyResult<T>,
    /// Exception of a signal or of the callback that stopped the work.
    pub interrupted: Option<PyErr>,
}

/// Does `work` without the interpreter's lock. Calls `progress` with events, on this thread. A signal, or an exception of `progress`,
/// asks the work to stop, and is returned once it has.
pub fn attended<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(Control, Arc<AtomicBool>) -> Result<T, Error> + Send,
) -> Attended<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let (send, receive) = channel();
    let receive = Mutex::new(receive);
    let control = match progress {
        None => Control::default(),
        Some(_) => {
            let (send, last) = (Mutex::new(send.clone()), Mutex::new(None::<Instant>));
            Control::default().observe(move |event| {
                let Some(shown) = shown(event) else { return };
                if let Shown::Advanced { .. } = shown {
                    let Ok(mut last) = last.lock() else { return };
                    if last.is_some_and(|last| last.elapsed() < BETWEEN) {
                        return;
                    }
                    *last = Some(Instant::now());
                }
                if let Ok(send) = send.lock() {
                    let _ = send.send(Message::Event(shown));
                }
            })
        }
    };
    let control = control.stop_on(stop.clone());
    let mut interrupted: Option<PyErr> = None;
    let result = std::thread::scope(|scope| {
        let flag = stop.clone();
        let worker = scope.spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(control, flag)));
            let _ = send.send(Message::Done);
            result
        });
        loop {
            let next = || receive.lock().map_or(Ok(Message::Done), |receive| receive.recv_timeout(LOOK));
            let message = py.detach(next);
            let told = match (&message, progress) {
                (Ok(Message::Event(event)), Some(progress)) if interrupted.is_none() => tell(progress, event),
                _ => Ok(()),
            };
            if let Err(error) = told.and_then(|()| py.check_signals()) {
                stop.store(true, Ordering::SeqCst);
                interrupted.get_or_insert(error);
            }
            match message {
                Ok(Message::Event(_)) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::Done) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        py.detach(|| worker.join())
    });
    let result = match result {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(error))) => Err(of(&error)),
        Ok(Err(panic)) | Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(refuse(format!("a defect of this program, please report it: {text}")))
        }
    };
    Attended { result, interrupted }
}

impl<T> Attended<T> {
    /// The result, unless the work was interrupted.
    pub fn whole(self) -> PyResult<T> {
        match self.interrupted {
            Some(interrupted) => Err(interrupted),
            None => self.result,
        }
    }
}

fn shown(event: &Event) -> Option<Shown> {
    Some(match event {
        Event::Started(work) => {
            let unit = match work.unit {
                Unit::Count(name) => name,
                Unit::Bytes => "bytes",
            };
            Shown::Started { name: work.name.clone(), total: work.total, unit }
        }
        Event::Advanced { done, total } => Shown::Advanced { done: *done, total: *total },
        Event::Reading(reading) => Shown::Advanced { done: reading.progress.samples, total: 0 },
        Event::Finished => Shown::Finished,
        Event::Training { progress, .. } => Shown::Training {
            step: progress.step,
            steps: progress.steps,
            loss: progress.loss,
            auc: progress.auc,
            samples_per_s: progress.samples_per_s,
        },
        Event::Evaluated { step, scores } => {
            Shown::Evaluated { step: *step, auc: scores.evaluation.auc, logloss: scores.evaluation.logloss }
        }
        Event::Saved { step, path, .. } => Shown::Saved { step: *step, path: path.display().to_string() },
        Event::Noticed(notice) => Shown::Noticed { text: notice.to_string(), warning: notice.is_warning() },
        _ => return None,
    })
}

/// Calls `progress` with an event as a dict.
fn tell(progress: &Bound<'_, PyAny>, event: &Shown) -> PyResult<()> {
    let dict = PyDict::new(progress.py());
    match event {
        Shown::Started { name, total, unit } => {
            dict.set_item("event", "started")?;
            dict.set_item("name", name)?;
            dict.set_item("total", total)?;
            dict.set_item("unit", unit)?;
        }
        Shown::Advanced { done, total } => {
            dict.set_item("event", "advanced")?;
            dict.set_item("done", done)?;
            dict.set_item("total", total)?;
        }
        Shown::Finished => dict.set_item("event", "finished")?,
        Shown::Training { step, steps, loss, auc, samples_per_s } => {
            dict.set_item("event", "training")?;
            dict.set_item("step", step)?;
            dict.set_item("steps", steps)?;
            dict.set_item("loss", loss)?;
            dict.set_item("auc", auc)?;
            dict.set_item("samples_per_s", samples_per_s)?;
        }
        Shown::Evaluated { step, auc, logloss } => {
            dict.set_item("event", "evaluated")?;
            dict.set_item("step", step)?;
            dict.set_item("auc", auc)?;
            dict.set_item("logloss", logloss)?;
        }
        Shown::Saved { step, path } => {
            dict.set_item("event", "saved")?;
            dict.set_item("step", step)?;
            dict.set_item("path", path)?;
        }
        Shown::Noticed { text, warning } => {
            dict.set_item("event", "noticed")?;
            dict.set_item("text", text)?;
            dict.set_item("warning", warning)?;
        }
    }
    progress.call1((dict,)).map(|_| ())
}
