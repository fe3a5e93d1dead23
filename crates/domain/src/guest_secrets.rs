//! The secrets of a guest: its administrator's password, its user data and its injected files. They travel sealed from the request to the
//! guest, and nobody keeps them after the operation.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::secret::{SealKey, Sealed, Secret};

/// A file that is put into a guest when it is defined.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InjectedFile {
    pub path: String,
    /// Base64, as the user sent it.
    pub contents: Secret<String>,
}

/// The secrets of a guest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GuestSecrets {
    pub admin_pass: Option<Secret<String>>,
    /// Base64, as the user sent it.
    pub user_data: Option<Secret<String>>,
    pub files: Vec<InjectedFile>,
}

/// The unsealed form, which exists only during sealing and opening.
#[derive(Serialize, Deserialize)]
struct Opened {
    admin_pass: Option<Zeroizing<String>>,
    user_data: Option<Zeroizing<String>>,
    #[serde(default)]
    files: Vec<(String, Zeroizing<String>)>,
}

impl GuestSecrets {
    /// Seals the secrets with `seal`, which has the keys of the deployment.
    pub fn sealed(&self, seal: impl FnOnce(&[u8]) -> String) -> Sealed {
        Sealed::new(seal(&self.opened_form()))
    }

    /// Seals the secrets for the host with this key; none if `seal` cannot.
    pub fn sealed_for(&self, host: SealKey, seal: impl FnOnce(&str, &[u8]) -> Option<String>) -> Option<Sealed> {
        let text = seal(host.as_str(), &self.opened_form())?;
        Some(Sealed::for_host(host, text))
    }

    fn opened_form(&self) -> Zeroizing<Vec<u8>> {
        let text = |secret: &Secret<String>| Zeroizing::new(secret.expose().clone());
        let opened = Opened {
            admin_pass: self.admin_pass.as_ref().map(text),
            user_data: self.user_data.as_ref().map(text),
            files: self.files.iter().map(|file| (file.path.clone(), text(&file.contents))).collect(),
        };
        // Texts and lists of texts always serialize to JSON.
        Zeroizing::new(serde_json::to_vec(&opened).unwrap_or_default())
    }

    /// Opens sealed secrets; none if `open` lacks the key.
    pub fn opened(sealed: &Sealed, open: impl FnOnce(&str) -> Option<Zeroizing<Vec<u8>>>) -> Option<GuestSecrets> {
        let opened: Opened = serde_json::from_slice(&open(sealed.as_str())?).ok()?;
        let secret = |text: Zeroizing<String>| Secret::new(text.as_str().to_owned());
        Some(GuestSecrets {
            admin_pass: opened.admin_pass.map(secret),
            user_data: opened.user_data.map(secret),
            files: opened.files.into_iter().map(|(path, contents)| InjectedFile { path, contents: secret(contents) }).collect(),
        })
    }

    /// Moves the secrets out of a configuration that was stored in clear text before secrets were sealed.
    pub fn extract(config: &mut Value) -> GuestSecrets {
        let Some(fields) = config.as_object_mut() else { return GuestSecrets::default() };
        let mut text = |key: &str| match fields.remove(key) {
            Some(Value::String(text)) => Some(Secret::new(text)),
            _ => None,
        };
        let (admin_pass, user_data) = (text("admin_pass"), text("user_data"));
        let files = fields.remove("files").map(|files| InjectedFile::list(&files)).unwrap_or_default();
        GuestSecrets { admin_pass, user_data, files }
    }
}

impl InjectedFile {
    /// Parses a request's `personality`.
    pub fn list(personality: &Value) -> Vec<InjectedFile> {
        let text = |file: &Value, key: &str| file[key].as_str().unwrap_or_default().to_owned();
        let file = |file: &Value| InjectedFile { path: text(file, "path"), contents: Secret::new(text(file, "contents")) };
        personality.as_array().into_iter().flatten().map(file).collect()
    }

    /// Returns the file in the guest's form.
    pub fn to_guest(&self) -> Value {
        json!({"path": self.path, "contents": self.contents.expose()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> GuestSecrets {
        let file = InjectedFile { path: "/etc/motd".into(), contents: Secret::new("d2VsY29tZQ==".into()) };
        GuestSecrets { admin_pass: Some(Secret::new("pa55".into())), user_data: Some(Secret::new("aGk=".into())), files: vec![file] }
    }

    #[test]
    fn opened_secrets_are_those_that_were_sealed() {
        let reversed = |bytes: &[u8]| bytes.iter().rev().map(|byte| char::from(*byte)).collect::<String>();
        let sealed = secrets().sealed(reversed);
        let open = |text: &str| Some(Zeroizing::new(text.bytes().rev().collect()));
        assert_eq!(GuestSecrets::opened(&sealed, open), Some(secrets()));
        assert_eq!(GuestSecrets::opened(&sealed, |_| None), None);
    }

    #[test]
    fn secrets_are_not_printed() {
        let sealed = secrets().sealed(|_| "abc".to_owned());
        let printed = format!("{:?} {:#?} {sealed:?}", secrets(), secrets());
        for secret in ["pa55", "aGk=", "d2Vs", "abc"] {
            assert!(!printed.contains(secret), "{printed}");
        }
    }

    #[test]
    fn secrets_written_in_the_clear_are_taken_out() {
        let mut config = json!({
            "name": "web",
            "admin_pass": "pa55",
            "user_data": "aGk=",
            "files": [{"path": "/etc/motd", "contents": "d2VsY29tZQ=="}],
        });
        assert_eq!(GuestSecrets::extract(&mut config), secrets());
        assert_eq!(config, json!({"name": "web"}));
        assert_eq!(GuestSecrets::extract(&mut config), GuestSecrets::default());
    }
}
