"""Tables of `gtop export` in DuckDB and polars, without casts, beside the report of the same recording.

    GTOP=path/to/gtop GTOP_TABLES=path/to/python python3 -m unittest -v test_export

GTOP_TABLES is a Python with duckdb and polars, from PyPI; without one, the tests that need it are skipped.
"""

import csv
import json
import os
import subprocess
import unittest

import rig

PYTHON = os.environ.get("GTOP_TABLES")

READ = r"""
import json, sys
import duckdb, polars
path, kind = sys.argv[1:]
found = {}
rows = duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
found["duckdb"] = {name: type for name, type, *_ in rows}
frame = polars.read_csv(path, try_parse_dates=True) if path.endswith("csv") else polars.read_ndjson(path)
found["polars"] = {name: str(type) for name, type in frame.schema.items()}
found["rows"] = [duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall()[0][0], frame.height]
if kind == "wide":
    means = f"SELECT node, sum(utilization_percent * seconds) / sum(seconds) FROM '{path}' WHERE utilization_percent IS NOT NULL GROUP BY node"
    found["means"] = dict(duckdb.sql(means).fetchall())
    known = frame.filter(polars.col("utilization_percent").is_not_null())
    grouped = known.group_by("node").agg((polars.col("utilization_percent") * polars.col("seconds")).sum() / polars.col("seconds").sum())
    found["polars_means"] = dict(grouped.iter_rows())
    found["energy"] = duckdb.sql(f"SELECT sum(power_watts * seconds) / 3.6e6 FROM '{path}'").fetchall()[0][0]
    found["counts"] = dict(duckdb.sql(f"SELECT node, count(*) FROM '{path}' GROUP BY node").fetchall())
else:
    found["fields"] = [list(row) for row in duckdb.sql(f"SELECT DISTINCT field, unit FROM '{path}' ORDER BY field").fetchall()]
    found["mean"] = frame.filter(polars.col("field") == "utilization_percent")["value"].mean()
print(json.dumps(found))
"""


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = rig.folder()
        cls.recording = os.path.join(cls.folder, "a.gtop")
        record = ["timeout", "-s", "INT", "20", rig.GTOP, "record", "--demo=4", "-i", "0.5", "-w", cls.recording]
        subprocess.run(record, stderr=subprocess.DEVNULL, timeout=120, check=False)
        done = cls.gtop("report", cls.recording, "--format", "json")
        cls.report = json.loads(done.stdout)

    @classmethod
    def gtop(cls, *words):
        return subprocess.run([rig.GTOP, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)

    def path(self, name):
        return os.path.join(self.folder, name)

    def export(self, name, *words):
        path = self.path(name)
        done = self.gtop("export", self.recording, "-w", path, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def read(self, path, kind):
        if not PYTHON:
            self.skipTest("GTOP_TABLES names no Python with duckdb and polars")
        done = subprocess.run([PYTHON, "-c", READ, path, kind], stdout=subprocess.PIPE, timeout=120, check=True)
        return json.loads(done.stdout)

    def test_a_wide_table_has_the_numbers_of_the_report(self):
        for ending in ("csv", "ndjson"):
            with self.subTest(ending):
                found = self.read(self.export("wide." + ending, "--wide"), "wide")
                self.assertIn("TIMESTAMP", found["duckdb"]["time"])
                self.assertEqual((found["duckdb"]["seconds"], found["duckdb"]["power_watts"]), ("DOUBLE", "DOUBLE"))
                self.assertEqual(found["polars"]["memory_used_bytes"], "Int64")
                self.assertEqual(found["rows"][0], found["rows"][1])
                for node in self.report["nodes"]:
                    mean, name = node["utilization_percent"]["mean"], node["node"]
                    self.assertAlmostEqual(found["means"][name], mean, delta=0.02)
                    self.assertAlmostEqual(found["polars_means"][name], mean, delta=0.02)
                    if name == "gpu01":
                        # A row per device and sample; drivers of other nodes hang for a while.
                        rows = node["samples_seen"] * node["devices"]
                        self.assertLessEqual(abs(found["counts"][name] - rows), node["devices"])
                energy = self.report["totals"]["energy_kwh"]
                self.assertAlmostEqual(found["energy"], energy, delta=energy * 1e-3)

    def test_a_long_table_has_a_row_per_value(self):
        for ending in ("csv", "ndjson"):
            with self.subTest(ending):
                found = self.read(self.export("long." + ending, "--fields", "util,power,ecc"), "long")
                self.assertEqual(list(found["duckdb"]), ["time", "node", "device", "field", "value", "unit"])
                self.assertIn("TIMESTAMP", found["duckdb"]["time"])
                self.assertEqual((found["duckdb"]["value"], found["polars"]["value"]), ("DOUBLE", "Float64"))
                self.assertIn(["utilization_percent", "%"], found["fields"])
                self.assertAlmostEqual(found["mean"], self.report["totals"]["utilization_percent"]["mean"], delta=2)

    def test_samples_can_be_thinned_and_cut(self):
        def times(*words):
            path = self.export("thin.csv", "--wide", "--force", *words)
            with open(path, newline="") as file:
                rows = [row for row in csv.DictReader(file) if (row["node"], row["index"]) == ("gpu01", "0")]
            return [row["time"] for row in rows]
        every = times()
        thinned = times("--every", "5s")
        self.assertTrue(len(every) / 14 < len(thinned) < len(every) / 6, (len(every), len(thinned)))
        self.assertLess(set(thinned), set(every))
        middle = every[len(every) // 2]
        self.assertEqual(times("--from", middle)[0], middle)
        self.assertEqual(times("--to", middle)[-1], middle)

    def test_names_are_replaced_equally(self):
        path = self.export("anonymous.csv", "--wide", "--anonymize")
        with open(path) as file:
            text = file.read()
        for name in ["gpu0", "GPU-", "katherine", "8421"]:
            self.assertNotIn(name, text)
        for name in ["node01", "device1", "user1", "job1"]:
            self.assertIn(name, text)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    def test_nothing_of_others_is_replaced_and_nothing_is_left(self):
        theirs = self.path("theirs.csv")
        with open(theirs, "w") as file:
            file.write("theirs")
        dangling = self.path("dangling.csv")
        os.symlink("/nonexistent/file", dangling)
        before = sorted(os.listdir(self.folder))
        for path, words in [(theirs, []), (dangling, []), ("/dev/full", ["--force"]), (self.folder, ["--force"]),
                            ("/nonexistent/folder/a.csv", [])]:
            done = self.gtop("export", self.recording, "-w", path, *words)
            self.assertEqual(done.returncode, 1, (path, done.stderr))
            self.assertIn(path.encode(), done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        with open(theirs) as file:
            self.assertEqual(file.read(), "theirs")

    def test_bad_words_name_the_remedy(self):
        for words, expected in [(["--format", "parquet"], "duckdb"), (["--fields", "utl"], "did you mean util?"),
                                (["--fields", "command"], "gtop report --commands"), (["--from", "never"], "not a time"),
                                (["--from", "2000-01-01", "--to", "2000-01-02"], "the recording covers")]:
            done = self.gtop("export", self.recording, *words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(expected, done.stderr.decode())
            self.assertEqual(done.stdout, b"")

    def test_a_reader_that_stops_is_no_error(self):
        command = f"{rig.GTOP} export {self.recording} --wide | head -n 1; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertTrue(done.stdout.startswith(b"time,seconds,node,device,index,"))


if __name__ == "__main__":
    unittest.main()
