//! Streamed bodies, read a little ahead of their handlers. What breaks while a handler does something else must be answered at once: the
//! HTTP library closes a connection as soon as it meets a chunk that is none.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix_http::BoxedPayloadStream;
use actix_web::error::PayloadError;
use bytes::Bytes;
use futures::Stream;

/// How much is read ahead, in bytes, but for the last piece.
const MOST: usize = 64 * 1024;

/// A body that its handler and a watch over it read together. Cheap to clone; clones are the same body.
#[derive(Clone)]
pub struct Ahead(Rc<RefCell<Body>>);

struct Body {
    rest: BoxedPayloadStream,
    ended: bool,
    /// The body ended by breaking: nobody may take what was read for the whole.
    broke: bool,
    read: VecDeque<Bytes>,
    bytes: usize,
    /// The task that waits for more.
    reader: Option<Waker>,
}

impl Ahead {
    /// The body that this stream brings.
    pub fn new(rest: BoxedPayloadStream) -> Ahead {
        Ahead(Rc::new(RefCell::new(Body { rest, ended: false, broke: false, read: VecDeque::new(), bytes: 0, reader: None })))
    }

    /// Ready when the body breaks before its handler has met that.
    pub async fn broken(&self) -> PayloadError {
        std::future::poll_fn(|cx| self.0.borrow_mut().poll_broken(cx)).await
    }
}

impl Body {
    fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<PayloadError> {
        while !self.ended && self.bytes < MOST {
            match self.rest.as_mut().poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Err(error))) => {
                    (self.ended, self.broke) = (true, true);
                    return Poll::Ready(error);
                }
                Poll::Ready(Some(Ok(piece))) => {
                    self.bytes += piece.len();
                    self.read.push_back(piece);
                }
                Poll::Ready(None) => self.ended = true,
            }
            // The reader may wait in a task of its own.
            if let Some(reader) = self.reader.take() {
                reader.wake();
            }
        }
        Poll::Pending
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, PayloadError>>> {
        if let Some(piece) = self.read.pop_front() {
            self.bytes -= piece.len();
            return Poll::Ready(Some(Ok(piece)));
        }
        if self.ended {
            return Poll::Ready(self.broke.then(|| Err(PayloadError::Incomplete(None))));
        }
        let next = self.rest.as_mut().poll_next(cx);
        match &next {
            Poll::Pending => self.reader = Some(cx.waker().clone()),
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(_) => self.ended = true,
        }
        next
    }
}

impl Stream for Ahead {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.borrow_mut().poll_next(cx)
    }
}
