"""Recordings of made-up fleets: gtop's numbers are those of the truth that `generate` writes beside them.

    GTOP=path/to/gtop python3 -m unittest -v test_generate

Values are compared, and who has which device; what a report finds is judged elsewhere. A sum over time may differ by the time
that the truth names (`within_seconds`), and by the digits that a report has.
"""

import collections
import csv
import datetime
import json
import os
import subprocess
import sys
import unittest

import rig
from fleet.scenarios import SCENARIOS

GENERATE = os.path.join(rig.HERE, "generate")
HOURS = 2e-6                           # the last digit of hours in a report, twice
NOISE = {"noisy": 3, "smooth": 0}      # percentage points by which a sample differs from the truth, at most
MISCOUNTED = ["clock-back"]      # it has a test of its own
SMALL = ["--nodes", "2", "--hours", "0.25"]
STATES = {"busy_hours": "active", "idle_held_hours": "idle_held", "free_hours": "free", "faulty_hours": "faulty",
          "unseen_hours": "not_seen"}


def generate(*words):
    """Returns the paths of a recording and of the truth about it."""
    folder = rig.folder()
    paths = [os.path.join(folder, name) for name in ["fleet.gtop", "truth.ndjson"]]
    subprocess.run([sys.executable, GENERATE, *words, "--out", paths[0], "--truth", paths[1]], timeout=120, check=True)
    return paths


def read(path):
    with open(path, "rb") as file:
        return file.read()


def gtop(*words):
    environment = {**os.environ, "TZ": "UTC"}
    return subprocess.run([rig.GTOP, *words], env=environment, stdout=subprocess.PIPE, timeout=120, check=True).stdout.decode()


class Found:
    """What gtop makes of a recording, and what is true."""

    def __init__(self, scenario, seed, values, *more):
        words = ["--scenario", scenario, "--seed", str(seed), "--values", values, *SMALL, *more]
        self.values = values
        self.recording, path = generate(*words)
        self.facts = [json.loads(line) for line in read(path).decode().splitlines()]
        self.report = json.loads(gtop("report", self.recording, "--format", "json"))
        fields = "util,mem,power,user,job"
        self.rows = list(csv.DictReader(gtop("export", self.recording, "--wide", "--fields", fields).splitlines()))

    def of(self, *kinds):
        return [fact for fact in self.facts if fact["what"] in kinds]


def differences(row, fact, where):
    """Returns the numbers of a row of a report that differ from the truth."""
    within = fact["within_seconds"]
    hours = within / 3600 + HOURS
    seen = (fact["device_hours"] - fact["unseen_hours"]) * 3600
    share = min(within / seen, 1) if seen else 1
    pairs = [("device-hours", row["watched_hours"], fact["device_hours"], hours)]
    pairs += [(state, row["device_hours"][state], fact[key], hours) for key, state in STATES.items()]
    pairs += [("unknown", row["device_hours"]["unknown"], 0, hours)]
    pairs += [("load", row["utilization_percent"]["mean"], fact["mean_load_percent"], 1e-4 + 100 * share)]
    pairs += [("memory", row["memory_used_bytes"], fact["mean_memory_bytes"], 1 + 1e11 * share),
              ("memory share", row["memory_percent"]["mean"], fact["memory_percent"], 1e-4 + 100 * share)]
    if fact["energy_kwh"] is not None:
        pairs += [("energy", row["energy_kwh"] or 0, fact["energy_kwh"], 2e-6 + fact["within_kwh"])]
    return [f"{where}: {name} is {found}, expected {expected} within {least:g}" for name, found, expected, least in pairs
            if not is_near(found, expected, least)]


def is_near(found, expected, least):
    if found is None or expected is None:
        return found is expected
    return abs(found - expected) <= least


