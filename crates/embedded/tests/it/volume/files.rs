//! Tests of the embedded volume service, by its records and files.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use cellshift_domain::context::RequestContext;
use cellshift_domain::fence::Fence;
use cellshift_embedded::ServiceError;
use cellshift_embedded::image::{EmbeddedImage, ImageService, NewImage};
use cellshift_embedded::lost_and_found;
use cellshift_embedded::testkit::services_database;
use cellshift_embedded::volume::*;
use cellshift_env::{Env, SystemClock};
use cellshift_store::Db;
use uuid::Uuid;

struct VolumeFixture {
    volumes: EmbeddedVolume,
    images: Arc<EmbeddedImage>,
    db: Db,
    env: Env,
    folder: tempfile::TempDir,
}

async fn world() -> VolumeFixture {
    let (env, db) = services_database(Arc::new(SystemClock));
    let folder = tempfile::tempdir().unwrap();
    let images = Arc::new(EmbeddedImage::open(db.clone(), env.clone(), &folder.path().join("images")).await.unwrap());
    let volumes = EmbeddedVolume::open(db.clone(), env.clone(), &folder.path().join("volumes"), images.clone()).await.unwrap();
    VolumeFixture { volumes, images, db, env, folder }
}

/// Returns the fence of server number `server` at this attempt.
fn fence(server: u128, attempt: i64) -> Fence {
    Fence { server: Uuid::from_u128(server), epoch: 1, attempt }
}

fn caller() -> RequestContext {
    RequestContext { project_id: "p1".into(), roles: vec!["member".into(), "reader".into()], ..RequestContext::default() }
}

impl VolumeFixture {
    fn new_volume(&self, image_id: Option<Uuid>, volume_type: Option<&str>) -> NewVolume {
        NewVolume {
            id: self.env.uuid(),
            name: Some("data".into()),
            caller: caller(),
            size_gb: 1,
            source: image_id.map_or(VolumeSource::Blank, VolumeSource::Image),
            volume_type: volume_type.map(str::to_owned),
        }
    }

    async fn volume(&self, volume_type: Option<&str>) -> Uuid {
        let new_volume = self.new_volume(None, volume_type);
        let id = new_volume.id;
        self.volumes.create_volume(fence(99, 1), new_volume).await.unwrap();
        id
    }

    async fn image(&self, content: &'static [u8]) -> Uuid {
        let image = self.images.create(&caller(), NewImage::default()).await.unwrap();
        self.images.upload(image.id, Box::pin(futures::stream::iter([Ok(Bytes::from_static(content))]))).await.unwrap();
        image.id
    }

    async fn status(&self, id: Uuid) -> String {
        self.volumes.volume(id).await.unwrap().status
    }

    fn file(&self, id: Uuid) -> PathBuf {
        self.folder.path().join("volumes").join(id.to_string())
    }
}

#[tokio::test]
async fn a_volume_is_a_sparse_file_that_holds_its_image() {
    let world = world().await;
    let new_volume = world.new_volume(Some(world.image(b"boot me").await), None);
    world.volumes.create_volume(fence(1, 1), new_volume.clone()).await.unwrap();
    let file = world.file(new_volume.id);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 1 << 30);
    let mut start = [0; 9];
    std::io::Read::read_exact(&mut std::fs::File::open(&file).unwrap(), &mut start).unwrap();
    assert_eq!(&start, b"boot me\0\0");
    let volume = world.volumes.volume(new_volume.id).await.unwrap();
    assert_eq!((volume.status.as_str(), volume.bootable), ("available", true));

    // A guest wrote these bytes. Neither a retry nor a creation after an operator's reset to error may touch them.
    std::fs::write(&file, "guest data").unwrap();
    world.volumes.create_volume(fence(1, 1), new_volume.clone()).await.unwrap();
    world.volumes.reset_status(new_volume.id, StatusReset { status: Some("error".into()), ..StatusReset::default() }).await.unwrap();
    world.volumes.create_volume(fence(1, 2), new_volume.clone()).await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"guest data");

    world.volumes.delete_volume(fence(1, 3), new_volume.id).await.unwrap();
    world.volumes.delete_volume(fence(1, 3), new_volume.id).await.unwrap();
    assert!(!file.exists());
    assert!(matches!(world.volumes.create_volume(fence(1, 2), new_volume).await, Err(ServiceError::Stale(_))));
}

