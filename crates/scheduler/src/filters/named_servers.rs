//! The hints `same_host` and `different_host`: the host of one of the named servers, or of none.

use super::{HostFilter, HostState, Reason, Request};
use cellshift_domain::scheduler_hints::{DIFFERENT_HOST, SAME_HOST, servers_named};

/// A server of `same_host` is on the host.
pub struct SameHostFilter;

/// No server of `different_host` is on the host.
pub struct DifferentHostFilter;

/// Returns the number of servers in the hint, and whether one of them is on the host.
fn judge(hint: &str, host: &HostState, request: &Request) -> (usize, bool) {
    let servers = servers_named(&request.demand.request_spec.scheduler_hints, hint);
    let is_here = servers.iter().any(|server| request.named_servers.get(server).is_some_and(|hosts| hosts.contains(host.name())));
    (servers.len(), is_here)
}

impl HostFilter for SameHostFilter {
    fn name(&self) -> &'static str {
        "SameHostFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        match judge(SAME_HOST, host, request) {
            (1.., false) => Err("has none of the servers that same_host names".into()),
            _ => Ok(()),
        }
    }
}

impl HostFilter for DifferentHostFilter {
    fn name(&self) -> &'static str {
        "DifferentHostFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        match judge(DIFFERENT_HOST, host, request) {
            (_, true) => Err("has a server that different_host names".into()),
            _ => Ok(()),
        }
    }
}
