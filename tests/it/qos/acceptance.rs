//! Every operation, with both forms of a request, several kinds of ports and both kinds of initiators, in one table: who holds what of which
//! provider, and what each binding says, while the operation waits for its user and when it has ended.

use cellshift::config::Config;
use serde_json::{Value, json};
use uuid::Uuid;

use super::networks::{At, Form, Kind, expect, give_bridges, give_card_rates, moved, policy, port_of, settled};
use crate::client::User;
use crate::databases;
use crate::faults;
use crate::stage::{Stage, play_altered};

/// Members may do all that administrators may do with servers.
const FOR_MEMBERS: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n\
                           \"os_compute_api:os-migrate-server:migrate\": \"rule:project_member_or_admin\"\n\
                           \"os_compute_api:os-migrate-server:migrate:host\": \"rule:project_member_or_admin\"\n\
                           \"os_compute_api:os-migrate-server:migrate_live\": \"rule:project_member_or_admin\"\n\
                           \"os_compute_api:os-migrate-server:migrate_live:host\": \"rule:project_member_or_admin\"\n\
                           \"os_compute_api:os-evacuate\": \"rule:project_member_or_admin\"\n\
                           \"os_compute_api:os-shelve:unshelve_to_host\": \"rule:project_member_or_admin\"\n";

/// A way of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Migrate,
    MigrateAcross,
    Resize,
    ResizeAcross,
    Live,
    LiveToHost,
    Evacuate,
    EvacuateToHost,
    /// Shelved without an offload, and back.
    ShelveInPlace,
    UnshelveSame,
    UnshelveOther,
    UnshelveAcross,
}

const ALL: [Way; 12] = [
    Way::Migrate,
    Way::MigrateAcross,
    Way::Resize,
    Way::ResizeAcross,
    Way::Live,
    Way::LiveToHost,
    Way::Evacuate,
    Way::EvacuateToHost,
    Way::ShelveInPlace,
    Way::UnshelveSame,
    Way::UnshelveOther,
    Way::UnshelveAcross,
];

/// The end of a move that waits for its user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Confirm,
    Revert,
}

fn configure(config: &mut Config) {
    config.compute.shelved_offload_time = -1;
    std::fs::write(config.policy_file(), FOR_MEMBERS).expect("a policy");
}

/// The server on its way, with the user who asks.
struct Trip<'a> {
    stage: &'a Stage,
    user: User,
    server: Uuid,
    boss: User,
    home: &'static str,
    other: &'static str,
}

impl Trip<'_> {
    async fn act(&self, body: Value, version: &str, status: u16) {
        self.user.speaking(version).act(self.server, body).await.expect(status);
        self.stage.ended(self.server).await;
    }

    async fn migration(&self, cell: &str) -> Uuid {
        self.stage.migrations(cell, self.server).await.pop().expect("a migration").uuid
    }

    async fn is(&self, status: &str, migration: Option<Uuid>, places: &[At<'_>]) {
        self.stage.at_rest(self.server, status).await;
        expect(self.stage, self.server, migration, places).await;
    }

    /// A move that waits for confirm and revert: both ends, each way.
    async fn waits(&self, body: Value, cell: &str, target: &str) {
        for end in [End::Revert, End::Confirm] {
            self.act(body.clone(), "2.93", 202).await;
            let migration = self.migration(cell).await;
            self.is("VERIFY_RESIZE", Some(migration), &moved(self.home, target)).await;
            match end {
                End::Revert => self.act(json!({"revertResize": null}), "2.93", 202).await,
                End::Confirm => self.act(json!({"confirmResize": null}), "2.93", 204).await,
            }
            let at = if end == End::Revert { self.home } else { target };
            self.is("ACTIVE", Some(migration), &settled(at)).await;
        }
    }

    async fn goes_alive(&self, host: Option<&str>) {
        self.act(json!({"os-migrateLive": {"host": host, "block_migration": "auto"}}), "2.93", 202).await;
        let migration = self.migration("cell1").await;
        self.is("ACTIVE", Some(migration), &settled(self.other)).await;
    }

    async fn assert_evacuated(&self, host: Option<&str>) {
        self.stage.force_down(self.home, true).await;
        let body = host.map_or_else(|| json!({}), |host| json!({"host": host}));
        self.act(json!({"evacuate": body}), "2.93", 200).await;
        let migration = self.migration("cell1").await;
        self.stage.force_down(self.home, false).await;
        self.stage.paid(self.server).await;
        self.is("ACTIVE", Some(migration), &settled(self.other)).await;
    }

    async fn assert_offloaded(&self) {
        self.act(json!({"shelve": null}), "2.93", 202).await;
        self.is("SHELVED", None, &settled(self.home)).await;
        self.boss.act(self.server, json!({"shelveOffload": null})).await.expect(202);
        self.is("SHELVED_OFFLOADED", None, &[]).await;
    }

    async fn assert_unshelved_on(&self, host: &str) {
        self.assert_offloaded().await;
        self.act(json!({"unshelve": {"host": host}}), "2.93", 202).await;
        self.is("ACTIVE", None, &settled(host)).await;
    }

    async fn go(&self, way: Way) {
        match way {
            Way::Migrate => self.waits(json!({"migrate": {"host": self.other}}), "cell1", self.other).await,
            Way::MigrateAcross => self.waits(json!({"migrate": {"host": "cell2-host1"}}), "cell2", "cell2-host1").await,
            Way::Resize => self.waits(json!({"resize": {"flavorRef": "m1.small"}}), "cell1", self.other).await,
            Way::ResizeAcross => self.waits_across().await,
            Way::Live => self.goes_alive(None).await,
            Way::LiveToHost => self.goes_alive(Some(self.other)).await,
            Way::Evacuate => self.assert_evacuated(None).await,
            Way::EvacuateToHost => self.assert_evacuated(Some(self.other)).await,
            Way::ShelveInPlace => {
                self.act(json!({"shelve": null}), "2.93", 202).await;
                self.is("SHELVED", None, &settled(self.home)).await;
                self.act(json!({"unshelve": null}), "2.93", 202).await;
                self.is("ACTIVE", None, &settled(self.home)).await;
            }
            Way::UnshelveSame => self.assert_unshelved_on(self.home).await,
            Way::UnshelveOther => self.assert_unshelved_on(self.other).await,
            Way::UnshelveAcross => self.assert_unshelved_on("cell2-host2").await,
        }
    }

    /// The scheduler may choose either host of the other cell.
    async fn waits_across(&self) {
        self.act(json!({"resize": {"flavorRef": "gen2.small"}}), "2.93", 202).await;
        let (target, migration) = (self.stage.runs_on(self.server).await.pop_first().expect("a host"), self.migration("cell2").await);
        self.is("VERIFY_RESIZE", Some(migration), &moved(self.home, &target)).await;
        self.act(json!({"revertResize": null}), "2.93", 202).await;
        self.is("ACTIVE", Some(migration), &settled(self.home)).await;
    }
}

