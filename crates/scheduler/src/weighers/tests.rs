//! Each weigher alone, by tables; and how weights become an order.

use std::collections::BTreeMap;

use super::*;
use crate::testkit::{aggregate, changed, create, group, host, move_from, request, resize_across, with_room};
use cellshift_domain::flavor::Resources;
use cellshift_domain::scheduling::{OperationKind, RequestedDestination};
use cellshift_domain::server_group::GroupPolicy;

fn weigher(name: &str) -> Box<dyn HostWeigher> {
    WEIGHERS.iter().find(|(entry, _)| *entry == name).map(|(_, make)| make()).unwrap()
}

/// Returns the names in order under one weigher.
fn names(hosts: &[HostState], request: &Request, weigher_name: &str, config: &SchedulerConfig) -> Vec<String> {
    let by_name = SchedulerConfig { shuffle_best_same_weighed_hosts: false, ..config.clone() };
    let order = order(hosts, request, &[weigher(weigher_name)], &by_name, &mut Random::new(7, "ties"));
    order.into_iter().map(|place| hosts[place].name().clone()).collect()
}

#[test]
fn unknown_weighers_are_refused() {
    let config = SchedulerConfig { weighers: vec!["CoinWeigher".into()], ..SchedulerConfig::default() };
    let error = enabled(&config).err().unwrap().to_string();
    assert!(error.starts_with("[scheduler] weighers: there is no CoinWeigher; known are CrossCellWeigher,"), "{error}");
}

#[test]
fn room_is_preferred_and_a_negative_multiplier_fills_up() {
    let with =
        |name: &str, vcpu, memory_mb, disk_gb| with_room(host("cell1", name), Resources::default(), Resources { vcpu, memory_mb, disk_gb });
    let hosts = vec![with("h1", 1, 200, 30), with("h2", 2, 300, 10), with("h3", 3, 100, 20)];
    let request = request(create("server"));
    let config = SchedulerConfig::default();
    for (name, expected) in [("CPUWeigher", ["h3", "h2", "h1"]), ("RAMWeigher", ["h2", "h1", "h3"]), ("DiskWeigher", ["h1", "h3", "h2"])] {
        assert_eq!(names(&hosts, &request, name, &config), expected, "{name}");
    }
    let fill = SchedulerConfig { ram_weight_multiplier: -1.0, ..config };
    assert_eq!(names(&hosts, &request, "RAMWeigher", &fill), ["h3", "h1", "h2"]);
}

#[test]
fn quiet_hosts_are_preferred_and_equal_ones_stand_by_name() {
    let busy = |name: &str, in_flight| changed(host("cell1", name), |_, node| node.current_workload = in_flight);
    let hosts = vec![busy("h3", 1), busy("h2", 4), busy("h1", 1)];
    assert_eq!(names(&hosts, &request(create("server")), "IoOpsWeigher", &SchedulerConfig::default()), ["h1", "h3", "h2"]);
}

#[test]
fn soft_policies_bring_together_or_apart() {
    let members: &[(&str, &[&str])] = &[("a", &["h2"]), ("b", &["h2"]), ("c", &["h1"]), ("server", &["h3"])];
    let hosts = vec![host("cell1", "h1"), host("cell2", "h2"), host("cell2", "h3")];
    let rows = [
        (GroupPolicy::SoftAffinity, "ServerGroupSoftAffinityWeigher", ["h2", "h1", "h3"]),
        (GroupPolicy::SoftAntiAffinity, "ServerGroupSoftAntiAffinityWeigher", ["h3", "h1", "h2"]),
        (GroupPolicy::AntiAffinity, "ServerGroupSoftAntiAffinityWeigher", ["h1", "h2", "h3"]),
    ];
    for (policy, name, expected) in rows {
        let request = Request { group: Some(group(policy, members)), ..request(create("server")) };
        assert_eq!(names(&hosts, &request, name, &SchedulerConfig::default()), expected, "{policy}");
    }
}

#[test]
fn s6_the_cross_cell_weight() {
    let across = resize_across();
    let confined = move_from(OperationKind::Resize, "cell1", "h1", RequestedDestination::of_move("cell1", None, false));
    let to_named_host = move_from(OperationKind::Migrate, "cell1", "h1", RequestedDestination::of_move("cell1", Some("h2".into()), true));
    for (demand, home, away) in [(across, 1.0, -1.0), (confined, 0.0, 0.0), (to_named_host, 0.0, 0.0), (create("server"), 0.0, 0.0)] {
        let request = request(demand);
        let weights = [host("cell1", "h2"), host("cell2", "h3")].map(|host| weigher("CrossCellWeigher").weigh(&host, &request));
        assert_eq!(weights, [home, away], "{:?}", request.demand.requested_destination);
    }
}

