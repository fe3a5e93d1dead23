//! All stored data of a cloud, to check that a refused request changes none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cellshift::config::Config;
use diesel::sql_types::{Nullable, Text};
use diesel::{Connection, PgConnection, QueryableByName, RunQueryDsl, SqliteConnection, sql_query};

/// Tables that change by themselves: hosts report, conductors renew leases, a process renews its seat, SQLite counts inserted rows.
const CLOCKWORK: &[&str] = &["services", "compute_nodes", "changes", "controllers", "leases", "sqlite_sequence"];
/// Running guests write to their disks and volumes.
const WRITTEN: [&str; 2] = ["/guests/", "/volumes/"];

/// A table's rows by its name, and a file's size by its path.
pub type Contents = BTreeMap<String, String>;

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    name: String,
    #[diesel(sql_type = Nullable<Text>)]
    content: Option<String>,
}

enum Connected {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// The databases of a cloud, and its directory.
pub struct Stored {
    databases: Vec<(String, Connected, String)>,
    data: PathBuf,
}

impl Stored {
    pub fn of(config: &Config) -> Stored {
        let database = &config.database;
        let named = [("api", &database.api), ("services", &database.services)];
        let named = named.into_iter().filter_map(|(name, url)| Some((name.to_owned(), url.clone()?)));
        let cells = database.cells.iter().map(|(name, url)| (name.clone(), url.clone()));
        let mut databases: Vec<(String, Connected, String)> = named.chain(cells).map(|(name, url)| postgres(name, &url)).collect();
        for (file, _) in files(&config.data_dir).into_iter().filter(|(file, _)| file.extension().is_some_and(|kind| kind == "db")) {
            databases.push(sqlite(&file));
        }
        Stored { databases, data: config.data_dir.clone() }
    }

    /// Returns all stored data.
    pub fn contents(&mut self) -> Contents {
        let mut contents = Contents::new();
        for (database, connected, query) in &mut self.databases {
            let lines: Vec<Line> = match connected {
                Connected::Sqlite(conn) => sql_query(query.as_str()).load(conn),
                Connected::Postgres(conn) => sql_query(query.as_str()).load(conn),
            }
            .expect("the tables are read");
            contents.extend(lines.into_iter().map(|line| (format!("{database}.{}", line.name), line.content.unwrap_or_default())));
        }
        let kept = files(&self.data).into_iter().filter(|(file, _)| {
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            !name.contains(".db") && !name.ends_with(".jsonl")
        });
        contents.extend(kept.map(|(file, size)| {
            let name = file.display().to_string();
            let size = if WRITTEN.iter().any(|place| name.contains(place)) { 0 } else { size };
            (name, size.to_string())
        }));
        contents
    }
}

/// Returns, for each difference, a line that was added or removed.
pub fn differences(before: &Contents, after: &Contents) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let lines = |of: &Contents, name: &String| of.get(name).map(|text| text.lines().map(str::to_owned).collect()).unwrap_or_default();
    let difference = |name: &String| {
        let (was, is): (BTreeSet<String>, BTreeSet<String>) = (lines(before, name), lines(after, name));
        let lines =
            is.difference(&was).map(|line| format!("+ {line:.300}")).chain(was.difference(&is).map(|line| format!("- {line:.300}")));
        lines.into_iter().next().map(|line| format!("{name} {line}"))
    };
    names.into_iter().filter_map(difference).collect()
}

fn union(tables: impl Iterator<Item = (String, String)>) -> String {
    let selects = tables.filter(|(table, _)| !CLOCKWORK.contains(&table.as_str()));
    selects.map(|(table, select)| format!("SELECT '{table}' AS name, ({select}) AS content")).collect::<Vec<_>>().join(" UNION ALL ")
}

fn postgres(name: String, url: &str) -> (String, Connected, String) {
    let mut conn = PgConnection::establish(url).expect("PostgreSQL answers");
    let tables =
        "SELECT table_name::text AS name, NULL::text AS content FROM information_schema.tables WHERE table_schema = current_schema()";
    let tables: Vec<Line> = sql_query(tables).load(&mut conn).expect("tables");
    let select =
        |table: &str| format!("SELECT string_agg(line, chr(10)) FROM (SELECT t::text AS line FROM \"{table}\" t ORDER BY 1) lines");
    let query = union(tables.into_iter().map(|table| (table.name.clone(), select(&table.name))));
    (name, Connected::Postgres(conn), query)
}

fn sqlite(file: &Path) -> (String, Connected, String) {
    let mut conn = SqliteConnection::establish(&file.display().to_string()).expect("the file opens");
    let columns = "SELECT m.name AS name, group_concat('quote(\"' || c.name || '\")', ' || '' '' || ') AS content \
                   FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' GROUP BY m.name";
    let tables: Vec<Line> = sql_query(columns).load(&mut conn).expect("tables");
    let select = |table: &Line| {
        let line = table.content.as_deref().unwrap_or("''");
        format!("SELECT group_concat(line, char(10)) FROM (SELECT {line} AS line FROM \"{}\" ORDER BY 1)", table.name)
    };
    let query = union(tables.iter().map(|table| (table.name.clone(), select(table))));
    let name = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    (name, Connected::Sqlite(conn), query)
}

/// Returns the files below a directory with their sizes. Skips files that vanish meanwhile.
fn files(directory: &Path) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => directories.push(entry.path()),
                Ok(metadata) => files.push((entry.path(), metadata.len())),
                Err(_) => {}
            }
        }
    }
    files
}
