//! The places of a test cloud's databases: SQLite files below its data directory, or a fresh database on the PostgreSQL server that
//! `CELLSHIFT_TEST_POSTGRES` names. The parts of the cloud are schemas of that database, because PostgreSQL makes a database in a tenth of a
//! second and a schema in a thousandth; tests of the databases themselves have one per part. Only the first cloud of a run makes its tables:
//! the databases of the others are copies.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::LazyLock;

use cellshift::bootstrap::Samples;
use cellshift::config::Config;
use cellshift::db::connection::{is_postgres, open, open_pool};
use cellshift::db::{Conn, Schema};
use cellshift::env::Env;
use diesel::connection::SimpleConnection;
use diesel::dsl::sql;
use diesel::sql_types::Bool;
use diesel::{Connection, RunQueryDsl};

/// The default number of cells beside cell0.
const CELLS: u32 = 2;

/// The samples of a test's cloud. A host copies an image in pieces of one MiB, and a story is about several of them.
pub const TWO_PIECES: Samples = Samples { image_bytes: (1 << 20) + (1 << 16) };

/// True if tests run on PostgreSQL.
pub fn on_postgres() -> bool {
    std::env::var_os("CELLSHIFT_TEST_POSTGRES").is_some()
}

/// Places the parts of a cloud whose number of cells is set.
pub fn place(config: &mut Config) {
    if let Ok(server) = std::env::var("CELLSHIFT_TEST_POSTGRES") {
        place_in(config, fresh_postgres(&server, Some(&MIGRATED)));
        // A server that all tests load at once may take longer to take a connection than the three seconds of a service that is served alone.
        let database = &mut config.database;
        let urls = [&mut database.api, &mut database.services].into_iter().flatten().chain(database.cells.values_mut());
        urls.for_each(|url| *url += "&connect_timeout=20");
    }
}

/// Gives a new cloud the SQLite files that no place was configured for, with all tables, so that the migrations run once.
pub fn copy_files(config: &Config) {
    let [api, services, cell] = &*MIGRATED_FILES;
    let database = &config.database;
    let copy = |file: &str, tables: &[u8]| {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(config.data_dir.join(file));
        file.and_then(|mut file| file.write_all(tables)).expect("a copy");
    };
    if database.api.is_none() {
        copy("api.db", api);
    }
    if database.services.is_none() {
        copy("services.db", services);
    }
    let cells = (0..=config.cells.count.unwrap_or(CELLS)).map(|number| format!("cell{number}"));
    cells.filter(|cell| !database.cells.contains_key(cell)).for_each(|name| copy(&format!("{name}.db"), cell));
}

/// The SQLite files of the API, the services and a cell that have all tables.
static MIGRATED_FILES: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a directory");
    [Schema::Api, Schema::Services, Schema::Cell].map(|schema| {
        let url = dir.path().join(format!("{schema:?}")).to_string_lossy().into_owned();
        drop(open_pool("a template", &url, schema, None, 1).expect("tables"));
        std::fs::read(url).expect("a file")
    })
});

/// The name of a database whose schemas have all tables. A copy of it is made in a fifth of the time that the migrations take.
static MIGRATED: LazyLock<String> = LazyLock::new(|| {
    let server = std::env::var("CELLSHIFT_TEST_POSTGRES").expect("a server");
    let mut config = Config::default();
    place_on(&mut config, &server);
    let migrate = |url: &str, schema| drop(open_pool("a template", url, schema, None, 1).expect("tables"));
    migrate(config.database.api.as_deref().expect("a place"), Schema::Api);
    migrate(config.database.services.as_deref().expect("a place"), Schema::Services);
    config.database.cells.values().for_each(|url| migrate(url, Schema::Cell));
    name_of(config.database.api.as_deref().expect("a place"), &server).expect("a name").to_owned()
});

/// Places the parts on the PostgreSQL server with this URL.
pub fn place_on(config: &mut Config, server: &str) {
    place_in(config, fresh_postgres(server, None));
}

