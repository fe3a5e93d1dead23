//! The keys that seal tokens, and secrets that must not be stored in clear text: a file of Fernet keys, one per line.
//!
//! Each line is a key and its state. The `primary` key seals; all keys open. The `staged` key is the next primary, so processes that share
//! or copy the file know it before it seals. `retired` keys open older texts. Without a state, the first line is primary and the others are
//! retired.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cellshift_env::Env;
use cellshift_env::sealer::Sealer;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use fernet::{Fernet, MultiFernet};
use parking_lot::Mutex;
use tokio::time::Instant;
use zeroize::Zeroizing;

/// The time between two checks of a running process whether the file has changed.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The time for which a retired key is kept: longer than any token's lifetime, because it also seals secrets of operations that wait for an
/// operator.
const RETIRED_KEPT: TimeDelta = TimeDelta::days(30);

/// The maximum number of keys in a file, because each garbage token is tried with all of them.
pub const KEYS_MAX: usize = 64;

/// The reason why the file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("the token keys in {} cannot be used: {reason}", path.display())]
    Unusable { path: PathBuf, reason: String },
    #[error("there is no {}: start the service once, and it makes its first token key", path.display())]
    Missing { path: PathBuf },
    #[error(
        "{} holds {KEYS_MAX} keys, and tokens that each of them sealed may still be good: rotate less often, or forget them with --forget-old",
        path.display()
    )]
    Full { path: PathBuf },
}

/// The keys at one moment.
pub struct KeySet {
    fernet: MultiFernet,
}

impl KeySet {
    fn of(keys: &[Key]) -> Option<KeySet> {
        // The stable sort keeps the primary key first, because it has the lowest rank.
        let mut sorted: Vec<&Key> = keys.iter().collect();
        sorted.sort_by_key(|key| !matches!(key.state, State::Primary));
        let fernets: Option<Vec<Fernet>> = sorted.iter().map(|key| Fernet::new(&key.text)).collect();
        fernets.filter(|fernets| !fernets.is_empty()).map(|fernets| KeySet { fernet: MultiFernet::new(fernets) })
    }

    /// Seals bytes for a purpose. [`KeySet::open`] must name the same purpose, so that one kind of secret never passes for another.
    pub fn seal(&self, purpose: &str, bytes: &[u8]) -> String {
        let mut plain = Vec::with_capacity(purpose.len() + 1 + bytes.len());
        plain.extend_from_slice(purpose.as_bytes());
        plain.push(0);
        plain.extend_from_slice(bytes);
        self.fernet.encrypt(&plain)
    }

    /// Opens bytes that any of the keys sealed for this purpose. None if the text is not sealed for it.
    pub fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        let plain = self.fernet.decrypt(sealed).ok()?;
        let bytes = plain.strip_prefix(purpose.as_bytes())?.strip_prefix(&[0])?;
        Some(bytes.to_vec())
    }

    /// Seals a token's text without a purpose, as older releases did.
    pub fn seal_token(&self, text: &[u8]) -> String {
        self.fernet.encrypt(text)
    }

    pub(super) fn open_token(&self, token: &str) -> Option<Vec<u8>> {
        self.fernet.decrypt(token).ok()
    }
}

/// The keys of a file, which are read again when the file changes. Share it as `Arc`.
pub struct KeyRing {
    env: Env,
    kept: Arc<Kept>,
}

/// The file and its last known keys. This part is the environment's sealer, so it must not hold the environment.
struct Kept {
    file: PathBuf,
    last: Mutex<LastLook>,
}

/// The last look at the file.
struct LastLook {
    keys: Arc<KeySet>,
    stamp: Option<Stamp>,
    looked_at: Instant,
}

