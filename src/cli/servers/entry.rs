//! A server as people think of it, made of the compute API's answer: names stand beside ids.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::output::{List, entries, text};
use crate::cli::words::there_are;
use crate::client::Client;
use crate::domain::nearest::did_you_mean;

/// The names that servers' answers leave out.
pub(in crate::cli) struct Names {
    /// The cells of hosts.
    cells: BTreeMap<String, String>,
    projects: Projects,
}

/// The names of projects by their ids. Empty if the caller may not list them.
pub(in crate::cli) struct Projects(BTreeMap<String, String>);

impl Projects {
    /// Reads all projects.
    pub(in crate::cli) async fn read(client: &Client) -> Projects {
        // A token for one service's address has no catalog, and some callers may not list projects: ids are shown then.
        let projects = client.get("identity", "/v3/projects").await.unwrap_or_default();
        Projects(pairs(&projects, "projects", ("id", "name")))
    }

    /// Makes the names of these projects.
    #[cfg(test)]
    pub(in crate::cli) fn of(projects: &[(&str, &str)]) -> Projects {
        Projects(projects.iter().map(|(id, name)| ((*id).to_owned(), (*name).to_owned())).collect())
    }

    /// Returns the name of a project, or its id if the name is not known.
    pub(in crate::cli) fn called<'a>(&'a self, id: &'a str) -> &'a str {
        self.0.get(id).map_or(id, String::as_str)
    }
}

impl Names {
    /// Reads the hosts of all cells, and the projects.
    pub(in crate::cli) async fn read(client: &Client) -> Result<Names, Failure> {
        let list = List { path: "/hosts", key: "hosts", id: "name", filters: Vec::new() };
        let hosts = list.read(client, Some(u32::MAX)).await?;
        Ok(Names { cells: pairs(&hosts, "hosts", ("name", "cell")), projects: Projects::read(client).await })
    }

    /// Returns the names of the cells that have hosts.
    pub(in crate::cli) fn cells(&self) -> impl Iterator<Item = &str> {
        let cells: BTreeSet<&str> = self.cells.values().map(String::as_str).collect();
        cells.into_iter()
    }

    /// Returns the cell of a host.
    fn cell_of(&self, host: &str) -> Option<&str> {
        self.cells.get(host).map(String::as_str)
    }

    /// Returns the name of a project.
    fn project(&self, id: &str) -> Option<&str> {
        self.projects.0.get(id).map(String::as_str)
    }

    /// Returns the id of the project with this name or id. The service judges if the projects are not known.
    pub(in crate::cli) fn project_id(&self, name: &str) -> Result<String, Failure> {
        let Projects(projects) = &self.projects;
        if projects.is_empty() || projects.contains_key(name) {
            return Ok(name.to_owned());
        }
        let project = projects.iter().find(|(_, other)| other.as_str() == name);
        project.map(|(id, _)| id.clone()).ok_or_else(|| {
            let names = || projects.values().map(String::as_str);
            format!("--project: none is called {name:?}.{}{}", did_you_mean(name, names()), there_are(names())).into()
        })
    }

    /// Describes a server in a list.
    pub(in crate::cli) fn entry(&self, server: &Value) -> Value {
        let (host, project) = (text(server, "OS-EXT-SRV-ATTR:host"), text(server, "tenant_id"));
        json!({
            "id": server["id"],
            "name": server["name"],
            "cell": self.cell_of(host),
            "host": server["OS-EXT-SRV-ATTR:host"],
            "flavor": server["flavor"]["original_name"],
            "addresses": addresses(server),
            "project_id": project,
            "project": self.project(project),
            "status": server["status"],
            "task_state": server["OS-EXT-STS:task_state"],
            "created": server["created"],
            "updated": server["updated"],
        })
    }
}

/// Returns the addresses of a server in all of its networks.
fn addresses(server: &Value) -> Vec<String> {
    let networks = server["addresses"].as_object().into_iter().flatten();
    let all = networks.flat_map(|(_, addresses)| addresses.as_array().into_iter().flatten());
    all.filter_map(|address| address["addr"].as_str().map(str::to_owned)).collect()
}

/// Returns two fields of a list's entries, the first as the key.
fn pairs(answer: &Value, list: &str, (key, value): (&str, &str)) -> BTreeMap<String, String> {
    entries(answer, list).iter().map(|entry| (text(entry, key).to_owned(), text(entry, value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Names { cells: map(&[("h1", "c1"), ("h2", "c2"), ("h3", "c1")]), projects: Projects::of(&[("p1", "demo")]) }
    }

    #[test]
    fn an_entry_has_the_names_of_cell_and_project() {
        let server = json!({"id": "s", "name": "web", "OS-EXT-SRV-ATTR:host": "h2", "tenant_id": "p1", "flavor": {"original_name": "small"},
            "addresses": {"private": [{"addr": "10.0.0.3"}], "public": [{"addr": "172.24.4.2"}]}, "status": "ACTIVE"});
        let entry = names().entry(&server);
        assert_eq!((&entry["cell"], &entry["project"], &entry["flavor"]), (&json!("c2"), &json!("demo"), &json!("small")));
        assert_eq!(entry["addresses"], json!(["10.0.0.3", "172.24.4.2"]));
        let partial = names().entry(&json!({"id": "s", "status": "UNKNOWN", "tenant_id": "p2"}));
        assert_eq!((&partial["cell"], &partial["project"], &partial["project_id"]), (&Value::Null, &Value::Null, &json!("p2")));
    }

    #[test]
    fn projects_are_known_by_name_and_id() {
        assert_eq!(names().project_id("demo").unwrap(), "p1");
        assert_eq!(names().project_id("p1").unwrap(), "p1");
        let unknown = names().project_id("dem").unwrap_err().to_string();
        assert_eq!(unknown, "--project: none is called \"dem\". Did you mean demo? There are: demo");
        let unlisted = Names { projects: Projects::of(&[]), ..names() };
        assert_eq!(unlisted.project_id("dem").unwrap(), "dem");
        assert_eq!((names().projects.called("p1"), names().projects.called("p2")), ("demo", "p2"));
        assert_eq!(names().cells().collect::<Vec<_>>(), ["c1", "c2"]);
    }
}