#[tokio::test]
async fn a_corrupted_image_makes_no_volume_until_it_is_mended() {
    let world = world().await;
    let image = world.image(b"good").await;
    let bytes = world.folder.path().join("images").join(image.to_string());
    std::fs::write(&bytes, "evil").unwrap();
    let new_volume = world.new_volume(Some(image), None);
    let error = world.volumes.create_volume(fence(1, 1), new_volume.clone()).await.unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    assert_eq!(world.status(new_volume.id).await, "error");
    assert!(!world.file(new_volume.id).exists());
    std::fs::write(&bytes, "good").unwrap();
    world.volumes.create_volume(fence(1, 2), new_volume.clone()).await.unwrap();
    assert_eq!(world.status(new_volume.id).await, "available");
}

#[tokio::test]
async fn a_volume_follows_a_server_from_host_to_host() {
    let world = world().await;
    let (volumes, id) = (&world.volumes, world.volume(None).await);
    let (source, target) = (Uuid::from_u128(0x51), Uuid::from_u128(0x72));
    let reserved = volumes.create_attachment(fence(1, 1), source, id, None, Some("/dev/vdb")).await.unwrap();
    assert_eq!((reserved.status.as_str(), world.status(id).await.as_str()), ("reserved", "reserved"));
    let connected = volumes.update_attachment(fence(1, 1), source, "h1", None).await.unwrap();
    assert_eq!(connected.mountpoint.as_deref(), Some("/dev/vdb"));
    assert_eq!(connected.connection_info["data"]["path"], world.file(id).display().to_string());
    assert_eq!(world.status(id).await, "attaching");
    volumes.complete_attachment(fence(1, 1), source).await.unwrap();
    volumes.complete_attachment(fence(1, 1), source).await.unwrap();
    assert_eq!(world.status(id).await, "in-use");

    // A move makes a second attachment of the same server, and then removes the first.
    volumes.create_attachment(fence(1, 2), target, id, None, None).await.unwrap();
    let again = volumes.create_attachment(fence(1, 2), target, id, None, None).await.unwrap();
    assert_eq!(again.id, target, "the same request twice makes one attachment");
    let duplicate = volumes.update_attachment(fence(1, 2), target, "h1", None).await;
    assert!(matches!(duplicate, Err(ServiceError::Conflict(_))), "two ways from one host: {duplicate:?}");
    volumes.update_attachment(fence(1, 2), target, "h2", None).await.unwrap();
    volumes.complete_attachment(fence(1, 2), target).await.unwrap();
    assert_eq!(volumes.attachments_of(Uuid::from_u128(1)).await.unwrap().len(), 2);
    volumes.delete_attachment(fence(1, 3), source).await.unwrap();
    assert_eq!(world.status(id).await, "in-use");
    assert!(matches!(volumes.delete_volume(fence(1, 3), id).await, Err(ServiceError::Conflict(_))), "still attached");
    let late = volumes.update_attachment(fence(1, 2), target, "h1", None).await;
    assert!(matches!(late, Err(ServiceError::Stale(_))), "{late:?}");
    volumes.delete_attachment(fence(1, 4), target).await.unwrap();
    volumes.delete_attachment(fence(1, 4), target).await.unwrap();
    assert_eq!(world.status(id).await, "available");
}

#[tokio::test]
async fn an_attachment_without_a_host_is_completed_and_connected() {
    let world = world().await;
    let (volumes, id) = (&world.volumes, world.volume(None).await);
    let (empty, next) = (Uuid::from_u128(0x51), Uuid::from_u128(0x72));
    volumes.create_attachment(fence(1, 1), empty, id, None, Some("/dev/vdb")).await.unwrap();
    volumes.complete_attachment(fence(1, 1), empty).await.unwrap();
    assert_eq!(world.status(id).await, "in-use");
    let shown = volumes.volume(id).await.unwrap().attachments;
    assert_eq!((shown[0].status.as_str(), shown[0].host.as_deref(), shown[0].attached_at.is_some()), ("attached", None, true));

    // The server comes to a host: it connects by an attachment of its own, and the empty one goes.
    volumes.create_attachment(fence(1, 2), next, id, Some("h1"), None).await.unwrap();
    volumes.complete_attachment(fence(1, 2), next).await.unwrap();
    volumes.delete_attachment(fence(1, 2), empty).await.unwrap();
    assert_eq!(world.status(id).await, "in-use");
}

