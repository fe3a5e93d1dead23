//! The policy file: YAML, one `name: rule` per line, laid over the built-in rules and read again when it changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::{Duration, SystemTime};

use actix_web::http::StatusCode;

use super::error::{ApiError, ErrorForm};
use crate::domain::context::RequestContext;
use crate::domain::policy::{Policy, PolicyError, Target};
use crate::env::Env;

/// How often [`PolicyEnforcer::watch`] looks at the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why the policy file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    #[error("the policy file {} cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("the policy file {} is not a YAML mapping of rule names to texts: {reason}", path.display())]
    NotRules { path: PathBuf, reason: String },
    #[error("the policy file {} is refused: {source}", path.display())]
    Refused { path: PathBuf, source: PolicyError },
}

/// What tells one version of the file from another.
type Stamp = Option<(SystemTime, u64)>;

/// The rules in force. Share it as `web::Data`.
pub struct PolicyEnforcer {
    path: Option<PathBuf>,
    policy: RwLock<Arc<Policy>>,
}

impl PolicyEnforcer {
    /// The built-in rules alone.
    pub fn built_in() -> Result<PolicyEnforcer, PolicyError> {
        Ok(PolicyEnforcer { path: None, policy: RwLock::new(Arc::new(Policy::new(&BTreeMap::new())?)) })
    }

    /// The built-in rules with those of the file; a file that is not there changes nothing.
    pub fn open(path: &Path) -> Result<PolicyEnforcer, PolicyFileError> {
        Ok(PolicyEnforcer { path: Some(path.to_owned()), policy: RwLock::new(Arc::new(read(path)?)) })
    }

    /// The rules of this moment.
    pub fn current(&self) -> Arc<Policy> {
        self.policy.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// True when the rule allows it.
    pub fn check(&self, rule: &str, context: &RequestContext, target: &Target<'_>) -> bool {
        self.current().check(rule, context, target)
    }

    /// 403 with Nova's message unless the rule allows it.
    pub fn authorize(&self, rule: &str, context: &RequestContext, target: &Target<'_>) -> Result<(), ApiError> {
        match self.check(rule, context, target) {
            true => Ok(()),
            false => {
                let message = format!("Policy doesn't allow {rule} to be performed.");
                Err(ApiError::new(ErrorForm::Compute, StatusCode::FORBIDDEN, message))
            }
        }
    }

    /// Takes the file's rules, if it can be used. Otherwise the present ones stay.
    pub fn reload(&self) -> Result<(), PolicyFileError> {
        let Some(path) = &self.path else { return Ok(()) };
        let policy = Arc::new(read(path)?);
        *self.policy.write().unwrap_or_else(std::sync::PoisonError::into_inner) = policy;
        Ok(())
    }

    /// Looks at the file once a second, for ever, and takes what has changed. A file that cannot be used is an error in the
    /// log, once per version of it.
    pub async fn watch(self: Arc<Self>, env: Env) {
        let Some(path) = self.path.clone() else { return };
        let mut seen: Option<Stamp> = None;
        loop {
            let (looked_at, enforcer) = (path.clone(), self.clone());
            seen = Some(
                env.run_blocking(move || {
                    let now = stamp(&looked_at);
                    if seen != Some(now) {
                        enforcer.take_change(&looked_at, seen.is_some());
                    }
                    now
                })
                .await,
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn take_change(&self, path: &Path, announce: bool) {
        match self.reload() {
            Ok(()) if announce => log::info!(file = path.display().to_string(); "policy file changed: its rules are in force"),
            Ok(()) => {}
            Err(error) => log::error!("{error}; the rules of before stay in force"),
        }
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
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

    fn allowed(enforcer: &PolicyEnforcer) -> bool {
        let caller = RequestContext { roles: vec!["admin".into()], ..RequestContext::default() };
        enforcer.check(RULE, &caller, &Target::default())
    }

    #[test]
    fn a_bad_file_stops_the_start_and_names_the_rule() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.yaml");
        for (text, part) in
            [("\"x\": \"role:\"\n", "\"x\""), ("- a\n- b\n", "YAML mapping"), ("x: [a]\n", "YAML mapping"), ("x: \"rule:y\"\n", "\"y\"")]
        {
            std::fs::write(&path, text).unwrap();
            let error = PolicyEnforcer::open(&path).err().unwrap().to_string();
            assert!(error.contains(part) && error.contains("policy.yaml"), "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_taken_and_a_bad_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.yaml");
        let enforcer = Arc::new(PolicyEnforcer::open(&path).unwrap());
        let env = Env::new(Arc::new(crate::env::SystemClock), Arc::new(crate::env::RandomIds), crate::env::Blocking::Inline);
        let watch = tokio::spawn(enforcer.clone().watch(env));
        assert!(!allowed(&enforcer));
        for (text, expected) in [
            ("# only a comment\n", false),
            ("\"compute:servers:resize:cross_cell\": \"role:admin\"\n", true),
            ("\"compute:servers:resize:cross_cell\": \"role:admin or nonsense\"\n", true),
            ("\"compute:servers:resize:cross_cell\": \"!\"\n", false),
        ] {
            std::fs::write(&path, text).unwrap();
            tokio::time::sleep(LOOK_EVERY * 2).await;
            assert_eq!(allowed(&enforcer), expected, "{text}");
        }
        watch.abort();
    }
}
