//! The rule of a server group holds however its members come to a host at once: exactly as many arrive as have room, and the others stay as
//! they were, with a readable reason.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, User, id_of};
use crate::live_migration::live;
use crate::stage::{Stage, hosts, play_default};

const HOME: &str = "cell1-host1";

/// Makes a group, and returns its id.
pub async fn make_group(user: &User, policy: &str, most: Option<u32>) -> Uuid {
    let mut group = json!({"name": policy, "policy": policy});
    if let Some(most) = most {
        group["rules"] = json!({"max_server_per_host": most});
    }
    id_of(&user.post("/os-server-groups", json!({"server_group": group})).await.expect(200).body["server_group"])
}

/// Makes a member of a group on a host.
pub async fn member(stage: &Stage, group: Uuid, name: &str, host: &str) -> Uuid {
    stage.create_by(&stage.admin, stage.server().named(name).flavor("m1.tiny").on_host(host).in_group(group)).await
}

/// A way to one slot: its name, the host with the slot, the request, the status of who arrives and of who stays, and the names of the
/// action and of the refused migration's status.
struct Way {
    name: &'static str,
    slot: &'static str,
    request: fn(&str) -> Value,
    version: &'static str,
    arrives: &'static str,
    stays: &'static str,
    action: &'static str,
    migration: Option<&'static str>,
}

const WAYS: &[Way] = &[
    Way {
        name: "cold",
        slot: "cell1-host2",
        request: |host| json!({"migrate": {"host": host}}),
        version: "2.90",
        arrives: "VERIFY_RESIZE",
        stays: "ACTIVE",
        action: "migrate",
        migration: Some("conflict"),
    },
    Way {
        name: "cross-cell",
        slot: "cell2-host1",
        request: |host| json!({"migrate": {"host": host}}),
        version: "2.90",
        arrives: "VERIFY_RESIZE",
        stays: "ACTIVE",
        action: "migrate",
        migration: Some("conflict"),
    },
    Way {
        name: "live",
        slot: "cell1-host2",
        request: |host| live(Some(host)),
        version: "2.90",
        arrives: "ACTIVE",
        stays: "ACTIVE",
        action: "live-migration",
        migration: Some("conflict"),
    },
    Way {
        name: "live, not checked",
        slot: "cell1-host2",
        request: |host| json!({"os-migrateLive": {"host": host, "block_migration": "auto", "force": true}}),
        version: "2.60",
        arrives: "ACTIVE",
        stays: "ACTIVE",
        action: "FORCED_MIGRATE",
        migration: Some("error"),
    },
    Way {
        name: "evacuate",
        slot: "cell1-host2",
        request: |_| json!({"evacuate": {}}),
        version: "2.90",
        arrives: "ACTIVE",
        stays: "ACTIVE",
        action: "evacuate",
        migration: None,
    },
    Way {
        name: "evacuate, not checked",
        slot: "cell1-host2",
        request: |host| json!({"evacuate": {"host": host, "force": true}}),
        version: "2.60",
        arrives: "ACTIVE",
        stays: "ACTIVE",
        action: "FORCED_REBUILD",
        migration: None,
    },
    Way {
        name: "unshelve",
        slot: "cell1-host2",
        request: |host| json!({"unshelve": {"host": host}}),
        version: "2.91",
        arrives: "ACTIVE",
        stays: "SHELVED_OFFLOADED",
        action: "unshelve",
        migration: None,
    },
];

/// Has an administrator's server leave its host.
pub async fn shelved(stage: &Stage, server: Uuid) {
    stage.admin.act(server, json!({"shelve": null})).await.expect(202);
    stage.at_rest(server, "SHELVED_OFFLOADED").await;
}

/// Has two members of a group ask for one slot at once.
async fn both_ask(stage: &Stage, way: &Way, two: [Uuid; 2]) {
    let away = way.name.starts_with("evacuate");
    if way.name == "unshelve" {
        for server in two {
            shelved(stage, server).await;
        }
    }
    if away {
        stage.power(HOME, false).await;
    }
    let user = stage.admin.speaking(way.version);
    let ask = |server: Uuid| user.act(server, (way.request)(way.slot));
    let (one, other): (Answer, Answer) = futures::join!(ask(two[0]), ask(two[1]));
    for answer in [one, other] {
        assert!([200, 202].contains(&answer.status), "{}: {}", way.name, answer.text);
    }
    futures::join!(stage.ended(two[0]), stage.ended(two[1]));
    if away {
        stage.power(HOME, true).await;
    }
    for server in two {
        stage.paid(server).await;
    }
}

