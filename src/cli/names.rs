//! Finds servers and migrations by name, by id, or by the beginning of an id, as experiments and tables print it.

use std::collections::BTreeMap;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use uuid::Uuid;

use super::Failure;
use super::migrations::newest;
use super::output::{List, entries};
use crate::client::Client;
use crate::domain::nearest::did_you_mean;

/// The maximum number of migrations that are searched for the beginning of an id.
const SEARCHED_MAX: u32 = 100_000;
/// The maximum number of candidates in an error.
const LISTED_MAX: usize = 10;

/// Returns the server with this name or id, or the only server whose id begins with this text.
pub(super) async fn server(client: &Client, text: &str) -> Result<Uuid, Failure> {
    if let Ok(id) = Uuid::parse_str(text) {
        return Ok(id);
    }
    let mut candidates = named(client, text).await?;
    if let Some(start) = beginning(text) {
        for migration in newest(client, SEARCHED_MAX).await? {
            let id = id_of(&migration["server"]);
            if let Some(id) = id.filter(|id| id.simple().to_string().starts_with(&start)) {
                candidates.entry(id).or_insert_with(|| format!("server {id}"));
            }
        }
    }
    if candidates.is_empty() {
        let near = did_you_mean(text, names_of_servers(client).await?.iter().map(String::as_str));
        return Err(format!("no server is called {text:?}, and the id of none begins so.{near}").into());
    }
    the_only(text, "server", candidates)
}

/// Returns the names of the first servers of all projects.
async fn names_of_servers(client: &Client) -> Result<Vec<String>, Failure> {
    let body = client.get("compute", "/servers?all_tenants=1").await?;
    Ok(entries(&body, "servers").iter().filter_map(|server| server["name"].as_str().map(str::to_owned)).collect())
}

/// Returns the migration with this id, or the only migration whose id begins with this text.
pub(super) async fn migration(client: &Client, text: &str) -> Result<Uuid, Failure> {
    if let Ok(id) = Uuid::parse_str(text) {
        return Ok(id);
    }
    let start = beginning(text).ok_or_else(|| format!("{text:?} is no migration: give its id, or the beginning of it"))?;
    let mut candidates = BTreeMap::new();
    for migration in newest(client, SEARCHED_MAX).await? {
        let id = id_of(&migration["uuid"]);
        if let Some(id) = id.filter(|id| id.simple().to_string().starts_with(&start)) {
            let word = |key: &str| migration[key].as_str().unwrap_or_default();
            candidates.insert(id, format!("{id}, {} of server {}", word("saga"), word("server")));
        }
    }
    the_only(text, "migration", candidates)
}

/// Returns the drain with this id, or the only drain whose id begins with this text.
pub(super) async fn drain(client: &Client, text: &str) -> Result<Uuid, Failure> {
    if let Ok(id) = Uuid::parse_str(text) {
        return Ok(id);
    }
    let start = beginning(text).ok_or_else(|| format!("{text:?} is no drain: give its id, or the beginning of it"))?;
    let list = List { path: "/drains", key: "drains", id: "id", filters: Vec::new() };
    let answer = list.read(client, Some(SEARCHED_MAX)).await?;
    let drains = answer["drains"].as_array().into_iter().flatten().filter_map(|drain| id_of(&drain["id"]));
    let candidates = drains.filter(|id| id.simple().to_string().starts_with(&start)).map(|id| (id, format!("drain {id}"))).collect();
    the_only(text, "drain", candidates)
}

fn the_only(text: &str, what: &str, candidates: BTreeMap<Uuid, String>) -> Result<Uuid, Failure> {
    match candidates.len() {
        0 => Err(format!("no {what} is called {text:?}, and the id of none begins so").into()),
        1 => candidates.into_keys().next().ok_or_else(|| Failure::from("nothing was found")),
        count => {
            let more = if count > LISTED_MAX { format!("\n  and {} more", count - LISTED_MAX) } else { String::new() };
            let lines: String = candidates.values().take(LISTED_MAX).map(|candidate| format!("\n  {candidate}")).collect();
            Err(format!("{text:?} may be any of {count}; give more of the id:{lines}{more}").into())
        }
    }
}

/// Returns the servers with exactly this name, in all projects.
async fn named(client: &Client, name: &str) -> Result<BTreeMap<Uuid, String>, Failure> {
    let pattern = format!("^{}$", regex::escape(name));
    let pattern = utf8_percent_encode(&pattern, NON_ALPHANUMERIC);
    let body = client.get("compute", &format!("/servers?all_tenants=1&name={pattern}")).await?;
    let servers = body["servers"].as_array().into_iter().flatten().filter(|server| server["name"] == name);
    Ok(servers.filter_map(|server| Some((id_of(&server["id"])?, format!("server {}, {name}", server["id"].as_str()?)))).collect())
}

/// Returns the beginning of an id, without its hyphens; none if the text cannot be one.
fn beginning(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect::<String>().to_lowercase();
    let is_hex = !digits.is_empty() && digits.len() <= 32 && digits.chars().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then_some(digits)
}

fn id_of(value: &Value) -> Option<Uuid> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hexadecimal_digits_begin_an_id() {
        assert_eq!(beginning("3F2a-01").as_deref(), Some("3f2a01"));
        assert_eq!((beginning("web"), beginning(""), beginning("-")), (None, None, None));
    }

    #[test]
    fn several_candidates_are_listed_and_none_is_said() {
        let candidates = |count: u128| (1..=count).map(|number| (Uuid::from_u128(number), format!("candidate {number}"))).collect();
        assert_eq!(the_only("a", "server", candidates(1)).unwrap(), Uuid::from_u128(1));
        let several = the_only("a", "server", candidates(12)).unwrap_err().to_string();
        assert!(several.contains("any of 12") && several.contains("candidate 10") && several.ends_with("and 2 more"), "{several}");
        assert!(the_only("a", "server", candidates(0)).unwrap_err().to_string().contains("no server is called \"a\""));
    }
}
