//! `cellshift top`: a cloud on the screen, live. It asks no more often than the operators' page, and goes on by itself after a break.

mod screen;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use self::screen::Look;
use super::output::on_service;
use super::overview::{Overview, Question};
use super::progress::can_redraw;
use super::reach::{Login, Reach};
use super::{Failure, terminal};
use crate::client::{Client, ClientError, OPERATORS};
use crate::env::Env;
use crate::signals::Signals;

/// The part of its time that the command spends on one kind of question at most, as a divisor.
const SHARE: u32 = 10;
/// The longest pause between two questions of a kind.
const LONGEST: Duration = Duration::from_secs(60);
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

/// Returns the usual pause between two questions of a kind.
fn interval(question: Question) -> Duration {
    match question {
        Question::Summary => Duration::from_secs(2),
        Question::Running | Question::Unwinding => Duration::from_millis(2500),
        Question::Cells | Question::Waiting => Duration::from_secs(4),
    }
}

/// Returns the pause after a question that took so long: a question of a large cloud is asked less often.
fn pause(usual: Duration, took: Duration) -> Duration {
    usual.max(took.saturating_mul(SHARE).min(LONGEST))
}

/// The newest answers, and since when the service does not give any.
pub(super) struct State {
    pub(super) address: String,
    pub(super) overview: Overview,
    /// Since when questions fail, and the newest reason.
    pub(super) trouble: Option<(DateTime<Utc>, String)>,
}

type News = (Question, Result<Value, ClientError>);

impl State {
    fn take(&mut self, (question, answer): News, now: DateTime<Utc>) {
        match answer {
            Ok(answer) => {
                self.overview.take(question, answer);
                self.trouble = None;
            }
            Err(error) => {
                let since = self.trouble.as_ref().map_or(now, |(since, _)| *since);
                self.trouble = Some((since, error.to_string()));
            }
        }
    }
}

/// Shows the cloud until a key or a signal ends it.
pub(super) fn run(asked: Top) -> Result<ExitCode, Failure> {
    if !can_redraw(&std::io::stdout()) || !std::io::stdin().is_terminal() {
        return Err("top needs a terminal: cellshift status prints one screen".into());
    }
    on_service(async {
        let login = asked.reach.login()?;
        let client = login.clone().client().await?;
        let overview = Overview::read(&client).await?;
        let address = client.endpoint(OPERATORS).unwrap_or_default().to_owned();
        let mut signals = Signals::listen()?;
        let state = State { address, overview, trouble: None };
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
    let (wanted_in, wanted) = unbounded_channel();
    let asking = actix_rt::spawn(ask(login, client, news_in, wanted));
    let mut keys = keys();
    loop {
        drawn.draw(|frame| screen::draw(frame, &state, look, env.now()))?;
        tokio::select! {
            biased;
            () = signals.received() => break,
            event = keys.recv() => match event {
                Some(Ok(event)) if !leaves(&event) => {}
                Some(Err(error)) => return Err(error.into()),
                _ => break,
            },
            Some(fresh) = news.recv() => {
                state.take(fresh, env.now());
                let worth = Question::ALL.into_iter().filter(|question| state.overview.is_worth(*question)).collect();
                // The asker ends only with this command.
                let _ = wanted_in.send(worth);
            }
            () = tokio::time::sleep(REDRAW) => {}
        }
    }
    asking.abort();
    Ok(())
}

/// True for the keys that end the command.
fn leaves(event: &Event) -> bool {
    match event {
        Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) => match code {
            KeyCode::Char('q' | 'Q') | KeyCode::Esc => true,
            KeyCode::Char('c') => modifiers.contains(KeyModifiers::CONTROL),
            _ => false,
        },
        _ => false,
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

/// Asks one question after the other, each kind when its pause is over. Logs in again when the token has ended.
async fn ask(login: Login, mut client: Client, news: UnboundedSender<News>, mut wanted: UnboundedReceiver<Vec<Question>>) {
    let mut worth = Question::ALL.to_vec();
    let mut due = Question::ALL.map(|question| (Instant::now() + interval(question), question));
    loop {
        while let Ok(newer) = wanted.try_recv() {
            worth = newer;
        }
        due.sort_by_key(|(at, _)| *at);
        let [(at, question), ..] = &mut due;
        tokio::time::sleep_until(*at).await;
        let began = Instant::now();
        if worth.contains(question) {
            let answer = question.ask(&client).await;
            if matches!(answer, Err(ClientError::Refused { status: 401, .. }))
                && let Ok(fresh) = login.clone().client().await
            {
                client = fresh;
            } else if news.send((*question, answer)).is_err() {
                return;
            }
        }
        *at = Instant::now() + pause(interval(*question), began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::super::overview::tests::at;
    use super::*;

    #[test]
    fn slow_questions_are_asked_less_often() {
        let (usual, ms) = (Duration::from_secs(2), Duration::from_millis);
        assert_eq!(pause(usual, ms(5)), usual);
        assert_eq!(pause(usual, ms(1000)), Duration::from_secs(10));
        assert_eq!(pause(usual, ms(60_000)), LONGEST);
    }

    #[test]
    fn trouble_is_kept_since_its_beginning_and_ends_with_an_answer() {
        let mut state = State { address: String::new(), overview: Overview::default(), trouble: None };
        let refused = || Err(ClientError::NoService("x".into()));
        state.take((Question::Cells, refused()), at(1));
        state.take((Question::Summary, refused()), at(5));
        assert_eq!(state.trouble.as_ref().map(|(since, _)| *since), Some(at(1)));
        state.take((Question::Cells, Ok(serde_json::json!({"cells": []}))), at(6));
        assert!(state.trouble.is_none());
    }

    #[test]
    fn q_escape_and_interrupt_leave() {
        let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
        assert!(leaves(&key(KeyCode::Char('q'), KeyModifiers::NONE)) && leaves(&key(KeyCode::Esc, KeyModifiers::NONE)));
        assert!(leaves(&key(KeyCode::Char('c'), KeyModifiers::CONTROL)));
        assert!(!leaves(&key(KeyCode::Char('c'), KeyModifiers::NONE)) && !leaves(&Event::Resize(1, 1)));
    }
}
