//! Tests of disks that come from another host of the cell: over its agent, or from the transfer area that both share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cellshift_domain::flavor::Flavor;
use cellshift_domain::guest::{DiskManifest, DiskPart, DiskSource, GuestSpec};
use cellshift_domain::host_protocol::{
    Asker, ExportTicket, HostAnswer, HostCommand, HostQuery, HostQuestion, HostReply, ImageBytes, NeighbourError, QuestionAnswer,
};
use cellshift_domain::secret::Secret;
use cellshift_env::streams::{ByteStream, Keep};
use futures::stream::iter;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Empty, World, obey, start};
use crate::link::{Delivered, HostEnd};
use crate::{HostParts, Upward};

const SERVER: Uuid = Uuid::from_u128(1);
const SOURCE: &str = "cell1-host2";
/// The disks, by their names. An export may have an empty one.
const DISKS: [(&str, &[u8]); 3] = [("disk", b"the root disk"), ("disk.eph0", b""), ("disk.swap", b"the swap disk")];

/// A way upwards that reads exports of another agent.
struct Elsewhere {
    /// The fate of the bytes on their way.
    spoil: fn(&str, &'static [u8]) -> Result<&'static [u8], NeighbourError>,
}

#[async_trait]
impl Upward for Elsewhere {
    async fn ask(&self, asker: &Asker, question: HostQuestion) -> Result<QuestionAnswer, NeighbourError> {
        Empty.ask(asker, question).await
    }

    async fn download(&self, server: Uuid, id: Uuid) -> Result<(ImageBytes, ByteStream), NeighbourError> {
        Empty.download(server, id).await
    }

    async fn upload(&self, server: Uuid, id: Uuid, data: ByteStream, keep: Keep) -> Result<String, NeighbourError> {
        Empty.upload(server, id, data, keep).await
    }

    async fn export(&self, source: &str, server: Uuid, part: &DiskPart) -> Result<Option<ByteStream>, NeighbourError> {
        assert_eq!((source, server), (SOURCE, SERVER));
        let (name, bytes) = DISKS.into_iter().find(|(name, _)| *name == part.name).unwrap();
        let bytes = (self.spoil)(name, bytes)?;
        Ok(Some(Box::pin(iter(bytes.chunks(5).map(|piece| Ok(Bytes::from_static(piece)))))))
    }

    fn export_ticket(&self, reader: &Asker, server: Uuid) -> Result<Option<ExportTicket>, NeighbourError> {
        Ok(Some(ExportTicket { url: format!("http://agent/{server}"), secret: Secret::new(reader.host.clone()) }))
    }
}

fn manifest() -> DiskManifest {
    let part =
        |(name, bytes): (&str, &[u8])| DiskPart { name: name.into(), size: bytes.len() as u64, sha256: hex::encode(Sha256::digest(bytes)) };
    DiskManifest { disks: DISKS.map(part).into() }
}

fn prepare() -> HostCommand {
    let spec = GuestSpec {
        server: SERVER,
        instance_name: "instance-00000001".into(),
        flavor: Flavor { ephemeral_gb: 1, swap_mb: 1, ..Flavor::default() },
        disks: DiskSource::Transfer { migration: Uuid::from_u128(2), source: Some(SOURCE.into()), manifest: manifest() },
        volumes: Vec::new(),
        vifs: Vec::new(),
        config_drive: serde_json::Value::Null,
        sealed: None,
    };
    HostCommand::PrepareGuest { spec: Box::new(spec) }
}

fn parts(world: &World, upward: impl Upward + 'static) -> HostParts {
    HostParts { upward: Arc::new(upward), ..world.parts(Vec::new()) }
}

fn guest_dir(parts: &HostParts) -> PathBuf {
    parts.site.place.guests_dir().join(SERVER.to_string())
}

fn has_the_disks(dir: &Path) -> bool {
    DISKS.iter().all(|(name, bytes)| std::fs::read(dir.join(name)).is_ok_and(|read| read == *bytes))
}

#[tokio::test]
async fn disks_come_from_the_agent_that_exported_them() {
    let world = World::new();
    let parts = parts(&world, Elsewhere { spoil: |_, bytes| Ok(bytes) });
    let host = start(&parts).await;
    assert_eq!(obey(&host, world.request(SERVER, prepare())).await, HostReply::Done);
    assert!(has_the_disks(&guest_dir(&parts)));
}

#[tokio::test]
async fn an_export_on_shared_storage_is_read_there() {
    let world = World::new();
    let parts = parts(&world, Empty);
    let area = parts.site.place.transfer_dir(SERVER);
    std::fs::create_dir_all(&area).unwrap();
    for (name, bytes) in DISKS {
        std::fs::write(area.join(name), bytes).unwrap();
    }
    let host = start(&parts).await;
    assert_eq!(obey(&host, world.request(SERVER, prepare())).await, HostReply::Done);
    assert!(has_the_disks(&guest_dir(&parts)));
}

#[tokio::test]
async fn a_disk_that_is_not_the_sources_is_refused() {
    let world = World::new();
    let spoil = |name: &str, bytes| Ok(if name == "disk.swap" { b"another disk!".as_slice() } else { bytes });
    let host = start(&parts(&world, Elsewhere { spoil })).await;
    let refused = obey(&host, world.request(SERVER, prepare())).await;
    assert!(matches!(refused, HostReply::Refused { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_source_that_does_not_answer_is_tried_again() {
    let world = World::new();
    let silent = |_: &str, _| Err(NeighbourError::Unavailable("nobody answers".into()));
    let host = start(&parts(&world, Elsewhere { spoil: silent })).await;
    let failed = obey(&host, world.request(SERVER, prepare())).await;
    assert!(matches!(failed, HostReply::Failed { .. }), "{failed:?}");
}

#[tokio::test]
async fn a_host_gives_tickets_for_what_it_has_exported() {
    let world = World::new();
    let parts = parts(&world, Elsewhere { spoil: |_, bytes| Ok(bytes) });
    let host = start(&parts).await;
    let query = || HostQuery::ExportTicket { server: SERVER, reader: "cell1-host3".into() };
    assert_eq!(host.query(query()).await, Delivered::CannotTell, "there is no export");
    let area = parts.site.place.transfer_dir(SERVER);
    std::fs::create_dir_all(&area).unwrap();
    std::fs::write(area.join("exported-by"), &parts.site.place.host).unwrap();
    let ticket = ExportTicket { url: format!("http://agent/{SERVER}"), secret: Secret::new("cell1-host3".into()) };
    assert_eq!(host.query(query()).await, Delivered::Answered(HostAnswer::ExportTicket(Some(ticket))));
}

#[tokio::test]
async fn a_host_removes_its_own_export_with_the_guest() {
    for (exporter, stays) in [("cell1-host1", false), (SOURCE, true)] {
        let world = World::new();
        let parts = parts(&world, Elsewhere { spoil: |_, bytes| Ok(bytes) });
        let host = start(&parts).await;
        obey(&host, world.request(SERVER, prepare())).await;
        let area = parts.site.place.transfer_dir(SERVER);
        std::fs::create_dir_all(&area).unwrap();
        std::fs::write(area.join("exported-by"), exporter).unwrap();
        assert_eq!(obey(&host, world.request(SERVER, HostCommand::RemoveGuest)).await, HostReply::Done);
        assert_eq!(area.exists(), stays, "exported by {exporter}");
    }
}
