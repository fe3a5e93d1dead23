//! What a saga knows: its request, what it read at the beginning, and what its steps found out. The whole of it is stored
//! with each step's end, so a successor goes on with nothing else.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::error::StepError;
use super::scheduling::Candidate;
use crate::db::cell::bundle::InstanceBundle;
use crate::domain::context::RequestContext;
use crate::domain::flavor::{Flavor, Resources};
use crate::domain::guest::DiskManifest;
use crate::domain::guest_secrets::GuestSecrets;
use crate::domain::quota::CountedRoom;
use crate::domain::request_spec::RequestSpec;
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState, named_states};
use crate::env::Env;

named_states! {
    /// The sagas.
    Kind {
        Create = "create",
        Delete = "delete",
        Start = "start",
        Stop = "stop",
        Reboot = "reboot",
        Rebuild = "rebuild",
        Resize = "resize",
        Confirm = "confirm",
        Revert = "revert",
        AttachVolume = "attach_volume",
        DetachVolume = "detach_volume",
    }
}

/// A compute host with its place in the world.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The cell's name.
    pub cell: String,
    pub host: String,
    /// The hypervisor's name; the placement provider carries it.
    pub node: String,
    /// The placement provider.
    pub provider: Uuid,
    pub availability_zone: Option<String>,
}

impl From<&Candidate> for Place {
    fn from(candidate: &Candidate) -> Place {
        Place {
            cell: candidate.cell.clone(),
            host: candidate.host.clone(),
            node: candidate.node.clone(),
            provider: candidate.provider,
            availability_zone: candidate.availability_zone.clone(),
        }
    }
}

/// A server as it was when the operation took it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Prior {
    pub vm_state: VmState,
    /// The guest shall run when the operation fails (and, after a move, when it succeeds).
    pub running: bool,
    pub launched: bool,
}

/// A volume of the server, with the attachments that a move gives it. Their ids are derived from the saga's, so a retry
/// makes no second one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VolumeLink {
    pub volume_id: Uuid,
    pub device_name: String,
    pub boot_index: Option<i32>,
    /// Connects the volume to the source host.
    pub source_attachment: Uuid,
    /// Holds the volume for the source while its guest is away.
    pub placeholder: Uuid,
    /// Connects the volume to the target host.
    pub target_attachment: Uuid,
}

/// A port of the server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PortLink {
    pub port_id: Uuid,
    pub mac: String,
    /// Made for the server, so deleted with it.
    pub made_for_server: bool,
}

/// What the user asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Request {
    Create(Box<CreateRequest>),
    Delete,
    Start,
    Stop,
    Reboot {
        hard: bool,
    },
    Rebuild(Box<RebuildRequest>),
    /// A resize, or a cold migration when the flavor stays the same.
    Resize {
        flavor: Box<Flavor>,
        migrate: bool,
        host: Option<String>,
        cross_cell_allowed: bool,
    },
    Confirm {
        automatic: bool,
    },
    Revert,
    AttachVolume {
        volume_id: Uuid,
        device_name: Option<String>,
        tag: Option<String>,
        delete_on_termination: bool,
    },
    DetachVolume {
        volume_id: Uuid,
    },
}

/// A server to make. Ports and volumes are named or described; ids of what is to be made are chosen already.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CreateRequest {
    /// The record, its metadata and tags, as the API shows them while no cell has them.
    pub instance: Box<InstanceBundle>,
    pub request_spec: Box<RequestSpec>,
    /// Networks to make a port on, or ports to use, in order.
    pub networks: Vec<RequestedNetwork>,
    /// Block devices, the root first when it is a volume.
    pub volumes: Vec<RequestedVolume>,
    /// A host that an administrator demands.
    pub host: Option<String>,
    /// What the guest reads at first boot.
    pub config_drive: serde_json::Value,
    /// The guest's secrets, until the operation ends; its user data until the build request has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
    /// Its project's room, to be checked again when it is accepted; none when it is not.
    #[serde(default)]
    pub room: Option<CountedRoom>,
}

