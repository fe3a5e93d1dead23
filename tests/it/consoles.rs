//! Serial consoles: a WebSocket that shows what the guest writes, and whose lines the guest reads.

use actix_codec::{Framed, FramedParts};
use actix_http::ws::{Codec, Frame, Message};
use cellshift::config::{Config, Seconds};
use futures::{SinkExt, StreamExt};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::client::PATIENCE;
use crate::stage::{Stage, play, play_default};

/// The client's end of a console.
struct Terminal {
    frames: Framed<TcpStream, Codec>,
    shown: String,
}

/// Opens a URL. Returns the status of the answer if that is no WebSocket.
async fn open(url: &str, origin: Option<&str>) -> Result<Terminal, u16> {
    let address = url.strip_prefix("ws://").expect("a WebSocket's URL");
    let (host, path) = address.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host).await.expect("a connection");
    let origin = origin.map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
    let request = format!(
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{origin}\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: binary\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    let head = String::from_utf8(head).expect("text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    if status != 101 {
        return Err(status);
    }
    assert!(head.to_ascii_lowercase().contains("sec-websocket-protocol: binary"), "{head}");
    let frames = Framed::from_parts(FramedParts::new(stream, Codec::new().client_mode()));
    Ok(Terminal { frames, shown: String::new() })
}

impl Terminal {
    async fn types(&mut self, keys: &str) {
        self.frames.send(Message::Binary(keys.as_bytes().to_vec().into())).await.expect("a frame is sent");
    }

    /// Reads the next frame. Returns the reason if it closes the console.
    async fn next(&mut self) -> Option<String> {
        match self.frames.next().await.expect("a frame").expect("a whole frame") {
            Frame::Binary(bytes) => self.shown += std::str::from_utf8(&bytes).expect("text"),
            Frame::Close(reason) => return Some(reason.and_then(|reason| reason.description).unwrap_or_default()),
            Frame::Ping(bytes) => self.frames.send(Message::Pong(bytes)).await.expect("a frame is sent"),
            other => panic!("{other:?}"),
        }
        None
    }

    /// Reads until the terminal shows this text.
    async fn shows(&mut self, text: &str) {
        let reading = async {
            while !self.shown.contains(text) {
                assert_eq!(self.next().await, None, "{}", self.shown);
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, reading).await.is_ok();
        assert!(in_time, "{text:?} is not in {:?}", self.shown);
    }

    /// Reads until the console is closed, and returns the reason.
    async fn is_closed(&mut self) -> String {
        let reading = async {
            loop {
                if let Some(reason) = self.next().await {
                    return reason;
                }
            }
        };
        tokio::time::timeout(PATIENCE, reading).await.expect("the console is closed")
    }
}

/// Asks for the URL of a server's console.
async fn url_of(stage: &Stage, server: Uuid) -> String {
    let request = json!({"remote_console": {"protocol": "serial", "type": "serial"}});
    let console = stage.member.post(&format!("/servers/{server}/remote-consoles"), request).await.expect(200).body;
    assert_eq!((&console["remote_console"]["type"], &console["remote_console"]["protocol"]), (&json!("serial"), &json!("serial")));
    console["remote_console"]["url"].as_str().expect("a URL").to_owned()
}

#[test]
fn a_guest_is_talked_to_wherever_it_is_until_its_server_goes() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let mut terminal = open(&url_of(&stage, server).await, None).await.expect("a console");
        terminal.shows("record 1 boot").await;
        terminal.types("helpo\u{7f}\u{7f}lo\r").await;
        terminal.shows("reads hello\r\n").await;
        let mut second = open(&url_of(&stage, server).await, None).await.expect("another console");
        second.shows("reads hello\r\n").await;
        stage.cross(server).await;
        terminal.types("still here?\n").await;
        terminal.shows("reads still here?\r\n").await;
        second.shows("reads still here?\r\n").await;
        stage.confirm(server).await;
        stage.stop(&stage.member, server).await;
        terminal.types("anybody?\r").await;
        terminal.shows("(the guest does not read)").await;
        stage.member.delete(&format!("/servers/{server}")).await.expect(204);
        for mut terminal in [terminal, second] {
            assert_eq!(terminal.is_closed().await, "The server is gone.");
        }
    });
}

#[test]
fn a_frame_that_is_too_long_ends_a_console() {
    play_default(|stage| async move {
        let server = stage.create(stage.server()).await;
        let url = url_of(&stage, server).await;
        let mut terminal = open(&url, None).await.expect("a console");
        terminal.types(&"x".repeat(5000)).await;
        assert!(terminal.is_closed().await.contains("too long"));
        let mut terminal = open(&url, None).await.expect("a console");
        terminal.types(&"x".repeat(1000)).await;
        terminal.types("\r").await;
        terminal.shows(&format!("reads {}\r\n", "x".repeat(255))).await;
    });
}

#[test]
fn only_a_good_token_opens_a_console() {
    play(
        |config: &mut Config| config.console.token_ttl = Seconds::whole(2),
        |stage| async move {
            let server = stage.create(stage.server()).await;
            let url = url_of(&stage, server).await;
            let (path, token) = url.split_once('=').expect("a token");
            assert_eq!(open(&format!("{path}=nonsense"), None).await.err(), Some(403));
            assert_eq!(open(path.trim_end_matches("?token"), None).await.err(), Some(403));
            assert_eq!(open(&url, Some("http://elsewhere.example")).await.err(), Some(403));
            let host = path.strip_prefix("ws://").and_then(|address| address.split('/').next()).expect("a host");
            open(&url, Some(&format!("http://{host}"))).await.expect("a console");
            let shown = stage.admin.get(&format!("/os-console-auth-tokens/{token}")).await.expect(200).body;
            assert_eq!(shown["console"]["instance_uuid"], json!(server));
            stage.until("the token's time is over", || async { open(&url, None).await.err() == Some(403) }).await;
            stage.admin.get(&format!("/os-console-auth-tokens/{token}")).await.expect(404);
            let before =
                stage.member.speaking("2.5").act(server, json!({"os-getSerialConsole": {"type": "serial"}})).await.expect(200).body;
            open(before["console"]["url"].as_str().expect("a URL"), None).await.expect("a console");
        },
    );
}
