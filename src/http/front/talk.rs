//! The knowledge that a connection's socket and its requests share.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::HttpRequest;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::StatusCode;
use bytes::Bytes;

/// Of a request's first line, what is kept in case it is to be refused.
const LINE: usize = 512;

/// How much of the end of an answer is kept; longer than an answer that the HTTP library makes by itself.
pub const TAIL: usize = 256;

/// Shared by a connection's socket and its requests, which live on one thread.
#[derive(Default)]
pub struct Talk {
    /// The address at the other end.
    pub peer: Option<IpAddr>,
    /// There are too many connections: only a health check is answered on this one.
    pub crowded: bool,
    /// Requests and answers that the application has in hand.
    at_work: Cell<usize>,
    /// How the request begins that is being read.
    line: RefCell<Vec<u8>>,
    /// How the application's last answer ended.
    tail: RefCell<Vec<u8>>,
    /// The status of the answer to the request that is being read will be, if not what the library says.
    verdict: Cell<Option<StatusCode>>,
    /// Something was answered that the application knows nothing of.
    refused: Cell<bool>,
}

/// The request's connection; none without a socket.
pub fn of(request: &HttpRequest) -> Option<Rc<Talk>> {
    request.conn_data::<Rc<Talk>>().cloned()
}

impl Talk {
    /// For a new connection.
    pub fn new(peer: Option<IpAddr>, crowded: bool) -> Talk {
        Talk { peer, crowded, ..Talk::default() }
    }

    /// A request was read and is the application's until the guard is dropped.
    pub fn begin(self: &Rc<Talk>) -> AtWork {
        self.line.borrow_mut().clear();
        self.at_work.set(self.at_work.get() + 1);
        AtWork { talk: self.clone() }
    }

    /// Whether the application has a request or an answer in hand.
    pub fn is_at_work(&self) -> bool {
        self.at_work.get() > 0
    }

    /// Bytes arrived from the client. Those that come between requests begin the next one.
    pub fn arrived(&self, bytes: &[u8]) {
        if !self.is_at_work() {
            let mut line = self.line.borrow_mut();
            let room = LINE.saturating_sub(line.len()).min(bytes.len());
            line.extend_from_slice(&bytes[..room]);
        }
    }

    /// Whether a request has begun and is not whole.
    pub fn is_reading_a_head(&self) -> bool {
        !self.is_at_work() && !self.line.borrow().is_empty()
    }

    /// The path that the request being read asks for, as far as it can be told.
    pub fn path(&self) -> String {
        let line = self.line.borrow();
        let first = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let path = first.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        String::from_utf8_lossy(path).into_owned()
    }

    /// Says how the request that is being read is to be refused.
    pub fn condemn(&self, status: StatusCode) {
        self.verdict.set(Some(status));
    }

    /// How it was said to be refused.
    pub fn verdict(&self) -> Option<StatusCode> {
        self.verdict.get()
    }

    /// Notes that the connection ends with an answer that the application knows nothing of.
    pub fn refuse(&self) {
        self.refused.set(true);
    }

    /// Whether [`Talk::refuse`] was called.
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

    /// Whether the application's last answer ended with these bytes.
    pub fn ended_with(&self, bytes: &[u8]) -> bool {
        self.tail.borrow().ends_with(bytes)
    }
}

/// A request in the application's hands.
pub struct AtWork {
    talk: Rc<Talk>,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.talk.at_work.set(self.talk.at_work.get() - 1);
    }
}

/// The answer's body, its end noted for the connection, and the request over when it was sent.
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
