//! The sagas: one file per operation, whose table reads as its story (`cross_cell_resize` first), with the operation's declaration beside it. The
//! list of all operations stands in `context/mod.rs`; the failure tests cover every table in [`ALL`].

pub mod confirm;
pub mod create;
pub mod create_image;
pub mod cross_cell_resize;
pub mod cross_cell_unshelve;
pub mod delete;
pub mod evacuate;
pub mod fixed_ip;
pub mod guest_commands;
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
use crate::saga::context::{Context, Kind};
use crate::saga::error::StepError;
pub use crate::saga::operation::Tables;
use crate::saga::refusal::Refusal;
use crate::saga::step::Table;
use crate::saga::world::World;

/// Every saga by its name in tests and documents, in the order of the list of operations.
pub const ALL: &[(&str, Table)] = &all::<{ count() }>();

const fn count() -> usize {
    let (mut count, mut kind) = (0, 0);
    while kind < Kind::ALL.len() {
        count += Kind::ALL[kind].operation().sagas.len();
        kind += 1;
    }
    count
}

const fn all<const COUNT: usize>() -> [(&'static str, Table); COUNT] {
    let mut all = [Kind::ALL[0].operation().sagas[0]; COUNT];
    let (mut filled, mut kind) = (0, 0);
    while kind < Kind::ALL.len() {
        let (sagas, mut saga) = (Kind::ALL[kind].operation().sagas, 0);
        while saga < sagas.len() {
            all[filled] = sagas[saga];
            (filled, saga) = (filled + 1, saga + 1);
        }
        kind += 1;
    }
    all
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
    if !context.part().rules().waits_for_moves_debts {
        return BTreeSet::new();
    }
    ALL.iter().flat_map(|(_, table)| table.steps).filter(|step| step.next_move_waits).map(|step| step.name.as_str()).collect()
}

/// Performs the first step of any operation within the request.
pub async fn accept(world: &World, context: &mut Context, fence: Fence) -> Result<(), Refusal> {
    (context.kind.operation().accept)(world, context, fence).await
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
            let versions: Vec<i32> = kind.operation().versions().map(|tables| tables.version).collect();
            assert!(versions.is_sorted_by(|one, next| one < next), "{kind}: {versions:?}");
            assert!(versions.iter().all(|version| Tables::released(*kind, *version).is_some_and(|tables| tables.version == *version)));
            assert_eq!(Some(&Tables::present(*kind).version), versions.last());
            assert!(Tables::released(*kind, 0).is_none() && Tables::released(*kind, 1000).is_none());
        }
    }

    #[test]
    fn service_steps_without_undo_have_no_way_back() {
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
