//! How far long work is: a bar on a terminal, a line now and then elsewhere, and nothing with `--quiet`.
//!
//! All of it goes to standard error, so that standard output holds results alone.

use crate::text::{bytes, si, tell};
pub use campanile::Unit;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Terminals narrower than this get a percentage instead of a bar.
const ROOM_FOR_A_BAR: u16 = 70;

/// How a command tells people what it is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Console {
    /// Warnings and errors only.
    Quiet,
    /// Standard error is a file or a pipe: whole lines.
    Lines,
    /// Standard error is a terminal of so many columns.
    Terminal(u16),
}

impl Console {
    /// The console of this process.
    pub fn new(quiet: bool) -> Self {
        if quiet {
            return Self::Quiet;
        }
        if !std::io::stderr().is_terminal() {
            return Self::Lines;
        }
        let columns = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col);
        // Some terminals do not say.
        Self::Terminal(if columns == 0 { 80 } else { columns })
    }

    /// Tells something that is no warning; not with `--quiet`.
    pub fn note(self, text: impl std::fmt::Display) {
        if self != Self::Quiet {
            tell(text);
        }
    }

    /// What rank `rank` tells: the first one speaks for all.
    pub fn of_rank(self, rank: usize) -> Self {
        if rank == 0 { self } else { Self::Quiet }
    }

    /// Shows that `what` goes on, of which nobody knows how long it takes.
    pub fn waiting(self, what: String) -> Waiting {
        let bar = match self {
            Self::Terminal(_) => ProgressBar::new_spinner(),
            Self::Quiet | Self::Lines => ProgressBar::hidden(),
        };
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        Waiting { bar }
    }

    /// Begins to show `what`, which will be done after `total` units; 0 where that is not known yet.
    pub fn progress(self, what: impl Into<String>, total: u64, unit: Unit) -> Progress {
        let what = what.into();
        let bar = match self {
            Self::Terminal(columns) => {
                let bar = ProgressBar::new(total);
                bar.set_style(ProgressStyle::with_template(&template(columns, unit)).expect("known keys"));
                bar.set_message(what.clone());
                bar
            }
            Self::Quiet | Self::Lines => ProgressBar::hidden(),
        };
        let lines = (self == Self::Lines).then(|| {
            let began = Instant::now();
            Mutex::new(Lines { began, state: LineState { total, ..LineState::default() } })
        });
        Progress { what, unit, bar, lines }
    }
}

/// A bar with what it counts and as much of the message as there is room for. On a narrow terminal a percentage stands for
/// the bar.
fn template(columns: u16, unit: Unit) -> String {
    let counted = match unit {
        Unit::Count(name) => format!("{{human_pos}}/{{human_len}} {name}"),
        Unit::Bytes => "{bytes}/{total_bytes}".into(),
    };
    if columns < ROOM_FOR_A_BAR {
        return "{percent:>3}% {wide_msg}".into();
    }
    let bar = if columns < 110 { 12 } else { 30 };
    format!("{{bar:{bar}}} {counted}  {{eta}} left  {{wide_msg}}")
}

/// Work without a measure that is being shown. Whoever drops it ends the display.
pub struct Waiting {
    bar: ProgressBar,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Long work that is being shown. Whoever drops it ends the bar.
pub struct Progress {
    what: String,
    unit: Unit,
    bar: ProgressBar,
    lines: Option<Mutex<Lines>>,
}

struct Lines {
    began: Instant,
    state: LineState,
}

/// What was told in lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LineState {
    done: u64,
    total: u64,
    /// When the last line was told, after the beginning.
    told_at: Duration,
    /// What share was done then.
    told_share: f64,
}

/// Between two lines at least.
const AT_LEAST: Duration = Duration::from_secs(2);
/// Between two lines at most, where anything happens at all.
const AT_MOST: Duration = Duration::from_secs(10);
/// The share of the work after which a line is told.
const SHARE: f64 = 0.05;

impl LineState {
    fn share(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.done as f64 / self.total as f64 }
    }

    /// Whether a line is due, so long after the beginning.
    fn due(&self, now: Duration) -> bool {
        let since = now.saturating_sub(self.told_at);
        since >= AT_MOST || (since >= AT_LEAST && self.share() - self.told_share >= SHARE)
    }
}

impl Progress {
    /// Says how much there is to do in all.
    pub fn set_total(&self, total: u64) {
        self.bar.set_length(total);
        if let Some(lines) = &self.lines {
            lock(lines).state.total = total;
        }
    }

    /// Says how much is done, and what else there is to tell.
    pub fn at(&self, done: u64, message: &str) {
        self.bar.set_position(done);
        self.bar.set_message(if message.is_empty() { self.what.clone() } else { message.to_owned() });
        let Some(lines) = &self.lines else { return };
        let mut lines = lock(lines);
        lines.state.done = done;
        let now = lines.began.elapsed();
        if lines.state.due(now) {
            tell(self.line(&lines.state, now, message));
            (lines.state.told_at, lines.state.told_share) = (now, lines.state.share());
        }
    }

    /// Says that `more` is done.
    pub fn advance(&self, more: u64) {
        let done = self.lines.as_ref().map_or(self.bar.position(), |lines| lock(lines).state.done);
        self.at(done + more, "");
    }

    /// Says what goes on now, where nothing is counted.
    pub fn say(&self, message: &str) {
        self.bar.set_message(message.to_owned());
        if self.lines.is_some() {
            tell(format!("{}: {message}", self.what));
        }
    }

    fn line(&self, state: &LineState, now: Duration, message: &str) -> String {
        let show = |count: u64| match self.unit {
            Unit::Count(_) => si(count as f64),
            Unit::Bytes => bytes(count),
        };
        let name = match self.unit {
            Unit::Count(name) => format!(" {name}"),
            Unit::Bytes => String::new(),
        };
        let share = state.share();
        let all = if state.total > 0 { format!(" of {}", show(state.total)) } else { String::new() };
        let mut line = format!("{}: {}{all}{name}", self.what, show(state.done));
        if share > 0.0 && share <= 1.0 {
            let left = now.as_secs_f64() * (1.0 - share) / share;
            line += &format!(" ({:.0} %), {} left", 100.0 * share, duration(left));
        }
        if !message.is_empty() {
            line += &format!("; {message}");
        }
        line
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn lock(lines: &Mutex<Lines>) -> std::sync::MutexGuard<'_, Lines> {
    lines.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Seconds as people say them: `42 s`, `3 min 20 s`, `5 h 10 min`.
pub fn duration(seconds: f64) -> String {
    let s = seconds.max(0.0).round() as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests;
