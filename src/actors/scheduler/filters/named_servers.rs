//! The hints `same_host` and `different_host`: a host of one of the servers they name, or of none of them.

use super::{HostFilter, HostState, Reason, Request};
use crate::domain::scheduler_hints::{DIFFERENT_HOST, SAME_HOST, servers_named};

/// Some server named in `same_host` is on the host.
pub struct SameHostFilter;

/// None of the servers in `different_host` is on the host.
pub struct DifferentHostFilter;

/// How many servers the hint names, and whether one of them is on the host.
fn judge(hint: &str, host: &HostState, request: &Request) -> (usize, bool) {
    let named = servers_named(&request.asked.request_spec.scheduler_hints, hint);
    let is_here = named.iter().any(|server| request.named_servers.get(server).is_some_and(|hosts| hosts.contains(&host.host)));
    (named.len(), is_here)
}

impl HostFilter for SameHostFilter {
    fn name(&self) -> &'static str {
        "SameHostFilter"
    }

    fn passes(&self, host: &HostState, request: &Request) -> Result<(), Reason> {
        match judge(SAME_HOST, host, request) {
            (1.., false) => Err("has none of the servers that same_host names".to_owned()),
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
            (_, true) => Err("has a server that different_host names".to_owned()),
            _ => Ok(()),
        }
    }
}
