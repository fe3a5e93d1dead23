//! The progress of work that takes more than a second, on one line of standard error. Nothing is shown without a terminal, or on a terminal
//! that cannot move its cursor (`TERM=dumb`). The line has no colours.

use std::future::Future;
use std::io::IsTerminal;
use std::pin::pin;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The wait before work counts as long.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two pictures of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// A line that shows progress, until it is dropped.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

/// True if a stream is a terminal that can move its cursor.
pub(super) fn can_redraw(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

impl Progress {
    /// Shows a spinner with a text, which [`Progress::says`] replaces.
    pub(super) fn spinning() -> Progress {
        Progress::with(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(TICK);
            bar
        })
    }

    /// Shows a bar that counts to `total`.
    pub(super) fn counting(total: u64, what: &'static str) -> Progress {
        Progress::with(|| {
            let bar = ProgressBar::new(total).with_message(what);
            // The template is valid; without it the line would only look different.
            let style = ProgressStyle::with_template("{msg} {pos} of {len} [{bar:30}] {elapsed}");
            bar.set_style(style.map(|style| style.progress_chars("#>.")).unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        })
    }

    fn with(make: impl FnOnce() -> ProgressBar) -> Progress {
        Progress { bar: can_redraw(&std::io::stderr()).then(make) }
    }

    /// True if the line is on a terminal.
    pub(super) fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Replaces the text.
    pub(super) fn says(&self, text: impl Into<String>) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.into());
        }
    }

    /// Counts one more.
    pub(super) fn count(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// Does work that prints lines, and shows the progress below them.
    pub(super) fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(work),
            None => work(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Does work, and shows a text once it has taken more than a second.
pub(super) async fn patiently<T>(text: &str, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = tokio::time::sleep(PATIENCE) => {}
    }
    let progress = Progress::spinning();
    progress.says(text);
    work.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix_rt::test]
    async fn work_is_done_without_a_terminal() {
        assert_eq!(patiently("working", std::future::ready(7)).await, 7);
        let quiet = Progress { bar: None };
        quiet.says("nothing");
        quiet.count();
        assert_eq!((quiet.is_shown(), quiet.aside(|| 3)), (false, 3));
        let file = tempfile::tempfile().unwrap();
        assert!(!can_redraw(&file));
    }
}
