//! The reason of a failed operation: the server's owner reads Nova's message, administrators read which filter or host refused.

use serde_json::{Value, json};

use crate::client::id_of;
use crate::stage::{Stage, play_default};

const SENTENCE: &str = "No valid host was found. There are not enough hosts available.";

/// Returns the name of each host.
fn hosts(stage: &Stage) -> Vec<String> {
    let cells = stage.running.tree.cells.iter();
    cells.flat_map(|cell| cell.hosts.hosts()).map(|(host, _)| host).collect()
}

#[track_caller]
fn names_no_host(stage: &Stage, answer: &Value) {
    let text = answer.to_string();
    for word in hosts(stage).iter().map(String::as_str).chain(["Filter", "cell1", "cell2"]) {
        assert!(!text.contains(word), "an owner reads {word}: {answer:#}");
    }
}

#[test]
fn a_create_that_finds_no_host_says_so_as_nova_does() {
    play_default(|stage| async move {
        stage.make_flavor("huge", 1, 1024, 5000).await;
        let server = id_of(&stage.server().flavor("huge").ask(&stage.member).await.expect(202).body["server"]);
        stage.at_rest(server, "ERROR").await;
        let fault = stage.member.show(server).await["fault"].clone();
        assert_eq!((&fault["message"], &fault["code"]), (&json!(SENTENCE), &json!(500)), "{fault}");
        assert_eq!(fault.get("details"), None, "{fault}");
        let fault = stage.admin.show(server).await["fault"].clone();
        assert_eq!(fault["message"], SENTENCE);
        assert!(fault["details"].as_str().expect("details").contains("No host has room for DISK_GB 5000"), "{fault}");
    });
}

#[test]
fn what_refused_a_move_is_for_administrators() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        for host in hosts(&stage) {
            let service =
                stage.admin.get(&format!("/os-services?binary=nova-compute&host={host}")).await.expect(200).body["services"][0].clone();
            let path = format!("/os-services/{}", service["id"].as_str().expect("an id"));
            stage.admin.put(&path, json!({"status": "disabled", "disabled_reason": "being looked at"})).await.expect(200);
        }
        stage.member.resize(server, "m1.small").await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        let action = stage.member.speaking("2.84").action(server, "resize").await;
        assert_eq!(action["message"], "Error");
        names_no_host(&stage, &action);
        let action = stage.admin.speaking("2.84").action(server, "resize").await;
        let event =
            action["events"].as_array().expect("events").iter().find(|event| event["result"] == "Error").expect("what failed").clone();
        assert_eq!(event["details"], SENTENCE, "{event:#}");
        let whole = event["traceback"].as_str().expect("the whole reason");
        assert!(whole.starts_with(SENTENCE) && whole.contains("ComputeFilter removed") && whole.contains("being looked at"), "{whole}");
        let listed = stage.admin.get(&format!("/ops/v1/migrations?server={server}")).await.expect(200).body;
        let id = listed["migrations"][0]["uuid"].as_str().expect("an id").to_owned();
        let journal = stage.admin.get(&format!("/ops/v1/migrations/{id}")).await.expect(200).text;
        assert!(journal.contains("ComputeFilter removed"), "operators read it in the journal, too: {journal}");
        assert!(!whole.contains('⟪') && !journal.contains('⟪'), "no marks: {whole} {journal}");
    });
}
