//! The virtual functions of a host: claimed with the room, kept through a restart, and free again with the claim.

use std::collections::BTreeSet;

use cellshift_domain::flavor::Resources;
use cellshift_domain::host_network::{FunctionWish, HostNetwork, VirtualFunction};
use cellshift_domain::host_protocol::{HostCommand, HostReply};
use uuid::Uuid;

use super::{World, obey, start};
use crate::{Host, HostParts};

const PORT: Uuid = Uuid::from_u128(0x50);

fn parts(world: &World) -> HostParts {
    world.parts(HostNetwork { virtual_functions: 2, ..HostNetwork::default() }.functions())
}

fn wish(port: Uuid, parent: &str) -> FunctionWish {
    FunctionWish { port, physical_network: "physnet0".into(), parent_ifname: Some(parent.into()) }
}

async fn claim(world: &World, host: &Host, server: u128, functions: Vec<FunctionWish>) -> HostReply {
    let server = Uuid::from_u128(server);
    let command = HostCommand::Claim { holder: server, resources: Resources { vcpu: 1, memory_mb: 1, disk_gb: 1 }, functions };
    obey(host, world.request(server, command)).await
}

fn functions(reply: HostReply) -> Vec<VirtualFunction> {
    match reply {
        HostReply::Claimed { functions } => functions.into_values().collect(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn each_port_gets_a_free_function_of_its_device() {
    let world = World::new();
    let host = start(&parts(&world)).await;
    let two = functions(claim(&world, &host, 1, vec![wish(PORT, "ens2"), wish(Uuid::from_u128(0x51), "ens2")]).await);
    assert!(two.iter().all(|function| function.parent_ifname == "ens2"), "{two:?}");
    assert_eq!(two.iter().map(|function| &function.pci_slot).collect::<BTreeSet<_>>().len(), 2);
    let HostReply::Refused { reason } = claim(&world, &host, 2, vec![wish(PORT, "ens2")]).await else { panic!("no refusal") };
    let reason = reason.to_string();
    assert!(
        reason.contains("a virtual function of ens2 on physical network physnet0 is wanted") && reason.ends_with("none is free"),
        "{reason}"
    );
    assert!(host.lanes.claims().iter().all(|(holder, _)| *holder == Uuid::from_u128(1)), "a refused claim takes no room");
    functions(claim(&world, &host, 2, vec![wish(PORT, "ens1")]).await);
    let dropped = obey(&host, world.request(Uuid::from_u128(1), HostCommand::DropClaim { holder: Uuid::from_u128(1) })).await;
    assert_eq!(dropped, HostReply::Done);
    functions(claim(&world, &host, 3, vec![wish(PORT, "ens2")]).await);
}

#[tokio::test]
async fn a_claim_keeps_its_functions_when_repeated_and_restarted() {
    let world = World::new();
    let parts = parts(&world);
    let host = start(&parts).await;
    let first = functions(claim(&world, &host, 1, vec![wish(PORT, "ens1")]).await);
    assert_eq!(functions(claim(&world, &host, 1, vec![wish(PORT, "ens1")]).await), first);
    let later = start(&parts).await;
    assert_eq!(functions(claim(&world, &later, 1, vec![wish(PORT, "ens1")]).await), first);
    assert_ne!(functions(claim(&world, &later, 2, vec![wish(PORT, "ens1")]).await), first);
    assert_eq!(functions(claim(&world, &later, 1, vec![wish(PORT, "ens2")]).await)[0].parent_ifname, "ens2");
}

#[tokio::test]
async fn a_port_that_leaves_its_server_frees_its_function() {
    let world = World::new();
    let parts = parts(&world);
    let (host, server, other) = (start(&parts).await, Uuid::from_u128(1), Uuid::from_u128(0x51));
    functions(claim(&world, &host, 1, vec![wish(PORT, "ens1"), wish(other, "ens1")]).await);
    assert_eq!(obey(&host, world.request(server, HostCommand::DetachVif { port_id: PORT })).await, HostReply::Done);
    let later = start(&parts).await;
    for host in [&host, &later] {
        let left: Vec<Uuid> = host.lanes.claims().into_iter().flat_map(|(_, claim)| claim.functions.into_keys()).collect();
        assert_eq!(left, [other]);
    }
    functions(claim(&world, &later, 2, vec![wish(PORT, "ens1")]).await);
}
