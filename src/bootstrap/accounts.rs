//! Projects, users and their `clouds.yaml`: made with generated passwords on the first start, kept afterwards.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use cellshift_embedded::identity::catalog::REGION;
use cellshift_embedded::identity::{DOMAIN_NAME, EmbeddedIdentity, Target, UserUpdate};
use serde::{Deserialize, Serialize};

use super::{BootstrapError, file_error};
use crate::config::{Config, Preset};
use crate::env::Env;
use crate::private_file;

/// A cloud of `clouds.yaml`, and its account.
struct Account {
    cloud: &'static str,
    user: &'static str,
    project: &'static str,
    role: &'static str,
}

const ACCOUNTS: [Account; 2] = [
    Account { cloud: "cellshift", user: "demo", project: "demo", role: "member" },
    Account { cloud: "cellshift-admin", user: "admin", project: "admin", role: "admin" },
];
/// DevStack's further account.
const ALT: Account = Account { cloud: "devstack-alt", user: "alt_demo", project: "alt_demo", role: "member" };
/// DevStack's names of the other accounts.
const ALIASES: [(&str, &str); 2] = [("devstack", "cellshift"), ("devstack-admin", "cellshift-admin")];
/// DevStack's cloud in which the administrator has the whole system as the scope, instead of a project.
const SYSTEM_ADMIN: &str = "devstack-system-admin";

/// The file that OpenStack clients read.
#[derive(Default, Serialize, Deserialize)]
struct CloudsFile {
    clouds: BTreeMap<String, CloudEntry>,
}

#[derive(Clone, Serialize, Deserialize)]
struct CloudEntry {
    auth: Auth,
    region_name: String,
    identity_api_version: String,
}

impl CloudEntry {
    fn of_the_system(mut self) -> Self {
        self.auth.scope = Scope::System { system_scope: "all".into() };
        self
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Auth {
    auth_url: String,
    username: String,
    password: String,
    user_domain_name: String,
    #[serde(flatten)]
    scope: Scope,
}

/// The scope of a cloud's tokens, in the words of keystoneauth's options.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Scope {
    Project { project_name: String, project_domain_name: String },
    System { system_scope: String },
}

/// Makes the accounts once per deployment, and writes `clouds.yaml` for the present address. Keeps the passwords in the present file. An
/// account that is not in it gets a new password, unless its user was renamed. Renamed or deleted accounts are not made again.
pub(super) async fn ensure(config: &Config, env: &Env, identity: &EmbeddedIdentity) -> Result<(), BootstrapError> {
    let path = config.data_dir.join("clouds.yaml");
    let mut before = read(&path)?;
    let accounts_exist = identity.accounts_made().await?;
    let is_devstack = before.clouds.contains_key(ALIASES[0].0) || (config.preset == Preset::Devstack && !accounts_exist);
    let mut clouds = BTreeMap::new();
    for account in ACCOUNTS.iter().chain(is_devstack.then_some(&ALT)) {
        let cloud = before.clouds.remove(account.cloud);
        let entry = match (cloud, accounts_exist) {
            (Some(mut cloud), true) => {
                cloud.auth.auth_url = auth_url(config.http.listen);
                cloud
            }
            (None, true) => match identity.user_named(account.user).await? {
                Some(user) => entry(config.http.listen, account, give_password(env, identity, &user.id).await?),
                None => continue,
            },
            (cloud, false) => {
                let password = make(env, identity, account, cloud.map(|cloud| cloud.auth.password)).await?;
                entry(config.http.listen, account, password)
            }
        };
        clouds.insert(account.cloud.to_owned(), entry);
    }
    for (alias, name) in ALIASES.iter().filter(|_| is_devstack) {
        if let Some(entry) = clouds.get(*name).cloned() {
            clouds.insert((*alias).to_owned(), entry);
        }
    }
    if let Some(admin) = clouds.get("devstack-admin") {
        clouds.insert(SYSTEM_ADMIN.to_owned(), admin.clone().of_the_system());
    }
    let text = serde_yaml_ng::to_string(&CloudsFile { clouds })
        .map_err(|error| BootstrapError::CloudsFile { path: path.clone(), reason: error.to_string() })?;
    private_file::write(&path, &text).map_err(file_error(&path))?;
    if !accounts_exist {
        // After the file, so that an interrupted first start leaves nobody without a password.
        identity.note_accounts_made().await?;
    }
    Ok(())
}

/// Makes the missing parts of an account and returns its password: the one from an interrupted first start, or a new one.
async fn make(
    env: &Env,
    identity: &EmbeddedIdentity,
    account: &Account,
    earlier_password: Option<String>,
) -> Result<String, BootstrapError> {
    let project = identity.ensure_project(account.project).await?;
    let there = identity.user_named(account.user).await?;
    let (user, password) = match (there, earlier_password) {
        (Some(user), Some(password)) => (user, password),
        (Some(user), None) => {
            let password = give_password(env, identity, &user.id).await?;
            (user, password)
        }
        (None, earlier_password) => {
            let password = earlier_password.unwrap_or_else(|| env.uuid().simple().to_string());
            (identity.ensure_user(account.user, &password, Some(&project.id)).await?, password)
        }
    };
    identity.ensure_assignment(&user, Target::Project(project.id.clone()), account.role).await?;
    if account.role == "admin" {
        identity.ensure_assignment(&user, Target::System, account.role).await?;
    }
    Ok(password)
}

/// Sets a new password, because the file with the old one is lost or was never written.
async fn give_password(env: &Env, identity: &EmbeddedIdentity, user_id: &str) -> Result<String, BootstrapError> {
    let password = env.uuid().simple().to_string();
    identity.update_user(user_id, UserUpdate { password: Some(password.clone()), ..UserUpdate::default() }).await?;
    Ok(password)
}

fn read(path: &Path) -> Result<CloudsFile, BootstrapError> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            serde_yaml_ng::from_str(&text).map_err(|error| BootstrapError::CloudsFile { path: path.to_owned(), reason: error.to_string() })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(CloudsFile::default()),
        Err(source) => Err(BootstrapError::File { path: path.to_owned(), source }),
    }
}

fn entry(listen: SocketAddr, account: &Account, password: String) -> CloudEntry {
    CloudEntry {
        auth: Auth {
            auth_url: auth_url(listen),
            username: account.user.into(),
            password,
            user_domain_name: DOMAIN_NAME.into(),
            scope: Scope::Project { project_name: account.project.into(), project_domain_name: DOMAIN_NAME.into() },
        },
        region_name: REGION.into(),
        identity_api_version: "3".into(),
    }
}

fn auth_url(listen: SocketAddr) -> String {
    format!("http://{}/identity", reachable(listen))
}

/// Returns an address at which clients on this machine reach a listener on all addresses.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
