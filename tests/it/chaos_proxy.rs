//! A TCP proxy before a database. It forwards all data until it is told to refuse, hang, delay or break connections. It has its own
//! threads, so that it works while the test's runtime waits for a database.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The treatment of connections and their data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Pass,
    /// Closes new and present connections at once.
    Refuse,
    /// Accepts connections and forwards nothing.
    Hang,
    /// Delays all data by this time.
    Delay(Duration),
}

pub struct ChaosProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    mode: Mode,
    closed: bool,
    /// Alternately a client's and its server's connection.
    connections: Vec<TcpStream>,
}

impl ChaosProxy {
    /// Starts a proxy before the server at this address; it forwards all data.
    pub fn before(upstream: SocketAddr) -> ChaosProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let state = State { mode: Mode::Pass, closed: false, connections: Vec::new() };
        let shared = Arc::new(Shared { upstream, state: Mutex::new(state), changed: Condvar::new() });
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.state.lock().closed {
                    return;
                }
                accepting.connect(client);
            }
        });
        ChaosProxy { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the mode from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.state.lock().mode = mode;
        if mode == Mode::Refuse {
            self.break_connections();
        }
        self.shared.changed.notify_all();
    }

    /// Half-closes all clients' connections: clients get no more data, but their data are still forwarded.
    pub fn half_close(&self) {
        for client in self.shared.state.lock().connections.iter().step_by(2) {
            // The connection may have ended by itself.
            let _ = client.shutdown(Shutdown::Write);
        }
    }

    /// Ends all present connections.
    pub fn break_connections(&self) {
        for connection in self.shared.state.lock().connections.drain(..) {
            // The connection may have ended by itself.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.break_connections();
        self.shared.changed.notify_all();
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn connect(self: &Arc<Self>, client: TcpStream) {
        if self.state.lock().mode == Mode::Refuse {
            return;
        }
        // If the server is gone, its client learns it from the end of the connection.
        let Ok(server) = TcpStream::connect(self.upstream) else { return };
        let pairs = [(client.try_clone(), server.try_clone()), (server.try_clone(), client.try_clone())];
        self.state.lock().connections.extend([client, server]);
        for (from, to) in pairs {
            let (from, to, shared) = (from.expect("a handle"), to.expect("a handle"), self.clone());
            std::thread::spawn(move || shared.pump(from, to));
        }
    }

    /// Forwards data until one side ends.
    fn pump(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            self.wait();
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }

    /// Waits until data may be forwarded.
    fn wait(&self) {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.mode == Mode::Hang && !state.closed);
        if let Mode::Delay(time) = state.mode {
            let delayed = |state: &mut State| !state.closed && state.mode != Mode::Pass;
            self.changed.wait_while_for(&mut state, delayed, time);
        }
    }
}