#[tokio::test]
async fn two_servers_share_only_a_multiattach_volume() {
    let world = world().await;
    let (single, shared) = (world.volume(None).await, world.volume(Some(MULTIATTACH_TYPE)).await);
    for (volume, allowed) in [(single, false), (shared, true)] {
        world.volumes.create_attachment(fence(1, 1), world.env.uuid(), volume, Some("h1"), None).await.unwrap();
        let second = world.volumes.create_attachment(fence(2, 1), world.env.uuid(), volume, Some("h1"), None).await;
        assert_eq!(second.is_ok(), allowed, "{second:?}");
    }
}

#[tokio::test]
async fn a_crash_while_a_volume_is_made_is_seen_at_the_next_start() {
    let world = world().await;
    let new_volume = world.new_volume(None, None);
    world.volumes.create(new_volume.clone(), None, Default::default()).await.unwrap();
    assert_eq!(world.status(new_volume.id).await, "creating");
    std::fs::write(world.file(new_volume.id), "placed, but never committed").unwrap();
    let folder = world.folder.path().join("volumes");
    let again = EmbeddedVolume::open(world.db.clone(), world.env.clone(), &folder, world.images.clone()).await.unwrap();
    assert_eq!(again.volume(new_volume.id).await.unwrap().status, "error");
    assert!(!world.file(new_volume.id).exists());
    assert_eq!(lost_and_found::list(world.folder.path()).unwrap().len(), 1);
    again.create_volume(fence(1, 1), new_volume.clone()).await.unwrap();
    assert_eq!(again.volume(new_volume.id).await.unwrap().status, "available");
}

#[tokio::test]
async fn quotas_hold_once_they_are_set() {
    let world = world().await;
    let id = world.volume(None).await;
    world.volumes.set_quotas(Some("p1"), [("gigabytes".to_owned(), 3)].into()).await.unwrap();
    world.volumes.extend(&caller(), id, 2, true).await.unwrap();
    assert_eq!(std::fs::metadata(world.file(id)).unwrap().len(), 2 << 30);
    assert!(matches!(world.volumes.extend(&caller(), id, 4, true).await, Err(ServiceError::OverLimit(_))));
    world.volume(None).await;
    let over = world.volumes.create_volume(fence(1, 1), world.new_volume(None, None)).await;
    assert!(matches!(over, Err(ServiceError::OverLimit(_))), "{over:?}");
    assert_eq!(world.volumes.quotas("p1").await.unwrap()["gigabytes"], QuotaUsage { limit: 3, in_use: 3 });
}

