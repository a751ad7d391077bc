//! NATS servers as processes, which always sync unless a test wants otherwise.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nearprint::replicas::nats::{NatsError, NatsLog, NatsOptions, NewStream};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::DEADLINE;
use crate::hosts::Hosts;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Servers of one log, and the runtime of its clients. Dropping it kills them.
pub(crate) struct Servers {
    pub(crate) runtime: Runtime,
    directory: TempDir,
    members: Vec<LogServer>,
    /// Dropped after the members, which run there.
    hosts: Option<Hosts>,
}

struct LogServer {
    /// This machine, or a host of its own.
    host: IpAddr,
    client: u16,
    monitor: u16,
    process: Option<Child>,
}

impl Servers {
    /// Starts one or more of them; `None` if there is no such program.
    pub(crate) fn start(count: usize) -> Option<Self> {
        Self::start_with(count, "", "always")
    }

    /// The same, each on a host of its own if this user can make hosts.
    #[expect(clippy::print_stdout, reason = "why a test does less")]
    pub(crate) fn start_on_hosts(count: usize) -> Option<Self> {
        let hosts = Hosts::new(count);
        if hosts.is_none() {
            println!("skipped: servers cut off from one another; next: run this test as root");
        }
        Self::start_at(count, hosts, "", "always")
    }

    /// The same as `start`, with more settings.
    pub(crate) fn start_with(count: usize, settings: &str, sync_interval: &str) -> Option<Self> {
        Self::start_at(count, None, settings, sync_interval)
    }

    fn start_at(
        count: usize,
        hosts: Option<Hosts>,
        settings: &str,
        sync_interval: &str,
    ) -> Option<Self> {
        if !is_there() {
            return None;
        }
        let host = |at| hosts.as_ref().map_or(LOOPBACK, |hosts| hosts.address(at));
        let runtime = Runtime::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let ports = free_ports(3 * count);
        let route = |at: usize| ports[2 * count + at];
        let routes: Vec<_> =
            (0..count).map(|at| format!("nats://{}:{}", host(at), route(at))).collect();
        let mut members = Vec::new();
        for at in 0..count {
            let (host, client, monitor) = (host(at), ports[at], ports[count + at]);
            let store = directory.path().join(format!("store-{at}"));
            let mut file = format!(
                "server_name: s{at}\nlisten: {host}:{client}\nhttp: {host}:{monitor}\n\
                 jetstream {{ store_dir: \"{}\", sync_interval: {sync_interval} }}\n{settings}\n",
                store.display()
            );
            if count > 1 {
                let (port, routes) = (route(at), routes.join(", "));
                // Clients use the addresses that they are given, and no others.
                let cluster = "cluster { name: test, no_advertise: true, listen: ";
                writeln!(file, "{cluster}{host}:{port}, routes: [{routes}] }}").unwrap();
            }
            fs::write(directory.path().join(format!("s{at}.conf")), file).unwrap();
            members.push(LogServer { host, client, monitor, process: None });
        }
        let mut this = Self { runtime, directory, members, hosts };
        (0..count).for_each(|at| this.begin(at));
        Some(this)
    }

    pub(crate) fn options(&self) -> NatsOptions {
        let client = |server: &LogServer| format!("nats://{}:{}", server.host, server.client);
        let monitor = |server: &LogServer| format!("http://{}:{}", server.host, server.monitor);
        NatsOptions {
            servers: self.members.iter().map(client).collect(),
            monitors: self.members.iter().map(monitor).collect(),
            name: "test".to_owned(),
            ..NatsOptions::default()
        }
    }

    /// Makes a log on all of them.
    pub(crate) fn create(&self) -> NatsLog {
        let new = NewStream { replicas: self.members.len() as u32, bytes_max: 1 << 30 };
        NatsLog::create(&self.options(), new, self.runtime.handle()).unwrap()
    }

    pub(crate) fn open(&self) -> Result<NatsLog, NatsError> {
        NatsLog::open(&self.options(), self.runtime.handle())
    }

    /// Through this server and no other.
    pub(crate) fn open_at(&self, at: usize) -> Result<NatsLog, NatsError> {
        let mut options = self.options();
        options.servers = vec![options.servers.swap_remove(at)];
        NatsLog::open(&options, self.runtime.handle())
    }

