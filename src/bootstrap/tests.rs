//! Tests of the things that a first start makes and later starts keep.

use std::time::Duration;

use cellshift_embedded::identity::{DomainRef, ProjectRef, ScopeRequest, UserRef};
use cellshift_embedded::placement::Put;
use cellshift_nats::HostFacts;
use futures::future::BoxFuture;

use super::*;
use crate::actors::agents::ReportedHost;
use crate::config::{Nats, Seconds};
use crate::domain::compute_node::ComputeNode;
use crate::domain::context::RequestContext;
use crate::domain::flavor::{FlavorScope, Resources};
use crate::domain::host_network::HostNetwork;
use crate::env::borders::{Borders, Gate, Reply};
use crate::env::{Blocking, RandomIds, SystemClock};
use crate::services::placement::{Allocations, Inventory, PlacementService};

fn config(dir: &Path, cells: u32, hosts_per_cell: u32) -> Config {
    let mut config = Config { data_dir: dir.to_owned(), ..Config::default() };
    config.cells.count = Some(cells);
    config.cells.hosts_per_cell = Some(hosts_per_cell);
    config
}

/// Returns the credentials of a cloud in `clouds.yaml`.
fn auth_of(cloud: &Cloud, name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(cloud.config.data_dir.join("clouds.yaml")).unwrap();
    let mut file: serde_json::Value = serde_yaml_ng::from_str(&text).unwrap();
    file["clouds"][name]["auth"].take()
}

/// Authenticates as the user of a cloud in `clouds.yaml`.
async fn log_in(cloud: &Cloud, name: &str) {
    let auth = auth_of(cloud, name);
    let word = |key: &str| auth[key].as_str().unwrap().to_owned();
    let user = UserRef::Name { name: word("username"), domain: DomainRef::Name("Default".into()) };
    let scope = ScopeRequest::Project(ProjectRef::Name { name: word("project_name"), domain: DomainRef::Name("Default".into()) });
    cloud.services.identity.authenticate_password(&user, &word("password"), scope).await.unwrap();
}

#[tokio::test]
async fn the_first_start_makes_the_cloud_and_the_next_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(config(dir.path(), 2, 2), Env::system()).await.unwrap();
    let shape: Vec<(&str, Vec<&str>)> =
        first.cells.iter().map(|c| (c.name.as_str(), c.hosts.iter().map(String::as_str).collect())).collect();
    let expected = [("cell0", vec![]), ("cell1", vec!["cell1-host1", "cell1-host2"]), ("cell2", vec!["cell2-host1", "cell2-host2"])];
    assert_eq!(shape, expected);
    log_in(&first, "cellshift").await;
    log_in(&first, "cellshift-admin").await;
    let passwords = std::fs::read_to_string(dir.path().join("clouds.yaml")).unwrap();
    let zone = first.api.aggregates().await.unwrap().into_iter().find(|a| a.name == "gen1").unwrap().id;
    first.api.remove_aggregate_host(zone, "cell1-host2").await.unwrap();
    first.api.delete_flavor("m1.tiny").await.unwrap();

    let was = first.cells[1].db.compute_nodes().await.unwrap();
    // The second start has one more cell and host. Ids, passwords and deletions stay.
    let second = open(config(dir.path(), 3, 3), Env::system()).await.unwrap();
    assert_eq!(second.cells.len(), 4);
    let is = second.cells[1].db.compute_nodes().await.unwrap();
    let ids = |nodes: &[ComputeNode]| nodes.iter().map(|node| (node.host.clone(), node.uuid, node.service_id)).collect::<Vec<_>>();
    assert_eq!((second.cells[1].uuid, &ids(&is)[..2]), (first.cells[1].uuid, &ids(&was)[..]));
    assert_eq!(second.cells[3].hosts.len(), 3);
    assert_eq!(passwords, std::fs::read_to_string(dir.path().join("clouds.yaml")).unwrap());
    let flavors: Vec<String> = second.api.flavors(FlavorScope::All).await.unwrap().into_iter().map(|f| f.flavor.name).collect();
    assert_eq!(flavors, ["m1.small", "gen1.small", "gen1.large", "gen2.small", "gen2.large"]);

    let aggregates = second.api.aggregates().await.unwrap();
    let of = |name: &str| aggregates.iter().find(|a| a.name == name).unwrap();
    assert_eq!(of("cell1").availability_zone(), Some("cell1"));
    assert_eq!((of("gen1").hosts.len(), of("gen2").hosts.len(), of("cell3").hosts.len()), (2, 6, 3));
    let tree = second.services.placement.provider_tree().await.unwrap();
    let (hosts, below): (Vec<_>, Vec<_>) = tree.iter().partition(|(_, parent)| parent.is_none());
    assert!(hosts.iter().all(|(provider, _)| provider.inventories["VCPU"].capacity() == 64));
    // Two hosts of each cell have physical functions, the third has not.
    assert_eq!((hosts.len(), below.len()), (9, 3 * (5 + 5 + 2)));
}

