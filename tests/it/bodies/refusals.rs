//! The forms of refusals.

use cellshift::http::schema::Schema;
use serde_json::{Value, json};

use super::parts::{integer, object, only, plus, text};
use super::{ApiAnswer, body_of};

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
const REPEATED_IN_BODY: [u16; 2] = [413, 429];

static FIELDS: Schema = Schema::fixed(|_| object(json!({"code": integer(), "message": {"type": "string", "minLength": 1}})));

/// Returns the objection to a refusal of compute or of block storage: one object named after the status, with its code and a message.
pub fn of_compute(answer: &ApiAnswer<'_>, _: Option<u16>) -> Option<String> {
    let body = match body_of(answer.text) {
        Ok(body) => body,
        Err(why) => return Some(why),
    };
    let name = NAMES.iter().find(|(status, _)| *status == answer.status).map_or("computeFault", |(_, name)| name);
    match body.as_object().filter(|body| body.len() == 1).and_then(|body| body.get(name)) {
        Some(fields) => wrong_field(answer, fields.clone()),
        None => Some(format!("a refusal is one object named {name}")),
    }
}

fn wrong_field(answer: &ApiAnswer<'_>, mut fields: Value) -> Option<String> {
    let repeated = fields.as_object_mut().and_then(|fields| fields.remove("retryAfter"));
    let header = answer.retry_after.filter(|_| REPEATED_IN_BODY.contains(&answer.status)).map(|seconds| json!(seconds));
    if repeated != header {
        return Some(format!("retryAfter is {repeated:?}, and the header Retry-After is {:?}", answer.retry_after));
    }
    if fields["code"] != answer.status {
        return Some(format!("the code is {}", fields["code"]));
    }
    misfit(&FIELDS, 1, &fields)
}

/// Returns the objection to a refusal of the identity API: an error with its code, a title and a message.
pub fn of_identity(answer: &ApiAnswer<'_>, _: Option<u16>) -> Option<String> {
    static REFUSAL: Schema = Schema::fixed(|_| only("error", coded()));
    of_a_form(answer, &REFUSAL, "/error/code")
}

/// Returns the objection to a refusal of the image API: its code, a title and a message.
pub fn of_image(answer: &ApiAnswer<'_>, _: Option<u16>) -> Option<String> {
    static REFUSAL: Schema = Schema::fixed(|_| coded());
    of_a_form(answer, &REFUSAL, "/code")
}

/// Returns the objection to a refusal of the network API: a message, and the name of its type.
pub fn of_network(answer: &ApiAnswer<'_>, _: Option<u16>) -> Option<String> {
    static REFUSAL: Schema = Schema::fixed(|_| {
        let text = json!({"type": "string", "minLength": 1});
        only("NeutronError", object(json!({"type": text, "message": text, "detail": {"type": "string"}})))
    });
    of_a_form(answer, &REFUSAL, "")
}

fn coded() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    object(json!({"code": integer(), "title": text, "message": text}))
}

/// Returns the objection to a refusal of a form that repeats the status at `code`, if that is not empty.
fn of_a_form(answer: &ApiAnswer<'_>, form: &Schema, code: &str) -> Option<String> {
    let body = match body_of(answer.text) {
        Ok(body) => body,
        Err(why) => return Some(why),
    };
    if !code.is_empty() && body.pointer(code) != Some(&json!(answer.status)) {
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
pub fn of_placement(answer: &ApiAnswer<'_>, minor: Option<u16>) -> Option<String> {
    let body = match body_of(answer.text) {
        Ok(body) => body,
        Err(why) => return Some(why),
    };
    if body["errors"][0]["status"] != answer.status {
        return Some("the status is another one".to_owned());
    }
    // A request without a version that is known has none.
    let schema = if answer.status == 406 && minor.is_none() { &UNKNOWN_VERSION } else { &ERROR };
    misfit(schema, minor.unwrap_or(0), &body)
}
