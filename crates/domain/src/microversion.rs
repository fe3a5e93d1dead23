//! Microversions: parses a client's request and negotiates the version.

use std::fmt;

/// A version of an API, `MAJOR.MINOR`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Microversion {
    pub major: u16,
    pub minor: u16,
}

impl Microversion {
    pub const fn new(major: u16, minor: u16) -> Microversion {
        Microversion { major, minor }
    }

    /// Parses `X.Y` as clients must write it: digits without leading zeros, at most 9999 each.
    pub fn parse(text: &str) -> Option<Microversion> {
        let (major, minor) = text.split_once('.')?;
        Some(Microversion { major: number(major)?, minor: number(minor)? })
    }
}

fn number(text: &str) -> Option<u16> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    if digits && !leading_zero { text.parse().ok() } else { None }
}

impl fmt::Display for Microversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// An API with microversions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionedApi {
    /// Its name in `OpenStack-API-Version`.
    pub service: &'static str,
    /// An older header with the bare version, which the answer repeats.
    pub legacy_header: Option<&'static str>,
    pub min: Microversion,
    pub max: Microversion,
}

/// Compute.
pub const COMPUTE: VersionedApi = VersionedApi {
    service: "compute",
    legacy_header: Some("X-OpenStack-Nova-API-Version"),
    min: Microversion::new(2, 1),
    max: Microversion::new(2, 104),
};

/// Block storage.
pub const VOLUME: VersionedApi =
    VersionedApi { service: "volume", legacy_header: None, min: Microversion::new(3, 0), max: Microversion::new(3, 71) };

/// Placement.
pub const PLACEMENT: VersionedApi =
    VersionedApi { service: "placement", legacy_header: None, min: Microversion::new(1, 0), max: Microversion::new(1, 39) };

/// The reason why no version was agreed on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VersionError {
    /// Answered with 400.
    #[error("API Version String {0} is of invalid format. Must be of format MajorNum.MinorNum.")]
    Malformed(String),
    /// Answered with 406.
    #[error("Version {version} is not supported by the API. Minimum is {min} and maximum is {max}.")]
    Unsupported { version: Microversion, min: Microversion, max: Microversion },
}

impl VersionedApi {
    /// Returns the version for a request. Each value of `OpenStack-API-Version` may be a list of `service version`, of which the last for
    /// this service counts. The older header counts if the first does not name this service. Without either it is the minimum; `latest` is
    /// the maximum.
    pub fn negotiate<'a>(&self, standard: impl Iterator<Item = &'a str>, legacy: Option<&'a str>) -> Result<Microversion, VersionError> {
        let mut text = None;
        for entry in standard.flat_map(|value| value.split(',')) {
            let mut words = entry.split_whitespace();
            if words.next().is_some_and(|service| service.eq_ignore_ascii_case(self.service)) {
                text = Some(words.next().unwrap_or_default());
            }
        }
        let Some(text) = text.or(legacy.map(str::trim)) else {
            return Ok(self.min);
        };
        if text == "latest" {
            return Ok(self.max);
        }
        let version = Microversion::parse(text).ok_or_else(|| VersionError::Malformed(text.to_owned()))?;
        if version < self.min || version > self.max {
            return Err(VersionError::Unsupported { version, min: self.min, max: self.max });
        }
        Ok(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compute(standard: &[&str], legacy: Option<&str>) -> Result<String, VersionError> {
        COMPUTE.negotiate(standard.iter().copied(), legacy).map(|v| v.to_string())
    }

    #[test]
    fn a_client_gets_the_version_it_names() {
        assert_eq!(compute(&[], None).unwrap(), "2.1");
        assert_eq!(compute(&["compute 2.56"], None).unwrap(), "2.56");
        assert_eq!(compute(&["compute latest"], None).unwrap(), "2.104");
        assert_eq!(compute(&["volume 3.50, compute 2.56"], None).unwrap(), "2.56");
        assert_eq!(compute(&["volume 3.50", "Compute 2.56"], Some("2.2")).unwrap(), "2.56");
        assert_eq!(compute(&["volume 3.50"], Some("2.2")).unwrap(), "2.2");
        assert_eq!(compute(&["placement 1.20"], None).unwrap(), "2.1");
        assert_eq!(compute(&[], Some("latest")).unwrap(), "2.104");
    }

    #[test]
    fn others_are_refused() {
        assert_eq!(
            compute(&["compute 2.105"], None).unwrap_err().to_string(),
            "Version 2.105 is not supported by the API. Minimum is 2.1 and maximum is 2.104."
        );
        assert!(matches!(compute(&["compute 2.0"], None), Err(VersionError::Unsupported { .. })));
        assert!(matches!(compute(&["compute 3.1"], None), Err(VersionError::Unsupported { .. })));
        for malformed in ["compute", "compute 2", "compute 2.01", "compute 2.1.1", "compute +2.1", "compute 2.99999", "compute 2.é"] {
            assert!(matches!(compute(&[malformed], None), Err(VersionError::Malformed(_))), "{malformed}");
        }
    }
}
