//! Control of a running call: an observer of events, and a request to stop.

use crate::event::{Event, Notice, Unit, Work};
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Observer = dyn Fn(&Event) + Send + Sync;
type Finisher = dyn Fn(&Path) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync;

/// The caller's hold on long work: an observer that is told of [events](Event), and a flag that ends the work. Clones share
/// both.
///
/// ```
/// use campanile::Control;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// let stop = Arc::new(AtomicBool::new(false));
/// let control = Control::default().observe(|event| println!("{event:?}")).stop_on(stop.clone());
/// stop.store(true, Ordering::SeqCst);
/// assert!(control.is_stopped());
/// ```
#[derive(Clone, Default)]
pub struct Control {
    observer: Option<Arc<Observer>>,
    stop: Arc<AtomicBool>,
    finisher: Option<Arc<Finisher>>,
}

impl Control {
    /// Tells `observer` what happens, in place of the observer before.
    pub fn observe(self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self { observer: Some(Arc::new(observer)), ..self }
    }

    /// Ends the work soon after `stop` is set: training saves its state and ends after the current step, other work ends
    /// with an error.
    pub fn stop_on(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..self }
    }

    /// Calls `finisher` with the folder of every run that is complete, to add a file of its own. An error of it is an error
    /// of the run's folder.
    pub fn finish_folders(
        self,
        finisher: impl Fn(&Path) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        Self { finisher: Some(Arc::new(finisher)), ..self }
    }

    /// A hold with this stop flag and without an observer.
    pub fn silent(&self) -> Self {
        Self { observer: None, ..self.clone() }
    }

    /// Whether the work shall end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn stop_flag(&self) -> &AtomicBool {
        &self.stop
    }

    pub(crate) fn finish(&self, folder: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.finisher.as_ref().map_or(Ok(()), |finisher| finisher(folder))
    }

    pub(crate) fn tell(&self, event: Event) {
        if let Some(observer) = &self.observer {
            observer(&event);
        }
    }

    pub(crate) fn notice(&self, notice: Notice) {
        self.tell(Event::Noticed(notice));
    }

    /// Tells of lines that were left out, if there are any.
    pub(crate) fn notice_bad_lines(&self, count: u64, first: &[String]) {
        if count > 0 {
            self.notice(Notice::BadLines { count, first: first.to_vec() });
        }
    }

    /// Begins long work, which is over when the value is dropped.
    pub(crate) fn start(&self, name: impl Into<String>, total: u64, unit: Unit) -> Started<'_> {
        self.tell(Event::Started(Work { name: name.into(), total, unit }));
        Started { control: self, total }
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control")
            .field("observed", &self.observer.is_some())
            .field("stopped", &self.is_stopped())
            .finish()
    }
}

/// Long work that goes on.
pub(crate) struct Started<'a> {
    control: &'a Control,
    total: u64,
}

impl Started<'_> {
    /// Tells how many units are done.
    pub(crate) fn at(&self, done: u64) {
        self.of(done, self.total);
    }

    /// Tells how many units are done, of how many.
    pub(crate) fn of(&self, done: u64, total: u64) {
        self.control.tell(Event::Advanced { done, total });
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        self.control.tell(Event::Finished);
    }
}
