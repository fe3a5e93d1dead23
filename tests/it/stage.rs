//! A running cloud with its users, views of what the API does not show, and the audit that ends each test.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cellshift::actors::root::Parts;
use cellshift::bootstrap;
use cellshift::chaos::borders::FaultyBorders;
use cellshift::chaos::point::{FaultPlan, Moment, Point, StepFault};
use cellshift::chaos::seams::Seams;
use cellshift::config::{Config, Seconds};
use cellshift::db::cell::CellDb;
use cellshift::domain::debt::Debt;
use cellshift::domain::flavor::Flavor;
use cellshift::domain::host_protocol::{GuestReport, HostReport};
use cellshift::domain::host_trial::{HostTrial, TrialOutcome};
use cellshift::domain::instance::Instance;
use cellshift::domain::key_pair::KeyPair;
use cellshift::domain::migration::{Migration, MigrationFilter};
use cellshift::domain::quota_grant::QuotaGrant;
use cellshift::domain::server::PowerState;
use cellshift::env::Env;
use cellshift::launch::{self, Running};
use cellshift::saga::world::World;
use cellshift::services::network::PortBinding;
use cellshift::services::volume::Attachment;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{NewServer, PATIENCE, User, id_of};
use crate::databases;

const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
const CROSS_CELL_FOR_ALL: &str = "\"compute:servers:resize:cross_cell\": \"rule:project_member_or_admin\"\n";

/// A cloud. By default cell1 and cell2 have two hosts each, and cross-cell moves are allowed.
pub struct Stage {
    pub running: Running,
    pub seams: Seams,
    pub admin: User,
    /// A member of project demo.
    pub member: User,
    pub image: Uuid,
    _data: tempfile::TempDir,
}

/// Runs a story on a cloud of its own and audits what is left.
pub fn play<F, S>(configure: impl FnOnce(&mut Config), story: S)
where
    F: Future<Output = ()>,
    S: FnOnce(Arc<Stage>) -> F,
{
    play_placed(configure, databases::place, story);
}

/// As [`play`], with databases that the caller places.
pub fn play_placed<F, S>(configure: impl FnOnce(&mut Config), place: impl FnOnce(&mut Config), story: S)
where
    F: Future<Output = ()>,
    S: FnOnce(Arc<Stage>) -> F,
{
    play_altered(configure, place, |_| {}, story);
}

/// As [`play_placed`], with parts that the caller changes before the actors start.
pub fn play_altered<F, S>(configure: impl FnOnce(&mut Config), place: impl FnOnce(&mut Config), alter: impl FnOnce(&mut Parts), story: S)
where
    F: Future<Output = ()>,
    S: FnOnce(Arc<Stage>) -> F,
{
    let config = actix_rt::System::new().block_on(async {
        let stage = Arc::new(Stage::start(configure, place, alter).await);
        story(stage.clone()).await;
        stage.end().await;
        stage.running.cloud.config.clone()
    });
    databases::remove(&config);
}

/// As [`play_default`], always on SQLite: for what only files can do.
pub fn play_on_sqlite<F, S>(story: S)
where
    F: Future<Output = ()>,
    S: FnOnce(Arc<Stage>) -> F,
{
    play_placed(|_| {}, |_| {}, story);
}

/// As [`play`] on the default cloud.
pub fn play_default<F, S>(story: S)
where
    F: Future<Output = ()>,
    S: FnOnce(Arc<Stage>) -> F,
{
    play(|_| {}, story);
}

