//! The permitted values of options. A wrong value stops the start, with the key's name and the permitted values.

use std::collections::BTreeSet;

use reqwest::Url;

use super::log_level;
use super::{Authentication, Config, ConfigError, Http, Seconds};
use crate::actors::arbiters::ARBITERS_MAX;
use crate::actors::conductor::CONDUCTORS_MAX;
use crate::actors::notifier::rabbitmq::is_broker;
use crate::db::connection::{has_what_it_demands, is_postgres};
use crate::saga::step_name::StepName;
use crate::saga::world::CELL0;

/// The maximum number of cells beside cell0.
pub const CELLS_MAX: u32 = 100;

/// Checks all values.
pub(crate) fn check(config: &Config) -> Result<(), ConfigError> {
    amounts(config)?;
    times(config)?;
    ratios(config)?;
    deadlines(config)?;
    quotas(config)?;
    databases(config)?;
    http(&config.http)?;
    tracing(config)?;
    rabbitmq(config)?;
    nats(config)?;
    let remote = config.api.authentication == Authentication::None && !config.http.listen.ip().is_loopback();
    let must_be = "\"token\" while http.listen is an address that other machines reach: everybody there would be the administrator. \
                   To have that all the same, set http.allow_unauthenticated_remote = true";
    refuse(remote && !config.http.allow_unauthenticated_remote, "api.authentication", must_be)?;
    let elsewhere = "an address and port that http.listen does not take: the API keeps its own";
    refuse(config.metrics.collides_with(config.http.listen), "metrics.listen", elsewhere)?;
    let (cells, hosts) = (config.cells.count.unwrap_or(1), config.cells.hosts_per_cell.unwrap_or(1));
    refuse(!(1..=CELLS_MAX).contains(&cells), "cells.count (--cells)", "between 1 and 100")?;
    refuse(!(1..=1000).contains(&hosts), "cells.hosts_per_cell (--hosts-per-cell)", "between 1 and 1000")?;
    refuse(config.identity.password_checks > 1000, "identity.password_checks", "at most 1000")?;
    refuse(config.cells.cache_down_servers > 1_000_000, "cells.cache_down_servers", "at most 1000000")?;
    refuse(config.actors.arbiters > ARBITERS_MAX, "actors.arbiters", "at most 64")?;
    refuse(!(1..=CONDUCTORS_MAX).contains(&config.conductor.workers), "conductor.workers", "between 1 and 16")?;
    let zone = &config.scheduler.default_availability_zone;
    refuse(zone.is_empty() || zone.contains(':'), "scheduler.default_availability_zone", "a name without colons")?;
    let retries = config.compute.live_migration.migrate_max_retries;
    refuse(retries < -1, "compute.live_migration.migrate_max_retries", "a number of hosts, or -1 for all")?;
    refuse(config.compute.shelved_offload_time < -1, "compute.shelved_offload_time", "seconds, 0 for at once, or -1 for never")?;
    host_networks(config)?;
    config.scheduler.validate()?;
    let levels = "error, warn, info, debug, trace or off, or MODULE=LEVEL, joined with commas";
    refuse(log_level::misspelt(&config.log.level).is_some(), "log.level", levels)
}

fn host_networks(config: &Config) -> Result<(), ConfigError> {
    let own = config.compute.network_of_hosts.iter().map(|(host, network)| (format!("compute.network_of_hosts.{host}"), network));
    for (table, network) in [("compute.network".to_owned(), &config.compute.network)].into_iter().chain(own) {
        if let Some((key, must_be)) = network.misfit() {
            return refuse(true, &format!("{table}.{key}"), &must_be);
        }
    }
    Ok(())
}

/// Refuses a wrong value.
pub(crate) fn refuse(wrong: bool, key: &str, must_be: &str) -> Result<(), ConfigError> {
    match wrong {
        true => Err(ConfigError::Value { key: key.to_owned(), must_be: must_be.to_owned() }),
        false => Ok(()),
    }
}

fn http(http: &Http) -> Result<(), ConfigError> {
    let endpoint = http.public_endpoint.as_deref().map(|url| Url::parse(url).ok().filter(is_endpoint));
    refuse(endpoint == Some(None), "http.public_endpoint", "a URL such as https://cloud.example, without query or user")?;
    let agents = http.agents_endpoint.as_deref();
    refuse(!agents.is_none_or(is_plain_endpoint), "http.agents_endpoint", "a URL such as http://10.0.0.1:8774, without query or user")?;
    let most = http.max_connections;
    refuse(most > 0 && http.max_connections_per_peer > most, "http.max_connections_per_peer", "at most http.max_connections")
}

