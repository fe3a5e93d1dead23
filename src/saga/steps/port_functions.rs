//! The virtual functions (SR-IOV) of a server's ports. A host gives each such port a function of the physical function that placement has
//! charged for the port, so the choice of a host is followed by the wishes that the host's claim carries.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::domain::host_network::{EGRESS_BANDWIDTH, FunctionWish, INGRESS_BANDWIDTH, device_in};
use crate::domain::reason;
use crate::domain::reason::Reason;
use crate::saga::context::{PortShare, ServerFacts};
use crate::saga::error::StepError;
use crate::saga::world::World;

/// The names of providers by their ids.
type Names = BTreeMap<Uuid, String>;

/// Returns the virtual functions that the server's ports need at the target. If the name of a charged provider has no device, no other host is
/// tried: an administrator must mend the name.
pub async fn wishes(world: &World, facts: &ServerFacts) -> Result<Vec<FunctionWish>, StepError> {
    let wanting: Vec<(Uuid, &PortShare, &String)> =
        facts.shares.iter().flatten().filter_map(|(port, share)| Some((*port, share, share.function_on.as_ref()?))).collect();
    if wanting.is_empty() {
        return Ok(Vec::new());
    }
    let tree = world.placement.trees(Some(vec![facts.target()?.provider])).await?;
    let names: Names = tree.into_iter().map(|(provider, _)| (provider.uuid, provider.name)).collect();
    let wish = |(port, share, network): (Uuid, &PortShare, &String)| {
        let parent_ifname = parent(port, share, &names)?;
        Ok(FunctionWish { port, physical_network: network.clone(), parent_ifname })
    };
    wanting.into_iter().map(wish).collect()
}

/// Returns the interface of the physical function that gives the port its bandwidth; none if the port asks for no bandwidth.
fn parent(port: Uuid, share: &PortShare, names: &Names) -> Result<Option<String>, StepError> {
    let (Some(request), Some(allocation)) = (&share.request, &share.at_target) else { return Ok(None) };
    let grants = request.grants(allocation).map_err(|why| StepError::Refused(Reason::public(why)))?;
    let is_bandwidth = |class: &String| [EGRESS_BANDWIDTH, INGRESS_BANDWIDTH].contains(&class.as_str());
    let charged: BTreeSet<Uuid> =
        grants.iter().filter(|grant| grant.resources.keys().any(is_bandwidth)).map(|grant| grant.provider).collect();
    match charged.into_iter().collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [only] => device(port, *only, names).map(Some),
        several => Err(StepError::Refused(reason!(
            "Allocating resources from multiple resource providers {several:?} for a single pci request {port} is not supported."
        ))),
    }
}

fn device(port: Uuid, provider: Uuid, names: &Names) -> Result<String, StepError> {
    let name = names.get(&provider).map(String::as_str).unwrap_or_default();
    device_in(name).map(str::to_owned).ok_or_else(|| {
        StepError::Refused(reason!(
            "Resource provider {provider} used to allocate resources for the pci request {port} does not have a properly formatted name. \
             Expected name format is <hostname>:<agentname>:<interfacename>, but got {name}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::port_request::PortRequest;

    const PORT: Uuid = Uuid::from_u128(1);
    const CARD: Uuid = Uuid::from_u128(2);
    const AGENT: Uuid = Uuid::from_u128(3);

    fn names(card: &str) -> Names {
        Names::from([(CARD, card.to_owned()), (AGENT, "h:NIC Switch agent".to_owned())])
    }

    fn share(request: serde_json::Value, at_target: serde_json::Value) -> PortShare {
        let request = PortRequest::read(PORT, Some(&request)).unwrap();
        PortShare { request, at_target: Some(at_target), ..PortShare::default() }
    }

    #[test]
    fn a_function_lies_below_the_provider_of_the_bandwidth() {
        let old = share(json!({"resources": {EGRESS_BANDWIDTH: 1}}), json!(CARD));
        assert_eq!(parent(PORT, &old, &names("h:NIC Switch agent:ens2")).unwrap().as_deref(), Some("ens2"));
        let (bandwidth, rate) = (Uuid::from_u128(8), Uuid::from_u128(9));
        let groups = json!([{"id": bandwidth, "resources": {INGRESS_BANDWIDTH: 1}}, {"id": rate, "resources": {"RATE": 1}}]);
        let both = share(json!({"request_groups": groups}), json!({bandwidth.to_string(): CARD, rate.to_string(): AGENT}));
        assert_eq!(parent(PORT, &both, &names("h:NIC Switch agent:ens1")).unwrap().as_deref(), Some("ens1"));
        let groups = json!([{"id": bandwidth, "resources": {INGRESS_BANDWIDTH: 1}}, {"id": rate, "resources": {EGRESS_BANDWIDTH: 1}}]);
        let split = share(json!({"request_groups": groups}), json!({bandwidth.to_string(): CARD, rate.to_string(): AGENT}));
        let why = parent(PORT, &split, &names("h:NIC Switch agent:ens1")).unwrap_err().to_string();
        assert!(why.contains("multiple resource providers"), "{why}");
        assert_eq!(parent(PORT, &PortShare::default(), &Names::new()).unwrap(), None);
    }

    #[test]
    fn a_provider_whose_name_has_no_device_is_refused() {
        for name in ["ens2", "h:NIC Switch agent", "a:b:c:d"] {
            let old = share(json!({"resources": {EGRESS_BANDWIDTH: 1}}), json!(CARD));
            let why = parent(PORT, &old, &names(name)).unwrap_err().to_string();
            assert!(why.contains("properly formatted name") && why.ends_with(name), "{why}");
        }
    }
}
