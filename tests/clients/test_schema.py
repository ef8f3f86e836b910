"""`gtop --json` matches `gtop --json-schema`, and has no other keys, on machines of all kinds.

    GTOP=path/to/gtop python3 -m unittest -v test_schema

The validator is the jsonschema package in the virtual environment of rig.
"""

import json
import os
import socket
import subprocess
import sys
import unittest

import rig
from rig import Machine
from scenarios import ABSENT, DRIVER, HUNG, SCENARIOS

sys.path.insert(0, os.path.join(rig.ROOT, "benches"))
import probe as probe_bench     # noqa: E402  the simulated machines of the benches
import tpu as tpu_bench         # noqa: E402

STUBS = os.path.join(rig.ROOT, "tests", "stubs")
GRPC = os.path.join(os.path.dirname(rig.CLIENTS), "python-grpcio", "bin", "python")

# For each line with a snapshot, prints a list of at most five validation errors.
VALIDATOR = """
import json, sys, jsonschema
schema = json.loads(sys.stdin.readline())
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
for line in sys.stdin:
    errors = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(json.loads(line))]
    print(json.dumps(errors[:5]), flush=True)
"""

SQUEUE = r"""#!/usr/bin/python3 -IS
import sys
mark = [word for word in sys.argv if word.startswith('--format=')][0].split('\x1f')[0][len('--format='):]
def record(number, state, nodes):
    fields = [number, number, 'alice', 'gpu', 'phys', state, 1795269430, 1795269440, 'N/A', '1:00:00', '0:10', 2, nodes, 'None', 'x']
    print(mark + '\x1f' + '\x1f'.join(map(str, fields)) + mark)
record(1, 'RUNNING', 'no-such-node-[1-2]')
record(2, 'PENDING', '')
"""


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rig.needs_packages()
        text = subprocess.check_output([rig.GTOP, "--json-schema"])
        cls.schema = json.loads(text.decode())
        cls.validator = subprocess.Popen([rig.PYTHON, "-c", VALIDATOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.addClassCleanup(cls.stop_validator)
        cls.validator.stdin.write(json.dumps(cls.schema).encode() + b"\n")

    @classmethod
    def stop_validator(cls):
        cls.validator.stdin.close()
        cls.validator.wait()
        cls.validator.stdout.close()

    def errors(self, snapshot):
        """Returns the validation errors of a snapshot."""
        self.validator.stdin.write(json.dumps(snapshot).encode() + b"\n")
        self.validator.stdin.flush()
        return json.loads(self.validator.stdout.readline().decode())

    def check_valid(self, snapshot):
        self.assertEqual(self.errors(snapshot), [])
        return snapshot

    def local_node(self, machine, *words):
        node, = self.check_valid(machine.snapshot("--local", *words))["nodes"]
        return node

    def test_a_fleet_with_all_kinds_of_faults(self):
        snapshot = self.check_valid(Machine("").snapshot("--demo=40"))
        self.assertEqual(len(snapshot["nodes"]), 40)
        self.check_valid(Machine("").snapshot("--demo=40", "--anonymize"))
        self.assertTrue(any(node["fault"] for node in snapshot["nodes"]))

    def test_nvidia_machines(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario.name):
                self.local_node(Machine(scenario.text(Machine.pids(scenario.processes)), scenario.entry))
        for name, state in [entry[:2] for entry in ABSENT] + [("a call that hangs", HUNG)]:
            with self.subTest(name):
                self.local_node(Machine(state))

    def test_nvidia_smi(self):
        machine = Machine(DRIVER + f"gpu 0 mig=1\nslice 0 1 total_mib=9728 used_mib=5\ngpu 1 power_mw=~\nproc 1 {Machine.pids(1)[0]} 7\n",
                          LD_LIBRARY_PATH="/nonexistent")
        machine.environment["PATH"] = STUBS + ":" + os.environ["PATH"]
        node = self.local_node(machine)
        self.assertEqual(len(node["devices"]), 3)
        self.assertIn("nvidia-smi.slow", [source["id"] for source in node["sources"] if source["age_seconds"] is not None])

    def test_amd(self):
        machine = Machine("", GTOP_ROOT=rig.folder())
        probe_bench.make_amd_files(machine.environment["GTOP_ROOT"], 2, Machine.pids(2))
        node = self.local_node(machine)
        self.assertEqual([device["vendor"] for device in node["devices"]], ["amd", "amd"])

    def test_tpu_with_and_without_a_workload(self):
        idle = Machine("", GTOP_ROOT=rig.folder())
        tpu_bench.make_tpu_files(idle.environment["GTOP_ROOT"], 4, Machine.pids(1)[0], [1])
        self.assertEqual(len(self.local_node(idle)["devices"]), 4)
        if not os.path.exists(GRPC):
            self.skipTest("no grpcio: the part with a workload")
        port, = tpu_bench.free_ports(1)
        server = subprocess.Popen([GRPC, os.path.join(STUBS, "tpu_metrics.py"), "--chips", "4", "--ports", str(port),
                                   "--cores", "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.assertEqual(server.stdout.readline(), b"up\n")
            busy = Machine("", GTOP_ROOT=rig.folder())
            tpu_bench.make_tpu_files(busy.environment["GTOP_ROOT"], 4, Machine.pids(1)[0], [port], ("0x0027", "0x004f"))
            devices = self.local_node(busy)["devices"]
            self.assertEqual([len(device["cores"]) for device in devices], [2] * 4, devices)
        finally:
            server.stdin.close()
            server.wait()
            server.stdout.close()

    def test_jobs_of_a_scheduler_and_jobs_known_from_processes_only(self):
        worker = subprocess.Popen(["sleep", "1000"], env=dict(os.environ, SLURM_JOB_ID="4711"))
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        machine = Machine(DRIVER + f"gpu 0 used_mib=500\nproc 0 {worker.pid} 400\n")
        folder = rig.folder()
        with open(os.path.join(folder, "squeue"), "w") as out:
            out.write(SQUEUE)
        os.chmod(os.path.join(folder, "squeue"), 0o755)
        machine.environment["PATH"] = folder + ":" + os.environ["PATH"]
        snapshot = self.check_valid(machine.snapshot("--slurm", "--local"))
        jobs = {job["id"]: job for job in snapshot["jobs"]}
        self.assertEqual((jobs["1"]["state"], jobs["2"]["state"]), ("running", "pending"))
        self.assertEqual({node["link"] for node in snapshot["nodes"]}, {"up", "down"})
        with open(f"/proc/{worker.pid}/cgroup") as file:
            if "/job_" not in file.read():
                self.assertEqual(jobs["4711"]["allocations"][0]["evidence"], ["processes"])

    def test_nodes_that_do_not_answer(self):
        closed_port = socket.socket()
        closed_port.bind(("127.0.0.1", 0))
        self.addCleanup(closed_port.close)
        machine = Machine("")
        snapshot = self.check_valid(machine.snapshot(f"127.0.0.1:{closed_port.getsockname()[1]}", "no-such-node.invalid"))
        self.assertEqual([node["fault"]["kind"] for node in snapshot["nodes"]], ["connection refused", "name not found"])

    def test_unknown_keys_and_wrong_types_are_refused(self):
        scenario = SCENARIOS[0]
        snapshot = Machine(scenario.text(Machine.pids(scenario.processes))).snapshot("--local")
        self.check_valid(snapshot)
        count = 0
        for value in objects(snapshot):
            keys = list(value)
            value["no_such_key"] = 1
            self.assertNotEqual(self.errors(snapshot), [], keys)
            del value["no_such_key"]
            count += 1
        self.assertGreater(count, 10)
        device = snapshot["nodes"][0]["devices"][0]
        for key, value in (("power_watts", "382"), ("utilization_percent", 101), ("pcie_lanes", 1.5), ("uuid", None)):
            right, device[key] = device[key], value
            self.assertNotEqual(self.errors(snapshot), [], key)
            device[key] = right
        self.check_valid(snapshot)


def objects(value):
    """Returns one object of each kind, distinguished by their keys."""
    seen, waiting = {}, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            seen.setdefault(tuple(sorted(one)), one)
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else []
    return list(seen.values())


if __name__ == "__main__":
    unittest.main()
