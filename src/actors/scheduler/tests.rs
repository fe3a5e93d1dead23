//! Tests of the actor over the embedded placement and hand-made hosts: INVARIANTS C1 to C10, concurrent claims, bounds.

mod bursts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::Actor;
use cellshift_embedded::placement::EmbeddedPlacement;
use cellshift_neighbours::placement::intercepted::{Intercepted, Interceptor};
use cellshift_scheduler::testkit::{self, aggregate, create, disable, group, id, move_from, resize_across};
use parking_lot::Mutex;
use uuid::Uuid;

use super::host_state::{HostState, HostsOfCells};
use super::*;
use crate::db::{Db, Schema};
use crate::domain::compute_host::WhichHosts;
use crate::domain::host_network::VirtualFunction;
use crate::domain::reason::Reason;
use crate::domain::server_group::{GroupPolicy, ServerGroup};
use crate::env::{Blocking, Env, RandomIds, SystemClock};
use crate::saga::scheduling::{OperationKind, RequestedDestination, claim_candidate};
use crate::services::ServiceError;
use crate::services::placement::{Allocations, HostDemand, Inventory, Offer};

/// The cells' records, played by the test.
#[derive(Default)]
struct Cells {
    hosts: Mutex<Vec<HostState>>,
    silent: Mutex<Vec<String>>,
    groups: Mutex<Vec<ServerGroup>>,
    questions: Mutex<Vec<Option<Vec<String>>>>,
    hang: bool,
}

#[async_trait]
impl HostStates for Cells {
    async fn host_states(&self, cells: Option<Vec<String>>, hosts: WhichHosts) -> HostsOfCells {
        if self.hang {
            return futures::future::pending().await;
        }
        self.questions.lock().push(cells.clone());
        let silent = self.silent.lock().clone();
        let named = |host: &HostState| match &hosts {
            WhichHosts::All => true,
            WhichHosts::OfProviders(providers) => providers.contains(&host.provider()),
            WhichHosts::Named(name) => host.name() == name,
        };
        let is_included = |host: &&HostState| {
            named(host) && !silent.contains(&host.cell.name) && cells.as_ref().is_none_or(|cells| cells.contains(&host.cell.name))
        };
        HostsOfCells { hosts: self.hosts.lock().iter().filter(is_included).cloned().collect(), silent_cells: silent.clone() }
    }

    async fn free_functions(&self, _: &[HostState]) -> BTreeMap<String, Vec<VirtualFunction>> {
        BTreeMap::new()
    }

    async fn server_group(&self, group: Uuid) -> Result<Option<ServerGroup>, Reason> {
        Ok(self.groups.lock().iter().find(|row| row.uuid == group).cloned())
    }

    async fn hosts_of(&self, servers: &[Uuid]) -> Result<BTreeMap<Uuid, Vec<String>>, Reason> {
        let groups = self.groups.lock();
        let hosts = |server: &Uuid| groups.iter().find_map(|group| group.members.get(server)).cloned().unwrap_or_default();
        Ok(servers.iter().map(|server| (*server, hosts(server))).collect())
    }
}

/// A placement in which others take the last room of some hosts between the question and the claim.
#[derive(Default)]
struct Crowded {
    rush: Mutex<Vec<Uuid>>,
    /// Done when a claim is refused, before the scheduler hears of it.
    at_refusal: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

#[async_trait]
impl Interceptor for Crowded {
    async fn candidates(&self, placement: &dyn PlacementService, demand: HostDemand) -> Result<Vec<Offer>, ServiceError> {
        let candidates = placement.candidates(demand).await;
        let rush = std::mem::take(&mut *self.rush.lock());
        for provider in rush {
            let everything = BTreeMap::from([(provider, BTreeMap::from([("VCPU".to_owned(), 2)]))]);
            placement.replace_allocations(fence(Uuid::from_u128(7), 1), vec![stranger(provider, everything)]).await?;
        }
        candidates
    }

