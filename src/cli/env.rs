//! `cellshift env`: the variables with which OpenStack's clients find a service.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_yaml_ng::Value;

use super::chaos::quoted;
use super::terminal::say;
use super::{Failure, Place};
use crate::client::CLOUDS_FILE;

/// The clouds of users, of which each preset makes one.
const OF_USERS: [&str; 2] = ["cellshift", "devstack"];

/// The cloud to name.
#[derive(Args)]
pub(super) struct Env {
    #[command(flatten)]
    place: Place,
    /// A cloud of the directory's clouds.yaml, such as cellshift-admin [default: the user's].
    #[arg(long, value_name = "NAME")]
    cloud: Option<String>,
}

/// Prints a line for each variable.
pub(super) fn run(options: Env) -> Result<ExitCode, Failure> {
    let file = options.place.load()?.data_dir.join(CLOUDS_FILE);
    let missing = |error| format!("{} cannot be read: {error}. The first start of the service writes it", file.display());
    let text = std::fs::read_to_string(&file).map_err(missing)?;
    let cloud = selected(&text, options.cloud.as_deref())?;
    for line in lines(&std::fs::canonicalize(&file)?, &cloud) {
        say!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}

fn lines(file: &Path, cloud: &str) -> [String; 2] {
    let set = |name: &str, value: &str| format!("export {name}={}", quoted(value));
    [set("OS_CLIENT_CONFIG_FILE", &file.display().to_string()), set("OS_CLOUD", cloud)]
}

/// Returns the cloud with this name, or the user's.
fn selected(clouds: &str, name: Option<&str>) -> Result<String, Failure> {
    let clouds: Value = serde_yaml_ng::from_str(clouds)?;
    let names: Vec<&str> = clouds["clouds"].as_mapping().into_iter().flat_map(|clouds| clouds.keys()).filter_map(Value::as_str).collect();
    let cloud = match name {
        Some(name) => names.iter().find(|other| **other == name),
        None => OF_USERS.iter().find(|user| names.contains(user)),
    };
    let refusal = || format!("no cloud is called {:?}; there are {}", name.unwrap_or(OF_USERS[0]), names.join(", "));
    Ok((*cloud.ok_or_else(refusal)?).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_cloud_is_named_or_the_wanted_one() {
        let clouds = "clouds:\n  cellshift-admin: {}\n  cellshift: {}\n";
        assert_eq!(selected(clouds, None).unwrap(), "cellshift");
        assert_eq!(selected(clouds, Some("cellshift-admin")).unwrap(), "cellshift-admin");
        assert_eq!(selected("clouds:\n  devstack-admin: {}\n  devstack: {}\n", None).unwrap(), "devstack");
        let unknown = selected(clouds, Some("x")).unwrap_err().to_string();
        assert_eq!(unknown, "no cloud is called \"x\"; there are cellshift-admin, cellshift");
    }

    #[test]
    fn lines_are_quoted_for_a_shell() {
        let exports = lines(Path::new("/tmp/it's here/clouds.yaml"), "cellshift");
        assert_eq!(exports, ["export OS_CLIENT_CONFIG_FILE='/tmp/it'\\''s here/clouds.yaml'", "export OS_CLOUD=cellshift"]);
    }
}
