//! The context of a saga: its request, the facts that it read at its beginning, and the results of its steps. The whole is stored with each
//! step's end, so that a successor needs nothing else.
//!
//! A context is one of several typed parts. Each part has the facts of its server ([`ServerFacts`]), and these have the [`Head`]; the
//! three are stored as one flat object. A new operation needs a part, a variant of [`Context`] and of [`Request`], and a table.

mod create;
mod create_image;
mod delete;
mod end_of_move;
mod evacuate;
mod facts;
pub mod first_boot;
mod fixed_ip;
mod guest_told;
mod heal;
mod heal_plan;
mod interface;
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
mod volume;

use std::ops::{Deref, DerefMut};

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::domain::context::RequestContext;
use crate::domain::server::named_states;
pub use create::Create;
pub use create_image::{Backup, CreateImage, CreateImageRequest, image_of_operation};
pub use delete::Delete;
pub use end_of_move::{Confirm, Revert};
pub use evacuate::Evacuate;
pub use facts::{Candidates, Head, Place, PortLink, Prior, ServerFacts, VolumeLink};
pub use fixed_ip::{AddFixedIp, AddedAddress, PortAddress, RemoveFixedIp, RemovedAddress};
pub use guest_told::{ChangePassword, CrashDump};
pub use heal::Heal;
pub use heal_plan::{Amounts, HealPlan};
pub use interface::{ALLOWED as INTERFACES_CHANGE_IN, AttachInterface, DetachInterface, DetachInterfaceRequest};
pub use live_migration::{LiveMigrate, LiveMigrateRequest};
pub use part::{HostNeed, Part, View};
pub use power::Power;
pub use rebuild::Rebuild;
use request::as_request;
pub use request::{
    AttachRequest, ChangePasswordRequest, ConfirmRequest, CreateRequest, DetachRequest, DeviceForm, EvacuateRequest, PowerRequest,
    RebuildRequest, Request, RequestedNetwork, RequestedVolume, RescueRequest, ResizeRequest, ShelveRequest, UnshelveRequest,
};
pub use rescue::Rescue;
pub use resize::Resize;
pub use shares::{PortShare, Shares, share_of};
pub use shelve::{OFFLOAD_EVENT, Shelve, ShelveOffload, Unshelve};
pub use volume::{Attach, Detach};

named_states! {
    /// The kinds of sagas.
    Kind {
        Create = "create",
        Delete = "delete",
        Start = "start",
        Stop = "stop",
        Reboot = "reboot",
        Pause = "pause",
        Unpause = "unpause",
        Suspend = "suspend",
        Resume = "resume",
        Rescue = "rescue",
        Unrescue = "unrescue",
        Restore = "restore",
        CrashDump = "crash_dump",
        ChangePassword = "change_password",
        Rebuild = "rebuild",
        Resize = "resize",
        LiveMigrate = "live_migrate",
        Confirm = "confirm",
        Revert = "revert",
        Evacuate = "evacuate",
        AttachVolume = "attach_volume",
        DetachVolume = "detach_volume",
        AttachInterface = "attach_interface",
        DetachInterface = "detach_interface",
        AddFixedIp = "add_fixed_ip",
        RemoveFixedIp = "remove_fixed_ip",
        CreateImage = "create_image",
        Shelve = "shelve",
        ShelveOffload = "shelve_offload",
        Unshelve = "unshelve",
        Heal = "heal",
    }
}

impl Kind {
    /// The kinds that take a server's guest to another host, or back to the host where it was.
    pub const MOVES: [Kind; 5] = [Kind::Resize, Kind::LiveMigrate, Kind::Revert, Kind::Evacuate, Kind::Unshelve];
}

/// The state that a saga carries from step to step.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Context {
    Create(Create),
    Delete(Delete),
    Start(Power),
    Stop(Power),
    Reboot(Power),
    Pause(Power),
    Unpause(Power),
    Suspend(Power),
    Resume(Power),
    Rescue(Rescue),
    Unrescue(Power),
    Restore(Power),
    CrashDump(CrashDump),
    ChangePassword(ChangePassword),
    Rebuild(Rebuild),
    Resize(Resize),
    LiveMigrate(LiveMigrate),
    Confirm(Confirm),
    Revert(Revert),
    Evacuate(Evacuate),
    AttachVolume(Attach),
    DetachVolume(Detach),
    AttachInterface(AttachInterface),
    DetachInterface(DetachInterface),
    AddFixedIp(AddFixedIp),
    RemoveFixedIp(RemoveFixedIp),
    CreateImage(CreateImage),
    Shelve(Shelve),
    ShelveOffload(ShelveOffload),
    Unshelve(Unshelve),
    Heal(Heal),
}

