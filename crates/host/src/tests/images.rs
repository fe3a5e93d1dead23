//! Tests of the images that a host reads and stores for the operations of servers.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use cellshift_domain::flavor::Flavor;
use cellshift_domain::guest::{DiskSource, GuestSpec};
use cellshift_domain::host_protocol::{Asker, HostCommand, HostQuestion, HostReply, ImageBytes, NeighbourError, QuestionAnswer};
use cellshift_env::streams::{ByteStream, Keep};
use futures::TryStreamExt;
use futures::stream::iter;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{Empty, World, obey, start};
use crate::{HostParts, Upward};

const SERVER: Uuid = Uuid::from_u128(1);
const OTHER_SERVER: Uuid = Uuid::from_u128(2);
const IMAGE: Uuid = Uuid::from_u128(3);
const RESCUE: Uuid = Uuid::from_u128(4);
const SNAPSHOT: Uuid = Uuid::from_u128(5);

/// A way upwards on which each image has bytes, and none is stored twice. It notes the server and the image of each transfer.
#[derive(Default)]
struct Images {
    transfers: Mutex<Vec<(&'static str, Uuid, Uuid)>>,
}

#[async_trait]
impl Upward for Images {
    async fn ask(&self, asker: &Asker, question: HostQuestion) -> Result<QuestionAnswer, NeighbourError> {
        Empty.ask(asker, question).await
    }

    async fn download(&self, server: Uuid, image: Uuid) -> Result<(ImageBytes, ByteStream), NeighbourError> {
        self.transfers.lock().push(("read", server, image));
        Ok((ImageBytes::default(), Box::pin(iter([Ok(Bytes::from_static(b"a system"))]))))
    }

    async fn upload(&self, server: Uuid, image: Uuid, data: ByteStream, _: Keep) -> Result<String, NeighbourError> {
        self.transfers.lock().push(("store", server, image));
        let pieces: Vec<Bytes> = data.try_collect().await.unwrap();
        Ok(hex::encode(Sha256::digest(pieces.concat())))
    }
}

fn prepare(server: Uuid) -> HostCommand {
    let spec = GuestSpec {
        server,
        instance_name: "instance-00000001".into(),
        flavor: Flavor::default(),
        disks: DiskSource::Image { image_id: IMAGE },
        volumes: Vec::new(),
        vifs: Vec::new(),
        config_drive: Value::Null,
        sealed: None,
    };
    HostCommand::PrepareGuest { spec: Box::new(spec) }
}

#[tokio::test]
async fn a_host_names_the_server_for_which_it_moves_an_image() {
    let (world, images) = (World::new(), Arc::new(Images::default()));
    let host = start(&HostParts { upward: images.clone(), ..world.parts(Vec::new()) }).await;
    for server in [SERVER, OTHER_SERVER] {
        assert_eq!(obey(&host, world.request(server, prepare(server))).await, HostReply::Done);
    }
    let rescue = HostCommand::RescueGuest { image_id: RESCUE, config_drive: Value::Null, sealed: None };
    assert_eq!(obey(&host, world.request(SERVER, rescue)).await, HostReply::Done);
    for command in [
        HostCommand::UploadSnapshot { image_id: SNAPSHOT },
        HostCommand::UploadRootDisk { image_id: SNAPSHOT },
        HostCommand::SnapshotGuest { image_id: SNAPSHOT },
    ] {
        let reply = obey(&host, world.request(OTHER_SERVER, command)).await;
        assert!(matches!(reply, HostReply::Exported { .. }), "{reply}");
    }
    let stored = ("store", OTHER_SERVER, SNAPSHOT);
    let read = [("read", SERVER, IMAGE), ("read", OTHER_SERVER, IMAGE), ("read", SERVER, RESCUE)];
    assert_eq!(*images.transfers.lock(), [read, [stored; 3]].concat());
}
