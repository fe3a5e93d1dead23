//! A TCP proxy before a database: passes everything on until it is told to refuse, to hang, to be slow, or to break what is
//! connected. It has threads of its own, so that it works while the test's runtime waits for a database.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What becomes of connections and of what is sent over them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Pass,
    /// New connections are closed at once, and so are those that there are.
    Refuse,
    /// Connections are taken, and nothing passes.
    Hang,
    /// All that passes waits for so long.
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
    /// Clients' and servers' in turn.
    connections: Vec<TcpStream>,
}

impl ChaosProxy {
    /// Before the server at this address; passes.
    pub fn before(upstream: SocketAddr) -> ChaosProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let state = State { mode: Mode::Pass, closed: false, connections: Vec::new() };
        let shared = Arc::new(Shared { upstream, state: Mutex::new(state), changed: Condvar::new() });
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.state().closed {
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

    /// From now on.
    pub fn set(&self, mode: Mode) {
        self.shared.state().mode = mode;
        if mode == Mode::Refuse {
            self.break_connections();
        }
        self.shared.changed.notify_all();
    }

    /// Tells the clients of every connection that nothing more comes; what they send still passes.
    pub fn half_close(&self) {
        for client in self.shared.state().connections.iter().step_by(2) {
            // It may have ended by itself.
            let _ = client.shutdown(Shutdown::Write);
        }
    }

    /// Ends every connection that there is.
    pub fn break_connections(&self) {
        for connection in self.shared.state().connections.drain(..) {
            // It may have ended by itself.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.break_connections();
        self.shared.changed.notify_all();
        // So that the thread that waits for connections sees it.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(self: &Arc<Self>, client: TcpStream) {
        if self.state().mode == Mode::Refuse {
            return;
        }
        // A client of a server that is gone is told so by the end of its connection.
        let Ok(server) = TcpStream::connect(self.upstream) else { return };
        let pairs = [(client.try_clone(), server.try_clone()), (server.try_clone(), client.try_clone())];
        self.state().connections.extend([client, server]);
        for (from, to) in pairs {
            let (from, to, shared) = (from.expect("a handle"), to.expect("a handle"), self.clone());
            std::thread::spawn(move || shared.pump(from, to));
        }
    }

    /// Passes on what comes until one side ends.
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

    /// Returns when something may pass.
    fn wait(&self) {
        let state = self.state();
        let hangs = |state: &mut State| state.mode == Mode::Hang && !state.closed;
        let state = self.changed.wait_while(state, hangs).unwrap_or_else(PoisonError::into_inner);
        if let Mode::Delay(time) = state.mode {
            let delayed = |state: &mut State| !state.closed && state.mode != Mode::Pass;
            drop(self.changed.wait_timeout_while(state, time, delayed));
        }
    }
}
