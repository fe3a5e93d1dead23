//! Streamed bodies, read a little ahead of their handlers. The HTTP library closes a connection as soon as it meets a malformed chunk, so a
//! broken body must be answered at once, even while its handler does something else.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix_http::BoxedPayloadStream;
use actix_web::error::PayloadError;
use bytes::Bytes;
use futures::Stream;

/// The maximum number of bytes read ahead, without the last piece.
const MOST: usize = 64 * 1024;

/// A body that its handler reads and a watch observes. Cheap to clone; clones share the body.
#[derive(Clone)]
pub struct Ahead(Rc<RefCell<Body>>);

struct Body {
    rest: BoxedPayloadStream,
    ended: bool,
    /// The body broke off, so its bytes so far must not pass for the whole body.
    broke: bool,
    read: VecDeque<Bytes>,
    bytes: usize,
    /// The task that waits for more bytes.
    reader: Option<Waker>,
}

impl Ahead {
    /// Wraps a stream.
    pub fn new(rest: BoxedPayloadStream) -> Ahead {
        Ahead(Rc::new(RefCell::new(Body { rest, ended: false, broke: false, read: VecDeque::new(), bytes: 0, reader: None })))
    }

    /// Waits until the body breaks before its handler has met the error.
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
            // The reader may wait in another task.
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