impl CreateRequest {
    /// A request of a release that sealed nothing has user data and files in its record, too.
    fn forget_files(&mut self) {
        self.instance.instance.user_data = None;
        self.instance.instance.injected_files = serde_json::Value::Array(Vec::new());
    }
}

/// A network interface of a new server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestedNetwork {
    /// The port to use, or the id of the one to make.
    pub port_id: Uuid,
    /// Make it on this network; none when the port exists.
    pub network_id: Option<Uuid>,
    pub fixed_ip: Option<String>,
    pub tag: Option<String>,
    /// Of a port that is made; none stands for the project's default group.
    #[serde(default)]
    pub security_groups: Vec<Uuid>,
}

/// A volume of a new server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RequestedVolume {
    /// The volume to use, or the id of the one to make.
    pub volume_id: Uuid,
    /// Make it with this many GiB; none when the volume exists.
    pub create_gb: Option<i32>,
    /// Fill a new volume from this image.
    pub image_id: Option<Uuid>,
    /// The type of a new volume; none is the default.
    #[serde(default)]
    pub volume_type: Option<String>,
    pub boot_index: Option<i32>,
    pub device_name: String,
    pub delete_on_termination: bool,
    pub tag: Option<String>,
}

/// What a rebuild changes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RebuildRequest {
    pub image_id: Uuid,
    /// The demands of that image on hosts.
    #[serde(default)]
    pub image_properties: std::collections::BTreeMap<String, String>,
    /// The root disk is a volume, and the image fills it anew.
    #[serde(default)]
    pub reimages_root_volume: bool,
    pub name: Option<String>,
    pub description: Option<Option<String>>,
    pub metadata: Option<std::collections::BTreeMap<String, String>>,
    pub key_name: Option<Option<String>>,
    /// The configuration that the guest reads at its next first boot.
    pub config_drive: serde_json::Value,
    /// The guest's secrets, until the operation ends; its user data when the request brings new ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
}

/// Everything a saga carries from step to step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Context {
    /// The saga's id; a move's migration record carries it too.
    pub saga: Uuid,
    pub kind: Kind,
    /// Who asked.
    pub caller: RequestContext,
    pub request: Request,
    pub server: Uuid,
    pub project_id: String,
    pub user_id: String,
    pub display_name: String,
    pub volume_backed: bool,
    pub prior: Option<Prior>,
    /// The server's request spec as it was.
    pub request_spec: Option<RequestSpec>,
    /// Where the server is when the operation begins.
    pub source: Option<Place>,
    /// Where it goes.
    pub target: Option<Place>,
    /// Candidates that have not been tried.
    pub alternates: Vec<Candidate>,
    /// Candidates that refused, with the reason.
    pub refusals: Vec<(String, String)>,
    pub old_flavor: Option<Flavor>,
    pub new_flavor: Option<Flavor>,
    pub ports: Vec<PortLink>,
    pub volumes: Vec<VolumeLink>,
    /// Volumes that a delete takes with it.
    pub volumes_to_delete: Vec<Uuid>,
    /// The temporary image that carries the local disks.
    pub snapshot: Option<Uuid>,
    /// What the source wrote.
    pub manifest: Option<DiskManifest>,
    /// The migration that a confirm, a revert or a delete ends.
    pub migration: Option<Uuid>,
    /// Before the move that is now reverted, the guest ran.
    pub running_before_move: bool,
    /// The lease under which commits of ownership are made; set by the runner.
    pub lease_epoch: i64,
    /// Why the saga goes backward; set by the runner before the first undo.
    pub error: Option<String>,
    /// The saga goes backward because somebody wished so; set by the runner.
    #[serde(default)]
    pub cancelled: bool,
    /// The guest cannot be said to be well: the server ends in ERROR and says why.
    pub service_lost: bool,
    /// Nothing that is still owed brings the guest back: its user must (rebuild, hard reboot).
    #[serde(default)]
    pub guest_lost: bool,
    /// The server was in ERROR in the middle of a move that waits to be confirmed or reverted: mended, it waits for that again.
    #[serde(default)]
    pub awaits_confirm: bool,
    /// This context pays a debt of an ended saga: what it would remove may be in use again.
    pub settling: bool,
}

