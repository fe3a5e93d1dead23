//! Tests that capacity is never exceeded, that usage equals a recount, that generations only grow, and that a repeated effect is done once.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellshift_domain::fence::Fence;
use cellshift_embedded::MIGRATIONS;
use cellshift_embedded::ServiceError;
use cellshift_embedded::placement::*;
use cellshift_env::{Blocking, Env, RandomIds, SystemClock};
use cellshift_store::Db;
use proptest::prelude::*;
use uuid::Uuid;

pub(crate) fn placement() -> (EmbeddedPlacement, Env) {
    let env = Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline);
    let db = Db::open("services", "", MIGRATIONS, &env).unwrap();
    (EmbeddedPlacement::new(db), env)
}

pub(crate) fn stock(total: i64, ratio: f64) -> BTreeMap<String, Inventory> {
    let inventory = Inventory { total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio: ratio };
    BTreeMap::from([("VCPU".to_owned(), inventory)])
}

fn vcpus(provider: Uuid, amount: i64) -> BTreeMap<Uuid, BTreeMap<String, i64>> {
    BTreeMap::from([(provider, BTreeMap::from([("VCPU".to_owned(), amount)]))])
}

pub(crate) fn claim(consumer: Uuid, generation: Option<i64>, allocations: BTreeMap<Uuid, BTreeMap<String, i64>>) -> Allocations {
    Allocations {
        consumer,
        consumer_generation: generation,
        project_id: "demo".into(),
        user_id: "user".into(),
        consumer_type: "INSTANCE".into(),
        allocations,
    }
}

pub(crate) fn fence(server: Uuid, attempt: i64) -> Fence {
    Fence { server, epoch: 1, attempt }
}

async fn assert_sound(placement: &EmbeddedPlacement) {
    let mut recount: BTreeMap<(Uuid, String), i64> = BTreeMap::new();
    for consumer in placement.all_allocations().await.unwrap() {
        assert!(!consumer.allocations.is_empty(), "a consumer without allocations was kept");
        for (provider, classes) in consumer.allocations {
            for (class, amount) in classes {
                *recount.entry((provider, class)).or_insert(0) += amount;
            }
        }
    }
    for provider in placement.providers().await.unwrap() {
        for (class, used) in &provider.usages {
            assert!(*used <= provider.inventories[class].capacity(), "{} is over capacity", provider.name);
            assert_eq!(*used, recount.get(&(provider.uuid, class.clone())).copied().unwrap_or(0), "usage differs from a recount");
        }
    }
}

/// A random step: the consumers that it changes, each with a wanted amount per provider (0: none).
type Step = Vec<(usize, [i64; 2], bool)>;