#[tokio::test]
async fn a_start_that_is_told_no_number_adds_no_cell_and_no_host() {
    let dir = tempfile::tempdir().unwrap();
    let shape = |cloud: &Cloud| cloud.cells.iter().map(|cell| (cell.name.clone(), cell.hosts.len())).collect::<Vec<_>>();
    let small = shape(&open(config(dir.path(), 1, 1), Env::system()).await.unwrap());
    assert_eq!(small, [("cell0".to_owned(), 0), ("cell1".to_owned(), 1)]);
    let untold = Config { data_dir: dir.path().to_owned(), ..Config::default() };
    assert_eq!(shape(&open(untold.clone(), Env::system()).await.unwrap()), small);
    let mut one_more = untold;
    one_more.cells.count = Some(2);
    let grown = shape(&open(one_more, Env::system()).await.unwrap());
    assert_eq!(grown, [("cell0".to_owned(), 0), ("cell1".to_owned(), 1), ("cell2".to_owned(), 2)]);
}

#[tokio::test]
async fn a_devstack_cloud_has_devstacks_names_and_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let preset = Preset::Devstack;
    let first = open(Config { preset, ..config(dir.path(), 1, 1) }, Env::system()).await.unwrap();
    for cloud in ["devstack", "devstack-alt", "devstack-admin", "cellshift", "cellshift-admin"] {
        log_in(&first, cloud).await;
    }
    let system = auth_of(&first, "devstack-system-admin");
    assert_eq!((system["username"].as_str(), system["system_scope"].as_str()), (Some("admin"), Some("all")));
    assert!(system["project_name"].is_null());
    let flavors: Vec<_> = first.api.flavors(FlavorScope::All).await.unwrap().into_iter().map(|f| (f.flavor.id, f.flavor.name)).collect();
    for (id, name) in [("1", "m1.tiny"), ("d1", "ds512M"), ("c1", "cirros256")] {
        assert!(flavors.contains(&(id.to_owned(), name.to_owned())), "{flavors:?}");
    }
    let admin = RequestContext { roles: vec!["admin".into()], ..RequestContext::default() };
    let images = first.services.images.list(&admin, Default::default()).await.unwrap();
    assert_eq!(images.iter().map(|image| image.name.as_deref()).collect::<Vec<_>>(), [Some("cirros-0.6.3-x86_64-disk")]);
    let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let before = text("clouds.yaml");
    // A later start keeps the names, whatever it is told, and so does that of another cloud.
    let again = open(config(dir.path(), 1, 2), Env::system()).await.unwrap();
    assert_eq!((again.preset, text("clouds.yaml")), (preset, before));
    assert_eq!(again.api.aggregates().await.unwrap(), Vec::new(), "its hosts are in the zone nova");
    let other = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut unsaid = Config { preset, ..config(elsewhere.path(), 1, 1) };
    (unsaid.cells.count, unsaid.cells.hosts_per_cell) = (None, None);
    let unsaid = open(unsaid, Env::system()).await.unwrap();
    let shape: Vec<_> = unsaid.cells.iter().map(|cell| (cell.name.as_str(), cell.hosts.len())).collect();
    assert_eq!(shape, [("cell0", 0), ("cell1", 2)], "DevStack has one cell");
    open(config(other.path(), 1, 1), Env::system()).await.unwrap();
    let other = open(Config { preset, ..config(other.path(), 1, 1) }, Env::system()).await.unwrap();
    assert_eq!(other.preset, Preset::Cellshift);
    assert!(!std::fs::read_to_string(other.config.data_dir.join("clouds.yaml")).unwrap().contains("devstack"));
}

#[tokio::test]
async fn a_lost_clouds_file_gets_new_passwords_that_work() {
    let dir = tempfile::tempdir().unwrap();
    open(config(dir.path(), 1, 1), Env::system()).await.unwrap();
    std::fs::remove_file(dir.path().join("clouds.yaml")).unwrap();
    let again = open(config(dir.path(), 1, 1), Env::system()).await.unwrap();
    log_in(&again, "cellshift").await;
}