    /// What the leader of the stream says about it.
    pub(crate) fn info(&self) -> async_nats::jetstream::stream::Info {
        eventually(|| {
            self.runtime.block_on(async {
                let servers = self.options().servers;
                let servers: Vec<async_nats::ServerAddr> =
                    servers.iter().map(|server| server.parse().unwrap()).collect();
                let client = async_nats::connect(servers).await.map_err(|e| e.to_string())?;
                let context = async_nats::jetstream::new(client);
                let stream = context.get_stream("NEARPRINT_test").await;
                Ok::<_, String>(stream.map_err(|e| e.to_string())?.cached_info().clone())
            })
        })
    }

    /// Changes the settings of the stream, as an operator can.
    pub(crate) fn change_stream(
        &self,
        change: impl FnOnce(&mut async_nats::jetstream::stream::Config),
    ) {
        let mut config = self.info().config;
        change(&mut config);
        eventually(|| {
            self.runtime.block_on(async {
                let client = async_nats::connect(&self.options().servers[0]).await;
                let context = async_nats::jetstream::new(client.map_err(|e| e.to_string())?);
                context.update_stream(&config).await.map(drop).map_err(|e| e.to_string())
            })
        });
    }

    /// Changes the configuration of a server, for when it is started again.
    pub(crate) fn change_config(&self, at: usize, change: impl FnOnce(&str) -> String) {
        let path = self.directory.path().join(format!("s{at}.conf"));
        let changed = change(&fs::read_to_string(&path).unwrap());
        fs::write(path, changed).unwrap();
    }

    /// Which of them leads the stream.
    pub(crate) fn leader(&self) -> usize {
        eventually(|| {
            let leader = self.info().cluster.and_then(|cluster| cluster.leader);
            let leader = leader.filter(|name| !name.is_empty()).ok_or("it has no leader")?;
            Ok::<_, &str>(leader[1..].parse().unwrap())
        })
    }

    /// Starts one that was killed.
    pub(crate) fn begin(&mut self, at: usize) {
        let path = |ending: &str| self.directory.path().join(format!("s{at}.{ending}"));
        let log = File::options().create(true).append(true).open(path("log")).unwrap();
        let mut command = match &self.hosts {
            Some(hosts) => hosts.command(at, &program()),
            None => Command::new(program()),
        };
        command.arg("--config").arg(path("conf")).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.members[at].process = Some(command.spawn().unwrap());
        let address = (self.members[at].host, self.members[at].client);
        eventually(|| TcpStream::connect(address).map_err(|error| error.to_string()));
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, at: usize) {
        if let Some(mut process) = self.members[at].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Stops a server without killing it, and lets it go on after this time.
    pub(crate) fn pause(&self, at: usize, time: Duration) {
        let process = self.members[at].process.as_ref().unwrap();
        let pid = Pid::from_child(process);
        kill_process(pid, Signal::STOP).unwrap();
        // Not a wait for something: the length of the fault.
        thread::sleep(time);
        kill_process(pid, Signal::CONT).unwrap();
    }

    /// Cuts a server off from the other ones, or ends that; clients still reach it. False if they
    /// have no hosts of their own, which was said at the start.
    pub(crate) fn isolate(&self, at: usize, is_cut: bool) -> bool {
        let Some(hosts) = &self.hosts else { return false };
        hosts.isolate(at, is_cut);
        true
    }

    /// The file with the first entries of the stream.
    pub(crate) fn block(&self, at: usize) -> PathBuf {
        let stream = self.store(at).join("jetstream/$G/streams/NEARPRINT_test");
        stream.join("msgs/1.blk")
    }

    /// Where a server keeps everything.
    pub(crate) fn store(&self, at: usize) -> PathBuf {
        self.directory.path().join(format!("store-{at}"))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|at| self.kill(at));
    }
}

/// Tries until it succeeds.
pub(crate) fn eventually<T, E: std::fmt::Display>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let began = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(error) if began.elapsed() > DEADLINE => panic!("{error}"),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn free_ports(count: usize) -> Vec<u16> {
    let listeners = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let listeners: Vec<_> = listeners.collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

fn program() -> OsString {
    std::env::var_os("NEARPRINT_TEST_NATS_SERVER").unwrap_or_else(|| "nats-server".into())
}

#[expect(clippy::print_stdout, reason = "why a test did less")]
fn is_there() -> bool {
    let mut command = Command::new(program());
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let is_there = command.status().is_ok_and(|status| status.success());
    if !is_there {
        let said = format!("{} does not run here", program().display());
        let required =
            std::env::var_os("NEARPRINT_TEST_PROGRAMS").is_some_and(|is| is == "required");
        assert!(!required, "{said}");
        println!("skipped: {said}; next: set NEARPRINT_TEST_NATS_SERVER, or run tools/test");
    }
    is_there
}
