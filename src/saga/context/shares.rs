//! The shares of a server's ports in the resources of its hosts' networks, at the source and at the target of an operation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{Place, ServerFacts};
use crate::domain::host_network::{VirtualFunction, takes_function};
use crate::domain::port_request::PortRequest;
use crate::domain::reason;
use crate::saga::error::StepError;
use crate::saga::scheduling::Candidate;
use crate::services::network::{FunctionKeys, HostKey, HostKeys, Port, PortBinding};

/// The share of one port.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PortShare {
    /// The resources that the port asks for now; none if it asks for nothing.
    #[serde(default)]
    pub request: Option<PortRequest>,
    /// The `allocation` of the port's binding at the source.
    #[serde(default)]
    pub at_source: Option<Value>,
    /// The `allocation` of the port's binding at the target.
    #[serde(default)]
    pub at_target: Option<Value>,
    /// The physical network on which the port needs a virtual function of its host; none for a port of a bridge.
    #[serde(default)]
    pub function_on: Option<String>,
    /// The port's virtual function at the source.
    #[serde(default)]
    pub function_at_source: Option<FunctionKeys>,
    /// The port's virtual function at the target, from the host's claim on.
    #[serde(default)]
    pub function_at_target: Option<FunctionKeys>,
}

/// The shares of a server's ports, by port. A port that asks for nothing and has nothing has none.
pub type Shares = BTreeMap<Uuid, PortShare>;

/// Returns the share of a port whose source is on this host. Fails with the reason if the port's request cannot be read.
pub fn share_of(port: &Port, source: Option<&str>) -> Result<PortShare, String> {
    let request = PortRequest::read(port.id, port.resource_request.as_ref())?;
    let here = port.bindings.iter().find(|binding| Some(binding.host.as_str()) == source);
    Ok(PortShare {
        request,
        at_source: here.and_then(|binding| binding.allocation().cloned()),
        function_on: port.physical_network.clone().filter(|_| takes_function(&port.vnic_type)),
        function_at_source: here.and_then(PortBinding::function),
        ..PortShare::default()
    })
}

impl PortShare {
    /// Returns what the port needs of its host, for the scheduler; none if it needs nothing.
    pub fn need(&self, port: Uuid) -> Option<PortRequest> {
        let request = self.request.clone().or_else(|| self.function_on.as_ref().map(|_| PortRequest::of_nothing(port)))?;
        Some(PortRequest { function_on: self.function_on.clone(), ..request })
    }
}

impl ServerFacts {
    /// Returns what the ports need of their host, for the scheduler.
    pub fn port_requests(&self) -> Vec<PortRequest> {
        self.shares.iter().flatten().filter_map(|(port, share)| share.need(*port)).collect()
    }

    /// Makes a host that placement has been claimed from the target, with the providers that it gives to the ports. Refused if a port got none.
    pub fn go_to(&mut self, candidate: &Candidate) -> Result<(), StepError> {
        self.target = Some(Place::from(candidate));
        for share in self.shares.iter_mut().flat_map(BTreeMap::values_mut) {
            share.function_at_target = None;
            share.at_target = share.request.as_ref().and_then(|request| request.allocation(&candidate.grants));
        }
        self.check_shares()
    }

    /// Refuses a target that names no providers for a port that asks for resources. Called before any port is written.
    pub fn check_shares(&self) -> Result<(), StepError> {
        let short = self.shares.iter().flatten().find(|(_, share)| share.request.is_some() && share.at_target.is_none());
        match short {
            Some((port, _)) => Err(StepError::Refused(reason!(
                "Port update failed for port {port}: no resource providers came along for its resource request, which its host needs. If \
                 the cloud is being upgraded, try again when all its compute services are."
            ))),
            None => Ok(()),
        }
    }

    /// Notes the virtual functions that the target's host has given to ports.
    pub fn take_functions(&mut self, functions: &BTreeMap<Uuid, VirtualFunction>) {
        for (port, share) in self.shares.iter_mut().flatten() {
            share.function_at_target = functions.get(port).map(FunctionKeys::from);
        }
    }

    /// Returns the keys that the binding of a port to this host has, or is to get.
    pub fn host_key(&self, port: Uuid, host: &str) -> HostKey {
        let at = |place: &Option<Place>| place.as_ref().is_some_and(|place| place.host == host);
        let share = self.shares.as_ref().and_then(|shares| shares.get(&port)).cloned().unwrap_or_default();
        match self.shares.is_some() && at(&self.target) {
            true => HostKey::Are(HostKeys { allocation: share.at_target, function: share.function_at_target }),
            false if at(&self.source) => HostKey::Kept { or: HostKeys { allocation: share.at_source, function: share.function_at_source } },
            false => HostKey::Kept { or: HostKeys::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::context::RequestContext;
    use crate::domain::port_request::Grant;
    use crate::saga::context::{Context, Request};

    const PORT: Uuid = Uuid::from_u128(1);

    fn facts() -> Context {
        let mut context = Context::new(Uuid::nil(), RequestContext::default(), Uuid::nil(), Request::Revert);
        let request = PortRequest::read(PORT, Some(&json!({"resources": {"A": 1}}))).unwrap();
        context.shares = Some(Shares::from([(PORT, PortShare { request, at_source: Some(json!("x")), ..PortShare::default() })]));
        context
    }

    fn candidate(grants: Vec<Grant>) -> Candidate {
        let text = || "h".to_owned();
        let (cell_uuid, provider, allocation) = (Uuid::nil(), Uuid::nil(), BTreeMap::new());
        Candidate { cell: text(), cell_uuid, host: text(), node: text(), provider, availability_zone: None, allocation, grants }
    }

    #[test]
    fn a_target_without_providers_for_a_port_is_refused() {
        let mut facts = facts();
        let why = facts.go_to(&candidate(Vec::new())).unwrap_err();
        assert!(why.to_string().starts_with(&format!("Port update failed for port {PORT}")), "{why}");
        let grant = Grant { group: PORT, provider: Uuid::from_u128(7), resources: BTreeMap::new() };
        facts.go_to(&candidate(vec![grant])).unwrap();
        let keys = HostKeys { allocation: Some(json!(Uuid::from_u128(7))), function: None };
        assert_eq!(facts.host_key(PORT, "h"), HostKey::Are(keys));
        assert_eq!(facts.host_key(PORT, "elsewhere"), HostKey::Kept { or: HostKeys::default() });
    }
}
