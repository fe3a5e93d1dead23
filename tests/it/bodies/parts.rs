//! The parts from which the schemas of answers are put together.

use serde_json::{Map, Value, json};

/// Describes an object with exactly these fields, all of which are always there.
pub fn object(fields: Value) -> Value {
    plus(json!({"type": "object", "properties": {}, "additionalProperties": false}), fields)
}

/// Describes an object whose only field is `key`.
pub fn only(key: &str, inner: Value) -> Value {
    object(json!({ key: inner }))
}

/// Adds fields that are always there to an object, or replaces those it has.
pub fn plus(mut object: Value, fields: Value) -> Value {
    let names: Vec<Value> = entries(&fields).keys().map(|name| json!(name)).collect();
    let mut required = object["required"].as_array().cloned().unwrap_or_default();
    required.extend(names.into_iter().filter(|name| !required.contains(name)).collect::<Vec<_>>());
    // Draft 4 forbids an empty list here.
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    perhaps(object, fields)
}

/// Adds fields that are there in some answers.
pub fn perhaps(mut object: Value, fields: Value) -> Value {
    for (name, field) in entries(&fields) {
        object["properties"][name] = field.clone();
    }
    object
}

/// Adds fields that are all there or none of them.
pub fn together(mut object: Value, fields: Value) -> Value {
    let names: Vec<&String> = entries(&fields).keys().collect();
    for name in &names {
        object["dependencies"][name.as_str()] = json!(names);
    }
    perhaps(object, fields)
}

/// Takes fields away.
pub fn minus(mut object: Value, names: &[&str]) -> Value {
    for name in names {
        object["properties"].as_object_mut().expect("properties").remove(*name);
    }
    object["required"].as_array_mut().expect("required fields").retain(|field| !names.iter().any(|name| field == name));
    object
}

fn entries(fields: &Value) -> &Map<String, Value> {
    fields.as_object().expect("fields")
}

/// Describes no body.
pub fn nothing(_: u16) -> Value {
    json!({"type": "null"})
}

/// Describes the answers of a route whose last microversion is `last`.
pub fn until(last: u16, minor: u16, answer: Value) -> Value {
    if minor > last { never(minor) } else { answer }
}

/// Describes no answer at all: the route only refuses.
pub fn never(_: u16) -> Value {
    json!({"not": {}})
}

pub fn list(item: Value) -> Value {
    json!({"type": "array", "items": item})
}

pub fn text() -> Value {
    json!({"type": "string"})
}

pub fn boolean() -> Value {
    json!({"type": "boolean"})
}

pub fn always_null() -> Value {
    json!({"type": "null"})
}

pub fn integer() -> Value {
    json!({"type": "integer"})
}

/// Describes an integer that is not below zero.
pub fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

pub fn one_of(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// Allows null beside a schema's own values.
pub fn or_null(mut schema: Value) -> Value {
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.push(Value::Null);
    }
    let own = schema["type"].take();
    schema["type"] = json!([own, "null"]);
    schema
}

pub fn uuid() -> Value {
    json!({"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"})
}

/// Describes the id of a project or a user.
pub fn account() -> Value {
    json!({"type": "string", "pattern": "^[a-zA-Z0-9-]{1,255}$"})
}

/// Describes a moment as servers, images and faults have it: `2026-11-20T12:00:00Z`.
pub fn seconds() -> Value {
    json!({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"})
}

/// Describes a moment as all other resources have it: `2026-11-20T12:00:00.000000`.
pub fn micros() -> Value {
    json!({"type": "string", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}$"})
}

/// Describes a moment as tokens have it: `2026-11-20T12:00:00.000000Z`.
pub fn moment() -> Value {
    json!({"type": "string", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$"})
}

/// Describes texts by name, as metadata and extra specs are.
pub fn metadata() -> Value {
    json!({
        "type": "object",
        "patternProperties": {"^[a-zA-Z0-9_:. -]{1,255}$": {"type": "string", "maxLength": 255}},
        "additionalProperties": false,
    })
}

/// Describes the only item of metadata.
pub fn meta() -> Value {
    let mut meta = metadata();
    (meta["minProperties"], meta["maxProperties"]) = (json!(1), json!(1));
    meta
}

/// Describes an address of IPv4 or IPv6.
pub fn address() -> Value {
    json!({"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]})
}

pub fn mac_address() -> Value {
    json!({"type": "string", "pattern": "^([0-9a-f]{2}:){5}[0-9a-f]{2}$"})
}

pub fn url() -> Value {
    json!({"type": "string", "pattern": "^https?://[^/ ]+/[^ ]*$"})
}

/// Describes links with these relations, in this order.
fn links_of(relations: &[&str]) -> Value {
    let links: Vec<Value> = relations.iter().map(|relation| object(json!({"rel": one_of(&[relation]), "href": url()}))).collect();
    json!({"type": "array", "minItems": links.len(), "items": links, "additionalItems": false})
}

/// Describes a resource's own links.
pub fn links() -> Value {
    links_of(&["self", "bookmark"])
}

/// Describes the link of a resource that another one names.
pub fn bookmark() -> Value {
    links_of(&["bookmark"])
}

/// Describes the link of a page to the next one.
pub fn next() -> Value {
    links_of(&["next"])
}

/// Describes a link with a media type.
pub fn typed_link(relation: &str, kind: &str) -> Value {
    object(json!({"rel": one_of(&[relation]), "type": one_of(&[kind]), "href": url()}))
}
