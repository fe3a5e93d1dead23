//! The form of a command's answer: a table for people, or the service's answer as JSON. Lists are read page by page, up to a limit.

use std::collections::BTreeMap;
use std::future::Future;

use clap::{Args, ValueEnum};
use comfy_table::{Table, presets};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::Failure;
use super::progress::patiently;
use super::reach::Reach;
use super::terminal::{self, say};
use crate::client::{Client, OPERATORS};
pub(super) use crate::domain::counted::counted;

/// The largest page that is asked for. The service may have a lower maximum.
const PAGE: u32 = 1000;

/// The form of an answer.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    Table,
    Json,
}

/// The option for the form of an answer.
#[derive(Args, Clone, Copy)]
pub(super) struct Output {
    /// Print a table, or the service's answer as JSON.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Form::Table)]
    output: Form,
}

impl Output {
    /// True if the answer shall be JSON.
    pub(super) fn is_json(self) -> bool {
        self.output == Form::Json
    }

    /// Prints the answer as JSON, or as the text that `text` makes of it.
    pub(super) fn show(self, answer: &Value, text: impl FnOnce(&Value) -> String) -> Result<(), Failure> {
        match self.output {
            Form::Json => say!("{}", serde_json::to_string_pretty(answer)?),
            Form::Table => terminal::out(format_args!("{}", text(answer))),
        }
        Ok(())
    }
}

/// The options of commands that print one answer of a running service.
#[derive(Args, Clone)]
pub(super) struct ServiceOptions {
    #[command(flatten)]
    pub(super) reach: Reach,
    #[command(flatten)]
    pub(super) output: Output,
}

/// The option for the length of a list.
#[derive(Args, Clone, Copy)]
pub(super) struct Limit {
    /// The maximum number of entries [default: one page of the service].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) limit: Option<u32>,
}

/// A list of the operators' API or of another service.
pub(super) struct List<'a> {
    /// The path below the service's address.
    pub(super) path: &'a str,
    /// The key of the entries in the answer.
    pub(super) key: &'a str,
    /// The key of an entry's id, which is the marker of the next page.
    pub(super) id: &'a str,
    /// The filters, without those that are none.
    pub(super) filters: Vec<(&'a str, Option<String>)>,
}

impl List<'_> {
    /// Reads up to `limit` entries, or one page without a limit. The answer is the first page's with the entries of all pages, and keeps its
    /// link while the service has more.
    pub(super) async fn read(&self, client: &Client, limit: Option<u32>) -> Result<Value, Failure> {
        self.read_from(OPERATORS, client, limit).await
    }

    /// Reads a list of another service in the same way.
    pub(super) async fn read_from(&self, service: &str, client: &Client, limit: Option<u32>) -> Result<Value, Failure> {
        patiently(&format!("reading {}", self.key.replace('_', " ")), self.pages(service, client, limit)).await
    }

    async fn pages(&self, service: &str, client: &Client, limit: Option<u32>) -> Result<Value, Failure> {
        let (links, mut left) = (format!("{}_links", self.key), limit);
        let mut whole = client.get(service, &self.address(left, None)).await?;
        while let Some(more) = left {
            let read = entries(&whole, self.key).len();
            left = limit.map(|limit| limit.saturating_sub(u32::try_from(read).unwrap_or(u32::MAX))).filter(|left| *left > 0);
            let marker = entries(&whole, self.key).last().and_then(|last| last[self.id].as_str()).map(str::to_owned);
            let (Some(_), Some(marker), true) = (left, marker, whole[&links].is_array() && more > 0) else { break };
            let mut page = client.get(service, &self.address(left, Some(&marker))).await?;
            let fresh = page[self.key].as_array_mut().map(std::mem::take).unwrap_or_default();
            if let Some(all) = whole[self.key].as_array_mut() {
                all.extend(fresh);
            }
            if let Some(answer) = whole.as_object_mut() {
                answer.remove(&links);
                answer.extend(page.as_object_mut().and_then(|page| page.remove(&links)).map(|next| (links.clone(), next)));
            }
        }
        Ok(whole)
    }

    fn address(&self, limit: Option<u32>, marker: Option<&str>) -> String {
        let filters = self.filters.iter().filter_map(|(key, value)| Some((*key, value.clone()?)));
        let paging = [("limit", limit.map(|limit| limit.min(PAGE).to_string())), ("marker", marker.map(str::to_owned))];
        let paging = paging.into_iter().filter_map(|(key, value)| Some((key, value?)));
        let query: Vec<String> =
            filters.chain(paging).map(|(key, value)| format!("{key}={}", utf8_percent_encode(&value, NON_ALPHANUMERIC))).collect();
        if query.is_empty() { self.path.to_owned() } else { format!("{}?{}", self.path, query.join("&")) }
    }

    /// Returns a sentence if a list without a limit has further entries.
    pub(super) fn more(&self, answer: &Value, limit: Option<u32>) -> Option<String> {
        let has_more = limit.is_none() && answer[format!("{}_links", self.key)].is_array();
        has_more.then(|| format!("there are more than these {}: ask for them with --limit N", entries(answer, self.key).len()))
    }
}