/// Distinguishes versions of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl KeyRing {
    /// Reads the file, or makes it with its first keys. Restricts the permissions of a file that others can read.
    pub async fn open(env: &Env, file: &Path) -> Result<KeyRing, KeyFileError> {
        let path = file.to_owned();
        let (keys, stamp) = env.run_blocking(move || first_look(&path)).await?;
        let last = LastLook { keys: Arc::new(keys), stamp, looked_at: Instant::now() };
        let kept = Kept { file: file.to_owned(), last: Mutex::new(last) };
        Ok(KeyRing { env: env.clone(), kept: Arc::new(kept) })
    }

    /// Returns the file's keys, at most half a second old. If the file becomes unusable, logs one error per version of the file and keeps
    /// the former keys.
    pub async fn current(&self) -> Arc<KeySet> {
        let before = match self.kept.due(LOOK_EVERY) {
            Ok(keys) => return keys,
            Err(before) => before,
        };
        let path = self.kept.file.clone();
        let seen = self.env.run_blocking(move || look_again(&path, before)).await;
        self.kept.take(seen)
    }

    /// Seals bytes with the primary key, as [`KeySet::seal`] does. Blocks to read the small file if the last check was a while ago.
    pub fn seal(&self, purpose: &str, bytes: &[u8]) -> String {
        self.kept.look(LOOK_EVERY).seal(purpose, bytes)
    }

    /// Opens text from [`KeyRing::seal`], sealed here or in another process, before or after a rotation.
    pub fn unseal(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        self.kept.open(purpose, sealed)
    }

    /// Returns the sealer of secrets that are stored in a record or sent to a host.
    pub fn sealer(&self) -> Arc<dyn Sealer> {
        self.kept.clone()
    }
}

/// The purpose of secrets for [`KeySet::seal`].
const SECRET: &str = "secret";

impl Sealer for Kept {
    fn seal(&self, secret: &[u8]) -> String {
        self.look(LOOK_EVERY).seal(SECRET, secret)
    }

    fn unseal(&self, sealed: &str) -> Option<Zeroizing<Vec<u8>>> {
        self.open(SECRET, sealed).map(Zeroizing::new)
    }
}

impl Kept {
    fn open(&self, purpose: &str, sealed: &str) -> Option<Vec<u8>> {
        let opened = self.look(LOOK_EVERY).open(purpose, sealed);
        opened.or_else(|| self.look(Duration::ZERO).open(purpose, sealed))
    }

    fn look(&self, every: Duration) -> Arc<KeySet> {
        match self.due(every) {
            Ok(keys) => keys,
            Err(before) => self.take(look_again(&self.file, before)),
        }
    }

    /// Returns the keys if the file was checked recently. Otherwise returns the version seen last, and the caller must check the file.
    fn due(&self, every: Duration) -> Result<Arc<KeySet>, Option<Stamp>> {
        let mut last = self.last.lock();
        if last.looked_at.elapsed() < every {
            return Ok(last.keys.clone());
        }
        last.looked_at = Instant::now();
        Err(last.stamp)
    }

    fn take(&self, (stamp, changed): Seen) -> Arc<KeySet> {
        let mut last = self.last.lock();
        last.stamp = stamp;
        match changed {
            Some(Ok(keys)) => {
                log::info!(file:% = self.file.display(); "token keys changed: the new ones are in force");
                last.keys = Arc::new(keys);
            }
            Some(Err(error)) => log::error!("{error}; the keys of before stay in force"),
            None => {}
        }
        last.keys.clone()
    }
}

/// The result of a rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rotated {
    /// The number of older keys that still open.
    pub retired: usize,
    /// The number of dropped keys.
    pub forgotten: usize,
}

