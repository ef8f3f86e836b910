"""Real NVML clients accept the NVML stub, and report the same values as gtop.

    GTOP=path/to/gtop python3 -m unittest -v test_clients
"""

import json
import os
import re
import unittest

import rig
from rig import MIB, Machine
from scenarios import ABSENT, DRIVER, HUNG, SCENARIOS

RECOVERY = ("none", "reset the device", "reboot the node")
QUERIES = os.path.join(rig.HERE, "queries")
TIMEOUT = 5        # seconds after which a client counts as hung


def setUpModule():
    rig.needs_packages()


def program(name):
    return os.path.join(rig.CLIENTS, "bin", name)


def query(machine, script, seconds=60):
    """Runs a script that queries a client library; returns (exit status, parsed output, standard error), None if it hangs."""
    done = machine.run(rig.PYTHON, os.path.join(QUERIES, script), seconds=seconds, stdin="\n")
    if done is None:
        return None
    code, out, err = done
    return code, json.loads(out) if out else None, err


def physical_devices(node):
    return [device for device in node["devices"] if device["parent"] is None]


def sorted_rows(rows):
    """Sorts rows that may contain None; None stays None."""
    return None if rows is None else sorted(map(list, rows), key=repr)


def process_rows(device, *keys):
    """Returns pid and the values of `keys` for the processes of a device, sorted; None if unknown."""
    rows = device["processes"]
    return sorted_rows(None if rows is None else [[row["pid"]] + [row[key] for key in keys] for row in rows])


