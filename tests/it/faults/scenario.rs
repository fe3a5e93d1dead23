//! Brings a server to the beginning state of each saga, and sends the saga's request. A saga without a scenario fails the suite.

use std::net::{IpAddr, Ipv4Addr};

use cellshift::config::{Config, Seconds};
use cellshift::domain::fence::Fence;
use cellshift::services::network::HostKey;
use cellshift::services::placement::Allocations;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cloud::{Cloud, add_policy};

/// The state in which an operation begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beginning {
    /// There is no server.
    Nothing,
    Active,
    /// ACTIVE, with a volume as the root disk.
    OnRootVolume,
    Stopped,
    Paused,
    Suspended,
    Rescued,
    SoftDeleted,
    /// Moved within its cell, and waits for confirm.
    ResizedWithin,
    /// Moved to another cell, and waits for confirm.
    ResizedAcross,
    /// ACTIVE, on a host that was forced down and lives on.
    OnDownHost,
    /// ACTIVE, with an unattached volume beside it.
    WithSpareVolume,
    /// ACTIVE, with a second volume attached.
    WithSecondVolume,
    /// ACTIVE, with a free port beside it.
    WithSparePort,
    /// ACTIVE, with a second address of a port.
    WithSecondAddress,
    /// Shelved, and still on its host.
    Shelved,
    /// Shelved, and on no host.
    Offloaded,
    /// Shelved, with a volume as the root disk, and on no host.
    OffloadedOnRootVolume,
    /// Shelved, on no host, with an unattached volume beside it.
    OffloadedWithSpareVolume,
    /// Shelved, on no host, with a second volume attached since.
    OffloadedWithSecondVolume,
    /// As the offloaded ones above, with a flavor for hosts of any cell.
    OffloadedForAnyCell,
    OffloadedOnRootVolumeForAnyCell,
    /// ACTIVE, and made before ports could ask: the server holds nothing of its host's network.
    FromBefore,
}

/// A request for the operation.
pub struct ApiCall {
    pub method: &'static str,
    pub path: String,
    pub body: Option<Value>,
}

/// A server in the beginning state.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// Nil if there is no server.
    pub server: Uuid,
    /// The volume that is attached or detached.
    pub volume: Uuid,
    /// The port of a bridge that asks for bandwidth and packet rates. The server has another, which was made for it and asks for nothing.
    pub port: Uuid,
    /// A direct port, which asks for bandwidth of a physical function and has a virtual one. None if two physical functions may serve it
    /// equally well, and the operation must not choose.
    pub direct: Option<Uuid>,
    /// The second address of a port; unspecified if there is none.
    pub address: IpAddr,
}

impl Begun {
    /// Returns the ports that are made before the server.
    fn ports(&self) -> Vec<Uuid> {
        std::iter::once(self.port).chain(self.direct).collect()
    }
}

/// A way through a saga.
pub struct Scenario {
    /// The saga's name in the register.
    pub saga: &'static str,
    pub name: &'static str,
    pub beginning: Beginning,
    pub ask: fn(&Cloud, &Begun) -> ApiCall,
    /// The request that brings a server back to the beginning state after the operation. None if there is no way back or none is needed.
    pub back: Option<fn(&Cloud, &Begun) -> ApiCall>,
}

macro_rules! action {
    ($body:tt) => {
        |_, begun| act(begun, json!($body))
    };
}

const fn one_way(saga: &'static str, name: &'static str, beginning: Beginning, ask: fn(&Cloud, &Begun) -> ApiCall) -> Scenario {
    Scenario { saga, name, beginning, ask, back: None }
}

impl Scenario {
    /// Sets the configuration in which the saga can be asked for.
    pub fn configure(&self, config: &mut Config) {
        if matches!(self.saga, "shelve" | "shelve_offload" | "unshelve_in_place") {
            kept_on_hosts(config);
        }
        if matches!(self.saga, "soft_delete" | "restore") {
            config.compute.reclaim_instance_interval = Seconds::whole(3600);
        }
    }

