//! Whole affinity groups move: all members together, or none; and a move that cannot be finished is undone or can be repeated.

use cellshift::chaos::point::{Moment, StepFault};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{Answer, NewServer, User, id_of};
use crate::group_rules::{make_group, member};
use crate::held::Held;
use crate::service::{Service, run};
use crate::stage::{Stage, hosts, play, play_default, until};

const HOME: &str = "cell1-host1";
const THERE: &str = "cell1-host2";

async fn ask(stage: &Stage, group: Uuid, body: Value) -> Answer {
    stage.admin.post(&format!("/ops/v1/server-groups/{group}/moves"), body).await
}

/// Moves the group, waits for the end, and returns the record.
async fn moved(stage: &Stage, group: Uuid, body: Value) -> Value {
    ask(stage, group, body).await.expect(202);
    ended(stage, group).await
}

async fn latest(stage: &Stage, group: Uuid) -> Value {
    stage.admin.get(&format!("/ops/v1/server-groups/{group}/moves")).await.expect(200).body["moves"][0].clone()
}

async fn ended(stage: &Stage, group: Uuid) -> Value {
    stage.until("the group's move ends", async || latest(stage, group).await["open"] == false).await;
    latest(stage, group).await
}

/// Makes an affinity group with a running member and one that is off, both on cell1-host1.
async fn pair(stage: &Stage) -> (Uuid, [Uuid; 2]) {
    let group = make_group(&stage.admin, "affinity", None).await;
    let two = [member(stage, group, "one", HOME).await, member(stage, group, "two", HOME).await];
    stage.admin.act(two[1], json!({"os-stop": null})).await.expect(202);
    stage.at_rest(two[1], "SHUTOFF").await;
    (group, two)
}

async fn both_are_on(stage: &Stage, [one, two]: [Uuid; 2], host: &str) {
    stage.at_rest(one, "ACTIVE").await;
    stage.at_rest(two, "SHUTOFF").await;
    for server in [one, two] {
        stage.paid(server).await;
        assert_eq!(stage.holds(server).await, hosts(&[host]));
    }
    assert_eq!(stage.runs_on(one).await, hosts(&[host]));
}

#[test]
fn all_members_move_together_and_are_confirmed() {
    play_default(|stage| async move {
        let (group, two) = pair(&stage).await;
        let plan = ask(&stage, group, json!({"host": THERE, "dry_run": true})).await.expect(200).body["plan"].clone();
        let ways: Vec<&Value> = plan["members"].as_array().expect("members").iter().map(|member| &member["how"]).collect();
        assert_eq!((ways, &plan["target"]["host"]), (vec![&json!("live"), &json!("cold")], &json!(THERE)));
        both_are_on(&stage, two, HOME).await;
        let report = moved(&stage, group, json!({"host": THERE})).await;
        assert_eq!(report["state"], "done", "{report:#}");
        both_are_on(&stage, two, THERE).await;
        // Without a host, the best one is taken.
        let report = moved(&stage, group, json!({"cell": "cell2"})).await;
        assert_eq!(report["state"], "done", "{report:#}");
        let target = report["target"]["host"].as_str().expect("a host").to_owned();
        assert!(target.starts_with("cell2-"), "{target}");
        both_are_on(&stage, two, &target).await;
        let again = ask(&stage, group, json!({"host": target})).await.expect(409);
        assert!(again.message().contains("already"), "{}", again.text);
    });
}

async fn stop(stage: &Stage, group: Uuid) -> Answer {
    stage.admin.post(&format!("/ops/v1/server-groups/{group}/moves/stop"), json!({})).await
}

#[test]
fn a_stopped_move_brings_its_members_back() {
    play_default(|stage| async move {
        let (group, two) = pair(&stage).await;
        let none = stop(&stage, group).await.expect(409);
        assert!(none.message().contains("No move of server group"), "{}", none.text);
        // The step of a cold move, and of a live one while the cold one waits at the target.
        for (step, waits) in [("export_disks", None), ("copy_guest", Some(two[1]))] {
            let held = Held::at(&stage, step, Moment::BeforeEffect);
            ask(&stage, group, json!({"host": THERE})).await.expect(202);
            held.met().await;
            if let Some(server) = waits {
                stage.until("the cold one arrives", async || stage.admin.status(server).await == "VERIFY_RESIZE").await;
            }
            let stopped = stop(&stage, group).await.expect(202).body;
            assert_eq!(stopped["move"]["open"], true, "{stopped:#}");
            stop(&stage, group).await.expect(202);
            held.release();
            let report = ended(&stage, group).await;
            stage.disarm();
            assert_eq!(report["state"], "returned", "{step}: {report:#}");
            assert!(report["reason"].as_str().is_some_and(|why| why.contains("is stopped (request req-")), "{report:#}");
            both_are_on(&stage, two, HOME).await;
        }
        let report = moved(&stage, group, json!({"host": THERE})).await;
        assert_eq!(report["state"], "done", "a stop does not outlive its move: {report:#}");
        both_are_on(&stage, two, THERE).await;
    });
}

#[test]
fn when_one_member_cannot_go_all_are_where_they_were() {
    play_default(|stage| async move {
        let (group, two) = pair(&stage).await;
        stage.refuse("export_disks");
        let report = moved(&stage, group, json!({"host": THERE})).await;
        stage.disarm();
        assert_eq!(report["state"], "returned", "{report:#}");
        assert!(report["reason"].as_str().is_some_and(|why| why.contains(&two[1].to_string())), "{report:#}");
        both_are_on(&stage, two, HOME).await;
        let report = moved(&stage, group, json!({"host": THERE})).await;
        assert_eq!(report["state"], "done", "{report:#}");
        both_are_on(&stage, two, THERE).await;
    });
}

