//! Tests of valid configuration files, and of the refusal of wrong ones.

use super::*;
use crate::virt::hypervisor::Operation;

fn load(text: &str) -> Result<Config, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cellshift.toml");
    std::fs::write(&path, text).unwrap();
    Config::load(Some(&path), Overrides::default())
}

#[test]
fn a_printed_configuration_reads_back_the_same() {
    let mut config = Config::default();
    config.migration.deadlines.insert("upload_snapshot".into(), 90);
    config.compute.latency_ms.insert(Operation::Start, 250);
    config.database.cells.insert("cell1".into(), "postgres://db/cell1".into());
    config.metrics.listen = Some("127.0.0.1:9774".parse().unwrap());
    config.policy.file = Some("/etc/cellshift/policy.yaml".into());
    config.nats.insert("cell1".into(), Nats { servers: vec!["nats://127.0.0.1:4222".into()], ..Nats::default() });
    let text = config.to_toml().unwrap();
    assert_eq!(load(&text).unwrap(), config, "{text}");
}

#[test]
fn the_command_line_beats_the_file_beats_the_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cellshift.toml");
    std::fs::write(&path, "[cells]\ncount = 3\ntimeout = 0.5\n[http]\nlisten = \"127.0.0.1:1\"\n").unwrap();
    let overrides = Overrides { listen: Some("127.0.0.1:2".parse().unwrap()), ..Overrides::default() };
    let config = Config::load(Some(&path), overrides).unwrap();
    assert_eq!((config.cells.count, config.cells.hosts_per_cell, config.http.listen.port()), (Some(3), None, 2));
    assert_eq!(config.cells.timeout, Seconds::millis(500));
}

#[test]
fn agents_reach_the_service_without_tls() {
    let endpoint = |text: &str| load(text).unwrap().http.endpoint_of_agents("127.0.0.1:8774".parse().unwrap());
    assert_eq!(endpoint("[http]\npublic_endpoint = \"https://cloud\"\n"), "http://127.0.0.1:8774");
    assert_eq!(endpoint("[http]\npublic_endpoint = \"http://cloud\"\n"), "http://cloud");
    assert_eq!(endpoint("[http]\npublic_endpoint = \"http://cloud\"\nagents_endpoint = \"http://10.0.0.1\"\n"), "http://10.0.0.1");
}

#[test]
fn a_file_may_name_the_place_to_listen_as_the_command_line_does() {
    assert!(load("[http]\nlisten = \"localhost:8775\"\n").unwrap().http.listen.ip().is_loopback());
    assert_eq!(load("[http]\nlisten = \":8775\"\n").unwrap().http.listen.to_string(), "0.0.0.0:8775");
}

fn assert_refused(text: &str, parts: [&str; 2]) {
    let error = load(text).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "{text:?} gave {error:?}, without {part:?}");
    }
}

#[test]
fn a_wrong_place_of_agents_is_refused_with_its_key() {
    for (text, parts) in [
        ("[nats.cell1]\nservers = []\n", ["nats.cell1.servers", "nats://10.0.0.1:4222"]),
        ("[nats.cell1]\nservers = [\"nats://a\"]\nseed = \"x\"\n", ["seed", "key"]),
        ("[nats.cell0]\nservers = [\"nats://a\"]\n", ["nats.cell0", "cell1, cell2"]),
        ("[nats.north]\nservers = [\"nats://a\"]\n", ["nats.north", "cell1, cell2"]),
    ] {
        assert_refused(text, parts);
    }
}

