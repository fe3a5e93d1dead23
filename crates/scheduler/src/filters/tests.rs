//! Each filter alone, by tables.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::testkit::{aggregate, changed, create, group, host, id, move_from, request, resize_across, with_room, with_traits};
use cellshift_domain::flavor::Resources;
use cellshift_domain::request_spec::image_demands;
use cellshift_domain::scheduling::{OperationKind, RequestedDestination};
use cellshift_domain::server_group::GroupPolicy;

fn filter(name: &str, config: &SchedulerConfig) -> Box<dyn HostFilter> {
    FILTERS.iter().find(|(entry, _)| *entry == name).map(|(_, make)| make(config)).unwrap()
}

fn passes(name: &str, host: &HostState, request: &Request) -> bool {
    filter(name, &SchedulerConfig::default()).passes(host, request).is_ok()
}

#[test]
fn each_filter_has_its_name_and_unknown_names_are_refused() {
    let config = SchedulerConfig::default();
    for (name, make) in FILTERS {
        assert_eq!(make(&config).name(), *name);
    }
    assert_eq!(enabled(&config).unwrap().len(), DEFAULT.len());
    let wrong = SchedulerConfig { enabled_filters: vec!["ComputeFilter".into(), "RamFilter".into()], ..config };
    let error = enabled(&wrong).err().unwrap().to_string();
    assert!(error.starts_with("[scheduler] enabled_filters: there is no RamFilter; known are ComputeFilter,"), "{error}");
}

#[test]
fn a_host_must_be_up_and_in_use() {
    let request = request(create("server"));
    for (up, disabled, forced_down, pass) in
        [(true, false, false, true), (false, false, false, false), (true, true, false, false), (true, false, true, false)]
    {
        let host = HostState {
            up,
            ..changed(host("cell1", "h1"), |service, _| (service.disabled, service.forced_down) = (disabled, forced_down))
        };
        assert_eq!(passes("ComputeFilter", &host, &request), pass, "{up} {disabled} {forced_down}");
    }
}

#[test]
fn a_disabled_cell_takes_only_moves_within_it() {
    let mut host = host("cell1", "h2");
    Arc::make_mut(&mut host.cell).disabled = true;
    let within = move_from(OperationKind::Migrate, "cell1", "h1", RequestedDestination::of_move("cell1", None, false));
    let from_outside = move_from(OperationKind::Migrate, "cell2", "h3", RequestedDestination::of_move("cell2", Some("h2".into()), true));
    for (demand, pass) in [(create("server"), false), (within, true), (resize_across(), false), (from_outside, false)] {
        assert_eq!(passes("CellEnabledFilter", &host, &request(demand.clone())), pass, "{demand:?}");
    }
}

#[test]
fn s4_a_move_leaves_its_host_unless_it_may_stay() {
    use OperationKind::{Create, Migrate, Resize};
    // operation, on the source host, node's trait, passes
    let rows = [
        (Resize, true, false, false),
        (Resize, true, true, false),
        (Resize, false, false, true),
        (Migrate, true, false, false),
        (Migrate, true, true, true),
        (Create, true, false, true),
    ];
    for (operation, at_home, can_migrate, pass) in rows {
        let mut host = host("cell1", if at_home { "h1" } else { "h2" });
        if can_migrate {
            host = with_traits(host, &[source_host::SAME_HOST_COLD_MIGRATE]);
        }
        let request = request(move_from(operation, "cell1", "h1", RequestedDestination::of_move("cell1", None, true)));
        let verdict = filter("SourceHostFilter", &SchedulerConfig::default()).passes(&host, &request);
        assert_eq!(verdict.is_ok(), pass, "{operation:?} {at_home} {can_migrate}");
    }
}

#[test]
fn a_pinned_zone_holds_and_no_zone_means_anywhere() {
    let rows = [(None, true), (Some("cell1"), true), (Some("cell2"), false)];
    let host = host("cell1", "h1");
    for (zone, pass) in rows {
        let mut demand = create("server");
        demand.request_spec.availability_zone = zone.map(str::to_owned);
        assert_eq!(passes("AvailabilityZoneFilter", &host, &request(demand)), pass, "{zone:?}");
    }
}

