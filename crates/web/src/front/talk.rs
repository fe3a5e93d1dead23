//! The state that a connection's socket and its requests share.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::HttpRequest;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::StatusCode;
use bytes::Bytes;

/// The number of bytes kept of a request's first line, in case the request is refused.
const LINE: usize = 512;

/// The number of bytes kept of an answer's end; longer than any answer of the HTTP library itself.
pub const TAIL: usize = 256;

/// Shared by a connection's socket and its requests, which live on one thread.
#[derive(Default)]
pub struct Talk {
    /// The address of the other end.
    pub peer: Option<IpAddr>,
    /// True if there are too many connections: only a health check is answered on this one.
    pub crowded: bool,
    /// The number of requests and answers that the application is handling.
    at_work: Cell<usize>,
    /// The first bytes of the request that is being read.
    line: RefCell<Vec<u8>>,
    /// The last bytes of the application's last answer.
    tail: RefCell<Vec<u8>>,
    /// The status of the answer to the request that is being read, if it differs from the library's.
    verdict: Cell<Option<StatusCode>>,
    /// True if the connection got an answer that the application does not know of.
    refused: Cell<bool>,
}

/// Returns the request's connection; none without a socket.
pub fn of(request: &HttpRequest) -> Option<Rc<Talk>> {
    request.conn_data::<Rc<Talk>>().cloned()
}

impl Talk {
    /// Makes the state of a new connection.
    pub fn new(peer: Option<IpAddr>, crowded: bool) -> Talk {
        Talk { peer, crowded, ..Talk::default() }
    }

    /// Notes that a request was read. The application handles it until the guard is dropped.
    pub fn begin(self: &Rc<Talk>) -> AtWork {
        self.line.borrow_mut().clear();
        self.at_work.set(self.at_work.get() + 1);
        AtWork { talk: self.clone() }
    }

    /// True while the application handles a request or an answer.
    pub fn is_at_work(&self) -> bool {
        self.at_work.get() > 0
    }

    /// Notes bytes from the client. Bytes between requests begin the next request.
    pub fn arrived(&self, bytes: &[u8]) {
        if !self.is_at_work() {
            let mut line = self.line.borrow_mut();
            let room = LINE.saturating_sub(line.len()).min(bytes.len());
            line.extend_from_slice(&bytes[..room]);
        }
    }

    /// True if a request has begun and its head is incomplete.
    pub fn is_reading_a_head(&self) -> bool {
        !self.is_at_work() && !self.line.borrow().is_empty()
    }

    /// Returns the path of the request that is being read, as far as it has arrived.
    pub fn path(&self) -> String {
        let line = self.line.borrow();
        let first = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let path = first.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        String::from_utf8_lossy(path).into_owned()
    }

    /// Sets the status with which the request that is being read will be refused.
    pub fn condemn(&self, status: StatusCode) {
        self.verdict.set(Some(status));
    }

    /// Returns the status set by [`Talk::condemn`].
    pub fn verdict(&self) -> Option<StatusCode> {
        self.verdict.get()
    }

    /// Notes that the connection ends with an answer that the application does not know of.
    pub fn refuse(&self) {
        self.refused.set(true);
    }

    /// True if [`Talk::refuse`] was called.
    pub fn was_refused(&self) -> bool {
        self.refused.get()
    }

    fn sent(&self, bytes: &[u8]) {
        let mut tail = self.tail.borrow_mut();
        if bytes.len() >= TAIL {
            tail.clear();
            tail.extend_from_slice(&bytes[bytes.len() - TAIL..]);
            return;
        }
        let excess = (tail.len() + bytes.len()).saturating_sub(TAIL);
        tail.drain(..excess);
        tail.extend_from_slice(bytes);
    }

    /// True if the application's last answer ended with these bytes.
    pub fn ended_with(&self, bytes: &[u8]) -> bool {
        self.tail.borrow().ends_with(bytes)
    }
}

/// A request that the application is handling.
pub struct AtWork {
    talk: Rc<Talk>,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.talk.at_work.set(self.talk.at_work.get() - 1);
    }
}

/// Wraps the answer's body: notes its end for the connection, and ends the request once it is sent.
pub fn note(body: BoxBody, at_work: AtWork) -> BoxBody {
    match body.try_into_bytes() {
        Ok(bytes) => {
            at_work.talk.sent(&bytes);
            BoxBody::new(bytes)
        }
        Err(body) if matches!(body.size(), BodySize::None) => body,
        Err(body) => BoxBody::new(Noted { body, at_work }),
    }
}

/// A streamed body.
struct Noted {
    body: BoxBody,
    at_work: AtWork,
}

impl MessageBody for Noted {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let next = Pin::new(&mut self.body).poll_next(cx);
        if let Poll::Ready(Some(Ok(bytes))) = &next {
            self.at_work.talk.sent(bytes);
        }
        next
    }
}
