//! `cellshift top`: a cloud on the screen, live. It asks no more often than the operators' page, and goes on by itself after a break. An
//! operation is selected with the arrows, and its journal opens over the lists.

mod asking;
mod journal;
mod keys;
mod screen;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use ratatui::crossterm::event::{self, Event};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::journal::Journal;
use self::keys::Reaction;
use self::screen::Look;
use super::output::on_service;
use super::overview::{Listed, Overview, Question};
use super::progress::can_redraw;
use super::reach::{Login, Reach};
use super::{Failure, terminal};
use crate::client::{Client, OPERATORS};
use crate::env::Env;
use crate::signals::Signals;

/// The pause between two drawings when nothing is new: ages go on.
const REDRAW: Duration = Duration::from_secs(1);
/// The pause between two looks whether the command has ended, for the thread that reads keys.
const KEY_PATIENCE: Duration = Duration::from_millis(200);

/// The service to look at.
#[derive(Args)]
pub(super) struct Top {
    #[command(flatten)]
    reach: Reach,
}

/// The newest answers, since when the service does not give any, and what the keys have chosen.
pub(super) struct State {
    pub(super) address: String,
    pub(super) overview: Overview,
    /// Since when questions fail, and the newest reason.
    pub(super) trouble: Option<(DateTime<Utc>, String)>,
    /// The id of the selected operation.
    pub(super) selected: Option<String>,
    pub(super) filter: Filter,
    /// The journal over the lists.
    opened: Option<Journal>,
}

/// The text that rows must contain, in whatever case.
#[derive(Default)]
pub(super) struct Filter {
    pub(super) text: String,
    /// True while letters are added.
    pub(super) is_typed: bool,
}

impl Filter {
    /// True if one of the cells contains the text.
    pub(super) fn fits(&self, cells: &[String]) -> bool {
        let text = self.text.to_lowercase();
        cells.iter().any(|cell| cell.to_lowercase().contains(&text))
    }
}

/// An answer of the service.
enum News {
    Answer(Question, Result<Value, String>),
    /// The journal of the operation with this id.
    Journal(String, Result<Value, String>),
}

impl State {
    fn new(address: String, overview: Overview) -> State {
        State { address, overview, trouble: None, selected: None, filter: Filter::default(), opened: None }
    }

    fn take(&mut self, news: News, now: DateTime<Utc>) {
        let answer = match news {
            News::Answer(question, answer) => answer.map(|answer| self.overview.take(question, answer)),
            News::Journal(uuid, answer) => answer.map(|answer| {
                if let Some(journal) = self.opened.as_mut().filter(|journal| journal.uuid == uuid) {
                    journal.take(answer, now);
                }
            }),
        };
        match answer {
            Ok(()) => self.trouble = None,
            Err(error) => {
                let since = self.trouble.as_ref().map_or(now, |(since, _)| *since);
                self.trouble = Some((since, error));
            }
        }
    }

    /// Returns the operations that need an operator, and those in flight, as far as they fit the filter.
    pub(super) fn listed(&self, now: DateTime<Utc>) -> (Vec<Listed>, Vec<Listed>) {
        let fitting = |mut rows: Vec<Listed>| {
            rows.retain(|row| self.filter.fits(&row.cells));
            rows
        };
        (fitting(self.overview.waiting(now)), fitting(self.overview.in_flight(now)))
    }
}

/// Shows the cloud until a key or a signal ends it.
pub(super) fn run(options: Top) -> Result<ExitCode, Failure> {
    if !can_redraw(&std::io::stdout()) || !std::io::stdin().is_terminal() {
        return Err("top needs a terminal: cellshift status prints one screen".into());
    }
    on_service(async {
        let login = options.reach.login()?;
        let client = login.clone().client().await?;
        let overview = Overview::read(&client).await?;
        let address = client.endpoint(OPERATORS).unwrap_or_default().to_owned();
        let mut signals = Signals::listen()?;
        let state = State::new(address, overview);
        // Also restores the terminal before a panic is printed.
        let drawn = ratatui::try_init()?;
        let shown = show(drawn, state, login, client, &mut signals).await;
        ratatui::try_restore()?;
        shown.map(|()| ExitCode::SUCCESS)
    })
}

async fn show(
    mut drawn: ratatui::DefaultTerminal,
    mut state: State,
    login: Login,
    client: Client,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let env = Env::system();
    let look = Look { colours: terminal::has_colours() };
    let (news_in, mut news) = unbounded_channel();
    let (demands_in, demands) = unbounded_channel();
    let asking = actix_rt::spawn(asking::ask(login.clone(), client, news_in.clone(), demands));
    let mut reading: Option<actix_rt::task::JoinHandle<()>> = None;
    let mut keys = keys();
    loop {
        drawn.draw(|frame| screen::draw(frame, &state, look, env.now()))?;
        tokio::select! {
            biased;
            () = signals.received() => break,
            event = keys.recv() => match event {
                Some(Ok(event)) => match state.react(&event, env.now()) {
                    Reaction::Stay => {}
                    Reaction::Leave => break,
                    Reaction::Open(uuid) => {
                        stop(reading.replace(actix_rt::spawn(journal::read(login.clone(), uuid.clone(), news_in.clone()))));
                        state.opened = Some(Journal::of(uuid));
                    }
                    Reaction::Close => {
                        stop(reading.take());
                        state.opened = None;
                    }
                },
                Some(Err(error)) => return Err(error.into()),
                None => break,
            },
            Some(fresh) = news.recv() => {
                state.take(fresh, env.now());
                let worth = Question::ALL.into_iter().filter(|question| state.overview.is_worth(*question)).collect();
                // The asker ends only with this command.
                let _ = demands_in.send(worth);
            }
            () = tokio::time::sleep(REDRAW) => {}
        }
    }
    stop(reading);
    asking.abort();
    Ok(())
}

fn stop(task: Option<actix_rt::task::JoinHandle<()>>) {
    if let Some(task) = task {
        task.abort();
    }
}

/// Reads keys and changes of the terminal's size on a thread, which ends after the receiver is gone.
fn keys() -> UnboundedReceiver<std::io::Result<Event>> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let read = match event::poll(KEY_PATIENCE) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let is_last = read.is_err();
            if sender.send(read).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::super::overview::tests::at;
    use super::*;

    #[test]
    fn trouble_is_kept_since_its_beginning_and_ends_with_an_answer() {
        let mut state = State::new(String::new(), Overview::default());
        let refused = || Err("no service answers".to_owned());
        state.take(News::Answer(Question::Cells, refused()), at(1));
        state.take(News::Journal("m".into(), refused()), at(5));
        assert_eq!(state.trouble.as_ref().map(|(since, _)| *since), Some(at(1)));
        state.take(News::Answer(Question::Cells, Ok(serde_json::json!({"cells": []}))), at(6));
        assert!(state.trouble.is_none());
    }
}