async fn trip<'a>(stage: &'a Stage, boss: &User, user: &User, kind: Kind, policy: &str) -> Trip<'a> {
    let mut networks = Vec::new();
    for request in kind.ports(policy) {
        networks.push(json!({"port": port_of(&stage.member, request).await}));
    }
    let new = stage.server().flavor("m1.tiny").with("networks", json!(networks)).on_host("cell1-host1");
    let server = stage.create_by(boss, new).await;
    Trip { stage, user: user.clone(), boss: boss.clone(), server, home: "cell1-host1", other: "cell1-host2" }
}

fn all_ways(form: Form, kind: Kind) {
    play_altered(
        configure,
        databases::place,
        move |parts| form.shown_by(parts),
        move |stage| async move {
            give_bridges(&stage).await;
            if form == Form::TwoGroups {
                give_card_rates(&stage).await;
            }
            let policy = policy(&stage, form.minimum(kind)).await;
            let boss = stage.user("boss", "demo", "admin").await;
            let users = [boss.clone(), stage.member.clone()];
            let trips: Vec<_> = users.iter().flat_map(|user| ALL.map(|way| (user, way))).collect();
            for (user, way) in faults::a_part_on_postgres(trips) {
                let trip = trip(&stage, &boss, user, kind, &policy).await;
                expect(&stage, trip.server, None, &settled(trip.home)).await;
                trip.go(way).await;
                stage.member.delete(&format!("/servers/{}", trip.server)).await.expect(204);
                stage.gone(trip.server).await;
                expect(&stage, trip.server, None, &[]).await;
            }
        },
    );
}

#[test]
fn every_way_in_the_old_form_on_bridges() {
    all_ways(Form::Port, Kind::Bridge);
}

#[test]
fn every_way_in_the_old_form_beside_a_plain_port() {
    all_ways(Form::Port, Kind::Mixed);
}

#[test]
fn every_way_in_the_old_form_with_a_physical_function() {
    all_ways(Form::Port, Kind::Function);
}

#[test]
fn every_way_with_one_group_on_bridges() {
    all_ways(Form::OneGroup, Kind::Bridge);
}

#[test]
fn every_way_with_one_group_beside_a_plain_port() {
    all_ways(Form::OneGroup, Kind::Mixed);
}

#[test]
fn every_way_with_a_physical_function() {
    all_ways(Form::OneGroup, Kind::Function);
}

#[test]
fn every_way_with_two_groups_on_bridges() {
    all_ways(Form::TwoGroups, Kind::Bridge);
}

#[test]
fn every_way_with_two_groups_beside_a_plain_port() {
    all_ways(Form::TwoGroups, Kind::Mixed);
}

#[test]
fn every_way_in_two_groups_with_a_physical_function() {
    all_ways(Form::TwoGroups, Kind::Function);
}

#[test]
fn every_way_with_a_physical_function_beside_a_bridge() {
    all_ways(Form::OneGroup, Kind::FunctionAndBridge);
}
