//! The deployment to which a host's guests belong, as a file in the host's directory says. A controller of another deployment gets no
//! driver for the directory, so it cannot stop, change or remove a guest there.

use std::fs;
use std::io;

use cellshift_domain::reason;
use cellshift_domain::reason::Inside;
use uuid::Uuid;

use super::HostPlace;
use crate::virt::VirtError;
use crate::virt::files::Durability;

/// The file in the host's directory.
const NAME: &str = "deployment";

/// Refuses the directory of another deployment. Accepts a directory without the file: an older release may have made it. Blocking.
pub fn check(place: &HostPlace, deployment: Uuid) -> Result<(), VirtError> {
    match read(place)? {
        Some(owner) if owner != deployment.to_string() => Err(VirtError::Refused(reason!(
            "the directory of host {} is not this deployment's, nothing in it is touched: {}",
            place.host,
            Inside(format!("{} belongs to deployment {owner}, not to deployment {deployment}", place.dir().display()))
        ))),
        _ => Ok(()),
    }
}

/// Checks as [`check`] does, and writes the file durably if it is missing. Blocking.
pub fn take(place: &HostPlace, deployment: Uuid, durability: Durability) -> Result<(), VirtError> {
    check(place, deployment)?;
    if read(place)?.is_none() {
        let made =
            fs::create_dir_all(place.dir()).and_then(|()| durability.replace(&place.dir(), NAME, format!("{deployment}\n").as_bytes()));
        made.map_err(VirtError::io(format!("the directory of host {} cannot be marked", place.host)))?;
    }
    Ok(())
}

fn read(place: &HostPlace) -> Result<Option<String>, VirtError> {
    match fs::read_to_string(place.dir().join(NAME)) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(VirtError::io(format!("the directory of host {} does not say whose it is", place.host))(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellshift_env::Env;

    use crate::{of_deployment, simulated_hypervisors};

    #[test]
    fn a_host_of_another_deployment_gets_no_driver() {
        let dir = tempfile::tempdir().unwrap();
        let place = HostPlace { cell: "cell1".into(), host: "cell1-host1".into(), cell_dir: dir.path().to_owned() };
        let (env, ours, others) = (Env::system(), Uuid::from_u128(1), Uuid::from_u128(2));
        let open = |deployment| of_deployment(deployment, simulated_hypervisors())(&place, &env).map(drop);
        open(ours).unwrap();
        open(ours).unwrap();
        fs::remove_dir(place.guests_dir()).unwrap();
        let refused = open(others).unwrap_err().to_string();
        assert!(refused.contains(&ours.to_string()) && refused.contains(&others.to_string()), "{refused}");
        assert!(!place.guests_dir().exists(), "nothing was made in it");
        assert!(check(&place, others).is_err() && check(&place, ours).is_ok());
    }
}
