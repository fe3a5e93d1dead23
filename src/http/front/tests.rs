//! Tests with real sockets: slow, malformed or excessive clients get an answer, and block nobody else.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use futures::StreamExt;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::connections::Connections;
use super::*;
use crate::domain::context::RequestContext;
use crate::env::Env;
use crate::http::arrival::{self, Arrivals};
use crate::http::clients::Clients;
use crate::http::error::ErrorForm;
use crate::http::front::connections::Peers;
use crate::http::limits::{InFlight, Transfers};
use crate::http::pace::Pace;
use crate::http::server::Part;
use crate::policy_file::PolicyFile;
use crate::services::ServiceError;
use crate::services::identity::Authenticator;

struct Anybody;

#[async_trait::async_trait]
impl Authenticator for Anybody {
    async fn validate(&self, token: &str) -> Result<RequestContext, ServiceError> {
        tokio::task::yield_now().await;
        match token {
            "good" => Ok(RequestContext { project_id: "demo".into(), ..RequestContext::default() }),
            _ => Err(ServiceError::NotFound("no such token".into())),
        }
    }

    async fn knows_project(&self, _: &str) -> Result<bool, ServiceError> {
        Ok(true)
    }
}

const SLOW: Pace = Pace { bytes_per_second: 500, patience: Duration::from_millis(400) };

/// The settings that a test changes.
struct Bounds {
    connections: Connections,
    in_flight: usize,
    trusted: Vec<ipnet::IpNet>,
    proxied: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { connections: Connections::new(1000, 1000), in_flight: 2, trusted: Vec::new(), proxied: 100 }
    }
}

fn part() -> Part {
    Arc::new(|config| {
        config
            .service(
                web::resource("/compute/v2.1/echo")
                    .route(web::post().to(async |body: crate::http::json::Json<Value>| HttpResponse::Ok().json(&*body))),
            )
            .service(web::resource("/compute/v2.1/none").route(web::get().to(async || HttpResponse::NoContent().finish())))
            .service(web::resource("/compute/v2.1/endless").route(web::get().to(async || {
                let piece = || Ok::<_, std::io::Error>(bytes::Bytes::from(vec![7; 1 << 16]));
                HttpResponse::Ok().streaming(futures::stream::repeat_with(piece))
            })))
            .service(web::resource("/image/v2/images/{id}/file").route(web::put().to(
                async |id: web::Path<String>, mut payload: web::Payload| {
                    let mut size = 0;
                    if *id == "busy" {
                        tokio::time::sleep(Duration::from_millis(300)).await;
                    }
                    while let Some(piece) = payload.next().await {
                        size += piece.map_err(|error| arrival::broken(&error, ErrorForm::Image))?.len();
                    }
                    Ok::<_, crate::http::error::ApiError>(HttpResponse::Ok().json(size))
                },
            )));
    })
}

fn start(bounds: Bounds) -> SocketAddr {
    start_in(Env::system(), bounds)
}

fn start_in(env: Env, bounds: Bounds) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let wiring = Wiring {
        env,
        authenticator: Arc::new(Anybody),
        policy: Arc::new(PolicyFile::built_in().unwrap()),
        anonymous: None,
        in_flight: InFlight::new(bounds.in_flight),
        transfers: Transfers(InFlight::new(4)),
        arrivals: Arrivals::new(1 << 20, Duration::from_secs(5), SLOW, Peers::new(bounds.proxied), 1 << 22),
        clients: Clients::new(None, bounds.trusted, address),
        cell_timeout: Duration::from_secs(5),
        parts: vec![part()],
    };
    let head_patience = Duration::from_secs(1);
    let front = Front { workers: 1, blocking: 4, grace: 0, connections: bounds.connections, head_patience, takes: SLOW };
    actix_web::rt::spawn(serve(wiring, listener, front).unwrap());
    address
}

struct Client(TcpStream);