#[tokio::test]
async fn accounts_that_were_renamed_or_deleted_do_not_come_back() {
    use cellshift_embedded::identity::UserUpdate;

    let dir = tempfile::tempdir().unwrap();
    let first = open(config(dir.path(), 1, 1), Env::system()).await.unwrap();
    let identity = first.services.identity.clone();
    let users = identity.users().await.unwrap();
    let id = |name: &str| users.iter().find(|user| user.name == name).unwrap().id.clone();
    identity.delete_user(&id("demo")).await.unwrap();
    let renamed = UserUpdate { name: Some("root".into()), ..UserUpdate::default() };
    identity.update_user(&id("admin"), renamed).await.unwrap();
    let project = identity.projects().await.unwrap().into_iter().find(|project| project.name == "demo").unwrap();
    identity.delete_project(&project.id).await.unwrap();
    for file_is_lost in [false, true] {
        if file_is_lost {
            std::fs::remove_file(dir.path().join("clouds.yaml")).unwrap();
        }
        let again = open(config(dir.path(), 1, 1), Env::system()).await.unwrap().services.identity;
        let names: Vec<String> = again.users().await.unwrap().into_iter().map(|user| user.name).collect();
        assert_eq!(names, ["root"]);
        assert!(again.projects().await.unwrap().iter().all(|project| project.name != "demo"));
    }
}

#[tokio::test]
async fn a_first_start_that_was_interrupted_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), 1, 1);
    let env = Env::system();
    let mut deployment = deployment::identify(&config, &env).await.unwrap();
    deployment.begin(&config, &env).await.unwrap();
    drop(deployment.open(&config, &env, Part::Api).await.unwrap());
    let services = open_services(&config, &env, &deployment).await.unwrap();
    // A killed start may have made the users without the file of their passwords.
    services.identity.ensure_project("demo").await.unwrap();
    services.identity.ensure_user("demo", "nobody knows it", None).await.unwrap();
    services.identity.ensure_user("admin", "nor this", None).await.unwrap();
    drop((services, deployment));
    let cloud = open(config, env).await.unwrap();
    log_in(&cloud, "cellshift").await;
    log_in(&cloud, "cellshift-admin").await;
}

/// Returns the place of cell1 in this run: a fresh PostgreSQL database, or a file in the data directory.
fn with_cell1(dir: &Path) -> (Config, String) {
    let mut config = config(dir, 2, 1);
    let url = crate::db::fixture::fresh_postgres().unwrap_or_else(|| dir.join("cell1.db").to_string_lossy().into_owned());
    config.database.cells.insert("cell1".to_owned(), url.clone());
    (config, url)
}

#[tokio::test]
async fn a_cell_that_a_newer_release_has_changed_is_refused_and_named() {
    use diesel::connection::SimpleConnection;

    let dir = tempfile::tempdir().unwrap();
    let (config, url) = with_cell1(dir.path());
    drop(open(config.clone(), Env::system()).await.unwrap());
    let mut conn = crate::db::connection::open(&url).unwrap();
    conn.batch_execute("INSERT INTO __diesel_schema_migrations (version) VALUES ('99991231000000')").unwrap();
    let refused = open(config.clone(), Env::system()).await.err().unwrap().to_string();
    assert!(refused.contains("newer release (99991231000000)"), "{refused}");
    conn.batch_execute("DELETE FROM __diesel_schema_migrations WHERE version = '99991231000000'").unwrap();
    let cloud = open(config, Env::system()).await.unwrap();
    assert!(cloud.cells.iter().all(|cell| cell.silent.is_none()));
}

