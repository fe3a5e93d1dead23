//! Tests of the client over a real service that breaks off, falls silent, or forgets tickets.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actix_web::body::{BoxBody, MessageBody, SizedStream, to_bytes};
use actix_web::dev::{ServerHandle, ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::RANGE;
use actix_web::middleware::{Next, from_fn};
use actix_web::{App, Error, HttpServer, web};
use async_trait::async_trait;
use bytes::Bytes;
use cellshift_embedded::image::NewImage;
use cellshift_embedded::network::EmbeddedNetwork;
use cellshift_embedded::testkit::{ApiFixture, world};
use cellshift_embedded::transaction::Transactions;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::{Connections, ImageClient, Patience, TicketSource};
use crate::actors::cell::CellHosts;
use crate::actors::compute_host::tickets::{Access, Bounds, IMAGES, Tickets};
use crate::actors::compute_host::{HostServices, OwnershipOracle, Upward};
use crate::domain::fence::Fence;
use crate::domain::host_protocol::{Asker, HostQuestion, ImageTicket, NeighbourError, QuestionAnswer};
use crate::domain::host_transfer::HostTransfer;
use crate::domain::secret::Secret;
use crate::env::streams::{ByteStream, Keep};
use crate::http::host_bytes;
use crate::services::image::ImageService;

/// The size of images: many pieces.
const SIZE: usize = 1 << 20;
/// The number of bytes that come before a fault.
const BEFORE: usize = 300_000;
/// Longer than anything takes that does not hang.
const LONG: Duration = Duration::from_secs(20);

/// The fate of the body of a download.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    /// The connection ends in the middle.
    Cut,
    /// Nothing more comes.
    Silence,
}

/// The faults of the next downloads, and the ranges that were asked for.
#[derive(Default)]
struct Service {
    faults: Mutex<VecDeque<Fault>>,
    /// True if all downloads fall silent at once.
    is_mute: Mutex<bool>,
    ranges: Mutex<Vec<String>>,
}

/// A controller's services, its server, and the way of one host to its tickets.
struct Cloud {
    world: ApiFixture,
    service: Arc<Service>,
    services: HostServices,
    /// The tickets that the source gives before the right ones.
    wrong: Mutex<VecDeque<ImageTicket>>,
    /// The number of questions that nobody can answer.
    unanswered: Mutex<u32>,
    address: SocketAddr,
    server: ServerHandle,
}

/// Lets hosts move any bytes, and run no guest.
struct AnyBytes;

#[async_trait]
impl OwnershipOracle for AnyBytes {
    async fn may_run(&self, _: &str, _: &str, _: Uuid) -> Option<(i64, i64)> {
        None
    }

    async fn is_latest(&self, _: Fence) -> Option<bool> {
        None
    }

    async fn forgotten(&self, _: Vec<Uuid>) -> Vec<Uuid> {
        Vec::new()
    }

    async fn may_move(&self, _: Uuid, _: &HostTransfer) -> Option<bool> {
        Some(true)
    }
}

#[async_trait]
impl TicketSource for Cloud {
    async fn ticket(&self, image_id: Uuid, write: bool) -> Result<ImageTicket, NeighbourError> {
        let left = *self.unanswered.lock();
        *self.unanswered.lock() = left.saturating_sub(1);
        if left > 0 {
            return Err(NeighbourError::Unavailable("nobody can tell now".into()));
        }
        if let Some(ticket) = self.wrong.lock().pop_front() {
            return Ok(ticket);
        }
        let asker = Asker { cell: "cell1".into(), host: "cell1-host1".into() };
        match self.services.ask(&asker, HostQuestion::ImageTicket { server: Uuid::from_u128(7), image_id, write }).await? {
            QuestionAnswer::ImageTicket(ticket) => Ok(ticket),
            other => panic!("{other:?}"),
        }
    }
}

