//! Tests of exports: a host reads another one's over HTTP.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::Exports;
use crate::agent::config::AgentTransfer;
use crate::agent::images::{Connections, Patience, TicketSource};
use crate::domain::guest::DiskPart;
use crate::domain::host_protocol::{Asker, ImageBytes, ImageTicket, NeighbourError};
use crate::env::Env;

const SERVER: Uuid = Uuid::from_u128(1);
const OTHER: Uuid = Uuid::from_u128(2);

/// The exports of one agent, with the files of two servers.
struct Source {
    exports: Arc<Exports>,
    server: ServerHandle,
    _dir: tempfile::TempDir,
}

fn content(server: Uuid, name: &str) -> Vec<u8> {
    format!("{name} of {server}").into_bytes().repeat(10_000)
}

fn source() -> Source {
    let dir = tempfile::tempdir().unwrap();
    for server in [SERVER, OTHER] {
        let folder = dir.path().join(server.to_string());
        std::fs::create_dir(&folder).unwrap();
        for name in ["disk", "disk.eph0", "memory", "exported-by"] {
            std::fs::write(folder.join(name), content(server, name)).unwrap();
        }
    }
    let config = AgentTransfer { listen: Some("127.0.0.1:0".parse().unwrap()), endpoint: None };
    let (exports, server) = Exports::listen(&config, dir.path().to_owned(), &Env::system()).unwrap().unwrap();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    Source { exports, server: handle, _dir: dir }
}

/// Gives tickets for one server, and asks with them for the part of any server.
struct Tickets {
    exports: Arc<Exports>,
    of: Uuid,
    part: DiskPart,
}

#[async_trait]
impl TicketSource for Tickets {
    async fn ticket(&self, server: Uuid, _: bool) -> Result<ImageTicket, NeighbourError> {
        let reader = Asker { cell: "cell1".into(), host: "cell1-host2".into() };
        let ticket = self.exports.ticket(&reader, self.of)?;
        let url = format!("{}/{}", ticket.url.replace(&self.of.to_string(), &server.to_string()), self.part.name);
        let bytes = ImageBytes { size: Some(self.part.size), sha256: Some(self.part.sha256.clone()) };
        Ok(ImageTicket { url, secret: ticket.secret, bytes })
    }
}

async fn read(source: &Source, of: Uuid, server: Uuid, name: &str) -> Result<Vec<u8>, NeighbourError> {
    let bytes = content(server, name);
    let part = DiskPart { name: name.into(), size: bytes.len() as u64, sha256: hex::encode(Sha256::digest(&bytes)) };
    let tickets = Arc::new(Tickets { exports: source.exports.clone(), of, part });
    let patience = Patience { stall: Duration::from_millis(500), ..Patience::default() };
    let (_, data) = Connections::patient(0, patience).client(tickets).download(server).await?;
    let pieces: Vec<Bytes> = data.try_collect().await.unwrap();
    Ok(pieces.concat())
}

#[actix_web::test]
async fn a_ticket_reads_the_disks_and_the_memory_of_a_server() {
    let source = source();
    for name in ["disk", "disk.eph0", "memory"] {
        assert!(read(&source, SERVER, SERVER, name).await.unwrap() == content(SERVER, name), "{name}");
    }
}

#[actix_web::test]
async fn a_ticket_reads_no_other_server_and_no_other_file() {
    let source = source();
    let refused = read(&source, SERVER, OTHER, "disk").await;
    assert!(matches!(refused, Err(NeighbourError::Refused(_))), "{refused:?}");
    for name in ["exported-by", "disk.eph1", "disk%2F..%2Fmemory"] {
        let refused = read(&source, SERVER, SERVER, name).await;
        assert!(matches!(refused, Err(NeighbourError::Missing(_))), "{name}: {refused:?}");
    }
}

#[actix_web::test]
async fn a_source_that_is_gone_is_unavailable() {
    let source = source();
    source.server.stop(false).await;
    let refused = read(&source, SERVER, SERVER, "disk").await;
    assert!(matches!(refused, Err(NeighbourError::Unavailable(_))), "{refused:?}");
}

#[actix_web::test]
async fn without_an_address_an_agent_exports_nothing() {
    let listening = Exports::listen(&AgentTransfer::default(), PathBuf::new(), &Env::system()).unwrap();
    assert!(listening.is_none());
}