async fn one_arrives(stage: &Stage, way: &Way) {
    let group = make_group(&stage.admin, "anti-affinity", Some(2)).await;
    let there = member(stage, group, "there", way.slot).await;
    let two = [member(stage, group, "one", HOME).await, member(stage, group, "two", HOME).await];
    both_ask(stage, way, two).await;
    let mut arrived = 0;
    for server in two {
        let held = stage.holds(server).await;
        let status = stage.admin.status(server).await;
        if held == hosts(&[way.slot]) {
            arrived += 1;
            assert_eq!(status, way.arrives, "{}", way.name);
            continue;
        }
        assert_eq!(status, way.stays, "{}", way.name);
        let expected = if way.stays == "ACTIVE" { hosts(&[HOME]) } else { hosts(&[]) };
        assert_eq!(held, expected, "{}", way.name);
        stage.until("its guest is as before", async || stage.runs_on(server).await == expected).await;
        let action = stage.admin.action(server, way.action).await;
        assert_eq!(action["message"], "Error", "{}: {action:#}", way.name);
        let why = action["events"].to_string();
        assert!(why.contains("No valid host was found."), "{}: {action:#}", way.name);
        if let Some(status) = way.migration {
            assert_eq!(stage.migration_status("cell1", server).await, status, "{}", way.name);
        }
    }
    assert_eq!(arrived, 1, "{}", way.name);
    for server in two.into_iter().chain([there]) {
        stage.admin.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
    }
}

#[test]
fn of_two_members_that_want_one_slot_one_gets_it() {
    play_default(|stage| async move {
        for way in WAYS {
            one_arrives(&stage, way).await;
        }
    });
}

#[test]
fn of_creates_at_once_only_as_many_as_may_share_the_host() {
    play_default(|stage| async move {
        let group = make_group(&stage.admin, "anti-affinity", Some(2)).await;
        let new = |n: u8| stage.server().named(&format!("s{n}")).flavor("m1.tiny").on_host(HOME).in_group(group);
        let requests = (0..4).map(|n| new(n).ask(&stage.admin));
        let mut statuses = Vec::new();
        for answer in futures::future::join_all(requests).await {
            let server = id_of(&answer.expect(202).body["server"]);
            stage.ended(server).await;
            statuses.push(stage.admin.status(server).await);
        }
        statuses.sort();
        assert_eq!(statuses, ["ACTIVE", "ACTIVE", "ERROR", "ERROR"]);
    });
}

#[test]
fn a_member_that_may_come_back_keeps_its_place() {
    play_default(|stage| async move {
        let group = make_group(&stage.admin, "anti-affinity", None).await;
        let (one, two) = (member(&stage, group, "one", HOME).await, member(&stage, group, "two", "cell1-host2").await);
        stage.admin.migrate(one, Some("cell2-host1")).await.expect(202);
        stage.at_rest(one, "VERIFY_RESIZE").await;
        stage.admin.act(two, live(Some(HOME))).await.expect(202);
        stage.at_rest(two, "ACTIVE").await;
        assert_eq!(stage.holds(two).await, hosts(&["cell1-host2"]), "a revert of the other would meet it");
        stage.admin.revert(one).await.expect(202);
        stage.at_rest(one, "ACTIVE").await;
        stage.admin.migrate(one, Some("cell2-host1")).await.expect(202);
        stage.at_rest(one, "VERIFY_RESIZE").await;
        stage.admin.confirm(one).await.expect(204);
        stage.at_rest(one, "ACTIVE").await;
        stage.admin.act(two, live(Some(HOME))).await.expect(202);
        stage.at_rest(two, "ACTIVE").await;
        assert_eq!(stage.holds(two).await, hosts(&[HOME]));
    });
}

#[test]
fn a_lone_member_of_an_affinity_group_moves_freely() {
    play_default(|stage| async move {
        let group = make_group(&stage.admin, "affinity", None).await;
        let one = member(&stage, group, "one", HOME).await;
        stage.admin.act(one, live(None)).await.expect(202);
        stage.at_rest(one, "ACTIVE").await;
        assert_eq!(stage.holds(one).await, hosts(&["cell1-host2"]));
        stage.admin.migrate(one, Some("cell2-host1")).await.expect(202);
        stage.at_rest(one, "VERIFY_RESIZE").await;
        // A member that joined now could be left alone by a revert or by a confirm.
        let new = stage.server().named("two").flavor("m1.tiny").in_group(group);
        let two = id_of(&new.clone().ask(&stage.admin).await.expect(202).body["server"]);
        stage.ended(two).await;
        assert_eq!(stage.admin.status(two).await, "ERROR");
        stage.admin.confirm(one).await.expect(204);
        stage.at_rest(one, "ACTIVE").await;
        let three = stage.create_by(&stage.admin, new.named("three")).await;
        assert_eq!(stage.holds(three).await, hosts(&["cell2-host1"]));
        stage.admin.migrate(one, None).await.expect(202);
        stage.at_rest(one, "ACTIVE").await;
        assert_eq!(stage.holds(one).await, hosts(&["cell2-host1"]), "its group stays together");
    });
}

#[test]
fn soft_policies_forbid_no_move() {
    play_default(|stage| async move {
        for policy in ["soft-affinity", "soft-anti-affinity"] {
            let group = make_group(&stage.admin, policy, None).await;
            let (one, two) = (member(&stage, group, "one", HOME).await, member(&stage, group, "two", HOME).await);
            stage.admin.act(one, live(Some("cell1-host2"))).await.expect(202);
            stage.at_rest(one, "ACTIVE").await;
            assert_eq!(stage.holds(one).await, hosts(&["cell1-host2"]), "{policy}");
            stage.admin.act(one, live(Some(HOME))).await.expect(202);
            stage.at_rest(one, "ACTIVE").await;
            assert_eq!(stage.holds(one).await, stage.holds(two).await, "{policy}");
        }
    });
}
