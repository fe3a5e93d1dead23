//! The sagas: one file per operation, whose table reads as its story (`cross_cell_resize` first), and the register of all of them.
//! A new saga is a line in each function here; the failure tests cover every table in [`ALL`].

pub mod confirm;
pub mod create;
pub mod create_image;
pub mod cross_cell_resize;
pub mod cross_cell_unshelve;
pub mod delete;
pub mod evacuate;
pub mod fixed_ip;
pub mod guest_told;
pub mod heal;
pub mod interface;
pub mod live_migration;
pub mod power;
pub mod rebuild;
pub mod rescue;
pub mod resize;
pub mod revert;
pub mod same_cell_resize;
pub mod shelve;
pub mod shelve_offload;
pub mod soft_delete;
pub mod unshelve;
pub mod volume_attachment;

use std::collections::BTreeSet;

use crate::domain::fence::Fence;
use crate::saga::accept::accept_existing;
use crate::saga::context::{Context, Kind, PowerRequest};
use crate::saga::error::StepError;
use crate::saga::refusal::Refusal;
use crate::saga::step::Table;
use crate::saga::world::World;

/// Every saga by its name in tests and documents.
pub const ALL: &[(&str, Table)] = &[
    ("create", create::TABLE),
    ("delete", delete::TABLE),
    ("soft_delete", soft_delete::TABLE),
    ("restore", soft_delete::RESTORE),
    ("start", power::START),
    ("stop", power::STOP),
    ("soft_reboot", power::SOFT_REBOOT),
    ("hard_reboot", power::HARD_REBOOT),
    ("pause", power::PAUSE),
    ("unpause", power::UNPAUSE),
    ("suspend", power::SUSPEND),
    ("resume", power::RESUME),
    ("rescue", rescue::TABLE),
    ("unrescue", rescue::UNRESCUE),
    ("crash_dump", guest_told::CRASH_DUMP),
    ("change_password", guest_told::CHANGE_PASSWORD),
    ("rebuild", rebuild::TABLE),
    ("rebuild_of_root_volume", rebuild::OF_ROOT_VOLUME),
    ("same_cell_resize", same_cell_resize::TABLE),
    ("cross_cell_resize", cross_cell_resize::TABLE),
    ("live_migration", live_migration::TABLE),
    ("confirm", confirm::TABLE),
    ("revert", revert::TABLE),
    ("evacuate", evacuate::TABLE),
    ("attach_volume", volume_attachment::ATTACH),
    ("detach_volume", volume_attachment::DETACH),
    ("attach_interface", interface::ATTACH),
    ("detach_interface", interface::DETACH),
    ("add_fixed_ip", fixed_ip::ADD),
    ("remove_fixed_ip", fixed_ip::REMOVE),
    ("create_image", create_image::TABLE),
    ("create_image_of_volumes", create_image::OF_VOLUMES),
    ("shelve", shelve::TABLE),
    ("shelve_and_offload", shelve::AND_OFFLOAD),
    ("shelve_offload", shelve_offload::TABLE),
    ("unshelve_in_place", unshelve::IN_PLACE),
    ("unshelve", unshelve::TABLE),
    ("cross_cell_unshelve", cross_cell_unshelve::TABLE),
    ("heal", heal::TABLE),
];

/// The tables of one kind of saga in one version. A release that changes a released table adds a version, and keeps the old one as
/// long as an operation or a debt of it may be in a database: two minor releases at least.
#[derive(Clone, Copy)]
pub struct Tables {
    /// Stored with each saga and each debt.
    pub version: i32,
    choose: fn(&Context) -> Table,
}

impl Tables {
    /// Returns the table that a context runs. The two tables of a move begin with the same four steps, and those of an unshelve onto a host
    /// with the same three, so the choice between them may come later.
    pub fn of(&self, context: &Context) -> Table {
        (self.choose)(context)
    }

    /// Returns the tables by which an operation of this kind begins now.
    pub fn present(kind: Kind) -> Tables {
        *versions(kind).last().expect("each kind has a version")
    }

    /// Returns a released version; none if this release does not know it.
    pub fn released(kind: Kind, version: i32) -> Option<Tables> {
        versions(kind).iter().find(|tables| tables.version == version).copied()
    }
}

