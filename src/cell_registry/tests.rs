//! Compares the merge of all cells' servers with a simple oracle, over random servers, orders, pages, moves and silent cells.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tokio::sync::oneshot;

use super::*;
use crate::chaos::borders::{FaultyBorders, Outage, Outages};
use crate::db::api::publications::NewServer;
use crate::db::cell::CellTxn;
use crate::db::fixture::fresh_postgres;
use crate::db::{Db, POOL_SIZE, Schema};
use crate::domain::cell_mapping::CellMapping;
use crate::domain::fence::Fence;
use crate::domain::flavor::Flavor;
use crate::domain::instance_change::InstanceChange;
use crate::domain::instance_sort::{Direction, SortKey, SortSpec};
use crate::domain::quota_grant::QuotaGrant;
use crate::domain::request_spec::RequestSpec;
use crate::domain::server::VmState;
use crate::env::{Blocking, Clock, Env, IdSource, RandomIds};

const CELLS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(20);

/// A generated server. Its fields take few values, so that many servers are equal under most keys.
#[derive(Clone, Debug)]
struct Made {
    cell: usize,
    /// Another cell with a copy of the record, as in a move.
    copy: Option<usize>,
    created: i64,
    name: u8,
    host: Option<u8>,
    progress: i32,
}

#[derive(Clone, Debug)]
struct Case {
    servers: Vec<Made>,
    order: Vec<(SortKey, Direction)>,
    limit: usize,
    silent: Option<usize>,
    /// Listed as soon as they are made: each may be on its way.
    at_once: bool,
}

/// Goes on when the test says so.
#[derive(Default)]
struct Hours(AtomicI64);

impl Clock for Hours {
    fn now(&self) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::hours(self.0.load(Ordering::Relaxed))
    }
}

fn made() -> impl Strategy<Value = Made> {
    let copy = prop_oneof![3 => Just(None), 1 => (0..CELLS).prop_map(Some)];
    let fields = (0..CELLS, copy, 0..5i64, 0..4u8, proptest::option::of(0..3u8), 0..3i32);
    fields.prop_map(|(cell, copy, created, name, host, progress)| Made {
        cell,
        copy: copy.filter(|copy| *copy != cell),
        created,
        name,
        host,
        progress,
    })
}

fn case() -> impl Strategy<Value = Case> {
    let key = prop_oneof![
        Just(SortKey::CreatedAt),
        Just(SortKey::DisplayName),
        Just(SortKey::Host),
        Just(SortKey::Progress),
        Just(SortKey::LaunchedAt),
        Just(SortKey::Uuid),
    ];
    let direction = prop_oneof![Just(Direction::Asc), Just(Direction::Desc)];
    let order = proptest::collection::vec((key, direction), 0..3);
    let silent = prop_oneof![2 => Just(None), 1 => (0..CELLS).prop_map(Some)];
    let fields = (proptest::collection::vec(made(), 0..40), order, 1..12usize, silent, any::<bool>());
    fields.prop_map(|(servers, order, limit, silent, at_once)| Case { servers, order, limit, silent, at_once })
}

fn spec_of(record: &Instance) -> RequestSpec {
    RequestSpec::new(record.uuid, &record.project_id, &record.user_id, record.flavor.clone())
}

struct RegistryFixture {
    clock: Arc<Hours>,
    env: Env,
    registry: CellRegistry,
    cells: Vec<CellHandle>,
}

impl RegistryFixture {
    async fn on(blocking: Blocking, url: impl Fn() -> String) -> RegistryFixture {
        let clock = Arc::<Hours>::default();
        let env = FaultyBorders::of(Env::new(clock.clone(), Arc::new(RandomIds), blocking));
        let open = |name: &str, schema| Db::open(name, &url(), schema, &env).unwrap();
        let api = ApiDb::new(open("api", Schema::Api));
        let handle = |number| {
            let name = format!("cell{number}");
            CellHandle::new(env.uuid(), &name, CellDb::new(open(&name, Schema::Cell)), &env)
        };
        let cells: Vec<CellHandle> = (1..=CELLS).map(handle).collect();
        for cell in &cells {
            let (uuid, name, database_url) = (cell.uuid, cell.name.clone(), String::new());
            let mapping = CellMapping { uuid, created_at: env.now(), updated_at: None, name, database_url, disabled: false };
            api.create_cell_mapping(mapping).await.unwrap();
        }
        let registry = CellRegistry::new(api, cells.iter().cloned(), Patience { cell: PATIENCE, service: PATIENCE });
        RegistryFixture { clock, env, registry, cells }
    }

