//! Sends requests as bytes on their own connections, so that no client library corrects them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The number of characters of a body that are shown.
const SHOWN: usize = 2_000;

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Percent-encoded, with the query.
    pub target: String,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub text: String,
}

impl Request {
    pub fn header(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.into()));
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\nConnection: close\r\n", self.method, self.target).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            bytes.extend(b"Host: cloud\r\n");
        }
        bytes.extend(format!("Content-Length: {}\r\n\r\n", self.body.len()).into_bytes());
        bytes.extend(&self.body);
        bytes
    }

    /// Returns the command that sends this request, with a shortened body.
    pub fn as_curl(&self) -> String {
        let mut line = format!("curl -i -X {} 'http://…{}'", self.method, self.target.replace('\'', "%27"));
        for (name, value) in &self.headers {
            let value = if name == "X-Auth-Token" { b"$TOKEN".as_slice() } else { value.as_slice() };
            let _ = write!(line, " -H $'{name}: {}'", escaped(value));
        }
        if !self.body.is_empty() {
            let shown = &self.body[..self.body.len().min(SHOWN)];
            let _ = write!(line, " --data-binary $'{}'", escaped(shown));
            if shown.len() < self.body.len() {
                let _ = write!(line, " (of {} bytes)", self.body.len());
            }
        }
        line
    }
}

fn escaped(bytes: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        other => format!("\\x{other:02x}"),
    };
    bytes.iter().map(one).collect()
}

/// Sends the request and reads the whole answer, or says why there is none.
pub async fn exchange(address: SocketAddr, request: &Request) -> Result<Reply, String> {
    let talk = async {
        let mut connection = TcpStream::connect(address).await.map_err(|error| format!("no connection: {error}"))?;
        // A refusal may come, and the connection end, before the whole body is sent.
        let sent = connection.write_all(&request.bytes()).await;
        let mut answer = Vec::new();
        let received = connection.read_to_end(&mut answer).await;
        if answer.is_empty() {
            return Err(format!("the connection ended without an answer: {sent:?}, {received:?}"));
        }
        reply(&answer)
    };
    tokio::time::timeout(PATIENCE, talk).await.unwrap_or_else(|_| Err(format!("no answer in {PATIENCE:?}")))
}

fn reply(answer: &[u8]) -> Result<Reply, String> {
    let text = String::from_utf8_lossy(answer);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("an answer without an end of its head: {text:.200}"))?;
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or_else(|| format!("an answer without a status: {head:.200}"))?;
    let headers = head.lines().skip(1).filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Ok(Reply { status, headers, text: body.to_owned() })
}
