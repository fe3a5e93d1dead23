//! The screen of a command that shows a part of the cloud: once, or with `--watch` again and again.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::Failure;
use super::output::{Output, ServiceOptions};
use super::progress::can_redraw;
use super::terminal::{self, complain};
use crate::client::{Client, ClientError};
use crate::signals::Signals;

/// The pause between two screens.
const EVERY: Duration = Duration::from_secs(2);
/// The terminal's code that clears the screen and goes to its beginning.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// The option that keeps a screen up to date.
#[derive(Args, Clone, Copy)]
pub(super) struct Watch {
    /// Show this again every two seconds, until Ctrl-C.
    #[arg(long)]
    watch: bool,
}

/// The text that a command shows.
pub(super) struct Screen {
    /// The answer of the service, for `-o json`.
    pub(super) answer: Value,
    /// The answer as people read it.
    pub(super) text: String,
    /// Sentences for standard error: parts that are missing.
    pub(super) remarks: Vec<String>,
}

impl Screen {
    fn show(&self, output: Output, clears: bool) -> Result<(), Failure> {
        if clears && !output.is_json() && can_redraw(&std::io::stdout()) {
            terminal::out(format_args!("{CLEAR}"));
        }
        output.show(&self.answer, |_| self.text.clone())?;
        self.remarks.iter().for_each(|remark| complain!("{remark}"));
        Ok(())
    }
}

impl Watch {
    /// Shows the screens that `read` makes, once or until a signal. If the first read fails, the command ends. A later failure is printed and
    /// the read is repeated, because the service may come back; an expired token is replaced.
    pub(super) async fn screens(
        self,
        ServiceOptions { reach, output }: ServiceOptions,
        read: impl AsyncFn(&Client) -> Result<Screen, Failure>,
    ) -> Result<ExitCode, Failure> {
        let login = reach.login()?;
        let mut client = login.clone().client().await?;
        if !self.watch {
            read(&client).await?.show(output, false)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut signals = Signals::listen()?;
        let mut is_first = true;
        while !terminal::is_gone() {
            let screen = tokio::select! {
                screen = read(&client) => screen,
                () = signals.received() => break,
            };
            match screen {
                Ok(screen) => screen.show(output, true)?,
                Err(failure) if is_first => return Err(failure),
                Err(failure) if is_over(&failure) => match login.clone().client().await {
                    Ok(fresh) => client = fresh,
                    Err(failure) => complain!("{failure}"),
                },
                Err(failure) => complain!("{failure}"),
            }
            is_first = false;
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = signals.received() => break,
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// True if the service refused a token that has ended.
fn is_over(failure: &Failure) -> bool {
    matches!(failure.downcast_ref(), Some(ClientError::Refused { status: 401, .. }))
}
