//! The states of a server, and the status that users see.

use serde::{Deserialize, Serialize};

/// Makes a closed set of names: an enum with the text of each variant, as records and messages have it.
#[macro_export]
macro_rules! named_states {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// All values, in the order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The text that records and the API carry.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            /// Parses the text of a record.
            pub fn parse(text: &str) -> Option<$name> {
                match text { $($text => Some($name::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub use named_states;

named_states! {
    /// The state of a server that no operation holds.
    VmState {
        /// Not yet on a host.
        Building = "building",
        /// Its guest runs.
        Active = "active",
        /// Its guest is off.
        Stopped = "stopped",
        /// Its guest stands still with its memory.
        Paused = "paused",
        /// Its guest is off, and its host keeps its memory.
        Suspended = "suspended",
        /// Its guest runs from the disk of a rescue image, beside its own disks.
        Rescued = "rescued",
        /// At its target, waiting for confirm or revert.
        Resized = "resized",
        /// Its guest is off, and an image has its root disk; everything is still on its host.
        Shelved = "shelved",
        /// On no host: an image or its root volume has its root disk.
        ShelvedOffloaded = "shelved_offloaded",
        /// Deleted by its user, and kept for a while: its guest is off, and everything else is as it was.
        SoftDeleted = "soft-delete",
        /// An operation failed and could not restore the server; hard reboot or rebuild recovers it.
        Error = "error",
        /// Gone; the record is kept for history.
        Deleted = "deleted",
    }
}

named_states! {
    /// The task that an operation does on a server; none at rest.
    TaskState {
        /// Create: choosing a host.
        Scheduling = "scheduling",
        /// Create: on its host, preparing disks.
        BlockDeviceMapping = "block_device_mapping",
        /// Create: ports.
        Networking = "networking",
        /// Create: the guest starts.
        Spawning = "spawning",
        /// Start.
        PoweringOn = "powering-on",
        /// Stop.
        PoweringOff = "powering-off",
        /// Soft reboot.
        Rebooting = "rebooting",
        /// Hard reboot.
        RebootingHard = "rebooting_hard",
        /// Pause.
        Pausing = "pausing",
        /// Unpause.
        Unpausing = "unpausing",
        /// Suspend.
        Suspending = "suspending",
        /// Resume.
        Resuming = "resuming",
        /// Rescue.
        Rescuing = "rescuing",
        /// Unrescue.
        Unrescuing = "unrescuing",
        /// The guest gets another password.
        UpdatingPassword = "updating_password",
        /// Rebuild.
        Rebuilding = "rebuilding",
        /// Evacuate: the volumes go to the target.
        RebuildBlockDeviceMapping = "rebuild_block_device_mapping",
        /// Evacuate: the target builds and starts the guest.
        RebuildSpawning = "rebuild_spawning",
        /// Resize or migrate accepted, or choosing and preparing the target.
        ResizePrep = "resize_prep",
        /// The source host works.
        ResizeMigrating = "resize_migrating",
        /// The source host has let go.
        ResizeMigrated = "resize_migrated",
        /// The target host works.
        ResizeFinish = "resize_finish",
        /// Revert.
        ResizeReverting = "resize_reverting",
        /// Live migration.
        Migrating = "migrating",
        /// Snapshot: accepted.
        ImageSnapshotPending = "image_snapshot_pending",
        /// Backup: accepted.
        ImageBackup = "image_backup",
        /// Snapshot or backup: the image's record is made.
        ImagePendingUpload = "image_pending_upload",
        /// Snapshot or backup: the root disk is copied to the image.
        ImageUploading = "image_uploading",
        /// Shelve.
        Shelving = "shelving",
        /// Shelve: the image's record is made.
        ShelvingImagePendingUpload = "shelving_image_pending_upload",
        /// Shelve: the root disk is copied to the image.
        ShelvingImageUploading = "shelving_image_uploading",
        /// The server leaves its host.
        ShelvingOffloading = "shelving_offloading",
        /// Unshelve.
        Unshelving = "unshelving",
        /// Delete.
        Deleting = "deleting",
        /// Soft delete.
        SoftDeleting = "soft-deleting",
        /// Restore of a soft-deleted server.
        Restoring = "restoring",
    }
}

/// The hypervisor's state of a guest, with the API's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[repr(i32)]
pub enum PowerState {
    /// Unknown.
    NoState = 0,
    /// Runs.
    Running = 1,
    /// Stands still with its memory.
    Paused = 3,
    /// Off.
    Shutdown = 4,
    /// Off, with its memory on the host's disk.
    Suspended = 7,
}

impl PowerState {
    /// Returns the number in records and in `OS-EXT-STS:power_state`.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// Converts the number in a record. Unknown numbers mean `NoState`.
    pub fn from_code(code: i32) -> PowerState {
        match code {
            1 => PowerState::Running,
            3 => PowerState::Paused,
            4 => PowerState::Shutdown,
            7 => PowerState::Suspended,
            _ => PowerState::NoState,
        }
    }
}

/// Returns the API's status for a pair of states (NOVA-DIFFERENCES L9: a cross-cell revert shows REVERT_RESIZE until done).
pub fn api_status(vm_state: VmState, task_state: Option<TaskState>) -> &'static str {
    use TaskState as T;
    match (vm_state, task_state) {
        (VmState::Error, Some(T::Rebuilding | T::RebuildBlockDeviceMapping | T::RebuildSpawning)) => "REBUILD",
        (VmState::Error, Some(T::RebootingHard)) => "HARD_REBOOT",
        (VmState::Error, _) => "ERROR",
        (VmState::Deleted, _) => "DELETED",
        (VmState::SoftDeleted, _) => "SOFT_DELETED",
        (VmState::Building, _) => "BUILD",
        (VmState::Resized, Some(T::ResizeReverting)) => "REVERT_RESIZE",
        (VmState::Resized, _) => "VERIFY_RESIZE",
        (VmState::Shelved, _) => "SHELVED",
        (VmState::ShelvedOffloaded, _) => "SHELVED_OFFLOADED",
        (_, Some(T::ResizePrep | T::ResizeMigrating | T::ResizeMigrated | T::ResizeFinish)) => "RESIZE",
        (_, Some(T::ResizeReverting)) => "REVERT_RESIZE",
        (_, Some(T::Rebooting)) => "REBOOT",
        (_, Some(T::RebootingHard)) => "HARD_REBOOT",
        (_, Some(T::Rebuilding | T::RebuildBlockDeviceMapping | T::RebuildSpawning)) => "REBUILD",
        (VmState::Active | VmState::Paused, Some(T::Migrating)) => "MIGRATING",
        (VmState::Active, _) => "ACTIVE",
        (VmState::Stopped, _) => "SHUTOFF",
        (VmState::Paused, _) => "PAUSED",
        (VmState::Suspended, _) => "SUSPENDED",
        (VmState::Rescued, _) => "RESCUE",
    }
}
