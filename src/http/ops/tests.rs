//! Tests the document that describes the operators' API. `tests/it/operators.rs` tests the API itself over a running cloud.

use serde_json::Value;

use super::*;

#[test]
fn the_document_describes_each_route_and_its_schemas() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    let served = [
        "/ops/v1/aggregates/sync",
        "/ops/v1/audit",
        "/ops/v1/cells",
        "/ops/v1/cells/{name}",
        "/ops/v1/cells/{name}/nats-config",
        "/ops/v1/chaos/actors",
        "/ops/v1/chaos/experiment",
        "/ops/v1/chaos/experiments",
        "/ops/v1/chaos/faults",
        "/ops/v1/chaos/faults/{id}",
        "/ops/v1/chaos/trials",
        "/ops/v1/dev/reset",
        "/ops/v1/drains",
        "/ops/v1/drains/{id}",
        "/ops/v1/drains/{id}/cancel",
        "/ops/v1/drains/{id}/pause",
        "/ops/v1/drains/{id}/resume",
        "/ops/v1/drains/{id}/servers",
        "/ops/v1/drains/{id}/undo",
        "/ops/v1/enrolments",
        "/ops/v1/enrolments/{host}",
        "/ops/v1/history",
        "/ops/v1/hosts",
        "/ops/v1/hosts/{name}",
        "/ops/v1/migrations",
        "/ops/v1/migrations/{uuid}",
        "/ops/v1/migrations/{uuid}/debts/retry",
        "/ops/v1/notifications",
        "/ops/v1/openapi.json",
        "/ops/v1/queued-deletes",
        "/ops/v1/server-groups/{id}/moves",
        "/ops/v1/server-groups/{id}/moves/stop",
        "/ops/v1/servers/unhealed",
        "/ops/v1/servers/{id}",
        "/ops/v1/servers/{id}/destinations",
        "/ops/v1/servers/{id}/heal",
        "/ops/v1/summary",
        "/ops/v1/unconfirmed-moves",
    ];
    assert_eq!(paths, served);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in OPENAPI.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
    }
}
