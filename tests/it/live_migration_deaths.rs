//! Live migrations whose hosts die or whose hosts refuse, and aborts that come early.

use cellshift::chaos::experiment::fault::MessageFault;
use cellshift::chaos::point::Moment;
use cellshift::config::Config;
use serde_json::json;
use uuid::Uuid;

use crate::held::Held;
use crate::live_migration::live;
use crate::live_migration_control::{begin_copy, endless, stays, until_it_is};
use crate::resize_confirm::contains;
use crate::resize_rollback::{fill, tell};
use crate::stage::{Stage, hosts, play, play_default};
use cellshift::domain::host_protocol::HostCommand;

/// Returns the types of the notifications of a live migration's end, in order, without those of its way there.
async fn end_notifications(stage: &Stage, server: Uuid) -> Vec<String> {
    let types = stage.notified(server).await.into_iter();
    let types = types.filter_map(|name| Some(name.strip_prefix("instance.live_migration_")?.to_owned()));
    types.filter(|name| ["abort", "force_complete", "rollback"].iter().any(|end| name.starts_with(end))).collect()
}

const ROLLBACK: [&str; 4] = ["rollback.start", "rollback.end", "rollback_dest.start", "rollback_dest.end"];

#[test]
fn a_target_that_dies_while_copying_gets_the_guest_later() {
    play(endless, |stage| async move {
        let (server, shown) = begin_copy(&stage).await;
        stage.guest_writes("cell1-host1", server, b"meanwhile").await;
        stage.power("cell1-host2", false).await;
        let path = format!("/servers/{server}/migrations/{}/action", shown["id"]);
        stage.until("it is hastened", || async { stage.admin.post(&path, json!({"force_complete": null})).await.status == 202 }).await;
        stage.power("cell1-host2", true).await;
        stage.ended(server).await;
        stage.paid(server).await;
        stage.at_rest(server, "ACTIVE").await;
        let on = stage.runs_on(server).await.pop_first().expect("it runs");
        assert!(contains(&stage.disks(&on, server).await["disk"], b"meanwhile"));
        assert_eq!(stage.holds(server).await, hosts(&[&on]));
        let types = end_notifications(&stage, server).await;
        assert!(
            types.iter().any(|name| name == "force_complete.start") && types.iter().any(|name| name == "force_complete.end"),
            "{types:?}"
        );
    });
}

#[test]
fn a_target_that_dies_while_copying_holds_no_abort_up() {
    play(endless, |stage| async move {
        let (server, shown) = begin_copy(&stage).await;
        stage.power("cell1-host2", false).await;
        stage.admin.delete(&format!("/servers/{server}/migrations/{}", shown["id"])).await.expect(202);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host1"]));
        stage.power("cell1-host2", true).await;
        stage.paid(server).await;
        stays(&stage, server, "cancelled").await;
    });
}

/// The wait for the turn ends only with the host's reply.
#[test]
fn a_lost_message_about_the_turn_holds_no_server() {
    for lost in [MessageFault::LoseRequest, MessageFault::LoseReply] {
        play_default(|stage| async move {
            let server = stage.at_home().await;
            let held = Held::at(&stage, "queue_at_source", Moment::BeforeEffect);
            stage.admin.act(server, live(None)).await.expect(202);
            held.met().await;
            stage.seams.network.arm(None, lost);
            held.release();
            stage.at_rest(server, "ACTIVE").await;
            assert_eq!(stage.migration_status("cell1", server).await, "completed");
            assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host2"]));
        });
    }
}

#[test]
fn a_paused_guest_that_dies_with_its_source_is_not_booted() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.admin.act(server, json!({"pause": null})).await.expect(202);
        stage.at_rest(server, "PAUSED").await;
        let held = Held::at(&stage, "copy_guest", Moment::BeforeEffect);
        stage.admin.act(server, live(None)).await.expect(202);
        held.met().await;
        stage.lose_guests("cell1-host1").await;
        held.release();
        stage.ended(server).await;
        stage.power("cell1-host1", true).await;
        stage.paid(server).await;
        assert!(stage.runs_on(server).await.is_empty());
        stage.until("its record says so", || async { stage.admin.status(server).await == "SHUTOFF" }).await;
        stage.admin.act(server, json!({"os-start": null})).await.expect(202);
        stays(&stage, server, "failed").await;
    });
}

#[test]
fn a_source_that_dies_after_the_pivot_is_cleaned_later() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.guest_writes("cell1-host1", server, b"dear data").await;
        let held = Held::at(&stage, "resume_at_target", Moment::BeforeEffect);
        stage.admin.act(server, live(None)).await.expect(202);
        held.met().await;
        stage.power("cell1-host1", false).await;
        held.release();
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell1-host2");
        assert_eq!(stage.migration_status("cell1", server).await, "completed");
        assert_eq!(stage.runs_on(server).await, hosts(&["cell1-host2"]));
        assert!(contains(&stage.disks("cell1-host2", server).await["disk"], b"dear data"));
        stage.power("cell1-host1", true).await;
        stage.paid(server).await;
        assert!(stage.guest("cell1-host1", server).await.is_none());
        assert_eq!((stage.runs_on(server).await, stage.holds(server).await), (hosts(&["cell1-host2"]), hosts(&["cell1-host2"])));
    });
}

