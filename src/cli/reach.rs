//! Finds the service that a command speaks to: a data directory's, a URL's, or a cloud's as openstackclient knows it.

use std::path::Path;

use clap::Args;

use super::{Failure, Place};
use crate::client::credentials::{Credentials, clouds_file};
use crate::client::{ADMIN, CLOUDS_FILE, Client};
use crate::config::Config;

/// The ways to name a service. By default the data directory `cellshift-data` if it exists, else the cloud in `OS_CLOUD`, else the cloud of
/// the other `OS_*` variables.
#[derive(Args, Clone)]
pub(super) struct Reach {
    #[command(flatten)]
    place: Place,
    /// The running service at this URL, such as http://127.0.0.1:8774.
    #[arg(long, value_name = "URL", conflicts_with_all = ["data_dir", "config"])]
    url: Option<String>,
    /// The token for --url [default: the variable OS_TOKEN].
    #[arg(long, value_name = "TOKEN", requires = "url")]
    token: Option<String>,
    /// The running service of this cloud in clouds.yaml, which is searched where openstackclient searches. Without --data-dir, --config,
    /// --url, --os-cloud and a directory cellshift-data, the variables OS_CLOUD or OS_AUTH_URL, OS_USERNAME and so on select the service.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["data_dir", "config", "url"])]
    os_cloud: Option<String>,
}

/// The service or the directory that a command works on.
pub(super) enum Target {
    /// A data directory, whose service may run or not.
    Data(Box<Config>),
    /// A running service.
    Service(Login),
}

/// The credentials for a running service.
#[derive(Clone)]
pub(super) enum Login {
    Token { url: String, token: Option<String> },
    As(Box<Credentials>),
}

impl Login {
    /// Returns the credentials of the administrator of the data directory's service.
    pub(super) fn of_data(config: &Config) -> Result<Login, Failure> {
        Ok(Login::As(Box::new(Credentials::of_cloud(&config.data_dir.join(CLOUDS_FILE), ADMIN)?)))
    }

    pub(super) async fn client(self) -> Result<Client, Failure> {
        Ok(match self {
            Login::Token { url, token } => Client::at(&url, token)?,
            Login::As(credentials) => Client::authenticate(&credentials).await?,
        })
    }
}

impl Reach {
    /// Returns the selected service, without a connection to it.
    pub(super) fn target(self) -> Result<Target, Failure> {
        self.target_in(variable)
    }

    fn target_in(self, variable: impl Fn(&str) -> Option<String>) -> Result<Target, Failure> {
        let cloud = |name: &str| -> Result<Target, Failure> {
            Ok(Target::Service(Login::As(Box::new(Credentials::of_cloud(&clouds_file(&variable), name)?))))
        };
        if let Some(url) = self.url {
            return Ok(Target::Service(Login::Token { url, token: self.token.or_else(|| variable("OS_TOKEN")) }));
        }
        if let Some(name) = self.os_cloud {
            return cloud(&name);
        }
        let is_named = self.place.data_dir.is_some() || self.place.config.is_some();
        let config = self.place.load()?;
        if !is_named && !Path::new(&config.data_dir).is_dir() {
            if let Some(name) = variable("OS_CLOUD") {
                return cloud(&name);
            }
            if variable("OS_AUTH_URL").is_some() {
                return Ok(Target::Service(Login::As(Box::new(Credentials::of_environment(std::env::vars())?))));
            }
        }
        Ok(Target::Data(Box::new(config)))
    }

    /// Returns the credentials for the running service, for commands that outlive a token.
    pub(super) fn login(self) -> Result<Login, Failure> {
        match self.target()? {
            Target::Data(config) => Login::of_data(&config),
            Target::Service(login) => Ok(login),
        }
    }

    /// Returns a client of the running service.
    pub(super) async fn client(self) -> Result<Client, Failure> {
        self.login()?.client().await
    }
}

/// Returns a variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