class Values(unittest.TestCase):
    def check(self, scenario, seed, values, *more):
        with self.subTest(scenario, seed=seed, values=values, more=more):
            found = Found(scenario, seed, values, *more)
            self.check_report(found)
            self.check_export(found)

    def test_each_scenario(self):
        for number, scenario in enumerate(SCENARIOS):
            if scenario not in MISCOUNTED:
                self.check(scenario, number, "noisy")
                self.check(scenario, 100 + number, "smooth")

    def test_other_intervals(self):
        for interval in ["1", "7", "45"]:
            self.check("mixed", 5, "noisy", "--nodes", "3", "--interval", interval)

    def test_a_clock_that_goes_back(self):
        self.check("clock-back", 5, "smooth")

    def test_a_recording_of_many_checkpoints(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("with one processor, a report has one part")
        self.check("neighbours", 5, "smooth", "--hours", "0.5")

    def test_what_one_job_or_user_had(self):
        for scenario in ["turns", "shared", "mig", "unseen-end"]:
            with self.subTest(scenario):
                found = Found(scenario, 5, "noisy")
                wrong = []
                for fact in found.of("job", "user")[:3]:
                    kind = fact["what"]
                    report = json.loads(gtop("report", found.recording, "--format", "json", f"--{kind}", fact[kind]))
                    wrong += differences(report["totals"], fact, f"{kind} {fact[kind]}")
                    holds = {hold["device"]: hold for hold in found.of("hold") if hold[kind] == fact[kind]}
                    if kind == "job":
                        self.assertEqual(sorted(row["uuid"] for row in report["devices"]), sorted(holds))
                        wrong += [text for row in report["devices"] for text in differences(row, holds[row["uuid"]], row["uuid"])]
                self.assertEqual(wrong, [], "\n" + "\n".join(wrong[:40]))

    def check_report(self, found):
        report = found.report
        wrong = differences(report["totals"], found.of("recording")[0], "totals")
        devices = {(row["node"], row["uuid"]): row for row in report["devices"]}
        expected = {(fact["node"], fact["device"]): fact for fact in found.of("device", "slice")}
        self.assertEqual(sorted(devices), sorted(expected))
        for key, fact in expected.items():
            wrong += differences(devices[key], fact, f"device {key[0]} #{fact['index']}")
        nodes = {row["node"]: row for row in report["nodes"]}
        for fact in found.of("node"):
            wrong += differences(nodes[fact["node"]], fact, fact["node"])
        users = {row["user"]: row for row in report["users"]}
        self.assertEqual(sorted(users), sorted(fact["user"] for fact in found.of("user")))
        for fact in found.of("user"):
            wrong += differences(users[fact["user"]], fact, fact["user"])
        wrong += self.job_differences(found)
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong[:40]))

    def job_differences(self, found):
        jobs = {row["job"]: row for row in found.report["jobs"]}
        self.assertEqual(sorted(jobs), sorted(fact["job"] for fact in found.of("job")))
        wrong = []
        for fact in found.of("job"):
            row = jobs[fact["job"]]
            self.assertEqual((row["name"], row["user"], row["nodes"], row["devices"]),
                             (fact["name"], fact["user"], fact["nodes"], fact["devices"]))
            wrong += differences(row, fact, f"job {fact['job']}")
            wrong += [f"job {fact['job']}: {key} of hosts is {row['host'][key]}, expected {expected}"
                      for key, expected in fact["host"].items() if not is_near(row["host"][key], expected, 0.01 * expected)]
            wrong += [f"job {fact['job']}: {key} is {row[key]}, expected {fact[key]}" for key in ["from", "to"]
                      if abs(row[key] - fact[key]) > fact["within_seconds"] / fact["devices"]]
        return wrong

    def check_export(self, found):
        """Each row has what the device did at its time, and who had it."""
        activities, holders = {}, {}
        for fact in found.of("activity"):
            activities.setdefault(fact["device"], []).append(fact)
        for fact in found.of("hold"):
            holders.setdefault(fact["device"], []).append(fact)
        for fact in found.of("sliced-device"):
            holders[fact["device"]] = [hold for one in fact["slices"] for hold in holders.get(one, [])]
        stepped = {fact["node"] for fact in found.of("clock-step")}
        wrong = []
        for row in found.rows:
            at = time_of(row["time"])
            if row["node"] in stepped:
                continue
            [activity] = [one for one in activities[row["device"]] if one["from"] <= at < one["to"]]
            holds = [one for one in holders.get(row["device"], []) if one["from"] <= at < one["to"]]
            wrong += row_differences(row, activity, holds, NOISE[found.values])
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong[:40]))
        self.check_counts(found, stepped)

    def check_counts(self, found, stepped):
        """There is a row for each sample of each device that was seen."""
        rows = collections.Counter(row["device"] for row in found.rows)
        interval = found.of("recording")[0]["interval"]
        for fact in found.of("device", "slice"):
            if fact["node"] not in stepped:
                seen = (fact["device_hours"] - fact["unseen_hours"]) * 3600
                self.assertAlmostEqual(rows[fact["device"]], seen / interval, delta=fact["within_seconds"] / interval, msg=fact)


