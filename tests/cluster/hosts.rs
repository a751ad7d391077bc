//! Hosts of this machine, each in a network namespace of its own, so that the network between any
//! of them can be cut. Only root can make them.

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

/// So many networks of 16 addresses are in 198.18.0.0/15, which is for tests (RFC 2544).
const NETWORKS: u32 = 8_192;

/// Hosts on one bridge. Dropping it removes them; nothing may run there any more.
pub(crate) struct Hosts {
    count: usize,
    /// Of their network, below [`NETWORKS`]: that of the process, so that tests do not meet.
    number: u32,
}

impl Hosts {
    /// `None` if this user cannot make them.
    pub(crate) fn new(count: usize) -> Option<Self> {
        let this = Self { count, number: std::process::id() % NETWORKS };
        let bridge = this.bridge();
        this.remove();
        let mut made = ip(&format!("link add {bridge} type bridge"))
            && ip(&format!("addr add {}/28 dev {bridge}", this.address_of(1)))
            && ip(&format!("link set {bridge} up"));
        for at in 0..count {
            let (name, address) = (this.name(at), this.address(at));
            made = made
                && ip(&format!("netns add {name}"))
                && ip(&format!("link add {name} type veth peer name eth0 netns {name}"))
                && ip(&format!("link set {name} master {bridge} up"))
                && ip(&format!("-n {name} addr add {address}/28 dev eth0"))
                && ip(&format!("-n {name} link set eth0 up"))
                && ip(&format!("-n {name} link set lo up"));
        }
        made.then_some(this)
    }

    /// Where a host is reached.
    pub(crate) fn address(&self, at: usize) -> IpAddr {
        self.address_of(2 + at as u32)
    }

    /// A command that runs a program on a host.
    pub(crate) fn command(&self, at: usize, program: &OsStr) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(at)]).arg(program);
        command
    }

    /// Cuts a host off from the other hosts, or ends that. Packets are dropped, so neither side is
    /// told. The machine itself still reaches it.
    pub(crate) fn isolate(&self, at: usize, is_cut: bool) {
        let verb = if is_cut { "add" } else { "del" };
        for other in (0..self.count).filter(|other| *other != at) {
            for (from, to) in [(at, other), (other, at)] {
                let route = format!("blackhole {}/32", self.address(to));
                assert!(ip(&format!("-n {} route {verb} {route}", self.name(from))), "{route}");
            }
        }
    }

    fn address_of(&self, host: u32) -> IpAddr {
        let first = u32::from(Ipv4Addr::new(198, 18, 0, 0));
        Ipv4Addr::from(first + 16 * self.number + host).into()
    }

    fn bridge(&self) -> String {
        format!("np{}", self.number)
    }

    /// Of the host, and of the end of its cable at the bridge.
    fn name(&self, at: usize) -> String {
        format!("np{}-{at}", self.number)
    }

    /// Removes them, and what a killed test with this number has left.
    fn remove(&self) {
        for at in 0..self.count {
            ip(&format!("netns del {}", self.name(at)));
            ip(&format!("link del {}", self.name(at)));
        }
        ip(&format!("link del {}", self.bridge()));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Whether `ip` has done it.
fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}
