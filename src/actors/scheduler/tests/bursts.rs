//! Decisions that are made at once, by one scheduler or by the schedulers of two processes, spread over hosts that are equal.

use std::collections::BTreeSet;

use super::*;
use crate::domain::flavor::Resources;

/// Creates 160 servers on 20 equal hosts, from eight clients at once, which use these further schedulers and the world's own in turn. Returns
/// how far the fullest host and the emptiest are apart.
async fn spread_of_a_burst(further_schedulers: usize) -> i64 {
    // On the blocking pool, so that decisions interleave.
    let directory = tempfile::tempdir().unwrap();
    let (env, url) = (Env::system(), directory.path().join("services.db").display().to_string());
    let db = Db::open("services", &url, Schema::Services, &env).unwrap();
    let names: Vec<(String, String)> = (0..20).map(|number| (format!("cell{}", number % 4), format!("h{number:02}"))).collect();
    let named: Vec<(&str, &str)> = names.iter().map(|(cell, name)| (cell.as_str(), name.as_str())).collect();
    let world = world_over(db, SchedulerConfig::default(), cells(&named)).await;
    for (_, name) in &named {
        let vcpus = Inventory { total: 64, reserved: 0, min_unit: 1, max_unit: 64, step_size: 1, allocation_ratio: 1.0 };
        world.placement.ensure_provider(id(name), name, BTreeMap::from([("VCPU".to_owned(), vcpus)]), vec![]).await.unwrap();
    }
    let further = (0..further_schedulers).map(|_| {
        let scheduler = Scheduler::new(SchedulerConfig::default(), world.placement.clone(), world.cells.clone(), &env).unwrap();
        SchedulerHandle::new(Address::new(scheduler.start()), &env)
    });
    let schedulers: Vec<SchedulerHandle> = std::iter::once(world.scheduler.clone()).chain(further).collect();
    let client = async |client: usize| {
        for number in 0..20 {
            let scheduler = &schedulers[client % schedulers.len()];
            let chosen = scheduler.select_destinations(create(&format!("server {number} of {client}"))).await.unwrap();
            chosen.claimed.unwrap().left_to_undo();
        }
    };
    futures::future::join_all((0..8).map(client)).await;
    let used: Vec<i64> = world.placement.providers().await.unwrap().into_iter().map(|provider| provider.usages["VCPU"]).collect();
    assert_eq!((used.len(), used.iter().sum::<i64>()), (20, 160), "{used:?}");
    used.iter().max().unwrap() - used.iter().min().unwrap()
}

#[actix::test]
async fn a_burst_spreads_over_equal_hosts() {
    assert!(spread_of_a_burst(0).await <= 2);
}

#[actix::test]
async fn a_burst_of_two_processes_spreads_over_equal_hosts() {
    assert!(spread_of_a_burst(1).await <= 2);
}

#[actix::test]
async fn a_lost_race_counts_what_others_chose_meanwhile() {
    let world = world(&[("cell1", "h1"), ("cell1", "h2"), ("cell1", "h3"), ("cell1", "h4")]).await;
    let decider = Decider::new(by_name(), world.placement.clone(), world.cells.clone(), &Env::system()).unwrap();
    let rival = decider.assumed.look();
    world.placement.interceptor.rush.lock().push(id("h2"));
    let amounts = Resources { vcpu: 1, ..Resources::default() };
    *world.placement.interceptor.at_refusal.lock() = Some(Box::new(move || std::mem::forget(rival.assume(id("rival"), id("h3"), amounts))));
    let chosen = decider.select(resize(true)).await.unwrap();
    assert_eq!(chosen.primary.host, "h4", "another decision has chosen h3 since");
    chosen.claimed.unwrap().left_to_undo();
    let explained = decider.explain(SelectDestinations { claim: false, consumer: id("nobody"), ..create("nobody") }, &[]).await.unwrap();
    assert_eq!(explained.destinations[0].host, "h1", "explanations count it, too");
    assert!(explained.destinations[0].weight > explained.destinations[1].weight, "{:?}", explained.destinations);
}

#[actix::test]
async fn an_answer_that_is_cut_off_hides_no_host_for_long() {
    let names: Vec<String> = (0..20).map(|number| format!("h{number:02}")).collect();
    let hosts: Vec<(&str, &str)> = names.iter().map(|name| ("cell1", name.as_str())).collect();
    let world = world_with(SchedulerConfig { max_placement_results: 5, ..SchedulerConfig::default() }, cells(&hosts)).await;
    let mut chosen = BTreeSet::new();
    for number in 0..20 {
        let selection = world.select(create(&format!("server {number}"))).await.unwrap();
        selection.claimed.unwrap().left_to_undo();
        chosen.insert(selection.primary.host);
    }
    // Two servers fit on a host: the first five would take ten, and the first ten twenty.
    assert!(chosen.len() > 10, "{chosen:?}");
}