    const fn and_back(self, back: fn(&Cloud, &Begun) -> ApiCall) -> Scenario {
        Scenario { back: Some(back), ..self }
    }
}

/// All scenarios; each registered saga has at least one.
pub const ALL: &[Scenario] = &[
    one_way("create", "create", Beginning::Nothing, create),
    one_way("delete", "delete", Beginning::Active, delete),
    one_way("delete", "delete_resized", Beginning::ResizedAcross, delete),
    one_way("soft_delete", "soft_delete", Beginning::Active, delete).and_back(RESTORE),
    one_way("soft_delete", "soft_delete_resized", Beginning::ResizedAcross, delete),
    one_way("restore", "restore", Beginning::SoftDeleted, RESTORE).and_back(delete),
    one_way("start", "start", Beginning::Stopped, action!({"os-start": null})).and_back(action!({"os-stop": null})),
    one_way("stop", "stop", Beginning::Active, action!({"os-stop": null})).and_back(action!({"os-start": null})),
    one_way("soft_reboot", "soft_reboot", Beginning::Active, action!({"reboot": {"type": "SOFT"}})),
    one_way("hard_reboot", "hard_reboot", Beginning::Active, action!({"reboot": {"type": "HARD"}})),
    one_way("pause", "pause", Beginning::Active, PAUSE).and_back(UNPAUSE),
    one_way("unpause", "unpause", Beginning::Paused, UNPAUSE).and_back(PAUSE),
    one_way("suspend", "suspend", Beginning::Active, SUSPEND).and_back(RESUME),
    one_way("resume", "resume", Beginning::Suspended, RESUME).and_back(SUSPEND),
    one_way("rescue", "rescue", Beginning::Active, RESCUE).and_back(UNRESCUE),
    one_way("rescue", "rescue_stopped", Beginning::Stopped, RESCUE),
    one_way("unrescue", "unrescue", Beginning::Rescued, UNRESCUE).and_back(RESCUE),
    one_way("crash_dump", "crash_dump", Beginning::Active, CRASH_DUMP),
    one_way("crash_dump", "crash_dump_resized", Beginning::ResizedAcross, CRASH_DUMP),
    one_way("change_password", "change_password", Beginning::Active, action!({"changePassword": {"adminPass": "an0ther"}})),
    one_way("rebuild", "rebuild", Beginning::Active, rebuild),
    one_way("rebuild_of_root_volume", "rebuild_of_root_volume", Beginning::OnRootVolume, rebuild),
    one_way("same_cell_resize", "same_cell_resize", Beginning::Active, WITHIN).and_back(REVERT),
    one_way("cross_cell_resize", "cross_cell_resize", Beginning::Active, ACROSS).and_back(REVERT),
    one_way("cross_cell_resize", "cross_cell_resize_stopped", Beginning::Stopped, ACROSS).and_back(REVERT),
    one_way("live_migration", "live_migration", Beginning::Active, LIVE).and_back(LIVE),
    one_way("live_migration", "live_migration_paused", Beginning::Paused, LIVE).and_back(LIVE),
    one_way("live_migration", "live_migration_on_root_volume", Beginning::OnRootVolume, LIVE).and_back(LIVE),
    one_way("confirm", "confirm", Beginning::ResizedAcross, action!({"confirmResize": null})),
    one_way("confirm", "confirm_same_cell", Beginning::ResizedWithin, action!({"confirmResize": null})),
    one_way("revert", "revert", Beginning::ResizedAcross, REVERT).and_back(ACROSS),
    one_way("revert", "revert_same_cell", Beginning::ResizedWithin, REVERT).and_back(WITHIN),
    one_way("evacuate", "evacuate", Beginning::OnDownHost, action!({"evacuate": {}})),
    one_way("attach_volume", "attach_volume", Beginning::WithSpareVolume, attach).and_back(detach),
    one_way("detach_volume", "detach_volume", Beginning::WithSecondVolume, detach).and_back(attach),
    one_way("attach_volume", "attach_to_offloaded", Beginning::OffloadedWithSpareVolume, attach).and_back(detach),
    one_way("detach_volume", "detach_from_offloaded", Beginning::OffloadedWithSecondVolume, detach).and_back(attach),
    one_way("attach_interface", "attach_interface", Beginning::WithSparePort, plug).and_back(unplug),
    one_way("attach_interface", "attach_made_interface", Beginning::Active, plug_new),
    one_way("detach_interface", "detach_interface", Beginning::Active, unplug).and_back(plug),
    one_way("add_fixed_ip", "add_fixed_ip", Beginning::Active, add_address),
    one_way("remove_fixed_ip", "remove_fixed_ip", Beginning::WithSecondAddress, drop_address),
    one_way("create_image", "create_image", Beginning::Active, SNAPSHOT),
    one_way("create_image_of_volumes", "create_image_of_volumes", Beginning::OnRootVolume, SNAPSHOT),
    one_way("shelve", "shelve", Beginning::Active, SHELVE).and_back(UNSHELVE),
    one_way("shelve_and_offload", "shelve_and_offload", Beginning::Active, SHELVE).and_back(UNSHELVE),
    one_way("shelve_and_offload", "shelve_on_root_volume", Beginning::OnRootVolume, SHELVE).and_back(UNSHELVE),
    one_way("shelve_offload", "shelve_offload", Beginning::Shelved, action!({"shelveOffload": null})),
    one_way("unshelve_in_place", "unshelve_in_place", Beginning::Shelved, UNSHELVE).and_back(SHELVE),
    one_way("unshelve", "unshelve", Beginning::Offloaded, UNSHELVE).and_back(SHELVE),
    one_way("unshelve", "unshelve_on_root_volume", Beginning::OffloadedOnRootVolume, UNSHELVE).and_back(SHELVE),
    one_way("unshelve", "unshelve_with_volume", Beginning::OffloadedWithSecondVolume, UNSHELVE),
    one_way("cross_cell_unshelve", "cross_cell_unshelve", Beginning::OffloadedForAnyCell, UNSHELVE_ACROSS),
    one_way("cross_cell_unshelve", "cross_cell_unshelve_on_root_volume", Beginning::OffloadedOnRootVolumeForAnyCell, UNSHELVE_ACROSS),
    one_way("delete", "delete_shelved", Beginning::Offloaded, delete),
    one_way("heal", "heal", Beginning::FromBefore, heal),
];

