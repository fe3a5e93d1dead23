//! Searches for marked values in each file below a data directory and in each column of each database, in any encoding.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cellshift::config::Config;
use diesel::connection::SimpleConnection;
use diesel::sql_types::Text;
use diesel::{Connection, PgConnection, QueryableByName, RunQueryDsl, SqliteConnection, sql_query};
use parking_lot::Mutex;
use regex::bytes::Regex;
use serde_json::Value;

/// A value to search for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    Password(&'static str),
    /// The value before its encoding.
    UserData(&'static str),
    /// An injected file's contents before their encoding.
    File(&'static str),
}

impl Mark {
    pub fn value(self) -> &'static str {
        match self {
            Mark::Password(value) | Mark::UserData(value) | Mark::File(value) => value,
        }
    }

    /// The form in which requests contain it.
    pub fn base64(self) -> String {
        STANDARD.encode(self.value())
    }

    /// The value in the clear, and in JSON, hexadecimal digits and base64, at any place of a longer text.
    fn forms(self) -> Vec<String> {
        let value = self.value();
        let hex: String = value.bytes().map(|byte| format!("{byte:02x}")).collect();
        let quoted = |text: &str| {
            let quoted = Value::from(text).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        };
        // JSON within JSON, too: a context within a row.
        let mut forms = vec![value.to_owned(), quoted(value), quoted(&quoted(value)), hex.to_uppercase(), hex];
        for before in 0..3 {
            let encoded = STANDARD.encode([vec![0; before], value.as_bytes().to_vec()].concat());
            let inner = encoded.trim_end_matches('=');
            // The characters at both ends also depend on the neighbouring bytes.
            forms.push(inner[[0, 2, 3][before]..inner.len() - 1].to_owned());
        }
        // A request's value may have been encoded once more.
        let carried = self.base64();
        forms.push(carried.bytes().map(|byte| format!("{byte:02x}")).collect());
        forms.push(STANDARD.encode(carried).trim_end_matches('=').to_owned());
        forms
    }
}

/// A place of a value: a file's path below the data directory, or a database's name, a table and a column.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Leak {
    pub place: String,
    pub value: &'static str,
}

#[derive(QueryableByName)]
struct Line {
    #[diesel(sql_type = Text)]
    line: String,
}

enum Kind {
    Pg(PgConnection),
    Sqlite(SqliteConnection),
}

/// The values to search for, and the places.
#[derive(Clone)]
pub struct Search {
    config: Config,
    marks: Vec<(Mark, Regex)>,
    /// Matches any value: a file without a match is not searched for each value.
    any: Regex,
    /// The extent to which each file has been searched without a match, with a sign of whether it was written since.
    clean: Arc<Mutex<BTreeMap<PathBuf, (u64, SystemTime)>>>,
}

/// The number of bytes that are read at both ends of a larger file: volumes are mostly holes, and written bytes lie near an end.
const ENDS: u64 = 8 << 20;
/// The number of bytes before a file's growth that are read again.
const OVERLAP: u64 = 4096;

impl Search {
    pub fn new(config: &Config, marks: &[Mark]) -> Search {
        let pattern = |mark: &Mark| mark.forms().iter().map(|form| regex::escape(form)).collect::<Vec<_>>().join("|");
        let compiled = |mark: &Mark| (*mark, Regex::new(&format!("(?-u){}", pattern(mark))).expect("a pattern"));
        let any = marks.iter().map(pattern).collect::<Vec<_>>().join("|");
        let any = Regex::new(&format!("(?-u){any}")).expect("a pattern");
        Search { config: config.clone(), marks: marks.iter().map(compiled).collect(), any, clean: Arc::default() }
    }

    /// Returns the forbidden places of values.
    pub fn leaks(&self, may_be: impl Fn(&str, Mark) -> bool) -> Vec<Leak> {
        let mut leaks = Vec::new();
        self.look_in_files(&self.config.data_dir, &may_be, &mut leaks);
        for (name, url) in self.databases() {
            self.look_in_tables(&name, &url, &may_be, &mut leaks);
        }
        leaks.sort();
        leaks.dedup();
        leaks
    }

    fn look(&self, place: &str, content: &[u8], may_be: &impl Fn(&str, Mark) -> bool, leaks: &mut Vec<Leak>) {
        if !self.any.is_match(content) {
            return;
        }
        let here = self.marks.iter().filter(|(mark, pattern)| pattern.is_match(content) && !may_be(place, *mark));
        leaks.extend(here.map(|(mark, _)| Leak { place: place.to_owned(), value: mark.value() }));
    }