fn tracing(config: &Config) -> Result<(), ConfigError> {
    let collector = config.tracing.otlp.as_deref().map(|url| Url::parse(url).ok().filter(|url| is_endpoint(url) && url.scheme() == "http"));
    refuse(collector == Some(None), "tracing.otlp", "a URL such as http://127.0.0.1:4318, without query or user")
}

fn rabbitmq(config: &Config) -> Result<(), ConfigError> {
    let broker = &config.notifications.rabbitmq;
    let bad = broker.urls.iter().any(|url| !is_broker(url));
    refuse(bad, "notifications.rabbitmq.urls", "URLs such as amqp://user:password@host:5672/vhost (TLS, amqps, is not built in)")?;
    for (key, name) in [("exchange", &broker.exchange), ("topic", &broker.topic)] {
        refuse(name.is_empty() || name.len() > 200, &format!("notifications.rabbitmq.{key}"), "a name of 1 to 200 bytes")?;
    }
    refuse(broker.heartbeat == 0, "notifications.rabbitmq.heartbeat", "at least 1 second")?;
    refuse(broker.keep_bytes == 0, "notifications.rabbitmq.keep_bytes", "at least 1")
}

fn nats(config: &Config) -> Result<(), ConfigError> {
    for (cell, nats) in &config.nats {
        refuse(!is_numbered(cell) || cell == CELL0, &format!("nats.{cell}"), "named after a cell with hosts: cell1, cell2 and so on")?;
        if let Some((key, must_be)) = nats.misfit() {
            return refuse(true, &format!("nats.{cell}.{key}"), must_be);
        }
    }
    Ok(())
}

/// True for a URL without TLS that agents can use.
pub fn is_plain_endpoint(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| is_endpoint(&url) && url.scheme() == "http")
}

fn is_endpoint(url: &Url) -> bool {
    let plain = url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    ["http", "https"].contains(&url.scheme()) && url.has_host() && plain
}

fn amounts(config: &Config) -> Result<(), ConfigError> {
    let notifications = &config.notifications;
    let positive = [
        ("http.max_body_bytes", config.http.max_body_bytes),
        ("http.max_requests_in_flight", config.http.max_requests_in_flight),
        ("http.max_transfers", config.http.max_transfers),
        ("http.min_bytes_per_second", config.http.min_bytes_per_second),
        ("api.max_limit", config.api.max_limit as usize),
        ("migration.max_in_flight", config.migration.max_in_flight),
        ("compute.vcpus", config.compute.vcpus as usize),
        ("compute.memory_mb", config.compute.memory_mb as usize),
        ("compute.disk_gb", config.compute.disk_gb as usize),
        ("compute.max_concurrent_live_migrations", config.compute.max_concurrent_live_migrations as usize),
        ("notifications.rotate_bytes", usize::try_from(notifications.rotate_bytes).unwrap_or(usize::MAX)),
        ("network.max_fixed_ips_per_port", config.network.max_fixed_ips_per_port),
        ("notifications.window", notifications.window),
        ("notifications.page", notifications.page),
        ("notifications.subscriber_queue", notifications.subscriber_queue),
        ("notifications.max_subscribers", notifications.max_subscribers),
    ];
    positive.iter().try_for_each(|(key, value)| refuse(*value == 0, key, "at least 1"))
}

fn times(config: &Config) -> Result<(), ConfigError> {
    let positive = [
        ("http.body_timeout", config.http.body_timeout),
        ("http.read_timeout", config.http.read_timeout),
        ("http.write_timeout", config.http.write_timeout),
        ("cells.timeout", config.cells.timeout),
        ("cells.probe_interval", config.cells.probe_interval),
        ("database.seat", config.database.seat),
        ("migration.lease", config.migration.lease),
        ("migration.back_off_first", config.migration.back_off_first),
        ("migration.back_off_max", config.migration.back_off_max),
        ("compute.heartbeat", config.compute.heartbeat),
        ("compute.service_down_time", config.compute.service_down_time),
        ("console.token_ttl", config.console.token_ttl),
        ("compute.shelved_poll_interval", config.compute.shelved_poll_interval),
        ("compute.port_poll_interval", config.compute.port_poll_interval),
    ];
    positive.iter().try_for_each(|(key, value)| refuse(value.duration().is_zero(), key, "more than 0 seconds"))?;
    let too_soon = config.compute.service_down_time <= config.compute.heartbeat;
    refuse(too_soon, "compute.service_down_time", "longer than compute.heartbeat")?;
    self_fence(config)
}

