//! Quotas while a cell is down: who may create servers (DOWN-CELLS A-15), requests at the same time, and the scheduler's knowledge of
//! groups.

use std::sync::Arc;

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::config::{Config, Seconds};
use cellshift::db::Conn;
use serde_json::json;
use uuid::Uuid;

use crate::client::{Answer, NewServer, User, id_of};
use crate::stage::{Stage, play};

const PUBLIC_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti user@example.com";
const OPENED: &str = "\"os_compute_api:servers:create:cell_down\": \"rule:project_member_or_admin\"\n";

/// The way in which a project's servers are counted.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Counted {
    /// Each server once, by the flavor in its request spec.
    ByFlavor,
    /// By placement's allocations.
    FromPlacement,
    /// In each cell: an older release wrote the mappings, which do not say whether a delete was requested.
    InCells,
}

const WITHOUT_CELLS: [Counted; 2] = [Counted::ByFlavor, Counted::FromPlacement];

fn counting(config: &mut Config, counted: Counted) {
    config.cells.probe_interval = Seconds::millis(20);
    config.quota.count_usage_from_placement = counted == Counted::FromPlacement;
}

/// Changes the mappings of living servers to an older release's form.
async fn age_mappings(stage: &Stage) {
    let age = |conn: &mut Conn| {
        let sql = "UPDATE instance_mappings SET queued_for_delete = NULL WHERE queued_for_delete = false";
        Ok(diesel::connection::SimpleConnection::batch_execute(conn, sql)?)
    };
    stage.world().api.db().write(age).await.expect("older mappings");
}

async fn back(stage: &Stage, cell: &str) {
    stage.cell(cell).db().set_outage(Outage::None);
    let health = &stage.running.tree.cell(cell).expect("a cell").health;
    stage.until("the cell answers again", || async { health.is_up() }).await;
}

/// Returns the request for a server that belongs in cell2.
fn new_one(stage: &Stage) -> NewServer {
    stage.server().flavor("gen2.small")
}

async fn project_id(stage: &Stage, name: &str) -> String {
    stage.running.cloud.services.identity.ensure_project(name).await.expect("a project").id
}

async fn set_quota(stage: &Stage, project: &str, limits: serde_json::Value) {
    let path = format!("/os-quota-sets/{}", project_id(stage, project).await);
    stage.admin.put(&path, json!({"quota_set": limits})).await.expect(200);
}

async fn in_use(user: &User) -> (i64, Answer) {
    let answer = user.get("/compute/v2.1/limits").await.expect(200);
    (answer.body["limits"]["absolute"]["totalInstancesUsed"].as_i64().expect("a number"), answer)
}

/// Creates servers while cell1 is down, as members and administrators of projects with a live server there, with a deleted one and with
/// none. All are accepted, except members of the first project while servers are counted in cells.
fn matrix(counted: Counted, opened: bool) {
    play(
        move |config| {
            counting(config, counted);
            if opened {
                std::fs::write(config.policy_file(), OPENED).expect("a policy");
            }
        },
        move |stage| async move {
            let mut callers = Vec::new();
            for project in ["live", "gone", "none"] {
                for role in ["member", "admin"] {
                    callers.push((project, role, stage.user(&format!("{project}-{role}"), project, role).await));
                }
            }
            let live = stage.create_by(&callers[0].2, stage.server()).await;
            let gone = stage.create_by(&callers[2].2, stage.server()).await;
            callers[2].2.delete(&format!("/servers/{gone}")).await.expect(204);
            stage.gone(gone).await;
            let in_cells = counted == Counted::InCells;
            if in_cells {
                age_mappings(&stage).await;
            }
            stage.cell("cell1").db().set_outage(Outage::Refuses);
            let mut made = Vec::new();
            for (project, role, user) in &callers {
                let case = format!("{project} {role}, counted: {counted:?}, opened: {opened}");
                let (used, usage) = in_use(user).await;
                let refused = in_cells && !opened && *project == "live" && *role == "member";
                let answer = new_one(&stage).ask(user).await;
                if refused {
                    assert_eq!(answer.status, 403, "{case}: {}", answer.text);
                    assert!(answer.message().contains("cell1"), "it says why: {}", answer.message());
                } else {
                    assert_eq!(answer.status, 202, "{case}: {}", answer.text);
                    made.push(id_of(&answer.body["server"]));
                }
                // An incomplete figure is marked as such.
                let missing = usage.headers.get("X-Cellshift-Incomplete").map(|cells| cells.to_str().expect("names"));
                let lacks = in_cells && *project == "live";
                assert_eq!(missing, lacks.then_some("cell1"), "{case}");
                let before =
                    i64::from(*project == "live" && !lacks) + i64::from(*role == "admin" && !refused_before(project, counted, opened));
                assert_eq!(used, before, "{case}");
            }
            for server in made {
                stage.ended(server).await;
            }
            back(&stage, "cell1").await;
            stage.at_rest(live, "ACTIVE").await;
        },
    );
}

