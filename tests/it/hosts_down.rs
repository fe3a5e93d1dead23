//! Hosts that are off when they are needed (NOVA-DIFFERENCES L11, L12, L13).

use cellshift::chaos::point::Moment;
use cellshift::db::cell::CellTxn;
use cellshift::domain::context::RequestContext;
use cellshift::domain::fence::Fence;
use cellshift::domain::migration::Migration;
use cellshift::saga::context::{ConfirmRequest, Context, Request};
use cellshift::saga::steps::records::pay_hidden_records;
use serde_json::json;
use uuid::Uuid;

use crate::held::Held;
use crate::stage::{Stage, hosts, play_default};

#[test]
fn a_revert_to_a_source_that_is_down_touches_nothing() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        let shown = stage.cross(server).await;
        let target = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        stage.power(&source, false).await;
        let answer = stage.member.revert(server).await.expect(409);
        assert!(answer.message().starts_with("Service is unavailable at this time"), "{}", answer.text);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&[&target]));
        assert_eq!(stage.migration_status("cell2", server).await, "finished");
        stage.power(&source, true).await;
        stage.member.revert(server).await.expect(202);
        let shown = stage.at_rest(server, "ACTIVE").await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], json!(source));
    });
}

#[test]
fn a_confirm_while_the_source_is_down_is_paid_when_it_returns() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.cross(server).await;
        stage.power(&source, false).await;
        stage.confirm(server).await;
        assert_eq!(stage.migration_status("cell2", server).await, "confirmed");
        let debts = stage.world().operations.debts(Some(server)).await.expect("debts");
        assert_eq!(debts.iter().map(|debt| debt.step.as_str()).collect::<Vec<_>>(), ["clean_source_host"]);
        stage.power(&source, true).await;
        stage.paid(server).await;
        assert!(stage.guest(&source, server).await.is_none());
        assert!(stage.report("cell1", &source).await.claims.is_empty());
    });
}

#[test]
fn a_revert_undone_by_a_dead_target_can_be_confirmed() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let target = fail_to_revert(&stage, server).await;
        stage.power(&target, true).await;
        stage.until("the debt is paid", || async { stage.member.status(server).await != "ERROR" }).await;
        stage.at_rest(server, "VERIFY_RESIZE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&[&target]));
        stage.confirm(server).await;
    });
}

#[test]
fn a_resize_from_a_host_that_is_down_is_refused() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        stage.power(&source, false).await;
        let answer = stage.member.resize(server, "gen2.small").await.expect(409);
        assert!(answer.message().starts_with("Service is unavailable at this time"), "{}", answer.text);
        stage.power(&source, true).await;
        stage.until("the guest runs again", || async { !stage.runs_on(server).await.is_empty() }).await;
        stage.cross(server).await;
    });
}

#[test]
fn no_server_goes_to_a_host_that_is_down() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.power("cell2-host1", false).await;
        let shown = stage.cross(server).await;
        assert_eq!(shown["OS-EXT-SRV-ATTR:host"], "cell2-host2");
        stage.power("cell2-host1", true).await;
    });
}

#[test]
fn a_failed_resized_server_is_deleted_with_its_source() {
    play_default(|stage| async move {
        let (server, source) = stage.create_on_a_host(stage.server()).await;
        let target = fail_to_revert(&stage, server).await;
        let answer = stage.member.act(server, json!({ "rebuild": { "imageRef": stage.image } })).await.expect(409);
        assert!(answer.message().contains("waits for confirm or revert"), "{}", answer.text);
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        assert!(stage.guest(&source, server).await.is_none());
        assert!(stage.record("cell1", server).await.is_none());
        stage.power(&target, true).await;
        until_nothing_is_owed(&stage).await;
    });
}

#[test]
fn a_mended_resized_server_waits_for_confirm_again() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let target = fail_to_revert(&stage, server).await;
        stage.power(&target, true).await;
        // The payment of the debt may have mended the server already; then it needs no reboot.
        let answer = stage.member.act(server, json!({ "reboot": { "type": "HARD" } })).await;
        assert!([202, 409].contains(&answer.status), "{}", answer.text);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        until_nothing_is_owed(&stage).await;
        assert_eq!(stage.runs_on(server).await, hosts(&[&target]));
        stage.revert(server).await;
    });
}

#[test]
fn debts_of_a_rebuild_are_not_paid_to_a_deleted_server() {
    play_default(|stage| async move {
        let (server, host) = stage.create_on_a_host(stage.server()).await;
        let held = Held::at(&stage, "stop_guest", Moment::AfterEffect);
        stage.member.act(server, json!({ "rebuild": { "imageRef": stage.image } })).await.expect(202);
        held.met().await;
        stage.power(&host, false).await;
        held.release();
        // The rebuild waits for its host, and turns back for the delete.
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        stage.power(&host, true).await;
        until_nothing_is_owed(&stage).await;
        assert!(stage.guest(&host, server).await.is_none());
    });
}

#[test]
fn a_resized_server_shows_that_its_guest_is_off() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let shown = stage.cross(server).await;
        let target = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        stage.lose_guests(&target).await;
        stage.power(&target, true).await;
        let off = || async { stage.member.show(server).await["OS-EXT-STS:power_state"] == 4 };
        stage.until("its record says so", off).await;
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.member.confirm(server).await.expect(204);
        stage.until("it is off", || async { stage.member.status(server).await == "SHUTOFF" }).await;
    });
}

/// Moves the server and switches its target off before a revert, which leaves it in ERROR. Returns the target.
pub async fn fail_to_revert(stage: &Stage, server: Uuid) -> String {
    let shown = stage.cross(server).await;
    let target = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
    stage.power(&target, false).await;
    stage.member.revert(server).await.expect(202);
    stage.at_rest(server, "ERROR").await;
    target
}

async fn until_nothing_is_owed(stage: &Stage) {
    stage.until("nothing is owed", || async { stage.world().operations.debts(None).await.expect("debts").is_empty() }).await;
}

#[test]
fn an_older_moves_debt_keeps_the_present_hidden_record() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        stage.cross(server).await;
        let world = stage.world();
        let caller = RequestContext::default();
        let present = stage.migrations("cell1", server).await;
        let older = Context::new(Uuid::from_u128(7), caller, server, Request::Confirm(ConfirmRequest::default()));
        let row = world.operations.ownership(server).await.expect("the journal answers").expect("an owner");
        let fence = Fence { server, epoch: row.epoch, attempt: row.attempt };
        let its_own = Migration { uuid: older.move_id(), ..present[0].clone() };
        stage.cell("cell1").apply(fence, CellTxn::new().create_migration(its_own)).await.expect("a record");
        pay_hidden_records(world, &older, fence, "cell1").await.expect("paid");
        assert_eq!(stage.migrations("cell1", server).await, present, "its own record was all that it owed there");
        assert!(stage.record("cell1", server).await.expect("a record").hidden);
        stage.revert(server).await;
    });
}
