//! The policy file: YAML with one `name: rule` per line. Its rules override the built-in ones, and it is read again when it changes.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use crate::domain::context::RequestContext;
use crate::domain::policy::{Policy, PolicyError, Target};

/// The reason why the policy file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    #[error("the policy file {} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("the policy file {} is not a YAML mapping of rule names to texts: {reason}", path.display())]
    NotRules { path: PathBuf, reason: String },
    #[error("the policy file {} is refused: {source}", path.display())]
    Refused { path: PathBuf, source: PolicyError },
}

/// Distinguishes versions of the file: times of content and inode, length, inode. None while there is no file.
type Stamp = Option<[i64; 6]>;

/// The rules in force, and the version of the file that was read last, usable or not.
struct InForce {
    policy: Arc<Policy>,
    read: Stamp,
}

/// The built-in rules with those of the file.
pub struct PolicyFile {
    path: Option<PathBuf>,
    in_force: RwLock<InForce>,
}

impl PolicyFile {
    /// Uses the built-in rules only.
    pub fn built_in() -> Result<PolicyFile, PolicyError> {
        let in_force = InForce { policy: Arc::new(Policy::new(&BTreeMap::new())?), read: None };
        Ok(PolicyFile { path: None, in_force: RwLock::new(in_force) })
    }

    /// Uses the built-in rules and the file's. A missing file changes nothing.
    pub fn open(path: &Path) -> Result<PolicyFile, PolicyFileError> {
        // Takes the stamp first, so that the next request notices a change between the two reads.
        let in_force = InForce { read: stamp(path), policy: Arc::new(read(path)?) };
        Ok(PolicyFile { path: Some(path.to_owned()), in_force: RwLock::new(in_force) })
    }

    /// Returns the present rules. Each call checks the file's stamp, as oslo.policy does, so a change works for the next request. If the
    /// file is unusable, the present rules stay and the log gets one error per version of the file.
    fn current(&self) -> Arc<Policy> {
        let Some(path) = &self.path else { return self.in_force.read().policy.clone() };
        // A stat of a local file takes a microsecond, less than handing it to another thread.
        let now = stamp(path);
        {
            let in_force = self.in_force.read();
            if in_force.read == now {
                return in_force.policy.clone();
            }
        }
        let mut in_force = self.in_force.write();
        if in_force.read != now {
            in_force.read = now;
            match read(path) {
                Ok(policy) => {
                    in_force.policy = Arc::new(policy);
                    log::info!(file = path.display().to_string(); "policy file changed: its rules are in force");
                }
                Err(error) => log::error!("{error}; the previous rules stay in force"),
            }
        }
        in_force.policy.clone()
    }

    /// True if the rule allows the action.
    pub fn check(&self, rule: &str, context: &RequestContext, target: &Target<'_>) -> bool {
        self.current().check(rule, context, target)
    }
}

fn stamp(path: &Path) -> Stamp {
    let seen = std::fs::metadata(path).ok()?;
    // An editor may replace the file by one of equal length within one tick of the clock; then only its inode differs.
    let (length, inode) = (i64::try_from(seen.size()).ok()?, seen.ino().cast_signed());
    Some([seen.mtime(), seen.mtime_nsec(), seen.ctime(), seen.ctime_nsec(), length, inode])
}

fn read(path: &Path) -> Result<Policy, PolicyFileError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(PolicyFileError::Unreadable { path: path.to_owned(), source }),
    };
    let rules: Option<BTreeMap<String, String>> =
        serde_yaml_ng::from_str(&text).map_err(|error| PolicyFileError::NotRules { path: path.to_owned(), reason: error.to_string() })?;
    Policy::new(&rules.unwrap_or_default()).map_err(|source| PolicyFileError::Refused { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = "compute:servers:resize:cross_cell";

    fn allowed(file: &PolicyFile) -> bool {
        let caller = RequestContext { roles: vec!["admin".into()], ..RequestContext::default() };
        file.check(RULE, &caller, &Target::default())
    }

    #[test]
    fn a_bad_file_stops_the_start_and_names_the_rule() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.yaml");
        for (text, part) in
            [("\"x\": \"role:\"\n", "\"x\""), ("- a\n- b\n", "YAML mapping"), ("x: [a]\n", "YAML mapping"), ("x: \"rule:y\"\n", "\"y\"")]
        {
            std::fs::write(&path, text).unwrap();
            let error = PolicyFile::open(&path).err().unwrap().to_string();
            assert!(error.contains(part) && error.contains("policy.yaml"), "{error}");
        }
    }

    #[test]
    fn a_change_holds_for_the_next_check_and_a_bad_one_never() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.yaml");
        let file = PolicyFile::open(&path).unwrap();
        assert!(!allowed(&file));
        for (text, expected) in [
            ("# only a comment\n", false),
            ("\"compute:servers:resize:cross_cell\": \"role:admin\"\n", true),
            ("\"compute:servers:resize:cross_cell\": \"role:admin or nonsense\"\n", true),
            ("\"compute:servers:resize:cross_cell\": \"!\"\n", false),
            ("\"compute:servers:resize:cross_cell\": \"@\"\n", true),
        ] {
            // Replaces the file as editors do: the last two texts have equal length and may have equal times.
            std::fs::write(dir.path().join("new"), text).unwrap();
            std::fs::rename(dir.path().join("new"), &path).unwrap();
            assert_eq!(allowed(&file), expected, "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(!allowed(&file), "without the file the built-in rules are in force");
    }
}
