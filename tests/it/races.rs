//! Concurrent requests: a server has at most one operation, and the second request is told so (NOVA-DIFFERENCES L26, L29, L31, L33).

use std::collections::BTreeSet;

use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::stage::{Stage, play, play_default};
use cellshift::domain::context::RequestContext;
use cellshift::saga::context::{Context, Request};
use cellshift::saga::operations::BeginOperation;
use cellshift::virt::Operation;

fn sorted(mut statuses: Vec<u16>) -> Vec<u16> {
    statuses.sort_unstable();
    statuses
}

#[test]
fn of_two_resizes_one_is_accepted() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let (one, two) = futures::join!(stage.member.resize(server, "gen2.small"), stage.member.resize(server, "gen2.small"));
        assert_eq!(sorted(vec![one.status, two.status]), [202, 409], "{} {}", one.text, two.text);
        let refused = if one.status == 409 { one } else { two };
        // The second request may find the first at any point, even after its end.
        let reasons = ["task_state resize_", "in progress", "vm_state resized"];
        assert!(reasons.iter().any(|reason| refused.message().contains(reason)), "{}", refused.text);
        stage.at_rest(server, "VERIFY_RESIZE").await;
        assert_eq!(stage.migrations("cell2", server).await.len(), 1);
    });
}

#[test]
fn of_eight_resizes_one_is_accepted() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let answers = join_all((0..8).map(|_| stage.member.resize(server, "gen2.small"))).await;
        let statuses = sorted(answers.iter().map(|answer| answer.status).collect());
        assert_eq!(statuses, [202, 409, 409, 409, 409, 409, 409, 409]);
        stage.at_rest(server, "VERIFY_RESIZE").await;
    });
}

#[test]
fn an_operation_goes_on_when_its_client_goes_away() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let conductor = stage.running.tree.conductor.clone();
        let caller = RequestContext::default();
        let mut asking = Box::pin(conductor.begin(Context::new(Uuid::from_u128(1), caller, server, Request::Stop)));
        assert!(futures::poll!(&mut asking).is_pending());
        drop(asking);
        stage.until("the server is off", || async { stage.member.status(server).await == "SHUTOFF" }).await;
        stage.at_rest(server, "SHUTOFF").await;
    });
}

#[test]
fn of_a_confirm_and_a_revert_one_is_accepted() {
    play_default(|stage| async move {
        for round in 0..4 {
            let server = stage.create(stage.server().named(&format!("round {round}"))).await;
            stage.cross(server).await;
            let (confirm, revert) = futures::join!(stage.member.confirm(server), stage.member.revert(server));
            let shown = stage.at_rest(server, "ACTIVE").await;
            let flavor = &shown["flavor"]["original_name"];
            match (confirm.status, revert.status) {
                (204, 409) => assert_eq!(flavor, "gen2.small"),
                (409, 202) => assert_eq!(flavor, "gen1.small"),
                other => panic!("{other:?}: {} {}", confirm.text, revert.text),
            }
            stage.member.delete(&format!("/servers/{server}")).await.expect(204);
            stage.gone(server).await;
        }
    });
}

#[test]
fn a_delete_during_a_resize_turns_it_back() {
    let slow = |config: &mut cellshift::config::Config| {
        config.compute.latency_ms.insert(Operation::CopyDisks, 200);
    };
    play(slow, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.member.resize(server, "gen2.small").await.expect(202);
        let copying = || async { stage.member.show(server).await["OS-EXT-STS:task_state"] == "resize_migrating" };
        stage.until("the source copies", copying).await;
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        for cell in ["cell1", "cell2"] {
            assert!(stage.record(cell, server).await.is_none());
        }
        assert!(stage.runs_on(server).await.is_empty());
        assert!(stage.holds(server).await.is_empty());
    });
}

