"""`gtop report`: its numbers are those of report_reference.py, which reads recordings by itself, and those of a pocket calculator.

    GTOP=path/to/gtop python3 -m unittest -v test_report
"""

import csv
import glob
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
import unittest

import report_reference
import rig
from tape import GIB, START, STEP, Tape, compress, device

ENVIRONMENT = {**os.environ, "TZ": "UTC"}
RATES = ["utilization_percent", "memory_percent", "power_watts", "temperature_celsius"]
HOSTILE = {
    "user": "dee\"'<script>alert(1)</script>&amp;",
    "job": "</script><b>\"x\"|`y`, \\ =1+1",
    "model": "<img src=x onerror=alert(2)> 80\"",
}


# Running it.

def run(*words, **options):
    """Returns the exit status, standard output and standard error."""
    options = {"env": ENVIRONMENT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 120, **options}
    done = subprocess.run([rig.GTOP, "report", *words], check=False, **options)
    return done.returncode, (done.stdout or b"").decode(), (done.stderr or b"").decode()


def report(*files, status=0):
    """Returns a report as it is written into a file."""
    path = os.path.join(rig.folder(), "report.json")
    code, _, err = run(*files, "--format", "json", "-w", path)
    assert code == status, (code, err)
    with open(path) as file:
        return json.load(file)


def record(*options):
    """Records the demo for 25 seconds, and returns the file."""
    path = os.path.join(rig.folder(), "demo.gtop")
    command = ["timeout", "-s", "INT", "25", rig.GTOP, "record", "--demo=6", *options, "-w", path]
    subprocess.run(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL, timeout=120, check=False)
    return path


def in_groups(path):
    """Returns the lines of a recording in the groups in which its journal had them, of two seconds each."""
    groups, begun = [], None
    for line in rig.recorded_lines(path).splitlines(True):
        what = json.loads(line)
        if begun is None or "checkpoint" not in what and what["at"] >= begun + 2:
            begun = what["at"]
            groups.append("")
        groups[-1] += line
    return [compress(group) for group in groups]


# Comparing.

def near(found, expected, least, share=2e-4):
    if found is None or expected is None:
        return found is expected
    return abs(found - expected) <= max(least, share * abs(expected))


def differences(found, expected, where):
    """Returns the numbers of one device, node, user or job, or of all, that differ."""
    # gtop reads a recording in parts, and each learns anew how a clock that jumps differs from its own.
    hours_apart = 1e-4 if "jumpy" in where else 2e-5
    pairs = [("watched_hours", found["watched_hours"], expected["watched_hours"], hours_apart)]
    pairs += [(state, found["device_hours"][state], hours, hours_apart) for state, hours in expected["device_hours"].items()]
    pairs += [(f"{rate} {kind}", found[rate][kind], value, 0.02) for rate in RATES for kind, value in expected[rate].items()]
    pairs += [("energy", found["energy_kwh"], expected["energy_kwh"], 2e-6),
              ("memory", found["memory_used_bytes"], expected["memory_used_bytes"], 1)]
    percent = expected["coverage_percent"]
    pairs += [("coverage", found["coverage_percent"], percent and min(percent, 100), 0.5)]
    if "samples_seen" in expected:
        pairs += [("samples seen", found["samples_seen"], expected["samples_seen"], 1),
                  ("samples expected", found["samples_expected"], expected["samples_expected"], 0.1)]
    others = {"down_hours": 2e-5, "devices": 0, "nodes": 0, "nodes_seen": 0, "users": 0, "jobs": 0, "from": 0.001, "to": 0.001}
    numbers = [key for key in others if key in expected and not isinstance(expected[key], list)]
    pairs += [(key, found[key], expected[key], others[key]) for key in numbers]
    texts = [key for key in ["name", "partition", "model", "index"] if key in expected]
    lists = ["nodes"] if isinstance(expected.get("nodes"), list) else []
    wrong = [(key, found[key], expected[key]) for key in texts + lists if found[key] != expected[key]]
    wrong += [(name, one, other) for name, one, other, least in pairs if not near(one, other, least)]
    return [f"{where}: {name} is {one}, expected {other}" for name, one, other in wrong]


KEYS = {"nodes": ["node"], "devices": ["node", "uuid"], "users": ["user"], "jobs": ["job", "user"]}


def all_differences(found, expected):
    wrong = differences(found["totals"], expected["totals"], "totals")
    for kind, keys in KEYS.items():
        def named(rows):
            return {tuple(row[key] for key in keys): row for row in rows}
        mine, others = named(found[kind]), named(expected[kind])
        if sorted(mine) != sorted(others):
            wrong.append(f"{kind}: {sorted(mine)}, expected {sorted(others)}")
        for name in sorted(set(mine) & set(others)):
            wrong += differences(mine[name], others[name], f"{kind[:-1]} {' '.join(name)}")
    spans = [[round(time, 3) for time in span] for span in expected["spans"]]
    if [[round(time, 3) for time in span] for span in found["spans"]] != spans:
        wrong.append(f"spans: {found['spans']}, expected {spans}")
    return wrong


class Case(unittest.TestCase):
    def assert_equals_reference(self, found, path):
        expected = report_reference.report(path)
        wrong = all_differences(found, expected)
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong[:40]))
        self.assert_consistent(found)
        return expected

    def assert_consistent(self, found):
        """The device-hours of each row sum to those that were watched, and those of the rows to the totals."""
        for kind in [*KEYS, "totals"]:
            for row in [found["totals"]] if kind == "totals" else found[kind]:
                hours = row["device_hours"]
                self.assertTrue(near(sum(hours.values()), row["watched_hours"], 1e-5), (kind, row))
                self.assertGreaterEqual(min(hours.values()), 0, (kind, row))
        for kind in ["nodes", "devices"]:
            self.assertTrue(near(sum(row["watched_hours"] for row in found[kind]), found["totals"]["watched_hours"], 1e-4), kind)

    def assert_hours(self, row, watched, **seconds):
        """Checks the device-time of a row, in seconds; states that are not given have none."""
        expected = {**dict.fromkeys([*report_reference.STATES, "not_seen"], 0), **seconds, "watched": watched}
        hours = {**row["device_hours"], "watched": row["watched_hours"]}
        with self.subTest(row.get("uuid") or row.get("user") or "totals"):
            pairs = {state: (hours[state] * 3600, span) for state, span in expected.items()}
            wrong = {state: pair for state, pair in pairs.items() if abs(pair[0] - pair[1]) > 0.1}
            self.assertEqual(wrong, {})