/// Makes the staged key primary and stages a new one, in one change of the file. `forget_old` drops all former keys. Rotations of one file
/// run one after the other.
pub fn rotate(file: &Path, now: DateTime<Utc>, forget_old: bool) -> Result<Rotated, KeyFileError> {
    if !file.is_file() {
        return Err(KeyFileError::Missing { path: file.to_owned() });
    }
    let _turn = lock(file)?;
    let before = read(file)?;
    let held: BTreeSet<String> = before.iter().map(|key| key.text.clone()).collect();
    let mut keys = vec![Key { text: Fernet::generate_key(), state: State::Staged }];
    match forget_old {
        true => keys.push(Key { text: Fernet::generate_key(), state: State::Primary }),
        false => keys.extend(aged(before, now)),
    }
    if keys.len() > KEYS_MAX {
        return Err(KeyFileError::Full { path: file.to_owned() });
    }
    replace(file, &render(&keys)).map_err(|error| unusable(file, &error))?;
    let kept = keys.iter().filter(|key| held.contains(&key.text)).count();
    Ok(Rotated { retired: keys.len() - 2, forgotten: held.len() - kept })
}

/// Returns the former keys in their next states: the staged key (or a new one) becomes primary, the primary key retires, and long-retired
/// keys are dropped.
fn aged(before: Vec<Key>, now: DateTime<Utc>) -> Vec<Key> {
    let mut promoted = false;
    let mut keys: Vec<Key> = before
        .into_iter()
        .filter_map(|key| {
            let state = match key.state {
                State::Staged if !promoted => {
                    promoted = true;
                    State::Primary
                }
                State::Staged | State::Primary | State::Retired(None) => State::Retired(Some(now)),
                State::Retired(Some(at)) if at + RETIRED_KEPT < now => return None,
                retired => retired,
            };
            Some(Key { state, ..key })
        })
        .collect();
    if !promoted {
        keys.push(Key { text: Fernet::generate_key(), state: State::Primary });
    }
    keys
}

/// A line of the file.
struct Key {
    text: String,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Primary,
    Staged,
    /// The moment of retirement, unless the line was written by hand.
    Retired(Option<DateTime<Utc>>),
}

impl Key {
    fn parse(line: &str) -> Result<(String, Option<State>), String> {
        let mut words = line.split_whitespace();
        let text = words.next().unwrap_or_default().to_owned();
        if Fernet::new(&text).is_none() {
            return Err("a line does not begin with a Fernet key, which is 32 bytes in URL-safe base64".into());
        }
        let state = match (words.next(), words.next(), words.next()) {
            (None, ..) => None,
            (Some("primary"), None, _) => Some(State::Primary),
            (Some("staged"), None, _) => Some(State::Staged),
            (Some("retired"), None, _) => Some(State::Retired(None)),
            (Some("retired"), Some(at), None) => {
                let at = DateTime::parse_from_rfc3339(at).map_err(|_| "the time after the word retired cannot be read".to_owned())?;
                Some(State::Retired(Some(at.to_utc())))
            }
            _ => return Err("after a key stands primary, staged, or retired with a time".into()),
        };
        Ok((text, state))
    }
}

fn read(file: &Path) -> Result<Vec<Key>, KeyFileError> {
    let text = fs::read_to_string(file).map_err(|error| unusable(file, &error))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parsed: Result<Vec<_>, String> = lines.take(KEYS_MAX + 1).map(Key::parse).collect();
    let parsed = parsed.map_err(|reason| unusable(file, &reason))?;
    if parsed.len() > KEYS_MAX {
        return Err(unusable(file, &format!("it holds more than {KEYS_MAX} keys")));
    }
    let mut has_primary = parsed.iter().any(|(_, state)| *state == Some(State::Primary));
    let mut keys = Vec::new();
    for (text, state) in parsed {
        let state = state.unwrap_or(if has_primary { State::Retired(None) } else { State::Primary });
        has_primary |= state == State::Primary;
        keys.push(Key { text, state });
    }
    match keys.iter().filter(|key| key.state == State::Primary).count() {
        1 => Ok(keys),
        0 => Err(unusable(file, &"none of its keys is the primary one")),
        _ => Err(unusable(file, &"more than one of its keys is the primary one")),
    }
}