#[test]
fn while_it_moves_users_see_one_server_in_resize() {
    let slow = |config: &mut cellshift::config::Config| {
        config.compute.latency_ms.insert(Operation::CopyDisks, 100);
    };
    play(slow, |stage| async move {
        let server = stage.create(stage.server()).await;
        stage.member.resize(server, "gen2.small").await.expect(202);
        loop {
            let listed = stage.admin.get("/servers/detail?all_tenants=1").await.expect(200).body["servers"].clone();
            let [shown] = listed.as_array().map(Vec::as_slice).unwrap_or_default() else { panic!("{listed:#}") };
            let (status, task) = (&shown["status"], &shown["OS-EXT-STS:task_state"]);
            assert_ne!(task, "resize_finish", "never seen");
            if status == "VERIFY_RESIZE" {
                break;
            }
            assert_eq!(status, "RESIZE", "{shown:#}");
            assert_eq!(shown["flavor"]["original_name"], "gen1.small", "the old flavor until all is done");
            assert_eq!(shown["OS-EXT-AZ:availability_zone"], "cell1");
        }
        stage.at_rest(server, "VERIFY_RESIZE").await;
        stage.member.revert(server).await.expect(202);
        loop {
            let shown = stage.admin.show(server).await;
            match shown["status"].as_str() {
                Some("ACTIVE") => break,
                Some("REVERT_RESIZE") => {}
                other => panic!("{other:?} (L9)"),
            }
        }
        stage.at_rest(server, "ACTIVE").await;
    });
}

/// Returns all servers over all pages of this size, in order.
async fn page_through(stage: &Stage, limit: usize) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    loop {
        let marker = seen.last().map(|last| format!("&marker={last}")).unwrap_or_default();
        let body = stage.member.get(&format!("/servers?limit={limit}{marker}")).await.expect(200).body;
        let page: Vec<String> =
            body["servers"].as_array().into_iter().flatten().filter_map(|server| server["id"].as_str().map(str::to_owned)).collect();
        if page.is_empty() {
            return seen;
        }
        seen.extend(page);
    }
}

#[test]
fn pages_lose_and_repeat_no_server_while_servers_move() {
    play_default(|stage| async move {
        let mut servers: Vec<Uuid> = Vec::new();
        for number in 0..8 {
            servers.push(stage.create(stage.server().named(&format!("server {number}"))).await);
        }
        let ids: BTreeSet<String> = servers.iter().map(Uuid::to_string).collect();
        let moving = async {
            for server in &servers[..4] {
                stage.member.resize(*server, "gen2.small").await.expect(202);
            }
            for server in &servers[..4] {
                stage.at_rest(*server, "VERIFY_RESIZE").await;
                stage.member.revert(*server).await.expect(202);
            }
            for server in &servers[..4] {
                stage.at_rest(*server, "ACTIVE").await;
            }
        };
        let listing = async {
            for round in 0..30 {
                let seen = page_through(&stage, 3).await;
                assert_eq!(seen.len(), ids.len(), "round {round}: {seen:?}");
                assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), ids, "round {round}");
            }
        };
        futures::join!(moving, listing);
    });
}

#[test]
fn a_list_of_changes_survives_the_delete_of_a_server_in_error() {
    play_default(|stage| async move {
        stage.make_flavor("huge", 1, 1024, 5000).await;
        let server = stage.server().flavor("huge").ask(&stage.member).await.expect(202);
        let server = crate::client::id_of(&server.body["server"]);
        let shown = stage.at_rest(server, "ERROR").await;
        assert!(shown["fault"]["message"].as_str().is_some_and(|why| why.contains("No valid host")), "{}", shown["fault"]);
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        stage.gone(server).await;
        let list = stage.member.get("/servers/detail?changes-since=2020-01-01T00:00:00Z").await.expect(200);
        let listed = list.body["servers"].as_array().expect("servers");
        assert_eq!(listed.iter().map(|server| &server["status"]).collect::<Vec<&Value>>(), [&json!("DELETED")]);
    });
}