/// Runs a command's work against a running service, on a runtime of its own.
pub(super) fn on_service<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    actix_rt::System::new().block_on(work)
}

/// Returns the entries of a list.
pub(super) fn entries<'a>(answer: &'a Value, key: &str) -> &'a [Value] {
    answer[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns a field's text; empty if it is none.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

/// Makes a table, which says so if it has no rows. Control characters, which names may contain, are shown as blanks.
pub(super) fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head);
    for row in rows {
        table.add_row(row.map(|cell| printable(&cell)));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let empty = if table.is_empty() { "(none)\n" } else { "" };
    format!("{}\n{empty}", table.trim_fmt())
}

/// The number of names that a line gives as examples.
const EXAMPLES: usize = 3;

/// Gathers names by what is said of them, the most names first.
pub(super) fn grouped<K: Ord>(pairs: impl IntoIterator<Item = (K, String)>) -> Vec<(K, Vec<String>)> {
    let mut names_of: BTreeMap<K, Vec<String>> = BTreeMap::new();
    for (said, name) in pairs {
        names_of.entry(said).or_default().push(name);
    }
    let mut groups: Vec<(K, Vec<String>)> = names_of.into_iter().collect();
    groups.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    groups
}

/// Returns the first names, with a sign if there are more.
pub(super) fn examples(names: &[String]) -> String {
    let more = if names.len() > EXAMPLES { ", …" } else { "" };
    format!("{}{more}", names[..names.len().min(EXAMPLES)].join(", "))
}

/// Replaces control characters, with which a name could move the cursor.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_text() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned);
        let text = table(["SERVER", "SAGA", "STATE"], [row(["1", "resize", "done"]), row(["two\u{1b}[2J", "a longer kind", ""])]);
        assert_eq!(text, "SERVER   SAGA           STATE\n1        resize         done\ntwo [2J  a longer kind\n");
        assert_eq!(table(["SERVER"], []), "SERVER\n(none)\n");
    }

    #[test]
    fn groups_begin_with_the_most_names() {
        let pairs = [("full", "h1"), ("no trait", "h2"), ("no trait", "h3"), ("no trait", "h4"), ("no trait", "h5")];
        let groups = grouped(pairs.map(|(said, name)| (said, name.to_owned())));
        assert_eq!(groups[0].0, "no trait");
        assert_eq!((examples(&groups[0].1), examples(&groups[1].1)), ("h2, h3, h4, …".to_owned(), "h1".to_owned()));
    }

    #[test]
    fn addresses_have_filters_and_pages() {
        let list = |filters| List { path: "/migrations", key: "migrations", id: "uuid", filters };
        assert_eq!(list(vec![("status", None)]).address(None, None), "/migrations");
        let filtered = list(vec![("status", Some("a b".into())), ("server", None)]);
        assert_eq!(filtered.address(Some(5000), Some("m")), "/migrations?status=a%20b&limit=1000&marker=m");
    }
}
