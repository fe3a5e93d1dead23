//! The controller's name, with which it signs leases. The name belongs to the data directory, which one process holds at a time, so a lease
//! with this name is from an earlier incarnation of this controller.

use std::path::Path;

use super::{BootstrapError, at};
use crate::env::Env;

/// Returns the name in the data directory's file `controller`. The first start chooses it.
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
