//! The list of all routes in docs/API-COMPAT.md, made from the tables: what each answers, at which microversions and to whom.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use super::row::{CALLERS, Row, TABLES, table};
use crate::bodies::{self, Api};

const PAGE: &str = "docs/API-COMPAT.md";
const BEGIN: &str = "<!-- Made from tests/it/access: CELLSHIFT_WRITE_DOCS=1 cargo test --test it access::compat -->\n";

/// The callers that are let in, in the order of the tables' columns, and the words for them.
const LET_IN: [(&[&str], &str); 8] = [
    (&["reader", "member", "other", "custom", "service", "admin", "unscoped"], "every token"),
    (&["reader", "member", "other", "custom", "service", "admin"], "every token with a scope"),
    (&["reader", "member", "other", "admin"], "readers"),
    (&["member", "other", "admin"], "members"),
    (&["reader", "member", "admin"], "readers of the project"),
    (&["member", "admin"], "members of the project"),
    (&["service", "admin"], "services and administrators"),
    (&["admin"], "administrators"),
];

#[test]
fn the_page_lists_every_route() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).expect("a page");
    let (by_hand, made) = page.split_once(BEGIN).expect("the place of the list");
    let current = list();
    if std::env::var_os("CELLSHIFT_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{by_hand}{BEGIN}{current}")).expect("the page is written");
        return;
    }
    let differing = made.lines().zip(current.lines()).find(|(made, current)| made != current);
    assert!(made == current, "{PAGE} is stale, first in {differing:?}: make it anew with the command that it names");
}

fn list() -> String {
    let mut text = String::new();
    for name in TABLES {
        let rows = table(name);
        let (mut routes, mut lines) = (HashSet::new(), String::new());
        // The first row of a route is its plainest request.
        for row in rows.iter().filter(|row| routes.insert((row.route(), row.action()))) {
            lines.push_str(&line(row));
        }
        let _ = write!(
            text,
            "\n### {name}\n\n| request | microversions | success | for | rule of the policy |\n|---|---|---|---|---|\n{lines}"
        );
    }
    text
}

fn line(row: &Row) -> String {
    let (method, path) = row.route();
    let action = row.action().map(|action| format!(" `{action}`")).unwrap_or_default();
    let rule = row.answers.rules.first().map(|rule| format!("`{rule}`")).unwrap_or_default();
    let path = if path.is_empty() { "/" } else { path.as_str() };
    format!("| `{method} {path}`{action} | {} | {} | {} | {rule} |\n", microversions(row), row.answers.success, let_in(row))
}

/// Returns the microversions of a route whose last is not the newest, or whose first is not the oldest.
fn microversions(row: &Row) -> String {
    let (method, path) = row.route();
    let Some(versions) = Api::of(&path).and_then(|api| api.microversions) else { return String::new() };
    let action = row.action().filter(|_| method == "POST");
    let (first, last) = bodies::range(&method, &path, action).expect("a schema");
    let oldest = versions.min;
    let first = if first > oldest.minor { format!("from {}.{first}", oldest.major) } else { String::new() };
    let last = last.map(|last| format!("up to {}.{last}", oldest.major)).unwrap_or_default();
    format!("{first} {last}").trim().to_owned()
}

fn let_in(row: &Row) -> String {
    // 404 is also the answer for those from whom the project's things are hidden.
    let is_hidden = |caller: &str| row.answers.success == 404 && ["other", "service"].contains(&caller);
    let callers: Vec<&str> =
        CALLERS.into_iter().filter(|caller| row.status_for(caller) == row.answers.success && !is_hidden(caller)).collect();
    let words = LET_IN.iter().find(|(group, _)| *group == callers).map(|(_, words)| (*words).to_owned());
    match row.answers.open {
        true => "everybody".to_owned(),
        false => words.unwrap_or_else(|| callers.join(", ")),
    }
}