const SNAPSHOT: fn(&Cloud, &Begun) -> ApiCall = action!({"createImage": {"name": "keepsake"}});
const CRASH_DUMP: fn(&Cloud, &Begun) -> ApiCall = action!({"trigger_crash_dump": null});
const PAUSE: fn(&Cloud, &Begun) -> ApiCall = action!({"pause": null});
const UNPAUSE: fn(&Cloud, &Begun) -> ApiCall = action!({"unpause": null});
const SUSPEND: fn(&Cloud, &Begun) -> ApiCall = action!({"suspend": null});
const RESUME: fn(&Cloud, &Begun) -> ApiCall = action!({"resume": null});
const RESCUE: fn(&Cloud, &Begun) -> ApiCall = action!({"rescue": null});
const UNRESCUE: fn(&Cloud, &Begun) -> ApiCall = action!({"unrescue": null});
const RESTORE: fn(&Cloud, &Begun) -> ApiCall = action!({"restore": null});
const WITHIN: fn(&Cloud, &Begun) -> ApiCall = action!({"resize": {"flavorRef": "gen1.large"}});
const LIVE: fn(&Cloud, &Begun) -> ApiCall = action!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
const ACROSS: fn(&Cloud, &Begun) -> ApiCall = action!({"resize": {"flavorRef": "gen2.large"}});
const SHELVE: fn(&Cloud, &Begun) -> ApiCall = action!({"shelve": null});
const UNSHELVE: fn(&Cloud, &Begun) -> ApiCall = action!({"unshelve": null});
const UNSHELVE_ACROSS: fn(&Cloud, &Begun) -> ApiCall = action!({"unshelve": {"availability_zone": "cell2"}});
const REVERT: fn(&Cloud, &Begun) -> ApiCall = action!({"revertResize": null});

