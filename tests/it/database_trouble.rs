//! Databases of a cell that can really be taken away and brought back, while a service runs or before it starts: the test's own PostgreSQL
//! server, directly or behind a proxy, and a SQLite file in its own directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellshift::config::Config;

use crate::chaos_proxy::{ChaosProxy, Mode};
use crate::databases;
use crate::postgres_server::PostgresServer;

/// A cell's database, and a way to lose it.
pub struct Trouble {
    pub what: &'static str,
    cell: &'static str,
    server: Option<(Arc<PostgresServer>, Arc<ChaosProxy>)>,
}

const OF_POSTGRES: [&str; 4] = ["stopped", "paused", "refusing", "hanging"];
const OF_FILES: [&str; 3] = ["unreadable", "gone", "without its directory"];

impl Trouble {
    /// Returns all ways to lose this cell's database on the kind of database of this run.
    pub fn all_of(cell: &'static str) -> Vec<Trouble> {
        if !databases::on_postgres() {
            return OF_FILES.iter().map(|what| Trouble { what, cell, server: None }).collect();
        }
        let server = Arc::new(PostgresServer::start());
        let proxy = Arc::new(ChaosProxy::before(server.address()));
        OF_POSTGRES.iter().map(|what| Trouble { what, cell, server: Some((server.clone(), proxy.clone())) }).collect()
    }

    /// Returns the simplest way.
    pub fn first_of(cell: &'static str) -> Trouble {
        Trouble::all_of(cell).swap_remove(0)
    }

    /// Places the cell's database so that it can be taken away. On PostgreSQL it is a fresh database.
    pub fn place(&self, config: &mut Config) {
        let url = match &self.server {
            Some((server, proxy)) => server.fresh_database_at(proxy.address()),
            None => {
                std::fs::create_dir(directory(config)).expect("a directory");
                self.file(config).to_string_lossy().into_owned()
            }
        };
        config.database.cells.insert(self.cell.to_owned(), url);
    }

    fn file(&self, config: &Config) -> PathBuf {
        directory(config).join(format!("{}.db", self.cell))
    }

    pub fn begin(&self, config: &Config) {
        match (self.what, &self.server) {
            ("stopped", Some((server, _))) => server.crash(),
            ("paused", Some((server, _))) => server.pause(),
            ("refusing", Some((_, proxy))) => proxy.set(Mode::Refuse),
            ("hanging", Some((_, proxy))) => proxy.set(Mode::Hang),
            (what, _) => {
                let dir = directory(config);
                rename(&dir, &aside(config));
                if what != "without its directory" {
                    std::fs::create_dir(&dir).expect("a directory");
                }
                if what == "unreadable" {
                    std::fs::write(self.file(config), "this is no database, ".repeat(1000)).expect("a file");
                }
            }
        }
    }

    pub fn end(&self, config: &Config) {
        match (self.what, &self.server) {
            ("stopped", Some((server, _))) => server.go(),
            ("paused", Some((server, _))) => server.resume(),
            ("refusing" | "hanging", Some((_, proxy))) => {
                proxy.break_connections();
                proxy.set(Mode::Pass);
            }
            (what, _) => {
                if what != "without its directory" {
                    rename(&directory(config), &config.data_dir.join("broken"));
                }
                rename(&aside(config), &directory(config));
            }
        }
    }
}

/// The directory that stands for a mounted volume.
fn directory(config: &Config) -> PathBuf {
    config.data_dir.join("mounted")
}

fn aside(config: &Config) -> PathBuf {
    config.data_dir.join("aside")
}

fn rename(from: &Path, to: &Path) {
    std::fs::rename(from, to).expect("a directory moves");
}