def of_device(found, uuid):
    return next(row for row in found["devices"] if row["uuid"] == uuid)


def of_node(found, name):
    return next(row for row in found["nodes"] if row["node"] == name)


def of_user(found, name):
    return next(row for row in found["users"] if row["user"] == name)


def two_names(aliases, last=3600):
    """An hour of a machine that is watched under its name, and some of the time under others."""
    tape = Tape()
    jobs = [("7", "train", "ann", {"gpu01": [0]})]
    tape.start(0)
    tape.list(0, ["gpu01", *aliases], jobs)
    names = {"gpu01": 0, **aliases}
    for at in range(0, last + STEP, STEP):
        for name, first in sorted(names.items(), reverse=True):
            if at == first:
                tape.open(at, name, host="machine1")
            if at >= first:
                tape.sample(at, name, {"A": device(60), "B": device(0, used=GIB)})
    tape.end(last)
    return tape.save()


def hours_long():
    """Two runs of a recorder, of two hours and of one, with an hour between them, and all that can happen to nodes."""
    tape = Tape()
    jobs = [("7", "train", "ann", {"steady": [0]}), ("9", HOSTILE["job"], HOSTILE["user"], {"shrinks": [0, 1]})]
    names = ["downy", "jumpy", "leaver", "never", "once", "shrinks", "silent", "steady"]
    tape.start(0)
    tape.list(0, names, jobs)
    shared = (("L0", 11, GIB, "bea"), ("L0", 12, 2 * GIB, "cid"), ("L1", 13, 100 << 20, "bea"))

    def sample(at, first, last):
        if at in [first, 1600]:
            tape.open(at, "downy", processes=True)
        if at < 1000 or at >= 1600:
            unknown = device(None, lacks={"util": "not supported"})
            tape.sample(at, "downy", {"D": unknown}, (("D", 21, 10 * GIB, 1234),))
        if at < 3600 and first == 0:
            tape.sample(at, "leaver", {"V": device(20)})
        if at == 0:
            tape.sample(at, "once", {"O": device(77)})
        lost = {"X0": device(100, power=100) if at < 6000 else {"fault": "lost"}}
        tape.sample(at, "shrinks", {**lost, **({"X1": device(100, power=100)} if at < 5400 else {})})
        if not 3600 < at < 4200:
            tape.sample(at, "silent", {"Q": device(0, used=GIB, power=60, name=HOSTILE["model"])})
        tape.sample(at, "steady", {"S": device(50 if first == 0 else 90, power=300 if first == 0 else 500)})
        tape.sample(at, "jumpy", {"J": device(30)}, clock=-100 if 3000 <= at < 10800 else 0)
        if at >= 1800 and at <= last:
            tape.sample(at, "late", {"L0": device(4, used=20 * GIB), "L1": device(4.4, used=16 * GIB, total=16 * GIB)}, shared)

    def begin(at, opened):
        for name in opened:
            tape.open(at, name)
        tape.link(at, "never", "opening")
        tape.link(at, "never", "down")

    begin(0, ["jumpy", "leaver", "once", "shrinks", "silent", "steady"])
    for at in range(0, 7200 + STEP, STEP):
        if at == 1000:
            tape.link(at, "downy", "down")
            tape.link(at, "downy", "opening")
        if at == 1800:
            names.append("late")
            tape.list(at, names, jobs)
            tape.open(at, "late")
        if at == 3600:
            names.remove("leaver")
            tape.list(at, names, jobs)
        sample(at, 0, 7200)
    tape.end(7200)
    tape.start(10800)
    tape.list(10800, names, jobs)
    begin(10800, ["jumpy", "late", "shrinks", "silent", "steady"])
    tape.link(10800, "once", "opening")
    for at in range(10800, 14400 + STEP, STEP):
        sample(at, 10800, 14400)
    tape.end(14400)
    return tape.save()


