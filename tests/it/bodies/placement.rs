//! The schemas of placement's answers, which have no pages.

use serde_json::{Value, json};

use super::Route;
use super::parts::{count, list, nothing, object, one_of, only, or_null, plus, text, uuid};

/// The only table, with its root.
pub static TABLES: [(&str, &[Route]); 1] = [("/placement", ROUTES)];

/// 1.1: a link to aggregates. 1.6: to traits. 1.11: to allocations. 1.14: the place in the tree.
const PROVIDER: &[u16] = &[0, 1, 6, 11, 14];

static ROUTES: &[Route] = &[
    ("GET", "", &[0], |_| only("versions", list(version()))),
    ("GET", "/resource_providers", PROVIDER, |minor| only("resource_providers", list(provider(minor)))),
    // 1.20: the provider.
    ("POST", "/resource_providers", &[0, 20], |minor| if minor >= 20 { provider(minor) } else { nothing(minor) }),
    ("GET", "/resource_providers/{}", PROVIDER, provider),
    ("PUT", "/resource_providers/{}", PROVIDER, provider),
    ("DELETE", "/resource_providers/{}", &[0], nothing),
    ("GET", "/resource_providers/{}/inventories", &[0], |_| inventories()),
    ("POST", "/resource_providers/{}/inventories", &[0], |_| inventory_of_provider()),
    ("PUT", "/resource_providers/{}/inventories", &[0], |_| inventories()),
    ("DELETE", "/resource_providers/{}/inventories", &[5], nothing),
    ("GET", "/resource_providers/{}/inventories/{}", &[0], |_| inventory_of_provider()),
    ("PUT", "/resource_providers/{}/inventories/{}", &[0], |_| inventory_of_provider()),
    ("DELETE", "/resource_providers/{}/inventories/{}", &[0], nothing),
    ("GET", "/resource_providers/{}/usages", &[0], |_| plus(only("usages", amounts(0)), generation())),
    ("GET", "/resource_providers/{}/traits", &[6], |_| plus(only("traits", list(name())), generation())),
    ("PUT", "/resource_providers/{}/traits", &[6], |_| plus(only("traits", list(name())), generation())),
    ("DELETE", "/resource_providers/{}/traits", &[6], nothing),
    // 1.19: the generation.
    ("GET", "/resource_providers/{}/aggregates", &[1, 19], aggregates),
    ("PUT", "/resource_providers/{}/aggregates", &[1, 19], aggregates),
    // 1.28: the consumer's generation.
    ("GET", "/resource_providers/{}/allocations", &[0, 28], |minor| plus(only("allocations", by_id(held(minor))), generation())),
    ("GET", "/traits", &[6], |_| only("traits", list(name()))),
    ("GET", "/traits/{}", &[6], nothing),
    ("PUT", "/traits/{}", &[6], nothing),
    ("DELETE", "/traits/{}", &[6], nothing),
    ("GET", "/resource_classes", &[2], |_| only("resource_classes", list(class()))),
    ("POST", "/resource_classes", &[2], nothing),
    ("GET", "/resource_classes/{}", &[2], |_| class()),
    ("PUT", "/resource_classes/{}", &[7], nothing),
    ("DELETE", "/resource_classes/{}", &[2], nothing),
    // 1.12: the project and the user. 1.28: the consumer's generation. 1.38: its type.
    ("GET", "/allocations/{}", &[0, 12, 28, 38], allocations),
    ("PUT", "/allocations/{}", &[0], nothing),
    ("POST", "/allocations", &[13], nothing),
    ("DELETE", "/allocations/{}", &[0], nothing),
    // 1.12: allocations by provider. 1.17: traits. 1.29: the place in the tree. 1.34: mappings.
    ("GET", "/allocation_candidates", &[10, 12, 17, 29, 34], candidates),
    ("POST", "/reshaper", &[30], nothing),
    // 1.38: by the type of consumers, with their number.
    ("GET", "/usages", &[9, 38], usages),
];

fn version() -> Value {
    let link = object(json!({"rel": one_of(&["self"]), "href": text()}));
    object(json!({
        "id": one_of(&["v1.0"]),
        "status": one_of(&["CURRENT"]),
        "min_version": one_of(&["1.0"]),
        "max_version": {"type": "string", "pattern": r"^1\.[0-9]+$"},
        "links": {"type": "array", "items": [link], "minItems": 1, "additionalItems": false},
    }))
}

/// Describes the name of a trait or a resource class.
fn name() -> Value {
    json!({"type": "string", "pattern": "^[A-Z0-9_]{1,255}$"})
}

