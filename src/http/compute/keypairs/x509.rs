//! Certificates: given ones, and new ones with which a user logs in to Windows without a password.

use std::error::Error;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use der::asn1::{Any, GeneralizedTime, ObjectIdentifier, Utf8StringRef};
use der::{Decode as _, Encode as _};
use rand::SeedableRng as _;
use rand::rngs::ChaCha20Rng;
use rsa::PrivateKey;
use rsa::pkcs1v15::{Signature, SigningKey};
use rsa::pkcs8::{EncodePrivateKey as _, LineEnding};
use rsa::signature::Keypair as _;
use sha1::{Digest as _, Sha1};
use sha2::Sha256;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{Builder as _, CertificateBuilder};
use x509_cert::certificate::TbsCertificate;
use x509_cert::ext::pkix::name::{GeneralName, OtherName};
use x509_cert::ext::pkix::{ExtendedKeyUsage, SubjectAltName};
use x509_cert::ext::{Extension, ToExtension as _};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{SubjectPublicKeyInfo, SubjectPublicKeyInfoRef};
use x509_cert::time::{Time, Validity};
use x509_cert::{Certificate, der::EncodePem as _};

use super::material::{Generated, pairs};
use super::pkcs12;

const BITS: usize = 2048;
const DAYS: u64 = 3650;
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");
/// A user principal name, by which Windows finds the account.
const UPN: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.20.2.3");

/// The fingerprint of a certificate in PEM: SHA-1 of its DER in pairs of digits.
pub fn fingerprint(certificate: &str) -> Result<String, String> {
    let (_, after) = certificate.split_once("-----BEGIN CERTIFICATE-----").ok_or("it is not a certificate in PEM")?;
    let (body, _) = after.split_once("-----END CERTIFICATE-----").ok_or("it is not a certificate in PEM")?;
    let text: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    let der = STANDARD.decode(text).map_err(|_| "its base64 cannot be read")?;
    Certificate::from_der(&der).map_err(|error| format!("it is not a certificate: {error}"))?;
    Ok(pairs(&Sha1::digest(der)))
}

/// A user whom a certificate can name.
pub struct Holder(String);

impl Holder {
    /// The user of this id. A common name has at most 64 characters (RFC 5280).
    pub fn new(user: &str) -> Result<Holder, String> {
        match (1..=64).contains(&user.chars().count()) {
            true => Ok(Holder(user.to_owned())),
            false => Err("a certificate names users whose id has 1 to 64 characters".to_owned()),
        }
    }

    fn name(&self) -> der::Result<Name> {
        let common = AttributeTypeAndValue { oid: COMMON_NAME, value: Any::encode_from(&Utf8StringRef::new(&self.0)?)? };
        let parts = RelativeDistinguishedName::try_from(vec![common])?;
        Name::from_der(&RdnSequence::from(vec![parts]).to_der()?)
    }

    fn principal(&self) -> der::Result<SubjectAltName> {
        let value = Any::encode_from(&Utf8StringRef::new(&format!("{}@localhost", self.0))?)?;
        Ok(SubjectAltName(vec![GeneralName::OtherName(OtherName { type_id: UPN, value })]))
    }
}

/// A new RSA pair and its self-signed certificate, all decided by the seed. The private key is in a PKCS#12 file, in base64.
pub fn generate(holder: &Holder, seed: [u8; 32], now: DateTime<Utc>) -> Result<Generated, Box<dyn Error + Send + Sync>> {
    let mut rng = ChaCha20Rng::from_seed(seed);
    let key = PrivateKey::new(&mut rng, BITS)?;
    let signer = SigningKey::<Sha256>::new(key);
    let profile = SelfSigned { name: holder.name()?, principal: holder.principal()? };
    let public = SubjectPublicKeyInfo::from_key(&signer.verifying_key())?;
    let builder = CertificateBuilder::new(profile, SerialNumber::generate(&mut rng), validity(now)?, public)?;
    let certificate = builder.build::<_, Signature>(&signer)?;
    let file = pkcs12::file(signer.to_pkcs8_der()?.as_bytes(), &certificate.to_der()?, &mut rng)?;
    Ok(Generated { public_key: certificate.to_pem(LineEnding::LF)?, private_key: STANDARD.encode(file) })
}

