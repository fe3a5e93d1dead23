//! The interface of an operation's typed part: all that the shared code (acceptance, history, debts) asks of an operation.

use std::any::Any;
use std::ops::{Deref, DerefMut};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{Candidates, Context, Place, ServerFacts};
use crate::db::cell::CellTxn;
use crate::db::cell::instance_list::InstanceView;
use crate::domain::delete_request::DeleteRequest;
use crate::domain::host_transfer::HostTransfer;
use crate::domain::instance::Instance;
use crate::domain::migration::MigrationStatus;
use crate::domain::notification::Event;
use crate::domain::secret::Sealed;
use crate::domain::server::{TaskState, VmState};
use crate::saga::error::StepError;
use crate::saga::world::World;

/// The host that an operation needs from its beginning on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostNeed {
    /// No host: the operation asks none, or does without the answer and pays later.
    Nothing,
    /// The host where the guest is, at [`Part::here`]. A server that is on no host needs none.
    Guest,
    /// The source of a move. A server that is on no host is refused.
    Source,
    /// As [`HostNeed::Source`], for a server that may be on no host.
    SourceIfAny,
    /// The source must be down. A server that is on no host is refused.
    SourceDown,
}

/// The rules by which the shared code treats an operation, as far as they are plain values. Most values depend on the operation alone, and some on its
/// request.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The instance action's name.
    pub action: &'static str,
    /// The name of the operation in messages about the server's state.
    pub verb: &'static str,
    /// The states of a server in which the operation is allowed.
    pub allowed_states: &'static [VmState],
    /// True if the operation is refused for a server that never ran.
    pub needs_launch: bool,
    /// The task state that users see from the acceptance on.
    pub first_task_state: Option<TaskState>,
    /// True if the operation is accepted whatever task users see: it holds the server, so no other operation runs.
    pub ignores_task: bool,
    /// True if the operation is refused for a guest without memory, because it copies a running one.
    pub needs_memory: bool,
    /// True if the operation waits while as many of its sort are in progress as the operator allows.
    pub waits_for_turn: bool,
    /// The status that the operation gives to the move that it ends; none if it ends no move.
    pub ended_move: Option<MigrationStatus>,
    /// True if a move that waits for confirm or revert ends with the operation, and none has to wait.
    pub ends_any_move: bool,
    /// True if the operation is refused while a move of a server in ERROR waits for confirm or revert.
    pub refuses_waiting_move: bool,
    /// False if a guest that stood still with its memory has lost it when the operation is undone.
    pub keeps_memory: bool,
    /// The event that tells consumers that the whole operation failed; none if it has none.
    pub failure_event: Option<Event>,
    /// True if the operation writes disks, which may take minutes.
    pub copies_disks: bool,
    /// True if the operation builds upon the allocations, move fields and records of the server's earlier moves.
    pub waits_for_moves_debts: bool,
}

impl Rules {
    /// Returns the rules of an operation with this action that is allowed in these states, and has nothing else of its own.
    pub const fn new(action: &'static str, allowed_states: &'static [VmState]) -> Rules {
        Rules {
            action,
            verb: action,
            allowed_states,
            needs_launch: true,
            first_task_state: None,
            ignores_task: false,
            needs_memory: false,
            waits_for_turn: true,
            ended_move: None,
            ends_any_move: false,
            refuses_waiting_move: false,
            keeps_memory: true,
            failure_event: None,
            copies_disks: false,
            waits_for_moves_debts: false,
        }
    }
}

/// The typed part of an operation. It dereferences to the facts that all operations share.
#[async_trait]
pub trait Part: Deref<Target = ServerFacts> + DerefMut + Any + Send + Sync {
    /// The answers that are plain values.
    fn rules(&self) -> Rules;

    /// The server's host; none if it has none.
    fn here(&self) -> Option<&Place> {
        self.source.as_ref()
    }

    /// The host without which the operation is not accepted.
    fn host_need(&self) -> HostNeed {
        HostNeed::Guest
    }