    async fn replace_allocations(
        &self,
        placement: &dyn PlacementService,
        fence: crate::domain::fence::Fence,
        changes: Vec<Allocations>,
    ) -> Result<(), ServiceError> {
        let outcome = placement.replace_allocations(fence, changes).await;
        if let Some(act) = self.at_refusal.lock().take_if(|_| outcome.is_err()) {
            act();
        }
        outcome
    }
}

fn fence(server: Uuid, attempt: i64) -> crate::domain::fence::Fence {
    crate::domain::fence::Fence { server, epoch: 0, attempt }
}

fn stranger(provider: Uuid, allocations: BTreeMap<Uuid, BTreeMap<String, i64>>) -> Allocations {
    Allocations {
        consumer: Uuid::new_v5(&provider, b"stranger"),
        consumer_generation: None,
        project_id: "other".into(),
        user_id: "other".into(),
        consumer_type: "INSTANCE".into(),
        allocations,
    }
}

struct SchedulerFixture {
    cells: Arc<Cells>,
    placement: Arc<Intercepted<Crowded>>,
    scheduler: SchedulerHandle,
}

/// Starts a scheduler over hosts with 2 VCPUs each.
async fn world_with(config: SchedulerConfig, cells: Cells) -> SchedulerFixture {
    let env = Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline);
    world_over(Db::open("services", "", Schema::Services, &env).unwrap(), config, cells).await
}

async fn world_over(db: Db, config: SchedulerConfig, cells: Cells) -> SchedulerFixture {
    let (env, placement) = (db.env().clone(), Arc::new(EmbeddedPlacement::new(db)));
    let hosts = cells.hosts.lock().clone();
    for host in hosts {
        let vcpus = Inventory { total: 2, reserved: 0, min_unit: 1, max_unit: 2, step_size: 1, allocation_ratio: 1.0 };
        placement.ensure_provider(host.provider(), host.name(), BTreeMap::from([("VCPU".to_owned(), vcpus)]), vec![]).await.unwrap();
    }
    let (cells, placement) = (Arc::new(cells), Arc::new(Intercepted::new(placement, Crowded::default())));
    let scheduler = Scheduler::new(config, placement.clone(), cells.clone(), &env).unwrap().start();
    SchedulerFixture { cells, placement, scheduler: SchedulerHandle::new(Address::new(scheduler), &env) }
}

async fn world(hosts: &[(&str, &str)]) -> SchedulerFixture {
    world_with(by_name(), cells(hosts)).await
}

/// Returns the configuration for tests that say which of several equal hosts is chosen.
fn by_name() -> SchedulerConfig {
    SchedulerConfig { shuffle_best_same_weighed_hosts: false, ..SchedulerConfig::default() }
}

fn cells(hosts: &[(&str, &str)]) -> Cells {
    let hosts = hosts.iter().map(|(cell, name)| testkit::host(cell, name)).collect();
    Cells { hosts: Mutex::new(hosts), ..Cells::default() }
}

/// Two cells. The server of the fixtures' moves is on h1.
const TWO_CELLS: &[(&str, &str)] = &[("cell1", "h1"), ("cell1", "h2"), ("cell2", "h3"), ("cell2", "h4")];

impl SchedulerFixture {
    /// Changes a host as its cell sees it.
    fn change(&self, name: &str, change: impl FnOnce(&mut HostState)) {
        change(self.cells.hosts.lock().iter_mut().find(|host| host.name() == name).unwrap());
    }

    /// Takes all room of a host for others.
    async fn fill(&self, name: &str) {
        let all = BTreeMap::from([(id(name), BTreeMap::from([("VCPU".to_owned(), 2)]))]);
        self.placement.replace_allocations(fence(id("filler"), 1), vec![stranger(id(name), all)]).await.unwrap();
    }

    async fn select(&self, demand: SelectDestinations) -> Result<Selection, SchedulingError> {
        self.scheduler.select_destinations(demand).await
    }

    /// Returns the chosen hosts: the primary, then the alternates.
    async fn chosen(&self, demand: SelectDestinations) -> Vec<String> {
        let selection = self.select(demand).await.unwrap();
        std::iter::once(selection.primary).chain(selection.alternates).map(|candidate| candidate.host).collect()
    }

    async fn refusal(&self, demand: SelectDestinations) -> String {
        match self.select(demand).await {
            Err(SchedulingError::NoValidHost { reason }) => {
                assert_eq!(reason.for_users(), "No valid host was found. There are not enough hosts available.", "all that users read");
                reason.to_string()
            }
            other => panic!("not a refusal: {other:?}"),
        }
    }