/// The member, who asks before the administrator, was refused.
fn refused_before(project: &str, counted: Counted, opened: bool) -> bool {
    counted == Counted::InCells && !opened && project == "live"
}

#[test]
fn counted_without_cells_creates_go_on_while_a_cell_is_down() {
    for counted in WITHOUT_CELLS {
        matrix(counted, false);
    }
}

#[test]
fn creates_with_a_cell_down_need_a_rule() {
    matrix(Counted::InCells, false);
}

#[test]
fn the_rule_may_be_opened() {
    for counted in [Counted::InCells, Counted::ByFlavor, Counted::FromPlacement] {
        matrix(counted, true);
    }
}

#[test]
fn a_quota_that_is_used_up_stays_so_while_a_cell_is_down() {
    play(
        |config| counting(config, Counted::ByFlavor),
        |stage| async move {
            stage.create(stage.server()).await;
            let resized = stage.create(new_one(&stage)).await;
            set_quota(&stage, "demo", json!({"instances": 2, "cores": 3})).await;
            for cell in ["cell0", "cell1"] {
                stage.cell(cell).db().set_outage(Outage::Refuses);
            }
            let refused = new_one(&stage).ask(&stage.member).await.expect(403);
            assert_eq!(refused.message(), "Quota exceeded for instances: Requested 1, but already used 2 of 2 instances");
            // The room for a server's growth is counted in the same way.
            stage.make_flavor("gen2.wide", 3, 64, 1).await;
            let refused = stage.member.resize(resized, "gen2.wide").await.expect(403);
            assert!(refused.message().starts_with("Quota exceeded for cores: Requested 2, but already used 2 of 3"), "{}", refused.text);
            for cell in ["cell0", "cell1"] {
                back(&stage, cell).await;
            }
        },
    );
}

#[test]
fn counted_in_cells_no_server_grows_unseen() {
    play(
        |config| counting(config, Counted::InCells),
        |stage| async move {
            let server = stage.create(new_one(&stage)).await;
            stage.create(stage.server()).await;
            age_mappings(&stage).await;
            stage.make_flavor("gen2.wide", 2, 64, 1).await;
            stage.cell("cell1").db().set_outage(Outage::Refuses);
            let refused = stage.member.resize(server, "gen2.wide").await.expect(403);
            assert!(refused.message().contains("servers in cell1"), "{}", refused.text);
            back(&stage, "cell1").await;
        },
    );
}

/// Returns instances, cores and MiB in use, as the project's limits and its quota's details show them.
async fn used(stage: &Stage) -> [i64; 3] {
    let limits = stage.member.get("/compute/v2.1/limits").await.expect(200).body["limits"]["absolute"].clone();
    let used = ["totalInstancesUsed", "totalCoresUsed", "totalRAMUsed"].map(|key| limits[key].as_i64().expect("a number"));
    let path = format!("/os-quota-sets/{}/detail", project_id(stage, "demo").await);
    let detail = stage.member.get(&path).await.expect(200).body["quota_set"].clone();
    assert_eq!(["instances", "cores", "ram"].map(|key| detail[key]["in_use"].as_i64().expect("a number")), used);
    used
}

