//! The violations that a debt explains: the part of its server that cannot be right before the debt is paid.

/// A part of a server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Topic {
    /// Whether and where the guest runs.
    Guest,
    /// The server's guests, disks and claims on hosts.
    Host,
    Ports,
    Volumes,
    Allocations,
    /// The server's records and migrations.
    Records,
    Images,
}

/// All parts, for a step that this release does not know.
const ALL: &[Topic] = &[Topic::Guest, Topic::Host, Topic::Ports, Topic::Volumes, Topic::Allocations, Topic::Records, Topic::Images];

/// Returns the parts that the act or the undo of a step changes.
pub fn topics_of(step: &str) -> &'static [Topic] {
    use Topic::{Allocations, Guest, Host, Images, Ports, Records, Volumes};
    match step {
        "record_migration" | "create_target_records" | "record_target_choice" | "delete_source_records" | "delete_target_records" => {
            &[Records]
        }
        "hold_source_allocation" | "select_destination" | "select_host" | "claim_shares" | "drop_shares" => &[Allocations],
        "bind_ports_at_target"
        | "release_source_ports"
        | "release_target_ports"
        | "release_ports"
        | "make_ports"
        | "name_providers"
        | "take_port"
        | "give_port_back"
        | "take_address"
        | "drop_address" => &[Ports],
        "activate_target_ports" | "activate_source_ports" => &[Ports, Guest],
        "reserve_volumes_for_target"
        | "release_source_volumes"
        | "release_target_volumes"
        | "release_volumes"
        | "make_volumes"
        | "create_snapshots"
        | "reserve_volume" => &[Volumes],
        "claim_at_target" | "claim_at_host" | "clean_source_host" | "remove_target_guest" | "remove_guest" => &[Host],
        "export_disks" | "drop_export" | "prepare_guest" | "prepare_at_target" => &[Host],
        "create_snapshot_image"
        | "delete_snapshot_image"
        | "create_shelved_image"
        | "delete_shelved_image"
        | "create_image"
        | "rotate_backups" => &[Images],
        "stop_source_guest" | "stop_target_guest" | "start_at_source" | "stop_guest" | "start_guest" | "reboot_guest" | "pause_guest"
        | "suspend_guest" | "resume_guest" | "build_rescue" | "remove_rescue" | "upload_image" => &[Guest, Volumes],
        "release_source_guest" | "prepare_at_source" => &[Guest, Host, Volumes, Ports],
        "plug_interface" | "unplug_interface" => &[Host, Ports],
        "connect_volume" => &[Host, Volumes],
        "queue_at_source" => &[Host],
        "copy_guest" => &[Guest, Host],
        "fence_source" => &[Guest],
        "detach_source_volumes" => &[Guest, Volumes],
        "clean_evacuated_source" => &[Host, Allocations, Records],
        _ => ALL,
    }
}