impl Context {
    /// Makes the context of a new saga.
    pub fn new(saga: Uuid, caller: RequestContext, server: Uuid, request: Request) -> Context {
        let facts = |kind| ServerFacts::new(Head::new(saga, kind, caller.clone(), server));
        let power = |kind, request| Power { facts: facts(kind), request, awaits_confirm: false };
        match request {
            Request::Create(request) => Context::Create(Create { facts: facts(Kind::Create), request, candidates: Candidates::default() }),
            Request::Delete => Context::Delete(Delete::new(facts(Kind::Delete))),
            Request::SoftDelete => Context::Delete(Delete { deferred: true, ..Delete::new(facts(Kind::Delete)) }),
            Request::Start => Context::Start(power(Kind::Start, PowerRequest::Start)),
            Request::Stop => Context::Stop(power(Kind::Stop, PowerRequest::Stop)),
            Request::Reboot { hard } => Context::Reboot(power(Kind::Reboot, PowerRequest::Reboot { hard })),
            Request::Pause => Context::Pause(power(Kind::Pause, PowerRequest::Pause)),
            Request::Unpause => Context::Unpause(power(Kind::Unpause, PowerRequest::Unpause)),
            Request::Suspend => Context::Suspend(power(Kind::Suspend, PowerRequest::Suspend)),
            Request::Resume => Context::Resume(power(Kind::Resume, PowerRequest::Resume)),
            Request::Rescue(request) => Context::Rescue(Rescue { facts: facts(Kind::Rescue), request }),
            Request::Unrescue => Context::Unrescue(power(Kind::Unrescue, PowerRequest::Unrescue)),
            Request::Reclaim => Context::Delete(Delete { reclaims: true, ..Delete::new(facts(Kind::Delete)) }),
            Request::Restore => Context::Restore(power(Kind::Restore, PowerRequest::Restore)),
            Request::CrashDump => Context::CrashDump(CrashDump { facts: facts(Kind::CrashDump) }),
            Request::ChangePassword(request) => Context::ChangePassword(ChangePassword { facts: facts(Kind::ChangePassword), request }),
            Request::Rebuild(request) => Context::Rebuild(Rebuild { facts: facts(Kind::Rebuild), request }),
            Request::Resize(request) => {
                let (facts, candidates) = (facts(Kind::Resize), Candidates::default());
                Context::Resize(Resize { facts, request, candidates, snapshot: None, manifest: None })
            }
            Request::LiveMigrate(request) => Context::LiveMigrate(LiveMigrate::new(facts(Kind::LiveMigrate), request)),
            Request::Confirm(request) => Context::Confirm(Confirm { facts: facts(Kind::Confirm), request }),
            Request::Revert => Context::Revert(Revert { facts: facts(Kind::Revert), running_before_move: false }),
            Request::Evacuate(request) => {
                let (facts, candidates) = (facts(Kind::Evacuate), Candidates::default());
                Context::Evacuate(Evacuate { facts, request, candidates, source_stopped: None })
            }
            Request::AttachVolume(request) => Context::AttachVolume(Attach { facts: facts(Kind::AttachVolume), request, home: None }),
            Request::DetachVolume(request) => Context::DetachVolume(Detach { facts: facts(Kind::DetachVolume), request, home: None }),
            Request::AttachInterface(request) => Context::AttachInterface(AttachInterface::new(facts(Kind::AttachInterface), request)),
            Request::DetachInterface(request) => {
                Context::DetachInterface(DetachInterface { facts: facts(Kind::DetachInterface), request, plan: None })
            }
            Request::AddFixedIp(request) => Context::AddFixedIp(AddFixedIp { facts: facts(Kind::AddFixedIp), request }),
            Request::RemoveFixedIp(request) => Context::RemoveFixedIp(RemoveFixedIp { facts: facts(Kind::RemoveFixedIp), request }),
            Request::CreateImage(request) => {
                Context::CreateImage(CreateImage { facts: facts(Kind::CreateImage), request, volumes_to_snapshot: Vec::new() })
            }
            Request::Shelve(request) => Context::Shelve(Shelve { facts: facts(Kind::Shelve), request }),
            Request::ShelveOffload => Context::ShelveOffload(ShelveOffload { facts: facts(Kind::ShelveOffload) }),
            Request::Unshelve(request) => Context::Unshelve(Unshelve::new(facts(Kind::Unshelve), request)),
            Request::Heal => Context::Heal(Heal { facts: facts(Kind::Heal), plan: None }),
        }
    }

