//! The configuration that a guest reads at its first boot, and its secrets: kept sealed, and only until the operation ends.

use serde_json::Value;

use super::{Context, Part};
use crate::domain::guest_secrets::GuestSecrets;
use crate::env::Env;
use crate::saga::error::StepError;

/// Returns the configuration and the secrets. An operation of a release that sealed nothing has both in its configuration. Refused if other
/// keys have sealed the secrets.
pub fn read(part: &dyn Part, env: &Env) -> Result<(Value, GuestSecrets), StepError> {
    let Some((config, sealed)) = part.first_boot() else { return Ok((Value::Null, GuestSecrets::default())) };
    let mut config = config.clone();
    let written = GuestSecrets::extract(&mut config);
    match sealed {
        None => Ok((config, written)),
        Some(sealed) => match GuestSecrets::opened(sealed, |text| env.unseal(text)) {
            Some(secrets) => Ok((config, secrets)),
            None => Err(StepError::Refused("the password of the guest was sealed with token keys that are not here".into())),
        },
    }
}

/// Replaces the result of [`read`].
pub fn keep(part: &mut dyn Part, env: &Env, config: Value, secrets: &GuestSecrets) {
    let sealed = secrets.sealed(|bytes| env.seal(bytes));
    part.set_first_boot(config, Some(sealed));
}

impl Context {
    /// Erases the guest's secrets: the operation is over, or the stored copy needs them no more.
    pub fn forget_secrets(&mut self) {
        self.part_mut().set_first_boot(Value::Null, None);
    }

    /// Returns the context without the guest's secrets.
    pub fn without_secrets(&self) -> Context {
        let mut bare = self.clone();
        bare.forget_secrets();
        bare
    }
}