#[test]
fn a_group_whose_move_broke_off_is_moved_again() {
    play_default(|stage| async move {
        let (group, two) = pair(&stage).await;
        // The one that is off cannot leave, and the one that runs cannot come back.
        let first = std::sync::OnceLock::new();
        stage.arm(move |point| {
            let is_back = point.saga == "live_migrate" && *first.get_or_init(|| point.id) != point.id;
            let is_act = point.moment == Moment::BeforeEffect && point.side == "act";
            match is_act && (point.step == "export_disks" || (is_back && point.step == "check_at_target")) {
                true => StepFault::Refuse,
                false => StepFault::None,
            }
        });
        let report = moved(&stage, group, json!({"host": THERE})).await;
        stage.disarm();
        assert_eq!(report["state"], "incomplete", "{report:#}");
        let report = moved(&stage, group, json!({"host": HOME})).await;
        assert_eq!(report["state"], "done", "{report:#}");
        both_are_on(&stage, two, HOME).await;
    });
}

#[test]
fn a_group_without_room_for_all_does_not_begin() {
    play(
        |config| config.compute.memory_mb = 2048,
        |stage| async move {
            let group = make_group(&stage.admin, "affinity", None).await;
            let two = [member(&stage, group, "one", HOME).await, member(&stage, group, "two", HOME).await];
            stage.make_flavor("most", 1, 2048 - 700, 1).await;
            stage.create_by(&stage.admin, stage.server().named("other").flavor("most").on_host(THERE)).await;
            let refused = ask(&stage, group, json!({"host": THERE})).await.expect(409);
            assert!(refused.message().contains("MEMORY_MB: 1024 wanted for all members"), "{}", refused.text);
            for server in two {
                assert_eq!(stage.holds(server).await, hosts(&[HOME]));
            }
            assert!(latest(&stage, group).await.is_null());
        },
    );
}

#[test]
fn a_group_that_cannot_move_is_refused_with_the_reason() {
    play_default(|stage| async move {
        let apart = make_group(&stage.admin, "anti-affinity", None).await;
        assert!(ask(&stage, apart, json!({})).await.expect(400).message().contains("anti-affinity"));
        ask(&stage, Uuid::from_u128(1), json!({})).await.expect(404);
        let (group, two) = pair(&stage).await;
        for (body, status, words) in [
            (json!({"host": "nowhere"}), 400, "nowhere"),
            (json!({"cell": "cell9"}), 400, "cell9"),
            (json!({"host": HOME}), 409, "already"),
        ] {
            let answer = ask(&stage, group, body).await.expect(status);
            assert!(answer.message().contains(words), "{}", answer.text);
        }
        stage.admin.migrate(two[1], Some(THERE)).await.expect(202);
        stage.at_rest(two[1], "SHUTOFF").await;
        assert_eq!(stage.migration_status("cell1", two[1]).await, "conflict", "one alone does not leave its group");
        both_are_on(&stage, two, HOME).await;
    });
}

/// Waits until the server, which may be of another process, has this status and no task.
async fn is(user: &User, server: Uuid, status: &str) {
    let rests = async || {
        let shown = user.show(server).await;
        shown["status"] == status && shown["OS-EXT-STS:task_state"].is_null()
    };
    until(&format!("{server} is {status}"), rests).await;
}

#[test]
fn a_group_whose_service_is_killed_arrives_all_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    actix_rt::System::new().block_on(async {
        let service = Service::start(dir.path(), &[]);
        let admin = service.user(dir.path(), "cellshift-admin").await;
        let images = admin.get("/image/v2/images?name=tiny").await.expect(200).body;
        let image = id_of(&images["images"][0]);
        let group = make_group(&admin, "affinity", None).await;
        let mut members = Vec::new();
        for name in ["one", "two"] {
            let new = NewServer::of_image(image).named(name).flavor("m1.tiny").on_host(HOME).in_group(group);
            members.push(id_of(&new.ask(&admin).await.expect(202).body["server"]));
            is(&admin, members[members.len() - 1], "ACTIVE").await;
        }
        let path = format!("/ops/v1/server-groups/{group}/moves");
        // A create shows its server a moment before it lets go of it.
        until("the move is accepted", async || admin.post(&path, json!({"host": THERE})).await.status == 202).await;
        let first = async |admin: &User| admin.get(&path).await.expect(200).body["moves"][0].clone();
        until("the move begins", async || !first(&admin).await["members"][0]["operation"].is_null()).await;
        // Dropping the service kills it.
        drop(service);
        let service = Service::start(dir.path(), &[]);
        let admin = service.user(dir.path(), "cellshift-admin").await;
        until("the move ends", async || first(&admin).await["open"] != true).await;
        let report = first(&admin).await;
        let end = if report["state"] == "done" { THERE } else { HOME };
        assert!(report["state"] == "done" || report["state"] == "returned", "{report:#}");
        for server in members {
            is(&admin, server, "ACTIVE").await;
            assert_eq!(admin.show(server).await["OS-EXT-SRV-ATTR:host"], end, "{report:#}");
        }
        let audit = admin.get("/ops/v1/audit").await.expect(200).body;
        assert_eq!(audit["clean"], true, "{audit:#}");
        let stop = run(&["move-group", &group.to_string(), "--stop", "--data-dir", dir.path().to_str().expect("a path")]);
        assert!(stop.code != Some(0) && stop.stderr.contains("No move of server group"), "{}", stop.stderr);
        service.stop();
    });
}