    /// Returns the operation's part, for code that all operations share.
    pub fn part(&self) -> &dyn Part {
        match self {
            Context::Create(part) => part,
            Context::Delete(part) => part,
            Context::Start(part) | Context::Stop(part) | Context::Reboot(part) => part,
            Context::Pause(part) | Context::Unpause(part) | Context::Suspend(part) | Context::Resume(part) => part,
            Context::Rescue(part) => part,
            Context::Unrescue(part) | Context::Restore(part) => part,
            Context::CrashDump(part) => part,
            Context::ChangePassword(part) => part,
            Context::Rebuild(part) => part,
            Context::Resize(part) => part,
            Context::LiveMigrate(part) => part,
            Context::Confirm(part) => part,
            Context::Revert(part) => part,
            Context::Evacuate(part) => part,
            Context::AttachVolume(part) => part,
            Context::DetachVolume(part) => part,
            Context::AttachInterface(part) => part,
            Context::DetachInterface(part) => part,
            Context::AddFixedIp(part) => part,
            Context::RemoveFixedIp(part) => part,
            Context::CreateImage(part) => part,
            Context::Shelve(part) => part,
            Context::ShelveOffload(part) => part,
            Context::Unshelve(part) => part,
            Context::Heal(part) => part,
        }
    }

    /// See [`Context::part`].
    pub fn part_mut(&mut self) -> &mut dyn Part {
        match self {
            Context::Create(part) => part,
            Context::Delete(part) => part,
            Context::Start(part) | Context::Stop(part) | Context::Reboot(part) => part,
            Context::Pause(part) | Context::Unpause(part) | Context::Suspend(part) | Context::Resume(part) => part,
            Context::Rescue(part) => part,
            Context::Unrescue(part) | Context::Restore(part) => part,
            Context::CrashDump(part) => part,
            Context::ChangePassword(part) => part,
            Context::Rebuild(part) => part,
            Context::Resize(part) => part,
            Context::LiveMigrate(part) => part,
            Context::Confirm(part) => part,
            Context::Revert(part) => part,
            Context::Evacuate(part) => part,
            Context::AttachVolume(part) => part,
            Context::DetachVolume(part) => part,
            Context::AttachInterface(part) => part,
            Context::DetachInterface(part) => part,
            Context::AddFixedIp(part) => part,
            Context::RemoveFixedIp(part) => part,
            Context::CreateImage(part) => part,
            Context::Shelve(part) => part,
            Context::ShelveOffload(part) => part,
            Context::Unshelve(part) => part,
            Context::Heal(part) => part,
        }
    }
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
        fn part<P: DeserializeOwned, E: Error>(stored: Value) -> Result<P, E> {
            serde_json::from_value(stored).map_err(E::custom)
        }
        let stored = Value::deserialize(deserializer)?;
        let kind = Kind::deserialize(&stored["kind"]).map_err(D::Error::custom)?;
        Ok(match kind {
            Kind::Create => Context::Create(part(stored)?),
            Kind::Delete => Context::Delete(part(stored)?),
            Kind::Start => Context::Start(part(stored)?),
            Kind::Stop => Context::Stop(part(stored)?),
            Kind::Reboot => Context::Reboot(part(stored)?),
            Kind::Pause => Context::Pause(part(stored)?),
            Kind::Unpause => Context::Unpause(part(stored)?),
            Kind::Suspend => Context::Suspend(part(stored)?),
            Kind::Resume => Context::Resume(part(stored)?),
            Kind::Rescue => Context::Rescue(part(stored)?),
            Kind::Unrescue => Context::Unrescue(part(stored)?),
            Kind::Restore => Context::Restore(part(stored)?),
            Kind::CrashDump => Context::CrashDump(part(stored)?),
            Kind::ChangePassword => Context::ChangePassword(part(stored)?),
            Kind::Rebuild => Context::Rebuild(part(stored)?),
            Kind::Resize => Context::Resize(part(stored)?),
            Kind::LiveMigrate => Context::LiveMigrate(part(stored)?),
            Kind::Confirm => Context::Confirm(part(stored)?),
            Kind::Revert => Context::Revert(part(stored)?),
            Kind::Evacuate => Context::Evacuate(part(stored)?),
            Kind::AttachVolume => Context::AttachVolume(part(stored)?),
            Kind::DetachVolume => Context::DetachVolume(part(stored)?),
            Kind::AttachInterface => Context::AttachInterface(part(stored)?),
            Kind::DetachInterface => Context::DetachInterface(part(stored)?),
            Kind::AddFixedIp => Context::AddFixedIp(part(stored)?),
            Kind::RemoveFixedIp => Context::RemoveFixedIp(part(stored)?),
            Kind::CreateImage => Context::CreateImage(part(stored)?),
            Kind::Shelve => Context::Shelve(part(stored)?),
            Kind::ShelveOffload => Context::ShelveOffload(part(stored)?),
            Kind::Unshelve => Context::Unshelve(part(stored)?),
            Kind::Heal => Context::Heal(part(stored)?),
        })
    }
}
