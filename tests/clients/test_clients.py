"""The stand-in for NVML is one that real clients take for the real one, and they say what gtop says.

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
ASK = os.path.join(rig.HERE, "ask")
TIMEOUT = 5        # seconds after which a client is taken to hang


def setUpModule():
    rig.needs_packages()


def program(name):
    return os.path.join(rig.CLIENTS, "bin", name)


def asked(machine, script, seconds=60):
    """What a script of ours says that asks a client's library: (exit status, answer, complaints); None if it hangs."""
    ended = machine.run(rig.PYTHON, os.path.join(ASK, script), seconds=seconds, said="\n")
    if ended is None:
        return None
    code, out, complaints = ended
    return code, json.loads(out) if out else None, complaints


def whole(node):
    return [device for device in node["devices"] if device["parent"] is None]


def ordered(rows):
    """Rows that may hold None; None where they are not known."""
    return None if rows is None else sorted(map(list, rows), key=repr)


def users(device, *keys):
    """The processes of a device in order."""
    rows = device["processes"]
    return ordered(None if rows is None else [[row["pid"]] + [row[key] for key in keys] for row in rows])


class Scenarios(unittest.TestCase):
    maxDiff = None

    def each(self, client, ask, compare):
        """Asks a client on each machine, and compares with what gtop says there."""
        for scenario in SCENARIOS:
            with self.subTest(scenario.name):
                machine = Machine(scenario.text(Machine.pids(scenario.processes)), scenario.entry)
                node = machine.node()
                code, said, complaints = ask(machine)
                if client in scenario.fails:
                    self.assertNotEqual(code, 0)
                    self.assertIn(scenario.fails[client], complaints)
                    self.assertEqual(rig.source(node, "nvml")["fault"], None)
                    continue
                self.assertEqual(code, 0, complaints)
                compare(node, said, scenario.differs.get(client, ()))

    def same(self, ours, theirs, leave_out=()):
        """Every fact of theirs is ours, known or not."""
        for field, value in theirs.items():
            if field in leave_out:
                continue
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                self.assertIsNotNone(ours[field], field)
                self.assertAlmostEqual(ours[field], value, 2, field)
            else:
                self.assertEqual(ours[field], value, field)

    def host_memory(self, node, ours, differs):
        """What to leave out of a device without memory of its own: only we tell that of the host."""
        if "memory of the host" not in differs:
            return ()
        self.assertEqual(ours["memory_total_bytes"], node["host"]["memory_total_bytes"])
        return ("memory_total_bytes", "memory_used_bytes", "memory_free_bytes")

    def is_closed(self, theirs, ours):
        """A device that neither gives numbers of."""
        if "fault" not in theirs:
            self.assertIsNone(ours["fault"])
            return False
        words = {"lost": "gpu is lost", "no permission": "insufficient permissions"}
        self.assertIn(words[ours["fault"]], theirs["fault"].lower())
        self.assertEqual((ours["processes"], ours["power_watts"]), (None, None))
        return True

    def test_nvidia_ml_py_says_the_same(self):
        def compare(node, said, differs):
            self.assertEqual(rig.source(node, "nvml")["driver"]["version"], said["driver"])
            self.assertEqual(len(said["devices"]), len(node["devices"]))
            for theirs, ours in zip(said["devices"], node["devices"]):
                if self.is_closed(theirs, ours):
                    continue
                theirs = dict(theirs)
                processes, action = theirs.pop("processes"), theirs.pop("recovery", None)
                if action is not None:
                    self.assertEqual(ours["recovery_action"], RECOVERY[action])
                self.same(ours, theirs, self.host_memory(node, ours, differs))
                if "garbage processes" in differs:
                    self.assertNotEqual(processes, users(ours, "memory_used_bytes", "kind"))
                else:
                    self.assertEqual(ordered(processes), users(ours, "memory_used_bytes", "kind"))
            events = [[event["device"], {"xid": 8}[event["kind"]], event["code"]] for event in node["events"]]
            self.assertEqual(sorted(events), sorted(said["events"]))

        self.each("nvidia-ml-py", lambda machine: asked(machine, "nvidia_ml_py.py"), compare)

    def test_the_nvidia_ml_py_of_the_time_says_the_same_of_processes(self):
        for entry, version in ((16, "10.418.84"), (24, "10.418.84"), (32, "12.535.77")):
            with self.subTest(f"{entry} bytes"):
                scenario = next(one for one in SCENARIOS if one.name == f"process entries of {entry} bytes")
                machine = Machine(scenario.text(Machine.pids(4)), entry, PYTHONPATH=rig.older(version))
                code, said, complaints = asked(machine, "older.py")
                self.assertEqual(code, 0, complaints)
                device, = machine.node()["devices"]
                self.assertEqual(users(device, "memory_used_bytes", "kind"), ordered(said[device["uuid"]]))

    def test_nvitop_says_the_same(self):
        def compare(node, said, differs):
            self.assertEqual(rig.source(node, "nvml")["driver"]["version"], said["driver"])
            self.assertEqual(len(said["devices"]), len(node["devices"]))
            for theirs, ours in zip(said["devices"], node["devices"]):
                if self.is_closed(theirs, ours):
                    continue
                theirs = dict(theirs)
                processes = ordered(theirs.pop("processes"))
                leave_out = ()
                if "memory of the host" in differs:
                    self.assertEqual(theirs["memory_total_bytes"], ours["memory_total_bytes"])
                    # What of it is in use moves meanwhile.
                    leave_out = ("memory_used_bytes", "memory_free_bytes")
                self.same(ours, theirs, leave_out)
                if "no processes where refused" in differs and ours["processes"] is None:
                    self.assertEqual(processes, [])
                    continue
                shares = ("sm_percent", "memory_utilization_percent", "encoder_percent", "decoder_percent")
                if "zeros for shares of slices" in differs and ours["parent"]:
                    self.assertEqual({tuple(process[3:]) for process in processes}, {(0, 0, 0, 0)})
                    processes, shares = [process[:3] for process in processes], ()
                expected = users(ours, "memory_used_bytes", "kind", *shares)
                self.assertEqual(expected, processes)

        self.each("nvitop", lambda machine: asked(machine, "nvitop_library.py"), compare)

    def test_gpustat_says_the_same(self):
        def ask(machine):
            code, out, complaints = machine.run(program("gpustat"), "--json")
            return code, json.loads(out)["gpus"] if out else None, complaints

        def compare(node, said, differs):
            self.assertEqual(len(said), len(whole(node)))
            for theirs, ours in zip(said, whole(node)):
                if "is lost" in theirs["name"]:
                    self.assertEqual(ours["fault"], "lost")
                    continue
                self.assertIsNone(ours["fault"])
                own = dict(ours, **dict.fromkeys(self.host_memory(node, ours, differs)))
                self.gpustat_row(theirs, own)
                if "no processes where refused" in differs and ours["processes"] is None:
                    self.assertEqual(theirs["processes"], [])
                elif "garbage processes" in differs:
                    self.assertNotEqual(self.gpustat_users(theirs), self.seen(node, ours))
                else:
                    self.assertEqual(self.gpustat_users(theirs), self.seen(node, ours))

        self.each("gpustat", ask, compare)

    def gpustat_row(self, theirs, ours):
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
    def gpustat_users(theirs):
        return ordered([p["pid"], p["gpu_memory_usage"], p["username"]] for p in theirs["processes"])

    @staticmethod
    def seen(node, ours):
        """The processes of a device and of its slices, as gpustat shows them."""
        devices = [ours] + [part for part in node["devices"] if part["parent"] == ours["uuid"]]
        rows = [process for device in devices for process in device["processes"]]
        return ordered([p["pid"], None if p["memory_used_bytes"] is None else p["memory_used_bytes"] // MIB, p["user"]]
                       for p in rows)


def named(name):
    return next(scenario for scenario in SCENARIOS if scenario.name == name)


class Screens(unittest.TestCase):
    """What `nvitop -1` prints for people."""

    maxDiff = None
    # Fan, temperature, state, power and its limit, memory in use and in all, utilization.
    DEVICE = re.compile(r"│ +(\S+) +(\S+) +(N/A|P\d+) +(N/A|\d+W) / (N/A|\d+W) │ +(N/A|\S+B) / (N/A|\S+B) │ +(\S+) ")
    PROCESS = re.compile(r"│ +(\d+) +(\d+) C +\S+ +[\d.]+[MG]iB +(\d+) +(\d+) ")

    def screen(self, scenario):
        machine = Machine(scenario.text(Machine.pids(scenario.processes)), scenario.entry)
        code, shown, complaints = machine.run(program("nvitop"), "-1")
        self.assertEqual(code, 0, complaints)
        return shown, machine.node()

    def size(self, words):
        """Bytes, from a number and a unit, and by how much they may be off."""
        if words == "N/A":
            return None
        number, unit = re.fullmatch(r"([\d.]+)([KMG]iB|B)", words).groups()
        scale = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
        return float(number) * scale, scale * 0.51 / 10 ** len(number.partition(".")[2])

    def same_size(self, words, ours, what):
        said = self.size(words)
        if said is None or ours is None:
            self.assertEqual((said, ours), (None, None), what)
        else:
            self.assertAlmostEqual(ours, said[0], delta=said[1], msg=what)

    def test_the_panel_shows_every_device_as_gtop_does(self):
        def whole(number, unit):
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
                        whole(ours["fan_percent"], "%"), whole(ours["temperature_celsius"], "C"),
                        whole(ours["performance_state"], ""), whole(ours["power_watts"], "W"),
                        whole(limit and round(limit), "W"), whole(ours["utilization_percent"], "%")), shown)
                    if "memory of the host" not in scenario.differs.get("nvitop", ()):
                        self.same_size(used, ours["memory_used_bytes"], shown)
                        self.same_size(total, ours["memory_total_bytes"], shown)

    def test_the_processes_of_busy_devices(self):
        shown, node = self.screen(named("eight busy A100"))
        said = sorted((int(index), int(pid), float(sm), float(memory)) for index, pid, sm, memory in self.PROCESS.findall(shown))
        self.assertEqual(said, sorted(
            (ours["index"], process["pid"], process["sm_percent"], process["memory_utilization_percent"])
            for ours in node["devices"] for process in ours["processes"]))
        self.assertEqual(len(said), 40)

    def test_the_screen_of_slices(self):
        shown, node = self.screen(named("an H100 in seven slices"))
        rows = re.findall(r"│ 0:(\d) +(\S+) @ GI/CI: *(\d+)/(\d+) *│ +([\d.]+)MiB / +(\d+)MiB", shown)
        parts = [part for part in node["devices"] if part["parent"]]
        self.assertEqual([(int(row[0]), int(row[2]), int(row[3]), float(row[4]), int(row[5])) for row in rows],
                         [(part["index"], part["gpu_instance"], part["compute_instance"],
                           part["memory_used_bytes"] / MIB, part["memory_total_bytes"] // MIB) for part in parts], shown)


class Trouble(unittest.TestCase):
    def test_where_no_client_can_begin_gtop_says_why_in_their_words(self):
        for name, state, ours, theirs in ABSENT:
            with self.subTest(name):
                machine = Machine(state)
                node = machine.node()
                self.assertEqual((rig.source(node, "nvml")["absent"], node["devices"]), (ours, []))
                self.assertIsNotNone(node["host"]["memory_total_bytes"])
                for command in ([program("gpustat"), "--json"], [program("nvitop"), "-1"]):
                    code, _, complaints = machine.run(*command)
                    self.assertNotEqual(code, 0)
                    self.assertIn(theirs, complaints)
                code, _, complaints = asked(machine, "nvidia_ml_py.py")
                self.assertNotEqual(code, 0)
                self.assertIn(theirs, complaints)

    def test_a_call_that_hangs_holds_up_the_others_and_not_gtop(self):
        machine = Machine(HUNG)
        node = machine.node()
        fault = rig.source(node, "nvml")["fault"]
        self.assertEqual((fault["kind"], fault["call"]), ("stuck", "nvmlDeviceGetPowerUsage of device 0"))
        self.assertIsNotNone(node["host"]["memory_total_bytes"])
        for command in ([program("gpustat"), "--json"], [program("nvitop"), "-1"]):
            self.assertIsNone(machine.run(*command, seconds=TIMEOUT), command)
        self.assertIsNone(asked(machine, "nvidia_ml_py.py", TIMEOUT))

    def test_a_device_that_is_lost_while_all_look_is_lost_to_all(self):
        pids = Machine.pids(2)
        here = DRIVER + "gpu 0 util=40 used_mib=500\ngpu 1 util=50 used_mib=600{0}\n" + "".join(
            f"proc {i} {pid} 400\n" for i, pid in enumerate(pids))
        machine = Machine(here.format(""))
        looking = [machine.start(rig.PYTHON, os.path.join(ASK, name)) for name in ("nvidia_ml_py.py", "nvitop_library.py")]
        gtop = machine.start(rig.GTOP, "--local", "--json", "--watch", "-i", "0.2")
        try:
            before = self.until(gtop, lambda node: len(node["devices"]) == 2 and node["devices"][1]["processes"])
            for client in looking:
                first, second = self.ask(client)["devices"]
                for theirs, ours in zip((first, second), before):
                    self.assertEqual(theirs["memory_used_bytes"], ours["memory_used_bytes"])
                    self.assertEqual(theirs["utilization_percent"], ours["utilization_percent"])
            machine.write(here.format(" lost"))
            after = self.until(gtop, lambda node: node["devices"][1]["fault"])
            self.assertEqual([device["fault"] for device in after], [None, "lost"])
            self.assertEqual((after[1]["uuid"], after[1]["memory_used_bytes"]), (before[1]["uuid"], None))
            for client in looking:
                first, second = self.ask(client)["devices"]
                self.assertEqual(first["memory_used_bytes"], after[0]["memory_used_bytes"])
                self.assertIn("gpu is lost", second["fault"].lower())
            shown = json.loads(machine.run(program("gpustat"), "--json")[1])["gpus"]
            self.assertEqual([shown[0]["memory.used"], shown[1]["name"]], [500, "((GPU is lost))"])
        finally:
            for one in looking + [gtop]:
                one.stdin.close()
                one.kill()
                one.stdout.close()
                one.wait()

    @staticmethod
    def ask(client):
        client.stdin.write(b"\n")
        client.stdin.flush()
        return json.loads(client.stdout.readline().decode())

    def until(self, gtop, is_so):
        """The devices as soon as this is so of the node."""
        for _ in range(300):
            node = json.loads(gtop.stdout.readline().decode())["nodes"][0]
            if is_so(node):
                return node["devices"]
        self.fail(f"it never was so; the last was {node}")


if __name__ == "__main__":
    unittest.main()