#[tokio::test]
async fn a_cell_that_cannot_be_reached_is_silent_and_keeps_its_hosts() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), 2, 2);
    let away = dir.path().join("not-mounted").join("cell1.db");
    config.database.cells.insert("cell1".to_owned(), away.to_string_lossy().into_owned());
    let cloud = open(config.clone(), Env::system()).await.unwrap();
    let cell1 = &cloud.cells[1];
    assert_eq!(cell1.hosts, ["cell1-host1", "cell1-host2"]);
    let silent = cell1.silent.clone().unwrap();
    let refused = cell1.db.services().await.unwrap_err();
    assert!(refused.is_unavailable() && refused.to_string().contains(&silent.reason.to_string()), "{refused}");
    silent.setup.set_up().await.unwrap_err();

    std::fs::create_dir(away.parent().unwrap()).unwrap();
    silent.setup.set_up().await.unwrap();
    silent.setup.set_up().await.unwrap();
    assert_eq!(cell1.db.compute_nodes().await.unwrap().len(), 2);
    let tree = cloud.services.placement.provider_tree().await.unwrap();
    assert_eq!(tree.iter().filter(|(_, parent)| parent.is_none()).count(), 4);
    drop(cloud);

    // A missing file is not created again, because its records would be lost silently.
    std::fs::rename(&away, away.with_extension("away")).unwrap();
    let cloud = open(config, Env::system()).await.unwrap();
    let silent = cloud.cells[1].silent.clone().unwrap();
    assert!(silent.reason.to_string().contains("there is no file"), "{}", silent.reason);
    std::fs::rename(away.with_extension("away"), &away).unwrap();
    silent.setup.set_up().await.unwrap();
    assert_eq!(cloud.cells[1].db.compute_nodes().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_hosts_network_follows_its_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), 1, 3);
    open(config.clone(), Env::system()).await.unwrap();
    let own = HostNetwork { packet_rate_kpps: 7, ..HostNetwork::default() }.without_functions();
    config.compute.network_of_hosts.insert("cell1-host1".to_owned(), own);
    config.compute.sriov_hosts_per_cell = 3;
    let cloud = open(config, Env::system()).await.unwrap();
    let tree = cloud.services.placement.provider_tree().await.unwrap();
    let of = |host: &str| tree.iter().filter(|(one, _)| one.name.starts_with(&format!("{host}:"))).collect::<Vec<_>>();
    assert_eq!(["cell1-host1", "cell1-host2", "cell1-host3"].map(|host| of(host).len()), [2, 5, 5]);
    assert_eq!(of("cell1-host1")[0].0.inventories["NET_PACKET_RATE_KILOPACKET_PER_SEC"].total, 7);
    let scope = cellshift_embedded::network::records::Scope::admin("any");
    let private = cloud.services.network.networks(scope).await.unwrap().remove(0);
    assert_eq!(private.physical_network.as_deref(), Some("physnet0"));
}

#[tokio::test]
async fn a_network_of_an_unknown_host_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), 1, 2);
    let network = config.compute.network.clone();
    for unknown in ["cell1-host3", "cell2-host1", "rack7"] {
        config.compute.network_of_hosts = [(unknown.to_owned(), network.clone())].into();
        let why = open(config.clone(), Env::system()).await.err().expect("a refusal").to_string();
        assert!(why.starts_with(&format!("compute.network_of_hosts.{unknown}: there is no host")), "{why}");
        assert!(!dir.path().join("cell1.db").exists(), "nothing is made before");
    }
    config.compute.network_of_hosts = [("cell1-host2".to_owned(), network.clone())].into();
    open(config.clone(), Env::system()).await.unwrap();
    // Without the options, the hosts that were made before are known.
    (config.cells.count, config.cells.hosts_per_cell) = (None, None);
    open(config.clone(), Env::system()).await.unwrap();
    config.compute.network_of_hosts = [("cell1-host3".to_owned(), network)].into();
    assert!(open(config, Env::system()).await.is_err());
}

/// Databases that take their time for each call.
struct Slow(Duration);

impl Borders for Slow {
    fn gate(&self) -> Option<Box<dyn Gate>> {
        Some(Box::new(Slow(self.0)))
    }

    fn before_write(&self, _: usize) -> std::io::Result<()> {
        Ok(())
    }
}

impl Gate for Slow {
    fn pass(&self) -> BoxFuture<'_, Result<Reply, String>> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Ok(Reply::Kept)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_cell_whose_work_takes_long_is_not_down() {
    let reason_with = |answers_after: Duration| async move {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path(), 1, 2);
        config.cells.timeout = Seconds::whole(7);
        // Everything happens in this thread, so the paused clock passes only while nothing is done.
        let env = Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline).with_borders(Arc::new(Slow(answers_after)));
        let cloud = open(config, env).await.unwrap();
        cloud.cells.iter().find(|cell| cell.name == "cell1").unwrap().silent.clone().map(|silent| silent.reason.to_string())
    };
    // Each of the at least five calls takes two seconds: together they take longer than the limit for one answer.
    assert_eq!(reason_with(Duration::from_secs(2)).await, None);
    let reason = reason_with(Duration::from_secs(8)).await.unwrap();
    assert!(reason.contains("no answer within 7s"), "{reason}");
}

