//! Tests of a host that has no cloud around it: what it keeps, and what its incarnations leave to each other. The program's own tests have
//! the services around a host.

mod exports;
mod functions;
mod images;
mod pages;
mod places;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use cellshift_domain::fence::Fence;
use cellshift_domain::flavor::Resources;
use cellshift_domain::host_network::VirtualFunction;
use cellshift_domain::host_protocol::{
    Asker, HostCommand, HostQuestion, HostReply, HostRequest, ImageBytes, NeighbourError, QuestionAnswer,
};
use cellshift_domain::reason;
use cellshift_domain::secret::{SealKey, Sealed};
use cellshift_env::streams::{ByteStream, Keep};
use cellshift_env::{Blocking, Env, RandomIds, SystemClock};
use serde_json::json;
use uuid::Uuid;

use crate::lanes::digest;
use crate::link::{Delivered, HostEnd};
use crate::virt::files::Durability;
use crate::virt::simulated::Simulated;
use crate::{Host, HostOptions, HostParts, HostPlace, HostSite, Upward};

/// A cloud without images and ports. Each start is the latest attempt, and no guest may return by itself.
struct Empty;

#[async_trait]
impl Upward for Empty {
    async fn ask(&self, _: &Asker, question: HostQuestion) -> Result<QuestionAnswer, NeighbourError> {
        match question {
            HostQuestion::Image { image_id: id }
            | HostQuestion::Plugging { port_id: id }
            | HostQuestion::SetPlugged { port_id: id, .. }
            | HostQuestion::ImageTicket { image_id: id, .. }
            | HostQuestion::ExportTicket { server: id, .. } => missing(id),
            HostQuestion::MayRun { .. } => Ok(QuestionAnswer::MayRun(None)),
            HostQuestion::IsLatest { .. } => Ok(QuestionAnswer::IsLatest(Some(true))),
            HostQuestion::Forgotten { .. } => Ok(QuestionAnswer::Forgotten(Vec::new())),
        }
    }

    async fn download(&self, _: Uuid, id: Uuid) -> Result<(ImageBytes, ByteStream), NeighbourError> {
        missing(id)
    }

    async fn upload(&self, _: Uuid, id: Uuid, _: ByteStream, _: Keep) -> Result<String, NeighbourError> {
        missing(id)
    }
}

fn missing<T>(id: Uuid) -> Result<T, NeighbourError> {
    Err(NeighbourError::Missing(reason!("there is no {id}")))
}

/// A host's directory, and requests whose fence rises by itself.
struct World {
    dir: tempfile::TempDir,
    attempt: AtomicI64,
}

impl World {
    fn new() -> World {
        World { dir: tempfile::tempdir().unwrap(), attempt: AtomicI64::new(0) }
    }

    fn parts(&self, functions: Vec<VirtualFunction>) -> HostParts {
        let env = Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline);
        let place = HostPlace { cell: "cell1".into(), host: "cell1-host1".into(), cell_dir: self.dir.path().to_owned() };
        let hypervisor = Arc::new(Simulated::open(&place.guests_dir(), Durability::of(&env)).unwrap());
        HostParts {
            env,
            site: HostSite::new(place, hypervisor),
            capacity: Resources { vcpu: 16, memory_mb: 8192, disk_gb: 100 },
            functions,
            options: HostOptions::default(),
            upward: Arc::new(Empty),
        }
    }

    fn request(&self, server: Uuid, command: HostCommand) -> HostRequest {
        let fence = Fence { server, epoch: 1, attempt: self.attempt.fetch_add(1, Ordering::SeqCst) + 1 };
        HostRequest::new(fence, server, command)
    }
}

/// Delivers a request for which the host has a place.
async fn obey(host: &Host, request: HostRequest) -> HostReply {
    match host.request(request).await {
        Delivered::Answered(reply) => reply,
        other => panic!("{other:?}"),
    }
}

async fn start(parts: &HostParts) -> Host {
    Host::start(parts.clone()).await.unwrap_or_else(|why| panic!("{why}"))
}

#[tokio::test]
async fn an_earlier_life_of_a_host_begins_nothing_more() {
    let (world, server) = (World::new(), Uuid::from_u128(1));
    let parts = world.parts(Vec::new());
    let earlier = start(&parts).await;
    let claim = HostCommand::Claim { holder: server, resources: Resources { vcpu: 1, memory_mb: 1, disk_gb: 1 }, functions: Vec::new() };
    assert_eq!(obey(&earlier, world.request(server, claim.clone())).await, HostReply::Done);
    let later = start(&parts).await;
    let refused = obey(&earlier, world.request(server, HostCommand::DropClaim { holder: server })).await;
    assert_eq!(refused, HostReply::Failed { reason: "the host was restarted meanwhile".into() });
    assert_eq!(obey(&later, world.request(server, claim)).await, HostReply::Done);
}

#[tokio::test]
async fn a_host_needs_nothing_but_tasks() {
    let (world, server) = (World::new(), Uuid::from_u128(1));
    let host = Arc::new(start(&world.parts(Vec::new())).await);
    let upkeep = tokio::spawn(host.clone().keep_up());
    let obeying = |command| {
        let (host, request) = (host.clone(), world.request(server, command));
        tokio::spawn(async move { obey(&host, request).await })
    };
    let refused = obeying(HostCommand::StartGuest).await.unwrap();
    assert_eq!(refused, HostReply::Refused { reason: reason!("server {server} has no guest on host cell1-host1") });
    assert_eq!(obeying(HostCommand::Fence).await.unwrap(), HostReply::Stopped { was_running: false });
    upkeep.abort();
    assert!(upkeep.await.unwrap_err().is_cancelled());
}

#[test]
fn a_command_that_is_sealed_anew_is_the_same_command() {
    let sealed = |text: &str| Sealed::for_host(SealKey::new("0a".into()), text.into());
    let image_id = Uuid::from_u128(1);
    let rescue = |text| HostCommand::RescueGuest { image_id, config_drive: json!({"name": "web"}), sealed: Some(sealed(text)) };
    let password = |text| HostCommand::SetPassword { sealed: sealed(text) };
    assert_eq!(digest(&rescue("one")), digest(&rescue("another")));
    assert_eq!(digest(&password("one")), digest(&password("another")));
    assert_ne!(digest(&rescue("one")), digest(&password("one")));
}
