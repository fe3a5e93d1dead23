//! Packs a data directory into one compressed file. The directory's path is replaced by a mark, so that it can be unpacked elsewhere.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_types::Text;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use regex::bytes::Regex;
use rustix::fs::{SeekFrom, seek};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The mark for the directory's path in files and databases.
const HERE: &str = "@DATA_DIR@";
static MARK: LazyLock<Regex> = LazyLock::new(|| Regex::new(HERE).expect("a pattern"));
/// A larger file is a disk, which contains no path.
const TEXT_MAX: u64 = 1 << 20;

/// All files of a directory.
#[derive(Serialize, Deserialize)]
pub struct Packed {
    files: Vec<PackedFile>,
}

#[derive(Serialize, Deserialize)]
struct PackedFile {
    path: String,
    length: u64,
    /// The offset of a run of bytes, and its bytes in Base64. Holes are left out, because volumes are sparse.
    runs: Vec<(u64, String)>,
}

/// Writes a value as compressed JSON.
pub fn write(value: &impl Serialize, file: &Path) {
    let mut encoder = GzEncoder::new(File::create(file).expect("a file"), Compression::best());
    serde_json::to_writer(&mut encoder, value).expect("JSON");
    encoder.finish().and_then(|mut file| file.flush()).expect("it is written");
}

/// Reads the output of [`write`].
pub fn read<T: DeserializeOwned>(file: &Path) -> T {
    let mut text = String::new();
    GzDecoder::new(File::open(file).expect("a fixture")).read_to_string(&mut text).expect("compressed text");
    serde_json::from_str(&text).expect("JSON")
}

impl Packed {
    /// Packs a directory that nobody uses. Replaces its path by the mark in place.
    pub fn pack(dir: &Path) -> Packed {
        let own = dir.to_str().expect("a path in UTF-8").to_owned();
        let mut files = Vec::new();
        for path in files_below(dir) {
            if path.extension().is_some_and(|extension| extension == "db") {
                replace_in_database(&path, &own, HERE);
            }
        }
        for path in files_below(dir) {
            replace_in_text(&path, &own, HERE);
            let name = path.strip_prefix(dir).expect("below it").to_str().expect("a name in UTF-8").to_owned();
            files.push(PackedFile::pack(name, &path));
        }
        Packed { files }
    }

    /// Unpacks the files into an empty directory.
    pub fn unpack(&self, dir: &Path) {
        let own = dir.to_str().expect("a path in UTF-8");
        for file in &self.files {
            let path = dir.join(&file.path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            let is_marked = file.unpack(&path);
            match path.extension() {
                Some(extension) if extension == "db" => replace_in_database(&path, HERE, own),
                _ if is_marked => replace_in_text(&path, HERE, own),
                _ => {}
            }
        }
    }
}

impl PackedFile {
    fn pack(name: String, path: &Path) -> PackedFile {
        let file = File::open(path).expect("a file");
        let length = file.metadata().expect("its length").len();
        let mut runs = Vec::new();
        let mut at = 0;
        while let Ok(begin) = seek(&file, SeekFrom::Data(at)) {
            at = seek(&file, SeekFrom::Hole(begin)).expect("the end of its bytes");
            let mut run = vec![0; usize::try_from(at - begin).expect("a short run")];
            file.read_exact_at(&mut run, begin).expect("its bytes");
            runs.push((begin, STANDARD.encode(run)));
        }
        PackedFile { path: name, length, runs }
    }

    /// Writes the file, and returns true if its bytes have the mark. Holes have none: to read them as text would take most of the time.
    fn unpack(&self, path: &Path) -> bool {
        let file = File::create(path).expect("a file");
        file.set_len(self.length).expect("its length");
        let mut is_marked = false;
        for (at, run) in &self.runs {
            let bytes = STANDARD.decode(run).expect("Base64");
            is_marked |= MARK.is_match(&bytes);
            file.write_all_at(&bytes, *at).expect("its bytes");
        }
        is_marked
    }
}

fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let entry = entry.expect("an entry");
        match entry.file_type().expect("its type") {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files.sort();
    files
}

fn replace_in_text(path: &Path, from: &str, to: &str) {
    let small = std::fs::metadata(path).expect("a file").len() <= TEXT_MAX;
    if let (true, Ok(text)) = (small, std::fs::read_to_string(path))
        && text.contains(from)
    {
        std::fs::write(path, text.replace(from, to)).expect("it is written");
    }
}

#[derive(QueryableByName)]
struct Named {
    #[diesel(sql_type = Text)]
    name: String,
}

/// Replaces a text in each column of each table, and leaves no log beside the file.
fn replace_in_database(path: &Path, from: &str, to: &str) {
    let mut db = SqliteConnection::establish(path.to_str().expect("a path in UTF-8")).expect("a database");
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let tables: Vec<Named> = diesel::sql_query(tables).load(&mut db).expect("tables");
    for Named { name: table } in tables {
        let columns: Vec<Named> =
            diesel::sql_query(format!("SELECT name FROM pragma_table_info('{table}')")).load(&mut db).expect("columns");
        for Named { name: column } in columns {
            let replace = format!(
                "UPDATE \"{table}\" SET \"{column}\" = replace(\"{column}\", ?, ?) WHERE typeof(\"{column}\") = 'text' AND instr(\"{column}\", ?)"
            );
            let replace = diesel::sql_query(replace).bind::<Text, _>(from).bind::<Text, _>(to).bind::<Text, _>(from);
            replace.execute(&mut db).expect("a column without the text");
        }
    }
    db.batch_execute("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE; VACUUM").expect("one file");
}
