//! The databases of a bench's cloud: SQLite files in its data directory, or databases of the PostgreSQL server that
//! `CELLSHIFT_BENCH_POSTGRES` names (`postgres://user:password@host:port/database`). They are removed at the end.

use diesel::connection::SimpleConnection;
use diesel::{Connection, PgConnection};

use cellshift::config::Config;
use cellshift::db::{Db, Schema};
use cellshift::env::Env;

/// The databases made on a server; none for SQLite.
#[derive(Default)]
pub struct Databases {
    server: Option<String>,
    made: Vec<String>,
}

impl Databases {
    /// Places the parts of a cloud with this number of cells.
    pub fn place(config: &mut Config, cells: u32) -> Databases {
        let Ok(server) = std::env::var("CELLSHIFT_BENCH_POSTGRES") else { return Databases::default() };
        let mut databases = Databases { server: Some(server), made: Vec::new() };
        config.database.api = Some(databases.make());
        config.database.services = Some(databases.make());
        config.database.cells = (0..=cells).map(|number| (format!("cell{number}"), databases.make())).collect();
        databases
    }

    /// Opens a part of a cloud that does not run: `api`, `services`, or a cell.
    pub fn open(config: &Config, part: &str, env: &Env) -> Db {
        let (url, schema) = match part {
            "api" => (&config.database.api, Schema::Api),
            "services" => (&config.database.services, Schema::Services),
            cell => (&config.database.cells.get(cell).cloned(), Schema::Cell),
        };
        let file = || config.data_dir.join(format!("{part}.db")).to_string_lossy().into_owned();
        let url = url.clone().unwrap_or_else(file);
        Db::open(part, &url, schema, env).expect("its database opens")
    }

    /// Makes a database, and returns its URL.
    fn make(&mut self) -> String {
        let server = self.server.as_ref().expect("a server");
        let name = format!("bench_{}", Env::system().uuid().simple());
        execute(server, &format!("CREATE DATABASE {name}"));
        let address = &server[..=server.rfind('/').expect("a URL with a database")];
        let url = format!("{address}{name}");
        self.made.push(name);
        url
    }
}

impl Drop for Databases {
    fn drop(&mut self) {
        for (server, name) in self.server.iter().flat_map(|server| self.made.iter().map(move |name| (server, name))) {
            execute(server, &format!("DROP DATABASE {name} WITH (FORCE)"));
        }
    }
}

fn execute(server: &str, statement: &str) {
    let mut admin = PgConnection::establish(server).expect("PostgreSQL answers");
    admin.batch_execute(statement).expect(statement);
}