    /// Returns the hosts on which a server holds a claim.
    async fn claims(&self, server: &str) -> Vec<String> {
        let held = self.placement.allocations_of(id(server)).await.unwrap().map(|held| held.allocations).unwrap_or_default();
        let providers = self.placement.providers().await.unwrap();
        providers.into_iter().filter(|provider| held.contains_key(&provider.uuid)).map(|provider| provider.name).collect()
    }
}

fn resize(allow_cross_cell_move: bool) -> SelectDestinations {
    move_from(OperationKind::Resize, "cell1", "h1", RequestedDestination::of_move("cell1", None, allow_cross_cell_move))
}

fn migrate_to(host: &str, allow_cross_cell_move: bool) -> SelectDestinations {
    let destination = RequestedDestination::of_move("cell1", Some(host.to_owned()), allow_cross_cell_move);
    move_from(OperationKind::Migrate, "cell1", "h1", destination)
}

#[actix::test]
async fn s1_a_move_that_may_not_cross_asks_only_its_cell() {
    let world = world(TWO_CELLS).await;
    assert_eq!(world.chosen(resize(false)).await, ["h2"]);
    assert_eq!(world.cells.questions.lock().clone(), [Some(vec!["cell1".to_owned()])]);
    assert_eq!(world.claims("server").await, ["h2"]);
    world.fill("h1").await;
    world.change("h2", |host| host.up = false);
    assert_eq!(
        world.refusal(resize(false)).await,
        "No valid host was found. There are not enough hosts available. Of 3 hosts with room: 2 in cells that were not asked or did not \
         answer, ComputeFilter removed 1 (down). The server may not leave cell1: the policy compute:servers:resize:cross_cell does not \
         allow it."
    );
    assert_eq!(world.claims("server").await, Vec::<String>::new(), "the former try's claim is given up");
}

#[actix::test]
async fn s2_all_enabled_cells_are_asked_and_silent_ones_skipped() {
    let world = world(TWO_CELLS).await;
    assert_eq!(world.chosen(resize(true)).await, ["h2"]);
    assert_eq!(world.cells.questions.lock().clone(), [None]);
    world.cells.silent.lock().push("cell1".to_owned());
    assert_eq!(world.chosen(resize(true)).await, ["h3", "h4"]);
    world.cells.silent.lock().clear();
    for name in ["h1", "h2"] {
        world.change(name, |host| Arc::make_mut(&mut host.cell).disabled = true);
    }
    assert_eq!(world.chosen(resize(true)).await, ["h3", "h4"], "a disabled source cell contributes no host");
    *world.cells.silent.lock() = vec!["cell2".to_owned()];
    assert!(world.refusal(resize(true)).await.ends_with("; no answer from cell2."));
}

#[actix::test]
async fn s3_a_named_host_is_the_only_attempt_and_still_filtered() {
    let world = world(TWO_CELLS).await;
    assert_eq!(world.chosen(migrate_to("h4", true)).await, ["h4"]);
    assert_eq!(world.chosen(migrate_to("h2", true)).await, ["h2"]);
    let reason = world.refusal(migrate_to("h4", false)).await;
    assert!(reason.contains("in cells that were not asked"), "{reason}");
    world.change("h4", |host| disable(host, true));
    let reason = world.refusal(migrate_to("h4", true)).await;
    assert!(reason.contains("Of 1 host with room: ComputeFilter removed 1 (disabled)"), "{reason}");
    world.change("h4", |host| disable(host, false));
    let mut large = migrate_to("h4", true);
    large.resources.vcpu = 9;
    let reason = world.refusal(large).await;
    assert!(reason.contains("The requested host h4 does not have room for VCPU 9"), "{reason}");
    world.placement.interceptor.rush.lock().push(id("h4"));
    let reason = world.refusal(migrate_to("h4", true)).await;
    assert!(reason.contains("lost to other claims 1"), "{reason}");
    assert_eq!(world.claims("server").await, Vec::<String>::new(), "it never falls through to another host");
}

