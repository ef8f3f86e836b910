"""The examples of the library, as programs: what they print is what gtop says itself.

    GTOP=path/to/gtop python3 -m unittest -v test_library

The examples are beside the program: cargo build --examples.
"""

import json
import os
import re
import sqlite3
import subprocess
import unittest

import rig

EXAMPLES = os.path.join(os.path.dirname(os.path.realpath(rig.GTOP)), "examples")
LIMIT = 120


def run(name, *words):
    command = [os.path.join(EXAMPLES, name), *words]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)


class Examples(unittest.TestCase):
    def test_the_busiest_job_is_printed(self):
        done = run("busiest_job", "--demo=4", "--seed=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\A\d+ \w+ \S+: \d+ % of \d+ devices\n\Z")

    def test_a_wrong_argument_is_a_sentence(self):
        done = run("busiest_job", "--no-such-option")
        self.assertEqual(done.returncode, 1)
        self.assertIn("unexpected argument '--no-such-option'", done.stderr)

    def test_an_idle_device_is_told_once(self):
        command = [os.path.join(EXAMPLES, "alert_on_idle"), "0", "--demo=12", "--seed=1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
            self.addCleanup(program.kill)
            line = program.stdout.readline()
            program.kill()
        self.assertRegex(line, r"\A\S+ device \d+ is held and idle for 0 min(, by .+)?\n\Z")

    def test_devices_are_logged_to_sqlite(self):
        path = os.path.join(rig.folder(), "fleet.db")
        done = run("log_to_sqlite", path, "3", "--demo=12", "--seed=1")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        database = sqlite3.connect(path)
        self.addCleanup(database.close)
        times = database.execute("SELECT count(DISTINCT time), max(time) - min(time) FROM devices").fetchone()
        self.assertEqual(times[0], 3)
        self.assertGreaterEqual(times[1], 2)
        ranges = "SELECT min(utilization_percent), max(utilization_percent), max(memory_used_bytes % 1) FROM devices"
        low, high, fraction = database.execute(ranges).fetchone()
        self.assertTrue(0 <= low < high <= 100, (low, high))
        self.assertEqual(fraction, 0)
        # A device that is lost and nodes that are stale have no values, and no zeros either.
        unknown = "SELECT count(*) FROM devices WHERE utilization_percent IS NULL AND power_watts IS NULL"
        self.assertGreater(database.execute(unknown).fetchone()[0], 0)
        self.assertEqual(database.execute("SELECT count(*) FROM devices WHERE power_watts = 0").fetchone()[0], 0)

    def test_a_recording_is_read(self):
        path = os.path.join(rig.folder(), "a.gtop")
        record = ["timeout", "-s", "INT", "20", rig.GTOP, "record", "--demo=3", "-i", "0.5", "-w", path]
        subprocess.run(record, stderr=subprocess.DEVNULL, timeout=LIMIT, check=False)
        done = run("read_recording", "1", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {node: (float(share), float(watts)) for node, share, watts in re.findall(r"(\S+): ([\d.]+) % and ([\d.]+) W", done.stdout)}
        report = subprocess.run([rig.GTOP, "report", path, "--format", "json"], stdout=subprocess.PIPE, timeout=LIMIT, check=True)
        nodes = json.loads(report.stdout)["nodes"]
        self.assertEqual(len(found), len(nodes))
        for node in nodes:
            share, watts = found[node["node"]]
            # A picture a second is not a mean over time, but near it.
            self.assertAlmostEqual(share, node["utilization_percent"]["mean"], delta=5)
            self.assertAlmostEqual(watts, node["power_watts"]["mean"], delta=30)

    def test_a_file_that_is_no_recording_is_named(self):
        done = run("read_recording", __file__)
        self.assertEqual(done.returncode, 1)
        self.assertIn("test_library.py", done.stderr)


if __name__ == "__main__":
    unittest.main()
