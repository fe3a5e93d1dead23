//! Tests of the folder for files without a record.

use std::fs;

use cellshift_embedded::lost_and_found::*;
use chrono::{DateTime, Utc};

#[test]
fn keep_replaces_nothing_and_purge_takes_only_the_old() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("images");
    fs::create_dir(&folder).unwrap();
    let day = |day: u32| format!("2026-11-{day:02}T08:00:00Z").parse::<DateTime<Utc>>().unwrap();
    assert_eq!(list(dir.path()).unwrap(), []);
    for (content, moment) in [("first", day(20)), ("second", day(20)), ("third", day(22))] {
        fs::write(folder.join("name"), content).unwrap();
        keep(&folder, "name", moment).unwrap();
    }
    fs::write(in_directory(dir.path()).join("notes"), "somebody's own").unwrap();
    let names = |lost: &[Lost]| lost.iter().map(|lost| lost.path.to_string_lossy().into_owned()).collect::<Vec<_>>();
    let old = ["images/20261120T080000Z-name", "images/20261120T080000Z-name.1"];
    let all = [old[0], old[1], "images/20261122T080000Z-name", "notes"];
    assert_eq!(names(&list(dir.path()).unwrap()), all);
    assert_eq!(fs::read_to_string(in_directory(dir.path()).join(old[1])).unwrap(), "second");

    assert_eq!(names(&purge(dir.path(), day(22), true).unwrap()), old);
    assert_eq!(names(&list(dir.path()).unwrap()), all);
    assert_eq!(names(&purge(dir.path(), day(22), false).unwrap()), old);
    assert_eq!(names(&list(dir.path()).unwrap()), all[2..]);
}