#[test]
fn servers_in_verify_resize_and_in_error_count_as_in_nova() {
    // By flavor each server counts once with its present flavor. Placement holds both sides of a move, and nothing for a server without a
    // host.
    for (counted, waiting, failed) in
        [(Counted::ByFlavor, [1, 3, 96], [2, 1003, 160]), (Counted::FromPlacement, [1, 4, 1120], [2, 4, 1120])]
    {
        play(
            move |config| counting(config, counted),
            move |stage| async move {
                for (name, vcpus, memory_mb) in [("gen2.wide", 3, 96), ("gen2.huge", 1000, 64)] {
                    stage.make_flavor(name, vcpus, memory_mb, 1).await;
                }
                set_quota(&stage, "demo", json!({"cores": -1})).await;
                let server = stage.create(new_one(&stage)).await;
                assert_eq!(used(&stage).await, [1, 1, 1024], "{counted:?}");
                stage.member.resize(server, "gen2.wide").await.expect(202);
                stage.at_rest(server, "VERIFY_RESIZE").await;
                assert_eq!(used(&stage).await, waiting, "{counted:?}");
                let huge = id_of(&stage.server().flavor("gen2.huge").ask(&stage.member).await.expect(202).body["server"]);
                stage.at_rest(huge, "ERROR").await;
                for cell in ["cell0", "cell1", "cell2"] {
                    stage.cell(cell).db().set_outage(Outage::Refuses);
                }
                assert_eq!(used(&stage).await, failed, "{counted:?}, with every cell down");
                for cell in ["cell0", "cell1", "cell2"] {
                    back(&stage, cell).await;
                }
                stage.member.delete(&format!("/servers/{huge}")).await.expect(204);
                stage.gone(huge).await;
                stage.revert(server).await;
                assert_eq!(used(&stage).await, [1, 1, 1024], "{counted:?}");
            },
        );
    }
}

#[test]
fn a_smaller_server_grows_again_only_where_there_is_room() {
    play(
        |config| counting(config, Counted::ByFlavor),
        |stage| async move {
            stage.make_flavor("gen2.wide", 3, 64, 1).await;
            let server = stage.create(stage.server().flavor("gen2.wide")).await;
            stage.member.resize(server, "m1.tiny").await.expect(202);
            stage.at_rest(server, "VERIFY_RESIZE").await;
            set_quota(&stage, "demo", json!({"cores": 2})).await;
            let refused = stage.member.revert(server).await.expect(403);
            assert_eq!(refused.message(), "Quota exceeded for cores: Requested 2, but already used 1 of 2 cores");
            assert_eq!(stage.member.status(server).await, "VERIFY_RESIZE");
            set_quota(&stage, "demo", json!({"cores": 3})).await;
            stage.revert(server).await;
        },
    );
}

/// Returns how many of eight concurrent requests find room, and the refusals of the others.
async fn rush(stage: &Arc<Stage>) -> (Vec<Uuid>, Vec<Answer>) {
    let requests = (0..8).map(|n| stage.server().named(&format!("rush {n}")).ask(&stage.member));
    let answers = futures::future::join_all(requests).await;
    let (accepted, refused): (Vec<Answer>, Vec<Answer>) = answers.into_iter().partition(|answer| answer.status == 202);
    (accepted.iter().map(|answer| id_of(&answer.body["server"])).collect(), refused)
}

#[test]
fn concurrent_creates_stay_within_the_quota() {
    for (counted, limits) in [
        (Counted::ByFlavor, json!({"instances": 3})),
        (Counted::ByFlavor, json!({"cores": 3})),
        (Counted::FromPlacement, json!({"instances": 3})),
        (Counted::FromPlacement, json!({"cores": 3})),
    ] {
        play(
            move |config| {
                counting(config, counted);
                config.http.workers = 4;
            },
            move |stage| async move {
                set_quota(&stage, "demo", limits.clone()).await;
                let (made, refused) = rush(&stage).await;
                assert_eq!(made.len(), 3, "{limits}");
                for answer in refused {
                    assert!(answer.status == 403 && answer.message().starts_with("Quota exceeded for"), "{}", answer.text);
                }
                for server in made {
                    stage.at_rest(server, "ACTIVE").await;
                }
                let listed = stage.member.get("/servers").await.expect(200).body;
                assert_eq!(listed["servers"].as_array().map(Vec::len), Some(3), "nothing is left of those that were refused");
            },
        );
    }
}

