//! A connection's socket. It handles cases that the HTTP library does not: heads that never end on a reused connection, clients that do not
//! read their answers, and answers that the library makes itself.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use actix_web::http::StatusCode;
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::talk::Talk;
use super::{Door, refusal};
use crate::pace::{Meter, Pace};

/// The time in which a refused client can read the reason before its connection is cut.
const FAREWELL: Duration = Duration::from_secs(1);

/// The number of bytes that a refused client may still send in this time.
const FAREWELL_BYTES: usize = 1 << 20;

/// The socket that the HTTP library reads and writes.
pub struct Wire {
    stream: Rc<TcpStream>,
    pub talk: Rc<Talk>,
    door: Door,
    /// The maximum time of a request's head from its first byte on.
    head_patience: Duration,
    head: Option<Pin<Box<Sleep>>>,
    /// The head took too long: the library got a byte that no head may contain, so that it ends the connection.
    ended: bool,
    writing: Meter,
    /// The answer to write in place of the library's own.
    instead: Option<Bytes>,
}

impl Wire {
    /// Wraps a socket. `takes` is the minimum rate at which the client must read its answers.
    pub fn new(stream: Rc<TcpStream>, talk: Rc<Talk>, door: Door, head_patience: Duration, takes: Pace) -> Wire {
        Wire { stream, talk, door, head_patience, head: None, ended: false, writing: Meter::new(takes), instead: None }
    }

    /// Ready once an incomplete head has taken too long.
    fn poll_head_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let expected = self.talk.is_reading_a_head() || (self.talk.crowded && !self.talk.is_at_work());
        if !expected || self.writing.is_waiting() {
            self.head = None;
            return Poll::Pending;
        }
        let patience = self.head_patience;
        self.head.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience))).as_mut().poll(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        loop {
            let sent = match self.stream.poll_write_ready(cx) {
                Poll::Ready(Ok(())) => self.stream.try_write(bytes),
                Poll::Ready(Err(error)) => Err(error),
                Poll::Pending => {
                    ready!(self.writing.poll_too_slow(cx));
                    log::info!(peer:? = self.talk.peer; "a connection is cut: its client does not take the answer");
                    return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
                }
            };
            match sent {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Ok(count) => {
                    self.writing.moved(count);
                    return Poll::Ready(Ok(count));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        loop {
            let result = match self.stream.poll_read_ready(cx) {
                Poll::Ready(result) => result.and_then(|()| self.stream.try_read(buf.initialize_unfilled())),
                Poll::Pending => {
                    ready!(self.poll_head_late(cx));
                    if !self.ended {
                        self.ended = true;
                        self.talk.condemn(StatusCode::REQUEST_TIMEOUT);
                        buf.put_slice(b"\0");
                    }
                    return Poll::Ready(Ok(()));
                }
            };
            match result {
                Ok(count) => {
                    let filled = buf.filled().len();
                    buf.advance(count);
                    // The library may not have polled since the last request, so a timer from then must not count for the head that begins
                    // here.
                    if !self.talk.is_reading_a_head() {
                        self.head = None;
                    }
                    self.talk.arrived(&buf.filled()[filled..]);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        if self.instead.is_none()
            && let Some((start, status)) = refusal::made_by_the_library(buf, &self.talk)
        {
            if start > 0 {
                return self.poll_send(cx, &buf[..start]);
            }
            let status = self.talk.verdict().unwrap_or(status);
            self.talk.refuse();
            let (answer, id) = refusal::answer(&self.door, status, &self.talk.path());
            self.door.env.metrics().request_refused(status.as_u16());
            log::info!(request_id = id, status = status.as_u16(), peer:? = self.talk.peer; "a request was refused before it was whole");
            self.instead = Some(answer.into());
        }
        let Some(mut instead) = self.instead.take() else { return self.poll_send(cx, buf) };
        while !instead.is_empty() {
            match self.poll_send(cx, &instead) {
                Poll::Ready(Ok(count)) => instead.advance(count),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.instead = Some(instead);
                    return Poll::Pending;
                }
            }
        }
        // Nothing follows it, because it is the last answer on its connection.
        self.instead = Some(instead);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: [`farewell`] half-closes the socket, and dropping its last holder closes it.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Lets a client read why it was refused. Closing a socket with unread bytes would discard the answer.
pub async fn farewell(mut stream: TcpStream) {
    let drain = async {
        stream.shutdown().await?;
        let (mut left, mut sink) = (FAREWELL_BYTES, [0; 4096]);
        while left > 0 {
            match stream.read(&mut sink).await? {
                0 => break,
                count => left = left.saturating_sub(count),
            }
        }
        Ok::<(), std::io::Error>(())
    };
    // The connection is over in any case.
    let _ = tokio::time::timeout(FAREWELL, drain).await;
}

#[cfg(test)]
mod tests {
    use cellshift_env::Env;

    use super::*;
    use crate::apis;
    use crate::clients::Clients;

    const PATIENCE: Duration = Duration::from_millis(200);

    async fn connected() -> (TcpStream, Wire) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let stream = Rc::new(listener.accept().await.unwrap().0);
        let takes = Pace { bytes_per_second: 1, patience: PATIENCE };
        let door = Door { env: Env::system(), clients: Clients::default(), apis: &apis::NONE };
        (client, Wire::new(stream, Rc::new(Talk::new(None, false)), door, PATIENCE, takes))
    }

    /// Reads as the library does, until no more bytes are there. Also returns whether the head was ended as late.
    async fn read_all(wire: &mut Wire) -> (Vec<u8>, bool) {
        wire.stream.readable().await.unwrap();
        let (mut read, mut room) = (Vec::new(), [0; 64]);
        std::future::poll_fn(|cx| {
            loop {
                let mut buf = ReadBuf::new(&mut room);
                match Pin::new(&mut *wire).poll_read(cx, &mut buf) {
                    Poll::Ready(result) => result.unwrap(),
                    Poll::Pending => return Poll::Ready(()),
                }
                read.extend_from_slice(buf.filled());
                if wire.ended {
                    return Poll::Ready(());
                }
            }
        })
        .await;
        (read, wire.ended)
    }

    #[actix_web::test]
    async fn each_head_has_its_own_time() {
        let (mut client, mut wire) = connected().await;
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert!(!read_all(&mut wire).await.1);
        drop(wire.talk.begin());
        // Nobody polls the socket while the connection is idle, and the first head's time passes.
        tokio::time::sleep(2 * PATIENCE).await;
        client.write_all(b"GET /again").await.unwrap();
        assert_eq!(read_all(&mut wire).await, (b"GET /again".to_vec(), false));
        tokio::time::sleep(2 * PATIENCE).await;
        assert!(std::future::poll_fn(|cx| Poll::Ready(wire.poll_head_late(cx).is_ready())).await, "and the second its own");
    }
}