#[actix::test]
async fn s4_the_source_host_is_left_out() {
    let world = world(&[("cell1", "h1")]).await;
    let reason = world.refusal(resize(true)).await;
    assert!(reason.contains("Of 1 host with room: SourceHostFilter removed 1 (the server is on it)"), "{reason}");
    let ignoring = SelectDestinations { ignore_hosts: vec!["h1".to_owned()], ..create("server") };
    assert!(world.refusal(ignoring).await.contains("the request removed 1 (ignored on request)"));
}

#[actix::test]
async fn s5_a_forced_host_counts_at_creation_only() {
    let world = world(TWO_CELLS).await;
    let mut forced = SelectDestinations { forced_host: Some("h4".to_owned()), ..create("server") };
    forced.request_spec.flavor.extra_specs.insert("generation".to_owned(), "1".to_owned());
    assert_eq!(world.chosen(forced.clone()).await, ["h4"], "preferences do not judge a forced host");
    world.change("h4", |host| host.up = false);
    assert!(world.refusal(forced).await.contains("ComputeFilter removed 1 (down)"));
    let moved = SelectDestinations { forced_host: Some("h4".to_owned()), ..resize(true) };
    assert_eq!(world.chosen(moved).await, ["h2"]);
}

#[actix::test]
async fn s6_a_negative_multiplier_sends_moves_to_other_cells() {
    let config = SchedulerConfig { cross_cell_move_weight_multiplier: -1.0, ..by_name() };
    let world = world_with(config, cells(TWO_CELLS)).await;
    assert_eq!(world.chosen(resize(true)).await, ["h3", "h4"]);
}

#[actix::test]
async fn s7_filters_beat_the_preference_for_the_source_cell() {
    let world = world(TWO_CELLS).await;
    world.change("h3", |host| host.aggregates = [aggregate(&[("generation", "2")])].into());
    let mut pinned = resize_across();
    pinned.request_spec.flavor.extra_specs.insert("aggregate_instance_extra_specs:generation".to_owned(), "2".to_owned());
    assert_eq!(world.chosen(pinned).await, ["h3"]);

    let mut grouped = resize_across();
    grouped.request_spec.instance_group = Some(id("group"));
    let members: &[(&str, &[&str])] = &[("server", &["h1"]), ("a", &["h2"]), ("b", &["h3"])];
    world.cells.groups.lock().push(group(GroupPolicy::AntiAffinity, members));
    assert_eq!(world.chosen(grouped).await, ["h4"], "members count in all cells");

    let mut zoned = resize_across();
    zoned.request_spec.availability_zone = Some("cell1".to_owned());
    world.change("h2", |host| disable(host, true));
    let reason = world.refusal(zoned).await;
    assert!(reason.contains("AvailabilityZoneFilter removed 2 (not in availability zone cell1)"), "{reason}");
}

#[actix::test]
async fn s8_s9_alternates_are_of_the_primarys_cell_and_bounded() {
    let hosts = [("cell1", "h1"), ("cell1", "h2"), ("cell1", "h3"), ("cell1", "h4"), ("cell1", "h5"), ("cell2", "h6"), ("cell2", "h7")];
    let world = world(&hosts).await;
    let look = SelectDestinations { claim: false, ..resize(true) };
    assert_eq!(world.chosen(look.clone()).await, ["h2", "h3", "h4"], "three attempts in all");
    let few = SelectDestinations { alternates: Some(1), ..look.clone() };
    assert_eq!(world.chosen(few).await, ["h2", "h3"]);
    for name in ["h2", "h3", "h4"] {
        world.fill(name).await;
    }
    assert_eq!(world.chosen(look).await, ["h5"], "a primary in the source cell has no alternates elsewhere");
    world.fill("h5").await;
    let selection = world.select(resize(true)).await.unwrap();
    assert_eq!((selection.primary.cell.as_str(), selection.primary.availability_zone.as_deref()), ("cell2", Some("cell2")));
    let alternate = &selection.alternates[0];
    assert_eq!(alternate.host, "h7");

    // As a saga does if the primary refuses the server.
    let demand = resize(true);
    let claim = claim_candidate(world.placement.as_ref(), fence(id("server"), 2), id("server"), alternate, &demand.request_spec).await;
    claim.unwrap().left_to_undo();
    assert_eq!(world.claims("server").await, ["h7"]);
    assert!(matches!(world.select(demand).await, Err(SchedulingError::Stale { .. })), "attempt 1 is late now");
    assert_eq!(world.claims("server").await, ["h7"]);
}

