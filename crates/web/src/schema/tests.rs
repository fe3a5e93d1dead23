//! Tests that errors use Nova's words for values of any length.

use serde_json::{Value, json};

use super::{Schema, object, wrapped};

fn objection(schema: &Schema, body: &Value) -> String {
    schema.objection(1, body).unwrap().unwrap()
}

static THING: Schema = Schema::fixed(|_| {
    let fields = json!({
        "name": {"type": "string", "minLength": 1, "maxLength": 255},
        "key": {"type": "string", "pattern": "^[a-z]*$"},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "kind": {"enum": ["HARD", "SOFT"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2, "uniqueItems": true},
        "reference": {"oneOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]},
        "id": {"type": "string", "format": "uuid"},
        "label": {"type": "string", "format": "name"},
        "adminPass": {"type": "string", "maxLength": 10},
        "user_data": {"type": "string", "format": "base64"},
        "personality": {"type": "array", "items": {"type": "string"}},
    });
    wrapped("thing", &object(&fields, &["name"]))
});

#[test]
fn an_objection_has_the_field_its_value_and_novas_reason() {
    for (field, value, said) in [
        ("name", json!(7), "Value: 7. 7 is not of type 'string'"),
        ("name", json!(null), "Value: None. None is not of type 'string'"),
        ("name", json!(""), "Value: . '' is too short"),
        ("key", json!("A"), "Value: A. 'A' does not match '^[a-z]*$'"),
        ("count", json!(0), "Value: 0. 0 is less than the minimum of 1"),
        ("count", json!(10), "Value: 10. 10 is greater than the maximum of 9"),
        ("count", json!(4.0), "Value: 4.0. 4.0 is not of type 'integer'"),
        ("kind", json!("warm"), "Value: warm. 'warm' is not one of ['HARD', 'SOFT']"),
        ("tags", json!(["a", "a"]), "Value: ['a', 'a']. ['a', 'a'] has non-unique elements"),
        ("tags", json!(["a", "b", "c"]), "Value: ['a', 'b', 'c']. ['a', 'b', 'c'] is too long"),
        ("reference", json!(true), "Value: True. True is not valid under any of the given schemas"),
        ("id", json!("x"), "Value: x. 'x' is not a 'uuid'"),
    ] {
        let mut thing = json!({"name": "a"});
        thing[field] = value;
        assert_eq!(objection(&THING, &json!({"thing": thing})), format!("Invalid input for field/attribute {field}. {said}"));
    }
    assert!(objection(&THING, &json!({"thing": {"name": "a", "label": " b"}})).starts_with("An invalid 'name' value was provided."));
}

#[test]
fn missing_and_additional_keys_are_named() {
    assert_eq!(objection(&THING, &json!({})), "'thing' is a required property");
    assert_eq!(objection(&THING, &json!([])), "[] is not of type 'object'");
    let missing = objection(&THING, &json!({"thing": {"count": 1}}));
    assert_eq!(missing, "Invalid input for field/attribute thing. Value: {'count': 1}. 'name' is a required property");
    let one = objection(&THING, &json!({"thing": {"name": "a", "x": 1}}));
    assert!(one.ends_with("Additional properties are not allowed ('x' was unexpected)"), "{one}");
}

#[test]
fn a_long_value_is_cut_and_the_reason_is_not() {
    let long = "x".repeat(100_000);
    let many: serde_json::Map<String, Value> = (0..10_000).map(|at| (format!("{long:.300}{at}"), json!(at))).collect();
    for (thing, ends) in [
        (json!({"name": long}), "xxx…' is too long"),
        (json!({"name": {"a": long}}), "… is not of type 'string'"),
        (json!({"name": "a", "key": "A".repeat(9_000)}), "AAA…' does not match '^[a-z]*$'"),
        (json!({"name": "a", "kind": long}), "xxx…' is not one of ['HARD', 'SOFT']"),
        (json!({"name": "a", "tags": vec!["y"; 50_000]}), " is too long"),
        (json!({"name": "a", "id": long}), "xxx…' is not a 'uuid'"),
        (json!(many), "…' was unexpected)"),
        (json!({"name": "a", long.as_str(): 1}), "xxx…' was unexpected)"),
    ] {
        let said = objection(&THING, &json!({"thing": thing}));
        assert!(said.ends_with(ends), "{ends}: {said}");
        assert!(said.chars().count() < 2_000, "{}", said.chars().count());
    }
    let one_too_many = "x".repeat(256);
    let said = objection(&THING, &json!({"thing": {"name": one_too_many}}));
    assert_eq!(said, format!("Invalid input for field/attribute name. Value: {one_too_many}. '{one_too_many}' is too long"));
}

#[test]
fn secrets_are_not_repeated_whatever_is_wrong() {
    for thing in [
        json!({"name": "a", "adminPass": "geheim-geheim"}),
        json!({"name": "a", "adminPass": ["geheim"]}),
        json!({"name": "a", "user_data": "geheim!"}),
        json!({"name": "a", "personality": [{"path": "/x", "contents": "geheim"}]}),
        json!({"adminPass": "geheim"}),
        json!({"name": "a", "x": 1, "adminPass": "geheim", "user_data": "geheim"}),
    ] {
        let said = objection(&THING, &json!({"thing": thing}));
        assert!(!said.contains("geheim") && said.contains("***"), "{said}");
    }
    let said = objection(&THING, &json!({"thing": {"name": "a", "adminPass": "geheim-geheim"}}));
    assert_eq!(said, "Invalid input for field/attribute adminPass. Value: ***. *** is too long");
}