async fn run(placement: &EmbeddedPlacement, env: &Env, steps: Vec<Step>) {
    let providers = [env.uuid(), env.uuid()];
    for (n, uuid) in providers.iter().enumerate() {
        placement.ensure_provider(*uuid, &format!("{uuid}-{n}"), stock(5, 1.6), vec![]).await.unwrap();
    }
    let consumers: Vec<Uuid> = (0..4).map(|_| env.uuid()).collect();
    let mut generations: BTreeMap<Uuid, i64> = BTreeMap::new();
    for (attempt, step) in steps.into_iter().enumerate() {
        let mut changes: BTreeMap<Uuid, Allocations> = BTreeMap::new();
        for (who, amounts, stale) in step {
            let consumer = consumers[who];
            let seen = placement.allocations_of(consumer).await.unwrap().and_then(|now| now.consumer_generation);
            let generation = if stale { Some(seen.unwrap_or(0) + 7) } else { seen };
            let claims = providers.iter().zip(amounts).filter(|(_, n)| *n > 0).map(|(p, n)| (*p, BTreeMap::from([("VCPU".to_owned(), n)])));
            changes.insert(consumer, claim(consumer, generation, claims.collect()));
        }
        let before = placement.all_allocations().await.unwrap();
        let outcome = placement.replace_allocations(fence(consumers[0], attempt as i64), changes.into_values().collect()).await;
        if outcome.is_err() {
            assert_eq!(before, placement.all_allocations().await.unwrap(), "a refused change left something behind");
        }
        assert_sound(placement).await;
        for provider in placement.providers().await.unwrap() {
            let last = generations.insert(provider.uuid, provider.generation).unwrap_or(0);
            assert!(provider.generation >= last, "a generation decreased");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_of_changes_stays_within_capacity(
        steps in prop::collection::vec(prop::collection::vec((0usize..4, [0i64..7, 0i64..7], prop::bool::weighted(0.1)), 1..4), 1..25)
    ) {
        let (placement, env) = placement();
        futures::executor::block_on(run(&placement, &env, steps));
    }
}

#[tokio::test]
async fn a_repeated_effect_is_done_once_and_a_late_one_not_at_all() {
    let (placement, env) = placement();
    let (host, server, migration) = (env.uuid(), env.uuid(), env.uuid());
    placement.ensure_provider(host, "host1", stock(2, 1.0), vec![]).await.unwrap();
    placement.replace_allocations(fence(server, 1), vec![claim(server, None, vcpus(host, 2))]).await.unwrap();
    // The allocation moves from the server to the migration although the provider is full, because the sum does not grow.
    let hold = vec![claim(server, Some(1), BTreeMap::new()), claim(migration, None, vcpus(host, 2))];
    for _ in 0..2 {
        placement.replace_allocations(fence(server, 3), hold.clone()).await.unwrap();
        assert!(placement.allocations_of(server).await.unwrap().is_none());
        assert_eq!(placement.allocations_of(migration).await.unwrap().unwrap().allocations, vcpus(host, 2));
    }
    let late = placement.replace_allocations(fence(server, 2), vec![claim(migration, Some(1), BTreeMap::new())]).await;
    assert!(matches!(late, Err(ServiceError::Stale(_))), "{late:?}");
    assert!(placement.allocations_of(migration).await.unwrap().is_some());
    // For an API caller, a stale generation is a conflict even if nothing would change.
    let stale = placement.put_allocations(vec![claim(migration, None, vcpus(host, 2))]).await;
    assert!(matches!(stale, Err(ServiceError::Conflict(ref why)) if why.for_users().contains("generation conflict")), "{stale:?}");
    assert_sound(&placement).await;
}

#[tokio::test]
async fn an_unchanged_inventory_keeps_usage_and_generation() {
    let (placement, env) = placement();
    let (host, server) = (env.uuid(), env.uuid());
    let traits = vec!["COMPUTE_NODE".to_owned(), "CUSTOM_GOLD".to_owned()];
    placement.ensure_provider(host, "host1", stock(4, 1.0), traits.clone()).await.unwrap();
    placement.replace_allocations(fence(server, 1), vec![claim(server, None, vcpus(host, 3))]).await.unwrap();
    let before = placement.providers().await.unwrap();
    placement.ensure_provider(host, "host1", stock(4, 1.0), traits.clone()).await.unwrap();
    assert_eq!(before, placement.providers().await.unwrap());
    placement.ensure_provider(host, "host1", stock(8, 1.0), traits.clone()).await.unwrap();
    let after = placement.providers().await.unwrap().remove(0);
    assert_eq!((after.generation, after.usages["VCPU"], after.inventories["VCPU"].total), (before[0].generation + 1, 3, 8));
    placement.ensure_provider(host, "host1", BTreeMap::new(), vec![]).await.unwrap();
    assert_eq!(after, placement.providers().await.unwrap().remove(0), "a report adds, and takes nothing away");
    let emptied = placement.empty_provider(host).await;
    assert!(matches!(emptied, Err(ServiceError::Conflict(_))), "a class in use cannot go: {emptied:?}");
    placement.replace_allocations(fence(server, 2), vec![claim(server, Some(1), BTreeMap::new())]).await.unwrap();
    placement.empty_provider(host).await.unwrap();
    let after = placement.providers().await.unwrap().remove(0);
    assert!(after.inventories.is_empty() && after.traits.is_empty(), "{after:?}");
}

#[tokio::test]
async fn candidates_have_room_and_traits_in_the_order_of_their_names() {
    let (placement, env) = placement();
    let server = env.uuid();
    for (name, total, gold) in [("b", 4, true), ("a", 4, false), ("c", 1, true), ("d", 4, true)] {
        let traits = if gold { vec!["CUSTOM_GOLD".to_owned()] } else { vec![] };
        placement.ensure_provider(env.uuid(), name, stock(total, 1.0), traits).await.unwrap();
    }
    let two = |required: &[&str], limit: usize| HostDemand {
        resources: BTreeMap::from([("VCPU".to_owned(), 2)]),
        required: required.iter().map(|name| (*name).to_owned()).collect(),
        only: None,
        limit,
        first: 0,
    };
    let names = |offers: Vec<Offer>| offers.iter().map(|offer| offer.provider.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(placement.candidates(two(&[], 10)).await.unwrap()), ["a", "b", "d"]);
    assert_eq!(names(placement.candidates(two(&["CUSTOM_GOLD"], 10)).await.unwrap()), ["b", "d"]);
    for (first, expected) in [(1, ["b", "d"]), (2, ["d", "a"]), (3, ["d", "a"]), (4, ["a", "b"])] {
        let from = HostDemand { first, ..two(&[], 2) };
        assert_eq!(names(placement.candidates(from).await.unwrap()), expected, "from the place {first}");
    }
    let b = placement.candidates(two(&["CUSTOM_GOLD"], 1)).await.unwrap().remove(0);
    placement.replace_allocations(fence(server, 1), vec![claim(server, None, vcpus(b.provider.uuid, 3))]).await.unwrap();
    assert_eq!(names(placement.candidates(two(&["CUSTOM_GOLD"], 10)).await.unwrap()), ["d"]);
    let full = HostDemand { only: Some(b.provider.uuid), ..two(&[], 10) };
    assert!(placement.candidates(full).await.unwrap().is_empty(), "no other provider is offered instead");
}

#[tokio::test]
async fn candidates_keep_to_the_units_of_their_inventories() {
    let (placement, env) = placement();
    let any = Inventory { total: 8, reserved: 0, min_unit: 1, max_unit: 8, step_size: 1, allocation_ratio: 1.0 };
    for (name, inventory) in [
        ("any", any.clone()),
        ("pairs", Inventory { step_size: 2, ..any.clone() }),
        ("large", Inventory { min_unit: 4, ..any.clone() }),
        ("small", Inventory { max_unit: 2, ..any }),
    ] {
        placement.ensure_provider(env.uuid(), name, BTreeMap::from([("VCPU".to_owned(), inventory)]), vec![]).await.unwrap();
    }
    for (amount, expected) in
        [(1, vec!["any", "small"]), (2, vec!["any", "pairs", "small"]), (3, vec!["any"]), (4, vec!["any", "large", "pairs"]), (9, vec![])]
    {
        let resources = BTreeMap::from([("VCPU".to_owned(), amount), ("DISK_GB".to_owned(), 0)]);
        let candidates = placement.candidates(HostDemand { resources, limit: 10, ..HostDemand::default() }).await.unwrap();
        assert_eq!(candidates.iter().map(|offer| offer.provider.name.as_str()).collect::<Vec<_>>(), expected, "{amount}");
    }
}

/// Makes many claims concurrently, on a file or a server: as many succeed as fit, and the others are refused for capacity.
async fn race(url: &str) {
    let env = Env::system();
    let placement = EmbeddedPlacement::new(Db::open("services", url, MIGRATIONS, &env).unwrap());
    let hosts = [env.uuid(), env.uuid()];
    for host in hosts {
        placement.ensure_provider(host, &format!("host-{host}"), stock(5, 1.0), vec![]).await.unwrap();
    }
    let claims = (0..30).map(|n| {
        let (placement, server) = (placement.clone(), env.uuid());
        async move { placement.replace_allocations(fence(server, 1), vec![claim(server, None, vcpus(hosts[n % 2], 1))]).await }
    });
    let outcomes = futures::future::join_all(claims).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 10);
    assert!(outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).all(|e| e.to_string().contains("capacity")), "{outcomes:?}");
    assert_sound(&placement).await;
}