#[test]
fn an_abort_while_the_target_is_prepared_is_carried_out() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        let held = Held::at(&stage, "prepare_at_target", Moment::AfterEffect);
        stage.admin.act(server, live(None)).await.expect(202);
        held.met().await;
        let shown = until_it_is(&stage, server, "preparing").await;
        let path = format!("/servers/{server}/migrations/{}", shown["id"]);
        stage.admin.speaking("2.64").delete(&path).await.expect(400);
        stage.admin.speaking("2.65").delete(&path).await.expect(202);
        held.release();
        stays(&stage, server, "cancelled").await;
        let types = end_notifications(&stage, server).await;
        assert_eq!(types, ["rollback_dest.start", "rollback_dest.end", "abort.start", "abort.end"]);
    });
}

#[test]
fn an_aborted_copy_is_notified_with_its_rollback() {
    play(endless, |stage| async move {
        let (server, shown) = begin_copy(&stage).await;
        stage.admin.delete(&format!("/servers/{server}/migrations/{}", shown["id"])).await.expect(202);
        stays(&stage, server, "cancelled").await;
        let mut types = end_notifications(&stage, server).await;
        assert_eq!(types[0], "abort.start");
        types.retain(|name| !name.starts_with("abort"));
        assert_eq!(types, ROLLBACK);
    });
}

#[test]
fn a_failed_copy_is_notified_without_an_abort() {
    play_default(|stage| async move {
        let server = stage.at_home().await;
        stage.refuse("copy_guest");
        stage.admin.act(server, live(None)).await.expect(202);
        stage.ended(server).await;
        stage.disarm();
        stays(&stage, server, "failed").await;
        assert_eq!(end_notifications(&stage, server).await, ROLLBACK);
    });
}

/// Makes four hosts in a cell, of which the scheduler offers one at a time, and limits the further tries of live migrations.
fn four_hosts(retries: i64) -> impl FnOnce(&mut Config) {
    move |config| {
        config.cells.hosts_per_cell = Some(4);
        config.scheduler.max_attempts = 1;
        config.compute.live_migration.migrate_max_retries = retries;
    }
}

/// Returns the reason that administrators read of a live migration that found no host.
async fn why_it_stays(stage: &Stage, server: Uuid) -> String {
    stage.admin.act(server, live(None)).await.expect(202);
    stage.at_rest(server, "ACTIVE").await;
    assert_eq!(stage.migration_status("cell1", server).await, "error");
    assert_eq!((stage.runs_on(server).await, stage.holds(server).await), (hosts(&["cell1-host1"]), hosts(&["cell1-host1"])));
    stage.admin.speaking("2.84").action(server, "live-migration").await.to_string()
}

#[test]
fn each_host_of_the_cell_is_asked_until_none_is_left() {
    play(four_hosts(-1), |stage| async move {
        let server = stage.at_home().await;
        let mut full = Vec::new();
        for host in ["cell1-host2", "cell1-host3", "cell1-host4"] {
            full.push((host, fill(&stage, host).await));
        }
        let why = why_it_stays(&stage, server).await;
        assert!(why.contains("No valid host"), "{why}");
        for (host, _) in &full {
            assert!(why.contains(&format!("{host}: ")), "{host} was asked: {why}");
        }
        let (host, stranger) = full.pop().expect("a host");
        tell(&stage, host, stranger, HostCommand::DropClaim { holder: stranger }, 2).await;
        stage.admin.act(server, live(None)).await.expect(202);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], host);
        for (host, stranger) in full {
            tell(&stage, host, stranger, HostCommand::DropClaim { holder: stranger }, 2).await;
        }
    });
}

#[test]
fn a_limit_of_retries_ends_the_search() {
    for retries in [0, 1] {
        play(four_hosts(retries), |stage| async move {
            let server = stage.at_home().await;
            let names = ["cell1-host2", "cell1-host3", "cell1-host4"];
            let mut full = Vec::new();
            for host in names {
                full.push((host, fill(&stage, host).await));
            }
            let why = why_it_stays(&stage, server).await;
            assert!(why.contains(&format!("Exceeded max scheduling retries {retries}")), "{why}");
            let count = names.iter().filter(|host| why.contains(&format!("{host}: "))).count();
            assert_eq!(count, usize::try_from(retries + 1).expect("a number"), "{why}");
            for (host, stranger) in full {
                tell(&stage, host, stranger, HostCommand::DropClaim { holder: stranger }, 2).await;
            }
        });
    }
}