/// An answer. The body is null if it is not JSON.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Value,
}

impl Client {
    async fn new(server: SocketAddr) -> Client {
        Client(TcpStream::connect(server).await.unwrap())
    }

    async fn from(server: SocketAddr, last: u8) -> Client {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0))).unwrap();
        Client(socket.connect(server).await.unwrap())
    }

    async fn send(&mut self, text: impl AsRef<[u8]>) -> &mut Client {
        self.0.write_all(text.as_ref()).await.unwrap();
        self
    }

    /// Returns the next answer; none if the connection ended.
    async fn try_answer(&mut self) -> Option<Answer> {
        let mut read = Vec::new();
        let head_ends = loop {
            if let Some(at) = read.windows(4).position(|part| part == b"\r\n\r\n") {
                break at;
            }
            match self.0.read_u8().await {
                Ok(byte) => read.push(byte),
                Err(_) => return None,
            }
        };
        let head = String::from_utf8(read[..head_ends].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).await.unwrap();
        Some(Answer { status: head[9..12].parse().unwrap(), head, body: serde_json::from_slice(&body).unwrap_or_default() })
    }

    async fn answer(&mut self) -> Answer {
        self.try_answer().await.expect("an answer")
    }

    /// Checks for a refusal in an API's form with a request id.
    async fn refused(&mut self, status: u16, pointer: &str) -> Answer {
        let answer = self.answer().await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.body.pointer(pointer).is_some_and(Value::is_string), "{answer:?}");
        assert!(
            answer.head.contains("x-openstack-request-id: req-") && answer.head.contains("content-type: application/json"),
            "{answer:?}"
        );
        answer
    }

    async fn assert_cut(&mut self) {
        assert!(self.try_answer().await.is_none());
    }
}

fn post(path: &str, headers: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: good\r\n{headers}\r\n")
}

const ECHO: &str = "/compute/v2.1/echo";
const HEALTH: &str = "GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n";
const NONE: &str = "GET /compute/v2.1/none HTTP/1.1\r\nHost: x\r\nX-Auth-Token: good\r\n\r\n";

#[actix_web::test]
async fn stalled_bodies_take_no_place_and_end_with_408() {
    let server = start(Bounds::default());
    let mut stalled = Vec::new();
    for _ in 0..50 {
        let mut client = Client::new(server).await;
        client.send(post(ECHO, "Content-Length: 100\r\n")).await.send("{\"half\": ").await;
        stalled.push(client);
    }
    for _ in 0..20 {
        assert_eq!(Client::new(server).await.send(NONE).await.answer().await.status, 204);
    }
    for client in &mut stalled {
        client.refused(408, "/computeFault/message").await;
        client.assert_cut().await;
    }
}

