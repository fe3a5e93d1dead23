//! `/os-migrations` and `/servers/{id}/migrations`.

use serde_json::{Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{
    account, count, integer, links, list, micros, next, nothing, object, one_of, only, or_null, perhaps, plus, text, uuid,
};

/// 2.59: `uuid`. 2.80: `user_id` and `project_id`.
const IN_PROGRESS: &[u16] = &[23, 59, 80];

const STATUSES: &[&str] = &[
    "accepted",
    "cancelled",
    "completed",
    "confirmed",
    "confirming",
    "done",
    "error",
    "failed",
    "finished",
    "migrating",
    "post-migrating",
    "pre-migrating",
    "preparing",
    "queued",
    "reverted",
    "reverting",
    "running",
];

pub static ROUTES: &[Route] = &[
    // 2.23: `migration_type`, and links of live migrations in progress. 2.59: `uuid` and pages. 2.80: `user_id` and `project_id`.
    ("GET", "/os-migrations", &[1, 23, 59, 80], index),
    ("GET", "/servers/{}/migrations", IN_PROGRESS, |minor| only("migrations", list(in_progress(minor)))),
    ("GET", "/servers/{}/migrations/{}", IN_PROGRESS, |minor| only("migration", in_progress(minor))),
    ("DELETE", "/servers/{}/migrations/{}", &[24], nothing),
    ("POST", "/servers/{}/migrations/{}/action#force_complete", &[22], nothing),
];

/// Describes the fields of both resources. Hosts are for those who may see them.
fn either(minor: u16) -> Value {
    let either = object(json!({
        "id": integer(),
        "source_compute": or_null(text()),
        "source_node": or_null(text()),
        "dest_compute": or_null(text()),
        "dest_node": or_null(text()),
        "dest_host": or_null(text()),
        "created_at": micros(),
        "updated_at": or_null(micros()),
    }));
    let either = if minor >= 59 { plus(either, json!({"uuid": uuid()})) } else { either };
    if minor >= 80 { plus(either, json!({"user_id": account(), "project_id": account()})) } else { either }
}

fn index(minor: u16) -> Value {
    let mut one = plus(
        either(minor),
        json!({
            "instance_uuid": uuid(),
            "status": one_of(STATUSES),
            "old_instance_type_id": or_null(integer()),
            "new_instance_type_id": or_null(integer()),
        }),
    );
    if minor >= 23 {
        one = plus(one, json!({"migration_type": one_of(&["evacuation", "live-migration", "migration", "resize"])}));
        one = perhaps(one, json!({"links": links()}));
    }
    let index = only("migrations", list(one));
    if minor >= 59 { perhaps(index, json!({"migrations_links": next()})) } else { index }
}

fn in_progress(minor: u16) -> Value {
    let mut one =
        plus(either(minor), json!({"server_uuid": uuid(), "status": one_of(&["queued", "preparing", "running", "post-migrating"])}));
    for of in ["memory", "disk"] {
        for part in ["total", "processed", "remaining"] {
            one = plus(one, json!({format!("{of}_{part}_bytes"): or_null(count())}));
        }
    }
    one
}
