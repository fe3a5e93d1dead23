//! Checks request bodies against JSON schemas, which are compiled once per range of microversions. Refusals have the form of compute, which
//! volume and the operators' API share; other APIs take the broken rule and make the refusal themselves.

mod formats;
#[cfg(test)]
mod tests;
mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix_web::http::StatusCode;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::error::{ApiError, ErrorForm, Message};
use crate::json::Document;
use crate::microversion::ApiVersion;

pub use words::excerpt;

/// The schema of one kind of body, for all microversions: of a request, which the handlers check, or of an answer, which the tests check.
pub struct Schema {
    /// The minor versions at which the schema changes, ascending, with the first one.
    changes: &'static [u16],
    build: fn(u16) -> Value,
    /// The only field of the body, in which `build` describes the value. None if `build` describes the whole body.
    key: Option<&'static str>,
    /// Compiled schemas by the minor version at which their range begins.
    compiled: Mutex<BTreeMap<u16, Arc<Validator>>>,
}

/// The first error in a body that does not fit its schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misfit {
    /// The JSON pointer to the wrong value.
    pub pointer: String,
    /// The whole sentence. Where several forms are allowed, with the reason against each.
    pub reason: String,
}

impl Schema {
    /// Makes a schema that `build` creates for a minor version, compiled at the first use in each range.
    pub const fn new(changes: &'static [u16], build: fn(u16) -> Value) -> Schema {
        Schema { changes, build, key: None, compiled: Mutex::new(BTreeMap::new()) }
    }

    /// Makes a schema of a body whose only field is `key`, and whose value `build` describes.
    pub const fn within(key: &'static str, changes: &'static [u16], build: fn(u16) -> Value) -> Schema {
        Schema { changes, build, key: Some(key), compiled: Mutex::new(BTreeMap::new()) }
    }

    /// Makes a schema that is equal in all microversions.
    pub const fn fixed(build: fn(u16) -> Value) -> Schema {
        Schema::new(&[1], build)
    }

    /// Answers 400 with the first error and its place, unless the body fits. Checks a large body off the worker.
    pub async fn check(&'static self, version: ApiVersion, body: &Document) -> Result<(), ApiError> {
        let minor = version.0.minor;
        let objection =
            body.judge(move |body| self.objection(minor, body)).await.map_err(|error| ApiError::fault(ErrorForm::Compute, &error))?;
        objection.map_or(Ok(()), |why| Err(bad_request(why)))
    }

    /// Answers 400 with the first error unless a small value fits, which is no request body and so equal in all microversions.
    pub fn check_value(&'static self, value: &Value) -> Result<(), ApiError> {
        let objection = self.objection(1, value).map_err(|error| ApiError::fault(ErrorForm::Compute, &error))?;
        objection.map_or(Ok(()), |why| Err(bad_request(why)))
    }

    /// Returns the first error in a body at this minor version; none if it fits. Fails if the schema itself is wrong.
    pub fn misfit(&self, minor: u16, body: &Value) -> Result<Option<Misfit>, String> {
        Ok(self.compiled(minor)?.validate(body).err().map(|error| misfit(&error)))
    }

    /// Returns the first minor version up to `last` at which the schema changes without telling so; none if it tells all its changes.
    pub fn untold_change(&self, last: u16) -> Option<u16> {
        (1..=last).find(|minor| self.built(*minor) != self.built(self.since(*minor)))
    }

    /// Returns the paths of all fields of the body, over all microversions: `server.networks.uuid`, with `*` for a key that the caller chooses.
    pub fn fields(&self) -> BTreeSet<String> {
        let mut paths = BTreeSet::new();
        for minor in std::iter::once(&1).chain(self.changes) {
            add_fields(&self.built(*minor), "", &mut paths);
        }
        paths
    }

    /// Returns the first error only, because a large body may have as many as it has bytes.
    fn objection(&self, minor: u16, body: &Value) -> Result<Option<String>, String> {
        let validator = self.compiled(minor).map_err(|why| format!("a request schema is wrong: {why}"))?;
        Ok(validator.validate(body).err().map(|error| words::explain(&error)))
    }

    /// Returns the schema of the whole body.
    fn built(&self, minor: u16) -> Value {
        let value = (self.build)(minor);
        match self.key {
            Some(key) => wrapped(key, &value),
            None => value,
        }
    }

    fn compiled(&self, minor: u16) -> Result<Arc<Validator>, String> {
        let since = self.since(minor);
        let mut compiled = self.compiled.lock();
        if let Some(validator) = compiled.get(&since) {
            return Ok(Arc::clone(validator));
        }
        let validator = Arc::new(formats::compile(&self.built(since))?);
        compiled.insert(since, Arc::clone(&validator));
        Ok(validator)
    }

