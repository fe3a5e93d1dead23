//! The places of a test cloud's databases: SQLite files below its data directory, or fresh databases on the PostgreSQL server that
//! `CELLSHIFT_TEST_POSTGRES` names.

use cellshift::config::Config;
use cellshift::env::Env;
use diesel::Connection;
use diesel::connection::SimpleConnection;

/// The default number of cells beside cell0.
const CELLS: u32 = 2;

/// True if tests run on PostgreSQL.
pub fn on_postgres() -> bool {
    std::env::var_os("CELLSHIFT_TEST_POSTGRES").is_some()
}

/// Places the databases of a cloud whose number of cells is set.
pub fn place(config: &mut Config) {
    if let Ok(server) = std::env::var("CELLSHIFT_TEST_POSTGRES") {
        place_on(config, &server);
    }
}

/// Places the databases on the PostgreSQL server with this URL.
pub fn place_on(config: &mut Config, server: &str) {
    let cells = (0..=config.cells.count.unwrap_or(CELLS)).map(|number| format!("cell{number}"));
    config.database.api = Some(fresh_postgres(server));
    config.database.services = Some(fresh_postgres(server));
    config.database.cells = cells.map(|cell| (cell, fresh_postgres(server))).collect();
}

/// Removes the databases that [`place`] made for an ended cloud. The databases of a failed test stay for inspection.
pub fn remove(config: &Config) {
    let Ok(server) = std::env::var("CELLSHIFT_TEST_POSTGRES") else { return };
    let database = &config.database;
    let urls = [&database.api, &database.services].into_iter().flatten().chain(database.cells.values());
    let mut admin = diesel::PgConnection::establish(&server).expect("PostgreSQL answers");
    for name in urls.filter_map(|url| url.strip_prefix(address_of(&server))) {
        // A connection may still be closing.
        admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).expect("a database goes");
    }
}

/// Changes a stopped cloud's API database.
pub fn execute_in_api(config: &Config, statement: &str) {
    match &config.database.api {
        Some(url) => diesel::PgConnection::establish(url).expect("PostgreSQL answers").batch_execute(statement),
        None => {
            let path = config.data_dir.join("api.db");
            diesel::SqliteConnection::establish(path.to_str().expect("UTF-8")).expect("a database").batch_execute(statement)
        }
    }
    .expect("a statement");
}

fn fresh_postgres(server: &str) -> String {
    let name = format!("test_{}", Env::system().uuid().simple());
    let mut admin = diesel::PgConnection::establish(server).expect("PostgreSQL answers");
    admin.batch_execute(&format!("CREATE DATABASE {name}")).expect("a database");
    format!("{}{name}", address_of(server))
}

/// Returns a database's URL without its name.
fn address_of(server: &str) -> &str {
    &server[..=server.rfind('/').expect("a URL with a database")]
}
