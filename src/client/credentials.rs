//! A client's credentials and their identity service: a cloud of `clouds.yaml`, or the `OS_*` variables, as openstackclient reads them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::ClientError;
use crate::domain::nearest::did_you_mean;

/// The cloud's settings, with names as in `clouds.yaml`: `auth_url`, `username`, `project_name` and so on.
type Options = BTreeMap<String, String>;

/// The default domain.
const DOMAIN: &str = "default";

/// Credentials for one identity service.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Their origin, for errors.
    pub origin: String,
    /// The identity service's URL, without `/v3`.
    pub auth_url: String,
    /// The body of the request for a token.
    pub body: Value,
}

#[derive(Deserialize)]
struct CloudsFile {
    clouds: BTreeMap<String, CloudEntry>,
}

#[derive(Deserialize)]
struct CloudEntry {
    auth_type: Option<String>,
    auth: BTreeMap<String, Value>,
}

impl Credentials {
    /// Reads a cloud of the file.
    pub fn of_cloud(file: &Path, cloud: &str) -> Result<Credentials, ClientError> {
        let failed = |reason: String| ClientError::NoClouds { path: file.to_owned(), reason };
        let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
        let mut clouds: CloudsFile = serde_yaml_ng::from_str(&text).map_err(|error| failed(error.to_string()))?;
        let entry = clouds.clouds.remove(cloud).ok_or_else(|| {
            let names: Vec<&str> = clouds.clouds.keys().map(String::as_str).collect();
            failed(format!("it has no cloud {cloud}.{} Its clouds: {}", did_you_mean(cloud, names.iter().copied()), names.join(", ")))
        })?;
        let word = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut options: Options = entry.auth.into_iter().map(|(key, value)| (key, word(value))).collect();
        options.extend(entry.auth_type.map(|kind| ("auth_type".to_owned(), kind)));
        Credentials::of_options(cloud.to_owned(), &options)
    }

    /// Reads the `OS_*` variables.
    pub fn of_environment(variables: impl IntoIterator<Item = (String, String)>) -> Result<Credentials, ClientError> {
        let option_of = |(name, value): (String, String)| Some((name.strip_prefix("OS_")?.to_lowercase(), value));
        let options = variables.into_iter().filter_map(option_of).filter(|(_, value)| !value.is_empty()).collect();
        Credentials::of_options("the OS_* variables".to_owned(), &options)
    }

    fn of_options(origin: String, options: &Options) -> Result<Credentials, ClientError> {
        let wrong = |reason: String| ClientError::Credentials { origin: origin.clone(), reason };
        let option = |key: &str| options.get(key).filter(|value| !value.is_empty());
        let needed = |key: &str| option(key).ok_or_else(|| wrong(format!("{key} is missing")));
        let kind = match (option("auth_type"), option("token"), option("password")) {
            (Some(kind), ..) => kind.as_str(),
            (None, Some(_), None) => "token",
            (None, ..) if option("application_credential_secret").is_some() => "v3applicationcredential",
            (None, ..) => "password",
        };
        let proof = match kind {
            "password" | "v3password" => {
                let user = reference(options, "user").ok_or_else(|| wrong("username or user_id is missing".to_owned()))?;
                let password = needed("password")?;
                json!({"methods": ["password"], "password": {"user": with(user, "password", password)}})
            }
            "token" | "v3token" => json!({"methods": ["token"], "token": {"id": needed("token")?}}),
            "v3applicationcredential" => {
                let missing = || wrong("application_credential_id, or application_credential_name and a user, is missing".to_owned());
                let credential = match option("application_credential_id") {
                    Some(id) => json!({ "id": id }),
                    None => {
                        let name = option("application_credential_name").ok_or_else(missing)?;
                        json!({"name": name, "user": reference(options, "user").ok_or_else(missing)?})
                    }
                };
                let proof = with(credential, "secret", needed("application_credential_secret")?);
                json!({"methods": ["application_credential"], "application_credential": proof})
            }
            other => return Err(wrong(format!("auth_type {other} is not known: it must be password, token or v3applicationcredential"))),
        };
        let auth_url = needed("auth_url")?.trim_end_matches('/').trim_end_matches("/v3").trim_end_matches('/').to_owned();
        let mut body = json!({"auth": {"identity": proof}});
        // An application credential has its own scope.
        if kind != "v3applicationcredential"
            && let Some(scope) = scope(options)
        {
            body["auth"]["scope"] = scope;
        }
        Ok(Credentials { origin, auth_url, body })
    }
}

/// Returns the requested scope of the token; none leaves it to the identity service.
fn scope(options: &Options) -> Option<Value> {
    if options.get("system_scope").is_some_and(|scope| scope == "all") {
        return Some(json!({"system": {"all": true}}));
    }
    if let Some(project) = reference(options, "project").or_else(|| reference(options, "tenant")) {
        return Some(json!({ "project": project }));
    }
    let in_domain = |key: &str, value: &String| json!({"domain": {key: value}});
    let id = options.get("domain_id").map(|id| in_domain("id", id));
    id.or_else(|| options.get("domain_name").map(|name| in_domain("name", name)))
}

/// Returns a user or a project by its id, or by its name and domain.
fn reference(options: &Options, what: &str) -> Option<Value> {
    let first = |keys: &[String]| keys.iter().find_map(|key| options.get(key));
    if let Some(id) = first(&[format!("{what}_id")]) {
        return Some(json!({ "id": id }));
    }
    let name = first(&[format!("{what}_name"), format!("{what}name")])?;
    let domain = match (first(&[format!("{what}_domain_id")]), first(&[format!("{what}_domain_name")])) {
        (Some(id), _) => json!({ "id": id }),
        (None, Some(name)) => json!({ "name": name }),
        (None, None) => json!({"id": options.get("default_domain").map_or(DOMAIN, String::as_str)}),
    };
    Some(json!({"name": name, "domain": domain}))
}

fn with(mut object: Value, key: &str, value: &str) -> Value {
    object[key] = value.into();
    object
}

/// Returns the `clouds.yaml` that openstackclient would read: that of `OS_CLIENT_CONFIG_FILE`, of this directory, of the user, or of the
/// machine.
pub fn clouds_file(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    if let Some(path) = variable("OS_CLIENT_CONFIG_FILE").filter(|path| !path.is_empty()) {
        return path.into();
    }
    let home = variable("HOME").unwrap_or_default();
    let of_user = variable("XDG_CONFIG_HOME").map_or_else(|| Path::new(&home).join(".config"), PathBuf::from);
    let here = PathBuf::from("clouds.yaml");
    let candidates = [here.clone(), of_user.join("openstack/clouds.yaml"), PathBuf::from("/etc/openstack/clouds.yaml")];
    candidates.into_iter().find(|file| file.is_file()).unwrap_or(here)
}

#[cfg(test)]
mod tests;
