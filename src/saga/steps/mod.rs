//! The acts and undos of moves, and the work that other operations share with them, by subject: each act stands beside its undo. The tables
//! (`cross_cell_resize`, `same_cell_resize`) say in which order they run.

pub mod allocation;
pub mod disks;
pub mod evacuation;
pub mod fenced_source;
pub mod guest;
pub mod heal_plan;
pub mod live_choice;
pub mod live_guest;
pub mod live_records;
pub mod ownership;
pub mod port_functions;
pub mod port_shares;
pub mod ports;
pub mod records;
pub mod shelf;
pub mod snapshot_image;
pub mod volume_snapshots;
pub mod volumes;