def time_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def row_differences(row, activity, holds, noise):
    """Returns what a row of a table says otherwise than the truth."""
    if activity["is_faulty"]:
        expected = {"utilization_percent": None, "memory_used_bytes": None, "power_watts": None}
    else:
        expected = {"utilization_percent": activity["load_percent"], "memory_used_bytes": activity["memory_bytes"],
                    "power_watts": activity["watts"]}
    parts = 3 if activity["load_percent"] is None else 1
    least = {"utilization_percent": noise, "memory_used_bytes": parts * (128 << 20) * (noise > 0),
             "power_watts": 0.001 + 0.02 * (activity["watts"] or 0) * (noise > 0)}
    found = {key: float(row[key]) if row[key] else None for key in expected}
    wrong = [key for key in expected if not is_near(found[key], expected[key], least[key])]
    users, jobs = ({one[key] for one in holds} - {None} for key in ["user", "job"])
    wrong += [key for key, names in [("user", users), ("job", jobs)] if set(row[key].split()) != names]
    return [f"{row}: {key}, expected {activity} {holds}" for key in wrong]


class Facts(unittest.TestCase):
    """The truth is that of a pocket calculator."""

    def facts(self, scenario, *kinds, words=("--nodes", "1", "--hours", "0.5")):
        _, path = generate("--scenario", scenario, *words)
        facts = [json.loads(line) for line in read(path).decode().splitlines()]
        return [[fact for fact in facts if fact["what"] == kind] for kind in kinds]

    def assert_numbers(self, fact, **expected):
        for key, value in expected.items():
            self.assertAlmostEqual(fact[key], value, 9, f"{key} of {fact}")

    def test_a_job_at_eight_percent(self):
        [job], [waste], holds = self.facts("low-load", "job", "low-load", "hold")
        # An H100 that draws 70 W, and up to 95 % of what is left to 700 W.
        watts = 70 + 630 * 0.95 * 0.08
        self.assert_numbers(job, device_hours=4, busy_hours=4, idle_held_hours=0, mean_load_percent=8, busy_seconds=8 * 1800,
                            energy_kwh=8 * watts * 0.5 / 1000)
        self.assertEqual((waste["job"], len(waste["devices"]), len(holds)), (job["job"], 8, 8))

    def test_a_job_that_uses_half_of_its_devices(self):
        [job], [waste], holds = self.facts("half-used", "job", "partly-used", "hold")
        # Four devices load for a minute, and save once after ten minutes and once more, for 20 s each.
        self.assert_numbers(job, device_hours=4, busy_hours=4 * (1800 - 60 - 40) / 3600, unseen_hours=0)
        self.assertEqual([hold["has_process"] for hold in holds], [True] * 4 + [False] * 4)
        self.assertEqual((waste["job"], waste["devices"]), (job["job"], [hold["device"] for hold in holds[4:]]))
        self.assert_numbers(waste, device_hours=2)

    def test_jobs_that_do_nothing(self):
        for scenario, memory, load in [("unlaunched", 0, 0), ("held-cold", 0.007, 0), ("held-warm", 0.85, 1)]:
            with self.subTest(scenario):
                [job], [waste], holds = self.facts(scenario, "job", scenario, "hold")
                self.assert_numbers(job, device_hours=4, idle_held_hours=4, busy_seconds=0, mean_load_percent=load)
                self.assertAlmostEqual(job["memory_percent"], 100 * memory, delta=0.01)
                self.assertEqual({hold["has_process"] for hold in holds}, {scenario != "unlaunched"})
                self.assertEqual((waste["from"], waste["to"], waste["device_hours"]), (job["from"], job["to"], 4))

    def test_what_nobody_sees(self):
        # A fifth of half an hour, of eight devices.
        for scenario, kind, unseen in [("hung", "driver-hung", 0.8), ("down", "node-down", 0.8), ("gap", "recorder-gap", 0)]:
            with self.subTest(scenario):
                [total], [incident] = self.facts(scenario, "recording", kind)
                self.assert_numbers(total, device_hours=3.2 if scenario == "gap" else 4, unseen_hours=unseen)
                self.assertEqual(incident["to"] - incident["from"], 360)

    def test_one_device_does_less_than_half_of_what_the_others_do(self):
        [job], [waste], devices = self.facts("imbalance", "job", "imbalance", "device")
        loads = [device["mean_load_percent"] for device in devices]
        self.assertLess(loads[-1], sum(loads[:-1]) / 7 / 2)
        self.assertEqual((waste["job"], waste["devices"]), (job["job"], [devices[-1]["device"]]))

    def test_a_device_that_is_replaced(self):
        [fact], devices = self.facts("replaced", "replaced", "device")
        old, new = ([device for device in devices if device["device"] == fact[key]] for key in ["device", "by"])
        self.assertEqual([device["index"] for device in old + new], [2, 2])
        self.assertEqual((old[0]["to"], new[0]["from"]), (fact["to"], fact["to"]))


