//! `cellshift events`: the notifications of a running service, those it keeps or those to come.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::output::{Limit, ServiceOptions, on_service, printable, text};
use super::progress::patiently;
use super::reach::Login;
use super::terminal::{self, complain, say};
use super::words::{date, short};
use super::{Failure, names};
use crate::client::{Client, ClientError, Event, OPERATORS};

const PATH: &str = "/notifications";
/// The pause before a broken stream is opened again.
const PAUSE: Duration = Duration::from_secs(1);

/// The events to print.
#[derive(Args)]
pub(super) struct Events {
    #[command(flatten)]
    service: ServiceOptions,
    #[command(flatten)]
    limit: Limit,
    /// Go on with each event as it comes, from now on, and after a break of the connection behind the last event.
    #[arg(short, long)]
    follow: bool,
    /// Begin behind the event with this number.
    #[arg(long, value_name = "NUMBER")]
    after: Option<u64>,
    /// Only events of this server: its name, its id, or the beginning of its id.
    #[arg(long)]
    server: Option<String>,
    /// Only events whose type begins so, such as instance.resize.
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
}

/// Selects events.
struct EventFilter {
    server: Option<String>,
    kind: Option<String>,
}

impl EventFilter {
    fn has(&self, event: &Value) -> bool {
        let server = self.server.as_deref().is_none_or(|server| text(&event["payload"], "uuid") == server);
        server && self.kind.as_deref().is_none_or(|kind| text(event, "event_type").starts_with(kind))
    }
}

/// Prints events: the newest that the service keeps, or those that come.
pub(super) fn run(options: Events) -> Result<ExitCode, Failure> {
    let Events { service: ServiceOptions { reach, output }, limit: Limit { limit }, follow, after, server, kind } = options;
    on_service(async {
        let login = reach.login()?;
        let client = login.clone().client().await?;
        let server = match server {
            Some(server) => Some(names::server(&client, &server).await?.to_string()),
            None => None,
        };
        let filter = EventFilter { server, kind };
        let line = |number: &str, event: &Value, data: &str| if output.is_json() { data.to_owned() } else { line(number, event) };
        if follow {
            let mut left = limit;
            let observer = |number: &str, event: &Value, data: &str| {
                if filter.has(event) {
                    say!("{}", line(number, event, data));
                    left = left.map(|left| left - 1);
                }
                if left == Some(0) || terminal::is_gone() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            followed(login, client, after, observer).await?;
        } else {
            let most = limit.map_or(usize::MAX, |limit| limit as usize);
            let lines = kept(&client, after, most, |number, event, data| filter.has(event).then(|| line(number, event, data))).await?;
            if lines.is_empty() && !output.is_json() {
                say!("(none)");
            }
            for line in lines {
                say!("{line}");
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns an event's line: its number, moment and type, and the server with its state.
fn line(number: &str, event: &Value) -> String {
    let (payload, data) = (&event["payload"], &event["payload"]["nova_object.data"]);
    let words = [short(text(payload, "uuid")), text(data, "display_name"), text(data, "state"), text(data, "task_state")];
    let server = words.into_iter().filter(|word| !word.is_empty());
    let server = server.collect::<Vec<_>>().join(" ");
    let line = format!("{number:>6}  {}  {:<44}  {server}", date(&event["timestamp"]), text(event, "event_type"));
    printable(line.trim_end())
}

/// Returns the newest lines of the events that the service keeps.
async fn kept(
    client: &Client,
    after: Option<u64>,
    most: usize,
    line: impl Fn(&str, &Value, &str) -> Option<String>,
) -> Result<VecDeque<String>, Failure> {
    let after = after.unwrap_or_default().to_string();
    let mut newest = VecDeque::new();
    let observer = |event: Event<'_>| {
        newest.extend(line(event.id, &serde_json::from_str(event.data).unwrap_or_default(), event.data));
        if newest.len() > most {
            newest.pop_front();
        }
        ControlFlow::Continue(())
    };
    patiently("reading events", client.events(OPERATORS, &format!("{PATH}?follow=false"), Some(&after), observer)).await?;
    Ok(newest)
}

/// Passes each event on until `observer` breaks off. A broken stream is opened again behind the last event, with a fresh token if the old one
/// has ended. A refusal ends the command.
async fn followed(
    login: Login,
    mut client: Client,
    mut last: Option<u64>,
    mut observer: impl FnMut(&str, &Value, &str) -> ControlFlow<()>,
) -> Result<(), Failure> {
    let mut has_opened = false;
    loop {
        let after = last.map(|last| last.to_string());
        let mut is_over = false;
        let pass = |event: Event<'_>| {
            has_opened = true;
            let Ok(number) = event.id.parse() else { return ControlFlow::Continue(()) };
            last = Some(number);
            let flow = observer(event.id, &serde_json::from_str(event.data).unwrap_or_default(), event.data);
            is_over = flow.is_break();
            flow
        };
        let ended = client.events(OPERATORS, PATH, after.as_deref(), pass).await;
        match ended {
            Ok(()) if is_over => return Ok(()),
            Ok(()) => complain!("the stream of events has ended: opening it again"),
            Err(ClientError::Refused { status: 401, .. }) if has_opened => match login.clone().client().await {
                Ok(fresh) => client = fresh,
                Err(failure) => complain!("{failure}"),
            },
            Err(refused @ ClientError::Refused { status, .. }) if status < 500 || !has_opened => return Err(refused.into()),
            Err(error) if !has_opened => return Err(error.into()),
            Err(error) => complain!("{error}: opening the stream again"),
        }
        has_opened = true;
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_has_one_line_and_is_selected_by_server_and_type() {
        let event = json!({"event_type": "instance.resize.start", "timestamp": "2026-11-27 08:31:07.407271",
            "payload": {"uuid": "0123456789", "nova_object.data": {"display_name": "we\nb", "state": "active"}}});
        let expected = "     7  2026-11-27 08:31:07Z  instance.resize.start                         01234567 we b active";
        assert_eq!(line("7", &event), expected);
        let has = |server: Option<&str>, kind: Option<&str>| {
            EventFilter { server: server.map(str::to_owned), kind: kind.map(str::to_owned) }.has(&event)
        };
        assert!(has(None, None) && has(Some("0123456789"), Some("instance.resize")));
        assert!(!has(Some("1"), None) && !has(None, Some("instance.create")));
    }
}