    /// Returns the minor version at which the range of this one begins.
    fn since(&self, minor: u16) -> u16 {
        self.changes.iter().rev().find(|change| **change <= minor).copied().unwrap_or(1)
    }
}

fn bad_request(message: impl Message) -> ApiError {
    ApiError::new(ErrorForm::Compute, StatusCode::BAD_REQUEST, message)
}

/// Returns the paths of all fields that a JSON schema names, as [`Schema::fields`] does.
pub fn fields_of(schema: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    add_fields(schema, "", &mut paths);
    paths
}

/// Adds the paths of the fields below this one.
fn add_fields(schema: &Value, path: &str, paths: &mut BTreeSet<String>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let mut add = |name: &str, inner: &Value| {
        add_fields(inner, &below(name), paths);
        paths.insert(below(name));
    };
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        add(name, inner);
    }
    for (_, inner) in schema["patternProperties"].as_object().into_iter().flatten() {
        add("*", inner);
    }
    if schema["additionalProperties"].is_object() {
        add("*", &schema["additionalProperties"]);
    }
    let forms = ["oneOf", "anyOf", "allOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
    for form in forms.chain(schema.get("items")) {
        add_fields(form, path, paths);
    }
}

fn misfit(error: &ValidationError<'_>) -> Misfit {
    let pointer = error.instance_path().to_string();
    let mut reason = words::explain(error);
    let forms: &[Vec<ValidationError<'static>>] = match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => context,
        _ => &[],
    };
    for why in forms.iter().filter_map(|form| form.first()).map(misfit) {
        reason = format!("{reason}\n  - {}: {}", why.pointer, why.reason);
    }
    Misfit { pointer, reason }
}

impl Schema {
    /// Returns the first rule that the body breaks, in Placement's words; none if it fits. Checks a large body off the worker.
    pub async fn broken_rule(&'static self, version: ApiVersion, body: &Document) -> Result<Option<String>, String> {
        let minor = version.0.minor;
        body.judge(move |body| self.rule_broken_by(minor, body)).await
    }

    /// Returns the first rule that a value breaks, as [`Schema::broken_rule`] does.
    pub fn rule_broken_by(&self, minor: u16, value: &Value) -> Result<Option<String>, String> {
        let error = self.compiled(minor)?.validate(value).err();
        Ok(error.map(|error| words::explain_rule(&error, &self.built(minor))))
    }
}

/// Describes an object with only these properties, `required` ones included.
pub fn object(properties: &Value, required: &[&str]) -> Value {
    let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
    // Draft 4 forbids an empty list here.
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

/// Describes an object whose only property is `key`.
pub fn wrapped(key: &str, inner: &Value) -> Value {
    object(&json!({ key: inner }), &[key])
}

/// Describes a name: printable, not blank at either end, at most 255 characters.
pub fn name() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\s\p{C}](?:[^\p{C}]*[^\s\p{C}])?$"})
}

/// Describes a name with optional blanks around it, which the handler strips.
pub fn loose_name() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\p{C}]*[^\s\p{C}][^\p{C}]*$"})
}

/// Describes a flag in all spellings that clients use.
pub fn boolean() -> Value {
    json!({"enum": [true, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes",
                    false, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"]})
}

/// Parses an integer that may be written as text.
pub fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}

/// Describes an integer, or its digits, from `minimum` (0 or 1) to the largest storable one.
pub fn integer(minimum: u8) -> Value {
    let digits = if minimum == 0 { r"^[0-9]+$" } else { r"^0*[1-9][0-9]*$" };
    json!({"type": ["integer", "string"], "pattern": digits, "minimum": minimum, "maximum": i32::MAX})
}

/// Describes a host's name.
pub fn host() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9._-]*$"})
}

/// Returns the value of a [`boolean`].
pub fn as_bool(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => *flag,
        Value::String(text) => is_true(text),
        _ => false,
    }
}

/// True for the words that mean yes.
pub fn is_true(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "on" | "yes" | "t" | "y")
}

/// Parses a flag in a query. 400 for other words.
pub fn strict_bool(text: &str) -> Result<bool, ApiError> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" | "t" | "y" => Ok(true),
        "false" | "0" | "off" | "no" | "f" | "n" => Ok(false),
        _ => Err(bad_request(format!("Invalid input for a flag. Value: {text}."))),
    }
}

/// Returns the value of an [`integer`]. 400 if it is too large to store.
pub fn as_integer(value: &Value, field: &str) -> Result<i32, ApiError> {
    let number = match value {
        Value::String(text) => text.parse::<i32>().ok(),
        other => other.as_i64().and_then(|number| i32::try_from(number).ok()),
    };
    number.ok_or_else(|| {
        let value = excerpt(&value.to_string());
        bad_request(format!("Invalid input for field/attribute {field}. Value: {value}. It is not an integer that can be stored."))
    })
}
