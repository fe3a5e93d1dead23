//! Whose hosts a cell has: those of this process, or agents of their own. Two hosts of one name would run two guests of one server, so a start
//! is refused that would change the kind. A file in the cell's directory says that a cell has agents.

use std::fs;
use std::path::{Path, PathBuf};

use super::{BootstrapError, file_error};
use crate::config::Config;

/// The file that says that a cell's hosts are agents.
const MARK: &str = "agents";

/// Refuses a configuration by which a cell's hosts would be of another kind than before. Changes nothing. Blocks.
pub(super) fn check(config: &Config) -> Result<(), BootstrapError> {
    for cell in config.nats.keys() {
        let dir = dir_of(config, cell).join("hosts");
        if has_entries(&dir).map_err(file_error(&dir))? {
            return Err(BootstrapError::HostsHere { cell: cell.clone(), dir });
        }
    }
    let cells = config.data_dir.join("cells");
    for cell in names_in(&cells).map_err(file_error(&cells))? {
        let mark = cells.join(&cell).join(MARK);
        if !config.nats.contains_key(&cell) && mark.exists() {
            return Err(BootstrapError::AgentsElsewhere { cell, mark });
        }
    }
    Ok(())
}

/// Notes that a cell's hosts are agents, before any of them can be accepted. Blocks.
pub(super) fn mark(config: &Config, cell: &str) -> Result<(), BootstrapError> {
    let dir = dir_of(config, cell);
    let made = fs::create_dir_all(&dir).and_then(|()| fs::File::create(dir.join(MARK))?.sync_all());
    made.and_then(|()| fs::File::open(&dir)?.sync_all()).map_err(file_error(&dir.join(MARK)))
}

fn dir_of(config: &Config, cell: &str) -> PathBuf {
    config.data_dir.join("cells").join(cell)
}

fn has_entries(dir: &Path) -> std::io::Result<bool> {
    Ok(!names_in(dir)?.is_empty())
}

/// Returns the names in a directory, in order; none if there is no directory.
fn names_in(dir: &Path) -> std::io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect::<std::io::Result<Vec<String>>>()?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Nats;

    fn config(data_dir: &Path, cells: &[&str]) -> Config {
        let nats = Nats { servers: vec!["nats://127.0.0.1:4222".to_owned()], ..Nats::default() };
        let nats = cells.iter().map(|cell| ((*cell).to_owned(), nats.clone())).collect();
        Config { data_dir: data_dir.to_owned(), nats, ..Config::default() }
    }

    #[test]
    fn a_cell_of_agents_gets_no_hosts_of_this_process() {
        let dir = tempfile::tempdir().unwrap();
        let with = config(dir.path(), &["cell1"]);
        check(&with).unwrap();
        mark(&with, "cell1").unwrap();
        mark(&with, "cell1").unwrap();
        check(&with).unwrap();
        let refusal = check(&config(dir.path(), &["cell2"])).unwrap_err().to_string();
        assert!(refusal.starts_with("the hosts of cell cell1 are agents") && refusal.contains("nats.cell1"), "{refusal}");
    }

    #[test]
    fn a_cell_with_hosts_of_this_process_gets_no_agents() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("cells/cell2/hosts/cell2-host1")).unwrap();
        check(&config(dir.path(), &[])).unwrap();
        check(&config(dir.path(), &["cell1"])).unwrap();
        let refusal = check(&config(dir.path(), &["cell2"])).unwrap_err().to_string();
        assert!(refusal.starts_with("nats.cell2: ") && refusal.contains("ran in this process"), "{refusal}");
    }
}