fn generation() -> Value {
    json!({"resource_provider_generation": count()})
}

/// Describes links with these relations, whose paths begin at the service's root.
fn links(relations: &[&str]) -> Value {
    let path = json!({"type": "string", "pattern": "^/placement/[^ ]+$"});
    let links: Vec<Value> = relations.iter().map(|relation| object(json!({"rel": one_of(&[relation]), "href": path}))).collect();
    json!({"type": "array", "minItems": links.len(), "items": links, "additionalItems": false})
}

/// Describes the place of a provider in its tree.
fn place() -> Value {
    json!({"parent_provider_uuid": or_null(uuid()), "root_provider_uuid": uuid()})
}

fn provider(minor: u16) -> Value {
    let mut relations = vec!["self", "inventories", "usages"];
    let later = [(1, "aggregates"), (6, "traits"), (11, "allocations")];
    relations.extend(later.iter().filter(|(since, _)| minor >= *since).map(|(_, relation)| *relation));
    let name = json!({"type": "string", "minLength": 1, "maxLength": 200});
    let provider = object(json!({"uuid": uuid(), "name": name, "generation": count(), "links": links(&relations)}));
    if minor >= 14 { plus(provider, place()) } else { provider }
}

fn inventory() -> Value {
    let amount = json!({"type": "integer", "minimum": 1, "maximum": i32::MAX});
    object(json!({
        "total": amount,
        "reserved": count(),
        "min_unit": amount,
        "max_unit": amount,
        "step_size": amount,
        "allocation_ratio": {"type": "number", "minimum": 0},
    }))
}

fn inventories() -> Value {
    plus(only("inventories", by_class(inventory())), generation())
}

fn inventory_of_provider() -> Value {
    plus(inventory(), generation())
}

/// Describes an object whose keys are resource classes.
fn by_class(value: Value) -> Value {
    json!({"type": "object", "patternProperties": {"^[A-Z0-9_]{1,255}$": value}, "additionalProperties": false})
}

/// Describes an object whose keys are ids of providers or consumers.
fn by_id(value: Value) -> Value {
    let id = uuid()["pattern"].as_str().expect("a pattern").to_owned();
    json!({"type": "object", "patternProperties": {id: value}, "additionalProperties": false})
}

/// Describes amounts by resource class.
fn amounts(least: u8) -> Value {
    by_class(json!({"type": "integer", "minimum": least}))
}

fn aggregates(minor: u16) -> Value {
    // The ids are kept as they are spelt.
    let aggregates = only("aggregates", list(text()));
    if minor >= 19 { plus(aggregates, generation()) } else { aggregates }
}

fn held(minor: u16) -> Value {
    let held = only("resources", amounts(1));
    if minor >= 28 { plus(held, json!({"consumer_generation": count()})) } else { held }
}

fn class() -> Value {
    object(json!({"name": name(), "links": links(&["self"])}))
}

/// Describes a consumer's allocations. A consumer without any is not known, so nothing else is told of it.
fn allocations(minor: u16) -> Value {
    let own = plus(only("generation", count()), json!({"resources": amounts(1)}));
    let mut holdings = only("allocations", by_id(own));
    if minor >= 12 {
        holdings = plus(holdings, json!({"project_id": text(), "user_id": text()}));
    }
    if minor >= 28 {
        holdings = plus(holdings, json!({"consumer_generation": count()}));
    }
    if minor >= 38 {
        holdings = plus(holdings, json!({"consumer_type": name()}));
    }
    json!({"anyOf": [holdings, only("allocations", object(json!({})))]})
}

fn candidates(minor: u16) -> Value {
    let resources = json!({"resources": amounts(1)});
    let mut request = match minor {
        12.. => only("allocations", by_id(object(resources))),
        _ => only("allocations", list(plus(only("resource_provider", only("uuid", uuid())), resources))),
    };
    if minor >= 34 {
        let mappings = json!({"type": "object", "additionalProperties": list(uuid())});
        request = plus(request, json!({"mappings": mappings}));
    }
    let mut summary = only("resources", by_class(object(json!({"capacity": count(), "used": count()}))));
    if minor >= 17 {
        summary = plus(summary, json!({"traits": list(name())}));
    }
    if minor >= 29 {
        summary = plus(summary, place());
    }
    object(json!({"allocation_requests": list(request), "provider_summaries": by_id(summary)}))
}

fn usages(minor: u16) -> Value {
    if minor < 38 {
        return only("usages", amounts(0));
    }
    let of_type = plus(amounts(0), json!({"consumer_count": count()}));
    only("usages", by_class(of_type))
}
