//! Tests of the embedded image service, by the files in its folder and the bytes that it returns.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cellshift_domain::context::RequestContext;
use cellshift_domain::fence::Fence;
use cellshift_embedded::ServiceError;
use cellshift_embedded::image::images::records;
use cellshift_embedded::image::*;
use cellshift_embedded::lost_and_found;
use cellshift_embedded::testkit::services_database;
use cellshift_env::{Env, SystemClock};
use cellshift_store::Db;
use futures::StreamExt;
use uuid::Uuid;

struct ImageFixture {
    images: EmbeddedImage,
    db: Db,
    env: Env,
    folder: tempfile::TempDir,
}

async fn world() -> ImageFixture {
    let (env, db) = services_database(Arc::new(SystemClock));
    let folder = tempfile::tempdir().unwrap();
    let images = EmbeddedImage::open(db.clone(), env.clone(), &folder.path().join("images")).await.unwrap();
    ImageFixture { images, db, env, folder }
}

fn caller(project: &str, role: &str) -> RequestContext {
    let roles = match role {
        "admin" => vec!["admin".to_owned(), "member".into(), "reader".into()],
        role => vec![role.to_owned(), "reader".into()],
    };
    RequestContext { project_id: project.into(), roles, ..RequestContext::default() }
}

fn stream(parts: Vec<std::io::Result<Bytes>>) -> ImageData {
    Box::pin(futures::stream::iter(parts))
}

async fn bytes_of(images: &EmbeddedImage, id: Uuid) -> Vec<u8> {
    let (_, mut data) = images.download(id).await.unwrap();
    let mut all = Vec::new();
    while let Some(chunk) = data.next().await {
        all.extend_from_slice(&chunk.unwrap());
    }
    all
}

