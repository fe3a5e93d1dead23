//! A private key and its certificate in one PKCS#12 file (RFC 7292) with an empty password, as Windows takes them. Algorithms and
//! rounds are those of OpenSSL 3, which makes Nova's files.

use aes::cipher::{BlockEncryptMut as _, KeyIvInit as _, block_padding::Pkcs7};
use der::asn1::{Any, ObjectIdentifier, OctetString, SetOfVec};
use der::{Encode as _, EncodeValue, Sequence, Tagged};
use hmac::{Hmac, KeyInit as _, Mac as _};
use pkcs5::{EncryptionScheme, pbes2};
use rand::{Rng, RngExt as _};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use x509_cert::attr::Attribute;
use x509_cert::spki::AlgorithmIdentifierOwned;

const DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.1");
const ENCRYPTED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.6");
const SHROUDED_KEY_BAG: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.10.1.2");
const CERTIFICATE_BAG: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.12.10.1.3");
const X509_CERTIFICATE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.22.1");
const LOCAL_KEY_ID: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.21");
const SHA_256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");

/// Rounds of each derivation. More would guard nothing behind an empty password.
const ROUNDS: u32 = 2048;

#[derive(Sequence)]
struct Pfx {
    version: u8,
    contents: ContentInfo,
    mac: MacData,
}

#[derive(Sequence)]
struct ContentInfo {
    kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    content: Any,
}

#[derive(Sequence)]
struct MacData {
    digest: DigestInfo,
    salt: OctetString,
    rounds: u32,
}

#[derive(Sequence)]
struct DigestInfo {
    algorithm: AlgorithmIdentifierOwned,
    digest: OctetString,
}

#[derive(Sequence)]
struct EncryptedData {
    version: u8,
    contents: EncryptedContents,
}

#[derive(Sequence)]
struct EncryptedContents {
    kind: ObjectIdentifier,
    scheme: EncryptionScheme,
    #[asn1(context_specific = "0", tag_mode = "IMPLICIT")]
    bytes: OctetString,
}

#[derive(Sequence)]
struct EncryptedKey {
    scheme: EncryptionScheme,
    bytes: OctetString,
}

#[derive(Sequence)]
struct SafeBag {
    kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    value: Any,
    attributes: SetOfVec<Attribute>,
}

#[derive(Sequence)]
struct CertificateBag {
    kind: ObjectIdentifier,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    certificate: OctetString,
}

/// The file, in DER, for a key in PKCS#8 and a certificate, both in DER.
pub fn file(key: &[u8], certificate: &[u8], rng: &mut impl Rng) -> der::Result<Vec<u8>> {
    let id = Sha1::digest(certificate);
    let parts = vec![certificates(certificate, &id, rng)?, keys(key, &id, rng)?].to_der()?;
    let salt: [u8; 16] = rng.random();
    let digest = mac(&salt, ROUNDS, &parts)?;
    let algorithm = AlgorithmIdentifierOwned { oid: SHA_256, parameters: Some(Any::null()) };
    let mac =
        MacData { digest: DigestInfo { algorithm, digest: OctetString::new(digest)? }, salt: OctetString::new(salt)?, rounds: ROUNDS };
    Pfx { version: 3, contents: data(parts)?, mac }.to_der()
}

/// The part that holds the certificate.
fn certificates(certificate: &[u8], id: &[u8], rng: &mut impl Rng) -> der::Result<ContentInfo> {
    let bag = CertificateBag { kind: X509_CERTIFICATE, certificate: OctetString::new(certificate)? };
    let (scheme, bytes) = encrypt(&vec![safe_bag(CERTIFICATE_BAG, &bag, id)?].to_der()?, rng)?;
    let encrypted = EncryptedData { version: 0, contents: EncryptedContents { kind: DATA, scheme, bytes } };
    Ok(ContentInfo { kind: ENCRYPTED_DATA, content: Any::encode_from(&encrypted)? })
}

/// The part that holds the key.
fn keys(key: &[u8], id: &[u8], rng: &mut impl Rng) -> der::Result<ContentInfo> {
    let (scheme, bytes) = encrypt(key, rng)?;
    data(vec![safe_bag(SHROUDED_KEY_BAG, &EncryptedKey { scheme, bytes }, id)?].to_der()?)
}

fn data(bytes: Vec<u8>) -> der::Result<ContentInfo> {
    Ok(ContentInfo { kind: DATA, content: Any::encode_from(&OctetString::new(bytes)?)? })
}