#[test]
fn flavor_extra_specs_are_met_by_aggregates() {
    let spec = "aggregate_instance_extra_specs:generation";
    let host = HostState {
        aggregates: [aggregate(&[("generation", "2, 3"), ("ssd", "true")]), aggregate(&[("zone", "a")])].into(),
        ..host("cell1", "h1")
    };
    for (specs, pass) in [
        (vec![], true),
        (vec![(spec, "2")], true),
        (vec![(spec, "1")], false),
        (vec![(spec, "<or> 1 <or> 3")], true),
        (vec![(spec, "= 3")], true),
        (vec![(spec, "2"), ("aggregate_instance_extra_specs:ssd", "true")], true),
        (vec![(spec, "2"), ("aggregate_instance_extra_specs:ssd", "false")], false),
        // A key without a scope may mean anything.
        (vec![("ssd", "false"), ("quality", "gold")], true),
        (vec![("aggregate_instance_extra_specs:missing", "1")], false),
        (vec![("hw:cpu_policy", "dedicated")], true),
    ] {
        let mut demand = create("server");
        demand.request_spec.flavor.extra_specs = specs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        assert_eq!(passes("AggregateInstanceExtraSpecsFilter", &host, &request(demand)), pass, "{specs:?}");
    }
}

#[test]
fn extra_spec_operators() {
    // The aggregate's value, what the flavor wants, met
    let rows = [
        ("1", "1", true),
        ("1", "2", false),
        ("", "", true),
        ("12", "= 11", true),
        ("12", "= 13", false),
        ("12", ">= 12.0", true),
        ("12", "<= 11", false),
        ("12", "== 12.0", true),
        ("12", "!= 12", false),
        ("twelve", "= 1", false),
        ("12", "= one", false),
        ("12", "==", false),
        ("a", "s== a", true),
        ("a", "s!= a", false),
        ("a", "s< b", true),
        ("b", "s<= a", false),
        ("b", "s> a", true),
        ("b", "s>= b", true),
        ("gen2", "<in> gen", true),
        ("gen2", "<in> old", false),
        ("a b c", "<all-in> a c", true),
        ("a b c", "<all-in> a d", false),
        ("3", "<or> 2 <or> 3", true),
        ("4", "<or> 2 <or> 3", false),
        ("<or>", "<or> 2 <or> 3", false),
        ("x", "<or>", false),
        ("~ 1", "~ 1", true),
    ];
    for (value, condition, met) in rows {
        assert_eq!(extra_specs_ops::matches(value, condition), met, "{value:?} {condition:?}");
    }
}

#[test]
fn a_forbidden_trait_removes_its_hosts() {
    let host = with_traits(host("cell1", "h1"), &["CUSTOM_OLD"]);
    for (name, value, pass) in [("CUSTOM_OLD", "forbidden", false), ("CUSTOM_NEW", "forbidden", true), ("CUSTOM_OLD", "required", true)] {
        let mut demand = create("server");
        demand.request_spec.flavor.extra_specs.insert(format!("trait:{name}"), value.to_owned());
        assert_eq!(passes("ForbiddenTraitsFilter", &host, &request(demand)), pass, "{name} {value}");
    }
}

#[test]
fn each_hard_group_policy_has_its_filter() {
    use GroupPolicy as P;
    let rows = [
        (P::AntiAffinity, "h1", "ServerGroupAntiAffinityFilter", false),
        (P::AntiAffinity, "h2", "ServerGroupAntiAffinityFilter", true),
        (P::AntiAffinity, "h1", "ServerGroupAffinityFilter", true),
        (P::Affinity, "h1", "ServerGroupAffinityFilter", true),
        (P::Affinity, "h2", "ServerGroupAffinityFilter", false),
        (P::SoftAntiAffinity, "h1", "ServerGroupAntiAffinityFilter", true),
        (P::SoftAffinity, "h2", "ServerGroupAffinityFilter", true),
    ];
    for (policy, on, filter, pass) in rows {
        let request = Request { group: Some(group(policy, &[("other", &["h1"]), ("server", &["h3"])])), ..request(create("server")) };
        assert_eq!(passes(filter, &host("cell1", on), &request), pass, "{policy} {on} {filter}");
    }
}

