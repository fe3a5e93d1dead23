//! Fits an experiment's file to a running service. The service's cloud and users replace those of the file, which the answer says; demands
//! that no running service can meet are refused.

use super::{complaint, possible};
use crate::chaos::experiment::check::Complaint;
use crate::chaos::experiment::fault::{PlannedFault, When};
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

/// Returns the demands of the file that a running service cannot meet.
pub(super) fn unfit(scenario: &Scenario) -> Vec<Complaint> {
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
        possible(&format!("faults[{number}].what"), &fault.what, matches!(fault.when, When::Step(_)))
    };
    complaints.extend(faults.filter_map(impossible));
    complaints
}