#[test]
fn a_wrong_file_is_refused_with_the_key_and_what_is_allowed() {
    for (text, parts) in [
        ("[migration]\nresize_confirm_windw = 1\n", ["resize_confirm_windw", "resize_confirm_window"]),
        ("[migrations]\n", ["migrations", "migration"]),
        ("colour = 1\n", ["colour", "data_dir"]),
        ("[http]\nlisten = \"here\"\n", ["listen", "localhost:8774"]),
        ("[http]\nmax_requests_in_flight = 0\n", ["http.max_requests_in_flight", "at least 1"]),
        ("[http]\nagents_endpoint = \"https://10.0.0.1\"\n", ["http.agents_endpoint", "a URL such as http://10.0.0.1:8774"]),
        ("[cells]\ntimeout = -1\n", ["timeout", "0 or more"]),
        ("[cells]\ncache_down_servers = 1000001\n", ["cells.cache_down_servers", "at most 1000000"]),
        ("[cells]\ncount = 0\n", ["--cells", "between 1 and 100"]),
        ("[api]\nauthentication = \"maybe\"\n", ["maybe", "token"]),
        ("[compute]\nmax_concurrent_live_migrations = 0\n", ["compute.max_concurrent_live_migrations", "at least 1"]),
        ("[compute.live_migration]\nmigrate_max_retries = -2\n", ["compute.live_migration.migrate_max_retries", "-1 for all"]),
        ("[compute]\nshelved_offload_time = -2\n", ["compute.shelved_offload_time", "-1 for never"]),
        ("[compute]\nself_fence_after = 4.5\n", ["compute.self_fence_after", "at least 5 seconds, or 0"]),
        ("[compute]\nself_fence_margin = 1\n", ["compute.self_fence_margin", "at least 2 seconds"]),
        ("[console]\ntoken_ttl = 0\n", ["console.token_ttl", "more than 0"]),
        ("[notifications.rabbitmq]\nurls = [\"amqps://mq/\"]\n", ["notifications.rabbitmq.urls", "amqp://user:password@host:5672/vhost"]),
        ("[notifications.rabbitmq]\nurls = [\"amqp://\"]\n", ["notifications.rabbitmq.urls", "amqp://user:password@host:5672/vhost"]),
        ("[notifications.rabbitmq]\nurls = [\"amqp://[::1]/\"]\n", ["notifications.rabbitmq.urls", "amqp://user:password@host:5672/vhost"]),
        ("[notifications.rabbitmq]\nheartbeat = 0\n", ["notifications.rabbitmq.heartbeat", "at least 1"]),
        ("[notifications.rabbitmq]\nqueues = \"some\"\n", ["some", "durable"]),
        ("[notifications.rabbitmq]\ntopic = \"\"\n", ["notifications.rabbitmq.topic", "1 to 200 bytes"]),
        ("[compute]\nshelved_poll_interval = 0\n", ["compute.shelved_poll_interval", "more than 0"]),
        ("[compute.network]\nbandwidths = { br-0 = { egress = 1 } }\n", ["compute.network.bandwidths.br-0", "br-physnet0, ens1, ens2"]),
        (
            "[compute.network]\nbridge_mappings = { \"a:b\" = \"br\" }\n",
            ["compute.network.bridge_mappings.a:b", "without spaces and colons"],
        ),
        ("[compute.network]\nbridge_mappings = { a = \"ens1\" }\n", ["compute.network.physical_device_mappings.physnet0", "ens1"]),
        ("[compute.network]\npacket_rate_kpps = 2147483648\n", ["compute.network.packet_rate_kpps", "at most 2147483647"]),
        ("[compute.network_of_hosts.h]\nvirtual_functions = 256\n", ["compute.network_of_hosts.h.virtual_functions", "at most 255"]),
        ("[compute.network]\nbridges = {}\n", ["bridges", "bridge_mappings"]),
        ("[compute.latency_ms]\nstrt = 1\n", ["strt", "start"]),
        ("[compute]\ncpu_allocation_ratio = nan\n", ["compute.cpu_allocation_ratio", "above 0"]),
        ("[scheduler]\nenabled_filters = [\"Nothing\"]\n", ["scheduler] enabled_filters", "there is no Nothing; known are"]),
        ("[migration.deadlines]\nupload_snapshot = 0\n", ["migration.deadlines.upload_snapshot", "at least 1"]),
        ("[migration.deadlines]\nupload_snapshoot = 9\n", ["migration.deadlines.upload_snapshoot", "upload_snapshot"]),
        ("[quota]\ninstances = -2\n", ["quota.instances", "-1 for no limit"]),
        ("[quota]\ncount_usage_from_placement = \"sometimes\"\n", ["count_usage_from_placement", "expected a boolean"]),
        ("[quota]\nrecheck_quota = 1\n", ["recheck_quota", "expected a boolean"]),
        ("[api]\nmax_limit = 0\n", ["api.max_limit", "at least 1"]),
        ("[notifications]\nsubscriber_queue = 0\n", ["notifications.subscriber_queue", "at least 1"]),
        ("[actors]\narbiters = 65\n", ["actors.arbiters", "at most 64"]),
        ("[conductor]\nworkers = 0\n", ["conductor.workers", "between 1 and 16"]),
        ("[conductor]\nworkers = 17\n", ["conductor.workers", "between 1 and 16"]),
        ("[migration]\nlease = 0\n", ["migration.lease", "more than 0"]),
        ("[database]\napi = \"mysql://db/api\"\n", ["database.api", "postgres:// URL or the path"]),
        ("[database]\nservices = \":memory:\"\n", ["database.services", "SQLite file"]),
        ("[database.cells]\ncell1 = \"\"\n", ["database.cells.cell1", "SQLite file"]),
        ("[database.cells]\ncel1 = \"a.db\"\n", ["database.cells.cel1", "cell0, cell1"]),
        #[cfg(not(feature = "tls"))]
        ("[database]\napi = \"postgres://db/api?sslmode=verify-full\"\n", ["database.api", "built without the feature tls"]),
        ("[scheduler]\nallow_resize_to_same_host = true\n", ["allow_resize_to_same_host", "max_attempts"]),
        ("[log]\nlevel = \"inof\"\n", ["log.level", "warn, info"]),
        ("[chaos]\nenabled = 1\n", ["enabled", "boolean"]),
        ("[chaos]\nenable = true\n", ["enable", "enabled"]),
        ("[metrics]\nlisten = \"here\"\n", ["listen", "localhost:8774"]),
        ("[metrics]\nlisten = \":8774\"\n", ["metrics.listen", "that http.listen does not take"]),
        ("[metrics]\nenabled = \"yes\"\n", ["enabled", "boolean"]),
        ("[metrics]\nport = 9100\n", ["port", "listen"]),
        ("[http\n", ["cellshift.toml", "line 1"]),
    ] {
        assert_refused(text, parts);
    }
    let error = Config::load(Some(Path::new("/nowhere/cellshift.toml")), Overrides::default()).unwrap_err();
    assert!(error.to_string().contains("/nowhere/cellshift.toml"));
}