#[test]
fn a_groups_members_are_known_while_their_cell_is_down() {
    play(
        |config| counting(config, Counted::ByFlavor),
        |stage| async move {
            let group = |policy: &'static str| {
                let stage = stage.clone();
                async move {
                    let body = json!({"server_group": {"name": policy, "policy": policy}});
                    id_of(&stage.member.post("/os-server-groups", body).await.expect(200).body["server_group"])
                }
            };
            let (together, apart) = (group("affinity").await, group("anti-affinity").await);
            let first = stage.create(stage.server().in_group(together)).await;
            stage.create(stage.server().in_group(apart)).await;
            stage.cell("cell1").db().set_outage(Outage::Refuses);
            // The first server's host cannot be chosen now, and no other host is suitable.
            let second = id_of(&stage.server().flavor("m1.tiny").in_group(together).ask(&stage.member).await.expect(202).body["server"]);
            let shown = stage.at_rest(second, "ERROR").await;
            assert!(shown["fault"]["message"].as_str().is_some_and(|why| why.starts_with("No valid host")), "{shown:#}");
            let third = stage.create(stage.server().flavor("m1.tiny").in_group(apart)).await;
            assert!(stage.runs_on(third).await.iter().all(|host| host.starts_with("cell2")));
            back(&stage, "cell1").await;
            let fourth = stage.create(stage.server().flavor("m1.tiny").in_group(together)).await;
            assert_eq!(stage.runs_on(fourth).await, stage.runs_on(first).await);
        },
    );
}

#[test]
fn a_groups_deleted_members_leave_room() {
    play(
        |config| counting(config, Counted::ByFlavor),
        |stage| async move {
            set_quota(&stage, "demo", json!({"server_group_members": 1})).await;
            let body = json!({"server_group": {"name": "g", "policy": "soft-anti-affinity"}});
            let group = id_of(&stage.member.post("/os-server-groups", body).await.expect(200).body["server_group"]);
            let first = stage.create(stage.server().in_group(group)).await;
            let refused = stage.server().in_group(group).ask(&stage.member).await.expect(403);
            assert_eq!(refused.message(), "Quota exceeded, too many servers in group");
            stage.member.delete(&format!("/servers/{first}")).await.expect(204);
            stage.gone(first).await;
            stage.create(stage.server().in_group(group)).await;
        },
    );
}

#[test]
fn concurrent_key_pairs_and_groups_stay_within_the_quota() {
    play(
        |config| {
            counting(config, Counted::ByFlavor);
            config.http.workers = 4;
        },
        |stage| async move {
            set_quota(&stage, "demo", json!({"key_pairs": 2, "server_groups": 2})).await;
            let key = |n: u32| stage.member.post("/os-keypairs", json!({"keypair": {"name": format!("k{n}"), "public_key": PUBLIC_KEY}}));
            let group =
                |n: u32| stage.member.post("/os-server-groups", json!({"server_group": {"name": format!("g{n}"), "policy": "affinity"}}));
            let keys = futures::future::join_all((0..6).map(key)).await;
            let groups = futures::future::join_all((0..6).map(group)).await;
            for (made, answers) in [(201, keys), (200, groups)] {
                assert_eq!(answers.iter().filter(|answer| answer.status == made).count(), 2);
                assert!(answers.iter().all(|answer| answer.status == made || (answer.status == 403 && answer.text.contains("too many"))));
            }
        },
    );
}

#[test]
fn a_request_for_several_is_accepted_whole_or_leaves_nothing() {
    play(
        |config| {
            counting(config, Counted::ByFlavor);
            config.http.workers = 4;
        },
        |stage| async move {
            set_quota(&stage, "demo", json!({"instances": 4})).await;
            let three = |name: &str| stage.server().named(name).with("min_count", json!(3)).ask(&stage.member);
            let (one, two) = futures::join!(three("one"), three("two"));
            let accepted = [&one, &two].iter().filter(|answer| answer.status == 202).count();
            assert!(accepted <= 1 && [&one, &two].iter().all(|answer| [202, 403].contains(&answer.status)), "{} {}", one.text, two.text);
            let gone = || async { stage.world().api.count_queued_deletes().await.expect("mappings") == 0 };
            stage.until("those that were too few are deleted", gone).await;
            let listed = stage.member.get("/servers").await.expect(200).body;
            assert_eq!(listed["servers"].as_array().map(Vec::len), Some(3 * accepted));
            assert_eq!(in_use(&stage.member).await.0, 3 * accepted as i64);
        },
    );
}
