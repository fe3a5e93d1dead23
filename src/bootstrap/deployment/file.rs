//! `deployment.toml` in the data directory: the deployment's id, and the places of its databases.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::private_file;
use crate::virt::files::names_in;

/// The file's name.
pub const NAME: &str = "deployment.toml";

const HEAD: &str = "# Whose directory this is and where its databases are, as the last start found them. Written by cellshift;\n\
                    # docs/operating/starting.md says when to edit it.\n";

/// The progress of marking the databases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The first start has begun: a database may still be empty.
    Making,
    /// A release with marks has begun its first start over unmarked databases: a mark may be missing.
    Adopting,
    /// All databases are marked.
    Whole,
}

/// The places of the databases, without passwords. Files below the data directory are relative to it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Places {
    pub api: String,
    pub services: String,
    #[serde(default)]
    pub cells: BTreeMap<String, String>,
}

/// The file's contents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeploymentFile {
    pub id: Uuid,
    pub state: State,
    pub database: Places,
}

/// A data directory as a start finds it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Directory {
    pub file: Option<DeploymentFile>,
    /// True if a start has finished in it, or it contains images, volumes or guests.
    pub is_used: bool,
    /// The ids of images and volumes whose files are here.
    pub bytes: BTreeSet<String>,
    /// The ids of servers whose guests are here.
    pub guests: BTreeSet<String>,
}

/// Reads a data directory. An error names the file.
pub fn read(data: &Path) -> Result<Directory, String> {
    let path = data.join(NAME);
    let message = |error: &dyn std::fmt::Display| format!("{} cannot be read: {error}", path.display());
    let file = match fs::read_to_string(&path) {
        Ok(text) => Some(toml::from_str(&text).map_err(|error| message(&error.to_string().trim_end()))?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(message(&error)),
    };
    let unreadable = |error: io::Error| format!("the data directory {} cannot be listed: {error}", data.display());
    let mut bytes = BTreeSet::new();
    for folder in ["images", "volumes"] {
        bytes.extend(ids_in(&data.join(folder)).map_err(unreadable)?);
    }
    let mut guests = BTreeSet::new();
    let cells = data.join("cells");
    for cell in names_in(&cells).map_err(unreadable)? {
        let hosts = cells.join(cell).join("hosts");
        for host in names_in(&hosts).map_err(unreadable)? {
            guests.extend(ids_in(&hosts.join(host).join("guests")).map_err(unreadable)?);
        }
    }
    let is_used = data.join("samples-made").exists() || !bytes.is_empty() || !guests.is_empty();
    Ok(Directory { file, is_used, bytes, guests })
}

/// Replaces the file durably.
pub fn write(data: &Path, file: &DeploymentFile) -> io::Result<()> {
    let text = toml::to_string(file).map_err(io::Error::other)?;
    private_file::write(&data.join(NAME), &format!("{HEAD}{text}"))?;
    File::open(data)?.sync_all()
}

fn ids_in(folder: &Path) -> io::Result<impl Iterator<Item = String>> {
    Ok(names_in(folder)?.into_iter().filter(|name| Uuid::parse_str(name).is_ok()))
}