#[test]
fn passwords_are_hashed_at_owasps_cost_whatever_a_file_says() {
    let config = load("[identity]\nlockout_attempts = 5\nlockout_duration = 60\n").unwrap();
    let settings = config.identity.settings();
    assert_eq!((settings.cost.memory_kib, settings.cost.passes), (19_456, 2));
    assert_eq!(settings.lockout.map(|lockout| (lockout.attempts, lockout.duration.as_secs())), Some((5, 60)));
    assert!(Config::default().identity.settings().lockout.is_none(), "nobody is locked out unless it is asked for");
    assert!(load("[identity]\npassword_cost = { memory_kib = 8, passes = 1 }\n").is_err());
}

#[test]
fn a_printed_configuration_has_no_passwords() {
    let mut config = Config::default();
    config.database.api = Some("postgres://me:secr:et@db/api?sslmode=require".into());
    config.database.services = Some("postgres://me@db/services?password=secret&application_name=x".into());
    config.database.cells.insert("cell1".into(), "postgres://me@db/cell1".into());
    config.database.cells.insert("cell2".into(), "/var/lib/cell2.db".into());
    config.notifications.rabbitmq.urls = vec!["amqp://nova:secr:et@mq:5672/cloud".into()];
    let printed = config.without_passwords();
    assert_eq!(printed.notifications.rabbitmq.urls, ["amqp://nova:***@mq:5672/cloud"]);
    let database = printed.database;
    assert_eq!(database.api.as_deref(), Some("postgres://me:***@db/api?sslmode=require"));
    assert_eq!(database.services.as_deref(), Some("postgres://me@db/services?password=***&application_name=x"));
    assert_eq!(database.cells["cell1"], "postgres://me@db/cell1");
    assert_eq!(database.cells["cell2"], "/var/lib/cell2.db");
}
