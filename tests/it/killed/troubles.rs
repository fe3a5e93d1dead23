//! Troubles that the service survives, repeated during a batch of moves: it stands still; its PostgreSQL is stopped in immediate mode and
//! started again; the network to PostgreSQL breaks, delays and half closes connections.

use std::time::Duration;

use cellshift::config::Config;
use rand::SeedableRng;
use rand::prelude::IndexedRandom;
use rand::rngs::StdRng;

use super::batch::{Batch, configure};
use super::{from_environment, seed};
use crate::chaos_proxy::{ChaosProxy, Mode};
use crate::databases;
use crate::postgres_server::PostgresServer;
use crate::service::Service;

/// A trouble and its end.
struct Trouble<S> {
    what: &'static str,
    begin: fn(&S, &Service),
    /// The duration of a trouble.
    lasts: Duration,
    end: fn(&S, &Service),
}

/// PostgreSQL and the proxy before it.
struct Database {
    server: PostgresServer,
    proxy: ChaosProxy,
}

const PAUSE: Trouble<()> = Trouble {
    what: "it stands still",
    begin: |(), service| service.signal("-STOP"),
    lasts: Duration::from_millis(700),
    end: |(), service| service.signal("-CONT"),
};

const OF_DATABASE: &[Trouble<Database>] = &[
    Trouble {
        what: "PostgreSQL is stopped at once and started",
        begin: |database, _| database.server.crash(),
        lasts: Duration::from_millis(300),
        end: |database, _| database.server.go(),
    },
    Trouble { what: "connections break", begin: |database, _| database.proxy.break_connections(), lasts: Duration::ZERO, end: |_, _| {} },
    Trouble {
        what: "connections are half closed",
        begin: |database, _| database.proxy.half_close(),
        lasts: Duration::ZERO,
        end: |_, _| {},
    },
    Trouble {
        what: "all that passes is late",
        begin: |database, _| database.proxy.set(Mode::Delay(Duration::from_millis(40))),
        lasts: Duration::from_millis(1500),
        end: |database, _| database.proxy.set(Mode::Pass),
    },
    Trouble {
        what: "nothing passes, then connections break",
        begin: |database, _| database.proxy.set(Mode::Hang),
        lasts: Duration::from_millis(1500),
        end: |database, _| {
            database.proxy.break_connections();
            database.proxy.set(Mode::Pass);
        },
    },
    Trouble {
        what: "it stands still while connections break",
        begin: |database, service| {
            service.signal("-STOP");
            database.proxy.break_connections();
        },
        lasts: Duration::from_millis(500),
        end: |_, service| service.signal("-CONT"),
    },
];

/// Makes troubles at moments that the seed chooses: each kind once, then any, up to the number.
fn live_through<S>(place: impl FnOnce(&mut Config), setting: &S, kinds: &[Trouble<S>], times: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    configure(dir.path(), place);
    let mut random = StdRng::seed_from_u64(seed());
    actix_rt::System::new().block_on(async {
        let mut batch = Batch::begin(dir.path(), seed());
        let service = batch.start().await;
        batch.everyone().await;
        for nth in 0..times {
            let trouble = kinds.get(nth).or_else(|| kinds.choose(&mut random)).expect("a kind");
            batch.moment().await;
            println!("{}", trouble.what);
            (trouble.begin)(setting, &service);
            batch.outlasts(trouble.lasts).await;
            (trouble.end)(setting, &service);
        }
        batch.end(service, &format!("{times} troubles")).await;
    });
}

fn times(least: usize) -> usize {
    usize::try_from(from_environment("CELLSHIFT_KILLS", 0)).map_or(least, |kills| kills.max(least))
}

#[test]
fn a_service_that_stands_still_again_and_again_loses_nothing() {
    live_through(databases::place, &(), &[PAUSE], times(3));
}

/// Does nothing without PostgreSQL.
#[test]
fn a_service_with_a_failing_postgresql_loses_nothing() {
    if !databases::on_postgres() {
        return;
    }
    let server = PostgresServer::start();
    let proxy = ChaosProxy::before(server.address());
    let url = server.url_at(proxy.address());
    let database = Database { server, proxy };
    live_through(|config| databases::place_on(config, &url), &database, OF_DATABASE, times(OF_DATABASE.len()));
}
