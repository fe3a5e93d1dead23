//! The WebSocket of a serial console: it sends what the guest writes, and what the user types becomes lines that the guest reads. It follows
//! the server to other hosts, and ends with the server.

use std::time::Duration;

use actix_web::http::header::ORIGIN;
use actix_web::{HttpRequest, web};
use actix_ws::{CloseCode, CloseReason, Closed, Message, MessageStream, Session};
use serde::Deserialize;
use tokio::time::{Instant, MissedTickBehavior, interval};
use uuid::Uuid;

use super::ComputeApi;
use super::token::ConsoleToken;
use crate::db::DbError;
use crate::http::base_url;
use crate::http::compute::answer::{Answer, bad_request, forbidden, not_found};
use crate::http::error::{ApiError, ErrorForm};
use crate::http::limits::Entered;

/// The pause between two looks at what the guest has written.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The pause between two searches for the server's host.
const FIND_EVERY: Duration = Duration::from_secs(1);
/// The pause between two signs of life.
const PING_EVERY: Duration = Duration::from_secs(30);
/// A client that has sent nothing for this time, not even the answer to a ping, is gone.
const SILENCE: Duration = Duration::from_secs(90);
/// The maximum length of a frame.
const FRAME_MAX: usize = 4096;
/// The maximum length of a line.
const LINE_MAX: usize = 255;
/// The subprotocol of noVNC's family of clients, for those that ask for it.
const BINARY: &str = "binary";

#[derive(Deserialize)]
pub(super) struct Query {
    #[serde(default)]
    token: String,
}

/// Opens a console. 400 unless the request is a WebSocket's, 403 for a token that is not good or a page of another origin, 503 if too many
/// consoles are open.
pub(super) async fn open(request: HttpRequest, api: web::Data<ComputeApi>, query: web::Query<Query>, payload: web::Payload) -> Answer {
    if is_foreign(&request) {
        return Err(forbidden("A page of another origin may not open a console."));
    }
    let token = ConsoleToken::open(&query.token, &api.env).ok_or_else(|| forbidden("The token is invalid or has expired."))?;
    let entered = api.consoles.open.enter(ErrorForm::Compute)?;
    let console = Console::of(api, token.server, entered).await?;
    let shaken = actix_ws::handle_with_protocols(&request, payload, &[BINARY]);
    let (answer, session, messages) = shaken.map_err(|_| bad_request("Only a WebSocket's client can open a console."))?;
    actix_web::rt::spawn(console.serve(session, messages.max_frame_size(FRAME_MAX)));
    Ok(answer)
}

/// True if a page opens the console that this service did not serve.
fn is_foreign(request: &HttpRequest) -> bool {
    let origin = request.headers().get(ORIGIN);
    origin.is_some_and(|origin| !origin.as_bytes().eq_ignore_ascii_case(base_url::of(request).as_bytes()))
}

/// The reason for the end of a console.
enum End {
    /// The client closed it, or is gone.
    Left,
    /// The server is gone.
    ServerGone,
    /// The service stops.
    Stops,
    /// The client does not speak the protocol.
    Broken,
}

impl From<Closed> for End {
    fn from(_: Closed) -> End {
        End::Left
    }
}

impl End {
    fn reason(&self) -> Option<CloseReason> {
        let reason = |code: CloseCode, text: &str| Some(CloseReason { code, description: Some(text.to_owned()) });
        match self {
            End::Left => None,
            End::ServerGone => reason(CloseCode::Normal, "The server is gone."),
            End::Stops => reason(CloseCode::Away, "The service stops."),
            End::Broken => reason(CloseCode::Protocol, "A frame is malformed or too long."),
        }
    }
}

struct Console {
    api: web::Data<ComputeApi>,
    server: Uuid,
    /// The cell and the host of the server; none while it is on no host.
    place: Option<(String, String)>,
    /// The time of the last search for the server; none before the first.
    searched: Option<Instant>,
    /// The text of the guest at the last look.
    seen: String,
    /// The typed part of the present line.
    line: String,
    heard: Instant,
    _entered: Entered,
}

impl Console {
    async fn of(api: web::Data<ComputeApi>, server: Uuid, entered: Entered) -> Result<Console, ApiError> {
        let located = api.registry.find_server(server).await;
        located.map_err(|_| not_found(format!("Instance {server} could not be found.")))?;
        let (seen, line) = (String::new(), String::new());
        Ok(Console { api, server, place: None, searched: None, seen, line, heard: Instant::now(), _entered: entered })
    }

    async fn serve(mut self, mut session: Session, mut messages: MessageStream) {
        let end = match self.talk(&mut session, &mut messages).await {
            Ok(never) => match never {},
            Err(end) => end,
        };
        // The client may be gone.
        let _ = session.close(end.reason()).await;
    }

