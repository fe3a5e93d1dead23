//! The form of an API's errors, and the details that no error may reveal.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Paths, databases and code: outsiders must not learn about them.
static INTERNALS: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        r"(?i)\bsqlite\b|postgres|diesel|constraint failed|violates|duplicate key|database is locked|relation \x22|r2d2",
        r"SELECT .* FROM|INSERT INTO|UPDATE .* SET|DELETE FROM",
        r"/tmp/|\.rs\b|\bpanicked\b|os error",
        r"\b(?:Some|Err|Ok)\(|\b(?:Db|Api|Service)Error\b|\{ kind:",
    ];
    Regex::new(&words.join("|")).expect("a pattern")
});

/// Returns the message of an error in the form of the path's API.
fn message_of<'a>(path: &str, body: &'a Value) -> Option<&'a str> {
    match path.split(['/', '?']).nth(1) {
        Some("identity") => body.pointer("/error/message"),
        Some("network") => body.pointer("/NeutronError/message"),
        Some("placement") => body.pointer("/errors/0/detail"),
        Some("image") => body.get("message"),
        _ => body.as_object().and_then(|body| body.values().next()).and_then(|error| error.get("message")),
    }?
    .as_str()
}

/// Returns an objection unless a refusal has a message in the API's form and reveals no internals.
pub fn objection(path: &str, status: u16, text: &str) -> Option<String> {
    if status < 400 {
        return None;
    }
    let body: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    match message_of(path, &body) {
        None | Some("") => Some(format!("an error without a message in the API's form: {text:.300}")),
        Some(message) => INTERNALS.find(message).map(|leak| format!("an error that tells {:?}: {message:.300}", leak.as_str())),
    }
}

#[test]
fn an_error_that_tells_of_the_inside_is_noticed() {
    let error = |message: &str| serde_json::json!({"badRequest": {"code": 400, "message": message}}).to_string();
    for message in ["UNIQUE constraint failed: x.y", "cannot read /tmp/x", "Some(3) is wrong", "No such file or directory (os error 2)"] {
        assert!(objection("/compute/v2.1/servers", 400, &error(message)).is_some(), "{message}");
    }
    assert_eq!(objection("/compute/v2.1/servers", 400, &error("Invalid input for field/attribute name.")), None);
    assert!(objection("/compute/v2.1/servers", 404, "").is_some());
    assert!(objection("/network/v2.0/ports", 404, &error("Not there.")).is_some());
}
