//! The request as filters and weighers see it, and the rules on the hosts that it considers (INVARIANTS C1 to C5).

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::host_state::HostState;
use cellshift_domain::compute_host::PORT_REQUESTS_SINCE;
use cellshift_domain::reason;
use cellshift_domain::reason::Reason;
use cellshift_domain::scheduling::{OperationKind, PlannedMove, RequestedDestination, SelectDestinations};
use cellshift_domain::server_group::ServerGroup;

/// A request and the records that were looked up for it.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// The request as it arrived.
    pub demand: SelectDestinations,
    /// The server's group with all its members' hosts; none if the server is in no group.
    pub group: Option<ServerGroup>,
    /// The servers that hints name, each with its hosts.
    pub named_servers: BTreeMap<Uuid, Vec<String>>,
}

impl Request {
    fn destination(&self) -> Option<&RequestedDestination> {
        self.demand.requested_destination.as_ref()
    }

    /// Returns the cells to ask: one if the server may not leave it (INVARIANTS C1), else none, which means all.
    pub fn cells(&self) -> Option<Vec<String>> {
        self.confined_to().map(|cell| vec![cell.to_owned()])
    }

    /// Returns the cell that the server may not leave (INVARIANTS C1).
    pub fn confined_to(&self) -> Option<&str> {
        self.destination().filter(|destination| !destination.allow_cross_cell_move).and_then(|destination| destination.cell.as_deref())
    }

    /// Returns the cell that the cross-cell weigher compares with; none if the request prefers no cell (INVARIANTS C2, C3, C6).
    pub fn preferred_cell(&self) -> Option<&str> {
        let destination = self.destination().filter(|destination| destination.allow_cross_cell_move && destination.host.is_none())?;
        destination.cell.as_deref()
    }

    /// Returns the host that an administrator forced at creation. Moves ignore it (INVARIANTS C5).
    pub fn forced_host(&self) -> Option<&str> {
        self.demand.forced_host.as_deref().filter(|_| self.demand.operation == OperationKind::Create)
    }

    /// Returns the only suitable host: named or forced. It is tried alone (INVARIANTS C3).
    pub fn only_host(&self) -> Option<&str> {
        self.forced_host().or_else(|| self.destination().and_then(|destination| destination.host.as_deref()))
    }

    /// Returns the number of alternates if the configuration allows `max_attempts` tries (INVARIANTS C3, C8).
    pub fn alternates(&self, max_attempts: u32) -> usize {
        if self.only_host().is_some() {
            return 0;
        }
        let allowed = max_attempts.saturating_sub(1) as usize;
        self.demand.alternates.map_or(allowed, |number| number.min(allowed))
    }

    /// True if the request considers this host at all.
    pub fn in_scope(&self, host: &HostState) -> Result<(), Reason> {
        if let Some(cell) = self.confined_to().filter(|cell| *cell != host.cell.name) {
            return Err(reason!("not in cell {cell}"));
        }
        if let Some(only) = self.only_host().filter(|only| *only != host.name()) {
            return Err(reason!("not the requested host {only}"));
        }
        if self.demand.ignore_hosts.contains(host.name()) {
            return Err("ignored on request".into());
        }
        if !self.demand.port_requests.is_empty() && host.service.version < PORT_REQUESTS_SINCE {
            return Err(reason!("its service is too old (version {}) for ports with resource requests", host.service.version));
        }
        Ok(())
    }

    /// Counts planned moves of the group's other members as made.
    pub fn add_planned(&mut self, planned: &[PlannedMove]) {
        let Some(group) = &mut self.group else { return };
        for one in planned.iter().filter(|one| one.server != self.demand.request_spec.instance_uuid) {
            if let Some(hosts) = group.members.get_mut(&one.server).filter(|hosts| !hosts.contains(&one.host)) {
                hosts.push(one.host.clone());
            }
        }
    }

    /// Returns the traits that the provider must have: the request's and the flavor's.
    pub fn required_traits(&self) -> Vec<String> {
        let flavor = self.flavor_traits("required").map(str::to_owned);
        let all: BTreeSet<String> = self.demand.required_traits.iter().cloned().chain(flavor).collect();
        all.into_iter().collect()
    }

    /// Returns the traits of the flavor's `trait:<NAME>` extra specs with this value.
    pub fn flavor_traits<'a>(&'a self, value: &'a str) -> impl Iterator<Item = &'a str> {
        let specs = self.demand.request_spec.flavor.extra_specs.iter();
        specs.filter(move |(_, text)| text.as_str() == value).filter_map(|(key, _)| key.strip_prefix("trait:"))
    }

    /// Refuses a `trait:` extra spec that is neither `required` nor `forbidden`.
    pub fn validate(&self) -> Result<(), Reason> {
        for (key, value) in &self.demand.request_spec.flavor.extra_specs {
            if key.starts_with("trait:") && value != "required" && value != "forbidden" {
                return Err(reason!("flavor extra spec {key}={value}: a trait is either required or forbidden"));
            }
        }
        Ok(())
    }
}
