//! The forms of refusals.

use cellshift::http::schema::Schema;
use serde_json::{Value, json};

use super::parts::{integer, object, only, plus, text};
use super::{Told, body_of};

/// The names of refusals by status. All others are a `computeFault`.
const NAMES: [(u16, &str); 11] = [
    (400, "badRequest"),
    (401, "unauthorized"),
    (403, "forbidden"),
    (404, "itemNotFound"),
    (405, "badMethod"),
    (409, "conflictingRequest"),
    (413, "overLimit"),
    (415, "badMediaType"),
    (429, "overLimit"),
    (501, "notImplemented"),
    (503, "serviceUnavailable"),
];

/// The statuses whose refusals repeat the header `Retry-After` in the body.
const TOLD_TWICE: [u16; 2] = [413, 429];

static FIELDS: Schema = Schema::fixed(|_| object(json!({"code": integer(), "message": {"type": "string", "minLength": 1}})));

/// Returns the objection to a refusal of compute or of block storage: one object named after the status, with its code and a message.
pub fn of_compute(told: &Told<'_>, _: Option<u16>) -> Option<String> {
    let body = match body_of(told.text) {
        Ok(body) => body,
        Err(why) => return Some(why),
    };
    let name = NAMES.iter().find(|(status, _)| *status == told.status).map_or("computeFault", |(_, name)| name);
    match body.as_object().filter(|body| body.len() == 1).and_then(|body| body.get(name)) {
        Some(fields) => wrong_field(told, fields.clone()),
        None => Some(format!("a refusal is one object named {name}")),
    }
}

fn wrong_field(told: &Told<'_>, mut fields: Value) -> Option<String> {
    let repeated = fields.as_object_mut().and_then(|fields| fields.remove("retryAfter"));
    let wanted = told.retry_after.filter(|_| TOLD_TWICE.contains(&told.status)).map(|seconds| json!(seconds));
    if repeated != wanted {
        return Some(format!("retryAfter is {repeated:?}, and the header Retry-After is {:?}", told.retry_after));
    }
    if fields["code"] != told.status {
        return Some(format!("the code is {}", fields["code"]));
    }
    misfit(&FIELDS, 1, &fields)
}

/// Returns the objection to a refusal of the identity API: an error with its code, a title and a message.
pub fn of_identity(told: &Told<'_>, _: Option<u16>) -> Option<String> {
    static REFUSAL: Schema = Schema::fixed(|_| only("error", coded()));
    of_a_form(told, &REFUSAL, "/error/code")
}

/// Returns the objection to a refusal of the image API: its code, a title and a message.
pub fn of_image(told: &Told<'_>, _: Option<u16>) -> Option<String> {
    static REFUSAL: Schema = Schema::fixed(|_| coded());
    of_a_form(told, &REFUSAL, "/code")
}

/// Returns the objection to a refusal of the network API: a message, and the name of its type.
pub fn of_network(told: &Told<'_>, _: Option<u16>) -> Option<String> {
    static REFUSAL: Schema = Schema::fixed(|_| {
        let text = json!({"type": "string", "minLength": 1});
        only("NeutronError", object(json!({"type": text, "message": text, "detail": {"type": "string"}})))
    });
    of_a_form(told, &REFUSAL, "")
}

fn coded() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    object(json!({"code": integer(), "title": text, "message": text}))
}

/// Returns the objection to a refusal of a form that repeats the status at `code`, if that is not empty.
fn of_a_form(told: &Told<'_>, form: &Schema, code: &str) -> Option<String> {
    let body = match body_of(told.text) {
        Ok(body) => body,
        Err(why) => return Some(why),
    };
    if !code.is_empty() && body.pointer(code) != Some(&json!(told.status)) {
        return Some("the code is not the status".to_owned());
    }
    misfit(form, 1, &body)
}

/// Returns the objection to a body; none if it fits.
pub fn misfit(schema: &Schema, minor: u16, body: &Value) -> Option<String> {
    match schema.misfit(minor, body) {
        Ok(misfit) => misfit.map(|misfit| format!("at {:?}: {}", misfit.pointer, misfit.reason)),
        Err(why) => Some(format!("the schema is wrong: {why}")),
    }
}

/// 1.23: `code`.
static ERROR: Schema = Schema::new(&[0, 23], |minor| {
    let error = object(json!({"status": integer(), "title": text(), "detail": {"type": "string", "minLength": 1}, "request_id": text()}));
    let error = if minor >= 23 { plus(error, json!({"code": {"type": "string", "pattern": "^placement[.a-z_]+$"}})) } else { error };
    only("errors", json!({"type": "array", "items": error, "minItems": 1, "maxItems": 1}))
});
/// A refusal of a version names those that are there.
static UNKNOWN_VERSION: Schema = Schema::fixed(|_| {
    let version = json!({"type": "string", "pattern": r"^1\.[0-9]+$"});
    let error = object(json!({"status": integer(), "title": text(), "detail": text(), "request_id": text()}));
    let error = plus(error, json!({"max_version": version, "min_version": version}));
    only("errors", json!({"type": "array", "items": error, "minItems": 1, "maxItems": 1}))
});

/// Returns the objection to a refusal of placement: a list with one error.
pub fn of_placement(told: &Told<'_>, minor: Option<u16>) -> Option<String> {
    let body = match body_of(told.text) {
        Ok(body) => body,
        Err(why) => return Some(why),
    };
    if body["errors"][0]["status"] != told.status {
        return Some("the status is another one".to_owned());
    }
    // A request without a version that is known has none.
    let schema = if told.status == 406 && minor.is_none() { &UNKNOWN_VERSION } else { &ERROR };
    misfit(schema, minor.unwrap_or(0), &body)
}