#[test]
fn s6_the_multiplier_and_its_override_by_aggregates() {
    // The host is in an aggregate for each value.
    let here = |values: &[&str]| {
        let aggregates = values.iter().map(|value| aggregate(&[("cross_cell_move_weight_multiplier", value)])).collect();
        HostState { aggregates, ..host("cell1", "h9") }
    };
    let there = host("cell2", "h2");
    // The configured multiplier, the values in the home host's aggregates, the first host.
    let rows: &[(f64, &[&str], &str)] = &[
        (1_000_000.0, &[], "h9"),
        (-1.0, &[], "h2"),
        (0.0, &[], "h2"), // equal: by name
        (1.0, &["-5"], "h2"),
        (1.0, &["3", "-5"], "h2"), // the least of several
        (1.0, &["much"], "h9"),    // no number: as configured
        (1.0, &["much", "-5"], "h9"),
        (1.0, &["NaN"], "h9"),
    ];
    for (multiplier, values, first) in rows {
        let config = SchedulerConfig { cross_cell_move_weight_multiplier: *multiplier, ..SchedulerConfig::default() };
        let order = names(&[there.clone(), here(values)], &request(resize_across()), "CrossCellWeigher", &config);
        assert_eq!(order[0], *first, "{multiplier} {values:?}");
    }
}

#[test]
fn s6_one_cell_outweighs_all_other_preferences() {
    let roomy = with_room(host("cell2", "h2"), Resources::default(), Resources { vcpu: 64, memory_mb: 1 << 20, disk_gb: 9000 });
    let hosts = vec![roomy, changed(host("cell1", "h9"), |_, node| node.current_workload = 9)];
    let config = SchedulerConfig::default();
    let order = order(&hosts, &request(resize_across()), &enabled(&config).unwrap(), &config, &mut Random::new(7, "ties"));
    assert_eq!(hosts[order[0]].name(), "h9");
}

/// Returns the orders that 400 seeds give to hosts with this much free memory, each with the number of seeds.
fn orders(free: &[i64], config: &SchedulerConfig) -> BTreeMap<Vec<usize>, usize> {
    let with = |(number, memory_mb): (usize, &i64)| {
        with_room(host("cell1", &format!("h{number}")), Resources::default(), Resources { memory_mb: *memory_mb, ..Resources::default() })
    };
    let hosts: Vec<HostState> = free.iter().enumerate().map(with).collect();
    let mut seen = BTreeMap::new();
    for seed in 0..400 {
        let draw = || order(&hosts, &request(create("server")), &[weigher("RAMWeigher")], config, &mut Random::new(seed, "ties"));
        assert_eq!(draw(), draw(), "a seed gives one order");
        *seen.entry(draw()).or_insert(0) += 1;
    }
    seen
}

#[test]
fn the_best_hosts_of_the_same_weight_come_in_random_order() {
    let config = SchedulerConfig::default();
    let seen = orders(&[1, 5, 3, 5, 3, 5], &config);
    assert!(seen.keys().all(|order| order[3..] == [2, 4, 0]), "those that are not the best stand by name: {seen:?}");
    assert!(seen.len() == 6 && seen.values().all(|times| *times > 30), "{seen:?}");
    let by_name = SchedulerConfig { shuffle_best_same_weighed_hosts: false, ..config };
    assert_eq!(orders(&[1, 5, 3, 5, 3, 5], &by_name), BTreeMap::from([(vec![1, 3, 5, 2, 4, 0], 400)]));
}

#[test]
fn a_host_subset_size_draws_from_the_best_so_many() {
    let config = SchedulerConfig { host_subset_size: 3, ..SchedulerConfig::default() };
    let seen = orders(&[1, 2, 3, 4], &config);
    assert_eq!(seen.keys().cloned().collect::<Vec<_>>(), [[1, 3, 2, 0], [2, 3, 1, 0], [3, 2, 1, 0]], "the others keep their order");
    assert!(seen.values().all(|times| *times > 80), "{seen:?}");
    let more_than_there_are = SchedulerConfig { host_subset_size: 9, ..config };
    assert_eq!(orders(&[1, 2], &more_than_there_are).len(), 2);
    assert!(orders(&[], &more_than_there_are).contains_key(&Vec::new()));
}
