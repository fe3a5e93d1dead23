//! Undos that the image, volume and placement services refuse: the server comes back at once, an operator is asked for, and the debt is
//! paid when the services do the undo again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use cellshift::actors::root::Parts;
use cellshift::chaos::point::{Moment, StepFault};
use cellshift::domain::context::RequestContext;
use cellshift::domain::fence::Fence;
use cellshift::services::ServiceError;
use cellshift::services::image::{Image, ImageData, ImageService};
use cellshift::services::placement::{Allocations, PlacementService};
use cellshift::services::stored_bytes::StoredBytes;
use cellshift::services::volume::{Attachment, NewSnapshot, NewVolume, VolumeService};
use cellshift_neighbours::placement::intercepted::{Intercepted, Interceptor};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::databases;
use crate::stage::{Stage, play_altered};

const WORDS: &str = "not today";

/// A service that refuses undos while the test says so.
struct Refusing<S: ?Sized> {
    inner: Arc<S>,
    now: Arc<AtomicBool>,
}

/// Refuses while the test says so.
fn refusal(now: &AtomicBool) -> Result<(), ServiceError> {
    match now.load(Ordering::SeqCst) {
        true => Err(ServiceError::Conflict(WORDS.into())),
        false => Ok(()),
    }
}

fn refusing<S: ?Sized>(inner: &Arc<S>, now: &Arc<AtomicBool>) -> Arc<Refusing<S>> {
    Arc::new(Refusing { inner: inner.clone(), now: now.clone() })
}

#[async_trait]
impl ImageService for Refusing<dyn ImageService> {
    async fn image(&self, id: Uuid) -> Result<Image, ServiceError> {
        self.inner.image(id).await
    }

    async fn create_image(&self, fence: Fence, image: Image) -> Result<(), ServiceError> {
        self.inner.create_image(fence, image).await
    }

    async fn delete_image(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        refusal(&self.now)?;
        self.inner.delete_image(fence, id).await
    }

    async fn upload(&self, id: Uuid, data: ImageData) -> Result<String, ServiceError> {
        self.inner.upload(id, data).await
    }

    async fn upload_in_passing(&self, id: Uuid, data: ImageData) -> Result<String, ServiceError> {
        self.inner.upload_in_passing(id, data).await
    }

    async fn download(&self, id: Uuid) -> Result<(Image, ImageData), ServiceError> {
        self.inner.download(id).await
    }

    async fn download_part(&self, id: Uuid, first: u64, length: u64) -> Result<ImageData, ServiceError> {
        self.inner.download_part(id, first, length).await
    }

    async fn images_with_property(&self, key: &str, value: &str) -> Result<Vec<Image>, ServiceError> {
        self.inner.images_with_property(key, value).await
    }

    async fn stored_bytes(&self) -> Result<Vec<StoredBytes>, ServiceError> {
        self.inner.stored_bytes().await
    }
}

#[async_trait]
impl VolumeService for Refusing<dyn VolumeService> {
    async fn volume(&self, id: Uuid) -> Result<cellshift::services::volume::Volume, ServiceError> {
        self.inner.volume(id).await
    }

    async fn snapshot(&self, id: Uuid) -> Result<cellshift::services::volume::Snapshot, ServiceError> {
        self.inner.snapshot(id).await
    }

    async fn volume_type(&self, caller: &RequestContext, id_or_name: &str) -> Result<String, ServiceError> {
        self.inner.volume_type(caller, id_or_name).await
    }

    async fn create_volume(&self, fence: Fence, volume: NewVolume) -> Result<(), ServiceError> {
        self.inner.create_volume(fence, volume).await
    }

    async fn reimage_volume(&self, fence: Fence, caller: &RequestContext, id: Uuid, image: Uuid) -> Result<(), ServiceError> {
        self.inner.reimage_volume(fence, caller, id, image).await
    }

    async fn delete_volume(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        refusal(&self.now)?;
        self.inner.delete_volume(fence, id).await
    }

    async fn check_room_for_snapshots(&self, volumes: Vec<Uuid>) -> Result<(), ServiceError> {
        self.inner.check_room_for_snapshots(volumes).await
    }

    async fn create_snapshot(&self, fence: Fence, snapshot: NewSnapshot) -> Result<(), ServiceError> {
        self.inner.create_snapshot(fence, snapshot).await
    }

    async fn take_snapshot(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        self.inner.take_snapshot(fence, id).await
    }

    async fn delete_snapshot(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        refusal(&self.now)?;
        self.inner.delete_snapshot(fence, id).await
    }

    async fn create_attachment(
        &self,
        fence: Fence,
        id: Uuid,
        volume: Uuid,
        host: Option<&str>,
        mountpoint: Option<&str>,
    ) -> Result<Attachment, ServiceError> {
        self.inner.create_attachment(fence, id, volume, host, mountpoint).await
    }