impl ImageFixture {
    fn dir(&self) -> std::path::PathBuf {
        self.folder.path().join("images")
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(self.dir()).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    async fn queued(&self, project: &str) -> Image {
        self.images.create(&caller(project, "member"), NewImage { name: Some("tiny".into()), ..NewImage::default() }).await.unwrap()
    }

    fn fence(&self, attempt: i64) -> Fence {
        Fence { server: Uuid::nil(), epoch: 1, attempt }
    }
}

#[tokio::test]
async fn an_upload_makes_an_image_active_with_the_hash_of_its_bytes() {
    let world = world().await;
    let image = world.queued("p1").await;
    let content: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    let parts = content.chunks(70_000).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
    let hash = world.images.upload(image.id, stream(parts)).await.unwrap();

    let stored = world.images.image(image.id).await.unwrap();
    assert_eq!((stored.status.as_str(), stored.size, stored.os_hash_value.as_deref()), ("active", Some(3_000_000), Some(hash.as_str())));
    assert_eq!(world.files(), [image.id.to_string()]);
    assert_eq!(bytes_of(&world.images, image.id).await, content);

    let again = world.images.upload(image.id, stream(vec![Ok(content.clone().into())])).await.unwrap();
    assert_eq!(again, hash, "a retry with the same bytes is fine");
    let other = world.images.upload(image.id, stream(vec![Ok("other".into())])).await;
    assert!(matches!(other, Err(ServiceError::Conflict(_))), "{other:?}");
    assert_eq!(bytes_of(&world.images, image.id).await, content);
}

#[tokio::test]
async fn a_broken_upload_leaves_no_active_image_and_is_repeatable() {
    let world = world().await;
    let image = world.queued("p1").await;
    let broken = stream(vec![Ok(Bytes::from(vec![7; 2_000_000])), Err(std::io::Error::other("the client went away"))]);
    let error = world.images.upload(image.id, broken).await.unwrap_err();
    assert!(error.to_string().contains("the client went away"), "{error}");
    assert_eq!(world.images.image(image.id).await.unwrap().status, "queued");
    assert_eq!(world.files(), Vec::<String>::new());
    assert!(matches!(world.images.download(image.id).await, Err(ServiceError::Conflict(_))));
    world.images.upload(image.id, stream(vec![Ok("whole".into())])).await.unwrap();
    assert_eq!(bytes_of(&world.images, image.id).await, b"whole");
}

#[tokio::test]
async fn an_image_that_is_deleted_during_its_upload_leaves_no_file() {
    let world = world().await;
    let image = world.queued("p1").await;
    let db = world.db.clone();
    let late = async move {
        db.write(move |conn| records::delete(conn, &image.id.to_string())).await.unwrap();
        Ok(Bytes::from("late"))
    };
    let answer = world.images.upload(image.id, Box::pin(futures::stream::once(late))).await;
    assert!(matches!(answer, Err(ServiceError::Conflict(_))), "{answer:?}");
    assert_eq!(world.files(), Vec::<String>::new());
}

#[tokio::test]
async fn of_two_uploads_at_once_the_first_to_end_gives_the_bytes() {
    let world = world().await;
    let image = world.queued("p1").await;
    let (db, now) = (world.db.clone(), world.env.now().naive_utc());
    let late = async move {
        db.write(move |conn| records::receive(conn, &image.id.to_string(), "active", 5, "of the other's", now)).await.unwrap();
        Ok(Bytes::from("late"))
    };
    let answer = world.images.upload(image.id, Box::pin(futures::stream::once(late))).await;
    assert!(matches!(answer, Err(ServiceError::Conflict(_))), "{answer:?}");
    assert_eq!(world.images.image(image.id).await.unwrap().os_hash_value.as_deref(), Some("of the other's"));
    assert_eq!(world.files(), Vec::<String>::new(), "nothing is left of the late one");
}

#[tokio::test]
async fn effects_are_idempotent_and_late_ones_are_refused() {
    let world = world().await;
    let image = world.queued("p1").await;
    let mut snapshot = Image { id: world.env.uuid(), properties: [("image_type".into(), "snapshot".into())].into(), ..image };
    snapshot.status = "active".into();
    world.images.create_image(world.fence(3), snapshot.clone()).await.unwrap();
    world.images.create_image(world.fence(3), snapshot.clone()).await.unwrap();
    assert_eq!(world.images.image(snapshot.id).await.unwrap().status, "queued", "bytes make an image active, nothing else");
    assert_eq!(world.images.images_with_property("image_type", "snapshot").await.unwrap().len(), 1);

    world.images.upload(snapshot.id, stream(vec![Ok("disk".into())])).await.unwrap();
    world.images.delete_image(world.fence(4), snapshot.id).await.unwrap();
    world.images.delete_image(world.fence(4), snapshot.id).await.unwrap();
    assert_eq!(world.files(), Vec::<String>::new());
    let late = world.images.create_image(world.fence(3), snapshot.clone()).await;
    assert!(matches!(late, Err(ServiceError::Stale(_))), "{late:?}");
    assert!(matches!(world.images.image(snapshot.id).await, Err(ServiceError::NotFound(_))));
}

#[tokio::test]
async fn a_start_removes_the_unfinished_and_keeps_the_unknown() {
    let world = world().await;
    let image = world.queued("p1").await;
    world.images.upload(image.id, stream(vec![Ok("kept".into())])).await.unwrap();
    let unknown = world.env.uuid().to_string();
    for (name, content) in [(".unfinished-abc", "half"), (unknown.as_str(), "no record"), ("README", "an operator's")] {
        std::fs::write(world.dir().join(name), content).unwrap();
    }
    for _ in 0..2 {
        let again = EmbeddedImage::open(world.db.clone(), world.env.clone(), &world.dir()).await.unwrap();
        let left: std::collections::BTreeSet<String> = world.files().into_iter().collect();
        assert_eq!(left, std::collections::BTreeSet::from(["README".to_owned(), image.id.to_string()]));
        assert_eq!(bytes_of(&again, image.id).await, b"kept");
        let lost = lost_and_found::list(world.folder.path()).unwrap();
        let [lost] = &lost[..] else { panic!("{lost:?}") };
        assert!(lost.path.starts_with("images") && lost.path.to_string_lossy().ends_with(&unknown), "{lost:?}");
        let kept = lost_and_found::in_directory(world.folder.path()).join(&lost.path);
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "no record");
    }
}

