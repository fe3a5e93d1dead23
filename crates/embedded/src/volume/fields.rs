//! Checks the values of a volume's fields as Cinder does.

use std::collections::BTreeMap;

use cellshift_web::error::ApiError;
use cellshift_web::schema::{excerpt, number};
use serde_json::Value;
use uuid::Uuid;

use crate::volume::routes::bad_request;

/// The maximum length of a name, a description, a metadata key or value, in characters.
const LONGEST: usize = 255;
/// The maximum number of a volume's metadata items.
const MOST_ITEMS: usize = 128;

/// Checks a name or description, and trims the blanks around it.
pub(super) fn text(field: &str, text: Option<String>) -> Result<Option<String>, ApiError> {
    let text = text.map(|text| text.trim().to_owned());
    match text.as_deref().is_some_and(|text| is_longer(text, LONGEST)) {
        true => Err(invalid(field, "it is too long", &format!("at most {LONGEST} characters"))),
        false => Ok(text),
    }
}

/// Checks a change of a name or a description; none leaves it, and null clears it.
pub(super) fn changed_text(field: &str, change: Option<Option<String>>) -> Result<Option<Option<String>>, ApiError> {
    change.map(|change| text(field, change)).transpose()
}

/// Parses an id in a body.
pub(super) fn id(text: &str) -> Result<Uuid, ApiError> {
    Uuid::parse_str(text).map_err(|_| bad_request(format!("'{text}' is not a 'uuid'")))
}

/// Refuses metadata with too long keys or values, or too many items.
pub(super) fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), ApiError> {
    if metadata.len() > MOST_ITEMS {
        return Err(invalid("metadata", &format!("it has {} items", metadata.len()), &format!("at most {MOST_ITEMS}")));
    }
    for (key, value) in metadata {
        if key.trim().is_empty() || is_longer(key, LONGEST) || key.chars().any(char::is_control) {
            return Err(invalid("metadata", &format!("the key '{}'", excerpt(key)), &format!("1 to {LONGEST} printable characters")));
        }
        if is_longer(value, LONGEST) {
            return Err(invalid("metadata", &format!("the value of '{key}' is too long"), &format!("at most {LONGEST} characters")));
        }
    }
    Ok(())
}

/// Parses a size in GiB: a number, or digits in a string.
pub(super) fn size(field: &str, value: &Value) -> Result<i32, ApiError> {
    let size = number(value).and_then(|size| i32::try_from(size).ok()).filter(|size| *size >= 1);
    size.ok_or_else(|| invalid(field, &excerpt(&value.to_string()), "an integer greater than zero"))
}

/// Parses a flag in all spellings that clients use.
pub(super) fn flag(field: &str, value: &Value) -> Result<bool, ApiError> {
    let word = match value {
        Value::Bool(flag) => return Ok(*flag),
        Value::String(word) => word.as_str(),
        _ => "",
    };
    match word.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err(invalid(field, &excerpt(&value.to_string()), "true or false")),
    }
}

fn is_longer(text: &str, most: usize) -> bool {
    text.chars().nth(most).is_some()
}

fn invalid(field: &str, what: &str, rule: &str) -> ApiError {
    bad_request(format!("Invalid input for field/attribute {field}: {what}, where it must be {rule}."))
}
