//! Streams of the bytes of disks and images: a stream's pieces are gathered until they are large enough for one write, or pass from one
//! task to another.

use std::fs::File;
use std::io;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use futures::channel::mpsc;
use futures::stream::{Fuse, unfold};
use futures::{SinkExt, Stream, StreamExt};

use crate::Env;
use crate::buffers::{SIZE, next_chunk};

/// A stream of bytes. An error is its last item.
pub type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// Reads a part of a file, in chunks of [`SIZE`].
pub fn of_file(env: &Env, part: io::Take<File>) -> ByteStream {
    let stream = unfold(Some((part, env.clone())), |state| async move {
        let (mut part, env) = state?;
        let chunk = move || {
            let chunk = next_chunk(&mut part);
            (part, chunk)
        };
        match env.run_blocking(chunk).await {
            (_, Ok(chunk)) if chunk.is_empty() => None,
            (part, Ok(chunk)) => Some((Ok(chunk), Some((part, env)))),
            (_, Err(error)) => Some((Err(error), None)),
        }
    });
    Box::pin(stream)
}

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

/// The maximum number of pieces that wait between [`Pieces`] and their stream. Beyond it the sender waits.
const QUEUE: usize = 4;

enum Piece {
    Bytes(Bytes),
    End,
}

/// The sending end of a stream whose other end belongs to another task.
pub struct Pieces(mpsc::Sender<Piece>);

/// The reader of a stream has gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReaderGone;

impl Pieces {
    /// Makes a stream of the bytes that are sent. If the sender is dropped before [`Pieces::end`], the stream breaks off with an error, so
    /// that a part never passes for the whole.
    pub fn stream() -> (Pieces, ByteStream) {
        let (sender, queued) = mpsc::channel(QUEUE);
        let stream = unfold(Some(queued), |queued: Option<mpsc::Receiver<Piece>>| async move {
            let mut queued = queued?;
            match queued.next().await {
                Some(Piece::Bytes(bytes)) => Some((Ok(bytes), Some(queued))),
                Some(Piece::End) => None,
                None => Some((Err(io::Error::from(io::ErrorKind::UnexpectedEof)), None)),
            }
        });
        (Pieces(sender), Box::pin(stream))
    }

    /// Sends bytes, as soon as there is room for them.
    pub async fn send(&mut self, bytes: Bytes) -> Result<(), ReaderGone> {
        self.0.send(Piece::Bytes(bytes)).await.map_err(|_| ReaderGone)
    }

    /// Ends the stream.
    pub async fn end(mut self) -> Result<(), ReaderGone> {
        self.0.send(Piece::End).await.map_err(|_| ReaderGone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_stream_that_was_ended_is_whole() {
        let read = |is_ended: bool| {
            futures::executor::block_on(async {
                let (mut pieces, stream) = Pieces::stream();
                pieces.send(Bytes::from_static(b"some")).await.unwrap();
                if is_ended {
                    pieces.end().await.unwrap();
                } else {
                    drop(pieces);
                }
                stream.map(|piece| piece.ok()).collect::<Vec<_>>().await
            })
        };
        let bytes = Some(Bytes::from_static(b"some"));
        assert_eq!(read(true), std::slice::from_ref(&bytes));
        assert_eq!(read(false), [bytes, None]);
    }

    #[test]
    fn a_sender_learns_that_its_reader_has_gone() {
        let (mut pieces, stream) = Pieces::stream();
        drop(stream);
        assert_eq!(futures::executor::block_on(pieces.send(Bytes::from_static(b"some"))), Err(ReaderGone));
    }

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
