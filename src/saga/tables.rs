//! The register of sagas: which table a context runs, and how it is accepted. A new saga is a line in each function here;
//! the failure tests cover whatever stands in [`ALL`].

use std::collections::BTreeSet;

use super::context::{Context, Kind, Request};
use super::refusal::Refusal;
use super::step::Table;
use super::world::World;
use super::{accept as existing, confirm, create, cross_cell_resize, delete, power, rebuild, revert, same_cell_resize, volume_attachment};
use crate::domain::fence::Fence;

/// Every saga by the name under which tests and documents speak of it.
pub const ALL: &[(&str, Table)] = &[
    ("create", create::TABLE),
    ("delete", delete::TABLE),
    ("start", power::START),
    ("stop", power::STOP),
    ("soft_reboot", power::SOFT_REBOOT),
    ("hard_reboot", power::HARD_REBOOT),
    ("rebuild", rebuild::TABLE),
    ("rebuild_of_root_volume", rebuild::OF_ROOT_VOLUME),
    ("same_cell_resize", same_cell_resize::TABLE),
    ("cross_cell_resize", cross_cell_resize::TABLE),
    ("confirm", confirm::TABLE),
    ("revert", revert::TABLE),
    ("attach_volume", volume_attachment::ATTACH),
    ("detach_volume", volume_attachment::DETACH),
];

/// The table that a context runs. A move's first four steps are the same in both of its tables, so it may still be
/// undecided which of the two it is.
pub fn table_of(context: &Context) -> Table {
    match context.kind {
        Kind::Create => create::TABLE,
        Kind::Delete => delete::TABLE,
        Kind::Start => power::START,
        Kind::Stop => power::STOP,
        Kind::Reboot if matches!(context.request, Request::Reboot { hard: false }) => power::SOFT_REBOOT,
        Kind::Reboot => power::HARD_REBOOT,
        Kind::Rebuild if context.reimages_root_volume() => rebuild::OF_ROOT_VOLUME,
        Kind::Rebuild => rebuild::TABLE,
        Kind::Resize if context.target.is_some() && !context.crosses_cells() => same_cell_resize::TABLE,
        Kind::Resize => cross_cell_resize::TABLE,
        Kind::Confirm => confirm::TABLE,
        Kind::Revert => revert::TABLE,
        Kind::AttachVolume => volume_attachment::ATTACH,
        Kind::DetachVolume => volume_attachment::DETACH,
    }
}

/// Steps of which the server must owe no undo when this operation begins: a move, and what ends it, take allocations and move fields for
/// true, and take the records of older moves along.
pub fn waits_for(context: &Context) -> BTreeSet<&'static str> {
    match context.kind {
        Kind::Resize | Kind::Confirm | Kind::Revert => {
            ALL.iter().flat_map(|(_, table)| table.steps).filter(|step| step.next_move_waits).map(|step| step.name).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// Performs the first step within the request.
pub async fn accept(world: &World, context: &mut Context, fence: Fence) -> Result<(), Refusal> {
    match context.kind {
        Kind::Create => create::accept(world, context, fence).await,
        _ => existing::accept(world, context, fence).await,
    }
}
