//! The files of images and volumes beside their records, for the audit.

use std::path::PathBuf;

use uuid::Uuid;

/// The bytes of an image or volume, according to its record and its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredBytes {
    pub id: Uuid,
    pub path: PathBuf,
    /// The file's length; none if the file is missing.
    pub length: Option<u64>,
    /// The length according to the record.
    pub expected: u64,
    /// Allows a longer file, because guests write behind a volume's end.
    pub at_least: bool,
    /// The number of bytes that the service wrote from the beginning, and their SHA-256; none in a record of an older release.
    pub content: Option<(u64, String)>,
}

impl StoredBytes {
    /// True if the file exists with the expected length.
    pub fn fits(&self) -> bool {
        self.length.is_some_and(|length| length == self.expected || (self.at_least && length > self.expected))
    }
}