    /// The action's leading events, in Nova's names and order: the conductor's, then the host's.
    fn leading_events(&self) -> Vec<(&'static str, Option<&Place>)>;

    /// The transfers of bytes that the operation, as far as it knows its hosts and images by now, has hosts make. A host that asks a controller
    /// for any other bytes is refused, so each command that moves bytes has its transfer here, from the step before on.
    fn transfers(&self) -> Vec<HostTransfer>;

    /// The delete that is recorded to follow the operation that holds the server and makes room; none if this operation is no such delete.
    fn delete_to_follow(&self, _at: DateTime<Utc>) -> Option<DeleteRequest> {
        None
    }

    /// True if the operation has the one that holds the server make room.
    fn has_others_make_room(&self) -> bool {
        false
    }

    /// The only move that the operation may end; none if it may end whichever waits.
    fn only_move(&self) -> Option<Uuid> {
        None
    }

    /// Notes whether a move of a server in ERROR waits for confirm or revert.
    fn note_waiting_move(&mut self, _waits: bool) {}

    /// Reads the record of a server whose waiting move the operation ends.
    fn read_move(&mut self, _record: &Instance) {}

    /// Reads the operation's own facts from the server's record in this cell. The shared facts, but for the volumes, are there already.
    fn read_record(&mut self, _cell: &str, _view: &InstanceView) {}

    /// Adds the records that users find as soon as the request is answered to the commit that begins the operation.
    async fn first_writes(&self, _world: &World, txn: CellTxn) -> Result<CellTxn, StepError> {
        Ok(txn)
    }

    /// Takes the records of [`Part::first_writes`] back, in the commit that ends an undone operation. Later steps may have undone them before.
    fn undone_writes(&self, _world: &World, txn: CellTxn) -> CellTxn {
        txn
    }

    /// True if the scheduler judges a host that the caller demands.
    fn names_host(&self) -> bool {
        false
    }

    /// The host onto which the caller forced the server past the scheduler; none if nothing was forced.
    fn forced_host(&self) -> Option<&str> {
        None
    }

    /// True if the guest runs once the operation is done. After an undone one it runs if it ran before.
    fn runs_when_done(&self) -> bool {
        self.ran_before()
    }

    /// See [`Moot::AttachedAnew`](crate::saga::step::Moot::AttachedAnew). False if the operation attaches nothing.
    async fn is_attached_anew(&self, _world: &World) -> Result<bool, StepError> {
        Ok(false)
    }

    /// The time of the action's beginning, if that is not the time of its record.
    fn began_at(&self) -> Option<DateTime<Utc>> {
        None
    }

    /// The hosts among which the operation chooses.
    fn candidates(&self) -> Option<&Candidates> {
        None
    }

    /// See [`Part::candidates`].
    fn candidates_mut(&mut self) -> Option<&mut Candidates> {
        None
    }

    /// The configuration that the guest reads at its first boot, and the sealed secrets beside it.
    fn first_boot(&self) -> Option<(&serde_json::Value, &Option<Sealed>)> {
        None
    }

    /// Replaces the result of [`Part::first_boot`].
    fn set_first_boot(&mut self, _config: serde_json::Value, _sealed: Option<Sealed>) {}
}

/// A view of a context that a step takes: the whole, the shared facts, or one operation's part.
pub trait View {
    /// None if the context is another operation's.
    fn of(context: &mut Context) -> Option<&mut Self>;
}

impl View for Context {
    fn of(context: &mut Context) -> Option<&mut Context> {
        Some(context)
    }
}

impl<P: Part> View for P {
    fn of(context: &mut Context) -> Option<&mut P> {
        let part: &mut dyn Any = context.part_mut();
        part.downcast_mut()
    }
}

impl View for ServerFacts {
    fn of(context: &mut Context) -> Option<&mut ServerFacts> {
        Some(context)
    }
}

/// Declares a part: the facts that it shares with all parts, for which it can be used, then the request (`of Request`; `of nothing` if the facts
/// say all), then its own fields. `Part::begin` makes it from the facts and the request, with each own field empty. A part that is declared
/// without `of` has a `begin` of its own.
macro_rules! part {
    ($(#[$doc:meta])* $part:ident of nothing { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        part! { $(#[$doc])* $part { $($(#[$attribute])* $field: $type,)* } }

        impl $part {
            pub(super) fn begin(facts: $crate::saga::context::ServerFacts, (): ()) -> $part {
                $part { facts, $($field: Default::default(),)* }
            }
        }
    };
    ($(#[$doc:meta])* $part:ident of $request:ty { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        part! {
            $(#[$doc])*
            $part {
                #[serde(with = "crate::saga::context::as_request")]
                request: $request,
                $($(#[$attribute])* $field: $type,)*
            }
        }

        impl $part {
            pub(super) fn begin(facts: $crate::saga::context::ServerFacts, request: $request) -> $part {
                $part { facts, request, $($field: Default::default(),)* }
            }
        }
    };
    ($(#[$doc:meta])* $part:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
        pub struct $part {
            #[serde(flatten)]
            pub facts: $crate::saga::context::ServerFacts,
            $($(#[$attribute])* pub $field: $type,)*
        }

        impl std::ops::Deref for $part {
            type Target = $crate::saga::context::ServerFacts;

            fn deref(&self) -> &Self::Target {
                &self.facts
            }
        }

        impl std::ops::DerefMut for $part {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.facts
            }
        }
    };
}

/// The methods of a part whose operation chooses a host: its `candidates` are the hosts among which it chooses.
macro_rules! chooses_a_host {
    () => {
        fn candidates(&self) -> Option<&$crate::saga::context::Candidates> {
            Some(&self.candidates)
        }

        fn candidates_mut(&mut self) -> Option<&mut $crate::saga::context::Candidates> {
            Some(&mut self.candidates)
        }
    };
}

/// The methods of a part after whose operation the guest boots as for the first time: its request has the configuration and the secrets.
macro_rules! has_first_boot {
    () => {
        fn first_boot(&self) -> Option<(&serde_json::Value, &Option<$crate::domain::secret::Sealed>)> {
            Some((&self.request.config_drive, &self.request.sealed))
        }

        fn set_first_boot(&mut self, config: serde_json::Value, sealed: Option<$crate::domain::secret::Sealed>) {
            (self.request.config_drive, self.request.sealed) = (config, sealed);
        }
    };
}
pub(super) use {chooses_a_host, has_first_boot, part};
