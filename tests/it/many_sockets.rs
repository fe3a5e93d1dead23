//! Clients that only hold sockets open: the service goes on for the others, and keeps the file descriptors that it needs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{PATIENCE, id_of};
use crate::service::run;
use crate::stage::play;

fn stalled(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("a connection");
    let head = "POST /identity/v3/auth/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 200\r\n\r\n";
    socket.write_all(format!("{head}{{\"auth\": ").as_bytes()).expect("half a request");
    socket
}

/// Opens a connection from another address: the number per address is bounded, too.
async fn from_elsewhere(address: SocketAddr) -> tokio::net::TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 2], 0))).expect("an address");
    socket.connect(address).await.expect("a connection")
}

/// Returns the status of a request on a new connection.
fn status(address: SocketAddr, path: &str) -> Option<u16> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes()).ok()?;
    let mut text = String::new();
    socket.read_to_string(&mut text).ok()?;
    text.get(9..12)?.parse().ok()
}

#[test]
fn hundreds_of_stalled_requests_keep_nobody_out() {
    cellshift::descriptors::raise();
    play(
        |_| {},
        |stage| async move {
            let address = stage.running.address;
            let sockets: Vec<_> = (0..600).map(|_| stalled(address)).collect();
            let begun = Instant::now();
            for _ in 0..10 {
                assert_eq!(stage.member.get("/servers").await.status, 200);
            }
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
            let server = stage.create(stage.server()).await;
            assert_eq!(stage.runs_on(server).await.len(), 1);
            // The stalled sockets are answered in the form of the API that they asked.
            let mut socket = sockets.into_iter().next().expect("a socket");
            socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            let mut text = String::new();
            socket.read_to_string(&mut text).expect("an answer");
            assert!(text.starts_with("HTTP/1.1 408 ") && text.contains("\"error\"") && text.contains("x-openstack-request-id"), "{text}");
        },
    );
}

#[test]
fn idle_connections_up_to_the_limit_leave_moves_alone() {
    cellshift::descriptors::raise();
    let configure = |config: &mut cellshift::config::Config| {
        config.http.max_connections = 2000;
        config.http.max_connections_per_peer = 2000;
    };
    play(configure, |stage| async move {
        let (address, server) = (stage.running.address, stage.create(stage.server()).await);
        let mut idle = Vec::new();
        for _ in 0..1980 {
            idle.push(from_elsewhere(address).await);
        }
        let before = stage.runs_on(server).await;
        stage.cross(server).await;
        assert_ne!(stage.runs_on(server).await, before);
        for _ in 0..20 {
            idle.push(from_elsewhere(address).await);
        }
        stage.until("connections past the limit are refused", async || status(address, "/compute") == Some(503)).await;
        assert_eq!(status(address, "/healthcheck"), Some(200), "there is room for the health check");
        assert_eq!(stage.member.get("/servers").await.status, 200, "whoever is in stays in");
        drop(idle);
        stage.until("there is room again", async || status(address, "/compute") == Some(200)).await;
    });
}

#[test]
fn an_upload_whose_client_goes_leaves_the_image_without_bytes() {
    play(
        |_| {},
        |stage| async move {
            let image = json!({"name": "half", "disk_format": "raw", "container_format": "bare"});
            let image = id_of(&stage.member.post("/image/v2/images", image).await.expect(201).body);
            let path = format!("/image/v2/images/{image}");
            let is = async |status: &str| stage.member.get(&path).await.expect(200).body["status"] == status;
            for chunked in [false, true] {
                let mut socket = TcpStream::connect(stage.running.address).expect("a connection");
                let framing = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 100000" };
                let token = stage.member.token();
                let head = format!("PUT {path}/file HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\n{framing}\r\n");
                socket
                    .write_all(format!("{head}Content-Type: application/octet-stream\r\n\r\n5\r\nbytes\r\n").as_bytes())
                    .expect("half an upload");
                stage.until("the upload has begun", async || is("saving").await).await;
                drop(socket);
                stage.until("the image is as it was", async || !is("saving").await).await;
                assert!(is("queued").await);
            }
            assert_eq!(stage.member.upload(image, b"all of it".to_vec()).await.status, 204);
            assert!(is("active").await);
        },
    );
}

#[test]
fn the_service_says_when_the_system_allows_too_few_files() {
    let data = tempfile::tempdir().expect("a directory");
    let config = data.path().join("config.toml");
    std::fs::write(&config, "[http]\nmax_connections = 2000000000\n").expect("a file");
    let ended = run(&[
        "serve",
        "--data-dir",
        &data.path().display().to_string(),
        "--config",
        &config.display().to_string(),
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_ne!(ended.code, Some(0));
    assert!(ended.stderr.contains("max_connections") && ended.stderr.contains("ulimit"), "{}", ended.stderr);
}

#[test]
fn none_is_no_authentication_for_an_address_that_others_reach() {
    let data = tempfile::tempdir().expect("a directory");
    let path = data.path().display().to_string();
    let config = data.path().join("config.toml");
    let file = config.display().to_string();
    std::fs::write(&config, "[api]\nauthentication = \"none\"\n").expect("a file");
    let refused = run(&["config", "--config", &file, "--data-dir", &path, "--listen", "0.0.0.0:0"]);
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("http.allow_unauthenticated_remote = true"), "{}", refused.stderr);
    assert_eq!(run(&["config", "--config", &file, "--data-dir", &path, "--listen", "127.0.0.1:0"]).code, Some(0));
    assert_eq!(run(&["config", "--config", &file, "--data-dir", &path, "--listen", "[::1]:0"]).code, Some(0));
    std::fs::write(&config, "[api]\nauthentication = \"none\"\n[http]\nallow_unauthenticated_remote = true\n").expect("a file");
    assert_eq!(run(&["config", "--config", &file, "--data-dir", &path, "--listen", "0.0.0.0:0"]).code, Some(0));
}