#[test]
fn capabilities_are_what_the_host_has() {
    let described = changed(host("cell1", "h1"), |_, node| {
        node.cpu_info = json!({"arch": "x86_64", "maxphysaddr": {"bits": 46}, "topology": {"sockets": 2}});
    });
    let (total, free) = ((16, 4096, 100), (6, 1024, 10));
    let [total, free] = [total, free].map(|(vcpu, memory_mb, disk_gb)| Resources { vcpu, memory_mb, disk_gb });
    let host = with_room(described, total, free);
    for (key, condition, pass) in [
        ("capabilities:hypervisor_type", "simulated", true),
        ("capabilities:hypervisor_type", "s== QEMU", false),
        ("capabilities:cpu_info:topology:sockets", ">= 2", true),
        ("capabilities:cpu_info:topology:sockets", ">= 4", false),
        ("capabilities:cpu_info:model", "new", false),
        ("capabilities:colour", "blue", false),
        ("capabilities:vcpus_used", "<= 10", true),
        ("capabilities:free_ram_mb", ">= 2048", false),
        // Without a scope only what is known of hosts is judged.
        ("free_ram_mb", ">= 1024", true),
        ("free_ram_mb", ">= 2048", false),
        ("colour", "blue", true),
        ("hw:maxphysaddr_bits", "46", true),
        ("hw:maxphysaddr_bits", "48", false),
        ("hw:cpu_policy", "dedicated", true),
    ] {
        let mut demand = create("server");
        demand.request_spec.flavor.extra_specs.insert(key.to_owned(), condition.to_owned());
        assert_eq!(passes("ComputeCapabilitiesFilter", &host, &request(demand)), pass, "{key} {condition}");
    }
}

#[test]
fn an_image_is_run_by_the_hosts_that_it_asks_for() {
    let host = changed(host("cell1", "h1"), |_, node| {
        (node.hypervisor_type, node.hypervisor_version) = ("QEMU".to_owned(), 2_006_001);
        node.cpu_info = json!({"arch": "x86_64", "maxphysaddr": {"bits": 46}});
    });
    for (property, value, pass) in [
        ("hw_architecture", "x86_64", true),
        ("hw_architecture", "AMD64", true),
        ("architecture", "aarch64", false),
        ("hw_architecture", "aarch64", false),
        ("img_hv_type", "qemu", true),
        ("hypervisor_type", "xen", false),
        ("hw_vm_mode", "hvm", true),
        ("vm_mode", "xen", false),
        ("img_hv_requested_version", ">=2.6, <3.0", true),
        ("img_hv_requested_version", "<2.6", false),
        ("img_hv_requested_version", "new", false),
        ("hw_maxphysaddr_bits", "46", true),
        ("hw_maxphysaddr_bits", "52", false),
        ("os_distro", "anything", true),
    ] {
        let mut demand = create("server");
        demand.request_spec.image_properties = image_demands(&[(property.to_owned(), value.to_owned())].into());
        assert_eq!(passes("ImagePropertiesFilter", &host, &request(demand)), pass, "{property} {value}");
    }
}

#[test]
fn hints_name_servers_networks_and_queries() {
    let (one, two) = (id("one"), id("two"));
    let host = changed(host("cell1", "h1"), |_, node| node.host_ip = "10.0.1.7".to_owned());
    for (name, hints, pass) in [
        ("SameHostFilter", json!({}), true),
        ("SameHostFilter", json!({"same_host": one}), true),
        ("SameHostFilter", json!({"same_host": [two, one]}), true),
        ("SameHostFilter", json!({"same_host": two}), false),
        ("SameHostFilter", json!({"same_host": id("gone")}), false),
        ("DifferentHostFilter", json!({"different_host": one}), false),
        ("DifferentHostFilter", json!({"different_host": [two, one]}), false),
        ("DifferentHostFilter", json!({"different_host": [two, id("gone")]}), true),
        ("SimpleCIDRAffinityFilter", json!({}), true),
        ("SimpleCIDRAffinityFilter", json!({"build_near_host_ip": "10.0.1.1"}), true),
        ("SimpleCIDRAffinityFilter", json!({"build_near_host_ip": "10.0.1.1", "cidr": "/30"}), false),
        ("JsonFilter", json!({}), true),
        ("JsonFilter", json!({"query": "[\"=\", \"$host\", \"h1\"]"}), true),
        ("JsonFilter", json!({"query": "[\"=\", \"$host\", \"h2\"]"}), false),
    ] {
        let mut demand = create("server");
        demand.request_spec.scheduler_hints = hints.as_object().unwrap().clone().into_iter().collect();
        let named_servers = [(one, vec!["h1".to_owned()]), (two, vec!["h2".to_owned()])].into();
        let request = Request { named_servers, ..request(demand) };
        assert_eq!(passes(name, &host, &request), pass, "{name} {hints}");
    }
}
