//! Password hashes: argon2id at a small cost, because every command of a client authenticates anew.

use argon2::password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash};
use argon2::{Algorithm, Argon2, Params, Version};

/// KiB of memory and passes per hash.
const MEMORY_KIB: u32 = 4096;
const PASSES: u32 = 1;

/// Hashes a password under a salt of 16 bytes, as a PHC string.
pub(super) fn hash(password: &str, salt: &[u8; 16]) -> Result<String, String> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None).map_err(|e| e.to_string())?;
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hash = hasher.hash_password_with_salt(password.as_bytes(), salt).map_err(|e| e.to_string())?;
    Ok(hash.to_string())
}

/// True when `password` is the one behind `hash`. A hash that cannot be read fits no password.
pub(super) fn fits(password: &str, hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}