#[tokio::test]
async fn a_start_keeps_what_operators_gave_a_hosts_provider() {
    let dir = tempfile::tempdir().unwrap();
    let cloud = open(config(dir.path(), 1, 1), Env::system()).await.unwrap();
    let placement = &cloud.services.placement;
    let (host, _) = placement.provider_tree().await.unwrap().into_iter().find(|(provider, _)| provider.name == "cell1-host1").unwrap();
    placement.create_trait("CUSTOM_QUIET".into()).await.unwrap();
    placement.create_resource_class("CUSTOM_LICENCE".into()).await.unwrap();
    let licences = Inventory { total: 4, reserved: 0, min_unit: 1, max_unit: 4, step_size: 1, allocation_ratio: 1.0 };
    placement.set_inventory(host.uuid, None, "CUSTOM_LICENCE".into(), licences.clone(), Put::Adds).await.unwrap();
    placement.set_traits(host.uuid, None, vec!["CUSTOM_QUIET".into()]).await.unwrap();
    let claim = Allocations {
        consumer: Uuid::from_u128(7),
        consumer_generation: None,
        project_id: "p".into(),
        user_id: "u".into(),
        consumer_type: "INSTANCE".into(),
        allocations: BTreeMap::from([(host.uuid, BTreeMap::from([("CUSTOM_LICENCE".to_owned(), 1)]))]),
    };
    placement.put_allocations(vec![claim]).await.unwrap();
    let (before, _) = placement.provider(host.uuid).await.unwrap();
    drop(cloud);

    let cloud = open(config(dir.path(), 1, 1), Env::system()).await.unwrap();
    let (after, _) = cloud.services.placement.provider(host.uuid).await.unwrap();
    assert_eq!(after, before);
    drop(cloud);

    // A host that has become larger reports only its own classes.
    let mut config = config(dir.path(), 1, 1);
    config.compute.vcpus += 1;
    let vcpus = i64::from(config.compute.vcpus);
    let cloud = open(config, Env::system()).await.unwrap();
    let (after, _) = cloud.services.placement.provider(host.uuid).await.unwrap();
    assert_eq!(after.inventories["VCPU"].total, vcpus);
    assert_eq!((after.inventories.get("CUSTOM_LICENCE"), &after.traits), (Some(&licences), &before.traits));
    assert_eq!(after.usages["CUSTOM_LICENCE"], 1);
}

/// Returns a configuration of two cells, the first with agents.
fn with_agents(dir: &Path) -> Config {
    let mut config = config(dir, 2, 2);
    config.nats.insert("cell1".to_owned(), Nats { servers: vec!["nats://127.0.0.1:4222".to_owned()], ..Nats::default() });
    config
}

#[tokio::test]
async fn a_cell_of_agents_has_the_hosts_that_report() {
    let dir = tempfile::tempdir().unwrap();
    let cloud = open(with_agents(dir.path()), Env::system()).await.unwrap();
    let cell = &cloud.cells[1];
    assert!(cell.hosts.is_empty() && cell.db.services().await.unwrap().is_empty());
    assert!(cloud.cells[2].agents.is_none() && cloud.cells[2].hosts.len() == 2);

    let capacity = Resources { vcpu: 12, memory_mb: 1000, disk_gb: 50 };
    let traits = vec!["CUSTOM_FAST".to_owned(), "no trait".to_owned()];
    let facts = HostFacts { driver: "simulated".to_owned(), capacity, traits, functions: Vec::new() };
    let mut host = ReportedHost { name: "cell1-host9".to_owned(), facts };
    cloud.api.map_hosts(vec![host.name.clone()], cell.uuid).await.unwrap();
    let recorder = cell.agents.clone().unwrap().recorder;
    for vcpu in [12, 12, 24] {
        host.facts.capacity.vcpu = vcpu;
        recorder.record(std::slice::from_ref(&host)).await.unwrap();
    }
    let nodes = cell.db.compute_nodes().await.unwrap();
    assert_eq!(
        (nodes.len(), nodes[0].host.as_str(), nodes[0].vcpus, nodes[0].memory_mb, nodes[0].local_gb),
        (1, "cell1-host9", 24, 1000, 50)
    );
    let provider = cloud.services.placement.providers().await.unwrap().into_iter().find(|provider| provider.name == host.name).unwrap();
    assert_eq!((provider.uuid, provider.inventories["VCPU"].total), (nodes[0].uuid, 24));
    assert_eq!(provider.traits, ["CUSTOM_FAST"]);

    // Neither the number of hosts per cell nor their configured capacity matters.
    let again = open(with_agents(dir.path()), Env::system()).await.unwrap();
    assert!(again.cells[1].hosts.is_empty());
    assert_eq!(again.cells[1].db.compute_nodes().await.unwrap(), nodes);
}

#[tokio::test]
async fn agents_are_refused_in_a_cell_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = with_agents(dir.path());
    config.nats.insert("cell7".to_owned(), config.nats["cell1"].clone());
    let why = open(config, Env::system()).await.err().unwrap().to_string();
    assert_eq!(why, "nats.cell7: there is no cell cell7, and this start makes none");
}