    /// Stores the servers under a project of their own. Returns their records, each with the number of its cell.
    async fn store(&self, project: &str, servers: &[Made]) -> Vec<(usize, Instance)> {
        let mut stored = Vec::new();
        for made in servers {
            let uuid = self.env.uuid();
            let created = DateTime::UNIX_EPOCH + TimeDelta::days(20_000) + TimeDelta::seconds(made.created);
            let mut record = Instance::new(uuid, project, "me", &format!("name{}", made.name), Flavor::default(), created);
            record.host = made.host.map(|host| format!("host{host}"));
            record.progress = made.progress;
            let request_spec = spec_of(&record);
            let fence = Fence { server: uuid, epoch: 1, attempt: 1 };
            let api = &self.registry.inner.api;
            api.create_server(
                fence,
                NewServer { instance: InstanceBundle::new(record.clone()), request_spec },
                QuotaGrant::without_check("a test"),
            )
            .await
            .unwrap();
            api.publish_build(fence, uuid, self.cells[made.cell].uuid).await.unwrap();
            for cell in std::iter::once(made.cell).chain(made.copy) {
                // The copy differs in every key, so that a list which takes the copy for the record is noticed.
                let mut row = record.clone();
                if cell != made.cell {
                    (row.hidden, row.display_name, row.progress) = (true, "copy".to_owned(), 99);
                }
                self.cells[cell].db.apply_unfenced(CellTxn::new().create_instance(InstanceBundle::new(row))).await.unwrap();
            }
            stored.push((made.cell, record));
        }
        stored
    }

    /// Returns the servers of all pages in order.
    async fn walk(&self, project: &str, sort: &SortSpec, limit: usize) -> Vec<Uuid> {
        let (mut seen, mut marker) = (Vec::new(), None);
        loop {
            let mut query = ListQuery { sort: sort.clone(), marker, limit, details: true, ..ListQuery::default() };
            query.filter.project_id = Some(project.to_owned());
            let page = self.registry.list_servers(query).await.unwrap();
            assert!(page.servers.len() <= limit);
            assert_eq!(page.marker.is_some(), page.servers.len() == limit, "a full page has a next one");
            seen.extend(page.servers.iter().map(|server| server.instance.uuid));
            match page.marker {
                Some(next) => marker = Some(next),
                None => return seen,
            }
        }
    }

    async fn check(&self, case: &Case) {
        let project = self.env.uuid().to_string();
        let stored = self.store(&project, &case.servers).await;
        if !case.at_once {
            self.clock.0.fetch_add(1, Ordering::Relaxed);
        }
        let sort = SortSpec::new(case.order.clone());
        let mut instances: Vec<&Instance> =
            stored.iter().filter(|(cell, _)| Some(*cell) != case.silent).map(|(_, instance)| instance).collect();
        instances.sort_by(|a, b| sort.compare(&sort.position(a), &sort.position(b)));
        let uuids: Vec<Uuid> = instances.iter().map(|instance| instance.uuid).collect();
        if let Some(silent) = case.silent {
            self.cells[silent].db.db().set_outage(Outage::Refuses);
        }
        let seen = self.walk(&project, &sort, case.limit).await;
        assert_eq!(seen, uuids, "in {sort:?}");
        if let Some(silent) = case.silent {
            self.of_silent(&project, silent, &stored).await;
            let cell = &self.cells[silent];
            cell.db.db().set_outage(Outage::None);
            // The cell's actor does this in a service.
            cell.health.learn::<()>(&Ok(()));
        }
    }

    /// Checks that only the silent cell's servers are missing, and that a page after one of them is refused.
    async fn of_silent(&self, project: &str, silent: usize, stored: &[(usize, Instance)]) {
        let mut query = ListQuery { limit: 1000, ..ListQuery::default() };
        query.filter.project_id = Some(project.to_owned());
        let page = self.registry.list_servers(query.clone()).await.unwrap();
        assert_eq!(page.silent.iter().map(|cell| cell.uuid).collect::<Vec<_>>(), [self.cells[silent].uuid]);
        let mappings = self.registry.servers_of_silent(&page.silent, Some(project), &Default::default(), 1000).await.unwrap();
        let mut servers: Vec<Uuid> = mappings.iter().map(|(_, mapping)| mapping.instance_uuid).collect();
        let mut lost: Vec<Uuid> = stored.iter().filter(|(cell, _)| *cell == silent).map(|(_, instance)| instance.uuid).collect();
        servers.sort_unstable();
        lost.sort_unstable();
        assert_eq!(servers, lost);
        if let Some(lost) = lost.first() {
            query.marker = Some(*lost);
            let refused = self.registry.list_servers(query.clone()).await;
            assert!(matches!(refused, Err(ListError::MarkerSilent(_))), "{refused:?}");
            query.filter.project_id = Some("another".to_owned());
            let refused = self.registry.list_servers(query).await;
            assert!(matches!(refused, Err(ListError::MarkerNotFound(_))), "others do not learn of it: {refused:?}");
        }
    }
}

