//! The cross-cell resize: a server moves to a host in another cell, keeping its id, addresses, volumes and data.
//!
//! The cells cannot reach each other: the local disks travel as a temporary image, and the conductor, which sees both cells, copies the
//! records. Until `take_ownership` nothing has run at the target, so everything can be undone and the source guest runs again on its kept
//! disks. After it the saga goes forward, unless the target says "not running, fenced" or an operator has forced it down (INVARIANTS S4).
//!
//! The source's record is visible until `publish` and carries the task. The target's record is hidden until then and gets its final state in
//! `finish_target_record`. Both carry the migration under the saga's id.

use super::resize::{
    ACCEPT, ACTIVATE_TARGET_PORTS, BIND_PORTS_AT_TARGET, CLAIM_AT_TARGET, HOLD_SOURCE_ALLOCATION, PREPARE_AT_TARGET, RECORD_MIGRATION,
    RELEASE_SOURCE_GUEST, RESERVE_VOLUMES_FOR_TARGET, SELECT_DESTINATION, START_AT_TARGET, STOP_SOURCE_GUEST, TAKE_OWNERSHIP,
};
use crate::saga::step::{Deadline, Step, Table, Undo, work};
use crate::saga::step_name::StepName;
use crate::saga::steps::disks::{create_snapshot_image, delete_snapshot_image, upload_snapshot};
use crate::saga::steps::records::{
    clear_target_choice, create_target_records, delete_target_records, finish_target_record, pay_target_records, publish,
    record_target_choice_in_both_cells,
};

/// The saga.
pub const TABLE: Table = Table { steps: STEPS, chooses: Some(StepName::SelectDestination) };

const STEPS: &[Step] = &[
    ACCEPT,
    RECORD_MIGRATION,
    HOLD_SOURCE_ALLOCATION,
    SELECT_DESTINATION,
    // Hidden, because the mapping still names the source. Before the target's claim, whose event belongs to the copy.
    Step::reversible(StepName::CreateTargetRecords, work!(create_target_records), Undo::By(work!(delete_target_records)))
        .paid_by(work!(pay_target_records)),
    BIND_PORTS_AT_TARGET,
    RESERVE_VOLUMES_FOR_TARGET,
    CLAIM_AT_TARGET,
    Step::reversible(StepName::RecordTargetChoice, work!(record_target_choice_in_both_cells), Undo::By(work!(clear_target_choice)))
        .before_the_next_move(),
    // The image's record before its bytes, so that there is a record to delete however the upload ends.
    Step::reversible(StepName::CreateSnapshotImage, work!(create_snapshot_image), Undo::By(work!(delete_snapshot_image))),
    STOP_SOURCE_GUEST,
    Step::reversible(StepName::UploadSnapshot, work!(upload_snapshot), Undo::Nothing("create_snapshot_image deletes the image"))
        .within(Deadline::WithoutProgress(60)),
    RELEASE_SOURCE_GUEST,
    ACTIVATE_TARGET_PORTS,
    PREPARE_AT_TARGET,
    TAKE_OWNERSHIP,
    START_AT_TARGET,
    // The whole final state while the record is still hidden, so that users see all of it at once.
    Step::forward(StepName::FinishTargetRecord, work!(finish_target_record)),
    // Unhide, then the mapping, then hide: at each moment there is a visible record, and the mapping decides between two.
    Step::forward(StepName::Publish, work!(publish)),
    Step::cleanup(StepName::DeleteSnapshotImage, work!(delete_snapshot_image)),
];
