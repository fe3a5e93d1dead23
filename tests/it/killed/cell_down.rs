//! `kill -9` in the middle of a move, and a start without one of its two cells: the other cell is served, and the move ends well when the
//! cell returns.

use std::path::Path;

use cellshift::config::{Config, Seconds};
use cellshift::virt::hypervisor::Operation;
use serde_json::json;
use uuid::Uuid;

use super::batch::{self, config_file};
use crate::client::{NewServer, User, id_of};
use crate::database_trouble::Trouble;
use crate::databases;
use crate::service::{self, Service};

/// The duration of a copy of disks; the kill comes within it.
const COPY_MS: u64 = 1500;

struct RunningService {
    service: Service,
    member: User,
    admin: User,
}

async fn start(data: &Path) -> RunningService {
    let service = Service::start(data, &["--config", &config_file(data)]);
    let (member, admin) = (service.user(data, "cellshift").await, service.user(data, "cellshift-admin").await);
    RunningService { service, member, admin }
}

/// The configuration of a service, one of whose cells may be in trouble.
fn configure(data: &Path, trouble: &Trouble) -> Config {
    batch::configure(data, |config| {
        (config.cells.probe_interval, config.cells.timeout) = (Seconds::millis(50), Seconds::whole(2));
        config.compute.latency_ms.insert(Operation::CopyDisks, COPY_MS);
        databases::place(config);
        trouble.place(config);
    })
}

async fn create(life: &RunningService, flavor: &str) -> Uuid {
    let image = id_of(&life.member.get("/image/v2/images?name=tiny").await.expect(200).body["images"][0]);
    let server = id_of(&NewServer::of_image(image).flavor(flavor).ask(&life.member).await.expect(202).body["server"]);
    life.admin.notification("instance.create.end", Some(server)).await;
    life.admin.settled(server).await;
    server
}

#[test]
fn a_killed_move_survives_a_start_without_its_cells() {
    for (cell, other_flavor) in [("cell1", "gen2.small"), ("cell2", "gen1.small")] {
        let trouble = Trouble::first_of(cell);
        let dir = tempfile::tempdir().expect("a directory");
        let config = configure(dir.path(), &trouble);
        actix_rt::System::new().block_on(async {
            let life = start(dir.path()).await;
            let (server, other) = (create(&life, "gen1.small").await, create(&life, other_flavor).await);
            life.member.resize(server, "gen2.small").await.expect(202);
            life.admin.notification("instance.resize.start", Some(server)).await;
            drop(life.service);
            trouble.begin(&config);

            let life = start(dir.path()).await;
            life.admin.notification("cell.down", None).await;
            assert_eq!(life.member.status(other).await, "ACTIVE", "{cell}");
            life.member.act(other, json!({"reboot": {"type": "HARD"}})).await.expect(202);
            life.admin.settled(other).await;
            assert_eq!(life.member.status(other).await, "ACTIVE", "{cell}");

            trouble.end(&config);
            life.admin.notification("cell.up", None).await;
            life.admin.settled(server).await;
            let status = life.member.status(server).await;
            assert!(["ACTIVE", "VERIFY_RESIZE"].contains(&status.as_str()), "{cell}: {status}");
            life.service.stop();
        });
        let audit = service::run(&["audit", "--config", &config_file(dir.path())]);
        assert_eq!(audit.code, Some(0), "{cell}: {}{}", audit.stdout, audit.stderr);
    }
}
