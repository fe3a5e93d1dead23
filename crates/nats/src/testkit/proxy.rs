//! A TCP proxy before a NATS server. It holds the data of one or both directions back while the network is cut, and forwards them when the
//! cut has healed, as a network does after a short cut. It has its own threads.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The direction of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From whoever has connected to the proxy.
    ToServer,
    /// From the server.
    FromServer,
}

impl Way {
    fn back(self) -> Way {
        match self {
            Way::ToServer => Way::FromServer,
            Way::FromServer => Way::ToServer,
        }
    }
}

/// Both directions.
pub const BOTH_WAYS: [Way; 2] = [Way::ToServer, Way::FromServer];

/// A proxy. It ends with this value, and its connections with it.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    cut: Vec<Way>,
    closed: bool,
    connections: Vec<TcpStream>,
}

impl Proxy {
    /// Starts a proxy before the server at this address.
    pub fn before(upstream: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared { upstream, state: Mutex::default(), changed: Condvar::new() });
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.state.lock().closed {
                    return;
                }
                let connecting = accepting.clone();
                std::thread::spawn(move || connecting.connect(client));
            }
        });
        Proxy { address, shared }
    }

    /// Returns where the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts these ways from now on, and heals the others. Connections stay, and are silent on the ways that are cut: neither data nor the end
    /// of a connection passes. A new connection reaches the server when no way is cut any more.
    pub fn cut(&self, ways: &[Way]) {
        self.shared.state.lock().cut = ways.to_vec();
        self.shared.changed.notify_all();
    }

    /// Heals the cut: what was held back is forwarded.
    pub fn heal(&self) {
        self.cut(&[]);
    }

    /// Cuts these ways for this time, and heals them.
    pub async fn cut_for(&self, ways: &[Way], time: Duration) {
        self.cut(ways);
        tokio::time::sleep(time).await;
        self.heal();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        for connection in state.connections.drain(..) {
            // The connection may have ended by itself.
            let _ = connection.shutdown(Shutdown::Both);
        }
        drop(state);
        self.shared.changed.notify_all();
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, client: TcpStream) {
        self.wait_for(&BOTH_WAYS);
        // If the server is gone, its client learns it from the end of the connection.
        let Ok(server) = TcpStream::connect(self.upstream) else { return };
        let clone = |stream: &TcpStream| stream.try_clone().expect("a handle");
        let ways = [(clone(&client), clone(&server), Way::ToServer), (clone(&server), clone(&client), Way::FromServer)];
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        state.connections.extend([client, server]);
        drop(state);
        for (from, to, way) in ways {
            let shared = self.clone();
            std::thread::spawn(move || shared.forward(from, to, way));
        }
    }

    /// Waits until none of these ways is cut, or the proxy ends.
    fn wait_for(&self, ways: &[Way]) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.closed && state.cut.iter().any(|cut| ways.contains(cut)));
    }

    /// Forwards data until one side ends, and then the end.
    fn forward(&self, mut from: TcpStream, mut to: TcpStream, way: Way) {
        let mut buffer = [0; 16 * 1024];
        loop {
            let read = from.read(&mut buffer).unwrap_or(0);
            self.wait_for(&[way]);
            if read == 0 || to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        // A side that has ended already needs no word.
        let _ = to.shutdown(Shutdown::Both);
        self.wait_for(&[way.back()]);
        let _ = from.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// The time without data after which a way counts as silent.
    const SILENCE: Duration = Duration::from_millis(50);

    /// A proxy with a server behind it, and a client's connection through it.
    fn connected() -> (Proxy, TcpListener, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy::before(listener.local_addr().unwrap());
        let client = TcpStream::connect(proxy.address()).unwrap();
        let server = listener.accept().unwrap().0;
        (proxy, listener, client, server)
    }

    fn assert_comes(stream: &mut TcpStream, expected: &[u8]) {
        stream.set_read_timeout(None).unwrap();
        let mut bytes = vec![0; expected.len()];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, expected);
    }

    fn assert_silent(stream: &mut TcpStream) {
        stream.set_read_timeout(Some(SILENCE)).unwrap();
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
    }

    #[test]
    fn a_cut_holds_one_way_back_and_loses_nothing() {
        let (proxy, _listener, mut client, mut server) = connected();
        proxy.cut(&[Way::ToServer]);
        client.write_all(b"late").unwrap();
        server.write_all(b"at once").unwrap();
        assert_comes(&mut client, b"at once");
        assert_silent(&mut server);
        proxy.heal();
        assert_comes(&mut server, b"late");
        proxy.cut(&BOTH_WAYS);
        client.write_all(b"a").unwrap();
        server.write_all(b"b").unwrap();
        assert_silent(&mut client);
        assert_silent(&mut server);
        proxy.heal();
        assert_comes(&mut client, b"b");
        assert_comes(&mut server, b"a");
    }

    #[test]
    fn the_end_of_a_connection_does_not_pass_a_cut() {
        let (proxy, _listener, client, mut server) = connected();
        proxy.cut(&[Way::ToServer]);
        drop(client);
        for _ in 0..3 {
            // The client's machine refuses it, and that word does not pass either.
            server.write_all(b"is somebody there?").unwrap();
            assert_silent(&mut server);
        }
        proxy.heal();
        server.set_read_timeout(None).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap(), 0);
    }

    #[tokio::test]
    async fn a_connection_that_begins_in_a_cut_waits_for_its_end() {
        let (proxy, listener, _client, _server) = connected();
        listener.set_nonblocking(true).unwrap();
        proxy.cut(&[Way::FromServer]);
        let mut late = TcpStream::connect(proxy.address()).unwrap();
        late.write_all(b"hello").unwrap();
        assert_silent(&mut late);
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        proxy.cut_for(&[Way::ToServer], SILENCE).await;
        listener.set_nonblocking(false).unwrap();
        let mut server = listener.accept().unwrap().0;
        assert_comes(&mut server, b"hello");
    }
}
