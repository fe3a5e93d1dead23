//! The place of a database as a text that may be stored and shown: without the password, and without settings that only say how to connect.

use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::connection::is_postgres;

/// The URL settings that identify the database. Other settings may change without naming another database.
const NAMING: [&str; 6] = ["host", "hostaddr", "port", "dbname", "user", "service"];

/// Returns a URL without its password, or a file's path, relative to `data` if the file is below it.
pub fn place_of(url: &str, data: &Path) -> String {
    if is_postgres(url) { of_postgres(url) } else { of_file(url, data) }
}

fn of_postgres(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (rest, settings) = rest.split_once('?').unwrap_or((rest, ""));
    // A password may contain any character, also '@', so the last '@' ends it.
    let (user, address) = match rest.rsplit_once('@') {
        Some((user, address)) => (user.split(':').next().unwrap_or_default(), address),
        None => ("", rest),
    };
    let at = if user.is_empty() { "" } else { "@" };
    let mut naming: Vec<String> = settings.split('&').filter_map(naming_part).collect();
    naming.sort_unstable();
    let naming = if naming.is_empty() { String::new() } else { format!("?{}", naming.join("&")) };
    format!("postgres://{user}{at}{address}{naming}")
}

/// Returns the part of a setting that identifies the database: the whole setting, or the schema that an option of the session names.
fn naming_part(setting: &str) -> Option<String> {
    let (key, value) = setting.split_once('=')?;
    if key != "options" {
        return NAMING.contains(&key).then(|| setting.to_owned());
    }
    let options = percent_decode_str(value).decode_utf8_lossy();
    let mut words = options.split_whitespace().map(|word| word.trim_start_matches("-c").trim_start_matches("--"));
    words.find(|word| word.starts_with("search_path=")).map(str::to_owned)
}

fn of_file(path: &str, data: &Path) -> String {
    let (path, data) = (resolved(Path::new(path)), resolved(data));
    path.strip_prefix(&data).unwrap_or(&path).to_string_lossy().into_owned()
}

/// Makes the path absolute and follows links as far as the path exists.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut missing = Vec::new();
    let mut there = absolute.as_path();
    loop {
        if let Ok(base) = there.canonicalize() {
            return missing.iter().rev().fold(base, |path, part: &Component<'_>| path.join(part));
        }
        match (there.parent(), there.components().next_back()) {
            (Some(parent), Some(last)) => {
                missing.push(last);
                there = parent;
            }
            _ => return absolute,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_the_database_and_no_password() {
        let data = Path::new("/data");
        for (url, place) in [
            ("postgres://me:secret@db/api", "postgres://me@db/api"),
            ("postgresql://me:se@c:ret@db:5433/api?sslmode=require&connect_timeout=3", "postgres://me@db:5433/api"),
            ("postgres:///api?password=secret&host=/run/postgres", "postgres:///api?host=/run/postgres"),
            ("postgres://db/api", "postgres://db/api"),
            ("postgres://db/all?options=-csearch_path%3Dapi", "postgres://db/all?search_path=api"),
            ("postgres://db/all?options=-c%20search_path%3Dapi%20-cjit%3Doff&port=5433", "postgres://db/all?port=5433&search_path=api"),
            ("postgres://db/all?options=-cjit%3Doff", "postgres://db/all"),
        ] {
            assert_eq!(place_of(url, data), place);
        }
    }

    #[test]
    fn a_file_in_the_data_directory_moves_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(place_of(&link.join("api.db").to_string_lossy(), &real), "api.db");
        assert_eq!(place_of(&real.join("not/there/api.db").to_string_lossy(), &link), "not/there/api.db");
        let other = dir.path().join("other.db");
        assert_eq!(place_of(&other.to_string_lossy(), &real), other.canonicalize().unwrap_or(other).to_string_lossy());
    }
}
