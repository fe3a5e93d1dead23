//! Every fault is told of: in the log, and in the notifications as `chaos.fault.start` and `chaos.fault.end`.

use serde_json::json;
use uuid::Uuid;

use crate::actors::notifier::NotifierHandle;
use crate::chaos::experiment::record::Injected;
use crate::domain::notification::{Event, Notification, Phase};
use crate::env::Env;
use crate::saga::notifications::Notifications;

/// Who says so.
const PUBLISHER: &str = "cellshift-chaos";

pub(super) struct Told {
    notifier: NotifierHandle,
    /// Under it each experiment's faults have ids of their own.
    root: Uuid,
}

impl Told {
    pub(super) fn new(env: Env, notifier: NotifierHandle) -> Told {
        Told { notifier, root: env.uuid() }
    }

    /// Faults of another experiment follow.
    pub(super) fn next_experiment(&mut self, env: &Env) {
        self.root = env.uuid();
    }

    /// The id of the fault at a place of the present experiment's record.
    pub(super) fn id_of(&self, place: usize) -> Uuid {
        Uuid::new_v5(&self.root, place.to_string().as_bytes())
    }

    pub(super) async fn begun(&self, id: Uuid, what: &str, at: Option<&Injected>) {
        log::warn!(fault:% = id; "a fault on purpose begins: {what}");
        self.emit(id, Phase::Start, what, at).await;
    }

    pub(super) async fn over(&self, id: Uuid, what: &str) {
        log::warn!(fault:% = id; "a fault on purpose is over: {what}");
        self.emit(id, Phase::End, what, None).await;
    }

    async fn emit(&self, id: Uuid, phase: Phase, what: &str, at: Option<&Injected>) {
        let data = json!({
            "fault": id,
            "what": what,
            "migration": at.and_then(|at| at.saga),
            "step": at.and_then(|at| at.step.clone()),
        });
        let event = Event::ChaosFault(phase);
        let server = at.and_then(|at| at.server).unwrap_or(id);
        let notification = Notification {
            operation: id,
            step: "fault".into(),
            event,
            publisher_id: PUBLISHER.into(),
            payload: event.payload(server, data),
        };
        // Aside: the fault may be that the notifier stands still.
        let notifier = self.notifier.clone();
        tokio::spawn(async move {
            if let Err(error) = notifier.emit(notification).await {
                log::warn!(fault:% = id; "a fault is not in the notifications: {error}");
            }
        });
    }
}