    async fn talk(&mut self, session: &mut Session, messages: &mut MessageStream) -> Result<std::convert::Infallible, End> {
        let (mut looks, mut pings) = (interval(LOOK_EVERY), interval(PING_EVERY));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopping = self.api.consoles.stopping.clone();
        loop {
            tokio::select! {
                message = messages.recv() => {
                    let message = message.ok_or(End::Left)?.map_err(|_| End::Broken)?;
                    self.heard = Instant::now();
                    self.take(session, message).await?;
                }
                _ = looks.tick() => self.show(session).await?,
                _ = pings.tick() => {
                    if self.heard.elapsed() > SILENCE {
                        return Err(End::Left);
                    }
                    session.ping(b"").await?;
                }
                _ = stopping.wait_for(|stops| *stops) => return Err(End::Stops),
            }
        }
    }

    async fn take(&mut self, session: &mut Session, message: Message) -> Result<(), End> {
        match message {
            Message::Text(text) => self.typed(session, text.as_bytes()).await,
            Message::Binary(bytes) => self.typed(session, &bytes).await,
            Message::Ping(bytes) => Ok(session.pong(&bytes).await?),
            Message::Close(_) => Err(End::Left),
            Message::Pong(_) | Message::Nop => Ok(()),
            // A console's frames are short.
            Message::Continuation(_) => Err(End::Broken),
        }
    }

    /// Takes keys, and shows them, as a terminal does. The guest reads a line when it is complete.
    async fn typed(&mut self, session: &mut Session, keys: &[u8]) -> Result<(), End> {
        let mut echo = String::new();
        for key in keys {
            match key {
                b'\r' | b'\n' => {
                    echo += "\r\n";
                    say(session, &std::mem::take(&mut echo)).await?;
                    self.send_line(session).await?;
                }
                // Backspace and delete.
                8 | 127 if self.line.pop().is_some() => echo += "\u{8} \u{8}",
                b' '..=b'~' if self.line.len() < LINE_MAX => {
                    self.line.push(char::from(*key));
                    echo.push(char::from(*key));
                }
                _ => {}
            }
        }
        say(session, &echo).await
    }

    async fn send_line(&mut self, session: &mut Session) -> Result<(), End> {
        let line = std::mem::take(&mut self.line);
        if !self.is_read(&line).await {
            // The server may have moved.
            self.find().await?;
            if !self.is_read(&line).await {
                say(session, "(the guest does not read)\r\n").await?;
            }
        }
        self.show(session).await
    }

    /// Types a line. False if no guest reads it.
    async fn is_read(&self, line: &str) -> bool {
        let Some((cell, host)) = &self.place else { return false };
        self.api.operations.type_line(cell, host, self.server, line.to_owned()).await.is_ok()
    }

    /// Sends what the guest has written since the last look.
    async fn show(&mut self, session: &mut Session) -> Result<(), End> {
        if self.searched.is_none_or(|at| at.elapsed() >= FIND_EVERY) {
            self.find().await?;
        }
        let written = match &self.place {
            Some((cell, host)) => self.api.operations.console(cell, host, self.server).await.ok(),
            None => None,
        };
        let Some(written) = written else { return Ok(()) };
        let new = newer(&self.seen, &written);
        say(session, &new.replace('\n', "\r\n")).await?;
        self.seen = written;
        Ok(())
    }

    /// Looks for the server's host, which may be another one by now.
    async fn find(&mut self) -> Result<(), End> {
        self.searched = Some(Instant::now());
        match self.api.registry.find_server(self.server).await {
            Ok(located) => {
                self.place = located.cell.zip(located.instance.host);
                Ok(())
            }
            Err(error) => match DbError::from(error) {
                DbError::NotFound(_) => Err(End::ServerGone),
                // Its cell is down: the next look asks again.
                _ => Ok(()),
            },
        }
    }
}

async fn say(session: &mut Session, text: &str) -> Result<(), End> {
    if text.is_empty() {
        return Ok(());
    }
    Ok(session.binary(text.as_bytes().to_vec()).await?)
}

/// Returns what is new in a console's text since an earlier look; the oldest lines may have gone since.
pub(super) fn newer<'a>(seen: &str, now: &'a str) -> &'a str {
    if let Some(rest) = now.strip_prefix(seen) {
        return rest;
    }
    let last = seen.trim_end().rsplit('\n').next().unwrap_or_default();
    match now.rfind(last) {
        Some(at) if !last.is_empty() => now[at + last.len()..].trim_start_matches('\n'),
        _ => now,
    }
}
