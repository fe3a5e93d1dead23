//! Projects, users and their `clouds.yaml`: made with generated passwords on the first start, kept afterwards.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{BootstrapError, at};
use crate::cli::data_dir::write_private;
use crate::config::Config;
use crate::env::Env;
use crate::services::identity::catalog::REGION;
use crate::services::identity::embedded::{DOMAIN_NAME, ROLES};
use crate::services::identity::{EmbeddedIdentity, Target, UserUpdate};

/// A cloud of `clouds.yaml`, and the account behind it.
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

/// The file that OpenStack clients read.
#[derive(Default, Serialize, Deserialize)]
struct CloudsFile {
    clouds: BTreeMap<String, CloudEntry>,
}

#[derive(Serialize, Deserialize)]
struct CloudEntry {
    auth: Auth,
    region_name: String,
    identity_api_version: String,
}

#[derive(Serialize, Deserialize)]
struct Auth {
    auth_url: String,
    username: String,
    password: String,
    project_name: String,
    user_domain_name: String,
    project_domain_name: String,
}

/// Makes the accounts and writes `clouds.yaml` for the present address. Passwords are those of the file that is there; an
/// account without one in it gets a new one.
pub(super) async fn ensure(config: &Config, env: &Env, identity: &EmbeddedIdentity) -> Result<(), BootstrapError> {
    let path = config.data_dir.join("clouds.yaml");
    let before = read(&path)?;
    for role in ROLES {
        identity.ensure_role(role).await?;
    }
    let mut clouds = BTreeMap::new();
    for account in &ACCOUNTS {
        let known = before.clouds.get(account.cloud).map(|cloud| cloud.auth.password.clone());
        let password = known.clone().unwrap_or_else(|| env.uuid().simple().to_string());
        let project = identity.ensure_project(account.project).await?;
        let user = identity.ensure_user(account.user, &password, Some(&project.id)).await?;
        if known.is_none() {
            // The user may be there from before while the file that held the password is gone.
            identity.update_user(&user.id, UserUpdate { password: Some(password.clone()), ..UserUpdate::default() }).await?;
        }
        identity.ensure_assignment(&user, Target::Project(project.id.clone()), account.role).await?;
        if account.role == "admin" {
            identity.ensure_assignment(&user, Target::System, account.role).await?;
        }
        clouds.insert(account.cloud.to_owned(), entry(config.http.listen, account, password));
    }
    let text = serde_yaml_ng::to_string(&CloudsFile { clouds })
        .map_err(|error| BootstrapError::CloudsFile { path: path.clone(), reason: error.to_string() })?;
    write_private(&path, &text).map_err(at(&path))
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
            auth_url: format!("http://{}/identity", reachable(listen)),
            username: account.user.into(),
            password,
            project_name: account.project.into(),
            user_domain_name: DOMAIN_NAME.into(),
            project_domain_name: DOMAIN_NAME.into(),
        },
        region_name: REGION.into(),
        identity_api_version: "3".into(),
    }
}

/// Where a client on this machine reaches a listener on all addresses.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}
