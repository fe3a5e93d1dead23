//! The error sentence for a body that does not fit its schema, in Nova's words: the field, its value and the reason. Long values are
//! shortened, reasons are not, and secrets are not repeated.

use std::fmt::Write;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

/// The maximum length of a value's excerpt, in characters: one that is a little too long for its field, of at most 255 as a rule, is whole.
const EXCERPT: usize = 300;

/// The maximum number of property names in a reason.
const NAMES: usize = 5;

/// Replaces a secret.
const MASK: &str = "***";

/// Returns the whole sentence.
pub fn explain(error: &ValidationError<'_>) -> String {
    let pointer = error.instance_path().to_string();
    let path: Vec<String> = pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    if matches!(error.kind(), ValidationErrorKind::Format { format } if format == "name") {
        return "An invalid 'name' value was provided. The name must be: printable characters. Can not start or end with whitespace."
            .to_owned();
    }
    let secret = path.iter().any(|part| is_secret(part));
    let value = |most| if secret { MASK.to_owned() } else { written(error.instance(), most) };
    let reason = reason(error.kind(), error.instance(), &value(EXCERPT));
    match path.last() {
        None => reason,
        Some(field) => {
            let excerpt_of_value = match error.instance().as_ref() {
                Value::String(text) if !secret => excerpt(text),
                _ => value(EXCERPT),
            };
            format!("Invalid input for field/attribute {}. Value: {excerpt_of_value}. {reason}", excerpt(field))
        }
    }
}

/// Returns the reason without the field's name, and with the rule that failed and its place in the schema, as Placement's clients expect it.
/// `schema` is the schema of the whole body.
pub fn explain_rule(error: &ValidationError<'_>, schema: &Value) -> String {
    let pointer = error.schema_path().to_string();
    let (above, _) = pointer.rsplit_once('/').unwrap_or_default();
    let patterns = schema.pointer(above).and_then(|part| part["patternProperties"].as_object());
    let reason = match (error.kind(), patterns) {
        (ValidationErrorKind::AdditionalProperties { unexpected }, Some(patterns)) => {
            let verb = if unexpected.len() == 1 { "does" } else { "do" };
            let patterns: Vec<String> = patterns.keys().map(|pattern| format!("'{pattern}'")).collect();
            format!("{} {verb} not match any of the regexes: {}", listed(unexpected), patterns.join(", "))
        }
        (kind, _) => reason(kind, error.instance(), &written(error.instance(), EXCERPT)),
    };
    let place: String = above.split('/').skip(1).map(|part| format!("['{}']", part.replace("~1", "/").replace("~0", "~"))).collect();
    format!("JSON does not validate: {reason}. Failed validating '{}' in schema{place}", error.kind().keyword())
}

/// Shortens a text for messages.
pub fn excerpt(text: &str) -> String {
    cut(text, EXCERPT)
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn reason(kind: &ValidationErrorKind, instance: &Value, value: &str) -> String {
    use ValidationErrorKind as Kind;
    match kind {
        Kind::AdditionalProperties { unexpected } => {
            let verb = if unexpected.len() == 1 { "was" } else { "were" };
            format!("Additional properties are not allowed ({} {verb} unexpected)", listed(unexpected))
        }
        Kind::Required { property } => format!("{} is a required property", written(property, EXCERPT)),
        Kind::Type { kind } => format!("{value} is not of type {}", types(kind)),
        Kind::Enum { options } => format!("{value} is not one of {}", written(options, usize::MAX)),
        Kind::Pattern { pattern } => format!("{value} does not match '{pattern}'"),
        Kind::Format { format } => format!("{value} is not a '{format}'"),
        Kind::MaxLength { .. } | Kind::MaxItems { .. } => format!("{value} is too long"),
        Kind::MinLength { .. } | Kind::MinItems { .. } => format!("{value} is too short"),
        Kind::Minimum { limit } => format!("{value} is less than the minimum of {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("{value} is less than or equal to the minimum of {limit}"),
        Kind::Maximum { limit } => format!("{value} is greater than the maximum of {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("{value} is greater than or equal to the maximum of {limit}"),
        Kind::MinProperties { .. } => format!("{value} does not have enough properties"),
        Kind::MaxProperties { .. } => format!("{value} has too many properties"),
        Kind::UniqueItems => format!("{value} has non-unique elements"),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => format!("{value} is not valid under any of the given schemas"),
        Kind::OneOfMultipleValid { .. } => format!("{value} is valid under more than one of the given schemas"),
        other => format!("{value} does not fit: {} of {}", other.keyword(), kind_of(instance)),
    }
}

fn listed(names: &[String]) -> String {
    let quoted_names: Vec<String> = names.iter().take(NAMES).map(|name| quoted(name, EXCERPT)).collect();
    let more = if names.len() > NAMES { ", …" } else { "" };
    format!("{}{more}", quoted_names.join(", "))
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => format!("'{one}'"),
        TypeKind::Multiple(several) => several.iter().map(|one| format!("'{one}'")).collect::<Vec<_>>().join(", "),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// True for the names of fields with secrets of the guest or the user.
fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    matches!(name.as_str(), "user_data" | "personality" | "contents" | "private_key") || name.contains("pass") || name.contains("secret")
}

/// Writes a value as Python does, because Nova's clients expect it, in at most `most` characters and without secrets.
fn written(value: &Value, most: usize) -> String {
    let mut text = String::new();
    write(&mut text, value, most);
    if value.is_string() { text } else { cut(&text, most) }
}

/// Stops soon after the text is long enough, so that a large value costs no more.
fn write(text: &mut String, value: &Value, most: usize) {
    match value {
        Value::Null => text.push_str("None"),
        Value::Bool(true) => text.push_str("True"),
        Value::Bool(false) => text.push_str("False"),
        // Writing to a String cannot fail.
        Value::Number(number) => drop(write!(text, "{number}")),
        Value::String(string) => text.push_str(&quoted(string, most)),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if text.len() > most.saturating_mul(4) {
                    break;
                }
                text.push_str(if at > 0 { ", " } else { "" });
                write(text, item, most);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            text.push('{');
            for (at, (name, field)) in fields.iter().enumerate() {
                if text.len() > most.saturating_mul(4) {
                    break;
                }
                text.push_str(if at > 0 { ", " } else { "" });
                text.push_str(&quoted(name, most));
                text.push_str(": ");
                match is_secret(name) {
                    true => text.push_str(&quoted(MASK, most)),
                    false => write(text, field, most),
                }
            }
            text.push('}');
        }
    }
}

/// Returns the shortened text in single quotes.
fn quoted(text: &str, most: usize) -> String {
    format!("'{}'", cut(text, most))
}
