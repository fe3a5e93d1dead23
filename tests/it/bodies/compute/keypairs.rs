//! `/os-keypairs`.

use serde_json::{Value, json};

use crate::bodies::Route;
use crate::bodies::parts::{account, always_null, integer, list, micros, next, nothing, object, one_of, only, perhaps, plus, text};

pub static ROUTES: &[Route] = &[
    // 2.2: `type`. 2.35: pages.
    ("GET", "/os-keypairs", &[1, 2, 35], index),
    // 2.2: `type`. 2.92: no pair is made here, so there is no private key.
    ("POST", "/os-keypairs", &[1, 2, 92], |minor| only("keypair", made(minor))),
    // 2.2: `type`.
    ("GET", "/os-keypairs/{}", &[1, 2], |minor| only("keypair", whole(minor))),
    ("DELETE", "/os-keypairs/{}", &[1], nothing),
];

fn brief(minor: u16) -> Value {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 255});
    let fingerprint = json!({"type": "string", "pattern": "^[0-9a-f]{2}(:[0-9a-f]{2})+$"});
    let brief = object(json!({"name": name, "public_key": text(), "fingerprint": fingerprint}));
    if minor >= 2 { plus(brief, json!({"type": one_of(&["ssh", "x509"])})) } else { brief }
}

fn index(minor: u16) -> Value {
    let index = only("keypairs", list(only("keypair", brief(minor))));
    if minor >= 35 { perhaps(index, json!({"keypairs_links": next()})) } else { index }
}

fn made(minor: u16) -> Value {
    let made = plus(brief(minor), json!({"user_id": account()}));
    if minor < 92 { perhaps(made, json!({"private_key": text()})) } else { made }
}

/// Describes a key pair, which nothing changes and whose record goes with it.
fn whole(minor: u16) -> Value {
    plus(
        brief(minor),
        json!({
            "user_id": account(),
            "id": integer(),
            "created_at": micros(),
            "updated_at": always_null(),
            "deleted": {"enum": [false]},
            "deleted_at": always_null(),
        }),
    )
}