/// Middleware: answers a download with the next fault.
async fn fail<B: MessageBody + 'static>(request: ServiceRequest, next: Next<B>) -> Result<ServiceResponse<BoxBody>, Error> {
    let service = request.app_data::<web::Data<Service>>().cloned().unwrap();
    let is_download = *request.method() == Method::GET;
    if is_download {
        service.ranges.lock().push(request.headers().get(RANGE).map_or("", |range| range.to_str().unwrap()).to_owned());
    }
    let response = next.call(request).await?.map_into_boxed_body();
    let is_mute = *service.is_mute.lock();
    let fault = service.faults.lock().pop_front().filter(|_| is_download).or(is_mute.then_some(Fault::Silence));
    let Some(fault) = fault else { return Ok(response) };
    let (request, response) = response.into_parts();
    let (head, body) = response.into_parts();
    let bytes = to_bytes(body).await.unwrap();
    let length = bytes.len() as u64;
    let begun = if is_mute { Bytes::new() } else { bytes.slice(..BEFORE) };
    let rest = async move {
        match fault {
            // The library has sent what came before once it finds nothing more.
            Fault::Cut => {
                tokio::task::yield_now().await;
                Err(io::Error::other("a cut"))
            }
            Fault::Silence => std::future::pending::<io::Result<Bytes>>().await,
        }
    };
    let body = stream::iter([Ok(begun)]).chain(stream::once(rest));
    Ok(ServiceResponse::new(request, head.set_body(BoxBody::new(SizedStream::new(length, body)))))
}

async fn cloud() -> Arc<Cloud> {
    let (world, service) = (world().await, Arc::new(Service::default()));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A new ticket ends the one before it.
    let bounds = Bounds { of_a_host: 1, ..Bounds::default() };
    let tickets = Arc::new(Tickets::bounded(world.env.clone(), format!("http://{address}{IMAGES}"), bounds));
    let images: Arc<dyn ImageService> = world.images.clone();
    let network = Arc::new(EmbeddedNetwork::new(world.images.database().clone()));
    let hosts = Arc::new(CellHosts::new(&world.env));
    let services = HostServices { images: images.clone(), network, owners: Arc::new(AnyBytes), hosts, tickets: tickets.clone() };
    let data = (web::Data::from(images), web::Data::from(tickets), web::Data::from(service.clone()));
    let server = HttpServer::new(move || {
        let (images, tickets, service) = data.clone();
        App::new().app_data(images).app_data(tickets).app_data(service).wrap(from_fn(fail)).configure(host_bytes::configure)
    });
    let server = server.workers(1).disable_signals().shutdown_timeout(0).listen(listener).unwrap().run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    Arc::new(Cloud { world, service, services, wrong: Mutex::default(), unanswered: Mutex::default(), address, server: handle })
}

impl Cloud {
    fn client(self: &Arc<Cloud>) -> ImageClient {
        self.patient(Duration::from_secs(1), Duration::from_secs(10))
    }

    fn patient(self: &Arc<Cloud>, silence: Duration, stall: Duration) -> ImageClient {
        Connections::patient(0, Patience { silence, stall, ..Patience::default() }).client(self.clone())
    }

    async fn image(&self) -> Uuid {
        self.world.image("demo", Box::leak(content().into_boxed_slice())).await
    }

    async fn queued(&self) -> Uuid {
        self.world.images.create(&self.world.caller("demo").await, NewImage::default()).await.unwrap().id
    }

    async fn status(&self, image: Uuid) -> String {
        self.world.images.image(image).await.unwrap().status
    }

    fn ranges(&self) -> Vec<String> {
        self.service.ranges.lock().clone()
    }
}

fn content() -> Vec<u8> {
    (0..SIZE).map(|at| (at / 7) as u8).collect()
}