fn merges_as_the_oracle_sorts(blocking: Blocking, url: impl Fn() -> String, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(RegistryFixture::on(blocking, url));
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&case(), |case| {
        runtime.block_on(world.check(&case));
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn pages_over_all_cells_are_what_an_oracle_sorts() {
    merges_as_the_oracle_sorts(Blocking::Inline, String::new, 100);
    if fresh_postgres().is_some() {
        merges_as_the_oracle_sorts(Blocking::Pool, || fresh_postgres().unwrap(), 10);
    }
}

#[tokio::test]
async fn of_a_server_and_its_copy_the_mapping_says_which_is_listed() {
    let world = RegistryFixture::on(Blocking::Inline, String::new).await;
    // Independent of the cell that is read first and of the name that is sorted first.
    for (cell, copy) in [(0, 1), (1, 0)] {
        let project = world.env.uuid().to_string();
        let made = Made { cell, copy: Some(copy), created: 0, name: 0, host: None, progress: 0 };
        world.store(&project, &[made]).await;
        for direction in [Direction::Asc, Direction::Desc] {
            let sort = SortSpec::new(vec![(SortKey::DisplayName, direction)]);
            let mut query = ListQuery { sort, limit: 10, ..ListQuery::default() };
            query.filter.project_id = Some(project.clone());
            let names: Vec<String> = world
                .registry
                .list_servers(query)
                .await
                .unwrap()
                .servers
                .into_iter()
                .map(|server| server.instance.display_name.clone())
                .collect();
            assert_eq!(names, ["name0"]);
        }
    }
}

/// Takes this many of a database's readers until the returned value is dropped.
async fn occupy(cell: &CellHandle, readers: u32) -> Vec<mpsc::Sender<()>> {
    let mut held = Vec::new();
    for _ in 0..readers {
        let ((keep, kept), (began, begins)) = (mpsc::channel::<()>(), oneshot::channel());
        let db = cell.db.db().clone();
        tokio::spawn(async move {
            let reading = db.read(move |_| {
                let _ = began.send(());
                // Ends when the other end is dropped.
                let _ = kept.recv();
                Ok(())
            });
            reading.await
        });
        begins.await.unwrap();
        held.push(keep);
    }
    held
}

/// Lists all servers. The list reads the new cell before the change, and the old cell and the mappings after it.
async fn listed_around(world: &RegistryFixture, [old, new]: [&CellHandle; 2], change: impl Future<Output = ()>) -> Vec<Arc<ServerRecord>> {
    world.clock.0.fetch_add(1, Ordering::Relaxed);
    let readers_of_old = occupy(old, POOL_SIZE).await;
    // A single reader is left, so the next caller waits until the list has read.
    let _readers_of_new = occupy(new, POOL_SIZE - 1).await;
    let before = new.db.db().calls().reads;
    let changing = async {
        while new.db.db().calls().reads == before {
            tokio::task::yield_now().await;
        }
        new.db.services().await.unwrap();
        change.await;
        drop(readers_of_old);
    };
    let listing = world.registry.list_servers(ListQuery { limit: 10, ..ListQuery::default() });
    let (list, ()) = futures::join!(listing, changing);
    list.unwrap().servers
}

/// A cloud in files, whose pools have several readers.
async fn in_files(dir: &tempfile::TempDir) -> RegistryFixture {
    RegistryFixture::on(Blocking::Pool, || dir.path().join(format!("{}.db", RandomIds.uuid())).display().to_string()).await
}

/// The server's old cell is read after it left, and its new cell was read before it arrived.
#[tokio::test]
async fn a_server_that_moves_between_the_reads_of_two_cells_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let world = in_files(&dir).await;
    let made = Made { cell: 0, copy: None, created: 0, name: 0, host: None, progress: 0 };
    let (_, record) = world.store("p", &[made]).await.remove(0);
    let (old, new) = (&world.cells[0], &world.cells[1]);
    let listed = listed_around(&world, [old, new], async {
        let fence = Fence { server: record.uuid, epoch: 2, attempt: 2 };
        new.db.apply(fence, CellTxn::new().create_instance(InstanceBundle::new(record.clone()))).await.unwrap();
        world.registry.inner.api.publish_move(fence, record.uuid, new.uuid, spec_of(&record)).await.unwrap();
        old.db.apply(fence, CellTxn::new().hard_delete_instance(record.uuid)).await.unwrap();
    });
    let listed: Vec<(Option<String>, Uuid)> = listed.await.into_iter().map(|server| (server.cell.clone(), server.instance.uuid)).collect();
    assert_eq!(listed, [(Some(new.name.clone()), record.uuid)]);
}

/// The server's new cell is read while its copy there is hidden, as the move has left it until then.
#[tokio::test]
async fn a_copy_that_was_read_too_early_is_listed_as_it_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let world = in_files(&dir).await;
    let made = Made { cell: 0, copy: Some(1), created: 0, name: 0, host: None, progress: 0 };
    let (_, record) = world.store("p", &[made]).await.remove(0);
    let (old, new) = (&world.cells[0], &world.cells[1]);
    let listed = listed_around(&world, [old, new], async {
        let fence = Fence { server: record.uuid, epoch: 2, attempt: 2 };
        let end = InstanceChange::states(VmState::Resized, None);
        new.db.apply(fence, CellTxn::new().instance_change(record.uuid, end).hidden(record.uuid, false)).await.unwrap();
        world.registry.inner.api.publish_move(fence, record.uuid, new.uuid, spec_of(&record)).await.unwrap();
    });
    let listed: Vec<(Option<String>, VmState)> =
        listed.await.into_iter().map(|server| (server.cell.clone(), server.instance.vm_state)).collect();
    assert_eq!(listed, [(Some(new.name.clone()), VmState::Resized)]);
}
