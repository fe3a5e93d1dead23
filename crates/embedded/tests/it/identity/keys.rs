//! Tests of the keys that a rotation keeps, and of the processes that notice it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cellshift_embedded::identity::keys::{KEYS_MAX, KeyFileError, KeyRing, KeySet, Rotated, rotate};
use cellshift_env::{Blocking, Env, RandomIds, SystemClock};
use chrono::{DateTime, TimeDelta, Utc};
use fernet::Fernet;
use futures::executor::block_on;

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys");
    (folder, file)
}

fn at(days: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000 + days)
}

fn lines(file: &Path) -> Vec<String> {
    fs::read_to_string(file).unwrap().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

/// Returns the keys that a process has which starts now. The file is made if there is none.
fn opened(file: &Path) -> Arc<KeySet> {
    let env = Env::new(Arc::new(SystemClock), Arc::new(RandomIds), Blocking::Inline);
    block_on(async { KeyRing::open(&env, file).await.unwrap().current().await })
}

/// Returns the key with this state.
fn key(file: &Path, state: &str) -> String {
    let lines = lines(file);
    let line = lines.iter().find(|line| line.split(' ').nth(1) == Some(state)).unwrap();
    line.split(' ').next().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_running_process_takes_rotated_keys_within_a_second() {
    let (_folder, file) = folder();
    let ring = KeyRing::open(&Env::system(), &file).await.unwrap();
    let sealed = ring.seal("test", b"secret");
    assert_eq!(mode(&file), 0o600);

    let staged = key(&file, "staged");
    assert_eq!(rotate(&file, at(0), false).unwrap(), Rotated { retired: 1, forgotten: 0 });
    assert_eq!((key(&file, "primary"), mode(&file)), (staged, 0o600), "the staged key is what processes know already");
    let after = KeyRing::open(&Env::system(), &file).await.unwrap().seal("test", b"newer");
    assert_eq!(ring.unseal("test", &after).unwrap(), b"newer", "known before it was the primary key");

    assert_eq!(rotate(&file, at(0), true).unwrap(), Rotated { retired: 0, forgotten: 3 });
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ring.unseal("test", &sealed), None, "its key was forgotten");
    let newest = KeyRing::open(&Env::system(), &file).await.unwrap().seal("test", b"newest");
    assert_eq!(ring.unseal("test", &newest).unwrap(), b"newest");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_breaks_leaves_the_keys_of_before_in_force() {
    let (_folder, file) = folder();
    let ring = KeyRing::open(&Env::system(), &file).await.unwrap();
    let sealed = ring.seal("test", b"secret");
    for broken in ["", "nonsense", "# nothing\n"] {
        fs::write(&file, broken).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(ring.unseal("test", &sealed).unwrap(), b"secret");
        assert!(rotate(&file, at(0), false).unwrap_err().to_string().contains("cannot be used"));
        assert!(KeyRing::open(&Env::system(), &file).await.is_err());
    }
    fs::remove_file(&file).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(ring.unseal("test", &sealed).unwrap(), b"secret");
    assert!(matches!(rotate(&file, at(0), false), Err(KeyFileError::Missing { .. })));
}

#[tokio::test]
async fn a_secret_opens_only_for_the_purpose_it_was_sealed_for() {
    let (_folder, file) = folder();
    let keys = KeyRing::open(&Env::system(), &file).await.unwrap().current().await;
    let sealed = keys.seal("password", b"\0secret");
    assert_eq!(keys.open("password", &sealed).unwrap(), b"\0secret");
    assert_eq!(keys.open("pass", &sealed), None);
    assert_eq!(keys.open("", &keys.seal_token(b"{}")), None);
    assert_eq!(keys.open("password", "nonsense"), None);
}

#[test]
fn a_file_without_states_is_rotated_and_keeps_all_its_keys() {
    let (_folder, file) = folder();
    let (first, second) = (Fernet::generate_key(), Fernet::generate_key());
    fs::write(&file, format!("# by hand\n{first}\n\n{second}\n")).unwrap();
    let sealed = opened(&file).seal("test", b"old");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Fernet::new(&first).unwrap().decrypt(&sealed).is_ok(), "the first line seals");
    rotate(&file, at(0), false).unwrap();
    assert_eq!(mode(&file), 0o600);
    let states: Vec<_> = lines(&file).iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(states, ["staged", "retired", "retired", "primary"]);
    assert_eq!(opened(&file).open("test", &sealed).unwrap(), b"old");
}

#[test]
fn retired_keys_are_dropped_after_a_month_and_bounded_before() {
    let (_folder, file) = folder();
    let sealed = opened(&file).seal("test", b"old");
    rotate(&file, at(0), false).unwrap();
    assert_eq!(rotate(&file, at(29), false).unwrap(), Rotated { retired: 2, forgotten: 0 });
    assert!(opened(&file).open("test", &sealed).is_some());
    assert_eq!(rotate(&file, at(31), false).unwrap(), Rotated { retired: 2, forgotten: 1 });
    assert!(opened(&file).open("test", &sealed).is_none());

    let refused = (0..KEYS_MAX).find_map(|_| rotate(&file, at(31), false).err()).unwrap();
    assert!(refused.to_string().contains("--forget-old"), "{refused}");
    assert_eq!(lines(&file).len(), KEYS_MAX);
    assert_eq!(rotate(&file, at(31), true).unwrap().forgotten, KEYS_MAX);
    assert_eq!(lines(&file).len(), 2);
}

#[test]
fn rotations_at_once_take_turns_and_lose_no_key() {
    let (_folder, file) = folder();
    let before = opened(&file);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| rotate(&file, at(0), false).unwrap());
        }
    });
    let held: BTreeSet<String> = lines(&file).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(held.len(), 10, "two at first, and one more with each of eight rotations");
    assert!(opened(&file).open("test", &before.seal("test", b"secret")).is_some());
}

#[test]
fn services_that_start_at_once_agree_on_the_first_key() {
    let (_folder, file) = folder();
    let sets: Vec<Arc<KeySet>> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8).map(|_| scope.spawn(|| opened(&file))).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    let sealed = sets[0].seal("test", b"secret");
    assert!(sets.iter().all(|keys| keys.open("test", &sealed).is_some()));
}