fn hash(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn data() -> ByteStream {
    let pieces: Vec<io::Result<Bytes>> = content().chunks(SIZE / 3).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    Box::pin(stream::iter(pieces))
}

/// Reads a stream to its end.
async fn read(stream: ByteStream) -> io::Result<Vec<u8>> {
    let pieces: Vec<Bytes> = timeout(LONG, stream.try_collect()).await.expect("the stream ends")?;
    Ok(pieces.concat())
}

/// Downloads an image and returns the checksum of what came.
async fn download(client: &ImageClient, image: Uuid) -> Result<String, String> {
    let (about, stream) = timeout(LONG, client.download(image)).await.expect("an answer").map_err(|error| error.to_string())?;
    assert_eq!((about.size, about.sha256), (Some(SIZE as u64), Some(hash(&content()))));
    read(stream).await.map(|bytes| hash(&bytes)).map_err(|error| error.to_string())
}

#[actix_web::test]
async fn a_download_brings_the_image_and_its_record() {
    let cloud = cloud().await;
    let image = cloud.image().await;
    assert_eq!(download(&cloud.client(), image).await, Ok(hash(&content())));
    assert_eq!(cloud.ranges(), [""]);
}

#[actix_web::test]
async fn a_cut_download_goes_on_where_it_broke_off() {
    let cloud = cloud().await;
    let image = cloud.image().await;
    cloud.service.faults.lock().extend([Fault::Cut, Fault::Silence, Fault::Cut]);
    assert_eq!(download(&cloud.client(), image).await, Ok(hash(&content())));
    let firsts: Vec<usize> = cloud.ranges().iter().skip(1).map(|range| first_of(range)).collect();
    assert!(firsts.len() == 3 && firsts.is_sorted() && firsts[0] > 0 && firsts[0] <= BEFORE, "{firsts:?}");
}

/// Returns the first byte of a range to the end.
fn first_of(range: &str) -> usize {
    range.strip_prefix("bytes=").and_then(|range| range.strip_suffix('-')).unwrap().parse().unwrap()
}

#[actix_web::test]
async fn a_controller_that_forgot_a_ticket_is_asked_anew() {
    let cloud = cloud().await;
    let image = cloud.image().await;
    cloud.service.faults.lock().push_back(Fault::Cut);
    let (_, mut stream) = cloud.client().download(image).await.unwrap();
    let mut bytes = stream.next().await.unwrap().unwrap().to_vec();
    // The host's next ticket ends the one of the download.
    cloud.ticket(image, false).await.unwrap();
    bytes.extend(read(stream).await.unwrap());
    assert!(bytes == content());
    let ranges = cloud.ranges();
    assert_eq!((ranges.len(), &ranges[1]), (3, &ranges[2]), "refused once, then served from the same place");
}

#[actix_web::test]
async fn a_service_that_falls_silent_is_an_error_in_time() {
    let cloud = cloud().await;
    let image = cloud.image().await;
    let client = cloud.patient(Duration::from_millis(100), Duration::from_millis(500));
    *cloud.service.is_mute.lock() = true;
    let refused = timeout(LONG, client.download(image)).await.expect("an answer").map(drop);
    assert!(matches!(refused, Err(NeighbourError::Unavailable(_))), "{refused:?}");
    *cloud.service.is_mute.lock() = false;
    cloud.service.faults.lock().push_back(Fault::Cut);
    let (_, stream) = client.download(image).await.unwrap();
    *cloud.service.is_mute.lock() = true;
    assert!(read(stream).await.is_err());
}

#[actix_web::test]
async fn bytes_that_are_not_the_records_are_an_error() {
    let cloud = cloud().await;
    let image = cloud.image().await;
    let spoil = async |change: fn(&mut ImageTicket)| {
        let mut ticket = cloud.ticket(image, false).await.unwrap();
        change(&mut ticket);
        cloud.wrong.lock().push_back(ticket);
        let (_, stream) = cloud.client().download(image).await.unwrap();
        read(stream).await.map(|bytes| bytes.len()).map_err(|error| error.to_string())
    };
    let refused = spoil(|ticket| ticket.bytes.sha256 = Some(hash(b"others"))).await;
    assert_eq!(refused, Err(format!("the bytes of image {image} are not those of its record")));
    let refused = spoil(|ticket| ticket.bytes.size = Some(SIZE as u64 - 100_003)).await;
    assert_eq!(refused, Err(format!("image {image} has more bytes than its record says")));
}

#[actix_web::test]
async fn an_upload_is_stored_whole_and_once() {
    let cloud = cloud().await;
    for keep in [Keep::Durably, Keep::InPassing] {
        let (client, image) = (cloud.client(), cloud.queued().await);
        assert_eq!(client.upload(image, data(), keep).await, Ok(hash(&content())));
        assert_eq!(cloud.status(image).await, "active");
        assert_eq!(download(&client, image).await, Ok(hash(&content())));
        let again = client.upload(image, data(), keep).await;
        assert!(matches!(again, Err(NeighbourError::Conflict(_))), "{again:?}");
    }
}

#[actix_web::test]
async fn an_upload_whose_bytes_break_off_stores_nothing() {
    let cloud = cloud().await;
    let (client, image) = (cloud.client(), cloud.queued().await);
    let broken = data().take(2).chain(stream::once(async { Err(io::Error::other("gone")) }));
    let refused = client.upload(image, Box::pin(broken), Keep::Durably).await;
    assert!(matches!(refused, Err(NeighbourError::Unavailable(_))), "{refused:?}");
    let queued_again = async {
        while cloud.status(image).await != "queued" {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, queued_again).await.expect("the upload is undone");
    assert_eq!(client.upload(image, data(), Keep::Durably).await, Ok(hash(&content())));
}

#[actix_web::test]
async fn a_ticket_that_does_not_fit_is_refused() {
    let cloud = cloud().await;
    let (client, image) = (cloud.client(), cloud.image().await);
    let asker = Asker { cell: "cell1".into(), host: "cell1-host1".into() };
    let (url, secret) = cloud.services.tickets.issue(&asker, image, Access::Write).unwrap();
    cloud.wrong.lock().push_back(ImageTicket { url, secret, bytes: Default::default() });
    let refused = client.download(image).await.map(drop);
    assert!(matches!(refused, Err(NeighbourError::Refused(_))), "{refused:?}");
    let (unknown, queued) = (Secret::new("unknown".to_owned()), cloud.queued().await);
    let url = format!("http://{}{}/{queued}", cloud.address, IMAGES);
    cloud.wrong.lock().push_back(ImageTicket { url, secret: unknown, bytes: Default::default() });
    let refused = client.upload(queued, data(), Keep::Durably).await;
    assert!(matches!(refused, Err(NeighbourError::Unavailable(_))), "{refused:?}");
    assert_eq!(cloud.status(queued).await, "queued");
}

#[actix_web::test]
async fn images_in_the_wrong_state_have_no_ticket() {
    let cloud = cloud().await;
    let (client, empty, missing) = (cloud.client(), cloud.queued().await, Uuid::from_u128(1));
    let refused = client.download(empty).await.map(drop);
    assert!(matches!(refused, Err(NeighbourError::Conflict(_))), "{refused:?}");
    let refused = client.upload(missing, data(), Keep::Durably).await;
    assert!(matches!(refused, Err(NeighbourError::Missing(_))), "{refused:?}");
}

#[actix_web::test]
async fn a_ticket_that_nobody_can_give_now_is_asked_for_again() {
    let cloud = cloud().await;
    let (client, image, queued) = (cloud.client(), cloud.image().await, cloud.queued().await);
    *cloud.unanswered.lock() = 2;
    assert_eq!(download(&client, image).await, Ok(hash(&content())));
    *cloud.unanswered.lock() = 1;
    assert_eq!(client.upload(queued, data(), Keep::Durably).await, Ok(hash(&content())));
    *cloud.unanswered.lock() = u32::MAX;
    let impatient = cloud.patient(Duration::from_secs(1), Duration::from_millis(200));
    let refused = timeout(LONG, impatient.download(image)).await.expect("an answer").map(drop);
    assert!(matches!(refused, Err(NeighbourError::Unavailable(_))), "{refused:?}");
}

#[actix_web::test]
async fn a_service_that_is_not_there_is_unavailable() {
    let cloud = cloud().await;
    let client = cloud.patient(Duration::from_millis(100), Duration::from_millis(500));
    let (image, queued) = (cloud.image().await, cloud.queued().await);
    cloud.server.stop(false).await;
    let refused = timeout(LONG, client.download(image)).await.expect("an answer").map(drop);
    assert!(matches!(refused, Err(NeighbourError::Unavailable(_))), "{refused:?}");
    let refused = timeout(LONG, client.upload(queued, data(), Keep::Durably)).await.expect("an answer");
    assert!(matches!(refused, Err(NeighbourError::Unavailable(_))), "{refused:?}");
}

#[actix_web::test]
async fn a_hosts_transfers_keep_to_its_rate() {
    let cloud = cloud().await;
    let image = cloud.image().await;
    let (client, start) = (Connections::new(4 * SIZE as u64).client(cloud.clone()), Instant::now());
    assert_eq!(download(&client, image).await, Ok(hash(&content())));
    assert!(start.elapsed() >= Duration::from_millis(150), "{:?}", start.elapsed());
}
