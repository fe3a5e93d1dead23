//! The part of the operations on a guest that stays where it is: start, stop, reboot, pause, unpause, suspend, resume,
//! unrescue and restore.

use super::part::part;
use super::transfers::moves_no_bytes;
use super::{Part, Place, Request, Rules};
use crate::domain::server::{TaskState, VmState};

/// A start, a stop, a reboot, a pause or suspension and its end, the end of a rescue, or the restore of a soft-deleted server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerRequest {
    Start,
    Stop,
    Reboot { hard: bool },
    Pause,
    Unpause,
    Suspend,
    Resume,
    Unrescue,
    Restore,
}

impl From<PowerRequest> for Request {
    fn from(own: PowerRequest) -> Request {
        match own {
            PowerRequest::Start => Request::Start,
            PowerRequest::Stop => Request::Stop,
            PowerRequest::Reboot { hard } => Request::Reboot { hard },
            PowerRequest::Pause => Request::Pause,
            PowerRequest::Unpause => Request::Unpause,
            PowerRequest::Suspend => Request::Suspend,
            PowerRequest::Resume => Request::Resume,
            PowerRequest::Unrescue => Request::Unrescue,
            PowerRequest::Restore => Request::Restore,
        }
    }
}

impl TryFrom<Request> for PowerRequest {
    type Error = Request;

    fn try_from(request: Request) -> Result<PowerRequest, Request> {
        match request {
            Request::Start => Ok(PowerRequest::Start),
            Request::Stop => Ok(PowerRequest::Stop),
            Request::Reboot { hard } => Ok(PowerRequest::Reboot { hard }),
            Request::Pause => Ok(PowerRequest::Pause),
            Request::Unpause => Ok(PowerRequest::Unpause),
            Request::Suspend => Ok(PowerRequest::Suspend),
            Request::Resume => Ok(PowerRequest::Resume),
            Request::Unrescue => Ok(PowerRequest::Unrescue),
            Request::Restore => Ok(PowerRequest::Restore),
            other => Err(other),
        }
    }
}

part! {
    /// An operation on a guest that stays where it is.
    Power of PowerRequest {
        /// True if the server is in ERROR while a move waits for confirm or revert: after a hard reboot it waits for them again.
        #[serde(default)]
        awaits_confirm: bool,
    }
}

impl Part for Power {
    fn rules(&self) -> Rules {
        use VmState::{Active, Error, Paused, Rescued, SoftDeleted, Stopped, Suspended};
        let (action, allowed_states, task): (_, &'static [VmState], _) = match self.request {
            PowerRequest::Start => ("start", &[Stopped], TaskState::PoweringOn),
            PowerRequest::Stop => ("stop", &[Active, Error], TaskState::PoweringOff),
            PowerRequest::Reboot { hard: false } => ("reboot", &[Active], TaskState::Rebooting),
            PowerRequest::Reboot { hard: true } => ("reboot", &[Active, Stopped, Paused, Suspended, Error], TaskState::RebootingHard),
            PowerRequest::Pause => ("pause", &[Active], TaskState::Pausing),
            PowerRequest::Unpause => ("unpause", &[Paused], TaskState::Unpausing),
            PowerRequest::Suspend => ("suspend", &[Active], TaskState::Suspending),
            PowerRequest::Resume => ("resume", &[Suspended], TaskState::Resuming),
            PowerRequest::Unrescue => ("unrescue", &[Rescued], TaskState::Unrescuing),
            PowerRequest::Restore => ("restore", &[SoftDeleted], TaskState::Restoring),
        };
        Rules {
            needs_launch: !matches!(self.request, PowerRequest::Reboot { .. }),
            first_task_state: Some(task),
            ..Rules::new(action, allowed_states)
        }
    }

    moves_no_bytes!();

    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)> {
        let event = match self.request {
            PowerRequest::Start => "compute_start_instance",
            PowerRequest::Stop => "compute_stop_instance",
            PowerRequest::Reboot { .. } => "compute_reboot_instance",
            PowerRequest::Pause => "compute_pause_instance",
            PowerRequest::Unpause => "compute_unpause_instance",
            PowerRequest::Suspend => "compute_suspend_instance",
            PowerRequest::Resume => "compute_resume_instance",
            PowerRequest::Unrescue => "compute_unrescue_instance",
            PowerRequest::Restore => "compute_restore_instance",
        };
        vec![(event, self.here())]
    }

    fn note_waiting_move(&mut self, waits: bool) {
        self.awaits_confirm = waits;
    }
}