/// A shorter time than these is over before a controller has answered, or an agent has looked at its clock.
fn self_fence(config: &Config) -> Result<(), ConfigError> {
    let (shortest, least_margin) = (Seconds::whole(5), Seconds::whole(2));
    let is_too_short = config.compute.self_fence().is_some() && config.compute.self_fence_after < shortest;
    refuse(is_too_short, "compute.self_fence_after", "at least 5 seconds, or 0 for never")?;
    refuse(config.compute.self_fence_margin < least_margin, "compute.self_fence_margin", "at least 2 seconds")
}

fn ratios(config: &Config) -> Result<(), ConfigError> {
    let ratios = [
        ("compute.cpu_allocation_ratio", config.compute.cpu_allocation_ratio),
        ("compute.ram_allocation_ratio", config.compute.ram_allocation_ratio),
        ("compute.disk_allocation_ratio", config.compute.disk_allocation_ratio),
    ];
    ratios.iter().try_for_each(|(key, value)| refuse(!(value.is_finite() && *value > 0.0), key, "a number above 0"))
}

fn deadlines(config: &Config) -> Result<(), ConfigError> {
    for (step, seconds) in &config.migration.deadlines {
        let key = format!("migration.deadlines.{step}");
        if StepName::parse(step).is_none() {
            let all = StepName::ALL.iter().map(|name| name.as_str()).collect::<BTreeSet<_>>();
            let all = all.into_iter().collect::<Vec<_>>().join(", ");
            return refuse(true, &key, &format!("named after a step of an operation: {all}"));
        }
        refuse(*seconds == 0, &key, "at least 1 second")?;
    }
    Ok(())
}

fn quotas(config: &Config) -> Result<(), ConfigError> {
    let quota = &config.quota;
    let limits = [
        ("quota.instances", quota.instances),
        ("quota.cores", quota.cores),
        ("quota.ram", quota.ram),
        ("quota.metadata_items", quota.metadata_items),
        ("quota.key_pairs", quota.key_pairs),
        ("quota.server_groups", quota.server_groups),
        ("quota.server_group_members", quota.server_group_members),
        ("quota.injected_files", quota.injected_files),
        ("quota.injected_file_content_bytes", quota.injected_file_content_bytes),
        ("quota.injected_file_path_length", quota.injected_file_path_length),
        ("network.quota_network", config.network.quota_network),
        ("network.quota_subnet", config.network.quota_subnet),
        ("network.quota_subnetpool", config.network.quota_subnetpool),
        ("network.quota_port", config.network.quota_port),
        ("network.quota_router", config.network.quota_router),
        ("network.quota_floatingip", config.network.quota_floatingip),
        ("network.quota_security_group", config.network.quota_security_group),
        ("network.quota_security_group_rule", config.network.quota_security_group_rule),
    ];
    limits.iter().try_for_each(|(key, limit)| refuse(*limit < -1, key, "-1 for no limit, or 0 or more"))
}

fn databases(config: &Config) -> Result<(), ConfigError> {
    let database = &config.database;
    for (key, url) in [("database.api", &database.api), ("database.services", &database.services)] {
        url.iter().try_for_each(|url| check_database(key, url))?;
    }
    for (cell, url) in &database.cells {
        let key = format!("database.cells.{cell}");
        refuse(!is_numbered(cell), &key, "named after a cell: cell0, cell1 and so on")?;
        check_database(&key, url)?;
    }
    Ok(())
}

/// True for `cell` with a number.
fn is_numbered(cell: &str) -> bool {
    cell.strip_prefix("cell").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Refuses a database in memory, because it would be lost with its first connection.
fn check_database(key: &str, url: &str) -> Result<(), ConfigError> {
    let is_file = !url.is_empty() && !url.contains("://") && !url.starts_with("file:") && !url.starts_with(':');
    refuse(!is_postgres(url) && !is_file, key, "a postgres:// URL or the path of a SQLite file")?;
    let without_tls = "a URL whose sslmode is disable, allow or prefer: this program was built without the feature tls";
    refuse(!has_what_it_demands(url), key, without_tls)
}
