//! Hosts that are off when they are needed (L11, L12, L13).

use serde_json::json;

use crate::stage::{hosts, play_default};

#[test]
fn a_revert_to_a_source_that_is_down_touches_nothing() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let source = stage.runs_on(server).await.pop_first().expect("a host");
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
        let server = stage.create(stage.server()).await;
        let source = stage.runs_on(server).await.pop_first().expect("a host");
        stage.cross(server).await;
        stage.power(&source, false).await;
        stage.member.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
        assert_eq!(stage.migration_status("cell2", server).await, "confirmed");
        let debts = stage.world().operations.debts(Some(server)).await.expect("debts");
        assert_eq!(debts.iter().map(|debt| debt.step.as_str()).collect::<Vec<_>>(), ["clean_source_host"]);
        stage.power(&source, true).await;
        let paid = || async { stage.world().operations.debts(Some(server)).await.expect("debts").is_empty() };
        stage.until("the debt is paid", paid).await;
        assert!(stage.guest(&source, server).await.is_none());
        assert!(stage.report("cell1", &source).await.claims.is_empty());
    });
}

#[test]
fn a_revert_that_the_death_of_the_target_undoes_leaves_the_server_to_be_confirmed() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let shown = stage.cross(server).await;
        let target = shown["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        stage.power(&target, false).await;
        stage.member.revert(server).await.expect(202);
        stage.at_rest(server, "ERROR").await;
        stage.power(&target, true).await;
        stage.until("the debt is paid", || async { stage.member.status(server).await != "ERROR" }).await;
        stage.at_rest(server, "VERIFY_RESIZE").await;
        assert_eq!(stage.runs_on(server).await, hosts(&[&target]));
        stage.member.confirm(server).await.expect(204);
        stage.at_rest(server, "ACTIVE").await;
    });
}

#[test]
fn a_resize_from_a_host_that_is_down_is_refused() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let source = stage.runs_on(server).await.pop_first().expect("a host");
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
