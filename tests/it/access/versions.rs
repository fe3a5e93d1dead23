//! Every answer of the judged APIs at every microversion at which its form changes, and at the one before. The judge of answers
//! (`crate::bodies`) compares each with its schema. A form that no answer with content has is noticed.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use cellshift::domain::microversion::VersionedApi;
use serde_json::{Value, json};

use super::furniture::PUBLIC_KEY;
use super::house::{Answer, Filled, House, visit};
use super::row::{Body, Row, rows};
use crate::bodies::{self, Api};
use crate::faults::a_part_on_postgres;

/// The form of an answer: its route with the action, and the minor version that brought the form.
type Form = (String, u16);

/// Answers with lists that are empty here: no live migration is in progress, no guest has nodes, the specimen of a provider has neither
/// aggregates nor traits (the answer to their change has the same form), and nothing is replicated.
const EMPTY: [&str; 5] = [
    "GET /compute/v2.1/servers/{}/migrations",
    "GET /compute/v2.1/servers/{}/topology",
    "GET /placement/resource_providers/{}/aggregates",
    "GET /placement/resource_providers/{}/traits",
    "GET /volume/v3/capabilities/{}",
];

#[test]
fn every_form_of_every_answer_is_seen() {
    visit(|house| async move {
        let (mut described, mut seen): (BTreeSet<Form>, BTreeSet<Form>) = Default::default();
        let mut rows = rows();
        // All rows of a route, because each may show another form.
        let routes: BTreeSet<(String, String)> = rows.iter().map(Row::route).collect();
        let routes: BTreeSet<(String, String)> = a_part_on_postgres(routes.into_iter().collect()).into_iter().collect();
        rows.retain(|row| routes.contains(&row.route()));
        for row in rows.iter().filter(|row| !row.version.is_empty() && row.status_for("admin") < 300) {
            let Some(api) = Api::of(&row.route().1).and_then(|api| api.microversions) else { continue };
            let (method, path) = row.route();
            let action = row.action().filter(|_| method == "POST");
            let route = format!("{method} {path}{}", action.map(|action| format!("#{action}")).unwrap_or_default());
            let forms = bodies::changes(&method, &path, action).expect("a schema");
            described.extend(forms.iter().map(|since| (route.clone(), *since)));
            for minor in minors_for(&api, row, &forms) {
                let has_content = has_content_at(&house, &api, row, minor).await;
                seen.extend(forms.iter().rev().find(|since| **since <= minor && has_content).map(|since| (route.clone(), *since)));
            }
        }
        described.retain(|(route, _)| !EMPTY.contains(&route.as_str()));
        let unseen: Vec<String> =
            described.difference(&seen).map(|(route, since)| format!("{route} as of the minor version {since}")).collect();
        assert!(unseen.is_empty(), "{} forms are never seen:\n{}", unseen.len(), unseen.join("\n"));
    });
}

/// Returns the minor versions at which a row is asked: each that brings a form, for reads also the one before it, the row's own and the
/// newest.
fn minors_for(api: &VersionedApi, row: &Row, forms: &[u16]) -> BTreeSet<u16> {
    let own = row.version.split_once('.').and_then(|(_, minor)| minor.parse().ok());
    let before = forms.iter().filter_map(|since| since.checked_sub(1)).filter(|minor| *minor >= api.min.minor && row.method == "GET");
    before.chain(forms.iter().copied()).chain(own).chain([api.max.minor]).collect()
}

