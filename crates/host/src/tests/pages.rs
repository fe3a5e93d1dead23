//! The report of a full host comes in pages, and no page is larger than a message may be.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cellshift_domain::flavor::{Flavor, Resources};
use cellshift_domain::guest::{DiskSource, GuestSpec};
use cellshift_domain::host_protocol::{HostAnswer, HostCommand, HostQuery, HostReply, HostReport, HostRequest, MESSAGE_MAX};
use parking_lot::Mutex;
use uuid::Uuid;

use super::{World, obey, start};
use crate::Host;
use crate::link::HostEnd;
use crate::virt::{HostUnreachable, Hosts};
use cellshift_domain::standing::Standing;

const GUESTS: u128 = 2000;

/// A host that is asked without a mailbox, and the sizes of its answers.
struct Asked {
    host: Host,
    sizes: Mutex<Vec<usize>>,
}

#[async_trait]
impl Hosts for Asked {
    async fn request(&self, _: &str, _: &str, request: HostRequest) -> Result<HostReply, HostUnreachable> {
        self.host.request(request).await.received()
    }

    async fn query(&self, _: &str, _: &str, query: HostQuery, _: Duration) -> Result<HostAnswer, HostUnreachable> {
        let answer = self.host.answer(query).await.received()?;
        self.sizes.lock().push(serde_json::to_vec(&answer).unwrap().len());
        Ok(answer)
    }

    async fn standing(&self, _: &str, _: &str) -> Standing {
        Standing::Up
    }
}

async fn full_host(world: &World) -> Arc<Asked> {
    let host = start(&world.parts(Vec::new())).await;
    for number in 1..=GUESTS {
        let server = Uuid::from_u128(number);
        let spec = GuestSpec {
            server,
            instance_name: format!("instance-{number:08x}"),
            flavor: Flavor { ephemeral_gb: 1, swap_mb: 1, ..Flavor::default() },
            disks: DiskSource::Arriving,
            volumes: Vec::new(),
            vifs: Vec::new(),
            config_drive: serde_json::Value::Null,
            sealed: None,
        };
        let prepare = HostCommand::PrepareGuest { spec: Box::new(spec) };
        assert_eq!(obey(&host, world.request(server, prepare)).await, HostReply::Done);
        let claim = HostCommand::Claim { holder: server, resources: Resources::default(), functions: Vec::new() };
        assert_eq!(obey(&host, world.request(server, claim)).await, HostReply::Done);
    }
    Arc::new(Asked { host, sizes: Mutex::default() })
}

async fn page(hosts: &Asked, query: HostQuery) -> HostReport {
    match hosts.query("cell1", "cell1-host1", query, Duration::ZERO).await.unwrap() {
        HostAnswer::Report(report) => report,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_report_of_two_thousand_guests_comes_in_pages() {
    let world = World::new();
    let hosts = full_host(&world).await;
    let whole = hosts.report("cell1", "cell1-host1", Duration::from_secs(60)).await.unwrap();
    let servers: Vec<u128> = whole.guests.iter().map(|guest| guest.server.as_u128()).collect();
    assert_eq!(servers, (1..=GUESTS).collect::<Vec<_>>(), "each guest once, in order");
    assert_eq!((whole.claims.len(), whole.next), (GUESTS as usize, None));
    assert!(whole.guests.iter().all(|guest| guest.disks.len() == 4), "three disks and a definition");
    let sizes = std::mem::take(&mut *hosts.sizes.lock());
    assert!(sizes.len() > 2 && sizes.iter().all(|size| *size < MESSAGE_MAX), "{sizes:?}");

    let first = page(&hosts, HostQuery::ReportPage { after: None, limit: Some(3) }).await;
    assert_eq!((first.guests.len(), first.claims.len(), first.next), (3, 3, Some(Uuid::from_u128(3))));
    let last = page(&hosts, HostQuery::ReportPage { after: Some(Uuid::from_u128(GUESTS - 1)), limit: Some(3) }).await;
    assert_eq!((last.guests.len(), last.next), (1, None));

    let one = hosts.guest("cell1", "cell1-host1", Uuid::from_u128(7), Duration::ZERO).await.unwrap();
    assert_eq!(one.as_ref(), whole.guests.iter().find(|guest| guest.server.as_u128() == 7));
    assert_eq!(hosts.guest("cell1", "cell1-host1", Uuid::nil(), Duration::ZERO).await, Ok(None));
}

#[test]
fn questions_of_earlier_releases_are_understood() {
    assert_eq!(serde_json::from_str::<HostQuery>(r#""Report""#).unwrap(), HostQuery::Report);
    let bare: HostQuery = serde_json::from_str(r#"{"ReportPage":{}}"#).unwrap();
    assert_eq!(bare, HostQuery::ReportPage { after: None, limit: None });
    let report = r#"{"host":"h","capacity":{"vcpu":1,"memory_mb":2,"disk_gb":3},"claims":[],"guests":[]}"#;
    let read: HostReport = serde_json::from_str(report).unwrap();
    assert_eq!((serde_json::to_string(&read).unwrap().as_str(), read.next), (report, None));
}
