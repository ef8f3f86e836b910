"""A recording read by Python alone, as docs/recordings.md says: the log of `gtop --output` has what the nodes sent,
the means are equal, and at each time the values are those of `gtop replay --json --at`.

    GTOP=path/to/gtop python3 -m unittest -v test_recording
"""

import json
import os
import re
import subprocess
import time
import unittest
from datetime import datetime, timezone

import rig

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "recordings.md")
STATES_OF_SUMS = ["active", "idle_held", "free", "faulty", "unknown"]
ENVIRONMENT = {**os.environ, "TZ": "UTC"}


def every(path):
    """Returns the objects of a recording."""
    return [json.loads(line) for line in rig.recorded_lines(path).splitlines()]


def read(path):
    """Returns the objects of a recording, those of checkpoints left out."""
    return [line for line in every(path) if not line.get("checkpoint")]


class Node:
    """The devices of a node: a value that a sample leaves out is as it was."""

    def __init__(self):
        self.offset = None
        self.devices = {}

    def take(self, arrived_at, sample):
        """Returns rows of time in milliseconds, index, utilization, used and total MiB."""
        # A sample is made when the fastest one so far would have been.
        offset = arrived_at - sample["at"]
        self.offset = offset if self.offset is None else min(offset, self.offset)
        for backend in sample.get("backends", []):
            listed = backend.get("devices")
            if listed is None:
                continue
            for device in listed:
                self.devices.setdefault(device["uuid"], {}).update(device)
            known = [self.devices[device["uuid"]] for device in listed]
            whole = [device for device in known if "parent" not in device]
            for index, device in enumerate(sorted(whole, key=lambda device: device["index"])):
                values = [device.get(key) for key in ["util", "memory_used", "memory_total"]]
                if None not in values and "fault" not in device:
                    util, used, total = values
                    yield backend["at"] + self.offset, index, round(util), used >> 20, total >> 20


def changed(known, newer):
    """Returns an object with the keys that have changed."""
    lacks = {**known.get("lacks", {}), **newer.get("lacks", {})}
    return {**known, **newer, **({"lacks": lacks} if lacks else {})}


def listed(known, newer, key):
    """Returns the elements of a complete list; each has what it leaves out from the same one before."""
    before = {key(one): one for one in known}
    return [changed(before.get(key(one), {}), one) for one in newer]


# What a device with a fault still has.
IDENTITY = """uuid parent index name pci driver clock_sm_max clock_memory_max pcie_generation_max pcie_lanes_max power_limit_default
    power_limit_min power_limit_max clock_graphics_max clock_video_max temperature_slowdown temperature_shutdown nvlinks numa_node
    minor integrated capability gpu_instance compute_instance gtt_total junction_slowdown memory_slowdown""".split()


class State:
    """What is known of a node."""

    def __init__(self):
        self.host, self.host_slow, self.backends, self.processes = {}, {}, {}, []
        self.link, self.is_new = {}, True

    def take(self, line):
        if "link" in line:
            self.link = line["link"]
            self.is_new |= self.link["state"] == "opening"
        body = line.get("body", {})
        if body.get("t") != "sample":
            return
        if self.is_new:
            link = self.link
            self.__init__()
            self.link, self.is_new = link, False
        if "host" in body:
            lists = {key: [] for key in ["net", "infiniband", "disk"]}
            self.host = {**self.host, **lists, **body["host"]}
        self.host_slow.update(body.get("host_slow", {}))
        for backend in body.get("backends", []):
            self.take_backend(self.backends.setdefault(backend["kind"], {"devices": [], "uses": []}), backend)
        if "processes" in body:
            self.processes = listed(self.processes, body["processes"]["list"], lambda one: (one["pid"], one["start"]))

    @staticmethod
    def take_backend(known, newer):
        if "devices" in newer:
            before = known["devices"]
            faulty = {one["uuid"] for one in newer["devices"] if "fault" in one}
            before = [{key: one[key] for key in IDENTITY if key in one} if one["uuid"] in faulty else one for one in before]
            # A fault counts only in the sample that has it.
            before = [{key: one[key] for key in one if key != "fault"} for one in before]
            known["devices"] = listed(before, newer["devices"], lambda one: one["uuid"])
        if "uses" in newer:
            uses, device = [], None
            for use in newer["uses"]["list"]:
                device = use.get("device", device)
                uses.append({**use, "device": device})
            known["uses"] = listed(known["uses"], uses, lambda one: (one["device"], one["pid"]))


def states(lines, at, begin=0):
    """Returns the state of each watched node at a time, from the lines after the first ones."""
    nodes, known, watched = {}, set(), []
    for line in lines[begin:]:
        is_repeated = line.get("checkpoint", False)
        if line["at"] > at and not is_repeated:
            break
        if "nodes" in line:
            watched = line["nodes"]
            # Those that it gives now, with all of their lines.
            given = set(watched) - known
        elif "start" in line or "lost" in line:
            known.clear()
        elif "node" in line:
            name = line["node"]
            is_session = line.get("link", {}).get("state") == "opening"
            if is_repeated and name in given and name not in known:
                known.add(name)
                nodes[name] = State()
            elif is_session and not is_repeated:
                known.add(name)
            elif name not in known or is_repeated and name not in given:
                continue
            nodes.setdefault(name, State()).take(line)
    return {name: nodes.get(name, State()) for name in watched}