fn validity(now: DateTime<Utc>) -> Result<Validity, Box<dyn Error + Send + Sync>> {
    let start = Duration::from_secs(u64::try_from(now.timestamp())?);
    let moment = |since: Duration| GeneralizedTime::from_unix_duration(since).map(Time::GeneralTime);
    Ok(Validity::new(moment(start)?, moment(start + Duration::from_secs(DAYS * 24 * 60 * 60))?))
}

/// A certificate that says of its holder what Nova's do, and no more.
struct SelfSigned {
    name: Name,
    principal: SubjectAltName,
}

impl BuilderProfile for SelfSigned {
    fn get_issuer(&self, subject: &Name) -> Name {
        subject.clone()
    }

    fn get_subject(&self) -> Name {
        self.name.clone()
    }

    fn build_extensions(
        &self,
        _: SubjectPublicKeyInfoRef<'_>,
        _: SubjectPublicKeyInfoRef<'_>,
        tbs: &TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        let usage = ExtendedKeyUsage(vec![CLIENT_AUTH]).to_extension(tbs.subject(), &[])?;
        let principal = self.principal.to_extension(tbs.subject(), &[])?;
        Ok(vec![usage, principal])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use rsa::pkcs1v15::VerifyingKey;
    use rsa::pkcs8::DecodePublicKey as _;
    use rsa::signature::Verifier as _;
    use rsa::traits::PublicKeyParts as _;
    use rsa::{BoxedUint, PublicKey};

    use super::*;

    /// OpenSSL made this certificate of a key on P-256.
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----
MIIBbDCCAROgAwIBAgIUC76mFN/vwnV0FP0p8tUF2pTb7PUwCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBdTAeFw0yNjExMjMxNDE2MzNaFw0yNjEyMDMxNDE2MzNaMAwx
CjAIBgNVBAMMAXUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARIz6PMW9LtWjoC
FgeVR9TzCVE5Npd9JwVW+YAIN4MHIRuj9vUjHyuXBWn2lMw7yx4YogKXBWu4ZnVo
qxbs0OSro1MwUTAdBgNVHQ4EFgQUUhsAp+BJqovPUzt207NubfO8ADIwHwYDVR0j
BBgwFoAUUhsAp+BJqovPUzt207NubfO8ADIwDwYDVR0TAQH/BAUwAwEB/zAKBggq
hkjOPQQDAgNHADBEAiBpL7RgOdBTdqWzuskBIkJkamJ86p0kjtSuETRVHWm0lAIg
a7jd9h5LP34AozJF43YXfpSiwUa+dzZgfrRszzP2BoY=
-----END CERTIFICATE-----
";

    static MADE: LazyLock<Generated> = LazyLock::new(|| made(1));

    fn moment() -> DateTime<Utc> {
        "2026-11-23T14:16:33.25Z".parse().unwrap()
    }

    fn made(seed: u8) -> Generated {
        generate(&Holder::new("alice").unwrap(), [seed; 32], moment()).unwrap()
    }

    fn der_of(pem: &str) -> Vec<u8> {
        STANDARD.decode(pem.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap()
    }

    #[test]
    fn a_given_certificate_has_its_known_fingerprint() {
        let expected = "74:a9:70:cb:7c:4c:3a:1b:29:4d:e6:15:0a:cc:c0:62:0e:02:f0:e1";
        assert_eq!(fingerprint(CERTIFICATE).unwrap(), expected, "as openssl x509 -fingerprint says");
        assert_eq!(fingerprint(&format!("Subject: CN=u\n{}", CERTIFICATE.replace('\n', "\r\n"))).unwrap(), expected);
    }

    #[test]
    fn a_wrong_certificate_is_refused() {
        let (cut, long) = (CERTIFICATE.replace("a7jd9h5LP34AozJF43YXfpSiwUa+dzZgfrRszzP2BoY=\n", ""), CERTIFICATE.replace("BoY=", "BoYA"));
        let key = CERTIFICATE.replace("CERTIFICATE", "PUBLIC KEY");
        let in_pem = |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        for wrong in ["", "MAA=", &key, &cut, &long, &in_pem("MAA="), &in_pem("!!!!"), &in_pem(""), "-----BEGIN CERTIFICATE-----\n"] {
            assert!(fingerprint(wrong).unwrap_err().starts_with("it"), "{wrong}");
        }
    }

    #[test]
    fn a_new_certificate_verifies_against_its_own_key() {
        let der = der_of(&MADE.public_key);
        let certificate = Certificate::from_der(&der).unwrap();
        let tbs = certificate.tbs_certificate();
        let key = PublicKey::from_public_key_der(&tbs.subject_public_key_info().to_der().unwrap()).unwrap();
        assert_eq!((key.size() * 8, key.e()), (BITS, &BoxedUint::from(65537_u32)));
        let signature = Signature::try_from(certificate.signature().raw_bytes()).unwrap();
        VerifyingKey::<Sha256>::new(key).verify(&tbs.to_der().unwrap(), &signature).unwrap();
    }

    #[test]
    fn a_new_certificate_names_its_user_for_ten_years() {
        let certificate = Certificate::from_der(&der_of(&MADE.public_key)).unwrap();
        let tbs = certificate.tbs_certificate();
        assert_eq!((tbs.subject().to_string().as_str(), tbs.issuer()), ("CN=alice", tbs.subject()));
        let (critical, names) = tbs.get_extension::<SubjectAltName>().unwrap().unwrap();
        let [GeneralName::OtherName(name)] = names.0.as_slice() else { panic!("{names:?}") };
        assert_eq!((critical, name.type_id, name.value.decode_as::<String>().unwrap().as_str()), (false, UPN, "alice@localhost"));
        assert_eq!(tbs.get_extension::<ExtendedKeyUsage>().unwrap().unwrap().1.0, [CLIENT_AUTH]);
        let seconds = |time: Time| i64::try_from(time.to_unix_duration().as_secs()).unwrap();
        let validity = tbs.validity();
        assert_eq!(seconds(validity.not_before), moment().timestamp());
        assert_eq!(seconds(validity.not_after), (moment() + chrono::TimeDelta::days(3650)).timestamp());
    }

    #[test]
    fn the_file_has_the_private_key_of_the_certificate() {
        let (key, certificate) = pkcs12::tests::opened(&STANDARD.decode(&MADE.private_key).unwrap());
        assert_eq!(certificate, der_of(&MADE.public_key));
        assert_eq!(fingerprint(&MADE.public_key).unwrap(), pairs(&Sha1::digest(&certificate)));
        let key = <PrivateKey as rsa::pkcs8::DecodePrivateKey>::from_pkcs8_der(&key).unwrap();
        let certificate = Certificate::from_der(&certificate).unwrap();
        let public = SubjectPublicKeyInfo::from_key(SigningKey::<Sha256>::new(key).verifying_key().as_ref()).unwrap();
        assert_eq!(&public, certificate.tbs_certificate().subject_public_key_info());
    }

    #[test]
    fn the_seed_decides_all() {
        let (again, other) = (made(1), made(2));
        assert_eq!((&again.public_key, &again.private_key), (&MADE.public_key, &MADE.private_key));
        assert_ne!(other.public_key, again.public_key);
    }

    #[test]
    fn only_ids_that_fit_a_common_name_are_certified() {
        for (user, fits) in [("", false), ("a", true), (&"é".repeat(64), true), (&"a".repeat(65), false)] {
            assert_eq!(Holder::new(user).is_ok(), fits, "{user}");
        }
        let strange = Holder::new("a/CN=root,O=é+").unwrap();
        assert_eq!(strange.name().unwrap().iter().count(), 1, "an id is no syntax");
    }
}
