//! Request bodies judged by JSON schemas: compiled once per resource and range of microversions, with messages that name the
//! field (spec clients.md §3).

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::StatusCode;
use base64::Engine;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, ValidationError, Validator};
use serde_json::Value;
use uuid::Uuid;

use crate::http::compute::answer::bad_request;
use crate::http::error::{ApiError, ErrorForm};
use crate::http::microversion::ApiVersion;

/// The body of one request: how its schema depends on the minor version, and from which minor versions it differs.
pub struct BodySchema {
    /// Unique among all bodies.
    pub name: &'static str,
    /// The minor versions at which the schema changes, ascending, the first one included.
    pub changes: &'static [u16],
    /// The schema for a minor version.
    pub schema: fn(u16) -> Value,
}

/// Compiled schemas by name and the minor version at which their range begins.
static COMPILED: Mutex<BTreeMap<(&'static str, u16), Arc<Validator>>> = Mutex::new(BTreeMap::new());

/// Longest excerpt of a refused value in a message.
const EXCERPT: usize = 200;

impl BodySchema {
    /// 400 with the first thing that is wrong, or nothing.
    pub fn check(&self, version: ApiVersion, body: &Value) -> Result<(), ApiError> {
        let validator = self.compiled(version.0.minor)?;
        // Ends at the first error: a large body may have as many as it has bytes.
        validator.validate(body).map_err(|error| bad_request(explain(&error)))
    }

    fn compiled(&self, minor: u16) -> Result<Arc<Validator>, ApiError> {
        let since = self.changes.iter().rev().find(|change| **change <= minor).copied().unwrap_or(1);
        let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(validator) = compiled.get(&(self.name, since)) {
            return Ok(Arc::clone(validator));
        }
        let validator = Arc::new(compile(&(self.schema)(since)).map_err(|why| {
            let message = format!("The schema of {} does not compile: {why}", self.name);
            ApiError::new(ErrorForm::Compute, StatusCode::INTERNAL_SERVER_ERROR, message)
        })?);
        compiled.insert((self.name, since), Arc::clone(&validator));
        Ok(validator)
    }
}

fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::options()
        .with_draft(Draft::Draft4)
        .should_validate_formats(true)
        .with_format("name", is_name)
        .with_format("printable", is_printable)
        .with_format("base64", is_base64)
        .with_format("uuid", |text: &str| Uuid::parse_str(text).is_ok())
        .with_format("ipv4", |text: &str| text.parse::<Ipv4Addr>().is_ok())
        .with_format("ipv6", |text: &str| text.parse::<Ipv6Addr>().is_ok())
        .build(schema)
        .map_err(|error| error.to_string())
}

/// Printable, and no space at either end.
fn is_name(text: &str) -> bool {
    is_printable(text) && text.trim() == text
}

fn is_printable(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

fn is_base64(text: &str) -> bool {
    let packed: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    base64::engine::general_purpose::STANDARD.decode(packed).is_ok()
}

/// One sentence: the field, its value and what is wrong with it.
fn explain(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().to_string();
    let field = excerpt(&path.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~"));
    let reason = match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().map(|name| format!("'{name}'")).collect();
            let (noun, verb) = if names.len() == 1 { ("property", "is") } else { ("properties", "are") };
            format!("The additional {noun} {} {verb} not allowed here.", excerpt(&names.join(", ")))
        }
        ValidationErrorKind::Required { property } => {
            format!("'{}' is a required property.", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Format { format } => format!("It is {}.", format_reason(format)),
        ValidationErrorKind::OneOfNotValid { .. } | ValidationErrorKind::AnyOf { .. } => "It has none of the allowed forms.".to_owned(),
        _ if field == "adminPass" => "It must be a string.".to_owned(),
        _ if holds_secrets(&path) => "It is not of the expected form.".to_owned(),
        _ => format!("{}.", excerpt(&error.to_string())),
    };
    if field.is_empty() {
        return format!("Invalid input. {reason}");
    }
    if holds_secrets(&path)
        || matches!(error.kind(), ValidationErrorKind::AdditionalProperties { .. } | ValidationErrorKind::Required { .. })
    {
        // The value is the whole object, which may hold a password.
        return format!("Invalid input for field/attribute {field}. {reason}");
    }
    format!("Invalid input for field/attribute {field}. Value: {}. {reason}", excerpt(&error.instance().to_string()))
}

/// What only the guest may know is repeated to nobody.
fn holds_secrets(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "adminPass" | "user_data" | "personality"))
}

fn format_reason(format: &str) -> &'static str {
    match format {
        "name" => "not printable text, or starts or ends with whitespace",
        "printable" => "not printable text",
        "base64" => "not base64",
        "uuid" => "not a UUID",
        "ipv4" => "not an IPv4 address",
        "ipv6" => "not an IPv6 address",
        _ => "not of the expected format",
    }
}

/// The beginning of a text, for messages.
pub fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An integer that may be written as text.
pub fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}
