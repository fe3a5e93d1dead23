//! Tests of the bytes of images for hosts, through the whole door.

use std::sync::Arc;
use std::time::Duration;

use actix_web::test::{TestRequest, init_service};
use actix_web::web;
use cellshift_embedded::image::NewImage;
use cellshift_embedded::testkit::{ApiFixture, send, world};
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::actors::compute_host::tickets::{Access, Tickets};
use crate::domain::host_protocol::{Asker, TICKET_HEADER};
use crate::env::Env;
use crate::http::arrival::Arrivals;
use crate::http::clients::Clients;
use crate::http::limits::{InFlight, Transfers};
use crate::http::server::{Wiring, app};
use crate::policy_file::PolicyFile;
use crate::services::image::ImageService;

const CONTENT: &[u8] = b"0123456789";
/// Less than an upload's bytes.
const MAX_BODY: usize = 8;

/// Wires the door before the bytes of the fixture's images.
fn wiring(world: &ApiFixture, tickets: &Arc<Tickets>, transfers: usize) -> Wiring {
    let images: Arc<dyn ImageService> = world.images.clone();
    let (images, tickets) = (web::Data::from(images), web::Data::from(tickets.clone()));
    let bytes = move |config: &mut web::ServiceConfig| {
        config.app_data(images.clone()).app_data(tickets.clone()).configure(super::configure);
    };
    Wiring {
        env: world.env.clone(),
        authenticator: world.identity.clone(),
        policy: Arc::new(PolicyFile::built_in().unwrap()),
        anonymous: None,
        in_flight: InFlight::new(100),
        transfers: Transfers(InFlight::new(transfers)),
        arrivals: Arrivals::generous(MAX_BODY),
        clients: Clients::default(),
        cell_timeout: Duration::from_secs(5),
        parts: vec![Arc::new(bytes)],
    }
}

fn tickets() -> Arc<Tickets> {
    Arc::new(Tickets::new(Env::system(), super::IMAGES.into()))
}

async fn queued(world: &ApiFixture) -> Uuid {
    world.images.create(&world.caller("demo").await, NewImage::default()).await.unwrap().id
}

/// Makes a request to the image's bytes with a new ticket.
fn request(tickets: &Tickets, request: TestRequest, image: Uuid, access: Access) -> TestRequest {
    let host = Asker { cell: "cell1".into(), host: "cell1-host1".into() };
    let (url, secret) = tickets.issue(&host, image, access).unwrap();
    request.uri(&url).insert_header((TICKET_HEADER, secret.expose().as_str()))
}

fn upload(tickets: &Tickets, image: Uuid) -> TestRequest {
    request(tickets, TestRequest::put(), image, Access::Write).insert_header(("Content-Type", super::BYTES)).set_payload(CONTENT)
}

#[actix_web::test]
async fn a_ticket_reads_an_image_and_its_parts() {
    let (world, tickets) = (world().await, tickets());
    let (door, image) = (init_service(app(wiring(&world, &tickets, 100))).await, world.image("demo", CONTENT).await);
    let read = || request(&tickets, TestRequest::get(), image, Access::Read);
    let whole = send(&door, read().to_request()).await;
    assert_eq!((whole.status, whole.bytes.as_ref(), whole.header("Accept-Ranges")), (200, CONTENT, "bytes"));
    let part = send(&door, read().insert_header(("Range", "bytes=4-")).to_request()).await;
    assert_eq!((part.status, part.bytes.as_ref(), part.header("Content-Range")), (206, &CONTENT[4..], "bytes 4-9/10"));
    assert_eq!(send(&door, read().insert_header(("Range", "bytes=10-")).to_request()).await.status, 416);
}

#[actix_web::test]
async fn without_the_right_ticket_there_are_no_bytes() {
    let (world, tickets) = (world().await, tickets());
    let door = init_service(app(wiring(&world, &tickets, 100))).await;
    let (image, empty, token) = (world.image("demo", CONTENT).await, queued(&world).await, world.token("admin").await);
    let path = format!("{}/{image}", super::IMAGES);
    assert_eq!(send(&door, TestRequest::get().uri(&path).to_request()).await.status, 401);
    let with_token = TestRequest::get().uri(&path).insert_header(("X-Auth-Token", token.as_str()));
    assert_eq!(send(&door, with_token.to_request()).await.status, 401, "a token is no ticket");
    let for_writing = request(&tickets, TestRequest::get(), image, Access::Write);
    assert_eq!(send(&door, for_writing.to_request()).await.status, 403);
    let for_another = request(&tickets, TestRequest::get(), empty, Access::Read).uri(&path);
    assert_eq!(send(&door, for_another.to_request()).await.status, 403);
    let without_bytes = request(&tickets, TestRequest::get(), empty, Access::Read);
    assert_eq!(send(&door, without_bytes.to_request()).await.status, 409);
    let for_reading = request(&tickets, TestRequest::put(), empty, Access::Read).set_payload(CONTENT);
    assert_eq!(send(&door, for_reading.to_request()).await.status, 403);
    assert_eq!(world.images.image(empty).await.unwrap().status, "queued");
}

#[actix_web::test]
async fn an_upload_of_any_size_is_stored_once() {
    let (world, tickets) = (world().await, tickets());
    let (door, image) = (init_service(app(wiring(&world, &tickets, 100))).await, queued(&world).await);
    let stored = send(&door, upload(&tickets, image).to_request()).await;
    assert_eq!((stored.status, stored.json()), (200, json!({"sha256": hex::encode(Sha256::digest(CONTENT))})));
    assert_eq!(world.images.image(image).await.unwrap().status, "active");
    assert_eq!(send(&door, upload(&tickets, image).to_request()).await.status, 409);
}

#[actix_web::test]
async fn an_upload_is_bytes_and_nothing_else() {
    let (world, tickets) = (world().await, tickets());
    let (door, image) = (init_service(app(wiring(&world, &tickets, 100))).await, queued(&world).await);
    let json = upload(&tickets, image).insert_header(("Content-Type", "application/json"));
    assert_eq!(send(&door, json.to_request()).await.status, 415);
    assert_eq!(world.images.image(image).await.unwrap().status, "queued");
}

#[actix_web::test]
async fn transfers_of_hosts_count_as_those_of_users() {
    let (world, tickets) = (world().await, tickets());
    let (door, image) = (init_service(app(wiring(&world, &tickets, 0))).await, world.image("demo", CONTENT).await);
    let read = request(&tickets, TestRequest::get(), image, Access::Read);
    assert_eq!(send(&door, read.to_request()).await.status, 503);
    assert_eq!(send(&door, upload(&tickets, queued(&world).await).to_request()).await.status, 503);
}
