//! Fixtures of the tests of the volume API: a volume, its bytes, and requests.

use std::path::PathBuf;

use cellshift_embedded::testkit::ApiFixture;
use cellshift_embedded::volume::{NewVolume, VolumeSource};
use uuid::Uuid;

/// Makes a volume of the project demo from this source.
pub(crate) async fn make_volume(world: &ApiFixture, source: VolumeSource) -> Uuid {
    let caller = world.caller("demo").await;
    let new = NewVolume { id: world.env.uuid(), name: Some("data".into()), caller, size_gb: 1, source, volume_type: None };
    world.volumes.create(new.clone(), None, Default::default()).await.unwrap();
    world.volumes.make(&new).await.unwrap();
    new.id
}

/// Makes a volume of the project demo, from an image with this content.
pub(crate) async fn volume_with(world: &ApiFixture, content: &'static [u8]) -> Uuid {
    let image = world.image("demo", content).await;
    make_volume(world, VolumeSource::Image(image)).await
}

/// Returns the file of a volume, a snapshot or a backup.
pub(crate) fn file(world: &ApiFixture, id: &str) -> PathBuf {
    world.folder.path().join("volumes").join(id)
}

/// Returns the first bytes of a volume of 1 GiB.
pub(crate) fn head(world: &ApiFixture, volume: &str, length: usize) -> Vec<u8> {
    let mut bytes = std::fs::read(file(world, volume)).unwrap();
    assert_eq!(bytes.len(), 1 << 30);
    bytes.truncate(length);
    bytes
}

/// Asks as a user, at the oldest microversion unless the call names another, and returns the status and the body.
macro_rules! ask {
    ($app:expr, $token:expr, $method:ident $path:expr, $body:expr) => {
        $crate::volume::testing::ask!($app, $token, "3.0", $method $path, $body)
    };
    ($app:expr, $token:expr, $version:expr, $method:ident $path:expr, $body:expr) => {{
        let request = cellshift_embedded::testkit::request(actix_web::http::Method::$method, &$token, &format!("/volume/v3{}", $path), $body);
        let request = request.insert_header(("OpenStack-API-Version", format!("volume {}", $version)));
        let answer = cellshift_embedded::testkit::send(&$app, request.to_request()).await;
        (answer.status, if answer.bytes.is_empty() { serde_json::Value::Null } else { answer.json() })
    }};
}
pub(crate) use ask;

/// Waits until the thing at this path is no longer in one of the passing statuses, and returns it.
macro_rules! settled {
    ($app:expr, $token:expr, $kind:literal, $path:expr) => {
        loop {
            let shown = $crate::volume::testing::ask!($app, $token, "3.64", GET $path, serde_json::Value::Null).1[$kind].clone();
            if !["creating", "restoring", "restoring-backup"].contains(&shown["status"].as_str().unwrap()) {
                break shown;
            }
            tokio::task::yield_now().await;
        }
    };
}
pub(crate) use settled;