/// Every version of a kind's tables that may be in flight, the present one last.
fn versions(kind: Kind) -> &'static [Tables] {
    macro_rules! first {
        ($choose:expr) => {
            const { &[Tables { version: 1, choose: $choose }] }
        };
    }
    match kind {
        Kind::Create => first!(|_| create::TABLE),
        Kind::Delete => {
            const {
                &[
                    Tables { version: 1, choose: |_| delete::TABLE_1 },
                    // Deletes a shelved server's image, too.
                    Tables { version: 2, choose: |_| delete::TABLE },
                    // Knows the soft delete.
                    Tables { version: 3, choose: delete_or_soft_delete },
                ]
            }
        }
        Kind::Restore => first!(|_| soft_delete::RESTORE),
        Kind::Start => first!(|_| power::START),
        Kind::Stop => first!(|_| power::STOP),
        Kind::Reboot => first!(|context| match context {
            Context::Reboot(reboot) if reboot.request == PowerRequest::Reboot { hard: false } => power::SOFT_REBOOT,
            _ => power::HARD_REBOOT,
        }),
        Kind::Pause => first!(|_| power::PAUSE),
        Kind::Unpause => first!(|_| power::UNPAUSE),
        Kind::Suspend => first!(|_| power::SUSPEND),
        Kind::Resume => first!(|_| power::RESUME),
        Kind::Rescue => first!(|_| rescue::TABLE),
        Kind::Unrescue => first!(|_| rescue::UNRESCUE),
        Kind::CrashDump => first!(|_| guest_told::CRASH_DUMP),
        Kind::ChangePassword => first!(|_| guest_told::CHANGE_PASSWORD),
        Kind::Rebuild => first!(|context| match context {
            Context::Rebuild(rebuild) if rebuild.request.reimages_root_volume => rebuild::OF_ROOT_VOLUME,
            _ => rebuild::TABLE,
        }),
        Kind::Resize => first!(|context| {
            let stays = context.target.is_some() && !context.crosses_cells();
            if stays { same_cell_resize::TABLE } else { cross_cell_resize::TABLE }
        }),
        Kind::LiveMigrate => first!(|_| live_migration::TABLE),
        Kind::Confirm => first!(|_| confirm::TABLE),
        Kind::Revert => first!(|_| revert::TABLE),
        Kind::Evacuate => first!(|_| evacuate::TABLE),
        Kind::AttachVolume => first!(|_| volume_attachment::ATTACH),
        Kind::DetachVolume => first!(|_| volume_attachment::DETACH),
        Kind::AttachInterface => first!(|_| interface::ATTACH),
        Kind::DetachInterface => first!(|_| interface::DETACH),
        Kind::AddFixedIp => first!(|_| fixed_ip::ADD),
        Kind::RemoveFixedIp => first!(|_| fixed_ip::REMOVE),
        Kind::CreateImage => first!(|context| if context.volume_backed { create_image::OF_VOLUMES } else { create_image::TABLE }),
        Kind::Shelve => first!(|context| match context {
            Context::Shelve(shelve) if shelve.offloads() => shelve::AND_OFFLOAD,
            _ => shelve::TABLE,
        }),
        Kind::ShelveOffload => first!(|_| shelve_offload::TABLE),
        Kind::Unshelve => first!(|context| match context {
            Context::Unshelve(unshelve) if unshelve.stays() => unshelve::IN_PLACE,
            Context::Unshelve(unshelve) if unshelve.leaves_its_cell() => cross_cell_unshelve::TABLE,
            _ => unshelve::TABLE,
        }),
        Kind::Heal => first!(|_| heal::TABLE),
    }
}

fn delete_or_soft_delete(context: &Context) -> Table {
    match context {
        Context::Delete(delete) if delete.deferred => soft_delete::TABLE,
        _ => delete::TABLE,
    }
}

/// True if this release knows this version of the tables of this kind.
pub fn is_known(kind: &str, version: i32) -> bool {
    Kind::parse(kind).is_some_and(|kind| Tables::released(kind, version).is_some())
}

/// Returns the present table that a context runs.
pub fn table_of(context: &Context) -> Table {
    Tables::present(context.kind).of(context)
}

/// Returns the steps whose debts must be paid before this operation begins: a move, a confirm and a revert trust the allocations and move
/// fields that these steps write, and take the records of older moves along.
pub fn waits_for(context: &Context) -> BTreeSet<&'static str> {
    if !context.part().waits_for_moves_debts() {
        return BTreeSet::new();
    }
    ALL.iter().flat_map(|(_, table)| table.steps).filter(|step| step.next_move_waits).map(|step| step.name.as_str()).collect()
}

/// Performs the first step of any operation within the request.
pub async fn accept(world: &World, context: &mut Context, fence: Fence) -> Result<(), Refusal> {
    match context {
        Context::Create(create) => create::accept(world, create, fence).await,
        existing => accept_existing(world, existing, fence).await,
    }
}

/// Performs the first step of any operation as a step's act: for the successor of a conductor that died within the request.
pub async fn accept_again(world: &World, context: &mut Context, fence: Fence) -> Result<(), StepError> {
    Ok(accept(world, context, fence).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saga::step::Class;

    #[test]
    fn versions_of_a_kind_ascend_and_each_is_found() {
        for kind in Kind::ALL {
            let versions: Vec<i32> = versions(*kind).iter().map(|tables| tables.version).collect();
            assert!(versions.is_sorted_by(|one, next| one < next), "{kind}: {versions:?}");
            assert!(versions.iter().all(|version| Tables::released(*kind, *version).is_some_and(|tables| tables.version == *version)));
            assert_eq!(Some(&Tables::present(*kind).version), versions.last());
            assert!(Tables::released(*kind, 0).is_none() && Tables::released(*kind, 1000).is_none());
        }
    }

    #[test]
    fn what_serves_and_is_not_undone_has_no_way_back() {
        for (saga, table) in ALL {
            for step in table.steps.iter().filter(|step| step.class == Class::Reversible && step.service_depends) {
                assert_eq!(step.no_way_back, step.undo.work().is_none(), "{} of {saga}", step.name);
            }
        }
    }

    #[test]
    fn a_payment_stands_where_a_step_can_owe() {
        for (saga, table) in ALL {
            for step in table.steps.iter().filter(|step| step.payment.is_some()) {
                let owes_undo = step.class == Class::Reversible && step.undo.work().is_some();
                assert!(owes_undo || step.class == Class::Cleanup, "{} of {saga}", step.name);
            }
        }
    }

    #[test]
    fn a_table_names_each_of_its_steps_once() {
        for (saga, table) in ALL {
            let names: BTreeSet<_> = table.steps.iter().map(|step| step.name).collect();
            assert_eq!(names.len(), table.steps.len(), "{saga}");
        }
    }
}
