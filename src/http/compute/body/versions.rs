//! The schema of a body's type at one microversion. Marks in the type's schema, which `#[schemars(extend(…))]` adds, say how it changes:
//!
//! - `since` and `until`: the field is there from the first minor version on, and no more from the second one on;
//! - `required_since` and `required_until`: the same for the demand that the field is present;
//! - `versions`: pairs of a minor version and the schema from then on, ascending; null for a field that is not there;
//! - `anything_before`: older minor versions allow any value.

use serde_json::{Map, Value, json};

/// Keywords that check nothing: marks, and descriptions for readers.
const UNCHECKED: [&str; 10] =
    ["$schema", "anything_before", "default", "description", "required_since", "required_until", "since", "title", "until", "versions"];

/// Returns the schema at a minor version, without marks; null for a field that is not there.
pub fn at(minor: u16, schema: &Value) -> Value {
    if !is_between(minor, schema, "since", "until") {
        return Value::Null;
    }
    if schema["anything_before"].as_u64().is_some_and(|first| u64::from(minor) < first) {
        return json!({});
    }
    if let Some(forms) = schema["versions"].as_array() {
        let form = forms.iter().rev().find(|form| form[0].as_u64().is_some_and(|first| first <= u64::from(minor)));
        return form.map_or(Value::Null, |form| at(minor, &form[1]));
    }
    match schema {
        Value::Object(keywords) => Value::Object(keywords_at(minor, keywords)),
        other => other.clone(),
    }
}

/// True if the minor version is not before the mark `first`, and before the mark `end`.
fn is_between(minor: u16, schema: &Value, first: &str, end: &str) -> bool {
    let minor = u64::from(minor);
    schema[first].as_u64().is_none_or(|first| first <= minor) && schema[end].as_u64().is_none_or(|end| minor < end)
}

fn keywords_at(minor: u16, keywords: &Map<String, Value>) -> Map<String, Value> {
    let all = |forms: &Value| forms.as_array().into_iter().flatten().map(|form| at(minor, form)).collect();
    let mut checked = Map::new();
    for (keyword, value) in keywords.iter().filter(|(keyword, _)| !UNCHECKED.contains(&keyword.as_str())) {
        let value = match keyword.as_str() {
            "properties" | "patternProperties" => Value::Object(fields_at(minor, value)),
            "additionalProperties" | "items" => at(minor, value),
            "allOf" | "anyOf" | "oneOf" => Value::Array(all(value)),
            "required" => continue,
            _ => value.clone(),
        };
        checked.insert(keyword.clone(), value);
    }
    let required = required_at(minor, keywords);
    // Draft 4 forbids an empty list here.
    if !required.is_empty() {
        checked.insert("required".to_owned(), json!(required));
    }
    checked
}

fn fields_at(minor: u16, fields: &Value) -> Map<String, Value> {
    let fields = fields.as_object().into_iter().flatten().map(|(name, field)| (name.clone(), at(minor, field)));
    fields.filter(|(_, field)| !field.is_null()).collect()
}

/// Returns the required fields that are there: those of the type, and then those that are marked.
fn required_at(minor: u16, keywords: &Map<String, Value>) -> Vec<&str> {
    let fields = keywords.get("properties").and_then(Value::as_object);
    let is_there = |name: &str| fields.and_then(|fields| fields.get(name)).is_none_or(|field| !at(minor, field).is_null());
    let of_type = keywords.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let is_marked = |field: &Value| field.get("required_since").is_some() && is_between(minor, field, "required_since", "required_until");
    let marked = fields.into_iter().flatten().filter(|(_, field)| is_marked(field)).map(|(name, _)| name.as_str());
    of_type.chain(marked).filter(|name| is_there(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_decide_about_fields_by_version() {
        let schema = json!({
            "title": "Thing",
            "type": "object",
            "properties": {
                "always": {"type": "string", "description": "A name.", "default": null},
                "later": {"type": "string", "since": 5, "required_since": 7, "required_until": 9},
                "once": {"type": "string", "until": 5, "required_since": 1},
                "tag": {"versions": [[2, {"type": "string"}], [3, null], [6, {"type": "integer"}]]},
                "description": {"anything_before": 4, "type": "string"},
            },
            "required": ["always"],
        });
        let fields = |minor: u16| at(minor, &schema)["properties"].clone();
        let text = json!({"type": "string"});
        assert_eq!(fields(1), json!({"always": text, "once": text, "description": {}}));
        assert_eq!(fields(2), json!({"always": text, "once": text, "tag": text, "description": {}}));
        assert_eq!(fields(5), json!({"always": text, "later": text, "description": text}));
        assert_eq!(fields(6)["tag"], json!({"type": "integer"}));
        let required = |minor: u16| at(minor, &schema)["required"].clone();
        assert_eq!(required(1), json!(["always", "once"]));
        assert_eq!(required(5), json!(["always"]));
        assert_eq!(required(8), json!(["always", "later"]));
        assert_eq!(required(9), json!(["always"]));
        assert!(at(1, &schema).get("title").is_none());
    }
}