class Scenarios(unittest.TestCase):
    maxDiff = None

    def compare_all(self, client, query_client, compare):
        """Queries a client on each machine, and compares its values with those of gtop."""
        for scenario in SCENARIOS:
            with self.subTest(scenario.name):
                machine = Machine(scenario.text(Machine.pids(scenario.processes)), scenario.entry)
                node = machine.node()
                code, reported, err = query_client(machine)
                if client in scenario.fails:
                    self.assertNotEqual(code, 0)
                    self.assertIn(scenario.fails[client], err)
                    self.assertEqual(rig.source(node, "nvml")["fault"], None)
                    continue
                self.assertEqual(code, 0, err)
                compare(node, reported, scenario.differs.get(client, ()))

    def check_same(self, ours, theirs, leave_out=()):
        """Checks that all values of the client equal those of gtop, known or not."""
        for field, value in theirs.items():
            if field in leave_out:
                continue
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                self.assertIsNotNone(ours[field], field)
                self.assertAlmostEqual(ours[field], value, 2, field)
            else:
                self.assertEqual(ours[field], value, field)

    def host_memory(self, node, ours, differs):
        """Returns the fields to skip for a device that uses host memory, which only gtop reports."""
        if "memory of the host" not in differs:
            return ()
        self.assertEqual(ours["memory_total_bytes"], node["host"]["memory_total_bytes"])
        return ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes")

    def has_fault(self, theirs, ours):
        """Returns True if neither reports values of the device; then checks the reason."""
        if "fault" not in theirs:
            self.assertIsNone(ours["fault"])
            return False
        words = {"lost": "gpu is lost", "no permission": "insufficient permissions"}
        self.assertIn(words[ours["fault"]], theirs["fault"].lower())
        self.assertEqual((ours["processes"], ours["power_watts"]), (None, None))
        return True

    def test_nvidia_ml_py_reports_the_same(self):
        def compare(node, reported, differs):
            self.assertEqual(rig.source(node, "nvml")["driver"]["version"], reported["driver"])
            self.assertEqual(len(reported["devices"]), len(node["devices"]))
            for theirs, ours in zip(reported["devices"], node["devices"]):
                if self.has_fault(theirs, ours):
                    continue
                theirs = dict(theirs)
                processes, action = theirs.pop("processes"), theirs.pop("recovery", None)
                if action is not None:
                    self.assertEqual(ours["recovery_action"], RECOVERY[action])
                self.check_same(ours, theirs, self.host_memory(node, ours, differs))
                if "garbage processes" in differs:
                    self.assertNotEqual(processes, process_rows(ours, "memory_used_bytes", "kind"))
                else:
                    self.assertEqual(sorted_rows(processes), process_rows(ours, "memory_used_bytes", "kind"))
            events = [[event["device"], {"xid": 8}[event["kind"]], event["code"]] for event in node["events"]]
            self.assertEqual(sorted(events), sorted(reported["events"]))

        self.compare_all("nvidia-ml-py", lambda machine: query(machine, "nvidia_ml_py.py"), compare)

    def test_contemporary_nvidia_ml_py_reports_the_same_processes(self):
        for entry, version in ((16, "10.418.84"), (24, "10.418.84"), (32, "12.535.77")):
            with self.subTest(f"{entry} bytes"):
                scenario = next(one for one in SCENARIOS if one.name == f"process entries of {entry} bytes")
                machine = Machine(scenario.text(Machine.pids(4)), entry, PYTHONPATH=rig.older(version))
                code, reported, err = query(machine, "older.py")
                self.assertEqual(code, 0, err)
                device, = machine.node()["devices"]
                self.assertEqual(process_rows(device, "memory_used_bytes", "kind"), sorted_rows(reported[device["uuid"]]))

    def test_nvitop_reports_the_same(self):
        def compare(node, reported, differs):
            self.assertEqual(rig.source(node, "nvml")["driver"]["version"], reported["driver"])
            self.assertEqual(len(reported["devices"]), len(node["devices"]))
            for theirs, ours in zip(reported["devices"], node["devices"]):
                if self.has_fault(theirs, ours):
                    continue
                theirs = dict(theirs)
                processes = sorted_rows(theirs.pop("processes"))
                leave_out = ()
                if "memory of the host" in differs:
                    self.assertEqual(theirs["memory_total_bytes"], ours["memory_total_bytes"])
                    # The memory in use changes meanwhile.
                    leave_out = ("memory_used_bytes", "memory_free_bytes")
                self.check_same(ours, theirs, leave_out)
                if "no processes where refused" in differs and ours["processes"] is None:
                    self.assertEqual(processes, [])
                    continue
                shares = ("sm_percent", "memory_utilization_percent", "encoder_percent", "decoder_percent")
                if "zeros for shares of slices" in differs and ours["parent"]:
                    self.assertEqual({tuple(process[3:]) for process in processes}, {(0, 0, 0, 0)})
                    processes, shares = [process[:3] for process in processes], ()
                expected = process_rows(ours, "memory_used_bytes", "kind", *shares)
                self.assertEqual(expected, processes)

        self.compare_all("nvitop", lambda machine: query(machine, "nvitop_library.py"), compare)

    def test_gpustat_reports_the_same(self):
        def query_gpustat(machine):
            code, out, err = machine.run(program("gpustat"), "--json")
            return code, json.loads(out)["gpus"] if out else None, err

        def compare(node, reported, differs):
            self.assertEqual(len(reported), len(physical_devices(node)))
            for theirs, ours in zip(reported, physical_devices(node)):
                if "is lost" in theirs["name"]:
                    self.assertEqual(ours["fault"], "lost")
                    continue
                self.assertIsNone(ours["fault"])
                own = dict(ours, **dict.fromkeys(self.host_memory(node, ours, differs)))
                self.check_gpustat_row(theirs, own)
                if "no processes where refused" in differs and ours["processes"] is None:
                    self.assertEqual(theirs["processes"], [])
                elif "garbage processes" in differs:
                    self.assertNotEqual(self.gpustat_processes(theirs), self.expected_processes(node, ours))
                else:
                    self.assertEqual(self.gpustat_processes(theirs), self.expected_processes(node, ours))

        self.compare_all("gpustat", query_gpustat, compare)

    def check_gpustat_row(self, theirs, ours):
        def rounded(key, unit):
            return None if ours[key] is None else int(ours[key] // unit)

        expected = {
            "uuid": ours["uuid"], "name": ours["name"], "temperature.gpu": ours["temperature_celsius"],
            "fan.speed": ours["fan_percent"], "utilization.gpu": ours["utilization_percent"],
            "utilization.enc": ours["encoder_percent"], "utilization.dec": ours["decoder_percent"],
            "power.draw": rounded("power_watts", 1), "enforced.power.limit": rounded("power_limit_watts", 1),
            "memory.used": rounded("memory_used_bytes", MIB), "memory.total": rounded("memory_total_bytes", MIB),
        }
        self.assertEqual({key: theirs[key] for key in expected}, expected)

    @staticmethod
    def gpustat_processes(theirs):
        return sorted_rows([p["pid"], p["gpu_memory_usage"], p["username"]] for p in theirs["processes"])

    @staticmethod
    def expected_processes(node, ours):
        """Returns the processes of a device and of its slices in gpustat's form."""
        devices = [ours] + [part for part in node["devices"] if part["parent"] == ours["uuid"]]
        rows = [process for device in devices for process in device["processes"]]
        return sorted_rows([p["pid"], None if p["memory_used_bytes"] is None else p["memory_used_bytes"] // MIB, p["user"]]
                       for p in rows)


def scenario_of(name):
    return next(scenario for scenario in SCENARIOS if scenario.name == name)


class Screens(unittest.TestCase):
    """The text that `nvitop -1` prints."""

    maxDiff = None
    # Fan, temperature, state, power and its limit, memory in use and in all, utilization.
    DEVICE = re.compile(r"│ +(\S+) +(\S+) +(N/A|P\d+) +(N/A|\d+W) / (N/A|\d+W) │ +(N/A|\S+B) / (N/A|\S+B) │ +(\S+) ")
    PROCESS = re.compile(r"│ +(\d+) +(\d+) C +\S+ +[\d.]+[MG]iB +(\d+) +(\d+) ")

    def screen(self, scenario):
        machine = Machine(scenario.text(Machine.pids(scenario.processes)), scenario.entry)
        code, shown, err = machine.run(program("nvitop"), "-1")
        self.assertEqual(code, 0, err)
        return shown, machine.node()

    def size(self, words):
        """Bytes, from a number and a unit, and by how much they may be off."""
        if words == "N/A":
            return None
        number, unit = re.fullmatch(r"([\d.]+)([KMG]iB|B)", words).groups()
        scale = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
        return float(number) * scale, scale * 0.51 / 10 ** len(number.partition(".")[2])

    def check_size(self, words, ours, what):
        reported = self.size(words)
        if reported is None or ours is None:
            self.assertEqual((reported, ours), (None, None), what)
        else:
            self.assertAlmostEqual(ours, reported[0], delta=reported[1], msg=what)

    def test_the_panel_shows_every_device_as_gtop_does(self):
        def rounded(number, unit):
            return "N/A" if number is None else f"{int(number)}{unit}"

        for scenario in SCENARIOS:
            with self.subTest(scenario.name):
                if "nvitop" in scenario.fails:
                    continue
                shown, node = self.screen(scenario)
                devices = [one for one in node["devices"] if not one["parent"]]
                rows = self.DEVICE.findall(shown)
                self.assertEqual(len(rows), len(devices), shown)
                for (fan, temperature, state, *watts, used, total, busy), ours in zip(rows, devices):
                    limit = ours["power_limit_requested_watts"]
                    state = state.removeprefix("P")
                    self.assertEqual((fan, temperature, state, *watts, busy), (
                        rounded(ours["fan_percent"], "%"), rounded(ours["temperature_celsius"], "C"),
                        rounded(ours["performance_state"], ""), rounded(ours["power_watts"], "W"),
                        rounded(limit and round(limit), "W"), rounded(ours["utilization_percent"], "%")), shown)
                    if "memory of the host" not in scenario.differs.get("nvitop", ()):
                        self.check_size(used, ours["memory_used_bytes"], shown)
                        self.check_size(total, ours["memory_total_bytes"], shown)

    def test_the_processes_of_busy_devices(self):
        shown, node = self.screen(scenario_of("eight busy A100"))
        reported = sorted((int(index), int(pid), float(sm), float(memory)) for index, pid, sm, memory in self.PROCESS.findall(shown))
        self.assertEqual(reported, sorted(
            (ours["index"], process["pid"], process["sm_percent"], process["memory_utilization_percent"])
            for ours in node["devices"] for process in ours["processes"]))
        self.assertEqual(len(reported), 40)

    def test_the_slices_of_a_device(self):
        shown, node = self.screen(scenario_of("an H100 in seven slices"))
        rows = re.findall(r"│ 0:(\d) +(\S+) @ GI/CI: *(\d+)/(\d+) *│ +([\d.]+)MiB / +(\d+)MiB", shown)
        parts = [part for part in node["devices"] if part["parent"]]
        self.assertEqual([(int(row[0]), int(row[2]), int(row[3]), float(row[4]), int(row[5])) for row in rows],
                         [(part["index"], part["gpu_instance"], part["compute_instance"],
                           part["memory_used_bytes"] / MIB, part["memory_total_bytes"] // MIB) for part in parts], shown)


class Faults(unittest.TestCase):
    def test_where_no_client_can_start_gtop_gives_the_same_reason(self):
        for name, state, ours, theirs in ABSENT:
            with self.subTest(name):
                machine = Machine(state)
                node = machine.node()
                self.assertEqual((rig.source(node, "nvml")["absent"], node["devices"]), (ours, []))
                self.assertIsNotNone(node["host"]["memory_total_bytes"])
                for command in ([program("gpustat"), "--json"], [program("nvitop"), "-1"]):
                    code, _, err = machine.run(*command)
                    self.assertNotEqual(code, 0)
                    self.assertIn(theirs, err)
                code, _, err = query(machine, "nvidia_ml_py.py")
                self.assertNotEqual(code, 0)
                self.assertIn(theirs, err)

    def test_a_hung_call_blocks_the_clients_and_not_gtop(self):
        machine = Machine(HUNG)
        node = machine.node()
        fault = rig.source(node, "nvml")["fault"]
        self.assertEqual((fault["kind"], fault["call"]), ("slow", "nvmlDeviceGetPowerUsage of device 0"))
        self.assertIsNotNone(node["host"]["memory_total_bytes"])
        for command in ([program("gpustat"), "--json"], [program("nvitop"), "-1"]):
            self.assertIsNone(machine.run(*command, seconds=TIMEOUT), command)
        self.assertIsNone(query(machine, "nvidia_ml_py.py", TIMEOUT))

    def test_a_device_lost_meanwhile_is_lost_for_all(self):
        pids = Machine.pids(2)
        scenario = DRIVER + "gpu 0 util=40 used_mib=500\ngpu 1 util=50 used_mib=600{0}\n" + "".join(
            f"proc {i} {pid} 400\n" for i, pid in enumerate(pids))
        machine = Machine(scenario.format(""))
        clients = [machine.start(rig.PYTHON, os.path.join(QUERIES, name)) for name in ("nvidia_ml_py.py", "nvitop_library.py")]
        gtop = machine.start(rig.GTOP, "--local", "--json", "--watch", "-i", "0.2")
        try:
            before = self.wait_for_devices(gtop, lambda node: len(node["devices"]) == 2 and node["devices"][1]["processes"])
            for client in clients:
                first, second = self.request(client)["devices"]
                for theirs, ours in zip((first, second), before):
                    self.assertEqual(theirs["memory_used_bytes"], ours["memory_used_bytes"])
                    self.assertEqual(theirs["utilization_percent"], ours["utilization_percent"])
            machine.write(scenario.format(" lost"))
            after = self.wait_for_devices(gtop, lambda node: node["devices"][1]["fault"])
            self.assertEqual([device["fault"] for device in after], [None, "lost"])
            self.assertEqual((after[1]["uuid"], after[1]["memory_used_bytes"]), (before[1]["uuid"], None))
            for client in clients:
                first, second = self.request(client)["devices"]
                self.assertEqual(first["memory_used_bytes"], after[0]["memory_used_bytes"])
                self.assertIn("gpu is lost", second["fault"].lower())
            shown = json.loads(machine.run(program("gpustat"), "--json")[1])["gpus"]
            self.assertEqual([shown[0]["memory.used"], shown[1]["name"]], [500, "((GPU is lost))"])
        finally:
            for one in clients + [gtop]:
                one.stdin.close()
                one.kill()
                one.stdout.close()
                one.wait()

    @staticmethod
    def request(client):
        client.stdin.write(b"\n")
        client.stdin.flush()
        return json.loads(client.stdout.readline().decode())

    def wait_for_devices(self, gtop, condition):
        """Returns the devices of the first snapshot whose node meets the condition."""
        for _ in range(300):
            node = json.loads(gtop.stdout.readline().decode())["nodes"][0]
            if condition(node):
                return node["devices"]
        self.fail(f"the condition was not met; the last node: {node}")


if __name__ == "__main__":
    unittest.main()
