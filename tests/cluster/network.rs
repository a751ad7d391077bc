//! The network between a node and the servers of the log: it can be cut, as a partition does,
//! without a word to either side.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How soon a cut is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Relays connections to some addresses.
pub(crate) struct Network {
    ports: Vec<u16>,
    is_cut: Arc<AtomicBool>,
}

impl Network {
    /// To these servers.
    pub(crate) fn to(servers: &[String]) -> Self {
        let is_cut = Arc::new(AtomicBool::new(false));
        let relay = |to: SocketAddr| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let is_cut = Arc::clone(&is_cut);
            thread::spawn(move || {
                for from in listener.incoming().map_while(Result::ok) {
                    let is_cut = Arc::clone(&is_cut);
                    thread::spawn(move || relay(&from, to, &is_cut));
                }
            });
            port
        };
        let address = |url: &String| url.trim_start_matches("nats://").parse().unwrap();
        let ports = servers.iter().map(address).map(relay).collect();
        Self { ports, is_cut }
    }

    /// Where they are reached through it.
    pub(crate) fn urls(&self) -> impl Iterator<Item = String> {
        self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}"))
    }

    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }
}

fn relay(from: &TcpStream, to: SocketAddr, is_cut: &Arc<AtomicBool>) {
    while is_cut.load(Ordering::Relaxed) {
        thread::sleep(LOOK_EVERY);
    }
    let Ok(to) = TcpStream::connect(to) else { return };
    let back = (to.try_clone().unwrap(), from.try_clone().unwrap(), Arc::clone(is_cut));
    let back = thread::spawn(move || copy(&back.0, &back.1, &back.2));
    copy(from, &to, is_cut);
    drop(back.join());
}

/// Copies bytes until either side ends; while it is cut, they wait.
fn copy(mut from: &TcpStream, mut to: &TcpStream, is_cut: &AtomicBool) {
    from.set_read_timeout(Some(LOOK_EVERY)).unwrap();
    let mut bytes = [0; 16 << 10];
    loop {
        if is_cut.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
            continue;
        }
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => {
                if to.write_all(&bytes[..read]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
}