class Watching(Case):
    def test_an_interrupt_reports_what_was_watched_and_leaves_nothing(self):
        # As `timeout` and launchers do, the signal is sent to the process and to its group.
        for signals in [1, 2]:
            with self.subTest(signals=signals):
                folder, path = rig.folder(), os.path.join(rig.folder(), "r.json")
                command = [rig.GTOP, "report", "--demo=6", "--for", "10m", "-w", path]
                process = subprocess.Popen(command, env={**ENVIRONMENT, "TMPDIR": folder}, stderr=subprocess.PIPE)
                with process:
                    self.addCleanup(process.kill)
                    recording = self.wait_for(lambda: glob.glob(os.path.join(folder, "*", "*.gtop")))[0]
                    begun = self.wait_for(lambda: os.path.getsize(recording))
                    self.wait_for(lambda: os.path.getsize(recording) > begun)
                    for _ in range(signals):
                        process.send_signal(signal.SIGINT)
                        time.sleep(0.01)
                    _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 130, err)
                with open(path) as file:
                    found = json.load(file)
                self.assertEqual((found["source"]["kind"], found["totals"]["nodes"]), ("live", 6))
                self.assertGreater(found["totals"]["samples_seen"], 0)
                self.assertEqual(os.listdir(folder), [])

    def wait_for(self, condition):
        """Waits until the condition is true, and returns what it is."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            time.sleep(0.05)
        self.fail("waited for 60 s")


class SameMachine(Case):
    def test_a_machine_with_two_names_counts_once(self):
        alone = report(two_names({}))
        for aliases in [{"gpu01.cluster": 0}, {"gpu01.cluster": 1200}, {"gpu01.cluster": 0, "gpu02": 2400}]:
            with self.subTest(aliases):
                found = report(two_names(aliases))
                self.assertEqual([row["node"] for row in found["nodes"] + found["devices"]], ["gpu01"] * 3)
                self.assertEqual(differences(found["totals"], alone["totals"], "totals"), [])
                for name in aliases:
                    self.assertIn(f"{name} is the same machine as gpu01", " ".join(found["source"]["notes"]))
                self.assert_consistent(found)

    def test_the_other_name_counts_while_the_first_one_is_down(self):
        tape = Tape()
        tape.start(0)
        tape.list(0, ["a", "b"])
        for name in ["a", "b"]:
            tape.open(0, name, host="machine1")
        for at in range(0, 3600 + STEP, STEP):
            if at == 1200:
                tape.link(at, "a", "down")
            if at == 2400:
                tape.open(at, "a", host="machine1")
            for name in ["a", "b"]:
                if name == "b" or not 1200 <= at < 2400:
                    tape.sample(at, name, {"A": device(60)})
            if 1200 < at < 2390:
                # It is tried again and again: what is known of it from before must not count as an answer.
                tape.link(at + 5, "a", "opening")
                tape.link(at + 5, "a", "down")
        tape.end(3600)
        found = report(tape.save())
        hours = {row["node"]: row["device_hours"]["active"] * 3600 for row in found["nodes"]}
        self.assertAlmostEqual(hours["a"], 2400, delta=15)
        self.assertAlmostEqual(hours["b"], 1200, delta=15)
        self.assertAlmostEqual(found["totals"]["device_hours"]["active"] * 3600, 3600, delta=15)
        self.assert_consistent(found)


class Numbers(Case):
    @classmethod
    def setUpClass(cls):
        cls.long_path = hours_long()
        cls.long = report(cls.long_path)

    def test_the_demo(self):
        path = record()
        found = report(path)
        expected = self.assert_equals_reference(found, path)
        self.assertEqual((found["schema"], found["source"]["kind"]), (1, "recording"))
        # Nothing proves how the scheduler numbers AMD's devices.
        [note] = found["source"]["notes"]
        self.assertRegex(note, r"^\d\.\d+ of \d\.\d+ device-hours are only likely: ")
        self.assertEqual(found["source"]["files"], ["demo.gtop"])
        self.assertGreater(expected["totals"]["device_hours"]["active"], 0.05)
        self.assertGreater(expected["totals"]["device_hours"]["faulty"], 0)
        self.assertEqual(sorted(row["user"] for row in found["users"]), ["ada", "edsger", "katherine"])
        # The table and the text have the same numbers.
        folder = rig.folder()
        for ending in ["csv", "md"]:
            self.assertEqual(run(path, "-w", os.path.join(folder, "r." + ending))[0], 0)
        with open(os.path.join(folder, "r.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assert_same_table(rows, found)
        with open(os.path.join(folder, "r.md")) as file:
            self.assert_same_text(file.read(), rows[0], found["totals"])
        # Nothing is less than zero.
        self.assertNotRegex(json.dumps(found), r"[ \[]-0\.0[,}\]]")

    def assert_same_table(self, rows, found):
        listed = [found["totals"], *(row for kind in KEYS for row in found[kind])]
        self.assertEqual(len(rows), len(listed))
        self.assertEqual(rows[0]["scope"], "total")
        totals = found["totals"]
        same = {"watched_hours": totals["watched_hours"], "energy_kwh": totals["energy_kwh"],
                **{f"{state}_hours": hours for state, hours in totals["device_hours"].items()},
                "utilization_mean_percent": totals["utilization_percent"]["mean"],
                "utilization_p50_percent": totals["utilization_percent"]["p50"],
                "utilization_p95_percent": totals["utilization_percent"]["p95"],
                "memory_mean_percent": totals["memory_percent"]["mean"],
                "memory_max_percent": totals["memory_percent"]["max"],
                "power_mean_watts": totals["power_watts"]["mean"],
                "coverage_percent": totals["coverage_percent"], "samples_seen": totals["samples_seen"]}
        for column, expected in same.items():
            self.assertTrue(near(float(rows[0][column]), expected, 0.01, 1e-3), (column, rows[0][column], expected))
        nodes = {row["name"]: row for row in rows if row["scope"] == "node"}
        for row in found["nodes"]:
            self.assertTrue(near(float(nodes[row["node"]]["active_hours"]), row["device_hours"]["active"], 1e-5), row["node"])

    def assert_same_text(self, text, row, totals):
        # The table has more digits than the JSON.
        number = {column: float(cell) for column, cell in row.items() if cell and column not in ["scope", "name"]}
        self.assertIn(f"{totals['nodes']}, of which {totals['nodes_seen']} answered", text)
        self.assertIn(f"{totals['utilization_percent']['p95']} % p95", text)
        for pattern, column in [
            (r"utilization \| ([\d.]+) % mean", "utilization_mean_percent"),
            (r"memory \| ([\d.]+) %", "memory_mean_percent"),
            (r"energy \| ([\d.]+) kWh", "energy_kwh"),
            (r"active ([\d.]+)", "active_hours"),
            (r"faulty ([\d.]+)", "faulty_hours"),
        ]:
            shown = re.search(pattern, text)
            self.assertIsNotNone(shown, pattern)
            # The table is rounded too, so that half a digit more or less may be the same value.
            half = 0.5 * 10.0 ** -len(shown[1].split(".")[1])
            self.assertTrue(abs(float(shown[1]) - number[column]) <= half * 1.02, (column, shown[1], number[column]))

    def test_the_demo_with_fewer_samples(self):
        path = record("--every", "5s")
        found = report(path)
        self.assert_equals_reference(found, path)
        # Each value holds for five seconds, or until the recording ends.
        hours = found["totals"]["device_hours"]
        self.assertLess(hours["not_seen"], found["totals"]["watched_hours"] / 4)

    def test_hours_with_all_that_can_happen(self):
        self.assert_equals_reference(self.long, self.long_path)

    def test_hours_by_hand(self):
        # The reference is held to the same numbers.
        for found in [self.long, report_reference.report(self.long_path)]:
            self.check_hours(found)
            self.check_owners(found)

    def check_hours(self, found):
        hour = 3600
        self.assertEqual([[int(time - START) for time in span] for span in found["spans"]], [[0, 7200], [10800, 14400]])
        # Two hours at 50 % and 300 W, one at 90 % and 500 W.
        steady = of_device(found, "S")
        self.assert_hours(steady, 3 * hour, active=3 * hour)
        self.assertAlmostEqual(steady["utilization_percent"]["mean"], (2 * 50 + 90) / 3, 1)
        self.assertEqual((steady["utilization_percent"]["p50"], steady["utilization_percent"]["p95"]), (50, 90))
        self.assertAlmostEqual(steady["energy_kwh"], (2 * 300 + 500) / 1000, 3)
        self.assertAlmostEqual(steady["memory_percent"]["mean"], 50, 2)
        self.assertEqual(steady["power_watts"]["max"], 500)
        self.assertLessEqual(abs(of_node(found, "steady")["samples_seen"] - 1082), 1)
        self.assertAlmostEqual(of_node(found, "steady")["samples_expected"], 1080, 0)
        # A sample holds for three intervals.
        self.assert_hours(of_device(found, "Q"), 3 * hour, free=3 * hour - 570, not_seen=570)
        self.assert_hours(of_device(found, "D"), 3 * hour, unknown=3 * hour - 600, not_seen=600)
        self.assertAlmostEqual(of_node(found, "downy")["down_hours"] * hour, 600, 0)
        self.assertIsNone(of_device(found, "D")["utilization_percent"]["mean"])
        self.assertIsNone(of_device(found, "D")["utilization_percent"]["p50"])
        # A node that came half an hour later, with devices of different size.
        self.assert_hours(of_device(found, "L0"), 2.5 * hour, idle_held=2.5 * hour)
        # Its process has little of its memory, and nobody the rest.
        self.assert_hours(of_device(found, "L1"), 2.5 * hour, unknown=2.5 * hour)
        late = of_node(found, "late")
        self.assertAlmostEqual(late["memory_percent"]["mean"], 100 * (20 + 16) / (80 + 16), 2)
        self.assertAlmostEqual(late["memory_used_bytes"] / GIB, 18, 2)
        self.assertAlmostEqual(late["utilization_percent"]["mean"], 4.2, 2)
        self.assertEqual(late["utilization_percent"]["p95"], 4)
        # One that was watched for an hour, and what was seen of its last sample after that does not count.
        self.assert_hours(of_device(found, "V"), hour, active=hour)
        # A device that vanished after 1.5 hours, and one that was lost after 100 minutes.
        # It is gone since then, and was not replaced.
        self.assert_hours(of_device(found, "X1"), 3 * hour, active=5400, faulty=5400)
        self.assert_hours(of_device(found, "X0"), 3 * hour, active=6000, faulty=4800)
        self.assertAlmostEqual(of_device(found, "X0")["energy_kwh"], 6000 * 100 / 3.6e6, 3)
        # One sample in three hours.
        self.assert_hours(of_device(found, "O"), 3 * hour, active=30, not_seen=3 * hour - 30)
        # A node that never answered.
        never = of_node(found, "never")
        self.assertEqual((never["devices"], never["samples_seen"], never["coverage_percent"]), (0, 0, 0))
        self.assertAlmostEqual(never["samples_expected"], 1080, 0)
        self.assertAlmostEqual(never["down_hours"], 3, 3)
        self.assertIsNone(never["utilization_percent"]["mean"])
        self.assertEqual((found["totals"]["nodes"], found["totals"]["nodes_seen"], found["totals"]["devices"]), (9, 8, 10))

    def check_owners(self, found):
        self.assert_hours(of_user(found, "ann"), 10800, active=10800)
        # Two users share a device. One that is free is of nobody.
        self.assert_hours(of_user(found, "cid"), 4500, idle_held=4500)
        # Much memory of a device is in use, and what her process has of it is little.
        self.assert_hours(of_user(found, "bea"), 13500, idle_held=4500, unknown=9000)
        # Its process was there before and after its node was down.
        self.assert_hours(of_user(found, "uid 1234"), 10800, unknown=10200, not_seen=600)
        # Once the driver shows one device less, which ones the job has is not known.
        self.assert_hours(of_user(found, HOSTILE["user"]), 10800, active=10800)
        jobs = {row["job"]: row for row in found["jobs"]}
        self.assertEqual(sorted(jobs), ["7", "9"])
        nine = jobs["9"]
        self.assertEqual((nine["name"], nine["user"], nine["nodes"], nine["devices"], nine["partition"]),
                         (HOSTILE["job"], HOSTILE["user"], ["shrinks"], 2, "p"))
        self.assertEqual((round(nine["from"] - START), round(nine["to"] - START)), (0, 5400))
        self.assertEqual({row["user"] for row in found["users"]}, {"ann", "bea", "cid", "uid 1234", HOSTILE["user"]})

    def test_hostile_names_are_text_in_every_format(self):
        self.assertEqual(of_device(self.long, "Q")["model"], HOSTILE["model"])
        folder = rig.folder()
        for ending in ["html", "md", "csv"]:
            self.assertEqual(run(self.long_path, "-w", os.path.join(folder, "r." + ending))[0], 0)
        with open(os.path.join(folder, "r.html")) as file:
            page = file.read()
        self.assertNotIn("<script>alert(1)", page)
        self.assertNotIn("<img src=x", page)
        self.assertNotIn("</script><b>", page)
        with open(os.path.join(folder, "r.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["user"] for row in rows if row["job"] == "9"], [HOSTILE["user"]])
        with open(os.path.join(folder, "r.md")) as file:
            table = [line for line in file if "alert(1)" in line and line.startswith("|")]
        self.assertTrue(table)
        self.assertNotIn("<script>", "".join(table))

    def test_a_time_does_not_count_twice_when_the_clock_goes_back(self):
        # The clock of the recorder, between two runs; short files are read in one piece, longer ones in several.
        for span in [200, 1200]:
            tape = Tape()
            for first in [0, span // 2]:
                tape.start(first)
                tape.list(first, ["one"])
                tape.open(first, "one")
                for at in range(first, first + span + STEP, STEP):
                    tape.sample(at, "one", {"A": device(40)})
                tape.end(first + span)
            self.assert_hours(of_device(report(tape.save()), "A"), 1.5 * span, active=1.5 * span)
        # The clock of a node, by 100 seconds and in a session: its last values are 100 seconds old at the end.
        tape = Tape()
        tape.start(0)
        tape.list(0, ["one"])
        tape.open(0, "one")
        for at in range(0, 600 + STEP, STEP):
            tape.sample(at, "one", {"A": device(40)}, clock=-100 if at >= 300 else 0)
        tape.end(600)
        path = tape.save()
        found = report(path)
        self.assert_hours(of_device(found, "A"), 600, active=530, not_seen=70)
        self.assert_equals_reference(found, path)

    def test_one_sample(self):
        tape = Tape()
        tape.start(0)
        tape.list(0, ["one"])
        tape.open(0, "one")
        tape.sample(0, "one", {"A": device(40)})
        tape.end(100)
        path = tape.save()
        found = report(path)
        self.assert_hours(of_device(found, "A"), 100, active=30, not_seen=70)
        self.assertEqual((found["totals"]["samples_seen"], found["totals"]["coverage_percent"]), (1, 10))
        self.assertEqual((found["users"], found["jobs"]), ([], []))
        self.assert_equals_reference(found, path)

    def test_no_sample(self):
        tape = Tape()
        tape.start(0)
        tape.list(0, ["one"])
        tape.link(0, "one", "opening")
        tape.link(5, "one", "down")
        tape.end(100)
        path = tape.save()
        # As with other commands, it is 1 if no node answered.
        found = report(path, status=1)
        self.assert_equals_reference(found, path)
        totals = found["totals"]
        self.assertEqual((totals["nodes"], totals["nodes_seen"], totals["devices"], totals["coverage_percent"]), (1, 0, 0, 0))
        self.assertIsNone(totals["utilization_percent"]["mean"])
        self.assertIsNone(totals["energy_kwh"])
        self.assertAlmostEqual(of_node(found, "one")["down_hours"] * 3600, 95, 0)
        # A hundred seconds, one sample per second where nothing else is known.
        self.assertAlmostEqual(totals["samples_expected"], 100, 0)

    def test_several_files_are_one_report(self):
        paths = []
        for name, util in [("one", 20), ("two", 80)]:
            tape = Tape()
            tape.start(0)
            tape.list(0, [name])
            tape.open(0, name)
            for at in range(0, 600 + STEP, STEP):
                tape.sample(at, name, {name: device(util)})
            tape.end(600)
            paths.append(tape.save())
        found = report(*paths)
        self.assert_consistent(found)
        self.assert_hours(found["totals"], 1200, active=1200)
        self.assertEqual(found["totals"]["utilization_percent"], {"mean": 50, "p50": 20, "p95": 80})
        self.assertEqual(len(found["source"]["files"]), 2)
        # The same file twice is the same recording.
        again = report(paths[0], paths[0])
        self.assert_hours(again["totals"], 600, active=600)


with open(os.path.join(rig.ROOT, "docs", "reports.md"), encoding="utf-8") as page:
    JOB_KEYS = re.findall(r"^\| `(\w+)` \|", page.read().split("<!-- jobs -->")[1].split("<!-- /jobs -->")[0], re.M)


def five_jobs():
    """An hour of jobs on devices of two models: one is good, one is idle, one uses half, one is slow, one ends too soon."""
    tape = Tape()
    jobs = [("1", "good", "ann", {"gpu01": [0, 1]}), ("2", "idle", "bea", {"gpu01": [2]}), ("3", "half", "bea", {"gpu02": [0, 1]}),
            ("4", HOSTILE["job"], HOSTILE["user"], {"gpu02": [2]})]
    short = ("5", "short", "cid", {"gpu02": [3]})
    tape.start(0)
    tape.list(0, ["gpu01", "gpu02"], [*jobs, short])
    for node in ["gpu01", "gpu02"]:
        tape.open(0, node)
    for at in range(0, 3600 + STEP, STEP):
        if at == 120:
            tape.list(at, ["gpu01", "gpu02"], jobs)
        big = {"name": "NVIDIA H100 80GB HBM3"}
        tape.sample(at, "gpu01", {"A": device(90, **big), "B": device(80, **big), "C": device(0, **big), "D": device(0, **big)})
        tape.sample(at, "gpu02", {"E": device(70, name="L4"), "F": device(0, name="L4"), "G": device(8, name="L4"),
                                  "H": device(60 if at < 120 else 0, name="L4")})
    tape.end(3600)
    return tape.save()


class Verdicts(Case):
    @classmethod
    def setUpClass(cls):
        cls.path = five_jobs()

    def rows(self, *words):
        code, out, err = run(self.path, "--format", "jobs", *words)
        self.assertEqual(code, 0, err)
        return {row["job"]: row for row in map(json.loads, out.splitlines())}

    def test_each_job_is_a_line_with_the_same_keys(self):
        rows = self.rows()
        words = {job: row["verdict"] for job, row in rows.items()}
        self.assertEqual(words, {"1": "good", "2": "held cold", "3": "partly used", "4": "low load", "5": "not judged"})
        for row in rows.values():
            self.assertEqual(list(row), JOB_KEYS)
            parts = [row[key] for key in JOB_KEYS if key.endswith("_hours") and key != "held_hours"]
            self.assertAlmostEqual(sum(parts), row["held_hours"], 4)
            self.assertIsNone(row["cost"])
        self.assertAlmostEqual(rows["1"]["efficiency_percent"], 85, 1)
        self.assertEqual((rows["3"]["enough_devices"], rows["3"]["sentence"]),
                         (1, "1 of 2 devices was never active; 1 would have been enough"))
        self.assertEqual((rows["1"]["enough"], rows["1"]["remedy"]), (None, None))
        self.assertEqual(rows["4"]["name"], HOSTILE["job"])

    def test_the_same_is_in_every_format(self):
        found = report(self.path)
        words = {job["job"]: job["verdict"]["word"] for job in found["jobs"]}
        self.assertEqual(words, {job: row["verdict"] for job, row in self.rows().items()})
        text, markdown = (run(self.path, "--format", form)[1] for form in ["text", "md"])
        for job in found["jobs"]:
            self.assertIn(job["verdict"]["word"].upper() + ": " + job["job"], text.replace(" (likely)", ""))
            self.assertRegex(markdown, r"\n\| " + job["verdict"]["word"] + r" \| " + job["job"] + r" \|")
        for shown in [text, markdown]:
            self.assertIn(found["headline"], " ".join(shown.replace("\\", "").split()))
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertNotRegex(text, r"(?m)^[|#>]|\*\*|\x1b")
        # What is in it comes first: the answer, then jobs, then users.
        titles = re.findall(r"^## (.*)$", markdown, re.M)
        self.assertEqual(titles, ["Jobs", "Users", "Findings", "Numbers", "Nodes", "Words"])

    def test_the_rows_of_users_sum_to_all_devices(self):
        found = report(self.path)
        def hours(row):
            return [row["watched_hours"], *row["device_hours"].values()]
        users = [sum(column) for column in zip(*map(hours, found["users"]))]
        for one, other in [(users, hours(found["held"])),
                           ([a + b for a, b in zip(hours(found["held"]), hours(found["unheld"]))], hours(found["totals"]))]:
            for a, b in zip(one, other):
                self.assertAlmostEqual(a, b, 4)
        self.assertAlmostEqual(found["unheld"]["watched_hours"], 1 + 3480 / 3600, 2)

    def test_what_is_known_of_made_up_fleets_is_found(self):
        """The first job of each has this word, and no other job but a good one."""
        scenarios = {"training": "good", "half-used": "partly used", "unlaunched": "unlaunched", "held-cold": "held cold",
                     "held-warm": "held warm", "starved": "fair", "imbalance": "good",
                     "low-load": "low load", "throttled": "held back", "lost": "held back", "hung": "good"}
        for scenario, word in scenarios.items():
            path = os.path.join(rig.folder(), scenario + ".gtop")
            program = os.path.join(rig.ROOT, "tests", "clients", "generate")
            subprocess.run([sys.executable, program, "--scenario", scenario, "--seed", "3", "--out", path], timeout=120, check=True)
            code, out, err = run(path, "--format", "jobs")
            self.assertEqual(code, 0, err)
            rows = {row["job"]: row["verdict"] for row in map(json.loads, out.splitlines())}
            first = rows.pop(min(rows))
            self.assertEqual((first, set(rows.values()) - {"good"}), (word, set()), scenario)
            if scenario in ("throttled", "starved", "imbalance"):
                # One cause is one finding.
                kinds = [finding["kind"] for finding in report(path)["findings"]]
                self.assertEqual(kinds, [scenario])

    def test_prices_and_the_limit_of_a_low_load(self):
        rows = self.rows("--price", "H100=3", "--price", "0.5", "--low", "50")
        self.assertAlmostEqual(rows["1"]["cost"], 2 * 3, 2)
        self.assertAlmostEqual(rows["3"]["cost"], 2 * 0.5, 2)
        self.assertEqual(self.rows("--price", "H100=3")["3"]["cost"], None)
        self.assertEqual(self.rows("--low", "5")["4"]["verdict"], "fair")
        for words in [["--price", "x"], ["--price", "-1"], ["--price", "=2"], ["--low", "101"], ["--low", "nan"]]:
            code, out, err = run(self.path, *words)
            self.assertEqual((code, out), (2, ""))
            self.assertIn(words[1], err)

    def test_the_first_sentence_is_about_those_that_were_asked_for(self):
        def headline(*words):
            return report(self.path, *words)["headline"]
        self.assertIn("Wasted: job ", headline())
        self.assertTrue(headline("--job", "3").startswith("Job 3 half of bea: partly used, 1 of 2 devices"))
        self.assertRegex(headline("--user", "bea"), r"^bea used 1\.0 of 3\.0 device-hours, at .*; jobs: 1 partly used, 1 held cold\.$")


class Cut(Case):
    def check(self, path, shares):
        groups = in_groups(path)
        data = b"".join(groups)
        ends = [len(b"".join(groups[:count])) for count in range(len(groups))]
        for share in shares:
            length = int(len(data) * share)
            # Not just behind a group, where nothing is missing.
            length += 5 if length in ends else 0
            cut = os.path.join(rig.folder(), "cut.gtop")
            with open(cut, "wb") as out:
                out.write(data[:length])
            with self.subTest(length=length):
                found = report(cut)
                self.assertTrue(any("cut.gtop" in note for note in found["source"]["notes"]), found["source"]["notes"])
                self.assert_equals_reference(found, cut)

    def test_what_is_whole_of_the_demo_is_reported(self):
        self.check(record(), [0.3, 0.5, 0.7, 0.9, 0.97])

    def test_what_is_whole_of_hours_is_reported(self):
        self.check(hours_long(), [0.05, 0.5, 0.8, 0.999])

    def test_without_a_whole_group_there_is_nothing_to_report(self):
        tape = Tape()
        tape.start(0)
        path = tape.save()
        with open(path, "r+b") as file:
            file.truncate(os.path.getsize(path) - 3)
        code, out, err = run(path)
        self.assertIn(code, [1, 2])
        self.assertEqual(out, "")
        self.assertIn("tape.gtop", err)
        self.assertEqual(len(err.splitlines()), 1, err)


def small_recording():
    tape = Tape()
    tape.start(0)
    tape.list(0, ["one"])
    tape.open(0, "one")
    for at in range(0, 100 + STEP, STEP):
        tape.sample(at, "one", {"A": device(40)})
    tape.end(100)
    return tape.save()


class Faults(Case):
    @classmethod
    def setUpClass(cls):
        cls.recording = small_recording()

    def setUp(self):
        self.folder = rig.folder()

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as out:
                out.write(content)
        return path

    def assert_fails(self, name, *words, **options):
        """It fails with one line that names the file, and leaves nothing new behind."""
        before = sorted(os.listdir(self.folder))
        code, out, err = run(*words, **options)
        self.assertIn(code, [1, 2], err)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn(name, err)
        self.assertNotIn("panicked", err)
        self.assertEqual(out, "")
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        return err

    def test_files_that_are_no_recordings(self):
        self.assert_fails("missing.gtop", self.path("missing.gtop"))
        self.assert_fails("empty.gtop", self.path("empty.gtop", b""))
        for content in [b"hello\n", b"\0" * 10_000, b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\xfd" + b"\xff" * 5000,
                        compress("{}\n"), compress('{"at":1,"end":true}\n'), b"timestamp,node\n1,2\n"]:
            self.assert_fails("other.gtop", self.path("other.gtop", content))
        newer = compress('{"at":1800000000,"start":{"gtop":999}}\n')
        self.assertIn("newer", self.assert_fails("later.gtop", self.path("later.gtop", newer)))
        os.mkdir(self.path("folder"))
        self.assert_fails("folder", self.path("folder"))
        # Nor is anything written where a report was requested.
        out = self.path("out.html")
        self.assert_fails("missing.gtop", self.path("missing.gtop"), "-w", out)
        self.assert_fails("missing.gtop", self.recording, self.path("missing.gtop"), "-w", out)

    def test_a_pipe_is_not_waited_for(self):
        os.mkfifo(self.path("pipe"))
        self.assert_fails("pipe", self.path("pipe"))

    def test_a_file_that_is_no_report_stays(self):
        for ending in ["html", "json", "csv", "md", "txt", "ndjson"]:
            for content in [b"my notes\n", b"<html><p>mine", b'{"schema":1}', b"a,b\n1,2\n", b"\0\xff"]:
                path = self.path("mine." + ending, content)
                self.assert_fails("mine." + ending, self.recording, "-w", path)
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), content)
            code, _, err = run(self.recording, "-w", path, "--force")
            self.assertEqual(code, 0, err)
            with open(path, "rb") as file:
                self.assertNotEqual(file.read(), content)
            os.unlink(path)

    def test_a_report_of_another_format_stays(self):
        self.assertEqual(run(self.recording, "-w", self.path("r.json"))[0], 0)
        self.assert_fails("r.json", self.recording, "--format", "html", "-w", self.path("r.json"))

    def test_an_earlier_report_is_replaced_as_a_whole(self):
        for ending in ["html", "json", "csv", "md", "txt", "ndjson"]:
            path = self.path("r." + ending)
            self.assertEqual(run(self.recording, "-w", path)[0], 0)
            before = os.stat(path)
            self.assertEqual(stat.S_IMODE(before.st_mode) & 0o077, 0)
            with open(path, "rb") as held:
                old = held.read()
                code, _, err = run(self.recording, "-w", path)
                self.assertEqual(code, 0, err)
                # Who reads the old one reads it to its end.
                held.seek(0)
                self.assertEqual(held.read(), old)
            self.assertNotEqual(os.stat(path).st_ino, before.st_ino)
        self.assertEqual(sorted(os.listdir(self.folder)), ["r.csv", "r.html", "r.json", "r.md", "r.ndjson", "r.txt"])

    def test_places_where_no_report_can_be(self):
        os.mkdir(self.path("folder.json"))
        self.assert_fails("folder.json", self.recording, "-w", self.path("folder.json"))
        os.mkfifo(self.path("pipe.json"))
        self.assert_fails("pipe.json", self.recording, "-w", self.path("pipe.json"))
        self.assert_fails("/dev/full", self.recording, "--format", "json", "-w", "/dev/full")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode))
        under_a_file = os.path.join(self.path("file", b"x"), "r.json")
        self.assert_fails("r.json", self.recording, "-w", under_a_file)

    def test_a_link_is_not_followed_to_a_foreign_file(self):
        target = self.path("target", b"my notes\n")
        os.symlink(target, self.path("link.json"))
        self.assert_fails("link.json", self.recording, "-w", self.path("link.json"))
        with open(target, "rb") as file:
            self.assertEqual(file.read(), b"my notes\n")
        self.assertTrue(os.path.islink(self.path("link.json")))

    def test_standard_output_that_is_full(self):
        with open("/dev/full", "wb") as full:
            code, _, err = run(self.recording, "--format", "json", stdout=full)
        self.assertIn(code, [1, 2], err)
        self.assertNotIn("panicked", err)
        self.assertEqual(len(err.splitlines()), 1, err)

    def test_a_reader_that_ends_early(self):
        command = f"'{rig.GTOP}' report '{self.recording}' --format html | head -c 10"
        done = subprocess.run(["sh", "-c", command], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                              check=False)
        self.assertNotIn(b"panicked", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "mounts a file system")
    def test_a_full_disk(self):
        script = """
            mount -t tmpfs -o size=64k none "$1" || exit 77
            cp "$2" "$1/r.json" && head -c 200000 /dev/zero > "$1/fill" 2> /dev/null
            "$3" report "$4" --format json -w "$1/r.json" 2> "$5/error"; code=$?
            ls -A "$1" > "$5/list"; cmp "$1/r.json" "$2" || code=78
            exit $code
        """
        old = self.path("old.json")
        self.assertEqual(run(self.recording, "-w", old)[0], 0)
        os.mkdir(self.path("mounted"))
        words = [self.path("mounted"), old, rig.GTOP, self.recording, self.folder]
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", *words], env=ENVIRONMENT, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=120, check=False)
        if done.returncode == 77 or b"unshare" in done.stderr:
            self.skipTest(f"no file system can be mounted: {done.stderr.decode()[:200]}")
        with open(self.path("error")) as file:
            err = file.read()
        self.assertIn(done.returncode, [1, 2], (done.stderr, err))
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("r.json", err)
        with open(self.path("list")) as file:
            self.assertEqual(file.read().split(), ["fill", "r.json"])


HEADER = "timestamp,node,index,utilization,memory_used,memory_total"
# Seconds, node, index, utilization, used and total MiB.
ROWS = [
    (0, "n1", 0, 100, 40960, 81920), (0, "n1", 1, 50, 81920, 81920), (0, "n2", 0, 80, 0, 16384),
    (30, "n1", 0, 100, 40960, 81920), (30, "n1", 1, 50, 81920, 81920),
    (60, "n1", 0, 0, 40960, 81920), (60, "n1", 1, 50, 81920, 81920),
    (90, "n1", 0, 0, 40960, 81920), (90, "n1", 1, 50, 81920, 81920),
    (300, "n2", 0, 20, 0, 16384),
]


class Rntop(Case):
    def log(self, form, *more):
        """Writes a log whose first row is of 2026-11-21 01:54:06.497."""
        path = os.path.join(rig.folder(), "log.csv")
        with open(path, "w") as out:
            print(HEADER, file=out)
            for second, *cells in ROWS:
                time = form.format(54 + (6 + second) // 60, (6 + second) % 60)
                print(time, *cells, sep=",", file=out)
            for line in more:
                print(line, file=out)
        return path

    forms = ["2026/11/21 01:{:02}:{:02}.497", "2026-11-21T01:{:02}:{:02}.497Z"]

    def read(self, path):
        code, out, err = run(path, "--format", "json")
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def test_both_forms_of_time_give_the_same_numbers(self):
        for form in self.forms:
            with self.subTest(form):
                found = self.read(self.log(form))
                self.assertEqual(found["source"]["kind"], "rntop-log")
                self.assertAlmostEqual(found["from"], 1_795_226_046.497, 3)
                totals = found["totals"]
                self.assertEqual((totals["nodes"], totals["devices"], totals["users"], totals["jobs"]), (2, 3, 0, 0))
                # The number of rntop-board: all rows count the same.
                self.assertAlmostEqual(totals["row_mean_percent"], sum(row[3] for row in ROWS) / len(ROWS), 2)
                # A row holds until the next one of its device, for three intervals of 30 s at most, and not beyond the end,
                # which is one interval after the last row.
                held = {"active": 60 + 180 + 90 + 30, "unknown": 120}
                percent_seconds = 60 * 100 + 120 * 0 + 180 * 50 + 90 * 80 + 30 * 20
                self.assertAlmostEqual(totals["utilization_percent"]["mean"], percent_seconds / sum(held.values()), 1)
                for state, hours in totals["device_hours"].items():
                    if state != "not_seen":
                        self.assertAlmostEqual(hours * 3600, held.get(state, 0), 0, state)
                used, total = 180 * 40960 + 180 * 81920, 360 * 81920 + 120 * 16384
                self.assertAlmostEqual(totals["memory_percent"]["mean"], 100 * used / total, 1)
                self.assertIsNone(totals["energy_kwh"])
                self.assertIsNone(totals["power_watts"]["mean"])
                self.assert_consistent(found)

    def test_rows_that_are_none_are_counted(self):
        bad = ["garbage", "2026/13/45 99:99:99,n1,0,1,2,3", "2026/11/21 01:54:06.497,n1", ",,,,,", "\x1b[2J,x y,-1,nan,,"]
        # Empty lines and a header in between are not bad: appended logs have them.
        found = self.read(self.log(self.forms[0], *bad, "", HEADER))
        notes = [note for note in found["source"]["notes"] if f"rows left out: {len(bad)}" in note]
        self.assertEqual(len(notes), 1, found["source"]["notes"])
        self.assertEqual(found["totals"]["devices"], 3)
        clean = self.read(self.log(self.forms[0]))
        self.assertEqual(found["totals"], clean["totals"])
        self.assertFalse(any("rows left out" in note for note in clean["source"]["notes"]))

    def test_a_log_without_rows_is_refused(self):
        for text in [HEADER + "\n", HEADER + "\ngarbage\n"]:
            path = os.path.join(rig.folder(), "log.csv")
            with open(path, "w") as out:
                out.write(text)
            code, out, err = run(path, "--format", "json")
            self.assertIn(code, [1, 2])
            self.assertEqual((out, len(err.splitlines())), ("", 1))
            self.assertIn("log.csv", err)

    def test_the_log_of_gtop_is_one(self):
        log, path = os.path.join(rig.folder(), "log.csv"), os.path.join(rig.folder(), "r.gtop")
        command = ["timeout", "-s", "INT", "15", rig.GTOP, "--demo=6", "--json", "--watch", "--output", log, "--output-every", "1",
                   "--record", path]
        subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, timeout=60, check=False)
        with open(log) as file:
            rows = [line.split(",") for line in file.read().splitlines()[1:]]
        found = self.read(log)
        mean = sum(int(row[3]) for row in rows) / len(rows)
        self.assertAlmostEqual(found["totals"]["row_mean_percent"], mean, 2)
        # The recording beside it says the same, but for devices without utilization, of which the log has no rows.
        recorded = report_reference.report(path)["totals"]
        self.assertLess(abs(found["totals"]["utilization_percent"]["mean"] - recorded["utilization_percent"]["mean"]), 2)


if __name__ == "__main__":
    unittest.main()