impl Context {
    /// A new saga's context.
    pub fn new(saga: Uuid, kind: Kind, caller: RequestContext, server: Uuid, request: Request) -> Context {
        Context {
            saga,
            kind,
            project_id: caller.project_id.clone(),
            user_id: caller.user_id.clone(),
            caller,
            request,
            server,
            display_name: String::new(),
            volume_backed: false,
            prior: None,
            request_spec: None,
            source: None,
            target: None,
            alternates: Vec::new(),
            refusals: Vec::new(),
            old_flavor: None,
            new_flavor: None,
            ports: Vec::new(),
            volumes: Vec::new(),
            volumes_to_delete: Vec::new(),
            snapshot: None,
            manifest: None,
            migration: None,
            running_before_move: false,
            lease_epoch: 0,
            error: None,
            cancelled: false,
            service_lost: false,
            guest_lost: false,
            awaits_confirm: false,
            settling: false,
        }
    }

    /// The configuration that the guest reads at its first boot, and its secrets. An operation that began under a release which sealed
    /// nothing has both in its configuration. Refused when other keys have sealed it.
    pub fn first_boot(&self, env: &Env) -> Result<(serde_json::Value, GuestSecrets), StepError> {
        let (config, sealed) = match &self.request {
            Request::Create(create) => (&create.config_drive, &create.sealed),
            Request::Rebuild(rebuild) => (&rebuild.config_drive, &rebuild.sealed),
            _ => return Ok((serde_json::Value::Null, GuestSecrets::default())),
        };
        let mut config = config.clone();
        let written = GuestSecrets::taken_from(&mut config);
        match sealed {
            None => Ok((config, written)),
            Some(sealed) => match GuestSecrets::opened(sealed, |text| env.unseal(text)) {
                Some(secrets) => Ok((config, secrets)),
                None => Err(StepError::Refused("the password of the guest was sealed with token keys that are not here".into())),
            },
        }
    }

    /// Replaces what [`Context::first_boot`] gives.
    pub fn keep_secrets(&mut self, env: &Env, config: serde_json::Value, secrets: &GuestSecrets) {
        let sealed = Some(secrets.sealed(|bytes| env.seal(bytes)));
        match &mut self.request {
            Request::Create(create) => {
                (create.config_drive, create.sealed) = (config, sealed);
                create.forget_files();
            }
            Request::Rebuild(rebuild) => (rebuild.config_drive, rebuild.sealed) = (config, sealed),
            _ => {}
        }
    }

    /// Erases what the guest alone may know: the operation is over, or what is stored needs it no more.
    pub fn forget_secrets(&mut self) {
        match &mut self.request {
            Request::Create(create) => {
                (create.config_drive, create.sealed) = (serde_json::Value::Null, None);
                create.forget_files();
            }
            Request::Rebuild(rebuild) => (rebuild.config_drive, rebuild.sealed) = (serde_json::Value::Null, None),
            _ => {}
        }
    }

    /// This context without its secrets.
    pub fn without_secrets(&self) -> Context {
        let mut bare = self.clone();
        bare.forget_secrets();
        bare
    }

    /// True when source and target lie in different cells.
    pub fn crosses_cells(&self) -> bool {
        matches!((&self.source, &self.target), (Some(source), Some(target)) if source.cell != target.cell)
    }

    /// The move that this operation makes or ends: its migration record, and the consumer that keeps the source's room.
    pub fn move_id(&self) -> Uuid {
        self.migration.unwrap_or(self.saga)
    }