#[actix::test]
async fn s8_a_lost_race_for_the_best_host_takes_the_next_best() {
    let world = world(&[("cell1", "h1"), ("cell1", "h2"), ("cell1", "h3"), ("cell1", "h4")]).await;
    world.placement.interceptor.rush.lock().push(id("h2"));
    assert_eq!(world.chosen(resize(true)).await, ["h3", "h4"]);
    assert_eq!(world.claims("server").await, ["h3"]);
}

#[actix::test]
async fn s10_many_hosts_of_one_cell_do_not_hide_another() {
    let config = SchedulerConfig { max_placement_results: 1, ..SchedulerConfig::default() };
    let world = world_with(config, cells(TWO_CELLS)).await;
    for only in ["h2", "h3", "h4"] {
        assert_eq!(world.chosen(migrate_to(only, true)).await, [only], "however placement orders its answer");
    }
}

#[actix::test]
async fn no_room_anywhere_says_what_was_wanted() {
    let world = world(TWO_CELLS).await;
    let mut demand = create("server");
    demand.resources.vcpu = 9;
    demand.request_spec.flavor.extra_specs.insert("trait:CUSTOM_FAST".to_owned(), "required".to_owned());
    assert_eq!(
        world.refusal(demand).await,
        "No valid host was found. There are not enough hosts available. No host has room for VCPU 9 and the traits CUSTOM_FAST."
    );
    let mut senseless = create("server");
    senseless.request_spec.flavor.extra_specs.insert("trait:CUSTOM_FAST".to_owned(), "maybe".to_owned());
    assert!(matches!(world.select(senseless).await, Err(SchedulingError::Invalid { .. })));
}

#[actix::test]
async fn asking_again_leaves_one_claim_even_where_only_one_fits() {
    let world = world(&[("cell1", "h1"), ("cell1", "h2")]).await;
    let demand = SelectDestinations { resources: crate::domain::flavor::Resources { vcpu: 2, ..Default::default() }, ..resize(true) };
    for _ in 0..2 {
        assert_eq!(world.chosen(demand.clone()).await, ["h2"]);
        assert_eq!(world.claims("server").await, ["h2"]);
    }
    let look = SelectDestinations { claim: false, consumer: id("nobody"), ..create("nobody") };
    assert_eq!(world.chosen(look).await, ["h1"]);
    assert_eq!(world.claims("nobody").await, Vec::<String>::new());
}

#[actix::test]
async fn members_that_move_at_once_keep_apart() {
    // On the blocking pool, so that decisions interleave.
    let directory = tempfile::tempdir().unwrap();
    let url = directory.path().join("services.db").display().to_string();
    let db = Db::open("services", &url, Schema::Services, &Env::system()).unwrap();
    let world = world_over(db, SchedulerConfig::default(), cells(&[("cell1", "h1"), ("cell2", "h2")])).await;
    let servers = ["a", "b", "c"];
    let members: Vec<(&str, &[&str])> = servers.iter().map(|server| (*server, &[] as &[&str])).collect();
    world.cells.groups.lock().push(group(GroupPolicy::AntiAffinity, &members));
    let decisions = servers.map(|server| {
        let mut demand = create(server);
        demand.request_spec.instance_group = Some(id("group"));
        world.select(demand)
    });
    let outcomes = futures::future::join_all(decisions).await;
    let mut hosts: Vec<String> = outcomes.into_iter().flatten().map(|selection| selection.primary.host).collect();
    hosts.sort();
    assert_eq!(hosts, ["h1", "h2"], "two hosts take two members, the third is refused");
}

#[actix::test]
async fn waiting_is_bounded() {
    tokio::time::pause();
    let config = SchedulerConfig { max_in_flight: 1, deadline: 5, ..SchedulerConfig::default() };
    let world = world_with(config, Cells { hang: true, ..cells(TWO_CELLS) }).await;
    let outcomes = futures::future::join(world.select(resize(true)), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.select(create("other")).await
    });
    let (first, second) = outcomes.await;
    assert_eq!(first, Err(SchedulingError::Unavailable { reason: "no decision within 5 s".into() }));
    assert_eq!(second, Err(SchedulingError::Unavailable { reason: "busy: too many requests at once".into() }));
}
