//! The same-cell resize and cold migration. It differs from the cross-cell one in that there is one record, and the local disks travel
//! through the cell's transfer area instead of the image service.

use super::resize::{
    ACCEPT, ACTIVATE_TARGET_PORTS, BIND_PORTS_AT_TARGET, CLAIM_AT_TARGET, HOLD_SOURCE_ALLOCATION, PREPARE_AT_TARGET, RECORD_MIGRATION,
    RELEASE_SOURCE_GUEST, RESERVE_VOLUMES_FOR_TARGET, SELECT_DESTINATION, START_AT_TARGET, STOP_SOURCE_GUEST, TAKE_OWNERSHIP,
};
use crate::saga::step::{Deadline, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::disks::{drop_export, export_disks};
use crate::saga::steps::records::{clear_target_choice, finish_record, record_target_choice_in_cell, save_request_spec};

/// The saga. Its first four steps are those of the cross-cell resize: the fourth chooses the host, and so the table.
pub const TABLE: Table = Table { steps: STEPS, chooses: Some(StepName::SelectDestination) };

const STEPS: &[Step] = &[
    ACCEPT,
    RECORD_MIGRATION,
    HOLD_SOURCE_ALLOCATION,
    SELECT_DESTINATION,
    BIND_PORTS_AT_TARGET,
    RESERVE_VOLUMES_FOR_TARGET,
    CLAIM_AT_TARGET,
    Step::reversible(StepName::RecordTargetChoice, work!(record_target_choice_in_cell), Undo::By(work!(clear_target_choice)))
        .before_the_next_move(),
    STOP_SOURCE_GUEST,
    Step::reversible(StepName::ExportDisks, work!(export_disks), Undo::By(work!(drop_export))).within(Deadline::WithoutProgress(60)),
    RELEASE_SOURCE_GUEST,
    ACTIVATE_TARGET_PORTS,
    PREPARE_AT_TARGET,
    TAKE_OWNERSHIP,
    START_AT_TARGET,
    // The only record, in one cell: users see the target with this commit.
    Step::forward(StepName::FinishRecord, work!(finish_record)),
    Step::forward(StepName::SaveRequestSpec, work!(save_request_spec)),
    Step::cleanup(StepName::DropExport, work!(drop_export)),
];