#[tokio::test]
async fn bytes_of_another_projects_image_are_never_copied() {
    let world = world().await;
    let image = world.image(b"secret").await;
    let stranger = RequestContext { project_id: "p2".into(), ..caller() };
    let new_volume = NewVolume { caller: stranger.clone(), ..world.new_volume(Some(image), None) };
    let refused = world.volumes.create_volume(fence(1, 1), new_volume.clone()).await;
    assert!(matches!(refused, Err(ServiceError::NotFound(_))), "{refused:?}");
    assert_eq!(world.status(new_volume.id).await, "error");
    assert!(!world.file(new_volume.id).exists());
    let of_stranger = NewVolume { caller: stranger, ..world.new_volume(Some(image), None) };
    let (foreign, absent) = (of_stranger.clone(), NewVolume { source: VolumeSource::Image(Uuid::from_u128(5)), ..of_stranger });
    for new_volume in [foreign, absent] {
        let refused = world.volumes.create(new_volume, None, Default::default()).await;
        assert!(
            matches!(&refused, Err(ServiceError::Invalid(why)) if why.to_string().starts_with("Invalid image identifier")),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_copy_of_a_sparse_volume_is_sparse() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let world = world().await;
    let source = world.volume(None).await;
    let file = std::fs::OpenOptions::new().write(true).open(world.file(source)).unwrap();
    file.write_all_at(b"far out", 512 << 20).unwrap();
    let new_volume = NewVolume { source: VolumeSource::Volume(source), ..world.new_volume(None, None) };
    world.volumes.create(new_volume.clone(), None, Default::default()).await.unwrap();
    world.volumes.make(&new_volume).await.unwrap();
    let copy = std::fs::File::open(world.file(new_volume.id)).unwrap();
    let mut bytes = [0; 8];
    copy.read_exact_at(&mut bytes, 512 << 20).unwrap();
    assert_eq!(&bytes, b"far out\0");
    let metadata = copy.metadata().unwrap();
    assert_eq!(metadata.len(), 1 << 30);
    assert!(metadata.blocks() * 512 <= 4 << 20, "{} blocks", metadata.blocks());
}

#[tokio::test]
async fn a_snapshot_that_a_crash_interrupted_is_in_error() {
    let world = world().await;
    let volume = world.volume(None).await;
    let new = |id: u128| NewSnapshot {
        id: Uuid::from_u128(id),
        volume,
        name: None,
        description: None,
        metadata: Default::default(),
        caller: caller(),
        force: false,
    };
    let (whole, interrupted) = (Uuid::from_u128(1), Uuid::from_u128(2));
    for id in [1, 2] {
        world.volumes.new_snapshot(new(id)).await.unwrap();
    }
    world.volumes.fill_snapshot(None, whole).await.unwrap();
    let folder = world.folder.path().join("volumes");
    let again = EmbeddedVolume::open(world.db.clone(), world.env.clone(), &folder, world.images.clone()).await.unwrap();
    assert_eq!(again.snapshot(whole).await.unwrap().status, "available");
    assert_eq!(again.snapshot(interrupted).await.unwrap().status, "error");
    assert!(folder.join(whole.to_string()).exists(), "its file is no stranger's");
    let stored = again.stored_bytes().await.unwrap();
    assert!(stored.iter().any(|stored| stored.id == whole && stored.fits()), "the audit compares it with its record");
}

#[tokio::test]
async fn an_interrupted_backup_or_restore_is_seen_at_the_next_start() {
    let world = world().await;
    let (volume, target) = (world.volume(None).await, world.volume(None).await);
    let new = |id: u128| NewBackup {
        id: Uuid::from_u128(id),
        volume,
        snapshot: None,
        name: None,
        description: None,
        container: "c".into(),
        metadata: Default::default(),
        caller: caller(),
        force: false,
    };
    let (whole, interrupted) = (Uuid::from_u128(1), Uuid::from_u128(2));
    for id in [1, 2] {
        world.volumes.new_backup(new(id)).await.unwrap();
    }
    world.volumes.fill_backup(whole).await.unwrap();
    world.volumes.begin_restore(&caller(), whole, RestoreTarget::Volume(target)).await.unwrap();
    assert_eq!(world.status(target).await, "restoring-backup");
    let refused = world.volumes.delete_own(&caller(), target, false, false).await;
    assert!(matches!(refused, Err(ServiceError::Conflict(_))), "{refused:?}");
    let folder = world.folder.path().join("volumes");
    let again = EmbeddedVolume::open(world.db.clone(), world.env.clone(), &folder, world.images.clone()).await.unwrap();
    let interrupted = again.own_backup(&caller(), interrupted).await.unwrap();
    assert_eq!(interrupted.status, "error");
    assert!(interrupted.fail_reason.is_some_and(|reason| reason.contains("stopped")));
    assert_eq!(again.own_backup(&caller(), whole).await.unwrap().status, "available");
    assert_eq!(again.volume(target).await.unwrap().status, "error_restoring");
    assert!(folder.join(whole.to_string()).exists(), "its file is no stranger's");
    let stored = again.stored_bytes().await.unwrap();
    assert!(stored.iter().any(|stored| stored.id == whole && stored.fits()), "the audit compares it with its record");
    again.delete_own(&caller(), target, false, false).await.unwrap();
}

#[tokio::test]
async fn a_volume_type_is_known_by_its_id_and_name() {
    let world = world().await;
    let id = world.volumes.types(&caller()).await.unwrap()[0].id.to_string();
    for name in ["default", DEFAULT_TYPE, &id] {
        assert_eq!(world.volumes.volume_type(&caller(), name).await.unwrap(), DEFAULT_TYPE);
    }
    assert!(matches!(world.volumes.volume_type(&caller(), "gold").await, Err(ServiceError::NotFound(_))));
}

#[tokio::test]
async fn a_volume_is_refilled_for_its_only_holder() {
    let world = world().await;
    let (volumes, old, new) = (&world.volumes, world.image(b"old system").await, world.image(b"new").await);
    let new_volume = world.new_volume(Some(old), None);
    let id = new_volume.id;
    volumes.create_volume(fence(1, 1), new_volume).await.unwrap();
    let start = || {
        let mut bytes = [0; 10];
        std::io::Read::read_exact(&mut std::fs::File::open(world.file(id)).unwrap(), &mut bytes).unwrap();
        bytes.to_vec()
    };
    let content = async || volumes.stored_bytes().await.unwrap()[0].content.clone().map(|(length, _)| length);

    let refused = volumes.reimage_volume(fence(1, 2), &caller(), id, new).await;
    assert!(matches!(refused, Err(ServiceError::Conflict(_))), "nobody holds it: {refused:?}");
    volumes.create_attachment(fence(1, 2), Uuid::from_u128(5), id, Some("host1"), None).await.unwrap();
    let refused = volumes.reimage_volume(fence(2, 1), &caller(), id, new).await;
    assert!(matches!(refused, Err(ServiceError::Conflict(_))), "another server holds it: {refused:?}");
    assert_eq!((start(), content().await), (b"old system".to_vec(), Some(10)), "what is refused leaves bytes and checksum");

    volumes.reimage_volume(fence(1, 4), &caller(), id, new).await.unwrap();
    assert_eq!((start(), content().await), (b"new\0\0\0\0\0\0\0".to_vec(), Some(3)));
    assert_eq!(volumes.volume(id).await.unwrap().image_id, Some(new));
    let late = volumes.reimage_volume(fence(1, 3), &caller(), id, old).await;
    assert!(matches!(late, Err(ServiceError::Stale(_))), "{late:?}");
    assert_eq!(start(), b"new\0\0\0\0\0\0\0");
}

#[tokio::test]
async fn a_volume_is_uploaded_up_to_its_last_written_byte() {
    let world = world().await;
    let volume = world.volume(None).await;
    let content = [[7; 3].as_slice(), &[0; 1 << 20], &[9; 4096]].concat();
    std::io::Write::write_all(&mut std::fs::OpenOptions::new().write(true).open(world.file(volume)).unwrap(), &content).unwrap();
    let image = world.images.create(&caller(), NewImage::default()).await.unwrap();

    assert_eq!(world.volumes.begin_upload(&caller(), volume).await.unwrap().status, "uploading");
    for refused in [
        world.volumes.begin_upload(&caller(), volume).await.map(|_| ()),
        world.volumes.delete_own(&caller(), volume, false, false).await,
        world.volumes.extend(&caller(), volume, 2, true).await,
        world.volumes.create_attachment(fence(1, 1), Uuid::from_u128(5), volume, None, None).await.map(|_| ()),
    ] {
        assert!(matches!(refused, Err(ServiceError::Conflict(_))), "{refused:?}");
    }
    world.volumes.upload_to(volume, image.id).await.unwrap();
    assert_eq!(world.status(volume).await, "available");
    let stored = std::fs::read(world.folder.path().join("images").join(image.id.to_string())).unwrap();
    assert!(stored.starts_with(&content) && stored.len() < content.len() + (1 << 16), "{}", stored.len());

    // An upload that a crash interrupts, and one that fails.
    world.volumes.begin_upload(&caller(), volume).await.unwrap();
    EmbeddedVolume::open(world.db.clone(), world.env.clone(), &world.folder.path().join("volumes"), world.images.clone()).await.unwrap();
    assert_eq!(world.status(volume).await, "available");
    world.volumes.begin_upload(&caller(), volume).await.unwrap();
    world.volumes.upload_to(volume, Uuid::from_u128(6)).await.unwrap_err();
    assert_eq!(world.status(volume).await, "available");
}
