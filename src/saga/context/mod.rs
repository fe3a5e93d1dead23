//! The context of a saga: its request, the facts that it read at its beginning, and the results of its steps. The whole is stored with each
//! step's end, so that a successor needs nothing else.
//!
//! A context is one of several typed parts. Each part has the facts of its server ([`ServerFacts`]), and these have the [`Head`]; the
//! three are stored as one flat object. The list of all operations stands here: a new one is a file with its part, a file with its table and its
//! declaration (`tables`), and a line of the list. Without all of them the program does not compile.

mod create;
mod create_image;
mod delete;
mod end_of_move;
mod evacuate;
mod facts;
pub mod first_boot;
mod fixed_ip;
mod guest_commands;
mod heal;
mod heal_plan;
mod interface;
mod kind;
mod list;
mod live_migration;
mod part;
mod power;
mod rebuild;
mod request;
mod rescue;
mod resize;
mod shares;
mod shelve;
#[cfg(test)]
mod tests;
mod transfers;
mod volume;

use std::ops::{Deref, DerefMut};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::domain::context::RequestContext;
use crate::saga::operation::Operation;
use crate::saga::tables;
pub use create::{Create, CreateRequest, DeviceForm, RequestedNetwork, RequestedVolume};
pub use create_image::{Backup, CreateImage, CreateImageRequest, image_of_operation};
pub use delete::Delete;
use delete::Deletion;
pub use end_of_move::{Confirm, ConfirmRequest, Revert};
pub use evacuate::{Evacuate, EvacuateRequest};
pub use facts::{Candidates, Head, Place, PortLink, Prior, ServerFacts, VolumeLink};
pub use fixed_ip::{AddFixedIp, AddedAddress, PortAddress, RemoveFixedIp, RemovedAddress};
pub use guest_commands::{ChangePassword, ChangePasswordRequest, CrashDump};
pub use heal::Heal;
pub use heal_plan::{Amounts, HealPlan};
pub use interface::{ALLOWED as INTERFACES_CHANGE_IN, AttachInterface, DetachInterface, DetachInterfaceRequest};
use list::operations;
pub use live_migration::{LiveMigrate, LiveMigrateRequest};
pub use part::{HostNeed, Part, Rules, View};
pub use power::{Power, PowerRequest};
pub use rebuild::{Rebuild, RebuildRequest};
use request::as_request;
pub use rescue::{Rescue, RescueRequest};
pub use resize::{Resize, ResizeRequest};
pub use shares::{PortShare, Shares, share_of};
pub use shelve::{OFFLOAD_EVENT, Shelve, ShelveOffload, ShelveRequest, Unshelve, UnshelveRequest};
pub use volume::{Attach, AttachRequest, Detach, DetachRequest};

operations! {
    Create(Create) by tables::create::OPERATION, for Create(request: Box<CreateRequest>) => request;
    Delete(Delete) by tables::delete::OPERATION, for
        Delete => Deletion::ForGood,
        SoftDelete => Deletion::Deferred,
        /// The time of a soft-deleted server has ended.
        Reclaim => Deletion::OfReclaimed;
    Restore(Power) by tables::soft_delete::RESTORE, for Restore => PowerRequest::Restore;
    Start(Power) by tables::power::START, for Start => PowerRequest::Start;
    Stop(Power) by tables::power::STOP, for Stop => PowerRequest::Stop;
    Reboot(Power) by tables::power::REBOOT, for Reboot { hard: bool } => PowerRequest::Reboot { hard };
    Pause(Power) by tables::power::PAUSE, for Pause => PowerRequest::Pause;
    Unpause(Power) by tables::power::UNPAUSE, for Unpause => PowerRequest::Unpause;
    Suspend(Power) by tables::power::SUSPEND, for Suspend => PowerRequest::Suspend;
    Resume(Power) by tables::power::RESUME, for Resume => PowerRequest::Resume;
    Rescue(Rescue) by tables::rescue::RESCUE, for Rescue(request: Box<RescueRequest>) => request;
    Unrescue(Power) by tables::rescue::UNRESCUE, for Unrescue => PowerRequest::Unrescue;
    CrashDump(CrashDump) by tables::guest_commands::CRASH_DUMP, for CrashDump => ();
    ChangePassword(ChangePassword) by tables::guest_commands::CHANGE_PASSWORD, for ChangePassword(request: ChangePasswordRequest) => request;
    Rebuild(Rebuild) by tables::rebuild::OPERATION, for Rebuild(request: Box<RebuildRequest>) => request;
    Resize(Resize) by tables::resize::OPERATION, for
        /// A resize, or a cold migration if the flavor stays the same.
        Resize(request: Box<ResizeRequest>) => request;
    LiveMigrate(LiveMigrate) by tables::live_migration::OPERATION, for LiveMigrate(request: LiveMigrateRequest) => request;
    Confirm(Confirm) by tables::confirm::OPERATION, for Confirm(request: ConfirmRequest) => request;
    Revert(Revert) by tables::revert::OPERATION, for Revert => ();
    Evacuate(Evacuate) by tables::evacuate::OPERATION, for Evacuate(request: Box<EvacuateRequest>) => request;
    AttachVolume(Attach) by tables::volume_attachment::ATTACH, for AttachVolume(request: AttachRequest) => request;
    DetachVolume(Detach) by tables::volume_attachment::DETACH, for DetachVolume(request: DetachRequest) => request;
    AttachInterface(AttachInterface) by tables::interface::ATTACH, for AttachInterface(request: RequestedNetwork) => request;
    DetachInterface(DetachInterface) by tables::interface::DETACH, for DetachInterface(request: DetachInterfaceRequest) => request;
    AddFixedIp(AddFixedIp) by tables::fixed_ip::ADD, for AddFixedIp(request: AddedAddress) => request;
    RemoveFixedIp(RemoveFixedIp) by tables::fixed_ip::REMOVE, for RemoveFixedIp(request: RemovedAddress) => request;
    CreateImage(CreateImage) by tables::create_image::OPERATION, for CreateImage(request: Box<CreateImageRequest>) => request;
    Shelve(Shelve) by tables::shelve::OPERATION, for Shelve(request: ShelveRequest) => request;
    ShelveOffload(ShelveOffload) by tables::shelve_offload::OPERATION, for ShelveOffload => ();
    Unshelve(Unshelve) by tables::unshelve::OPERATION, for Unshelve(request: Box<UnshelveRequest>) => request;
    Heal(Heal) by tables::heal::OPERATION, for
        /// The server gets in placement what its ports ask for.
        Heal => ();
}

impl Deref for Context {
    type Target = ServerFacts;

    fn deref(&self) -> &ServerFacts {
        self.part()
    }
}

impl DerefMut for Context {
    fn deref_mut(&mut self) -> &mut ServerFacts {
        self.part_mut()
    }
}

impl<'de> Deserialize<'de> for Context {
    /// Reads the stored form of this release and of those that stored every field for every kind.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Context, D::Error> {
        let stored = Value::deserialize(deserializer)?;
        let kind = Kind::deserialize(&stored["kind"]).map_err(D::Error::custom)?;
        Context::of_stored(kind, stored).map_err(D::Error::custom)
    }
}
