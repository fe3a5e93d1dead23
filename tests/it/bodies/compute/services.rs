//! `/os-services`.

use serde_json::{Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{boolean, integer, list, micros, nothing, object, one_of, only, or_null, perhaps, plus, text, uuid};

pub static ROUTES: &[Route] = &[
    // 2.11: `forced_down`. 2.53: the id is a UUID. 2.69: services of a cell that is down.
    ("GET", "/os-services", &[1, 11, 53, 69], |minor| only("services", list(listed(minor)))),
    // 2.11: the action `force-down`. 2.53: the whole service.
    ("PUT", "/os-services/{}", &[1, 11, 53], |minor| only("service", if minor >= 53 { whole(minor) } else { acted(minor) })),
    ("DELETE", "/os-services/{}", &[1], nothing),
];

/// Describes a service, whose binary is Nova's.
fn brief() -> Value {
    object(json!({"host": text(), "binary": one_of(&["nova-compute", "nova-conductor", "nova-scheduler"])}))
}

fn whole(minor: u16) -> Value {
    let service = plus(
        brief(),
        json!({
            "id": if minor >= 53 { uuid() } else { integer() },
            "zone": text(),
            "status": one_of(&["enabled", "disabled"]),
            "state": one_of(&["up", "down"]),
            "updated_at": or_null(micros()),
            "disabled_reason": or_null(text()),
        }),
    );
    if minor >= 11 { plus(service, json!({"forced_down": boolean()})) } else { service }
}

fn listed(minor: u16) -> Value {
    match minor {
        69.. => json!({"anyOf": [whole(minor), plus(brief(), json!({"status": one_of(&["UNKNOWN"])}))]}),
        _ => whole(minor),
    }
}

/// Describes the answer to an action on a service, which repeats what was asked for.
fn acted(minor: u16) -> Value {
    let switched = plus(brief(), json!({"status": one_of(&["enabled", "disabled"])}));
    let switched = perhaps(switched, json!({"disabled_reason": text()}));
    match minor {
        11.. => json!({"anyOf": [switched, plus(brief(), json!({"forced_down": boolean()}))]}),
        _ => switched,
    }
}
