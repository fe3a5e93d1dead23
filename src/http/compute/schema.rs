//! Checks request bodies against JSON schemas, compiled once each; `fragments` are the parts that many resources share.

use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};

use super::answer::{bad_request, fault};
use super::servers::body::excerpt;
use crate::http::error::ApiError;

/// The schema of one request body, for one range of microversions.
pub struct Schema {
    build: fn() -> Value,
    compiled: OnceLock<Result<Validator, String>>,
}

impl Schema {
    /// Compiled at its first use.
    pub const fn new(build: fn() -> Value) -> Schema {
        Schema { build, compiled: OnceLock::new() }
    }

    /// 400 with the place and the reason unless the body fits.
    pub fn check(&self, body: &Value) -> Result<(), ApiError> {
        let compiled = self.compiled.get_or_init(|| jsonschema::draft202012::new(&(self.build)()).map_err(|error| error.to_string()));
        let validator = compiled.as_ref().map_err(|error| fault(&format!("a request schema is wrong: {error}")))?;
        validator.validate(body).map_err(|error| {
            let path = error.instance_path().to_string();
            let place = path.rsplit('/').next().unwrap_or_default();
            let (place, value) = (excerpt(place), excerpt(&error.instance().to_string()));
            bad_request(format!("Invalid input for field/attribute {place}. Value: {value}. {}", excerpt(&error.to_string())))
        })
    }
}

/// An object of exactly these properties, of which some must be there.
pub fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// An object whose one property is `key`.
pub fn wrapped(key: &str, inner: &Value) -> Value {
    object(&json!({ key: inner }), &[key])
}

/// A name: printable, not blank at either end, at most 255 characters.
pub fn name() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\s\p{C}](?:[^\p{C}]*[^\s\p{C}])?$"})
}

/// A name that may have blanks around it, which its resource strips.
pub fn loose_name() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\p{C}]*[^\s\p{C}][^\p{C}]*$"})
}

/// A flag, as clients write flags.
pub fn boolean() -> Value {
    json!({"enum": [true, "True", "TRUE", "true", "1", "ON", "On", "on", "YES", "Yes", "yes",
                    false, "False", "FALSE", "false", "0", "OFF", "Off", "off", "NO", "No", "no"]})
}

/// An integer, or its digits, of at least `minimum` (0 or 1) and at most the largest that is stored.
pub fn integer(minimum: u8) -> Value {
    let digits = if minimum == 0 { r"^[0-9]+$" } else { r"^0*[1-9][0-9]*$" };
    json!({"type": ["integer", "string"], "pattern": digits, "minimum": minimum, "maximum": i32::MAX})
}

/// A host's name.
pub fn host() -> Value {
    json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9._-]*$"})
}

/// The value of a [`boolean`].
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

/// A flag in a query; 400 for other words.
pub fn strict_bool(text: &str) -> Result<bool, ApiError> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" | "t" | "y" => Ok(true),
        "false" | "0" | "off" | "no" | "f" | "n" => Ok(false),
        _ => Err(bad_request(format!("Invalid input for a flag. Value: {text}."))),
    }
}

/// The value of an [`integer`]; 400 when its digits are more than can be stored.
pub fn as_integer(value: &Value, field: &str) -> Result<i32, ApiError> {
    let number = match value {
        Value::String(text) => text.parse::<i32>().ok(),
        // 4.0 is an integer to JSON schemas.
        other => other.as_i64().or_else(|| other.as_f64().map(|float| float as i64)).and_then(|number| i32::try_from(number).ok()),
    };
    number.ok_or_else(|| {
        bad_request(format!("Invalid input for field/attribute {field}. Value: {value}. It is not an integer that can be stored."))
    })
}
