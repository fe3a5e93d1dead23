//! Tests of the judge itself, and the demand for a schema of each route.

use std::collections::BTreeSet;

use cellshift::http::schema::Schema;
use serde_json::{Value, json};

use super::{APIS, Api, ApiAnswer, ApiRequest, objection};
use crate::access::row::rows;

const ID: &str = "7f1c1a3e-0b0b-4b0e-9a55-2a6d0b6a0c11";

/// Returns the judged routes of the access matrix, with their actions.
fn routes_of_rows() -> BTreeSet<String> {
    let name = |row: &crate::access::row::Row| {
        let (method, path) = row.route();
        let action = row.action().filter(|_| method == "POST").map(|action| format!("#{action}"));
        format!("{method} {path}{}", action.unwrap_or_default())
    };
    let judged = |row: &&crate::access::row::Row| {
        let (method, path) = row.route();
        // Answers to HEAD have no body, and images have bytes.
        Api::of(&path).is_some() && method != "HEAD" && !(method == "GET" && path.starts_with("/image") && path.ends_with("/file"))
    };
    rows().iter().filter(judged).map(name).collect()
}

fn described() -> BTreeSet<String> {
    APIS.iter().flat_map(Api::routes).map(|(root, (method, pattern, ..))| format!("{method} {root}{pattern}")).collect()
}

#[test]
fn every_route_of_a_judged_api_has_a_schema() {
    let (routes, described) = (routes_of_rows(), described());
    let missing = routes.difference(&described).map(|route| format!("{route}: the route has no schema in tests/it/bodies"));
    let gone = described.difference(&routes).map(|route| format!("{route}: the schema has no route in tests/it/access"));
    let wrong: Vec<String> = missing.chain(gone).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(routes.len() > 200, "routes are found at all: {}", routes.len());
}

