//! Compares the table with the router, and with the service's answers.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use regex::Regex;

use super::answers::objection;
use super::house::{House, visit};
use super::row::{CALLERS, Row, STRANGERS, rows};
use super::stored::{Stored, differences};
use crate::faults::a_part_on_postgres;

/// The files whose handler does one of several actions, which the body names.
const ACTIONS: [(&str, &str); 4] = [
    ("src/http/compute/servers/action/mod.rs", "/compute/v2.1/servers/{}/action"),
    ("src/http/compute/aggregates.rs", "/compute/v2.1/os-aggregates/{}/action"),
    ("src/http/compute/flavors/access.rs", "/compute/v2.1/flavors/{}/action"),
    ("crates/embedded/src/volume/volumes/actions.rs", "/volume/v3/volumes/{}/action"),
];

#[test]
fn everybody_gets_the_answer_that_the_table_wants() {
    visit(|house| async move {
        let rows = rows();
        let mut wrong = without_counterpart(&house.routes, &rows);
        let mut stored = house.stored();
        // Everything that is stored is compared before and after, which takes PostgreSQL long.
        for row in a_part_on_postgres(rows.iter().collect()) {
            wrong.extend(those_refused(&house, row, &mut stored).await);
        }
        for row in &rows {
            wrong.extend(those_let_in(&house, row).await);
        }
        assert!(wrong.is_empty(), "{} answers are not those of the table:\n{}", wrong.len(), wrong.join("\n"));
    });
}

/// Returns routes without a row, and rows without a route.
fn without_counterpart(routes: &BTreeSet<(String, String)>, rows: &[Row]) -> Vec<String> {
    let routes_of_rows: BTreeSet<(String, String)> = rows.iter().map(Row::route).collect();
    let missing =
        routes.difference(&routes_of_rows).map(|(method, path)| format!("{method} {path}: the route has no row in tests/it/access"));
    let gone = routes_of_rows.difference(routes).map(|(method, path)| format!("{method} {path}: the row has no route"));
    missing.chain(gone).collect()
}

/// Checks that each refused caller changes nothing.
async fn those_refused(house: &Rc<House>, row: &Row, stored: &mut Stored) -> Vec<String> {
    let mut made = BTreeMap::new();
    let filled = house.fill(row, false, &mut made).await;
    house.rest().await;
    let before = stored.contents();
    let mut wrong = Vec::new();
    for caller in STRANGERS.iter().chain(&CALLERS).filter(|caller| row.status_for(caller) >= 400) {
        let answer = house.ask(caller, row, &filled).await;
        wrong.extend(complaint(row, caller, answer.status, &answer.text));
    }
    let changed = differences(&before, &stored.contents());
    if !changed.is_empty() {
        wrong.push(format!("{} {}: who was refused changed something: {}", row.method, row.path, changed.join("; ")));
    }
    wrong
}

/// Checks each admitted caller, with a new specimen of each resource that the request uses up.
async fn those_let_in(house: &Rc<House>, row: &Row) -> Vec<String> {
    let mut wrong = Vec::new();
    for caller in STRANGERS.iter().chain(&CALLERS).filter(|caller| row.status_for(caller) < 400) {
        let mut made = BTreeMap::new();
        let filled = house.fill(row, true, &mut made).await;
        let answer = house.ask(caller, row, &filled).await;
        wrong.extend(complaint(row, caller, answer.status, &answer.text));
        if let Some(undo) = &row.undo {
            let filled = house.fill(undo, true, &mut made).await;
            let answer = house.ask("admin", undo, &filled).await;
            wrong.extend(complaint(undo, "admin", answer.status, &answer.text));
        }
        if row.method != "GET" {
            house.rest().await;
        }
    }
    wrong
}

fn complaint(row: &Row, caller: &str, status: u16, text: &str) -> Option<String> {
    let expected = row.status_for(caller);
    let action = row.action().map(|action| format!(" {action}")).unwrap_or_default();
    let said = format!("{} {}{action} by {caller}", row.method, row.path);
    if status != expected {
        return Some(format!("{said}: {status} and not {expected}: {text:.300}"));
    }
    let spoken = row.method != "HEAD";
    let why = objection(&row.path, status, text).or_else(|| unnamed(row, status, text)).filter(|_| spoken)?;
    Some(format!("{said}: {status}, {why}"))
}

/// Returns the objection to a refusal by a rule of the policy that the row does not name.
fn unnamed(row: &Row, status: u16, text: &str) -> Option<String> {
    let (_, rest) = text.split_once("Policy doesn't allow ").filter(|_| status == 403)?;
    // Where a role alone decides, no rule is named.
    let (rule, _) = rest.split_once(" to be performed").filter(|(rule, _)| rule.contains(':'))?;
    (!row.answers.rules.iter().any(|name| name == rule)).then(|| format!("by the rule {rule}, and the row names {:?}", row.answers.rules))
}

#[test]
fn every_action_has_a_row() {
    let arm = Regex::new(r#"(?m)^\s+"([A-Za-z_-]+)" => "#).expect("a pattern");
    let body = Regex::new(r#"static (\w+): Body<\w+> = Body::within\("([A-Za-z_]+)""#).expect("a pattern");
    let rows = rows();
    let mut wrong = Vec::new();
    for (file, route) in ACTIONS {
        let text = std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect("a source file");
        let in_rows: BTreeSet<&str> = rows.iter().filter(|row| row.route().1 == route).filter_map(Row::action).collect();
        let bodies = body.captures_iter(&text).map(|body| body.extract().1);
        let of_bodies = bodies.filter(|[name, _]| text.contains(&format!("{name}.is_named_in("))).map(|[_, action]| action);
        let of_arms = arm.captures_iter(&text).map(|arm| arm.extract::<1>().1[0]);
        let in_code: BTreeSet<&str> = of_arms.chain(of_bodies).collect();
        assert!(in_code.len() > 1, "{file}: actions are found at all");
        wrong.extend(in_code.difference(&in_rows).map(|action| format!("{route} {action}: the action has no row in tests/it/access")));
        wrong.extend(in_rows.difference(&in_code).map(|action| format!("{route} {action}: the row's action is unknown")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_route_without_a_row_is_noticed() {
    let rows = rows();
    let mut routes: BTreeSet<(String, String)> = rows.iter().map(Row::route).collect();
    assert_eq!(without_counterpart(&routes, &rows), [""; 0]);
    routes.insert(("PATCH".to_owned(), "/compute/v2.1/servers/{}".to_owned()));
    routes.remove(&("GET".to_owned(), "/compute/v2.1/servers".to_owned()));
    assert_eq!(without_counterpart(&routes, &rows).len(), 2);
}
