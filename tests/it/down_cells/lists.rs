//! Lists of servers while cells are down: partial entries, the conditions for them, and their order.

use cellshift::chaos::borders::{Outage, Outages};
use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{entries, keys, listed, not_now, quick, set};
use crate::client::id_of;
use crate::stage::{Stage, play};

const UNKNOWN: &str = "UNKNOWN";

/// Makes two servers of the member in cell1, the second without a port, and two in cell2.
async fn four(stage: &Stage) -> [Uuid; 4] {
    let first = stage.create(stage.server()).await;
    let second = stage.create(stage.server().with("networks", json!("none"))).await;
    let third = stage.create(stage.server().flavor("gen2.small")).await;
    let fourth = stage.create(stage.server().flavor("gen2.small")).await;
    [first, second, third, fourth]
}

#[test]
fn partial_entries_come_first_with_no_key_that_is_not_known() {
    for outage in [Outage::Refuses, Outage::Hangs] {
        play(quick, |stage| async move {
            let [first, second, third, fourth] = four(&stage).await;
            let member = stage.member.speaking("2.69");
            let (before, detailed_before) = (listed(&member, "/servers").await, listed(&member, "/servers/detail").await);
            stage.cell("cell1").db().set_outage(outage);

            // Before and after the cell is known to be down.
            for _ in 0..2 {
                let list = member.get("/servers").await.expect(200);
                assert!(list.took.as_secs() < 3, "{:?}", list.took);
                let partial = &list.body["servers"][0];
                assert_eq!((keys(partial), &partial["status"]), (vec!["id", "links", "status"], &json!(UNKNOWN)));
                assert_eq!(keys(&list.body["servers"][2]), ["id", "links", "name"]);
                let ids: Vec<Uuid> = entries(&list.body).into_iter().map(|(id, _)| id).collect();
                assert_eq!(ids, [second, first, fourth, third], "newest first among each");

                let list = member.get("/servers/detail").await.expect(200).body;
                let statuses: Vec<String> = entries(&list).into_iter().map(|(_, status)| status).collect();
                assert_eq!(statuses, [UNKNOWN, UNKNOWN, "ACTIVE", "ACTIVE"]);
                let (bare, with_port) = (&list["servers"][0], &list["servers"][1]);
                assert_eq!(keys(bare), ["created", "id", "links", "status", "tenant_id"]);
                assert_eq!(keys(with_port), ["created", "id", "links", "security_groups", "status", "tenant_id"]);
                assert_eq!(with_port["security_groups"], json!([{"name": "default"}]));
                assert!(with_port["created"].as_str().is_some_and(|at| at.len() == 20 && at.ends_with('Z')), "{with_port}");
                set(&stage, "cell1", outage).await;
            }
            let older = stage.member.speaking("2.68");
            assert_eq!(listed(&older, "/servers").await, [fourth, third]);
            assert_eq!(listed(&older, "/servers/detail").await, [fourth, third]);

            set(&stage, "cell1", Outage::None).await;
            assert_eq!(listed(&member, "/servers").await, before, "the next request is complete");
            assert_eq!(listed(&member, "/servers/detail").await, detailed_before);
        });
    }
}

