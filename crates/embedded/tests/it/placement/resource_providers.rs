//! Tests of the providers below a host's own.

use std::collections::BTreeMap;

use cellshift_domain::host_network::{HostNetwork, NetworkProvider, provider_id};
use cellshift_embedded::ServiceError;
use cellshift_embedded::placement::{ChildProvider, EmbeddedPlacement, Identity, Inventory, PlacementService, ReportedTree};
use uuid::Uuid;

use crate::placement::capacity::{claim, fence, placement, stock};

/// Returns the providers that a host with this network reports.
fn reported(network: &HostNetwork, root: Uuid) -> Vec<ChildProvider> {
    network.providers("host1").into_iter().map(|one| child(one, root)).collect()
}

fn child(one: NetworkProvider, root: Uuid) -> ChildProvider {
    let inventory = |total: i64| Inventory { total, reserved: 0, min_unit: 1, max_unit: total, step_size: 1, allocation_ratio: 1.0 };
    ChildProvider {
        uuid: one.id,
        name: one.name,
        parent: one.parent.unwrap_or(root),
        inventories: one.totals.into_iter().map(|(class, total)| (class, inventory(total))).collect(),
        traits: one.traits,
    }
}

async fn names(placement: &EmbeddedPlacement) -> Vec<String> {
    placement.providers().await.unwrap().into_iter().map(|provider| provider.name).collect()
}

#[tokio::test]
async fn a_repeated_report_changes_nothing_and_a_new_one_what_differs() {
    let (placement, env) = placement();
    let root = env.uuid();
    placement.ensure_provider(root, "host1", stock(4, 1.0), vec![]).await.unwrap();
    let whole = HostNetwork::default();
    placement.ensure_children(root, reported(&whole, root)).await.unwrap();
    let before = placement.provider_tree().await.unwrap();
    let bridge = before.iter().find(|(provider, _)| provider.name.ends_with("br-physnet0")).unwrap();
    assert_eq!(bridge.1, Some(provider_id("host1:Open vSwitch agent")));
    assert_eq!(bridge.0.inventories["NET_BW_EGR_KILOBIT_PER_SEC"].capacity(), 10_000_000);
    placement.ensure_children(root, reported(&whole, root)).await.unwrap();
    assert_eq!(placement.provider_tree().await.unwrap(), before);
    // Somebody's own provider below the host is not the host's to remove.
    let own = Identity { uuid: env.uuid(), name: "accelerator".into(), parent: Some(root) };
    placement.create_provider(own).await.unwrap();
    placement.ensure_children(root, reported(&whole.without_functions(), root)).await.unwrap();
    assert_eq!(names(&placement).await, ["accelerator", "host1", "host1:Open vSwitch agent", "host1:Open vSwitch agent:br-physnet0"]);
    placement.ensure_children(root, Vec::new()).await.unwrap();
    assert_eq!(names(&placement).await, ["accelerator", "host1"]);
}

#[tokio::test]
async fn trees_made_together_are_as_those_made_alone() {
    let (together, env) = placement();
    let (alone, _) = placement();
    let tree = |name: &str| {
        let network = HostNetwork::default();
        let uuid = env.uuid();
        let children = network.providers(name).into_iter().map(|one| child(one, uuid)).collect();
        ReportedTree { uuid, name: name.to_owned(), inventories: stock(4, 1.0), children }
    };
    let trees = ["host1", "host2", "host3"].map(tree);
    together.ensure_trees(trees.to_vec()).await.unwrap();
    for tree in &trees {
        alone.ensure_provider(tree.uuid, &tree.name, tree.inventories.clone(), vec![]).await.unwrap();
        alone.ensure_children(tree.uuid, tree.children.clone()).await.unwrap();
    }
    assert_eq!(together.provider_tree().await.unwrap(), alone.provider_tree().await.unwrap());
    let made = together.provider_tree().await.unwrap();
    together.ensure_trees(trees.to_vec()).await.unwrap();
    assert_eq!(together.provider_tree().await.unwrap(), made);
}

#[tokio::test]
async fn a_new_host_takes_over_the_providers_that_a_lost_one_left() {
    let (placement, env) = placement();
    let (lost, new) = (env.uuid(), env.uuid());
    placement.ensure_provider(lost, "host1-lost", stock(4, 1.0), vec![]).await.unwrap();
    placement.ensure_children(lost, reported(&HostNetwork::default(), lost)).await.unwrap();
    let tree =
        ReportedTree { uuid: new, name: "host1".into(), inventories: stock(4, 1.0), children: reported(&HostNetwork::default(), new) };
    placement.ensure_trees(vec![tree.clone()]).await.unwrap();
    let agent = placement.provider(provider_id("host1:Open vSwitch agent")).await.unwrap();
    assert_eq!(agent.1, Some(new));
    let namesake = ReportedTree { uuid: env.uuid(), children: Vec::new(), ..tree };
    assert!(placement.ensure_trees(vec![namesake]).await.is_err(), "another host has this name");
}

#[tokio::test]
async fn a_bridge_that_went_while_in_use_keeps_what_is_used() {
    let (placement, env) = placement();
    let (root, server) = (env.uuid(), env.uuid());
    placement.ensure_provider(root, "host1", stock(4, 1.0), vec![]).await.unwrap();
    placement.ensure_children(root, reported(&HostNetwork::default(), root)).await.unwrap();
    let bridge = provider_id("host1:Open vSwitch agent:br-physnet0");
    let share = BTreeMap::from([(bridge, BTreeMap::from([("NET_BW_EGR_KILOBIT_PER_SEC".to_owned(), 2_000_000)]))]);
    placement.replace_allocations(fence(server, 1), vec![claim(server, None, share)]).await.unwrap();
    for _ in 0..2 {
        placement.ensure_children(root, Vec::new()).await.unwrap();
        let (left, _) = placement.provider(bridge).await.unwrap();
        let egress = &left.inventories["NET_BW_EGR_KILOBIT_PER_SEC"];
        assert_eq!((left.inventories.len(), egress.capacity(), left.usages["NET_BW_EGR_KILOBIT_PER_SEC"]), (1, 2_000_000, 2_000_000));
    }
    placement.replace_allocations(fence(server, 2), vec![claim(server, Some(1), BTreeMap::new())]).await.unwrap();
    placement.ensure_children(root, Vec::new()).await.unwrap();
    assert_eq!(names(&placement).await, ["host1"]);
}

#[tokio::test]
async fn providers_below_no_host_and_too_large_ones_are_refused() {
    let (placement, env) = placement();
    let root = env.uuid();
    let orphans = placement.ensure_children(root, reported(&HostNetwork::default(), root)).await;
    assert!(matches!(orphans, Err(ServiceError::NotFound(_))), "{orphans:?}");
    placement.ensure_provider(root, "host1", stock(4, 1.0), vec![]).await.unwrap();
    let mut large = reported(&HostNetwork::default(), root);
    large[0].inventories.values_mut().for_each(|inventory| inventory.total = i64::from(i32::MAX) + 1);
    let refused = placement.ensure_children(root, large).await;
    assert!(matches!(refused, Err(ServiceError::Invalid(_))), "{refused:?}");
    assert_eq!(names(&placement).await, ["host1"]);
}
