//! Healing in place: servers from before get what their ports ask for; what cannot be told stays.

use cellshift::chaos::point::{Moment, StepFault};
use serde_json::{Value, json};
use uuid::Uuid;

use super::networks::{Minimum, expect, give_twin, ledger, ports, server_with, settled};
use super::refusals::assert_from_before;
use crate::stage::{Stage, play_default};

async fn server(stage: &Stage) -> (Uuid, String) {
    server_with(stage, Minimum { egress: 1000, ingress: 2000, packets: 3 }).await
}

async fn unhealed(stage: &Stage) -> Vec<Value> {
    let listed = stage.admin.get("/ops/v1/servers/unhealed").await.expect(200).body;
    listed["servers"].as_array().expect("servers").clone()
}

async fn heal(stage: &Stage, server: Uuid) {
    stage.admin.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(202);
    stage.at_rest(server, "ACTIVE").await;
}

#[test]
fn a_server_from_before_is_healed_where_it_is() {
    play_default(|stage| async move {
        let (server, host) = server(&stage).await;
        assert!(unhealed(&stage).await.is_empty());
        assert_from_before(&stage, server).await;
        let listed = unhealed(&stage).await;
        assert_eq!((listed.len(), &listed[0]["server"], &listed[0]["host"]), (1, &json!(server), &json!(host)), "{listed:#?}");
        assert_eq!(listed[0]["changes"]["amounts"].as_array().map(Vec::len), Some(3), "{listed:#?}");
        heal(&stage, server).await;
        expect(&stage, server, None, &settled(&host)).await;
        assert!(unhealed(&stage).await.is_empty());
        stage.member.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(403);
    });
}

#[test]
fn ports_are_as_before_when_placement_refuses() {
    play_default(|stage| async move {
        let (server, host) = server(&stage).await;
        assert_from_before(&stage, server).await;
        let nothing = [format!("port 0 ACTIVE on {host}: nothing")];
        for step in ["claim_shares", "name_providers"] {
            stage.refuse(step);
            heal(&stage, server).await;
            stage.disarm();
            assert_eq!(ledger(&stage, server, None).await, nothing, "{step}");
        }
        let rows = ports(&stage, server).await;
        assert_eq!(rows[0].bindings[0].allocation(), None);
        heal(&stage, server).await;
        expect(&stage, server, None, &settled(&host)).await;
    });
}

#[test]
fn a_server_that_two_bridges_could_serve_is_left_to_a_migration() {
    play_default(|stage| async move {
        let (server, host) = server(&stage).await;
        assert_from_before(&stage, server).await;
        give_twin(&stage, &host).await;
        let listed = unhealed(&stage).await;
        assert!(listed[0]["obstacle"].as_str().unwrap_or_default().contains("several providers"), "{listed:#?}");
        heal(&stage, server).await;
        assert_eq!(ledger(&stage, server, None).await, [format!("port 0 ACTIVE on {host}: nothing")]);
        let action = stage.admin.speaking("2.84").action(server, "heal_allocations").await;
        assert!(action.to_string().contains("migrate the server"), "{action:#}");
        stage.cross(server).await;
        stage.confirm(server).await;
    });
}

/// The undo of the claim is owed, and paid after the server has gone on.
#[test]
fn a_heal_that_failed_is_given_up_late_and_harms_nothing() {
    for goes_on in ["heals", "migrates", "is deleted"] {
        play_default(move |stage| async move {
            let (server, host) = server(&stage).await;
            assert_from_before(&stage, server).await;
            stage.arm(|point| match (point.step, point.side, point.moment) {
                ("name_providers", "act", Moment::BeforeEffect) | ("claim_shares", "undo", Moment::BeforeEffect) => StepFault::Refuse,
                _ => StepFault::None,
            });
            stage.admin.post(&format!("/ops/v1/servers/{server}/heal"), json!({})).await.expect(202);
            stage.ended(server).await;
            assert!(!stage.debts(server).await.is_empty(), "it owes the claim");
            stage.disarm();
            match goes_on {
                "heals" => {
                    stage.paid(server).await;
                    assert_eq!(ledger(&stage, server, None).await, [format!("port 0 ACTIVE on {host}: nothing")]);
                    heal(&stage, server).await;
                    expect(&stage, server, None, &settled(&host)).await;
                }
                "migrates" => {
                    stage.paid(server).await;
                    stage.cross(server).await;
                    stage.confirm(server).await;
                }
                _ => {
                    stage.member.delete(&format!("/servers/{server}")).await.expect(204);
                    stage.gone(server).await;
                }
            }
            stage.paid(server).await;
        });
    }
}