class Options(unittest.TestCase):
    def test_the_same_seed_gives_the_same_bytes_and_another_does_not(self):
        words = ["--nodes", "3", "--hours", "0.2", "--seed"]
        first, second, other = ([read(path) for path in generate(*words, seed)] for seed in ["7", "7", "8"])
        self.assertEqual(first, second)
        self.assertNotEqual(first[0], other[0])
        self.assertNotEqual(first[1], other[1])

    def test_smooth_values_move_less_and_leave_half_of_the_nodes_idle(self):
        sizes, idle = [], []
        for values in ["noisy", "smooth"]:
            recording, path = generate("--nodes", "16", "--hours", "0.2", "--values", values)
            sizes.append(os.path.getsize(recording))
            facts = [json.loads(line) for line in read(path).decode().splitlines()]
            busy = {fact["node"] for fact in facts if fact["what"] == "hold"}
            idle.append(16 - len(busy))
        self.assertLess(sizes[1], sizes[0] / 2)
        self.assertGreaterEqual(idle[1], 8)
        self.assertLess(idle[0], 8)

    def test_the_help_names_each_scenario(self):
        done = subprocess.run([sys.executable, GENERATE, "--help"], stdout=subprocess.PIPE, timeout=60, check=True)
        text = done.stdout.decode()
        for name, function in SCENARIOS.items():
            self.assertRegex(text, rf"\n  {name} +{function.__doc__[:20]}")

    def test_numbers_out_of_range_are_refused(self):
        for words in [["--nodes", "0"], ["--nodes", "513"], ["--hours", "0"], ["--interval", "-1"], ["--scenario", "none"]]:
            command = [sys.executable, GENERATE, "--out", "/dev/null", *words]
            done = subprocess.run(command, stderr=subprocess.PIPE, timeout=60, check=False)
            self.assertEqual(done.returncode, 2, words)


if __name__ == "__main__":
    unittest.main()
