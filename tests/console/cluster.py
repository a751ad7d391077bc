"""A cluster for the tests of the console: three nodes and their log (tools/local_cluster.py).

Prints one line of JSON with the addresses of the nodes and of the leader, kills the leader for each
line of its input, and stops everything when the input ends. BINARY names the program.
"""

import json
import os
import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import local_cluster as local

REPLIES = os.fdopen(os.dup(1), "w")
# What the parts of the cluster print is for people.
os.dup2(2, 1)


def tell(value):
    print(json.dumps(value), file=REPLIES, flush=True)


def main():
    processes = local.Processes(local.ROOT / "target/console-cluster")
    try:
        clients, monitors = local.start_log(processes)
        nodes = local.start_nodes(processes, clients, monitors)
        leader = local.leader_of(nodes)
        tell({"nodes": [node.url for node in nodes], "leader": leader.url})
        for _ in sys.stdin:
            processes.kill(leader.name)
            tell({"killed": leader.url})
    finally:
        processes.stop()


if __name__ == "__main__":
    main()
