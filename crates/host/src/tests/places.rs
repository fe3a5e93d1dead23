//! The messages that a host does not take: requests beyond its places, and trials that its options do not allow.

use std::time::Duration;

use cellshift_domain::fence::Fence;
use cellshift_domain::host_protocol::{HostAnswer, HostCommand, HostQuery, HostReply, HostRequest};
use cellshift_domain::host_trial::{HostTrial, TrialOutcome};
use futures::poll;
use uuid::Uuid;

use super::{World, start};
use crate::HostParts;
use crate::link::{Delivered, HostEnd};
use crate::virt::Operation;

/// Detaches a volume, which takes an hour, under the first attempt of a server.
fn slow(server: u128) -> HostRequest {
    let fence = Fence { server: Uuid::from_u128(server), epoch: 1, attempt: 1 };
    HostRequest::new(fence, fence.server, HostCommand::DetachVolume { volume_id: Uuid::nil() })
}

fn with_one_place(world: &World) -> HostParts {
    let mut parts = world.parts(Vec::new());
    parts.options.max_requests = 1;
    parts.options.latencies.insert(Operation::Volume, Duration::from_secs(3600));
    parts
}

#[tokio::test]
async fn a_request_without_a_place_leaves_no_trace() {
    let world = World::new();
    let host = start(&with_one_place(&world)).await;
    let mut first = host.request(slow(1));
    assert!(poll!(&mut first).is_pending());
    assert_eq!(host.request(slow(2)).await, Delivered::Busy);
    assert_eq!(host.lanes.fence(Uuid::from_u128(2)), (0, 0), "no fence is raised");
    drop(first);
    let mut second = host.request(slow(2));
    assert!(poll!(&mut second).is_pending(), "the place is free again");
}

#[tokio::test]
async fn a_repeated_request_needs_no_further_place() {
    let world = World::new();
    let host = start(&with_one_place(&world)).await;
    let (mut first, mut repeated) = (host.request(slow(1)), host.request(slow(1)));
    assert!(poll!(&mut first).is_pending() && poll!(&mut repeated).is_pending());
    drop(first);
    assert!(poll!(&mut repeated).is_pending(), "it runs in place of the first");
    assert_eq!(host.request(slow(2)).await, Delivered::Busy);
    drop(repeated);
    let fence = HostRequest::new(Fence { attempt: 2, ..slow(1).fence }, Uuid::nil(), HostCommand::Fence);
    assert_eq!(host.request(fence).await, Delivered::Answered(HostReply::Stopped { was_running: false }));
    assert!(matches!(host.request(slow(1)).await, Delivered::Answered(HostReply::Stale { .. })), "a stale request needs no place");
}

#[tokio::test]
async fn a_host_knows_trials_only_where_they_are_allowed() {
    let world = World::new();
    let mut parts = world.parts(Vec::new());
    let query = || HostQuery::Trial(HostTrial::ResumeGuests);
    let strict = start(&parts).await;
    assert!(matches!(strict.query(query()).await, Delivered::NotKnown { .. }));
    parts.options.trials = true;
    let host = start(&parts).await;
    assert_eq!(host.query(query()).await, Delivered::Answered(HostAnswer::Trial(Ok(TrialOutcome::Done))));
    let lost = HostTrial::GuestWrite { server: Uuid::from_u128(1), bytes: b"lost".to_vec() };
    let refused = host.query(HostQuery::Trial(lost)).await;
    assert!(matches!(refused, Delivered::Answered(HostAnswer::Trial(Err(_)))), "there is no guest: {refused:?}");
}