fn place_in(config: &mut Config, database: String) {
    let mut schemas = diesel::PgConnection::establish(&database).expect("PostgreSQL answers");
    place_each(config, |part| {
        schemas.batch_execute(&format!("CREATE SCHEMA IF NOT EXISTS {part}")).expect("a schema");
        format!("{database}?options=-csearch_path%3D{part}")
    });
}

/// Places the parts as [`place`] does, each in a database of its own.
pub fn place_apart(config: &mut Config) {
    if let Ok(server) = std::env::var("CELLSHIFT_TEST_POSTGRES") {
        place_each(config, |_| fresh_postgres(&server, None));
    }
}

fn place_each(config: &mut Config, mut place: impl FnMut(&str) -> String) {
    let cells = (0..=config.cells.count.unwrap_or(CELLS)).map(|number| format!("cell{number}"));
    config.database.api = Some(place("api"));
    config.database.services = Some(place("services"));
    config.database.cells = cells.map(|cell| (cell.clone(), place(&cell))).collect();
}

/// Removes the databases that [`place`] made for an ended cloud. The databases of a failed test stay for inspection.
pub fn remove(config: &Config) {
    let Ok(server) = std::env::var("CELLSHIFT_TEST_POSTGRES") else { return };
    let database = &config.database;
    let urls = [&database.api, &database.services].into_iter().flatten().chain(database.cells.values());
    let mut admin = diesel::PgConnection::establish(&server).expect("PostgreSQL answers");
    for name in urls.filter_map(|url| name_of(url, &server)).collect::<BTreeSet<_>>() {
        // A connection may still be closing.
        admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).expect("a database goes");
    }
}

/// Makes a database refuse each connection that is opened with this URL.
pub fn refuse(url: &mut String) {
    // No session begins with an unknown setting.
    *url += if url.contains('?') { "&" } else { "?" };
    *url += "options=-c%20nonsense%3D1";
}

/// Changes a stopped cloud's API database.
pub fn execute_in_api(config: &Config, statement: &str) {
    let file = || config.data_dir.join("api.db").to_string_lossy().into_owned();
    execute(&config.database.api.clone().unwrap_or_else(file), statement);
}

/// Opens the database of a cloud's embedded services.
pub fn services(config: &Config) -> Conn {
    let file = || config.data_dir.join("services.db").to_string_lossy().into_owned();
    open(&config.database.services.clone().unwrap_or_else(file)).expect("a database")
}

/// True if the query has a row.
pub fn any(conn: &mut Conn, query: &str) -> bool {
    diesel::select(sql::<Bool>(&format!("EXISTS ({query})"))).get_result(conn).expect("an answer")
}

/// Changes the database with this URL.
pub fn execute(url: &str, statement: &str) {
    match is_postgres(url) {
        true => diesel::PgConnection::establish(url).expect("PostgreSQL answers").batch_execute(statement),
        false => diesel::SqliteConnection::establish(url).expect("a database").batch_execute(statement),
    }
    .expect("a statement");
}

fn fresh_postgres(server: &str, template: Option<&str>) -> String {
    let name = format!("test_{}", Env::system().uuid().simple());
    let mut admin = diesel::PgConnection::establish(server).expect("PostgreSQL answers");
    // The default writes each page of the template to the log, which costs twice as much. Before PostgreSQL 15 there was no choice.
    let strategy = if version_of(&mut admin) >= 150_000 { "STRATEGY file_copy" } else { "" };
    let template = template.unwrap_or("template1");
    admin.batch_execute(&format!("CREATE DATABASE {name} TEMPLATE {template} {strategy}")).expect("a database");
    format!("{}{name}", address_of(server))
}

fn version_of(admin: &mut diesel::PgConnection) -> i32 {
    diesel::select(diesel::dsl::sql::<diesel::sql_types::Integer>("current_setting('server_version_num')::int"))
        .first(admin)
        .expect("a version")
}

/// Returns a database's URL without its name.
fn address_of(server: &str) -> &str {
    &server[..=server.rfind('/').expect("a URL with a database")]
}

/// Returns the name of the database with this URL; none if another server has it.
fn name_of<'a>(url: &'a str, server: &str) -> Option<&'a str> {
    url.strip_prefix(address_of(server))?.split('?').next()
}
