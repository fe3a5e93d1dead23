//! Fits an experiment's file to a running service. The service's cloud and users replace those of the file, which the answer says; demands
//! that no running service can meet are refused.

use super::{complaint, possible};
use crate::chaos::experiment::check::Complaint;
use crate::chaos::experiment::fault::{PlannedFault, What, When};
use crate::chaos::experiment::scenario::{Expect, Scenario, Topology, Workload};

/// Replaces the file's cloud and users by the service's own, and returns sentences that say so.
pub(super) fn fitted(scenario: Scenario, own: Topology) -> (Scenario, Vec<String>) {
    let mut left_out = Vec::new();
    if scenario.topology != Topology::default() {
        left_out.push("topology: the service has its own cells, hosts and conductors".to_owned());
    }
    let mut fitted = Scenario { topology: own, ..scenario };
    if fitted.workload == Workload::default() {
        return (fitted, left_out);
    }
    left_out.push("workload: the users are the service's own, and faults at steps wait for what these ask for".to_owned());
    // The seed draws its faults over the same seconds.
    fitted.workload = Workload { seconds: fitted.workload.seconds, ..Workload::default() };
    let expect = fitted.expect.clone();
    let counted = [
        ("arrived", expect.arrived.is_some()),
        ("returned", expect.returned.is_some()),
        ("lives", expect.lives.is_some()),
        ("servers_in_error", expect.servers_in_error.is_some()),
    ];
    let keys = counted.into_iter().filter(|(_, is_named)| *is_named).map(|(key, _)| format!("expect.{key}"));
    let keys: Vec<String> = keys.collect();
    if !keys.is_empty() {
        left_out.push(format!("{}: the file counts what its own users do", keys.join(", ")));
    }
    fitted.expect = Expect { arrived: None, returned: None, lives: None, servers_in_error: None, ..expect };
    (fitted, left_out)
}

/// Returns the demands of the file that a cluster of processes cannot meet, if the command that starts it makes the users.
pub fn unfit_for_cluster(scenario: &Scenario) -> Vec<Complaint> {
    let mut complaints = unfit(scenario, true);
    if scenario.faults.is_none() {
        complaints.push(complaint("faults", "the seed draws faults that a cluster cannot have: name them"));
    }
    if scenario.workload.actions() > 0 {
        complaints.push(complaint("workload.actions", "the users of a cluster only make journeys: it must be 0"));
    }
    for (number, fault) in scenario.faults.iter().flatten().enumerate() {
        if fault.what == What::Restart && matches!(fault.when, When::Step(_)) {
            complaints.push(complaint(&format!("faults[{number}].what"), "an experiment on a cluster ends with the controller's process"));
        }
    }
    complaints
}

/// Returns the demands of the file that a running service cannot meet. With `agents`, its hosts are processes of their own.
pub(super) fn unfit(scenario: &Scenario, agents: bool) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let abort = &scenario.abort;
    for (key, is_named) in [
        ("abort.violations", abort.violations.is_some()),
        ("abort.failed_answers", abort.failed_answers.is_some()),
        ("abort.servers_in_error", abort.servers_in_error.is_some()),
    ] {
        if is_named {
            complaints.push(complaint(key, "nobody watches for it in a running service, which has only `abort.after_seconds`"));
        }
    }
    let faults = scenario.faults.iter().flatten().enumerate();
    let impossible = |(number, fault): (usize, &PlannedFault)| {
        possible(&format!("faults[{number}].what"), &fault.what, matches!(fault.when, When::Step(_)), agents)
    };
    complaints.extend(faults.filter_map(impossible));
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::experiment::check;
    use crate::chaos::experiment::shipped::SHIPPED;

    #[test]
    fn a_cluster_refuses_what_needs_another_process() {
        let refused: Vec<(&str, String)> = SHIPPED
            .iter()
            .filter_map(|file| Some((file.name, unfit_for_cluster(&check::read(file.text).unwrap()).first()?.key.clone())))
            .collect();
        let refused: Vec<(&str, &str)> = refused.iter().map(|(name, key)| (*name, key.as_str())).collect();
        let expected = [
            ("a-bad-day", "abort.violations"),
            ("actors-stand-still", "faults[1].what.pause.actor"),
            ("clock-goes-back", "faults[0].what"),
            ("drain-whose-controller-dies", "faults[0].what"),
            ("evacuated-host-dies-and-returns", "faults[0].what.host_off"),
            ("host-returns-without-guests", "faults[0].what.host_off"),
            ("live-source-dies-after-switch-over", "faults[0].what.host_off"),
            ("many-faults-for-few-servers", "faults"),
            ("process-killed-during-confirm", "faults[0].what"),
            ("target-host-dies-mid-spawn", "faults[0].what.host_off"),
        ];
        assert_eq!(refused, expected);
    }

    #[test]
    fn agents_have_no_fault_of_a_host_in_the_process() {
        let cluster = |what: &str| {
            let text = format!("[[workload.journeys]]\n[[faults]]\nwhen = {{ at_ms = 1 }}\nwhat = {what}");
            unfit_for_cluster(&check::read(&text).unwrap()).into_iter().map(|complaint| complaint.key).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(cluster("{ kill = { actor = \"cell1/cell1-host1\" } }"), none);
        assert_eq!(cluster("{ host_crash = { host = \"cell1-host1\" } }"), none);
        assert_eq!(cluster("{ kill = { actor = \"hosts/cell1\" } }"), ["faults[0].what.kill.actor"]);
        assert_eq!(cluster("{ driver = { host = \"cell1-host1\", operation = \"start\" } }"), ["faults[0].what.driver"]);
        assert_eq!(cluster("\"restart\""), ["faults[0].what"]);
    }
}