    /// An id that belongs to a move and a purpose: the same again on a retry, and in the confirm or revert that ends it.
    pub fn derived_id(&self, purpose: &str) -> Uuid {
        Uuid::new_v5(&self.move_id(), purpose.as_bytes())
    }

    /// The source of the operation.
    pub fn source(&self) -> Result<&Place, StepError> {
        self.source.as_ref().ok_or_else(|| StepError::Refused("the server has no host".into()))
    }

    /// The target of the move.
    pub fn target(&self) -> Result<&Place, StepError> {
        self.target.as_ref().ok_or_else(|| StepError::Refused("no target host was chosen".into()))
    }

    /// Where the server is now: at the target of an earlier move, else where it was found; none when it has no host.
    pub fn here(&self) -> Option<&Place> {
        match self.kind {
            Kind::Confirm | Kind::Revert | Kind::Delete | Kind::AttachVolume | Kind::DetachVolume | Kind::Create => {
                self.target.as_ref().or(self.source.as_ref())
            }
            Kind::Start | Kind::Stop | Kind::Reboot | Kind::Rebuild | Kind::Resize => self.source.as_ref(),
        }
    }

    /// The guest shall run when the operation is over or undone.
    pub fn ran_before(&self) -> bool {
        self.prior.as_ref().is_some_and(|prior| prior.running)
    }

    /// A rebuild that fills the root volume anew.
    pub fn reimages_root_volume(&self) -> bool {
        matches!(&self.request, Request::Rebuild(rebuild) if rebuild.reimages_root_volume)
    }

    /// Local disks exist: a root disk that is no volume, or ephemeral or swap disks (NOVA-DIFFERENCES L18).
    pub fn has_local_disks(&self) -> bool {
        let extra = |flavor: &Flavor| flavor.ephemeral_gb > 0 || flavor.swap_mb > 0;
        !self.volume_backed || self.old_flavor.as_ref().is_some_and(extra)
    }

    /// What the old flavor takes.
    pub fn old_resources(&self) -> Resources {
        self.old_flavor.as_ref().map(|flavor| flavor.resources(self.volume_backed)).unwrap_or_default()
    }

    /// What the new flavor takes.
    pub fn new_resources(&self) -> Resources {
        self.new_flavor.as_ref().map(|flavor| flavor.resources(self.volume_backed)).unwrap_or_default()
    }

    /// The task state that a user sees when the operation has just been accepted.
    pub fn first_task_state(&self) -> Option<TaskState> {
        match &self.request {
            Request::Create(_) => Some(TaskState::Scheduling),
            Request::Delete => Some(TaskState::Deleting),
            Request::Start => Some(TaskState::PoweringOn),
            Request::Stop => Some(TaskState::PoweringOff),
            Request::Reboot { hard } => Some(if *hard { TaskState::RebootingHard } else { TaskState::Rebooting }),
            Request::Rebuild(_) => Some(TaskState::Rebuilding),
            Request::Resize { .. } => Some(TaskState::ResizePrep),
            Request::Revert => Some(TaskState::ResizeReverting),
            // As in Nova a confirm shows VERIFY_RESIZE with no task; attach and detach have none either.
            Request::Confirm { .. } | Request::AttachVolume { .. } | Request::DetachVolume { .. } => None,
        }
    }

    /// The instance action's name.
    pub fn action(&self) -> &'static str {
        match &self.request {
            Request::Create(_) => "create",
            Request::Delete => "delete",
            Request::Start => "start",
            Request::Stop => "stop",
            Request::Reboot { .. } => "reboot",
            Request::Rebuild(_) => "rebuild",
            Request::Resize { migrate: true, .. } => "migrate",
            Request::Resize { migrate: false, .. } => "resize",
            Request::Confirm { .. } => "confirmResize",
            Request::Revert => "revertResize",
            Request::AttachVolume { .. } => "attach_volume",
            Request::DetachVolume { .. } => "detach_volume",
        }
    }
}