/// Sends the row's request at a minor version as an administrator, and as the member where the answer depends on rights. A list is also
/// asked for in pages. True if an answer has content.
async fn has_content_at(house: &Rc<House>, api: &VersionedApi, row: &Row, minor: u16) -> bool {
    let mut shows_content = false;
    let callers: &[&str] = if ["GET", "PUT"].contains(&row.method.as_str()) { &["admin", "member"] } else { &["admin"] };
    for caller in callers.iter().filter(|caller| row.status_for(caller) < 300) {
        let mut made = BTreeMap::new();
        let (path, body) = at_version(house, row, minor).await;
        let version = format!("{} {}.{minor}", api.service, api.min.major);
        let row = Row { version, path, body, ..row.clone() };
        let filled = house.fill(&row, true, &mut made).await;
        let answer = house.ask(caller, &row, &filled).await;
        shows_content |= answer.status < 300 && (row.method != "GET" || has_content(&answer));
        if row.method == "GET" {
            let mark = if row.path.contains('?') { '&' } else { '?' };
            let page = Filled { path: format!("{}{mark}limit=1", filled.path), body: Body::None, about: None };
            house.ask(caller, &row, &page).await;
            continue;
        }
        if let Some(undo) = &row.undo {
            let filled = house.fill(undo, true, &mut made).await;
            house.ask("admin", undo, &filled).await;
        }
        house.rest().await;
        make_room(house, &made).await;
    }
    shows_content
}

/// Deletes the servers that a request has used up: the hosts have no room for one of each request.
async fn make_room(house: &Rc<House>, made: &BTreeMap<String, String>) {
    for server in made.iter().filter(|(kind, _)| kind.ends_with("server")).map(|(_, id)| id) {
        house.send_as("admin", "DELETE", &format!("/compute/v2.1/servers/{server}"), "compute 2.1", &Body::None).await;
    }
    house.rest().await;
}

/// False for an empty list.
fn has_content(answer: &Answer) -> bool {
    let body = answer.json();
    let mut lists = body.as_object().into_iter().flat_map(|body| body.values()).filter_map(Value::as_array);
    lists.all(|list| !list.is_empty())
}

/// Returns the row's path and body as the minor version wants them.
async fn at_version(house: &Rc<House>, row: &Row, minor: u16) -> (String, Body) {
    let (method, pattern) = row.route();
    let (path, body) = (row.path.clone(), row.body.clone());
    match (method.as_str(), pattern.as_str()) {
        ("POST", "/compute/v2.1/os-server-groups") if minor < 64 => {
            (path, Body::Json(json!({"server_group": {"name": "{+name}", "policies": ["affinity"]}})))
        }
        ("POST", "/compute/v2.1/os-keypairs") if minor >= 92 => {
            (path, Body::Json(json!({"keypair": {"name": "{+name}", "public_key": PUBLIC_KEY}})))
        }
        // Below 2.53 a service is acted upon by its name, and hypervisors have numbers.
        ("PUT", "/compute/v2.1/os-services/{}") if minor < 53 => {
            let action = path.replace("{compute_service}", "disable");
            (action, Body::Json(json!({"host": "{host}", "binary": "nova-compute"})))
        }
        ("GET", "/volume/v3/types/{}/os-volume-type-access") => (path.replace("{private_type}", "{+granted_type}"), body),
        ("PUT", "/placement/allocations/{}") => (path, Body::Json(allocations(minor))),
        ("POST", "/placement/allocations") => (path, Body::Json(json!({"{+consumer}": allocations(minor)}))),
        ("PUT", "/placement/resource_providers/{}/aggregates") if minor < 19 => (path, Body::Json(json!(["{server}"]))),
        ("GET", "/compute/v2.1/os-hypervisors/{}" | "/compute/v2.1/os-hypervisors/{}/uptime") if minor < 53 => {
            let all = house.send_as("admin", "GET", "/compute/v2.1/os-hypervisors", "compute 2.52", &Body::None).await.json();
            (path.replace("{hypervisor}", &all["hypervisors"][0]["id"].to_string()), body)
        }
        _ => (path, body),
    }
}

/// Returns what a consumer is to hold, as the minor version wants it.
fn allocations(minor: u16) -> Value {
    let resources = json!({"VCPU": 1});
    let mut body = match minor {
        12.. => json!({"allocations": {"{provider}": {"resources": resources}}}),
        _ => json!({"allocations": [{"resource_provider": {"uuid": "{provider}"}, "resources": resources}]}),
    };
    if minor >= 8 {
        (body["project_id"], body["user_id"]) = (json!("{project}"), json!("{user}"));
    }
    if minor >= 28 {
        body["consumer_generation"] = Value::Null;
    }
    if minor >= 38 {
        body["consumer_type"] = json!("INSTANCE");
    }
    body
}