#[tokio::test]
async fn claims_at_once_on_sqlite_never_exceed_capacity() {
    let dir = tempfile::tempdir().unwrap();
    race(dir.path().join("services.db").to_str().unwrap()).await;
}

#[tokio::test]
async fn claims_at_once_on_postgres_never_exceed_capacity() {
    if let Some(url) = cellshift_store::fixture::fresh_postgres() {
        race(&url).await;
    }
}

#[tokio::test]
async fn a_renamed_class_is_found_by_its_new_name() {
    let (placement, env) = placement();
    placement.create_resource_class("CUSTOM_OLD".into()).await.unwrap();
    let stock = |class: &str| BTreeMap::from([(class.to_owned(), stock(4, 1.0).remove("VCPU").unwrap())]);
    let host = env.uuid();
    placement.ensure_provider(host, "host1", stock("CUSTOM_OLD"), vec![]).await.unwrap();
    let with = |class: &str| HostDemand { resources: BTreeMap::from([(class.to_owned(), 1)]), limit: 10, ..HostDemand::default() };
    assert_eq!(placement.candidates(with("CUSTOM_OLD")).await.unwrap().len(), 1);
    placement.rename_resource_class("CUSTOM_OLD".into(), "CUSTOM_NEW".into()).await.unwrap();
    assert_eq!(placement.candidates(with("CUSTOM_NEW")).await.unwrap().len(), 1);
    assert_eq!(placement.candidates(with("CUSTOM_OLD")).await.unwrap().len(), 0);
}
