//! Each weigher alone, by tables; and how weights become an order.

use super::super::fixtures::{aggregate, changed, create, group, host, move_from, request, resize_across, with_room};
use super::*;
use crate::domain::flavor::Resources;
use crate::domain::server_group::GroupPolicy;
use crate::saga::scheduling::{OperationKind, RequestedDestination};

fn weigher(name: &str) -> Box<dyn HostWeigher> {
    WEIGHERS.iter().find(|(known, _)| *known == name).map(|(_, make)| make()).unwrap()
}

/// Returns the names in order under one weigher.
fn names(hosts: &[HostState], request: &Request, weigher_name: &str, config: &SchedulerConfig) -> Vec<String> {
    order(hosts, request, &[weigher(weigher_name)], config).into_iter().map(|place| hosts[place].name().clone()).collect()
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
    let busy = |name: &str, in_flight| changed(host("cell1", name), |_, node| node.row.current_workload = in_flight);
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
    let named = move_from(OperationKind::Migrate, "cell1", "h1", RequestedDestination::of_move("cell1", Some("h2".into()), true));
    for (asked, home, away) in [(across, 1.0, -1.0), (confined, 0.0, 0.0), (named, 0.0, 0.0), (create("server"), 0.0, 0.0)] {
        let request = request(asked);
        let weights = [host("cell1", "h2"), host("cell2", "h3")].map(|host| weigher("CrossCellWeigher").weigh(&host, &request));
        assert_eq!(weights, [home, away], "{:?}", request.asked.requested_destination);
    }
}

#[test]
fn s6_the_multiplier_and_its_override_by_aggregates() {
    // One aggregate for each value.
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
    let hosts = vec![roomy, changed(host("cell1", "h9"), |_, node| node.row.current_workload = 9)];
    let config = SchedulerConfig::default();
    let order = order(&hosts, &request(resize_across()), &enabled(&config).unwrap(), &config);
    assert_eq!(hosts[order[0]].name(), "h9");
}
