//! The configuration that a guest reads at its first boot: its password as a hash, its user data as a checksum because the disk of a
//! simulated guest holds neither, and its files as given.

use cellshift_domain::guest::GuestSpec;
use cellshift_domain::guest_secrets::{GuestSecrets, InjectedFile};
use cellshift_domain::reason;
use serde_json::{Value, json};
use sha_crypt::{PasswordHasher, ShaCrypt};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::host::CommandError;
use super::key::HostKey;

/// Returns the guest's specification without sealed values. Refused if they were sealed for another host.
pub(super) fn unsealed(spec: &GuestSpec, operation: Uuid, key: &HostKey) -> Result<GuestSpec, CommandError> {
    let mut config = spec.config_drive.clone();
    // A release without seals has them in the configuration.
    let mut secrets = GuestSecrets::extract(&mut config);
    if let Some(sealed) = &spec.sealed {
        secrets = key.opened(sealed)?;
    }
    if let Some(fields) = config.as_object_mut() {
        let salt = salt(spec.server, operation);
        let hash = secrets.admin_pass.map(|password| crypt(password.expose(), &salt)).transpose()?;
        let user_data = secrets.user_data.filter(|text| !text.expose().is_empty());
        fields.insert("admin_pass_hash".into(), json!(hash));
        fields.insert("user_data_sha256".into(), json!(user_data.map(|text| hex::encode(Sha256::digest(text.expose())))));
        fields.insert("files".into(), Value::Array(secrets.files.iter().map(InjectedFile::to_guest).collect()));
    }
    Ok(GuestSpec { config_drive: config, sealed: None, ..spec.clone() })
}

/// Returns an operation's salt: a repeated try gives the same hash, and another operation another one.
pub(super) fn salt(server: Uuid, operation: Uuid) -> [u8; 16] {
    let digest = Sha256::digest([server.as_bytes().as_slice(), operation.as_bytes()].concat());
    let mut salt = [0; 16];
    salt.copy_from_slice(&digest[..16]);
    salt
}

/// Returns SHA-256 of `crypt(3)`, as a guest's `/etc/shadow` may have it. Many processors have instructions for SHA-256, and few for
/// SHA-512, so that a create takes less time.
pub(super) fn crypt(password: &str, salt: &[u8]) -> Result<String, CommandError> {
    let hash = ShaCrypt::SHA256.hash_password_with_salt(password.as_bytes(), salt);
    let hash = hash.map_err(|error| CommandError::Failed(reason!("the guest's password cannot be hashed: {error}")))?;
    Ok(hash.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use sha_crypt::PasswordVerifier;

    use super::*;
    use cellshift_domain::flavor::Flavor;
    use cellshift_domain::guest::DiskSource;
    use cellshift_domain::secret::Secret;
    use cellshift_env::key_pair::seal_for;

    use crate::HostPlace;
    use crate::virt::files::Durability;

    fn key(dir: &tempfile::TempDir, host: &str) -> HostKey {
        let place = HostPlace { cell: "cell1".into(), host: host.into(), cell_dir: dir.path().to_owned() };
        HostKey::open(&place, Durability::Relaxed).unwrap()
    }

    fn spec(config_drive: Value) -> GuestSpec {
        GuestSpec {
            server: Uuid::from_u128(1),
            instance_name: "instance-00000001".into(),
            flavor: Flavor::default(),
            disks: DiskSource::Volume,
            volumes: vec![],
            vifs: vec![],
            config_drive,
            sealed: None,
        }
    }

    fn verified(built: &GuestSpec, password: &str) -> bool {
        let hash = built.config_drive["admin_pass_hash"].as_str().unwrap();
        ShaCrypt::default().verify_password(password.as_bytes(), hash).is_ok()
    }

    #[test]
    fn a_guest_verifies_its_password_and_knows_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, others) = (key(&dir, "host1"), key(&dir, "host2"));
        let secrets = GuestSecrets {
            admin_pass: Some(Secret::new("pa55".into())),
            user_data: Some(Secret::new("dXNlciBkYXRh".into())),
            files: InjectedFile::list(&json!([{"path": "/etc/motd", "contents": "aGk="}])),
        };
        let sealed = secrets.sealed_for(ours.public(), seal_for).unwrap();
        let request = GuestSpec { sealed: Some(sealed), ..spec(json!({"name": "web"})) };
        let built = unsealed(&request, Uuid::from_u128(2), &ours).ok().unwrap();
        assert!(verified(&built, "pa55") && !verified(&built, "pa56"));
        assert!(!built.config_drive.to_string().contains("dXNlciBkYXRh"));
        assert_eq!(built.config_drive["user_data_sha256"], hex::encode(Sha256::digest("dXNlciBkYXRh")));
        assert_eq!(built.config_drive["files"], json!([{"path": "/etc/motd", "contents": "aGk="}]));
        assert_eq!((built.config_drive["name"].as_str(), built.sealed), (Some("web"), None));
        let elsewhere = unsealed(&request, Uuid::from_u128(2), &others);
        assert!(matches!(elsewhere, Err(CommandError::Refused(_))), "for another host");
    }

    #[test]
    fn a_request_in_the_clear_is_understood() {
        let (written, dir) = (spec(json!({"admin_pass": "pa55", "user_data": null, "files": []})), tempfile::tempdir().unwrap());
        let built = unsealed(&written, Uuid::from_u128(2), &key(&dir, "host1")).ok().unwrap();
        assert!(verified(&built, "pa55") && built.config_drive.get("admin_pass").is_none());
        assert_eq!(built.config_drive["user_data_sha256"], Value::Null);
    }

    #[test]
    fn a_guest_that_moved_gets_no_configuration() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(unsealed(&spec(Value::Null), Uuid::nil(), &key(&dir, "host1")).ok(), Some(spec(Value::Null)));
    }
}