fn rebuild(cloud: &Cloud, begun: &Begun) -> ApiCall {
    act(begun, json!({"rebuild": {"imageRef": cloud.image()}}))
}

fn create(cloud: &Cloud, begun: &Begun) -> ApiCall {
    let body = Some(cloud.with_ports(cloud.new_server(), &begun.ports()));
    ApiCall { method: "POST", path: "/compute/v2.1/servers".to_owned(), body }
}

fn act(begun: &Begun, action: Value) -> ApiCall {
    ApiCall { method: "POST", path: format!("/compute/v2.1/servers/{}/action", begun.server), body: Some(action) }
}

fn delete(_: &Cloud, begun: &Begun) -> ApiCall {
    ApiCall { method: "DELETE", path: format!("/compute/v2.1/servers/{}", begun.server), body: None }
}

fn heal(_: &Cloud, begun: &Begun) -> ApiCall {
    ApiCall { method: "POST", path: format!("/ops/v1/servers/{}/heal", begun.server), body: None }
}

fn attach(_: &Cloud, begun: &Begun) -> ApiCall {
    let body = json!({"volumeAttachment": {"volumeId": begun.volume}});
    ApiCall { method: "POST", path: format!("/compute/v2.1/servers/{}/os-volume_attachments", begun.server), body: Some(body) }
}

fn detach(_: &Cloud, begun: &Begun) -> ApiCall {
    let path = format!("/compute/v2.1/servers/{}/os-volume_attachments/{}", begun.server, begun.volume);
    ApiCall { method: "DELETE", path, body: None }
}

fn add_address(cloud: &Cloud, begun: &Begun) -> ApiCall {
    act(begun, json!({"addFixedIp": {"networkId": cloud.network}}))
}

fn drop_address(_: &Cloud, begun: &Begun) -> ApiCall {
    act(begun, json!({"removeFixedIp": {"address": begun.address.to_string()}}))
}

fn interfaces(begun: &Begun) -> String {
    format!("/compute/v2.1/servers/{}/os-interface", begun.server)
}

fn plug(_: &Cloud, begun: &Begun) -> ApiCall {
    let body = Some(json!({"interfaceAttachment": {"port_id": begun.port}}));
    ApiCall { method: "POST", path: interfaces(begun), body }
}

fn plug_new(cloud: &Cloud, begun: &Begun) -> ApiCall {
    let body = Some(json!({"interfaceAttachment": {"net_id": cloud.network}}));
    ApiCall { method: "POST", path: interfaces(begun), body }
}

fn unplug(_: &Cloud, begun: &Begun) -> ApiCall {
    ApiCall { method: "DELETE", path: format!("{}/{}", interfaces(begun), begun.port), body: None }
}

/// Keeps shelved servers on their hosts until a member offloads them.
pub fn kept_on_hosts(config: &mut Config) {
    config.compute.shelved_offload_time = -1;
    add_policy(config, "\"os_compute_api:os-shelve:shelve_offload\": \"rule:project_member_or_admin\"\n");
}

/// Takes from a server what it holds of its host's network.
async fn forget_shares(cloud: &Cloud, begun: &Begun) {
    let (world, server) = (cloud.world(), begun.server);
    let row = world.operations.ownership(server).await.expect("ownership").expect("a row");
    let fence = Fence { server, epoch: row.epoch, attempt: row.attempt };
    let held = world.placement.allocations_of(server).await.expect("allocations").expect("an allocation");
    let allocations = held.allocations.clone().into_iter().filter(|(_, amounts)| amounts.contains_key("VCPU")).collect();
    world.placement.replace_allocations(fence, vec![Allocations { allocations, ..held }]).await.expect("a change");
    let (_, host) = row.owner.expect("an owner");
    world.network.create_binding(fence, begun.port, &host, HostKey::AllocationIs(None)).await.expect("a change");
}