/// A bag with the id by which readers find the certificate of a key.
fn safe_bag(kind: ObjectIdentifier, value: &(impl Tagged + EncodeValue), id: &[u8]) -> der::Result<SafeBag> {
    let values = SetOfVec::try_from(vec![Any::encode_from(&OctetString::new(id)?)?])?;
    let attributes = SetOfVec::try_from(vec![Attribute { oid: LOCAL_KEY_ID, values }])?;
    Ok(SafeBag { kind, value: Any::encode_from(value)?, attributes })
}

/// AES-256 in CBC mode under a key derived from the empty password, and how it was done.
fn encrypt(plain: &[u8], rng: &mut impl Rng) -> der::Result<(EncryptionScheme, OctetString)> {
    let (salt, iv): ([u8; 16], [u8; 16]) = (rng.random(), rng.random());
    let scheme = pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(ROUNDS, &salt, iv).map_err(|_| der::ErrorKind::Failed)?;
    let bytes = cbc::Encryptor::<aes::Aes256>::new(&cipher_key(&salt).into(), &iv.into()).encrypt_padded_vec_mut::<Pkcs7>(plain);
    Ok((scheme.into(), OctetString::new(bytes)?))
}

fn cipher_key(salt: &[u8]) -> [u8; 32] {
    pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(b"", salt, ROUNDS)
}

fn mac(salt: &[u8], rounds: u32, parts: &[u8]) -> der::Result<[u8; 32]> {
    let keyed = Hmac::<Sha256>::new_from_slice(&mac_key(salt, rounds)).map_err(|_| der::ErrorKind::Failed)?;
    Ok(keyed.chain_update(parts).finalize().into_bytes().into())
}

/// The key of the MAC (RFC 7292, appendix B): one block of SHA-256 is as long as the key, and an empty password fills its own
/// block with zeros.
fn mac_key(salt: &[u8], rounds: u32) -> [u8; 32] {
    const MAC: u8 = 3;
    let salt_block: Vec<u8> = salt.iter().copied().cycle().take(64).collect();
    let first = Sha256::new().chain_update([MAC; 64]).chain_update(salt_block).chain_update([0; 64]).finalize();
    (1..rounds).fold(first, |hash, _| Sha256::digest(hash)).into()
}

#[cfg(test)]
pub(super) mod tests {
    use aes::cipher::BlockDecryptMut as _;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use der::Decode as _;
    use rand::SeedableRng as _;
    use rand::rngs::ChaCha20Rng;

    use super::*;

    /// OpenSSL 3.0 made this file with `openssl pkcs12 -export -password pass:`, of a key on P-256 and its certificate.
    const OPENSSLS: &str = "\
        MIID/AIBAzCCA7IGCSqGSIb3DQEHAaCCA6MEggOfMIIDmzCCAlIGCSqGSIb3DQEHBqCCAkMwggI/AgEAMIICOAYJKoZIhvcNAQcBMFcGCSqGSIb3DQEFDTBKMCkG\
        CSqGSIb3DQEFDDAcBAgg5lT8yQt8dwICCAAwDAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEIPCfQ4MH0WzaGEpmfO+kMuAggHQjL9KUNK9dbRoen4HsUtSIPYZ\
        gSjTdCFH4o2Y4KRX5bWLfs4Ne3cAvSVGNUiKw+mKxoMlcqHh5BY+GAQlRQSh9XsH2JE/w/zGJ/cvR7LuvpAGH4z6C3fX6P2AJntI3qlhVJPx899xAhyMiZKbkPrl\
        OnGVYB77H7IZYDDQHlwfnruusxB4B1HJQL+z8nN7Rz1fw3fZMQxmpxR8kJIiuymKBzKh2Mnmn6o0suSq5wC67LrLhurfTqo+xSMsBaFN5COTTETcBmlt4FNRhAtC\
        hThWibj3z4PfGibAgzbl6cSUHD30QEVnQvFOcQojp9svjDWkMYke/CyceH7Z3lYnRPuxcNoOp+ZGVErBH3QJWjKHWuJmNNnDTzK4GdLwVsN84iQlOcZ8X3ODP16w\
        B8RuwkHyqYSaIrLPbpDbus/DBGsBpBOhhlvEeUz7N/Rg62iYVJseXTy1DF7UzgJGwRg9YKT9xkm/Tpscb6+CpymMBsz8I1/VNq0rHkV+QKSnnKlLUhmH1q3VTtbI\
        FabSs28ssjvRQzux8m+a6oZ0YnG2qVP03Cn/JWC7oIg25+IdQGyvJ9j9QHw1dJQ+hIjDyhX0q81e3Naps4jqN2ktrWD2LI1OgqkwggFBBgkqhkiG9w0BBwGgggEy\
        BIIBLjCCASowggEmBgsqhkiG9w0BDAoBAqCB7zCB7DBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQwwHAQI7UJGzO7aKxkCAggAMAwGCCqGSIb3DQIJBQAwHQYJ\
        YIZIAWUDBAEqBBAYPwuj25UasSxe8cyGX3SQBIGQIwVP9AV0mqbMN/HANf7KGCVONxvjAp587SmyBPMpK0BMftv3fd230NCJch00Cxj1Wwff6VMWWxayDT+bEwJi\
        uBe/2zlrZVHH4CNReyzOLnZSs/7c294dFX2jl2JY8so37UZO/0hVgYfJICTd1ub4Y6/sMtd+l4R+mc7rguzGUQSgWsDOzN+cpHO0jKBZ6ODYMSUwIwYJKoZIhvcN\
        AQkVMRYEFHSpcMt8TDobKU3mFQrMwGIOAvDhMEEwMTANBglghkgBZQMEAgEFAAQg4pCFMM6yWaBX7H8Szidd\
        p7f2C8eSRMM8zYv70Ro2P44ECLVuM0aAwnL7AgIIAA==";

