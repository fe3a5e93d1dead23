//! The form of refusals: one object named after the status, with its code and a message.

use cellshift::http::compute::schema::Schema;
use serde_json::{Value, json};

use super::parts::{integer, object};
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

/// Returns the objection to a refusal.
pub fn objection(told: &Told<'_>) -> Option<String> {
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
    match FIELDS.misfit(1, &fields) {
        Ok(misfit) => misfit.map(|misfit| format!("at {:?}: {}", misfit.pointer, misfit.reason)),
        Err(why) => Some(format!("the schema is wrong: {why}")),
    }
}