#[test]
fn every_schema_is_right_and_tells_all_its_changes() {
    let mut wrong = Vec::new();
    let all = APIS.iter().flat_map(|api| api.routes().map(|route| (api.microversions.map_or(1, |versions| versions.max.minor), route)));
    for (last, (root, (method, pattern, changes, build))) in all {
        let schema = Schema::new(changes, *build);
        if let Some(minor) = schema.untold_change(last) {
            wrong.push(format!("{method} {root}{pattern}: the schema changes with the minor version {minor} and does not say so"));
        }
        if let Some(why) = (1..=last).find_map(|minor| schema.misfit(minor, &Value::Null).err()) {
            wrong.push(format!("{method} {root}{pattern}: {why:.500}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the objection to an answer of this version.
fn said(method: &str, path: &str, version: &str, status: u16, text: &str) -> Option<String> {
    let whole = format!("compute {version}");
    let answer = ApiAnswer { status, version: Some(&whole), old_version: Some(version), retry_after: None, text };
    objection(ApiRequest { method, path, body: None }, answer)
}

fn flavor() -> Value {
    let href = "http://cloud/compute/v2.1/flavors/1";
    json!({
        "id": "1", "name": "m1.tiny", "ram": 512, "disk": 1, "vcpus": 1, "swap": "", "OS-FLV-EXT-DATA:ephemeral": 0, "rxtx_factor": 1.0,
        "os-flavor-access:is_public": true, "OS-FLV-DISABLED:disabled": false,
        "links": [{"rel": "self", "href": href}, {"rel": "bookmark", "href": href}],
    })
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let changed = |key: &str, value: Value| {
        let mut flavor = flavor();
        flavor[key] = value;
        flavor
    };
    let mut without = flavor();
    without.as_object_mut().expect("an object").remove("ram");
    for (version, flavor, why) in [
        ("2.1", flavor(), None),
        ("2.55", changed("description", Value::Null), None),
        ("2.1", changed("colour", json!("red")), Some("at \"/flavor\": Invalid input for field/attribute flavor.")),
        // Comes with 2.55.
        ("2.54", changed("description", Value::Null), Some("('description' was unexpected)")),
        ("2.55", flavor(), Some("'description' is a required property")),
        ("2.1", without, Some("'ram' is a required property")),
        ("2.1", changed("ram", json!("512")), Some("at \"/flavor/ram\": ")),
        ("2.1", changed("links", json!([])), Some("at \"/flavor/links\": ")),
    ] {
        let objection_text = said("GET", "/compute/v2.1/flavors/1", version, 200, &json!({"flavor": flavor}).to_string());
        match why {
            None => assert_eq!(objection_text, None),
            Some(why) => {
                let objection_text = objection_text.expect("an objection");
                assert!(objection_text.contains(why), "{why}: {objection_text}");
                assert!(
                    objection_text.starts_with(&format!("GET /compute/v2.1/flavors/1 (compute {version}) answers 200: ")),
                    "{objection_text}"
                );
            }
        }
    }
}

#[test]
fn an_answer_without_a_schema_is_refused() {
    let objection_text = said("GET", "/compute/v2.1/unheard-of?x=1", "2.1", 200, "{}").expect("an objection");
    assert!(objection_text.contains("has no schema"), "{objection_text}");
    let unversioned = ApiAnswer { status: 200, version: None, old_version: None, retry_after: None, text: "{}" };
    let get = |path| ApiRequest { method: "GET", path, body: None };
    assert!(objection(get("/compute/v2.1/flavors"), unversioned).is_some_and(|objection_text| objection_text.contains("no microversion")));
    assert!(
        objection(get("/network/v2.0/networks"), unversioned)
            .is_some_and(|objection_text| objection_text.contains("'networks' is a required property"))
    );
    assert_eq!(objection(get("/network/v2.0/networks?fields=id"), unversioned), None);
    assert_eq!(objection(get("/healthcheck"), unversioned), None);
}

#[test]
fn an_action_is_judged_by_its_name() {
    let judged = |version: &str, action: Value, text: &str| {
        let (whole, body) = (format!("compute {version}"), action.to_string());
        let answer = ApiAnswer { status: 202, version: Some(&whole), old_version: Some(version), retry_after: None, text };
        let path = format!("/compute/v2.1/servers/{ID}/action");
        objection(ApiRequest { method: "POST", path: &path, body: Some(body.as_bytes()) }, answer).is_none()
    };
    let image = json!({"image_id": ID}).to_string();
    assert!(judged("2.45", json!({"createImage": {"name": "x"}}), &image));
    assert!(!judged("2.44", json!({"createImage": {"name": "x"}}), &image));
    assert!(judged("2.44", json!({"createImage": {"name": "x"}}), ""));
    assert!(!judged("2.45", json!({"createImage": {"name": "x"}}), ""));
    assert!(judged("2.45", json!({"os-start": null}), ""));
    assert!(!judged("2.45", json!({"os-start": null}), "null"));
    assert!(!judged("2.45", json!({"os-getRDPConsole": null}), ""));
}

#[test]
fn a_refusal_has_its_form() {
    let refusal = |status: u16, body: Value| said("GET", "/compute/v2.1/servers", "2.90", status, &body.to_string());
    let named = |name: &str, code: u16| json!({ name: {"code": code, "message": "No."} });
    for (status, name) in
        [(400, "badRequest"), (404, "itemNotFound"), (406, "computeFault"), (409, "conflictingRequest"), (503, "serviceUnavailable")]
    {
        assert_eq!(refusal(status, named(name, status)), None);
        assert!(refusal(status, named("overLimit", status)).is_some(), "{name}");
        assert!(refusal(status, named(name, 418)).is_some(), "{name}");
    }
    assert!(refusal(400, json!({"badRequest": {"code": 400, "message": ""}})).is_some());
    assert!(refusal(400, json!({"badRequest": {"code": 400, "message": "No.", "title": "Bad Request"}})).is_some());
    assert!(refusal(400, json!({"badRequest": {"code": 400, "message": "No."}, "more": 1})).is_some());
    let late = |text: &str| {
        let answer = ApiAnswer { status: 413, version: Some("compute 2.1"), old_version: Some("2.1"), retry_after: Some("5"), text };
        objection(ApiRequest { method: "GET", path: "/compute/v2.1/servers", body: None }, answer)
    };
    assert_eq!(late(r#"{"overLimit": {"code": 413, "message": "Later.", "retryAfter": "5"}}"#), None);
    assert!(late(r#"{"overLimit": {"code": 413, "message": "Later."}}"#).is_some());
}