#[test]
fn what_only_the_cell_could_judge_leaves_its_servers_out() {
    play(quick, |stage| async move {
        let [first, second, third, fourth] = four(&stage).await;
        let other = stage.user("olga", "elsewhere", "member").await;
        let foreign = stage.create_by(&other, stage.server()).await;
        set(&stage, "cell1", Outage::Refuses).await;

        let real = [fourth, third];
        for query in ["status=ACTIVE", "name=one", "limit=5", "sort_key=created_at", "sort_dir=desc", "changes-since=2020-01-01T00:00:00Z"]
        {
            for path in ["/servers", "/servers/detail"] {
                assert_eq!(listed(&stage.member, &format!("{path}?{query}")).await, real, "{path}?{query}");
            }
        }
        for ignored in ["deleted=true", "deleted=false", "host=cell1-host1", "node=cell1-host1"] {
            let all = listed(&stage.member, &format!("/servers?{ignored}")).await;
            assert_eq!(all, [second, first, fourth, third], "{ignored} is not the member's to use");
        }
        let of_all = listed(&stage.admin, "/servers?all_tenants=1").await;
        assert_eq!(of_all, [foreign, second, first, fourth, third]);
        assert_eq!(listed(&stage.admin, "/servers/detail?all_tenants=true").await, of_all);
        for query in ["all_tenants=1&deleted=false", "all_tenants=1&host=cell2-host1", "all_tenants=1&name=one", "all_tenants=1&limit=9"] {
            let ids = listed(&stage.admin, &format!("/servers?{query}")).await;
            assert!(ids.iter().all(|id| real.contains(id)), "{query}: {ids:?}");
        }
        assert_eq!(listed(&stage.admin, "/servers?all_tenants=0").await, Vec::<Uuid>::new(), "its own project has none");
        assert_eq!(listed(&other, "/servers").await, [foreign]);

        assert_eq!(listed(&stage.member, &format!("/servers?marker={fourth}")).await, [third]);
        let after = format!("/servers?marker={fourth}&sort_key=created_at&sort_dir=asc");
        assert_eq!(listed(&stage.member, &after).await, Vec::<Uuid>::new());
        not_now(stage.member.get(&format!("/servers?marker={first}")).await, "cell1");
        not_now(stage.member.get(&format!("/servers/detail?marker={first}&limit=1")).await, "cell1");
        let refused = stage.member.get(&format!("/servers?marker={foreign}")).await.expect(400);
        assert!(refused.message().contains("not found"), "others do not learn of it: {}", refused.text);
        set(&stage, "cell1", Outage::None).await;
    });
}

#[test]
fn real_servers_take_their_room_first_and_links_lead_on() {
    let small_pages = |config: &mut Config| {
        quick(config);
        config.api.max_limit = 3;
    };
    play(small_pages, |stage| async move {
        let [_, second, third, fourth] = four(&stage).await;
        set(&stage, "cell1", Outage::Refuses).await;
        let list = stage.member.get("/servers").await.expect(200).body;
        assert_eq!(listed(&stage.member, "/servers").await, [second, fourth, third], "as many partial ones as there is room for");
        assert!(list.get("servers_links").is_none(), "no link after the last real one: {list}");

        let fifth = stage.create(stage.server().flavor("gen2.small")).await;
        let sixth = stage.create(stage.server().flavor("gen2.small")).await;
        for path in ["/servers", "/servers/detail"] {
            let list = stage.member.get(path).await.expect(200).body;
            assert_eq!(entries(&list).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [sixth, fifth, fourth]);
            let next = list["servers_links"][0]["href"].as_str().expect("a link").to_owned();
            let next = stage.member.get(&next[next.find("/compute").expect("a path")..]).await.expect(200).body;
            assert_eq!(entries(&next).iter().map(|(id, _)| *id).collect::<Vec<_>>(), [third]);
            assert!(next.get("servers_links").is_none());
        }
        set(&stage, "cell1", Outage::None).await;
    });
}

#[test]
fn an_option_turns_partial_lists_into_errors() {
    let strict = |config: &mut Config| {
        quick(config);
        config.api.list_records_by_skipping_down_cells = false;
    };
    play(strict, |stage| async move {
        let [first, second, third, fourth] = four(&stage).await;
        set(&stage, "cell1", Outage::Refuses).await;
        for path in ["/servers?limit=5", "/servers/detail?status=ACTIVE", "/servers?sort_key=uuid"] {
            not_now(stage.member.get(path).await, "cell1");
        }
        not_now(stage.member.speaking("2.68").get("/servers").await, "cell1");
        not_now(stage.admin.get("/os-migrations").await, "cell1");
        assert_eq!(listed(&stage.member, "/servers").await, [second, first, fourth, third]);
        stage.admin.get("/os-services").await.expect(200);
        set(&stage, "cell1", Outage::None).await;
        stage.member.get("/servers?limit=5").await.expect(200);
    });
}