/// Waits until `look` returns true. Not everything has a notification, so it looks repeatedly, with pauses that leave the processor to the
/// service.
pub async fn until<F: Future<Output = bool>>(what: &str, look: impl Fn() -> F) {
    let waiting = async {
        let mut next = tokio::time::interval(BETWEEN_LOOKS);
        while !look().await {
            next.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never so: {what}"));
}

/// Returns the configuration of a cloud in this directory that waits for little, and whose stories say which host takes a server. A step
/// that failed is tried again after `back_off_ms`, and at last after ten times that.
pub fn quick_config(dir: &Path, back_off_ms: u64) -> Config {
    let mut config = Config { data_dir: dir.to_owned(), ..Config::default() };
    config.http.workers = 1;
    config.scheduler.shuffle_best_same_weighed_hosts = false;
    config.identity.password_cost = cellshift_embedded::identity::Cost::CHEAP;
    config.compute.live_migration.bandwidth_mib = 0;
    config.migration.back_off_first = Seconds::millis(back_off_ms);
    config.migration.back_off_max = Seconds::millis(10 * back_off_ms);
    config
}

/// Makes a set of host names.
pub fn hosts(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

impl Stage {
    async fn start(configure: impl FnOnce(&mut Config), place: impl FnOnce(&mut Config), alter: impl FnOnce(&mut Parts)) -> Stage {
        let data = tempfile::tempdir().expect("a directory");
        let mut config = quick_config(data.path(), 5);
        std::fs::write(config.policy_file(), CROSS_CELL_FOR_ALL).expect("a policy");
        configure(&mut config);
        place(&mut config);
        databases::copy_files(&config);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let cloud = bootstrap::open_with(config, FaultyBorders::of(Env::system()), databases::TWO_PIECES).await.expect("a cloud");
        let mut parts = launch::parts(&cloud);
        // Tests pay debts themselves, as often as they like.
        parts.settings.debt_rest = Duration::ZERO;
        alter(&mut parts);
        let seams = launch::seams();
        let running = launch::launch_with(cloud, parts, Some(seams.clone()), listener).await.expect("a running cloud");
        let passwords = passwords(data.path());
        let admin = User::sign_in(&running, "admin", &passwords["cellshift-admin"], "admin").await;
        let member = User::sign_in(&running, "demo", &passwords["cellshift"], "demo").await;
        let image = running.cloud.services.images.list(&Default::default(), Default::default()).await;
        let image = image.expect("images").into_iter().find(|image| image.name.as_deref() == Some("tiny")).expect("the image").id;
        Stage { running, seams, admin, member, image, _data: data }
    }

    /// Makes a new account, and returns its user.
    pub async fn user(&self, name: &str, project: &str, role: &str) -> User {
        use cellshift_embedded::identity::Target;
        let identity = &self.running.cloud.services.identity;
        let project_id = identity.ensure_project(project).await.expect("a project").id;
        let user = identity.ensure_user(name, "a password", Some(&project_id)).await.expect("a user");
        identity.ensure_assignment(&user, Target::Project(project_id), role).await.expect("a role");
        User::sign_in(&self.running, name, "a password", project).await
    }

    pub fn world(&self) -> &World {
        &self.running.tree.world
    }

    pub fn cell(&self, name: &str) -> &CellDb {
        &self.world().cells[name].db
    }

    /// Returns the request for a server of image `tiny` with flavor `gen1.small`, which belongs in cell1.
    pub fn server(&self) -> NewServer {
        NewServer::of_image(self.image)
    }

    /// As [`Stage::server`], booted from a volume.
    pub fn volume_server(&self) -> NewServer {
        NewServer::of_volume(self.image)
    }

    /// Creates the server and waits until it is ACTIVE.
    pub async fn create(&self, new: NewServer) -> Uuid {
        self.create_by(&self.member, new).await
    }

    pub async fn create_by(&self, user: &User, new: NewServer) -> Uuid {
        let id = id_of(&new.ask(user).await.expect(202).body["server"]);
        self.at_rest(id, "ACTIVE").await;
        id
    }

    /// As [`Stage::create`], and returns the server's host, too.
    pub async fn create_on_a_host(&self, new: NewServer) -> (Uuid, String) {
        let server = self.create(new).await;
        (server, self.host_of(server).await)
    }

    /// Creates a server on cell1-host1, with a flavor for any host.
    pub async fn at_home(&self) -> Uuid {
        self.create_by(&self.admin, self.server().flavor("m1.tiny").on_host("cell1-host1")).await
    }

    /// Attaches a new volume to the server.
    pub async fn attach_a_volume(&self, server: Uuid) -> Uuid {
        let volume = self.member.make_volume().await;
        self.member.attach(server, volume).await.expect(200);
        self.ended(server).await;
        volume
    }

    /// Has the user stop the server.
    pub async fn stop(&self, user: &User, server: Uuid) {
        user.act(server, json!({"os-stop": null})).await.expect(202);
        self.at_rest(server, "SHUTOFF").await;
    }

    /// Waits until no operation holds the server.
    pub async fn ended(&self, server: Uuid) {
        let waiting = self.running.tree.conductor.until_at_rest(server);
        tokio::time::timeout(PATIENCE, waiting).await.expect("the operation ends").expect("the journal answers");
    }

    /// Returns the server's debts.
    pub async fn debts(&self, server: Uuid) -> Vec<Debt> {
        self.world().operations.debts(Some(server)).await.expect("debts")
    }

    /// Waits until the server owes nothing.
    pub async fn paid(&self, server: Uuid) {
        self.until("the debts are paid", || async { self.debts(server).await.is_empty() }).await;
    }

    /// Waits until no operation holds the server, which must then have this status.
    pub async fn at_rest(&self, server: Uuid, status: &str) -> Value {
        self.ended(server).await;
        let shown = self.admin.show(server).await;
        assert_eq!(shown["status"], status, "{shown:#}");
        assert_eq!(shown["OS-EXT-STS:task_state"], Value::Null, "{shown:#}");
        shown
    }

    /// Waits until users see no server.
    pub async fn gone(&self, server: Uuid) {
        self.ended(server).await;
        self.admin.get(&format!("/servers/{server}")).await.expect(404);
    }

    /// Resizes to `gen2.small`, which belongs in cell2, and waits for VERIFY_RESIZE.
    pub async fn cross(&self, server: Uuid) -> Value {
        self.member.resize(server, "gen2.small").await.expect(202);
        self.at_rest(server, "VERIFY_RESIZE").await
    }

    /// Has the member confirm the server's move.
    pub async fn confirm(&self, server: Uuid) {
        self.member.confirm(server).await.expect(204);
        self.at_rest(server, "ACTIVE").await;
    }

    /// Has the member revert the server's move.
    pub async fn revert(&self, server: Uuid) {
        self.member.revert(server).await.expect(202);
        self.at_rest(server, "ACTIVE").await;
    }

    /// See [`until`].
    pub async fn until<F: Future<Output = bool>>(&self, what: &str, look: impl Fn() -> F) {
        until(what, look).await;
    }

    /// Returns a cell's record if it is not deleted.
    pub async fn record(&self, cell: &str, server: Uuid) -> Option<Instance> {
        self.cell(cell).instance(server).await.ok().filter(|record| !record.deleted)
    }

    /// Returns the migration records of a server in a cell, oldest first.
    pub async fn migrations(&self, cell: &str, server: Uuid) -> Vec<Migration> {
        let filter = MigrationFilter { instance_uuid: Some(server), ..MigrationFilter::default() };
        let mut migrations = self.cell(cell).migrations(filter).await.expect("migrations");
        migrations.sort_by_key(|migration| migration.created_at);
        migrations
    }

    /// Returns the status of the newest migration in a cell.
    pub async fn migration_status(&self, cell: &str, server: Uuid) -> String {
        self.migrations(cell, server).await.last().map(|migration| migration.status.to_string()).unwrap_or_default()
    }

    /// Returns placement's records of a consumer: classes and amounts by host.
    pub async fn allocations(&self, consumer: Uuid) -> BTreeMap<String, BTreeMap<String, i64>> {
        let placement = &self.world().placement;
        let names: BTreeMap<Uuid, String> =
            placement.providers().await.expect("providers").into_iter().map(|provider| (provider.uuid, provider.name)).collect();
        let held = placement.allocations_of(consumer).await.expect("allocations");
        held.map(|held| held.allocations).unwrap_or_default().into_iter().map(|(id, amounts)| (names[&id].clone(), amounts)).collect()
    }

    /// Returns the hosts on which a consumer holds an allocation.
    pub async fn holds(&self, consumer: Uuid) -> BTreeSet<String> {
        self.allocations(consumer).await.into_keys().collect()
    }

    /// Returns the bindings of the server's ports by host: `ACTIVE` or `INACTIVE`.
    pub async fn bindings(&self, server: Uuid) -> Vec<BTreeMap<String, String>> {
        let ports = self.world().network.ports_of(server).await.expect("ports");
        let state = |binding: PortBinding| (binding.host, binding.status);
        ports.into_iter().map(|port| port.bindings.into_iter().map(state).collect()).collect()
    }

    /// Returns the server's attachments by volume: the host of each, none for a placeholder.
    pub async fn attachments(&self, server: Uuid) -> BTreeMap<Uuid, BTreeSet<Option<String>>> {
        let mut attachments: BTreeMap<Uuid, BTreeSet<Option<String>>> = BTreeMap::new();
        for Attachment { volume_id, host, .. } in self.world().volumes.attachments_of(server).await.expect("attachments") {
            assert!(attachments.entry(volume_id).or_default().insert(host), "two attachments of one kind");
        }
        attachments
    }

    /// Returns a host's report.
    pub async fn report(&self, cell: &str, host: &str) -> HostReport {
        self.world().hosts.report(cell, host, PATIENCE).await.expect("the host answers")
    }

    /// Returns what a host has of the server.
    pub async fn guest(&self, host: &str, server: Uuid) -> Option<GuestReport> {
        let cell = host.split('-').next().expect("a cell");
        self.report(cell, host).await.guests.into_iter().find(|guest| guest.server == server)
    }

    /// Returns the hosts on which the server's guest runs.
    pub async fn runs_on(&self, server: Uuid) -> BTreeSet<String> {
        let mut hosts = BTreeSet::new();
        for cell in &self.running.tree.cells {
            for (host, alive) in cell.hosts.hosts() {
                if alive && self.guest(&host, server).await.is_some_and(|guest| guest.power_state == PowerState::Running) {
                    hosts.insert(host);
                }
            }
        }
        hosts
    }

    /// Returns the host on which the server's guest runs.
    pub async fn host_of(&self, server: Uuid) -> String {
        self.runs_on(server).await.pop_first().expect("a host")
    }

    /// Makes a trial with a host or its guest.
    pub async fn trial(&self, host: &str, trial: HostTrial) -> TrialOutcome {
        let cell = self.running.tree.cell(host.split('-').next().expect("a cell")).expect("a cell");
        cell.hosts.trial(host, trial, PATIENCE).await.expect("the host answers").expect("the trial is made")
    }

    /// Makes the guest write to its disks and volumes.
    pub async fn guest_writes(&self, host: &str, server: Uuid, bytes: &[u8]) {
        self.trial(host, HostTrial::GuestWrite { server, bytes: bytes.to_vec() }).await;
    }

    /// Returns the bytes of the guest's memory.
    pub async fn memory(&self, host: &str, server: Uuid) -> Vec<u8> {
        match self.trial(host, HostTrial::Memory { server }).await {
            TrialOutcome::Memory(memory) => memory,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the local disks' bytes.
    pub async fn disks(&self, host: &str, server: Uuid) -> BTreeMap<String, Vec<u8>> {
        match self.trial(host, HostTrial::Disks { server }).await {
            TrialOutcome::Disks(disks) => disks.into_iter().map(|disk| (disk.name, std::fs::read(disk.path).expect("a disk"))).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// Switches the power of a host off or on.
    pub async fn power(&self, host: &str, on: bool) {
        let cell = self.running.tree.cell(host.split('-').next().expect("a cell")).expect("a cell");
        if on {
            cell.hosts_here.power_on(host).await.expect("power on");
            self.until("the host is back", || async { cell.hosts.standing(host).is_up() }).await;
        } else {
            cell.hosts_here.power_off(host, true).await.expect("power off");
        }
    }

    /// Switches the power of a host off; its guests do not come back with it.
    pub async fn lose_guests(&self, host: &str) {
        let cell = self.running.tree.cell(host.split('-').next().expect("a cell")).expect("a cell");
        cell.hosts_here.power_off(host, false).await.expect("power off");
    }

    /// Forces a host's service down or up, as an operator does.
    pub async fn force_down(&self, host: &str, down: bool) {
        let body = serde_json::json!({"host": host, "binary": "nova-compute", "forced_down": down});
        self.admin.speaking("2.11").put("/os-services/force-down", body).await.expect(200);
    }

    pub async fn make_flavor(&self, name: &str, vcpus: i32, memory_mb: i32, root_gb: i32) {
        let flavor = Flavor { id: name.to_owned(), name: name.to_owned(), vcpus, memory_mb, root_gb, is_public: true, ..Flavor::default() };
        self.world().api.create_flavor(flavor).await.expect("a flavor");
    }

    /// Makes a key pair of the member.
    pub async fn make_key_pair(&self, name: &str) {
        let key = KeyPair {
            id: 0,
            created_at: self.world().env.now(),
            user_id: self.member.user_id.clone(),
            name: name.to_owned(),
            fingerprint: "SHA256:x".to_owned(),
            public_key: "ssh-ed25519 AAAA me".to_owned(),
            key_type: "ssh".to_owned(),
        };
        self.world().api.create_key_pair(key, QuotaGrant::without_check("a test")).await.expect("a key pair");
    }

    /// Returns the types of the notifications about the server, in order.
    pub async fn notified(&self, server: Uuid) -> Vec<String> {
        let file = self.running.cloud.config.data_dir.join("notifications.jsonl");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a notification"));
        let about = |line: &Value| line.to_string().contains(&server.to_string());
        lines.filter(about).map(|line| line["event_type"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Arms faults for the lifetime of the guard.
    pub fn arm(&self, plan: impl Fn(&Point<'_>) -> StepFault + Send + Sync + 'static) {
        self.seams.steps.arm(Some(Arc::new(Plan(plan))));
    }

    pub fn disarm(&self) {
        self.seams.steps.arm(None);
    }

    /// Refuses each act of this step.
    pub fn refuse(&self, step: &'static str) {
        self.arm(move |point| match point.moment {
            Moment::BeforeEffect if point.step == step && point.side == "act" => StepFault::Refuse,
            _ => StepFault::None,
        });
    }

    /// Checks that no operation has left anything, and that each invariant holds.
    async fn end(&self) {
        let held = || async { self.world().operations.held_servers().await.expect("the journal").is_empty() };
        self.until("all operations end", held).await;
        self.until("no delete waits", || async { self.world().api.count_queued_deletes().await.expect("mappings") == 0 }).await;
        let debts = self.world().operations.debts(None).await.expect("debts");
        assert!(debts.is_empty(), "{debts:#?}");
        let temporary = self.world().images.images_with_property("image_type", "snapshot").await.expect("images");
        let temporary: Vec<_> = temporary.into_iter().filter(|image| image.properties.contains_key("cellshift_migration")).collect();
        assert!(temporary.is_empty(), "{temporary:#?}");
        let report = cellshift::chaos::audit::thorough_audit(self.world()).await.expect("an audit");
        assert!(report.clean && report.checked.unreachable.is_empty(), "{report:#?}");
        self.running.tree.stop();
        self.running.server.stop(false).await;
    }
}

struct Plan<P>(P);

impl<P: Fn(&Point<'_>) -> StepFault + Send + Sync> FaultPlan for Plan<P> {
    fn at(&self, point: &Point<'_>) -> StepFault {
        (self.0)(point)
    }
}

fn passwords(data: &std::path::Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(data.join("clouds.yaml")).expect("clouds.yaml");
    let clouds: Value = serde_yaml_ng::from_str(&text).expect("YAML");
    let clouds = clouds["clouds"].as_object().expect("clouds");
    clouds.iter().map(|(name, cloud)| (name.clone(), cloud["auth"]["password"].as_str().unwrap_or_default().to_owned())).collect()
}
