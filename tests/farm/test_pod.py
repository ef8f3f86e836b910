"""A TPU pod end to end: a stub of the metadata server, and four workers, each with a real gRPC server for the metrics of its
chips. One worker is this machine, three are behind real sshd.

GTOP is the binary; default: the debug build of this checkout.
"""

import getpass
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import unittest

from test_farm import GTOP, TOP, FarmCase

METRICS = f"{TOP}/tests/stubs/tpu_metrics.py"
GIB = 1 << 30
CHIPS = 4
# Node numbers of the workers, in the order of the workers; the second is this machine.
WORKERS = (3, 1, 2, 4)
# Chip numbers within the slice: the runtime uses these, not the indices on the machine.
IDS = {worker: [worker * 2 + chip % 2 + chip // 2 * 8 for chip in range(CHIPS)] for worker in range(len(WORKERS))}


def python_with_grpcio():
    """Returns a Python that has grpcio, or None."""
    installed = os.path.join(TOP, os.environ.get("CARGO_TARGET_DIR", "target"), "python-grpcio/bin/python")
    for python in (installed, sys.executable):
        if os.path.exists(python) and subprocess.run([python, "-c", "import grpc"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Worker:
    """One worker: a tree of files with v4 chips, processes that hold them, and the runtime's metrics."""

    def __init__(self, case, number, python):
        self.number, self.case = number, case
        self.node = f"gpu{WORKERS[number]:02}"
        self.root = f"{case.directory}/farm/nodes/{self.node}/root"
        # A TPU VM has no GPUs.
        os.remove(f"{case.directory}/farm/nodes/{self.node}/bin/nvidia-smi")
        for chip in range(CHIPS):
            self.add_chip(chip)
        self.ports = free_ports(CHIPS if number == 3 else 1)
        self.pids = self.start_processes()
        self.serve_metrics(python)

    def write(self, path, text):
        path = f"{self.root}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def link(self, path, target):
        path = f"{self.root}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)

    def add_chip(self, number):
        """Creates the files of a chip with the older driver; the PCI order is the reverse of the chip order."""
        address = f"0000:00:{4 + CHIPS - number:02x}.0"
        attributes = {"vendor": "0x1ae0", "device": "0x005e", "subsystem_device": "0x0050", "class": "0x0b4000", "numa_node": "0"}
        for name, value in attributes.items():
            self.write(f"sys/bus/pci/devices/{address}/{name}", f"{value}\n")
        self.link(f"sys/class/accel/accel{number}/device", f"../../../{address}")
        self.write(f"dev/accel{number}", "")

    def start_processes(self):
        """Starts the processes that hold the chips; returns the pid that holds each chip.

        The metrics ports are announced in every supported way: in the environment of a process, in that of gtop, or in a file.
        """
        chips_by_process = [[chip] for chip in range(CHIPS)] if self.number == 3 else [list(range(CHIPS))]
        pids = {}
        for index, chips in enumerate(chips_by_process):
            process = self.case.start(["/bin/sh", "-c", "read line", f"train-w{self.number}-{index}"], self.user)
            for chip in chips:
                self.link(f"proc/{process.pid}/fd/{3 + chip}", f"/dev/accel{chip}")
                pids[chip] = process.pid
            ports = ",".join(map(str, self.ports[index : index + 1] if self.number == 3 else self.ports))
            has_variable = self.number in (0, 3)
            self.write(f"proc/{process.pid}/environ", "HOME=/\0" + (f"TPU_RUNTIME_METRICS_PORTS={ports}\0" if has_variable else ""))
        if self.number == 2:
            self.write("home/tpu-runtime/tpu-env", f"TYPE: 'v4'\nTPU_RUNTIME_METRICS_PORTS: '{self.ports[0]}'\n")
        return pids

    @property
    def user(self):
        """The owner of the worker's processes; as root, one worker has another user."""
        return "nobody" if os.geteuid() == 0 and self.number == 2 else getpass.getuser()

    def serve_metrics(self, python):
        options = ["--ports", ",".join(map(str, self.ports)), "--chips", str(CHIPS), "--ids", ",".join(map(str, IDS[self.number]))]
        options += ["--used", str((self.number + 1) * GIB), "--total", str(32 * GIB), "--load", str(10.0 + 20 * self.number)]
        server = subprocess.Popen([python, METRICS, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.case.addClassCleanup(end, server)
        if server.stdout.readline() != "up\n":
            raise RuntimeError("the metrics server did not come up")

    def expected(self):
        """Returns the values that gtop must report for each chip."""
        return [
            {
                "index": chip,
                "memory_used_bytes": (self.number + 1) * GIB + chip,
                "memory_total_bytes": 32 * GIB,
                "utilization_percent": 10.0 + 20 * self.number + chip,
                "metrics_source": f"port {self.ports[chip if self.number == 3 else 0]}",
                "held": True,
                "pid": self.pids[chip],
                "user": self.user,
                "command": f"train-w{self.number}-{chip if self.number == 3 else 0}",
                "process_memory": (self.number + 1) * GIB + chip,
            }
            for chip in range(CHIPS)
        ]


def end(process):
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            pipe.close()


def reported(device):
    """Returns the same values of a chip as gtop reports them."""
    (process,) = device["processes"]
    names = ("index", "memory_used_bytes", "memory_total_bytes", "utilization_percent", "metrics_source", "held")
    return {
        **{name: device[name] for name in names},
        "pid": process["pid"],
        "user": process["user"],
        "command": process["command"].split()[-1],
        "process_memory": process["memory_used_bytes"],
    }


class Pod(FarmCase):
    """Four workers with four chips each."""

    COUNT = len(WORKERS)

    @classmethod
    def setUpClass(cls):
        python = python_with_grpcio()
        if python is None:
            raise unittest.SkipTest("no Python with grpcio; tests/run installs it where there is a network")
        super().setUpClass()
        cls.workers = [Worker(cls, number, python) for number in range(len(WORKERS))]

    @classmethod
    def start(cls, command, user):
        who = {"user": pwd.getpwnam(user).pw_uid} if os.geteuid() == 0 else {}
        process = subprocess.Popen(command, stdin=subprocess.PIPE, **who)
        cls.addClassCleanup(end, process)
        return process

    def local_variables(self):
        """Returns gtop's environment variables on worker 1, which is this machine."""
        local = self.workers[1]
        return {"GCE_METADATA_HOST": self.metadata(), "GTOP_ROOT": local.root, "TPU_RUNTIME_METRICS_PORTS": str(local.ports[0])}

    def test_every_chip_of_every_worker_is_reported_with_its_owner(self):
        command = [*self.at_home(), GTOP, "--tpu-pod", "--json", "--watch", "-i", "0.2"]
        watch = subprocess.Popen(command, env=self.environment(**self.local_variables()), stdout=subprocess.PIPE, text=True)
        self.addCleanup(end, watch)
        expected = [worker.expected() for worker in self.workers]
        for line, _ in zip(watch.stdout, range(300)):
            nodes = json.loads(line)["nodes"]
            devices = [device for node in nodes for device in node["devices"]]
            is_complete = all(device["utilization_percent"] is not None and device["processes"] for device in devices)
            if is_complete and len(devices) == CHIPS * len(WORKERS):
                break
        self.assertEqual([node["name"] for node in nodes], [f"w{number} 127.0.77.{WORKERS[number]}" for number in range(len(WORKERS))])
        self.assertEqual([node["transport"] for node in nodes], ["native", "local", "native", "native"])
        self.assertEqual([node["fault"] for node in nodes], [None] * len(WORKERS))
        self.maxDiff = None
        self.assertEqual([[reported(device) for device in node["devices"]] for node in nodes], expected)
        watch.send_signal(signal.SIGTERM)

    def test_the_table_lists_the_workers_in_order(self):
        done = self.gtop("--tpu-pod", "--once", **self.local_variables())
        self.assertEqual(done.returncode, 0, done.stderr)
        positions = [done.stdout.find(f"w{number} 127.0.77.{WORKERS[number]}") for number in range(len(WORKERS))]
        self.assertTrue(-1 not in positions and positions == sorted(positions), done.stdout)

    def test_the_doctor_finds_the_chips_of_each_worker(self):
        done = self.gtop("doctor", "--tpu-pod", "--json", **self.local_variables())
        nodes = {node["name"].split()[0]: node for node in json.loads(done.stdout)["nodes"]}
        for number in range(len(WORKERS)):
            found = [step["found"] for step in nodes[f"w{number}"]["steps"] if step["step"] == "tpu"]
            self.assertEqual(len(found), 1, nodes[f"w{number}"])
            self.assertIn("4", found[0])


if __name__ == "__main__":
    unittest.main()