def milli(value):
    return None if value is None else round(value / 1000, 6)


DEVICE_KEYS = {
    "utilization_percent": "util", "memory_used_bytes": "memory_used", "memory_total_bytes": "memory_total",
    "memory_free_bytes": "memory_free", "temperature_celsius": "temperature", "sm_clock_megahertz": "clock_sm",
    "memory_clock_megahertz": "clock_memory", "performance_state": "pstate", "ecc_corrected_errors": "ecc_corrected",
    "ecc_uncorrected_errors": "ecc_uncorrected", "mig_enabled": "mig", "pcie_replays": "pcie_replays",
    "encoder_percent": "encoder", "bar1_used_bytes": "bar1_used", "device_minor": "minor",
    "remapped_uncorrected_rows": "remapped_uncorrected", "fan_percent": "fan", "name": "name", "pci_bus": "pci",
    "parent": "parent", "index": "index", "uuid": "uuid",
}
HOST_KEYS = {
    "memory_total_bytes": "memory_total", "memory_available_bytes": "memory_available", "memory_cached_bytes": "memory_cached",
    "swap_free_bytes": "swap_free",
}


def add(sums, more):
    for key, value in more.items():
        sums[key] = sums.get(key, 0) + value


class Recording(unittest.TestCase):
    def compare(self, lines, recording, at, begin=0):
        """Compares the values at a time with those of gtop; returns how many there were."""
        moment = datetime.fromtimestamp(at, timezone.utc).isoformat(timespec="microseconds")
        command = [rig.GTOP, "replay", "--once", "--json", "--at", moment, recording]
        done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, timeout=120, check=False)
        found, count = states(lines, at, begin), 0
        nodes = json.loads(done.stdout)["nodes"]
        self.assertEqual({node["name"] for node in nodes}, set(found))
        for node in nodes:
            state, name = found[node["name"]], node["name"]
            self.assertEqual(node["link"], state.link.get("state", "idle"), (name, at))
            for key, word in HOST_KEYS.items():
                self.assertEqual(node["host"][key], state.host.get(word), (name, key, at))
            devices = [one for backend in state.backends.values() for one in backend["devices"]]
            gone = [one for one in node["devices"] if one["gone_since"]]
            self.assertEqual([one["uuid"] for one in node["devices"] if one not in gone], [one["uuid"] for one in devices], name)
            uses = [one for backend in state.backends.values() for one in backend["uses"]]
            processes = {one["pid"]: one for one in state.processes}
            for known, device in zip(devices, [one for one in node["devices"] if one not in gone]):
                for key, word in DEVICE_KEYS.items():
                    if key == "utilization_percent" and known.get("util") is None:
                        # Of slices, and of devices with slices, gtop derives it from `activity`.
                        continue
                    self.assertEqual(device[key], known.get(word), (name, device["index"], key, at))
                    count += 1
                for key, word in [("power_watts", "power"), ("power_limit_watts", "power_limit")]:
                    value = device[key] if device[key] is None else round(device[key], 3)
                    self.assertEqual(value, milli(known.get(word)), (name, device["index"], key, at))
                of_device = {use["pid"]: use for use in uses if use["device"] == known["uuid"]}
                shown = device["processes"] or []
                self.assertEqual({one["pid"] for one in shown}, set(of_device), (name, device["index"], at))
                for process in shown:
                    use, about = of_device[process["pid"]], processes.get(process["pid"], {})
                    self.assertEqual(process["memory_used_bytes"], use.get("memory"), (name, process["pid"], at))
                    self.assertEqual(process["sm_percent"], use.get("sm"), (name, process["pid"], at))
                    for key, word in [("resident_bytes", "rss"), ("threads", "threads"), ("user", "user"), ("command", "command")]:
                        self.assertEqual(process[key], about.get(word), (name, process["pid"], key, at))
                    count += 6
        return count

    def test_each_time_has_the_values_that_gtop_shows(self):
        recording = os.path.join(rig.folder(), "recording.gtop")
        command = ["timeout", "-s", "INT", "75", rig.GTOP, "record", "--demo=16", "-w", recording]
        subprocess.run(command, stderr=subprocess.DEVNULL, timeout=120, check=False)
        lines = every(recording)
        spoken = [line["at"] for line in lines if not line.get("checkpoint")]
        first, last = spoken[0], spoken[-1]
        count = sum(self.compare(lines, recording, first + share * (last - first)) for share in (0.05, 0.3, 0.77, 0.98))
        self.assertGreater(count, 4000)
        with open(PAGE) as page:
            told = int(re.search(r"of `--demo=64`.*?\| (\d+) \|", page.read()).group(1))
        samples = sum(line.get("body", {}).get("t") == "sample" for line in lines if not line.get("checkpoint"))
        self.assertAlmostEqual(os.path.getsize(recording) / samples, told, delta=told / 2)
        # From the last checkpoint on.
        begins = [index for index, line in enumerate(lines) if line.get("checkpoint") and "nodes" in line]
        self.assertGreater(len(begins), 1)
        self.assertGreater(self.compare(lines, recording, last - 1, begins[-1]), 1000)

    def test_the_log_has_the_values_that_the_nodes_sent(self):
        folder = rig.folder()
        log, recording = os.path.join(folder, "log.csv"), os.path.join(folder, "recording.gtop")
        command = ["timeout", "-s", "INT", "12", rig.GTOP, "--demo=12", "--json", "--watch", "--output", log,
                   "--output-every", "1", "--record", recording]
        subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, timeout=60, check=False)
        sent, nodes = {}, {}
        for line in read(recording):
            if line.get("body", {}).get("t") != "sample":
                continue
            node = nodes.setdefault(line["node"], Node())
            for at, index, *values in node.take(line["at"], line["body"]):
                sent.setdefault((line["node"], index), []).append((at, values))
        with open(log) as file:
            rows = [line.split(",") for line in file.read().splitlines()[1:]]
        self.assertGreater(len(rows), 300)
        logged, recorded = 0, 0
        for stamp, node, index, *values in rows:
            at = datetime.strptime(stamp, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()
            nearest, expected = min(sent[node, int(index)], key=lambda one: abs(one[0] - at))
            self.assertLess(abs(nearest - at), 0.02, stamp)
            self.assertEqual([int(value) for value in values], expected, (stamp, node, index))
            logged, recorded = logged + int(values[0]), recorded + expected[0]
        self.assertEqual(logged / len(rows), recorded / len(rows))

    def test_its_sums_are_those_of_a_report_of_its_samples(self):
        recording = os.path.join(rig.folder(), "recording.gtop")
        command = ["timeout", "-s", "INT", "40", rig.GTOP, "record", "--demo=12", "-w", recording]
        subprocess.run(command, stderr=subprocess.DEVNULL, timeout=120, check=False)
        [head, *nodes] = map(json.loads, rig.recorded_lines(recording, "--sums").splitlines())
        self.assertGreater(head["to"] - head["from"], 30)
        found = subprocess.run([rig.GTOP, "report", recording, "--format", "json"], env=ENVIRONMENT, stdout=subprocess.PIPE,
                               timeout=120, check=True)
        report = json.loads(found.stdout)
        states, users, loads, joules = {}, {}, {}, 0.0
        for node in nodes:
            for device in node["devices"]:
                joules += sum(more for _, _, more in device.get("unseen_joules", []))
                for held in device["held"]:
                    joules += held.get("joules", 0)
                    of_states = {state: held.get(state, 0) for state in STATES_OF_SUMS}
                    add(states, of_states)
                    add(loads, dict(held.get("loads", [])))
                    holders = node["sets"][held["set"]]
                    for holder in holders:
                        name = holder.get("user") or holder.get("why") or f"uid {holder['uid']}"
                        add(users, {name: sum(of_states.values()) / len(holders)})
        hours = report["totals"]["device_hours"]
        for state in STATES_OF_SUMS:
            self.assertAlmostEqual(states[state] / 3600, hours[state], delta=2e-4, msg=state)
        self.assertAlmostEqual(joules / 3.6e6, report["totals"]["energy_kwh"], delta=2e-3 * report["totals"]["energy_kwh"])
        mean = sum(percent * seconds for percent, seconds in loads.items()) / sum(loads.values())
        self.assertAlmostEqual(mean, report["totals"]["utilization_percent"]["mean"], delta=0.5)
        known = {row["user"]: sum(row["device_hours"][state] for state in STATES_OF_SUMS) for row in report["users"]}
        self.assertEqual(sorted(users), sorted(known))
        for user, seconds in users.items():
            self.assertAlmostEqual(seconds / 3600, known[user], delta=2e-4, msg=user)

    def test_every_line_is_json_and_no_answer_is_in_it(self):
        recording = os.path.join(rig.folder(), "recording.gtop")
        command = ["timeout", "-s", "TERM", "6", rig.GTOP, "record", "--demo=3", "-w", recording]
        subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60, check=False)
        lines = read(recording)
        self.assertEqual(lines[0]["start"]["gtop"], 2)
        self.assertTrue(lines[-1]["end"])
        kinds = {line["body"]["t"] for line in lines if "body" in line}
        self.assertIn("hello", kinds)
        self.assertNotIn("answer", kinds)
        self.assertLess(abs(lines[-1]["at"] - time.time()), 60)


if __name__ == "__main__":
    unittest.main()