#[tokio::test]
async fn a_power_cut_queues_a_moves_image_and_a_users_is_missed() {
    let world = world().await;
    let (kept, users) = (world.queued("p1").await, world.queued("p1").await);
    let properties = BTreeMap::from([(MADE_FOR_A_MOVE.to_owned(), Uuid::nil().to_string())]);
    let of_move = NewImage { properties, ..NewImage::default() };
    let lost = world.images.create(&caller("p1", "member"), of_move).await.unwrap();
    for image in [&kept, &users, &lost] {
        world.images.upload(image.id, stream(vec![Ok("bytes".into())])).await.unwrap();
    }
    for image in [&users, &lost] {
        std::fs::remove_file(world.dir().join(image.id.to_string())).unwrap();
    }
    let again = EmbeddedImage::open(world.db.clone(), world.env.clone(), &world.dir()).await.unwrap();
    assert_eq!(again.image(kept.id).await.unwrap().status, "active");
    assert_eq!(again.image(users.id).await.unwrap().status, "active", "its upload was answered");
    let missed: Vec<_> = again.stored_bytes().await.unwrap().into_iter().filter(|file| !file.fits()).map(|file| file.id).collect();
    assert_eq!(missed, [users.id]);
    assert_eq!(again.image(lost.id).await.unwrap().status, "queued");
    again.upload(lost.id, stream(vec![Ok("bytes".into())])).await.unwrap();
    assert_eq!(bytes_of(&again, lost.id).await, b"bytes");
}

#[tokio::test]
async fn bytes_in_passing_are_stored_as_others_are() {
    let world = world().await;
    let image = world.queued("p1").await;
    let hash = world.images.upload_in_passing(image.id, stream(vec![Ok("disk".into())])).await.unwrap();
    assert_eq!(world.images.image(image.id).await.unwrap().os_hash_value, Some(hash));
    assert_eq!(bytes_of(&world.images, image.id).await, b"disk");
}

#[tokio::test]
async fn others_see_only_what_is_public_or_shared_with_them() {
    let world = world().await;
    let (own, other, admin) = (caller("p1", "member"), caller("p2", "member"), caller("admin", "admin"));
    let image = world.queued("p1").await;
    let images = &world.images;
    assert!(matches!(images.visible_image(&other, image.id).await, Err(ServiceError::NotFound(_))));
    let public = |image: &mut Image| {
        image.visibility = "public".into();
        Ok(())
    };
    assert!(matches!(images.update(&own, image.id, public).await, Err(ServiceError::Forbidden(_))), "only an administrator publishes");

    images.add_member(&own, image.id, "p2").await.unwrap();
    images.visible_image(&other, image.id).await.unwrap();
    assert!(images.list(&other, ImageFilter::default()).await.unwrap().is_empty(), "listed only once accepted");
    assert!(matches!(images.set_member_status(&own, image.id, "p2", "accepted").await, Err(ServiceError::Forbidden(_))));
    images.set_member_status(&other, image.id, "p2", "accepted").await.unwrap();
    assert_eq!(images.list(&other, ImageFilter::default()).await.unwrap().len(), 1);
    assert!(matches!(images.delete_own(&other, image.id).await, Err(ServiceError::Forbidden(_))));

    images.update(&admin, image.id, public).await.unwrap();
    assert_eq!(images.list(&caller("p3", "reader"), ImageFilter::default()).await.unwrap().len(), 1);
    let protect = |image: &mut Image| {
        image.protected = true;
        Ok(())
    };
    images.update(&own, image.id, protect).await.unwrap();
    assert!(matches!(images.delete_own(&own, image.id).await, Err(ServiceError::Forbidden(_))));
}

#[tokio::test]
async fn a_lost_file_comes_back_with_the_same_bytes_alone() {
    let world = world().await;
    let image = world.queued("p1").await;
    let bytes = |text: &'static str| stream(vec![Ok(Bytes::from_static(text.as_bytes()))]);
    let hash = world.images.upload(image.id, bytes("content")).await.unwrap();
    let path = world.dir().join(image.id.to_string());
    std::fs::remove_file(&path).unwrap();
    let other = world.images.upload(image.id, bytes("others")).await;
    assert!(matches!(other, Err(ServiceError::Conflict(_))), "{other:?}");
    assert_eq!(world.files(), Vec::<String>::new(), "nothing of the others is left");
    assert_eq!(world.images.upload(image.id, bytes("content")).await.unwrap(), hash);
    assert_eq!(bytes_of(&world.images, image.id).await, b"content");
    // While the file exists, it stays unchanged.
    std::fs::write(&path, "changed").unwrap();
    assert_eq!(world.images.upload(image.id, bytes("content")).await.unwrap(), hash);
    assert_eq!(std::fs::read(&path).unwrap(), b"changed");
}