/// Gives a port of the server a second address, and returns it.
async fn second_address(cloud: &Cloud, begun: &Begun) -> IpAddr {
    let ApiCall { method, path, body } = add_address(cloud, begun);
    let (status, body) = cloud.send(method, &path, body).await;
    assert_eq!(status, 202, "{body}");
    assert!(cloud.at_rest(begun.server).await, "the address is there");
    let ports = cloud.world().network.ports_of(begun.server).await.expect("ports");
    let second = ports.iter().find_map(|port| port.fixed_ips.get(1)).expect("a port with two addresses");
    second.ip_address.parse().expect("an address")
}

/// Returns the request for a server that can come to this beginning.
fn new_server(cloud: &Cloud, beginning: Beginning) -> Value {
    match beginning {
        Beginning::OnRootVolume | Beginning::OffloadedOnRootVolume => cloud.new_server_on_a_volume(),
        Beginning::OffloadedForAnyCell => cloud.new_server_for_any_cell(false),
        Beginning::OffloadedOnRootVolumeForAnyCell => cloud.new_server_for_any_cell(true),
        _ => cloud.new_server(),
    }
}

/// Makes a server in the beginning state.
pub async fn begin(cloud: &Cloud, beginning: Beginning) -> Begun {
    let direct = match beginning {
        Beginning::FromBefore => None,
        _ => Some(cloud.make_direct_port().await),
    };
    let mut begun = Begun {
        server: Uuid::nil(),
        volume: Uuid::nil(),
        port: cloud.make_asking_port().await,
        direct,
        address: Ipv4Addr::UNSPECIFIED.into(),
    };
    if beginning == Beginning::Nothing {
        return begun;
    }
    cloud.force_up().await;
    let new = new_server(cloud, beginning);
    let new = if beginning == Beginning::WithSparePort { new } else { cloud.with_ports(new, &begun.ports()) };
    begun.server = cloud.ask_for(new).await;
    assert!(cloud.at_rest(begun.server).await, "a server is made");
    let action = match beginning {
        Beginning::Stopped => Some(json!({"os-stop": null})),
        Beginning::Paused => Some(json!({"pause": null})),
        Beginning::Suspended => Some(json!({"suspend": null})),
        Beginning::Rescued => Some(json!({"rescue": null})),
        Beginning::Shelved
        | Beginning::Offloaded
        | Beginning::OffloadedOnRootVolume
        | Beginning::OffloadedWithSpareVolume
        | Beginning::OffloadedWithSecondVolume
        | Beginning::OffloadedForAnyCell
        | Beginning::OffloadedOnRootVolumeForAnyCell => Some(json!({"shelve": null})),
        Beginning::ResizedWithin => Some(json!({"resize": {"flavorRef": "gen1.large"}})),
        Beginning::ResizedAcross => Some(json!({"resize": {"flavorRef": "gen2.large"}})),
        _ => None,
    };
    if let Some(action) = action {
        cloud.act(begun.server, action).await;
    }
    if beginning == Beginning::SoftDeleted {
        let ApiCall { method, path, .. } = delete(cloud, &begun);
        let (status, body) = cloud.send(method, &path, None).await;
        assert_eq!(status, 204, "{body}");
    }
    use Beginning::{OffloadedWithSecondVolume, OffloadedWithSpareVolume, WithSecondVolume, WithSpareVolume};
    if matches!(beginning, WithSpareVolume | WithSecondVolume | OffloadedWithSpareVolume | OffloadedWithSecondVolume) {
        begun.volume = cloud.make_volume().await;
        assert!(cloud.at_rest(begun.server).await, "the server is shelved before its volume comes");
    }
    if matches!(beginning, WithSecondVolume | OffloadedWithSecondVolume) {
        let ApiCall { method, path, body } = attach(cloud, &begun);
        let (status, body) = cloud.send(method, &path, body).await;
        assert_eq!(status, 200, "{body}");
    }
    if beginning == Beginning::WithSecondAddress {
        begun.address = second_address(cloud, &begun).await;
    }
    if beginning == Beginning::FromBefore {
        forget_shares(cloud, &begun).await;
    }
    if beginning == Beginning::OnDownHost {
        cloud.force_host_down(begun.server).await;
    }
    assert!(cloud.at_rest(begun.server).await, "the server comes to its beginning");
    begun
}