    async fn update_attachment(&self, fence: Fence, id: Uuid, host: &str, mountpoint: Option<&str>) -> Result<Attachment, ServiceError> {
        self.inner.update_attachment(fence, id, host, mountpoint).await
    }

    async fn complete_attachment(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        self.inner.complete_attachment(fence, id).await
    }

    async fn delete_attachment(&self, fence: Fence, id: Uuid) -> Result<(), ServiceError> {
        refusal(&self.now)?;
        self.inner.delete_attachment(fence, id).await
    }

    async fn attachments_of(&self, server: Uuid) -> Result<Vec<Attachment>, ServiceError> {
        self.inner.attachments_of(server).await
    }

    async fn all_attachments(&self) -> Result<Vec<Attachment>, ServiceError> {
        self.inner.all_attachments().await
    }

    async fn stored_bytes(&self) -> Result<Vec<StoredBytes>, ServiceError> {
        self.inner.stored_bytes().await
    }
}

/// Refuses writes of allocations while the test says so.
struct RefusedWrites {
    now: Arc<AtomicBool>,
}

#[async_trait]
impl Interceptor for RefusedWrites {
    async fn replace_allocations(
        &self,
        placement: &dyn PlacementService,
        fence: Fence,
        changes: Vec<Allocations>,
    ) -> Result<(), ServiceError> {
        refusal(&self.now)?;
        placement.replace_allocations(fence, changes).await
    }
}

/// Makes the services refuse at the pivot of the next move, which fails there.
fn refuse_from_the_pivot_on(stage: &Stage, now: &Arc<AtomicBool>) {
    let now = now.clone();
    stage.arm(move |point| match point.moment {
        Moment::BeforeEffect if point.step == "take_ownership" && point.side == "act" => {
            now.store(true, Ordering::SeqCst);
            StepFault::Refuse
        }
        _ => StepFault::None,
    });
}

/// Makes a move whose undos are refused by the services that `choose` puts into the parts. `owed` are the undos that stay owed.
fn a_refused_undo_is_paid_later(choose: impl FnOnce(&mut Parts, &Arc<AtomicBool>), owed: &[&str]) {
    let now = Arc::new(AtomicBool::new(false));
    play_altered(|_| {}, databases::place, |parts| choose(parts, &now), |stage| story(stage, now.clone(), owed));
}

async fn story(stage: Arc<Stage>, now: Arc<AtomicBool>, owed: &[&str]) {
    let server = stage.create(stage.server()).await;
    let volume = stage.member.make_volume().await;
    stage.member.attach(server, volume).await.expect(200);
    stage.at_rest(server, "ACTIVE").await;
    let (attachments, source) = (stage.attachments(server).await, stage.runs_on(server).await);
    refuse_from_the_pivot_on(&stage, &now);
    stage.member.resize(server, "gen2.small").await.expect(202);
    stage.at_rest(server, "ACTIVE").await;
    assert_eq!(stage.runs_on(server).await, source, "the guest is back before anything is paid");
    stage.disarm();

    let all_need_operator = async || stage.debts(server).await.iter().all(|debt| debt.needs_operator);
    stage
        .until("an operator is asked for", async || {
            stage.running.tree.conductor.pay_debts().await;
            all_need_operator().await
        })
        .await;
    let debts = stage.debts(server).await;
    assert_eq!(debts.iter().map(|debt| debt.step.as_str()).collect::<Vec<_>>(), owed, "{debts:#?}");
    assert!(debts.iter().all(|debt| debt.reason.contains(WORDS)), "{debts:#?}");
    let listed = stage.admin.get("/ops/v1/migrations?status=needs_operator").await.expect(200).body;
    assert_eq!(listed["migrations"].as_array().map(Vec::len), Some(1));

    now.store(false, Ordering::SeqCst);
    stage
        .until("all is paid", async || {
            stage.running.tree.conductor.pay_debts().await;
            stage.debts(server).await.is_empty()
        })
        .await;
    assert_eq!(stage.attachments(server).await, attachments);
    stage.member.act(server, json!({"reboot": {"type": "HARD"}})).await.expect(202);
    let shown: Value = stage.at_rest(server, "ACTIVE").await;
    assert!(shown["fault"].is_null(), "{shown}");
}

#[test]
fn an_image_service_that_keeps_the_snapshot_is_asked_again() {
    a_refused_undo_is_paid_later(|parts, now| parts.images = refusing(&parts.images, now), &["create_snapshot_image"]);
}

#[test]
fn a_volume_service_that_keeps_an_attachment_is_asked_again() {
    a_refused_undo_is_paid_later(|parts, now| parts.volumes = refusing(&parts.volumes, now), &["reserve_volumes_for_target"]);
}

#[test]
fn a_placement_that_keeps_an_allocation_is_asked_again() {
    let owed = ["select_destination", "hold_source_allocation"];
    a_refused_undo_is_paid_later(
        |parts, now| {
            parts.placement = Arc::new(Intercepted::new(parts.placement.clone(), RefusedWrites { now: now.clone() }));
        },
        &owed,
    );
}
