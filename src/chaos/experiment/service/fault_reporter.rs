//! Reports each fault in the log, and in the notifications as `chaos.fault.start` and `chaos.fault.end`. One task passes the notifications
//! on in order and retries, because the fault may be that the notifier is paused or killed.

use std::time::Duration;

use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::actors::notifier::NotifierHandle;
use crate::chaos::experiment::record::Injected;
use crate::domain::notification::{Event, Notification, Phase};
use crate::saga::notifications::Notifications;

/// The publisher of these notifications.
const PUBLISHER: &str = "cellshift-chaos";
/// The maximum number of notifications that wait for the notifier.
const QUEUE: usize = 4096;
/// The pause before another try to pass a notification on.
const PAUSE: Duration = Duration::from_secs(1);

enum Item {
    Tell(Box<Notification>),
    /// Dropped once all earlier notifications are recorded.
    Until(oneshot::Sender<()>),
}

/// Passes the reports of faults on to the notifier.
pub(super) struct FaultReporter {
    queue: mpsc::Sender<Item>,
}

/// Makes the notification of a fault.
fn notification(fault: &Injected, phase: Phase) -> Notification {
    let (side, step) = fault.step.as_deref().and_then(|step| step.split_once(' ')).unzip();
    let data = json!({
        "fault": fault.id,
        "what": fault.what,
        "migration": fault.saga,
        "saga": fault.kind,
        "step": step,
        "side": side,
        "moment": fault.moment,
    });
    let event = Event::ChaosFault(phase);
    let payload = event.payload(fault.server.unwrap_or(fault.id), data);
    Notification { operation: fault.id, step: "fault".into(), event, publisher_id: PUBLISHER.into(), payload }
}

/// Describes the place of a fault for the log.
fn place(fault: &Injected) -> String {
    let (Some(kind), Some(step), Some(moment)) = (&fault.kind, &fault.step, fault.moment) else { return String::new() };
    format!(", at {kind} {step}, {moment}")
}

impl FaultReporter {
    /// Reports to this notifier as long as the runtime lives.
    pub(super) fn new(notifier: NotifierHandle) -> FaultReporter {
        let (queue, waiting) = mpsc::channel(QUEUE);
        tokio::spawn(hand_over(notifier, waiting));
        FaultReporter { queue }
    }

    pub(super) fn begun(&self, fault: &Injected) {
        let (id, what, place) = (fault.id, &fault.what, place(fault));
        match (fault.server, fault.saga) {
            (Some(server), Some(saga)) => {
                log::warn!(fault:% = id, server:% = server, migration:% = saga; "a fault on purpose begins: {what}{place}");
            }
            _ => log::warn!(fault:% = id; "a fault on purpose begins: {what}{place}"),
        }
        self.tell(fault, Phase::Start);
    }

    pub(super) fn over(&self, fault: &Injected) {
        log::warn!(fault:% = fault.id; "a fault on purpose is over: {}{}", fault.what, place(fault));
        self.tell(fault, Phase::End);
    }

    fn tell(&self, fault: &Injected, phase: Phase) {
        if self.queue.try_send(Item::Tell(Box::new(notification(fault, phase)))).is_err() {
            log::error!(fault:% = fault.id; "a fault is not in the notifications: {QUEUE} wait for the notifier");
        }
    }

    /// Waits until all reports are in the notifications' file, at most for this time.
    pub(super) async fn until_recorded(&self, at_most: Duration) {
        let (done, recorded) = oneshot::channel();
        let all = async {
            // A task that is gone records nothing more.
            if self.queue.send(Item::Until(done)).await.is_ok() {
                let _ = recorded.await;
            }
        };
        if tokio::time::timeout(at_most, all).await.is_err() {
            log::warn!("the notifier has not accepted all reports of faults within {at_most:?}");
        }
    }
}

async fn hand_over(notifier: NotifierHandle, mut waiting: mpsc::Receiver<Item>) {
    while let Some(item) = waiting.recv().await {
        match item {
            Item::Tell(notification) => record(&notifier, *notification).await,
            Item::Until(done) => drop(done),
        }
    }
}

async fn record(notifier: &NotifierHandle, notification: Notification) {
    let mut complained = false;
    // The notifier ignores a repetition.
    while let Err(error) = notifier.emit(notification.clone()).await {
        if !std::mem::replace(&mut complained, true) {
            log::warn!(fault:% = notification.operation; "a fault is not in the notifications yet: {error}");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Makes the record of a fault that an operator injected.
pub(super) fn by_hand(id: Uuid, what: String) -> Injected {
    Injected { id, what, ..Injected::default() }
}
