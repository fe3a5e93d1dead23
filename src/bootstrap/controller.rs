//! The controller's name, under which it signs leases. It belongs to the data directory, which one process holds at a time: a
//! lease under one's own name is that of a life that is over.

use std::path::Path;

use super::{BootstrapError, at};
use crate::env::Env;

/// The name in the data directory's file `controller`; the first start chooses it.
pub(super) fn name(data: &Path, env: &Env) -> Result<String, BootstrapError> {
    let file = data.join("controller");
    if let Ok(name) = std::fs::read_to_string(&file)
        && !name.trim().is_empty()
    {
        return Ok(name.trim().to_owned());
    }
    let name = format!("controller-{}", env.uuid());
    let partial = file.with_extension("partial");
    std::fs::write(&partial, &name).and_then(|()| std::fs::rename(&partial, &file)).map_err(at(&file))?;
    Ok(name)
}