    fn look_in_files(&self, dir: &Path, may_be: &impl Fn(&str, Mark) -> bool, leaks: &mut Vec<Leak>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                self.look_in_files(&path, may_be, leaks);
            } else {
                // A file that disappears meanwhile has no match.
                let _ = self.look_in_file(&path, may_be, leaks);
            }
        }
    }

    fn look_in_file(&self, path: &Path, may_be: &impl Fn(&str, Mark) -> bool, leaks: &mut Vec<Leak>) -> std::io::Result<()> {
        let place = path.strip_prefix(&self.config.data_dir).expect("a path below it").to_string_lossy().into_owned();
        let mut file = File::open(path)?;
        let about = file.metadata()?;
        let (size, written) = (about.len(), about.modified()?);
        let from = match self.clean.lock().get(path) {
            Some((_, before)) if *before == written => return Ok(()),
            // The log of a database only grows until it begins anew; other files are read whole.
            Some((before, _)) if size > *before && place.ends_with("-wal") => before.saturating_sub(OVERLAP),
            _ => 0,
        };
        let parts = if size - from > 2 * ENDS { vec![(from, ENDS), (size - ENDS, ENDS)] } else { vec![(from, size - from)] };
        let before = leaks.len();
        let mut holds = false;
        for (start, length) in parts {
            let mut content = Vec::new();
            file.seek(SeekFrom::Start(start))?;
            std::io::Read::by_ref(&mut file).take(length).read_to_end(&mut content)?;
            holds |= self.any.is_match(&content);
            self.look(&place, &content, may_be, leaks);
        }
        // A value that is allowed now may be forbidden later.
        if !holds && leaks.len() == before {
            self.clean.lock().insert(path.to_owned(), (size, written));
        } else {
            self.clean.lock().remove(path);
        }
        Ok(())
    }

    fn databases(&self) -> Vec<(String, String)> {
        let (database, data) = (&self.config.database, &self.config.data_dir);
        let file = |name: &str| data.join(format!("{name}.db")).to_string_lossy().into_owned();
        let mut all = vec![
            ("api".to_owned(), database.api.clone().unwrap_or_else(|| file("api"))),
            ("services".to_owned(), database.services.clone().unwrap_or_else(|| file("services"))),
        ];
        for number in 0..=self.config.cells.count.unwrap_or(2) {
            let cell = format!("cell{number}");
            let url = database.cells.get(&cell).cloned().unwrap_or_else(|| file(&cell));
            all.push((cell, url));
        }
        all
    }

    fn look_in_tables(&self, name: &str, url: &str, may_be: &impl Fn(&str, Mark) -> bool, leaks: &mut Vec<Leak>) {
        let mut conn = match url.starts_with("postgres") {
            true => Kind::Pg(PgConnection::establish(url).expect("PostgreSQL answers")),
            false => {
                assert!(Path::new(url).is_file(), "there is a database {url}");
                let mut conn = SqliteConnection::establish(url).expect("a database");
                conn.batch_execute("PRAGMA busy_timeout = 10000").expect("SQLite answers");
                Kind::Sqlite(conn)
            }
        };
        let tables = match conn {
            Kind::Pg(_) => "SELECT table_name::text AS line FROM information_schema.tables WHERE table_schema = current_schema()",
            Kind::Sqlite(_) => "SELECT name AS line FROM sqlite_master WHERE type = 'table'",
        };
        let tables = lines(&mut conn, tables);
        assert!(tables.len() > 3, "{name} has its tables: {tables:?}");
        for table in tables {
            let rows = match conn {
                Kind::Pg(_) => format!("SELECT row_to_json(t)::text AS line FROM \"{table}\" t"),
                Kind::Sqlite(_) => {
                    let columns = lines(&mut conn, &format!("SELECT name AS line FROM pragma_table_info('{table}')"));
                    let pairs: Vec<String> = columns.iter().map(|column| format!("'{column}', \"{column}\"")).collect();
                    format!("SELECT json_object({}) AS line FROM \"{table}\"", pairs.join(", "))
                }
            };
            for row in lines(&mut conn, &rows).into_iter().filter(|row| self.any.is_match(row.as_bytes())) {
                let row: Value = serde_json::from_str(&row).expect("a row");
                for (column, value) in row.as_object().expect("columns") {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    self.look(&format!("{name}.{table}.{column}"), text.as_bytes(), may_be, leaks);
                }
            }
        }
    }
}

fn lines(conn: &mut Kind, query: &str) -> Vec<String> {
    let rows: Vec<Line> = match conn {
        Kind::Pg(conn) => sql_query(query).load(conn),
        Kind::Sqlite(conn) => sql_query(query).load(conn),
    }
    .unwrap_or_else(|error| panic!("{query}: {error}"));
    rows.into_iter().map(|line| line.line).collect()
}
