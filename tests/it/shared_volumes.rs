//! A volume that several servers share: its type says so, and each server has an attachment of its own.

use serde_json::{Value, json};

use crate::stage::play_default;

#[test]
fn two_servers_attach_one_volume_of_a_shared_type() {
    play_default(|stage| async move {
        let member = stage.member.speaking("2.60");
        let refused = stage.member.post("/volume/v3/volumes", json!({"volume": {"size": 1, "multiattach": true}})).await.expect(400);
        assert!(refused.message().contains("local-multiattach"), "{}", refused.text);
        let types = stage.member.get("/volume/v3/types").await.expect(200).body;
        let shared = types["volume_types"].as_array().expect("types").iter().find(|one| one["extra_specs"]["multiattach"] == "<is> True");
        let shared = shared.expect("a type for several servers")["id"].clone();
        let volume = stage.member.make_volume_with(json!({"size": 1, "volume_type": shared})).await;
        let (one, two) = (stage.create(stage.server()).await, stage.create(stage.server().named("two").flavor("gen2.small")).await);
        let old = stage.member.speaking("2.59").attach(one, volume).await.expect(400);
        assert!(old.message().contains("2.60"), "{}", old.text);
        for server in [one, two] {
            member.attach(server, volume).await.expect(200);
            stage.at_rest(server, "ACTIVE").await;
        }
        let shown = stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body["volume"].clone();
        assert_eq!((&shown["multiattach"], &shown["status"]), (&json!(true), &json!("in-use")));
        let attachments = shown["attachments"].as_array().expect("attachments");
        let mut holders: Vec<&Value> = attachments.iter().map(|one| &one["server_id"]).collect();
        holders.sort_by_key(|id| id.to_string());
        let mut servers = [json!(one), json!(two)];
        servers.sort_by_key(Value::to_string);
        assert_eq!(holders, servers.iter().collect::<Vec<_>>());
        member.detach(one, volume).await.expect(202);
        stage.at_rest(one, "ACTIVE").await;
        stage
            .until("one attachment is left", || async {
                stage.attachments(two).await.contains_key(&volume) && !stage.attachments(one).await.contains_key(&volume)
            })
            .await;
        let shown = stage.member.get(&format!("/volume/v3/volumes/{volume}")).await.expect(200).body["volume"].clone();
        assert_eq!(shown["status"], "in-use");
    });
}
