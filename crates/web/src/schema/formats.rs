//! The formats that schemas name, beyond those of the JSON schema library.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine;
use jsonschema::{Draft, Validator};
use serde_json::Value;
use uuid::Uuid;

/// Compiles a schema, or says why it is wrong.
pub fn compile(schema: &Value) -> Result<Validator, String> {
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

/// True for printable text without space at either end.
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
