//! QoS specs of volume types.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::id_of;
use crate::stage::{Stage, play_default};

const SPECS: &str = "/volume/v3/qos-specs";

async fn make(stage: &Stage, specs: Value, status: u16) -> Value {
    stage.admin.post(SPECS, json!({"qos_specs": specs})).await.expect(status).body
}

async fn make_type(stage: &Stage, name: &str) -> Uuid {
    id_of(&stage.admin.post("/volume/v3/types", json!({"volume_type": {"name": name}})).await.expect(200).body["volume_type"])
}

/// Returns the specs that the type shows.
async fn of_type(stage: &Stage, id: Uuid) -> Value {
    stage.admin.get(&format!("/volume/v3/types/{id}")).await.expect(200).body["volume_type"]["qos_specs_id"].clone()
}

#[test]
fn specs_are_made_changed_and_deleted() {
    play_default(|stage| async move {
        let admin = &stage.admin;
        let made = make(&stage, json!({"name": "fast", "consumer": "both", "read_iops_sec": "2000"}), 200).await;
        let path = format!("{SPECS}/{}", id_of(&made["qos_specs"]));
        assert_eq!((&made["qos_specs"]["consumer"], &made["qos_specs"]["specs"]), (&json!("both"), &json!({"read_iops_sec": "2000"})));
        assert_eq!(make(&stage, json!({"name": "plain"}), 200).await["qos_specs"]["consumer"], "back-end");
        make(&stage, json!({"name": "fast"}), 409).await;
        for wrong in [
            json!({}),
            json!({"name": " "}),
            json!({"name": "n".repeat(256)}),
            json!({"name": "x", "consumer": "nobody"}),
            json!({"name": "x", "key": 1}),
            json!({"name": "x", "key": "v".repeat(256)}),
        ] {
            make(&stage, wrong, 400).await;
        }
        for wrong in ["", "it's", "tab\t", &"k".repeat(256)] {
            admin.put(&path, json!({"qos_specs": {wrong: "1"}})).await.expect(400);
        }
        let set = admin.put(&path, json!({"qos_specs": {"consumer": "front-end", "iops_bytes": "500"}})).await.expect(200).body;
        assert_eq!(set["qos_specs"], json!({"consumer": "front-end", "iops_bytes": "500"}));
        let listed = admin.get(&format!("{SPECS}?name=fast")).await.expect(200).body;
        assert_eq!(listed["qos_specs"][0]["specs"], json!({"iops_bytes": "500", "read_iops_sec": "2000"}));
        admin.put(&format!("{path}/delete_keys"), json!({"keys": ["iops_bytes", "missing"]})).await.expect(404);
        admin.put(&format!("{path}/delete_keys"), json!({"keys": ["iops_bytes"]})).await.expect(202);
        let shown = admin.get(&path).await.expect(200).body["qos_specs"].clone();
        assert_eq!((&shown["specs"], &shown["consumer"]), (&json!({"read_iops_sec": "2000"}), &json!("front-end")));
        stage.member.get(&path).await.expect(403);
        admin.delete(&path).await.expect(202);
        admin.delete(&path).await.expect(404);
        admin.get(&format!("{SPECS}/fast")).await.expect(404);
    });
}

#[test]
fn types_have_specs_and_keep_them_from_deletion() {
    play_default(|stage| async move {
        let admin = &stage.admin;
        let (gold, silver) = (make_type(&stage, "gold").await, make_type(&stage, "silver").await);
        let id = id_of(&make(&stage, json!({"name": "fast"}), 200).await["qos_specs"]);
        let other = id_of(&make(&stage, json!({"name": "slow"}), 200).await["qos_specs"]);
        admin.get(&format!("{SPECS}/{id}/associate")).await.expect(400);
        admin.get(&format!("{SPECS}/{id}/associate?vol_type_id={}", Uuid::nil())).await.expect(404);
        for of in [gold, silver] {
            admin.get(&format!("{SPECS}/{id}/associate?vol_type_id={of}")).await.expect(202);
            assert_eq!(of_type(&stage, of).await, json!(id));
        }
        let refused = admin.get(&format!("{SPECS}/{other}/associate?vol_type_id={gold}")).await.expect(400);
        assert!(refused.message().contains("already associated"), "{}", refused.text);
        let list = admin.get(&format!("{SPECS}/{id}/associations")).await.expect(200).body["qos_associations"].clone();
        assert_eq!((&list[0]["name"], &list[1]["id"]), (&json!("gold"), &json!(silver)));
        admin.get(&format!("{SPECS}/{id}/disassociate?vol_type_id={gold}")).await.expect(202);
        assert_eq!((of_type(&stage, gold).await, of_type(&stage, silver).await), (Value::Null, json!(id)));
        let in_use = admin.delete(&format!("{SPECS}/{id}")).await.expect(400);
        assert!(in_use.message().contains("in use"), "{}", in_use.text);
        admin.get(&format!("{SPECS}/{id}/disassociate_all")).await.expect(202);
        assert_eq!(of_type(&stage, silver).await, Value::Null);
        admin.get(&format!("{SPECS}/{id}/associate?vol_type_id={gold}")).await.expect(202);
        admin.delete(&format!("{SPECS}/{id}?force=perhaps")).await.expect(400);
        admin.delete(&format!("{SPECS}/{id}?force=True")).await.expect(202);
        assert_eq!(of_type(&stage, gold).await, Value::Null);
    });
}
