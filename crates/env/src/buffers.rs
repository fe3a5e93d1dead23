//! Buffers for the bytes of disks and images. The system clears fresh memory page by page, which takes as long as a fifth of a copy, so a few
//! buffers are used again.

use std::io::{ErrorKind, Read, Result};

use bytes::Bytes;
use parking_lot::Mutex;

/// The size of a buffer, in bytes.
pub const SIZE: usize = 1 << 20;
/// The maximum number of buffers that are kept for the next copies.
const KEPT: usize = 8;

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A buffer, and the number of its bytes that are read.
pub struct Buffer {
    bytes: Vec<u8>,
    filled: usize,
}

impl Buffer {
    /// Reads until the buffer is full or the source ends. Unlike `read_to_end`, asks for all at once.
    pub fn filled(from: &mut impl Read) -> Result<Buffer> {
        let mut buffer = Buffer { bytes: SPARE.lock().pop().unwrap_or_else(|| vec![0; SIZE]), filled: 0 };
        while buffer.filled < SIZE {
            match from.read(&mut buffer.bytes[buffer.filled..]) {
                Ok(0) => break,
                Ok(more) => buffer.filled += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(buffer)
    }

    /// Returns the read bytes. The buffer can be used again when they are dropped.
    pub fn freeze(self) -> Bytes {
        if self.filled == 0 { Bytes::new() } else { Bytes::from_owner(self) }
    }
}

/// Reads the next [`SIZE`] bytes, fewer at the end, none after it.
pub fn next_chunk(from: &mut impl Read) -> Result<Bytes> {
    Ok(Buffer::filled(from)?.freeze())
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut spare = SPARE.lock();
        if spare.len() < KEPT {
            spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_buffer_shows_only_what_was_read_into_it() {
        let long = vec![1; SIZE + 7];
        let mut source = long.as_slice();
        let first = Buffer::filled(&mut source).unwrap().freeze();
        assert_eq!((first.len(), source.len()), (SIZE, 7));
        let part = first.slice(3..5);
        drop(first);
        let rest = Buffer::filled(&mut source).unwrap().freeze();
        assert_eq!((&rest[..], &part[..]), (&long[..7], &long[..2]));
        assert!(Buffer::filled(&mut source).unwrap().freeze().is_empty());
    }

    #[test]
    fn few_buffers_are_kept() {
        let many: Vec<Bytes> = (0..2 * KEPT).map(|_| Buffer::filled(&mut &[7_u8][..]).unwrap().freeze()).collect();
        drop(many);
        assert!(SPARE.lock().len() <= KEPT);
    }
}