    fn bytes_of(content: &Any) -> Vec<u8> {
        content.decode_as::<OctetString>().unwrap().into_bytes().to_vec()
    }

    fn decrypt(scheme: &EncryptionScheme, bytes: &OctetString) -> Vec<u8> {
        let parameters = scheme.pbes2().unwrap();
        let pbes2::EncryptionScheme::Aes256Cbc { iv } = parameters.encryption else { panic!("{:?}", parameters.encryption) };
        let kdf = parameters.kdf.pbkdf2().unwrap();
        assert_eq!((kdf.iteration_count, kdf.prf), (ROUNDS, pbes2::Pbkdf2Prf::HmacWithSha256));
        let opener = cbc::Decryptor::<aes::Aes256>::new(&cipher_key(kdf.salt.as_ref()).into(), &iv.into());
        opener.decrypt_padded_vec_mut::<Pkcs7>(bytes.as_bytes()).unwrap()
    }

    /// The key and the certificate of a file whose MAC is right, and whose bags name each other.
    pub fn opened(file: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let file = Pfx::from_der(file).unwrap();
        let parts = bytes_of(&file.contents.content);
        let MacData { digest, salt, rounds } = file.mac;
        assert_eq!(mac(salt.as_bytes(), rounds, &parts).unwrap(), digest.digest.as_bytes());
        let [certificates, keys] = <[ContentInfo; 2]>::try_from(Vec::from_der(&parts).unwrap()).ok().unwrap();
        let EncryptedContents { scheme, bytes, .. } = certificates.content.decode_as::<EncryptedData>().unwrap().contents;
        let [certificate] = <[SafeBag; 1]>::try_from(Vec::from_der(&decrypt(&scheme, &bytes)).unwrap()).ok().unwrap();
        let [key] = <[SafeBag; 1]>::try_from(Vec::from_der(&bytes_of(&keys.content)).unwrap()).ok().unwrap();
        assert_eq!(certificate.attributes, key.attributes);
        let key = key.value.decode_as::<EncryptedKey>().unwrap();
        let certificate = certificate.value.decode_as::<CertificateBag>().unwrap();
        (decrypt(&key.scheme, &key.bytes), certificate.certificate.into_bytes().to_vec())
    }

    #[test]
    fn a_file_that_openssl_made_is_read() {
        let text: String = OPENSSLS.split_whitespace().collect();
        let (key, certificate) = opened(&STANDARD.decode(text).unwrap());
        rsa::pkcs8::PrivateKeyInfoRef::try_from(key.as_slice()).unwrap();
        let id = "74:a9:70:cb:7c:4c:3a:1b:29:4d:e6:15:0a:cc:c0:62:0e:02:f0:e1";
        assert_eq!(super::super::material::pairs(&Sha1::digest(certificate)), id, "as openssl x509 -fingerprint says");
    }

    #[test]
    fn a_new_file_holds_its_key_and_certificate() {
        let container = file(b"the key", b"the certificate", &mut ChaCha20Rng::from_seed([1; 32])).unwrap();
        assert_eq!(opened(&container), (b"the key".to_vec(), b"the certificate".to_vec()));
        let other = file(b"the key", b"the certificate", &mut ChaCha20Rng::from_seed([2; 32])).unwrap();
        assert_ne!(container, other, "salts are drawn anew");
    }
}
