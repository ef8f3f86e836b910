"""Tables of `gtop export` in DuckDB, polars, pandas and LibreOffice, beside the report of the same recording.

    GTOP=path/to/gtop GTOP_TABLES=path/to/python python3 -m unittest -v test_export

GTOP_TABLES is a Python with duckdb, pandas and polars, from PyPI; without one, or without soffice, the tests that need it are
skipped.
"""

import csv
import json
import os
import re
import subprocess
import shutil
import unittest
from xml.etree import ElementTree

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

# The options of docs/exports.md.
IDS = r"""
import json, sys
import duckdb, pandas, polars
path = sys.argv[1]
plain = {row[0] for row in duckdb.sql(f"SELECT DISTINCT job FROM '{path}'").fetchall()}
told = {row[0] for row in duckdb.sql(f"SELECT DISTINCT job FROM read_csv('{path}', types = {{'job': 'VARCHAR'}})").fetchall()}
in_polars = set(polars.read_csv(path, schema_overrides={"job": polars.String})["job"])
in_pandas = pandas.read_csv(path, dtype={"job": str}, parse_dates=["time"])
frame = polars.read_csv(path, try_parse_dates=True, schema_overrides={"job": polars.String})
print(json.dumps({
    "plain": sorted(map(str, plain)), "duckdb": sorted(told), "polars": sorted(in_polars), "pandas": sorted(set(in_pandas["job"])),
    "times": [duckdb.sql(f"SELECT typeof(time) FROM '{path}' LIMIT 1").fetchall()[0][0], str(frame.schema["time"]),
              str(in_pandas.dtypes["time"])],
}))
"""

def cells(path, infilter):
    """Returns kind and value of the cells of a CSV in LibreOffice, by row."""
    folder = rig.folder()
    command = ["soffice", f"-env:UserInstallation=file://{folder}/profile", "--headless", f"--infilter={infilter}",
               "--convert-to", "fods", "--outdir", folder, path]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180, check=True)
    names = {name: f"{{urn:oasis:names:tc:opendocument:xmlns:{name}:1.0}}" for name in ["table", "office", "text"]}
    tree = ElementTree.parse(os.path.join(folder, os.path.basename(path).rsplit(".", 1)[0] + ".fods"))
    rows = []
    for row in tree.iter(names["table"] + "table-row"):
        found = []
        for cell in row.iter(names["table"] + "table-cell"):
            kind = cell.get(names["office"] + "value-type")
            value = cell.get(names["office"] + "date-value") or "".join(cell.itertext()).strip()
            found += [(kind, value)] * int(cell.get(names["table"] + "number-columns-repeated", 1))
        rows.append(found)
    return rows


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
                # The report corrects it by the drivers' counters, which the simulated ones round.
                self.assertAlmostEqual(found["energy"], energy, delta=energy * 0.03)

    def test_a_long_table_has_a_row_per_value(self):
        for ending in ("csv", "ndjson"):
            with self.subTest(ending):
                found = self.read(self.export("long." + ending, "--fields", "util,power,ecc"), "long")
                self.assertEqual(list(found["duckdb"]), ["time", "node", "device", "field", "value", "unit"])
                self.assertIn("TIMESTAMP", found["duckdb"]["time"])
                self.assertEqual((found["duckdb"]["value"], found["polars"]["value"]), ("DOUBLE", "Float64"))
                self.assertIn(["utilization_percent", "%"], found["fields"])
                self.assertAlmostEqual(found["mean"], self.report["totals"]["utilization_percent"]["mean"], delta=2)

    def with_late_id(self, *words):
        """Returns a table whose first tens of thousands of jobs are numbers, and a last one of which is 9_3."""
        path = self.export("ids.csv", "--wide", "--fields", "util,job", "--force", *words)
        with open(path, newline="") as file:
            title, *rows = file.read().splitlines(keepends=True)
        job = title.strip().split(",").index("job")
        rows = [row.strip().split(",") for row in rows]
        rows = [row for row in rows if row[job]]
        rows[-1][job] = "9_3"
        rows = rows[:-1] * (40_000 // len(rows) + 1) + rows[-1:]
        with open(path, "w", newline="") as file:
            file.write(title + "".join(",".join(row) + "\r\n" for row in rows))
        return path, job

    def test_ids_of_jobs_are_texts_with_the_option_that_the_page_names(self):
        if not PYTHON:
            self.skipTest("GTOP_TABLES names no Python with duckdb, pandas and polars")
        for words, times in [([], ["TIMESTAMP WITH TIME ZONE", "time_zone='UTC'", "UTC"]),
                             (["--spreadsheet"], ["TIMESTAMP", "Datetime", "datetime64"])]:
            path, _ = self.with_late_id(*words)
            done = subprocess.run([PYTHON, "-c", IDS, path], stdout=subprocess.PIPE, timeout=120, check=True)
            found = json.loads(done.stdout)
            # What the page warns of.
            self.assertIn("93", found["plain"])
            for reader in ["duckdb", "polars", "pandas"]:
                self.assertIn("9_3", found[reader], reader)
                self.assertIn("8421", found[reader], reader)
            for kind, expected in zip(found["times"], times):
                self.assertIn(expected, kind)

    def test_a_spreadsheet_reads_times_and_ids(self):
        if not shutil.which("soffice"):
            self.skipTest("LibreOffice is not installed")
        path = self.export("sheet.csv", "--wide", "--fields", "util,job", "--spreadsheet", "--every", "5s", "--force")
        with open(path, newline="") as file:
            written = list(csv.DictReader(file))
        job = list(written[0]).index("job")
        title, *rows = cells(path, f"CSV:44,34,76,1,{job + 1}/2,1033,false,true")
        self.assertEqual((title[0][1], title[job][1]), ("time", "job"))
        self.assertEqual(len(rows), len(written))
        for row, expected in zip(rows, written):
            self.assertEqual(row[0][0], "date", row)
            self.assertEqual(row[0][1][:19], expected["time"].replace(" ", "T")[:19])
            self.assertIn(row[job], [("string", expected["job"]), (None, "")])

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
        for name in ["gpu0", "GPU-", "katherine"]:
            self.assertNotIn(name, text)
        # Part of a number may look like a job.
        self.assertNotIn("8421", re.split("[,\n]", text))
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
