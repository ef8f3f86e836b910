"""What `gtop --json` prints is what `gtop --json-schema` says it prints, and nothing else, on machines of all kinds.

    GTOP=path/to/gtop python3 -m unittest -v test_schema

The judge is jsonschema of the package index, run in its own environment: see rig.
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
import probe as nvidia_bench    # noqa: E402  the machines that the benches measure on
import tpu as tpu_bench         # noqa: E402

STUBS = os.path.join(rig.ROOT, "tests", "stubs")
GRPC = os.path.join(os.path.dirname(rig.CLIENTS), "grpcio", "bin", "python")

# Prints, for each line with a snapshot: a list of what does not fit, at most five.
JUDGE = """
import json, sys, jsonschema
schema = json.loads(sys.stdin.readline())
jsonschema.Draft202012Validator.check_schema(schema)
judge = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
for line in sys.stdin:
    wrong = [f"{error.json_path}: {error.message[:200]}" for error in judge.iter_errors(json.loads(line))]
    print(json.dumps(wrong[:5]), flush=True)
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
        cls.judge = subprocess.Popen([rig.PYTHON, "-c", JUDGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.addClassCleanup(cls.leave)
        cls.judge.stdin.write(json.dumps(cls.schema).encode() + b"\n")

    @classmethod
    def leave(cls):
        cls.judge.stdin.close()
        cls.judge.wait()
        cls.judge.stdout.close()

    def wrong(self, snapshot):
        """What does not fit the schema."""
        self.judge.stdin.write(json.dumps(snapshot).encode() + b"\n")
        self.judge.stdin.flush()
        return json.loads(self.judge.stdout.readline().decode())

    def fits(self, snapshot):
        self.assertEqual(self.wrong(snapshot), [])
        return snapshot

    def local(self, machine, *words):
        node, = self.fits(machine.snapshot("--local", *words))["nodes"]
        return node

    def test_a_fleet_with_everything_that_can_be_wrong(self):
        snapshot = self.fits(Machine("").snapshot("--demo=40"))
        self.assertEqual(len(snapshot["nodes"]), 40)
        self.assertTrue(any(node["fault"] for node in snapshot["nodes"]))

    def test_nvidia_machines(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario.name):
                self.local(Machine(scenario.text(Machine.pids(scenario.processes)), scenario.entry))
        for name, state in [entry[:2] for entry in ABSENT] + [("a call that hangs", HUNG)]:
            with self.subTest(name):
                self.local(Machine(state))

    def test_nvidia_smi(self):
        machine = Machine(DRIVER + f"gpu 0 mig=1\nslice 0 1 total_mib=9728 used_mib=5\ngpu 1 power_mw=~\nproc 1 {Machine.pids(1)[0]} 7\n",
                          LD_LIBRARY_PATH="/nonexistent")
        machine.environment["PATH"] = STUBS + ":" + os.environ["PATH"]
        node = self.local(machine)
        self.assertEqual(len(node["devices"]), 3)
        self.assertIn("nvidia-smi.slow", [source["id"] for source in node["sources"] if source["age_seconds"] is not None])

    def test_amd(self):
        machine = Machine("", GTOP_ROOT=rig.folder())
        nvidia_bench.tree(machine.environment["GTOP_ROOT"], 2, Machine.pids(2))
        node = self.local(machine)
        self.assertEqual([device["vendor"] for device in node["devices"]], ["amd", "amd"])

    def test_tpu_with_and_without_a_workload(self):
        idle = Machine("", GTOP_ROOT=rig.folder())
        tpu_bench.tree(idle.environment["GTOP_ROOT"], 4, Machine.pids(1)[0], [1])
        self.assertEqual(len(self.local(idle)["devices"]), 4)
        if not os.path.exists(GRPC):
            self.skipTest("no grpcio: the part with a workload")
        port, = tpu_bench.free_ports(1)
        server = subprocess.Popen([GRPC, os.path.join(STUBS, "tpu_metrics.py"), "--chips", "4", "--ports", str(port),
                                   "--cores", "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            self.assertEqual(server.stdout.readline(), b"up\n")
            busy = Machine("", GTOP_ROOT=rig.folder())
            tpu_bench.tree(busy.environment["GTOP_ROOT"], 4, Machine.pids(1)[0], [port], ("0x0027", "0x004f"))
            devices = self.local(busy)["devices"]
            self.assertEqual([len(device["cores"]) for device in devices], [2] * 4, devices)
        finally:
            server.stdin.close()
            server.wait()
            server.stdout.close()

    def test_jobs_of_a_scheduler_and_jobs_that_only_processes_tell_of(self):
        worker = subprocess.Popen(["sleep", "1000"], env=dict(os.environ, SLURM_JOB_ID="4711"))
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        machine = Machine(DRIVER + f"gpu 0 used_mib=500\nproc 0 {worker.pid} 400\n")
        own = rig.folder()
        with open(os.path.join(own, "squeue"), "w") as out:
            out.write(SQUEUE)
        os.chmod(os.path.join(own, "squeue"), 0o755)
        machine.environment["PATH"] = own + ":" + os.environ["PATH"]
        snapshot = self.fits(machine.snapshot("--slurm", "--local"))
        jobs = {job["id"]: job for job in snapshot["jobs"]}
        self.assertEqual((jobs["1"]["state"], jobs["2"]["state"]), ("running", "pending"))
        self.assertEqual({node["link"] for node in snapshot["nodes"]}, {"up", "down"})
        with open(f"/proc/{worker.pid}/cgroup") as told:
            if "/job_" not in told.read():
                self.assertEqual(jobs["4711"]["allocations"][0]["devices_from"], "processes")

    def test_nobody_there(self):
        held = socket.socket()
        held.bind(("127.0.0.1", 0))
        self.addCleanup(held.close)
        machine = Machine("")
        snapshot = self.fits(machine.snapshot(f"127.0.0.1:{held.getsockname()[1]}", "no-such-node.invalid"))
        self.assertEqual([node["fault"]["kind"] for node in snapshot["nodes"]], ["connection refused", "name not found"])

    def test_what_the_schema_does_not_know_is_refused(self):
        scenario = SCENARIOS[0]
        snapshot = Machine(scenario.text(Machine.pids(scenario.processes))).snapshot("--local")
        self.fits(snapshot)
        count = 0
        for place in objects(snapshot):
            keys = list(place)
            place["no_such_key"] = 1
            self.assertNotEqual(self.wrong(snapshot), [], keys)
            del place["no_such_key"]
            count += 1
        self.assertGreater(count, 10)
        device = snapshot["nodes"][0]["devices"][0]
        for key, value in (("power_watts", "382"), ("utilization_percent", 101), ("pcie_lanes", 1.5), ("uuid", None)):
            right, device[key] = device[key], value
            self.assertNotEqual(self.wrong(snapshot), [], key)
            device[key] = right
        self.fits(snapshot)


def objects(value):
    """One object of each kind in a snapshot, by its keys."""
    seen, waiting = {}, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            seen.setdefault(tuple(sorted(one)), one)
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else []
    return list(seen.values())


if __name__ == "__main__":
    unittest.main()
