//! Many creates at once: they spread over hosts that are equal, because each decision counts what the others have chosen.

use std::collections::BTreeMap;

use cellshift::config::Config;
use futures::future::join_all;
use uuid::Uuid;

use crate::client::{NewServer, User, id_of};
use crate::stage::{Stage, play};

const CLIENTS: usize = 8;
const SERVERS_EACH: usize = 10;
const HOSTS: usize = 20;

/// Makes 20 equal hosts in four cells, which are chosen as in a service without a configuration.
fn twenty_hosts(config: &mut Config) {
    (config.cells.count, config.cells.hosts_per_cell) = (Some(4), Some(5));
    config.scheduler.shuffle_best_same_weighed_hosts = true;
    (config.quota.instances, config.quota.cores, config.quota.ram) = (-1, -1, -1);
    config.network.quota_port = -1;
}

/// Creates servers one after the other, and returns their ids.
async fn create_some(stage: &Stage, user: &User) -> Vec<Uuid> {
    let mut servers = Vec::new();
    for _ in 0..SERVERS_EACH {
        let new = NewServer::of_image(stage.image).flavor("m1.tiny").with("networks", "none".into());
        servers.push(id_of(&new.ask(user).await.expect(202).body["server"]));
    }
    servers
}

/// Has all clients create at once. Returns the number of servers by host.
async fn burst(stage: &Stage) -> BTreeMap<String, usize> {
    let mut users = Vec::new();
    for client in 0..CLIENTS {
        users.push(stage.user(&format!("client {client}"), "demo", "member").await);
    }
    let servers = join_all(users.iter().map(|user| create_some(stage, user))).await.concat();
    let mut by_host = BTreeMap::new();
    for server in servers {
        let host = stage.at_rest(server, "ACTIVE").await["OS-EXT-SRV-ATTR:host"].as_str().expect("a host").to_owned();
        *by_host.entry(host).or_insert(0) += 1;
    }
    by_host
}

/// Asserts that the fullest of all hosts has at most two servers more than the emptiest.
fn assert_spread(by_host: &BTreeMap<String, usize>) {
    assert_eq!((by_host.len(), by_host.values().sum::<usize>()), (HOSTS, CLIENTS * SERVERS_EACH), "{by_host:?}");
    assert!(by_host.values().max().unwrap() - by_host.values().min().unwrap() <= 2, "{by_host:?}");
}

#[test]
fn a_burst_of_creates_spreads_over_equal_hosts() {
    play(twenty_hosts, |stage| async move { assert_spread(&burst(&stage).await) });
}

#[test]
fn a_burst_over_two_conductors_spreads_as_well() {
    let two = |config: &mut Config| {
        twenty_hosts(config);
        config.conductor.workers = 2;
    };
    play(two, |stage| async move { assert_spread(&burst(&stage).await) });
}