#[actix_web::test]
async fn a_body_that_drips_ends_with_408_also_as_a_stream() {
    let server = start(Bounds::default());
    let upload = "PUT /image/v2/images/1/file HTTP/1.1\r\nHost: x\r\nX-Auth-Token: good\r\nContent-Length: 1000\r\n\r\n".to_owned();
    for (request, pointer) in [(post(ECHO, "Content-Length: 1000\r\n"), "/computeFault/message"), (upload, "/message")] {
        let mut client = Client::new(server).await;
        client.send(request).await;
        let (reading, mut writing) = client.0.into_split();
        let drip = actix_web::rt::spawn(async move {
            while writing.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let (mut read, mut reading) = (Vec::new(), reading);
        // The client still sends behind the answer, so the connection may end in a reset.
        let _ = tokio::time::timeout(Duration::from_secs(5), reading.read_to_end(&mut read)).await.unwrap();
        let text = String::from_utf8(read).unwrap();
        assert!(text.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{text}");
        let body: Value = serde_json::from_str(text.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(body.pointer(pointer).unwrap(), "The request's body did not arrive in time.");
        drip.abort();
    }
}

#[actix_web::test]
async fn a_body_in_pieces_arrives_whole() {
    let server = start(Bounds::default());
    let mut client = Client::new(server).await;
    let text = format!("\"{}\"", "x".repeat(200_000));
    client.send(post(ECHO, "Transfer-Encoding: chunked\r\n")).await;
    for piece in text.as_bytes().chunks(30_000) {
        client.send(format!("{:x}\r\n", piece.len())).await.send(piece).await.send("\r\n").await;
    }
    let answer = client.send("0\r\n\r\n").await.answer().await;
    assert_eq!((answer.status, answer.body.as_str().map(str::len)), (200, Some(200_000)));
    assert_eq!(client.send(NONE).await.answer().await.status, 204, "the connection is good for more");
    let upload = format!("PUT /image/v2/images/1/file HTTP/1.1\r\nHost: x\r\nX-Auth-Token: good\r\nContent-Length: {}\r\n\r\n", text.len());
    let answer = client.send(upload).await.send(&text).await.answer().await;
    assert_eq!((answer.status, answer.body.as_u64()), (200, Some(200_002)));
}

#[actix_web::test]
async fn broken_chunks_and_lines_have_the_apis_error_and_an_id() {
    let env = Env::system();
    let server = start_in(env.clone(), Bounds::default());
    let chunked = post(ECHO, "Transfer-Encoding: chunked\r\n");
    let upload = "PUT /image/v2/images/1/file HTTP/1.1\r\nHost: x\r\nX-Auth-Token: good\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (request, status, pointer) in [
        (format!("{chunked}zz\r\nabc\r\n0\r\n\r\n"), 400, "/badRequest/message"),
        (format!("{chunked}3\r\nabcdef\r\n0\r\n\r\n"), 400, "/badRequest/message"),
        (format!("{upload}3\r\nabc\r\n-1\r\n"), 400, "/message"),
        ("nonsense\r\n\r\n".to_owned(), 400, "/badRequest/message"),
        ("GET /identity/v3 HTTP/7.7\r\n\r\n".to_owned(), 400, "/error/message"),
        ("GET /network/v2.0/ports HTTP/1.1\r\nno colon\r\n\r\n".to_owned(), 400, "/NeutronError/message"),
        (format!("GET /placement HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(140_000)), 431, "/errors/0/detail"),
        (format!("GET /image/v2 HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(200)), 431, "/message"),
        (post(ECHO, "Content-Length: 1\r\nContent-Length: 2\r\n"), 400, "/badRequest/message"),
        (post(ECHO, "Content-Length: 9999999\r\n"), 413, "/overLimit/message"),
    ] {
        let mut client = Client::new(server).await;
        client.send(&request).await.refused(status, pointer).await;
        client.assert_cut().await;
    }
    let metrics = env.metrics().text();
    let counted =
        |status: u16| metrics.contains(&format!("cellshift_http_requests_total{{route=\"none\",method=\"other\",status=\"{status}\"}}"));
    assert!(counted(400) && counted(431), "those that were refused before they were whole: {metrics}");
    // The body breaks before its handler reads it.
    let mut client = Client::new(server).await;
    client.send(upload.replace("/1/", "/busy/")).await.send("3\r\nabc\r\n").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    client.send("-1\r\n").await.refused(400, "/message").await;
    client.assert_cut().await;
    // The chunk comes in two pieces, after a request that was answered.
    let mut client = Client::new(server).await;
    client.send(&chunked).await.send("3\r\n{} \r\n").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    client.send("zz\r\n").await.refused(400, "/badRequest/message").await;
    let mut client = Client::new(server).await;
    assert_eq!(client.send(format!("{HEALTH}{HEALTH}NONSENSE\r\n\r\n")).await.answer().await.status, 200);
    assert_eq!(client.answer().await.status, 200);
    client.refused(400, "/badRequest/message").await;
}

#[actix_web::test]
async fn a_slow_head_ends_with_408_also_on_a_used_connection() {
    let server = start(Bounds::default());
    Client::new(server).await.send("GET /identity/v3 HT").await.refused(408, "/error/message").await;
    let mut client = Client::new(server).await;
    assert_eq!(client.send(HEALTH).await.answer().await.status, 200);
    tokio::time::sleep(Duration::from_millis(1400)).await;
    assert_eq!(client.send(HEALTH).await.answer().await.status, 200, "an idle connection stays");
    client.send("GET /identity/v3 HT").await.refused(408, "/error/message").await;
    client.assert_cut().await;
}

#[actix_web::test]
async fn a_client_that_does_not_take_its_answer_is_cut() {
    let server = start(Bounds::default());
    let mut client = Client::new(server).await;
    client.send(NONE.replace("none", "endless")).await;
    assert_eq!(client.0.read_u8().await.unwrap(), b'H');
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let (mut length, mut sink) = (0, vec![0; 1 << 20]);
    while let Ok(count @ 1..) = client.0.read(&mut sink).await {
        length += count;
        assert!(length < 1 << 30, "it goes on for ever");
    }
}

#[actix_web::test]
async fn a_request_to_upgrade_is_answered_as_any_other() {
    let server = start(Bounds::default());
    let request = NONE.replace("\r\n\r\n", "\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(Client::new(server).await.send(request).await.answer().await.status, 204);
}

#[actix_web::test]
async fn one_address_has_its_bound_and_others_come_in() {
    let server = start(Bounds { connections: Connections::new(1000, 3), ..Bounds::default() });
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(Client::new(server).await);
    }
    assert_eq!(held[2].send(HEALTH).await.answer().await.status, 200);
    let answer = Client::new(server).await.refused(503, "/serviceUnavailable/message").await;
    assert!(answer.head.contains("retry-after: 1"), "{answer:?}");
    assert_eq!(Client::from(server, 9).await.send(NONE).await.answer().await.status, 204);
    held.clear();
    // The server notices the closed connections with a delay.
    while Client::new(server).await.send(NONE).await.try_answer().await.is_none_or(|answer| answer.status != 204) {
        tokio::task::yield_now().await;
    }
}

#[actix_web::test]
async fn past_the_limit_only_the_health_check_is_answered() {
    let server = start(Bounds { connections: Connections::new(5, 1000), ..Bounds::default() });
    let mut held = Vec::new();
    for _ in 0..5 {
        let mut client = Client::new(server).await;
        assert_eq!(client.send(HEALTH).await.answer().await.status, 200);
        held.push(client);
    }
    Client::new(server).await.send(NONE).await.refused(503, "/serviceUnavailable/message").await;
    let mut health = Client::new(server).await;
    assert_eq!(health.send(HEALTH).await.answer().await.status, 200);
    assert_eq!(held[4].send(NONE).await.answer().await.status, 204, "whoever is in stays in");
}

#[actix_web::test]
async fn a_client_behind_a_proxy_is_bounded_by_its_own_address() {
    let bounds = Bounds { trusted: vec!["127.0.0.1/32".parse().unwrap()], proxied: 2, ..Bounds::default() };
    let server = start(Bounds { connections: Connections::new(1000, 1), ..bounds });
    let from = |client: &str, body: &str| post(ECHO, &format!("X-Forwarded-For: {client}\r\nContent-Length: 2\r\n")) + body;
    let mut stalled = Vec::new();
    for _ in 0..2 {
        let mut client = Client::new(server).await;
        client.send(from("198.51.100.1", "{")).await;
        stalled.push(client);
    }
    // The stalling requests are sent but may not have been read yet.
    tokio::time::sleep(Duration::from_millis(100)).await;
    Client::new(server).await.send(from("198.51.100.1", "{}")).await.refused(503, "/serviceUnavailable/message").await;
    assert_eq!(Client::new(server).await.send(from("198.51.100.2", "{}")).await.answer().await.status, 200);
}
