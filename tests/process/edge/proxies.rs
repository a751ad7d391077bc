//! Promise: whatever client and proxy a batch comes by, all of it is stored and answered. Method: a
//! real server, nginx and `HAProxy` in front of it as docs/operations.md configures them, and nginx
//! in a network with small socket buffers (which needs root); curl, the clients of Python, Node and
//! Go, and `nearprint import`, which send batches whole and in pieces, with `Expect: 100-continue`
//! and without. Programs that are missing are skipped, unless `NEARPRINT_TEST_PROGRAMS` is
//! `required`, as in tools/test. `NEARPRINT_TEST_PYTHON` names a Python with requests, httpx and
//! aiohttp.

use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::memory::{GROUP_BYTES, Group, joined};
use super::server::{Server, binary, write};
use crate::support::wait::{now, until};

/// Lines of a batch.
const LINES: usize = 6_000;

/// Lines of a batch that is larger than all sockets on its way, and than 1 MiB, from which on curl
/// asks before it sends.
const LINES_OF_CURL: usize = 40_000;

const SMALL_BUFFERS: &str = "ip link set lo up && cd /proc/sys/net/ipv4 && \
    echo 4096 16384 65536 > tcp_wmem && echo 4096 16384 65536 > tcp_rmem && exec \"$0\" \"$@\"";

/// Whether there is such a program; if not, says so, and fails if the programs are required.
#[expect(clippy::print_stdout, reason = "why a test did less")]
fn has(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    let program = program.as_ref();
    let is_there = runs(program, arguments);
    if !is_there {
        let said = format!("{} {} does not run here", program.display(), arguments.join(" "));
        let required =
            std::env::var_os("NEARPRINT_TEST_PROGRAMS").is_some_and(|is| is == "required");
        assert!(!required, "{said}");
        println!("skipped: {said}; next: install it, or run tools/test");
    }
    is_there
}

fn runs(program: &OsStr, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn python() -> PathBuf {
    std::env::var_os("NEARPRINT_TEST_PYTHON").unwrap_or_else(|| "python3".into()).into()
}

/// Where programs run: here, or in the network of a server.
#[derive(Clone, Copy)]
struct Network(Option<u32>);

impl Network {
    fn command(self, program: impl AsRef<OsStr>) -> Command {
        let Self(Some(process)) = self else { return Command::new(program) };
        let mut command = Command::new("nsenter");
        command.args(["--target", &process.to_string(), "--net"]).arg(program);
        command
    }

    /// What a program prints; it must succeed.
    fn run(self, program: impl AsRef<OsStr>, arguments: &[&str]) -> String {
        let program = program.as_ref();
        let output = self.command(program).args(arguments).output().unwrap();
        let printed = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, errors) = (printed(&output.stdout), printed(&output.stderr));
        assert!(output.status.success(), "{} {arguments:?}: {out}{errors}", program.display());
        out
    }

    fn curl(self, arguments: &[&str]) -> String {
        self.run("curl", &[&["--silent", "--show-error", "--max-time", "60"], arguments].concat())
    }

    fn documents(self, url: &str) -> usize {
        let stats = self.curl(&[&format!("{url}/v1/stats")]);
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        stats["documents"].as_u64().unwrap() as usize
    }
}

/// A proxy in front of a server; ended on drop.
struct Proxy {
    child: Child,
    url: String,
    _folder: TempDir,
}