#[test]
fn a_cell_for_failed_builds_or_all_cells_may_be_down() {
    play(quick, |stage| async move {
        let running = stage.create(stage.server()).await;
        stage.make_flavor("vast", 1, 64, 100_000).await;
        let failed = id_of(&stage.server().flavor("vast").ask(&stage.member).await.expect(202).body["server"]);
        stage.at_rest(failed, "ERROR").await;

        set(&stage, "cell0", Outage::Hangs).await;
        let statuses = entries(&stage.member.get("/servers/detail").await.expect(200).body);
        assert_eq!(statuses, [(failed, UNKNOWN.to_owned()), (running, "ACTIVE".to_owned())]);
        let more = stage.create(stage.server()).await;

        for cell in ["cell1", "cell2"] {
            set(&stage, cell, Outage::Refuses).await;
        }
        for path in ["/servers", "/servers/detail", "/servers?all_tenants=1"] {
            let user = if path.contains("all") { &stage.admin } else { &stage.member };
            let all = entries(&user.get(path).await.expect(200).body);
            assert_eq!(all.len(), 3, "{path}");
            assert!(all.iter().all(|(_, status)| status == UNKNOWN), "{path}: {all:?}");
        }
        assert_eq!(listed(&stage.member.speaking("2.68"), "/servers").await, Vec::<Uuid>::new());
        for cell in ["cell0", "cell1", "cell2"] {
            set(&stage, cell, Outage::None).await;
        }
        assert_eq!(listed(&stage.member, "/servers").await, [more, failed, running]);
    });
}

/// Measures wall time, and checks that cells are judged separately.
#[test]
fn hanging_cells_cost_a_request_its_deadline_once() {
    let four_cells = |config: &mut Config| {
        quick(config);
        config.cells.count = Some(4);
        config.cells.hosts_per_cell = Some(1);
    };
    play(four_cells, |stage| async move {
        let mut servers = Vec::new();
        for cell in 1..=4 {
            let new = stage.server().flavor("m1.tiny").on_host(&format!("cell{cell}-host1"));
            servers.push(stage.create_by(&stage.admin, new).await);
        }
        for hung in ["cell1", "cell2", "cell3"] {
            stage.cell(hung).db().set_outage(Outage::Hangs);
        }
        let list = stage.admin.get("/servers/detail").await.expect(200);
        assert!(list.took.as_millis() < 3_000, "{:?}", list.took);
        let rows = entries(&list.body);
        assert_eq!(rows.iter().filter(|(_, status)| status == UNKNOWN).count(), 3, "{rows:?}");
        assert_eq!(rows.last(), Some(&(servers[3], "ACTIVE".to_owned())), "a cell that answers is not said to be silent");
        for hung in ["cell1", "cell2", "cell3"] {
            set(&stage, hung, Outage::Hangs).await;
        }
        let list = stage.admin.get("/servers/detail").await.expect(200);
        assert!(list.took.as_millis() < 1_000, "cells known to be down are not waited for: {:?}", list.took);
        assert_eq!(entries(&list.body), rows);
        for hung in ["cell1", "cell2", "cell3"] {
            set(&stage, hung, Outage::None).await;
        }
        let whole = entries(&stage.admin.get("/servers/detail").await.expect(200).body);
        assert!(whole.iter().all(|(_, status)| status == "ACTIVE"), "{whole:?}");
    });
}

/// A server that no cell has yet is listed and shown as usual.
#[test]
fn a_server_in_build_is_in_no_cell_that_could_be_down() {
    use cellshift::db::api::publications::NewServer;
    use cellshift::domain::fence::Fence;
    use cellshift::domain::instance_bundle::InstanceBundle;
    use cellshift::domain::quota_grant::QuotaGrant;

    play(quick, |stage| async move {
        let model = stage.create(stage.server()).await;
        let api = &stage.world().api;
        let mut instance = stage.record("cell1", model).await.expect("a record");
        let mut request_spec = api.request_spec(model).await.expect("a request spec");
        let uuid = stage.world().env.uuid();
        (instance.uuid, request_spec.instance_uuid) = (uuid, uuid);
        let fence = Fence { server: uuid, epoch: 1, attempt: 1 };
        api.create_server(fence, NewServer { instance: InstanceBundle::new(instance), request_spec }, QuotaGrant::without_check("a test"))
            .await
            .expect("a build request");

        for cell in ["cell0", "cell1", "cell2"] {
            set(&stage, cell, Outage::Refuses).await;
        }
        let list = stage.member.get("/servers/detail").await.expect(200).body;
        assert_eq!(keys(&list["servers"][0]).len(), 5 + 1, "{list:#}");
        let building: &Value = &list["servers"][1];
        assert_eq!((id_of(building), &building["name"]), (uuid, &json!("one")));
        assert_eq!(stage.member.show(uuid).await["name"], "one");
        for cell in ["cell0", "cell1", "cell2"] {
            set(&stage, cell, Outage::None).await;
        }
        api.purge_server(fence, uuid).await.expect("gone again");
    });
}
