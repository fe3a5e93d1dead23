//! Streams of the bytes of disks and images: a stream's pieces are gathered until they are large enough for one write.

use std::io;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures::stream::Fuse;
use futures::{Stream, StreamExt};

use crate::buffers::SIZE;

/// A stream of bytes. An error is its last item.
pub type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Whether written bytes must survive a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// The bytes survive.
    Durably,
    /// The bytes may be lost: their sender still has them.
    InPassing,
}

/// Collects a stream into pieces that are large enough for one write. If the caller asks for the next piece while it writes the last one,
/// both proceed concurrently.
pub struct Gathered {
    data: Fuse<ByteStream>,
    pending: BytesMut,
}

impl Gathered {
    /// Wraps `data`.
    pub fn new(data: ByteStream) -> Gathered {
        Gathered { data: data.fuse(), pending: BytesMut::new() }
    }

    /// Returns at least [`SIZE`] bytes, or the rest at the end, and then empty pieces.
    pub async fn next(&mut self) -> io::Result<Bytes> {
        while self.pending.len() < SIZE {
            match self.data.next().await.transpose()? {
                // Passes a large piece on without a copy.
                Some(bytes) if self.pending.is_empty() && bytes.len() >= SIZE => return Ok(bytes),
                Some(bytes) => self.pending.extend_from_slice(&bytes),
                None => break,
            }
        }
        Ok(self.pending.split().freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_gathered_and_whole_ones_passed_on() {
        let pieces = [7, SIZE - 7, SIZE + 1, 3, 4].map(|size| Ok(Bytes::from(vec![1; size])));
        let mut gathered = Gathered::new(Box::pin(futures::stream::iter(pieces)));
        let sizes: Vec<usize> = futures::executor::block_on(async {
            let mut sizes = Vec::new();
            for _ in 0..5 {
                sizes.push(gathered.next().await.unwrap().len());
            }
            sizes
        });
        // After the end, each further call returns an empty piece.
        assert_eq!(sizes, [SIZE, SIZE + 1, 7, 0, 0]);
    }

    #[test]
    fn a_stream_that_breaks_off_is_an_error() {
        let pieces = [Ok(Bytes::from_static(b"some")), Err(io::Error::other("gone"))];
        let mut gathered = Gathered::new(Box::pin(futures::stream::iter(pieces)));
        assert!(futures::executor::block_on(gathered.next()).is_err());
    }
}