impl Proxy {
    /// Starts a program that reads this configuration and listens on a free port.
    fn start(
        network: Network,
        configuration: impl FnOnce(&str, &Path) -> String,
        command: impl FnOnce(&Path) -> Command,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let file = folder.path().join("configuration");
        write(&file, &configuration(&free, folder.path()));
        let child = command(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let url = format!("http://{free}");
        let proxy = Self { child, url, _folder: folder };
        let answers = || {
            let probe = ["--silent", "--fail", &format!("{}/healthz", proxy.url)];
            network.command("curl").args(probe).output().unwrap().status.success()
        };
        until("the proxy answers", answers);
        proxy
    }

    fn nginx(network: Network, address: &str, location: &str) -> Self {
        let configuration = |listen: &str, folder: &Path| {
            let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map(|name| format!("    {name}_temp_path {0}/{name};\n", folder.display()));
            format!(
                "daemon off;\nuser root;\npid {0}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\n\
                 {1}    access_log off;\n    server {{\n    listen {listen};\n\
                 {location}\n    }}\n}}\n",
                folder.display(),
                temporary.concat()
            )
        };
        let location_of = |location: &str| location.replace("127.0.0.1:7878", address);
        let configuration =
            |listen: &str, folder: &Path| location_of(&configuration(listen, folder));
        Self::start(network, configuration, |file| {
            let mut command = network.command("nginx");
            command.arg("-c").arg(file);
            command
        })
    }

    fn haproxy(address: &str, configuration: &str) -> Self {
        let configuration = |listen: &str, _: &Path| {
            configuration
                .replace("127.0.0.1:7878", address)
                .replace("bind :8080", &format!("bind {listen}"))
        };
        Self::start(Network(None), configuration, |file| {
            let mut command = Command::new("haproxy");
            command.arg("-f").arg(file);
            command
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // nginx takes its workers along only when it may end by itself.
        let id = self.child.id().to_string();
        drop(Command::new("kill").args(["-TERM", &id]).status());
        drop(self.child.wait());
    }
}

/// The block of docs/operations.md that is marked with this language.
fn documented(language: &str) -> String {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let (_, rest) = manual.split_once(&format!("```{language}\n")).unwrap();
    let (block, _) = rest.split_once("```").unwrap();
    block.to_owned()
}

fn lines(prefix: &str, count: usize) -> String {
    let line = |i| {
        let id = format!("https://example.org/{prefix}/{i}");
        format!("{{\"id\":\"{id}\",\"fingerprint\":{i}}}\n")
    };
    (0..count).map(line).collect()
}

/// The clients that are installed.
struct Clients {
    folder: TempDir,
    programs: Vec<(PathBuf, Option<PathBuf>)>,
}

impl Clients {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str| {
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/process/edge/clients").join(name)
        };
        let mut programs = Vec::new();
        if has(python(), &["-c", "import requests, httpx, aiohttp"]) {
            programs.push((python(), Some(script("post.py"))));
        }
        if has("node", &["--eval", "fetch"]) {
            programs.push(("node".into(), Some(script("post.mjs"))));
        }
        if has("go", &["version"]) {
            let program = folder.path().join("post");
            let mut build = Command::new("go");
            build.arg("build").arg("-o").arg(&program).arg(script("post.go"));
            // The packages of Go are compiled once.
            build.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"));
            assert!(build.status().unwrap().success(), "post.go is not compiled");
            programs.push((program, None));
        }
        Self { folder, programs }
    }

    /// Sends batches with each client.
    fn send(&self, network: Network, url: &str, route: &str) {
        let count = LINES.to_string();
        for (program, script) in &self.programs {
            let script = script.as_deref().map(|script| script.to_str().unwrap());
            let name = program.file_name().unwrap().to_str().unwrap();
            let prefix = format!("{route}/{name}");
            let arguments: Vec<_> =
                script.into_iter().chain([url, prefix.as_str(), count.as_str()]).collect();
            network.run(program, &arguments);
        }
        self.curl(network, url, route);
        self.import(network, url, route);
    }

    fn curl(&self, network: Network, url: &str, route: &str) {
        let file = self.folder.path().join("lines.ndjson");
        write(&file, &lines(&format!("{route}/curl"), LINES_OF_CURL));
        let replies = network.curl(&[
            "--header",
            "content-type: application/x-ndjson",
            "--data-binary",
            &format!("@{}", file.display()),
            &format!("{url}/v1/insert/batch"),
        ]);
        let stored = replies.matches("\"stored\":true").count();
        assert_eq!(stored, LINES_OF_CURL, "{route}: curl");
    }

    fn import(&self, network: Network, url: &str, route: &str) {
        let file = self.folder.path().join(format!("{}.jsonl", route.replace(' ', "-")));
        write(&file, &lines(&format!("{route}/import"), LINES));
        let before = network.documents(url);
        network.run(binary(), &["import", "--server", url, file.to_str().unwrap()]);
        assert_eq!(network.documents(url) - before, LINES, "{route}: import");
    }
}

#[test]
fn batches_come_whole_through_proxies_and_from_plain_clients() {
    let clients = Clients::new();
    let here = Network(None);
    let server = Server::with(&[("LOG__LEVEL", "warn")]);
    clients.send(here, &format!("http://{}", server.address), "direct");
    if has("haproxy", &["-v"]) {
        let proxy = Proxy::haproxy(&server.address, &documented("haproxy"));
        clients.send(here, &proxy.url, "haproxy");
    }
    if has("nginx", &["-v"]) {
        let proxy = Proxy::nginx(here, &server.address, &documented("nginx"));
        clients.send(here, &proxy.url, "nginx");
        let unbuffered = unbuffered();
        let proxy = Proxy::nginx(here, &server.address, &unbuffered);
        clients.send(here, &proxy.url, "nginx that keeps nothing");
    }
}

/// The configuration of nginx with the setting that the manual names next to it.
fn unbuffered() -> String {
    let buffered = documented("nginx");
    let unbuffered = buffered.replace("client_max", "proxy_request_buffering off; client_max");
    assert_ne!(buffered, unbuffered);
    unbuffered
}

#[test]
fn batches_come_whole_through_nginx_with_small_socket_buffers() {
    if !runs("unshare".as_ref(), &["--net", "true"]) {
        println!("skipped: no network can be made here; next: run the tests as root");
        return;
    }
    if !has("nginx", &["-v"]) {
        return;
    }
    let clients = Clients::new();
    let server = Server::wrapped(
        |inner| {
            let mut inside = Command::new("unshare");
            inside.args(["--net", "sh", "-c", SMALL_BUFFERS]);
            inside.arg(inner.get_program()).args(inner.get_args());
            inside
        },
        &[("LOG__LEVEL", "warn")],
    );
    let inside = Network(Some(server.id()));
    for (location, route) in [(documented("nginx"), "nginx"), (unbuffered(), "unbuffered")] {
        let proxy = Proxy::nginx(inside, &server.address, &location);
        clients.send(inside, &proxy.url, route);
    }
}

/// Sends all, then reads all: the lines of the reply, and the time.
fn post_plainly(url: &str, body: &str) -> (Vec<u8>, Duration) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let begun = now();
    // The reply of HTTP/1.0 has no chunks.
    let head = format!(
        "POST /v1/insert/batch HTTP/1.0\r\nhost: localhost\r\n\
         content-type: application/x-ndjson\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    (reply, begun.elapsed())
}

#[test]
fn a_long_batch_of_a_plain_client_takes_little_memory() {
    let Some(group) = Group::new("held", GROUP_BYTES) else { return };
    // A debug build takes a minute for a million.
    let count =
        if std::env::var_os("NEARPRINT_TEST_BINARY").is_some() { 1_000_000 } else { 60_000 };
    let server = Server::wrapped(|inner| joined(&group, inner), &[]);
    let direct = format!("http://{}", server.address);
    let proxy = has("nginx", &["-v"])
        .then(|| Proxy::nginx(Network(None), &server.address, &documented("nginx")));
    let routes = [Some(&direct), proxy.as_ref().map(|proxy| &proxy.url)];
    for (url, route) in routes.into_iter().flatten().zip(["direct", "nginx"]) {
        let before = Network(None).documents(&direct);
        let (reply, took) = post_plainly(url, &lines(route, count));
        let stored = memchr::memmem::find_iter(&reply, b"\"outcome\":\"inserted\"").count();
        assert_eq!((stored, Network(None).documents(&direct) - before), (count, count), "{route}");
        println!(
            "{count} lines at once, {route}: {:.1} s, peak memory {} MiB",
            took.as_secs_f64(),
            server.memory_peak_bytes() >> 20
        );
    }
    assert_eq!(group.kills(), 0);
    assert!(server.memory_peak_bytes() < GROUP_BYTES);
}