fn render(keys: &[Key]) -> String {
    let mut text = String::from("# Token keys, one per line. `cellshift token rotate` changes them; running services notice.\n");
    for key in keys {
        let state = match key.state {
            State::Primary => "primary".to_owned(),
            State::Staged => "staged".to_owned(),
            State::Retired(None) => "retired".to_owned(),
            State::Retired(Some(at)) => format!("retired {}", at.to_rfc3339_opts(SecondsFormat::Secs, true)),
        };
        text.push_str(&format!("{} {state}\n", key.text));
    }
    text
}

fn first_look(file: &Path) -> Result<(KeySet, Option<Stamp>), KeyFileError> {
    if !file.exists() {
        let folder = folder_of(file);
        fs::create_dir_all(folder).map_err(|error| unusable(file, &error))?;
        let _turn = lock(file)?;
        // Another process may have made the file while this one waited for the lock.
        if !file.exists() {
            let first = [State::Primary, State::Staged].map(|state| Key { text: Fernet::generate_key(), state });
            replace(file, &render(&first)).map_err(|error| unusable(file, &error))?;
        }
    }
    tighten(file);
    let stamp = stamp(file);
    Ok((load(file)?, stamp))
}

/// The file's version, and the keys if the version changed.
type Seen = (Option<Stamp>, Option<Result<KeySet, KeyFileError>>);

fn look_again(file: &Path, before: Option<Stamp>) -> Seen {
    let now = stamp(file);
    if now == before {
        return (now, None);
    }
    tighten(file);
    (now, Some(load(file)))
}

fn load(file: &Path) -> Result<KeySet, KeyFileError> {
    KeySet::of(&read(file)?).ok_or_else(|| unusable(file, &"none of its keys is the primary one"))
}

fn stamp(file: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(file).ok()?;
    Some(Stamp { inode: metadata.ino(), length: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) })
}

fn tighten(file: &Path) {
    let Ok(metadata) = fs::metadata(file) else { return };
    if metadata.permissions().mode() & 0o077 == 0 {
        return;
    }
    match fs::set_permissions(file, fs::Permissions::from_mode(0o600)) {
        Ok(()) => log::warn!(file:% = file.display(); "others could read the token keys: the file is its owner's only now"),
        Err(error) => log::error!(file:% = file.display(), error:% = error; "others can read the token keys, and this cannot be changed"),
    }
}

/// Waits for the lock on changes of the file. Dropping the returned file releases it.
fn lock(file: &Path) -> Result<File, KeyFileError> {
    let mut name = file.as_os_str().to_owned();
    name.push(".lock");
    let options = File::options().create(true).truncate(false).write(true).open(PathBuf::from(name));
    let lock = options.map_err(|error| unusable(file, &error))?;
    lock.lock().map_err(|error| unusable(file, &error))?;
    Ok(lock)
}

/// Replaces the file atomically and keeps its owner.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let folder = folder_of(file);
    // tempfile restricts the permissions to the owner.
    let mut fresh = tempfile::NamedTempFile::new_in(folder)?;
    fresh.write_all(text.as_bytes())?;
    if let Ok(before) = fs::metadata(file) {
        keep_owner(&before, &fresh)?;
    }
    fresh.as_file().sync_all()?;
    fresh.persist(file)?;
    File::open(folder)?.sync_all()
}

/// Keeps the file's owner: an administrator may rotate the keys of a service that runs as another user.
fn keep_owner(before: &Metadata, fresh: &tempfile::NamedTempFile) -> std::io::Result<()> {
    let metadata = fresh.as_file().metadata()?;
    if (metadata.uid(), metadata.gid()) == (before.uid(), before.gid()) {
        return Ok(());
    }
    std::os::unix::fs::chown(fresh.path(), Some(before.uid()), Some(before.gid()))
}

fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn unusable(file: &Path, reason: &dyn std::fmt::Display) -> KeyFileError {
    KeyFileError::Unusable { path: file.to_owned(), reason: reason.to_string() }
}
