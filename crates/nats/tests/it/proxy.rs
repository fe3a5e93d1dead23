//! A TCP proxy before a NATS server. It holds the data of one or both directions back while the network is cut, and forwards them when the
//! cut has healed, as a network does after a short cut. It has its own threads.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// The direction of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    ToServer,
    FromServer,
}

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
                accepting.connect(client);
            }
        });
        Proxy { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts these ways from now on.
    pub fn cut(&self, ways: &[Way]) {
        self.shared.state.lock().cut = ways.to_vec();
    }

    /// Heals the cut: what was held back is forwarded.
    pub fn heal(&self) {
        self.shared.state.lock().cut.clear();
        self.shared.changed.notify_all();
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
        // If the server is gone, its client learns it from the end of the connection.
        let Ok(server) = TcpStream::connect(self.upstream) else { return };
        let clone = |stream: &TcpStream| stream.try_clone().expect("a handle");
        let ways = [(clone(&client), clone(&server), Way::ToServer), (clone(&server), clone(&client), Way::FromServer)];
        self.state.lock().connections.extend([client, server]);
        for (from, to, way) in ways {
            let shared = self.clone();
            std::thread::spawn(move || shared.forward(from, to, way));
        }
    }

    /// Forwards data until one side ends.
    fn forward(&self, mut from: TcpStream, mut to: TcpStream, way: Way) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let mut state = self.state.lock();
            self.changed.wait_while(&mut state, |state| state.cut.contains(&way) && !state.closed);
            drop(state);
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}
