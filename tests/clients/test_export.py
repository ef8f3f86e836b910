"""Tables of `gtop export` in DuckDB, polars, pandas and LibreOffice, beside the report of the same recording.

    GTOP=path/to/gtop GTOP_TABLES=path/to/python python3 -m unittest -v test_export

GTOP_TABLES is a Python with duckdb, pandas, polars and pyarrow, from PyPI; without one, or without soffice, the tests that need
it are skipped.
"""

import csv
import datetime
import json
import os
import pty
import re
import subprocess
import shutil
import unittest
from xml.etree import ElementTree

import rig
from tape import Tape, device

PYTHON = os.environ.get("GTOP_TABLES")

READ = r"""
import json, sys
import duckdb, polars
path, kind = sys.argv[1:]
found = {}
rows = duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'").fetchall()
found["duckdb"] = {name: type for name, type, *_ in rows}
if path.endswith("csv"):
    frame = polars.read_csv(path, try_parse_dates=True)
else:
    frame = polars.read_ndjson(path) if path.endswith("ndjson") else polars.read_parquet(path)
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

# Reads tables with the calls of docs/, and tells the type of each column with a value, and the rows.
CALLS = r"""
import json, sys
import duckdb, pandas, polars, pyarrow
from pyarrow import types

def kind(type):
    if types.is_timestamp(type):
        assert type.tz in ("UTC", "Etc/UTC"), type
        return "time"
    kinds = {"integer": types.is_integer, "number": types.is_floating, "boolean": types.is_boolean,
             "text": lambda type: "string" in str(type)}
    return next((name for name, test in kinds.items() if test(type)), str(type))

def table(reader, call):
    if reader == "DuckDB":
        duckdb.sql("SET TimeZone = 'UTC'")
        return duckdb.sql(call).to_arrow_table()
    frame = eval(call)
    return frame.to_arrow() if reader == "polars" else pyarrow.Table.from_pandas(frame, preserve_index=False)

found = []
for reader, call in json.loads(sys.argv[1]):
    read = table(reader, call)
    kinds = {name: kind(read[name].type) for name in read.column_names}
    for position, name in enumerate(read.column_names):
        if types.is_timestamp(read[name].type):
            times = read[name].cast(pyarrow.timestamp("us", "UTC"), safe=False).cast("int64")
            read = read.set_column(position, name, times)
    known = [name for name in read.column_names if read[name].null_count < len(read)]
    found.append([kinds, known, read.to_pylist()])
print(json.dumps(found))
"""

# What a Parquet file says of itself.
SCHEMA = r"""
import json, sys
import pyarrow.parquet
file = pyarrow.parquet.ParquetFile(sys.argv[1])
metadata = {key.decode(): text.decode() for key, text in file.metadata.metadata.items()}
print(json.dumps({
    "types": {field.name: str(field.type) for field in file.schema_arrow},
    "required": [field.name for field in file.schema_arrow if not field.nullable],
    "about": {key: text for key, text in metadata.items() if key.startswith(("unit.", "help."))},
    "by": file.metadata.created_by, "rows": file.metadata.num_rows,
}))
"""


def page_calls(page, ending="csv"):
    """Returns the calls on a page of docs/ that read a file with this ending, by reader."""
    with open(os.path.join(rig.ROOT, "docs", page)) as file:
        calls = re.findall(r"^    (DuckDB|polars|pandas|LibreOffice) +(.+)$", file.read(), re.M)
    return {reader: call for reader, call in calls if f"a.{ending}" in call}


def micros(text):
    """Returns the microseconds of a time of NDJSON."""
    at = datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
    return (at - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1)


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
        for ending in ("csv", "ndjson", "parquet"):
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
        for ending in ("csv", "ndjson", "parquet"):
            with self.subTest(ending):
                found = self.read(self.export("long." + ending, "--fields", "util,power,ecc"), "long")
                self.assertEqual(list(found["duckdb"]), ["time", "node", "device", "field", "value", "unit"])
                self.assertIn("TIMESTAMP", found["duckdb"]["time"])
                self.assertEqual((found["duckdb"]["value"], found["polars"]["value"]), ("DOUBLE", "Float64"))
                self.assertIn(["utilization_percent", "%"], found["fields"])
                self.assertAlmostEqual(found["mean"], self.report["totals"]["utilization_percent"]["mean"], delta=2)

    def in_tables_python(self, code, *words, cwd=None):
        if not PYTHON:
            self.skipTest("GTOP_TABLES names no Python with duckdb, pandas, polars and pyarrow")
        done = subprocess.run([PYTHON, "-c", code, *words], cwd=cwd, stdout=subprocess.PIPE, timeout=120, check=True)
        return json.loads(done.stdout)

    def check_readers(self, recording, *words, endings=("csv", "ndjson", "parquet")):
        """Reads the tables of a recording with the calls of docs/ for these formats: they have the types of the declaration, and the values
        of NDJSON. Returns these."""
        fields = json.loads(self.gtop("fields", "--json").stdout)
        declared = {"host_" * (field["of"] == "host") + field["id"]: field["type"] for field in fields}
        declared.update(seconds="number", device="text", field="text", value="number", unit="text")
        folder = rig.folder()
        for ending in ["csv", "ndjson", "parquet"]:
            done = self.gtop("export", recording, "-w", os.path.join(folder, "a." + ending), *words)
            self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(folder, "a.ndjson")) as file:
            expected = [json.loads(line) for line in file]
        readers = ["DuckDB", "polars", "pandas"]
        pages = {"csv": "exports.md", "ndjson": "reports.md", "parquet": "reports.md"}
        calls = [(ending, reader, page_calls(pages[ending], ending)[reader]) for ending in endings for reader in readers
                 if (ending, reader) != ("ndjson", "pandas")]
        found = self.in_tables_python(CALLS, json.dumps([call[1:] for call in calls]), cwd=folder)
        for (ending, reader, _), (kinds, known, rows) in zip(calls, found):
            with self.subTest(ending=ending, reader=reader):
                is_csv = ending == "csv"
                self.assertEqual([row[name] for row in rows for name in row if row[name] != row[name]], [])
                self.assertEqual(len(rows), len(expected))
                for name, kind in kinds.items():
                    # A column without a value has no type in the others.
                    if name in known or ending == "parquet":
                        self.assertEqual(kind, declared[name], name)
                for row, other in zip(rows, expected):
                    other = {**other, "time": micros(other["time"])}
                    if is_csv:
                        other = {name: re.sub("^(?=[=+@-])", "'", value) if isinstance(value, str) else value
                                 for name, value in other.items()}
                    self.assertEqual(row, other)
        return expected

    def test_every_reader_has_the_values_and_types_of_ndjson(self):
        listed = json.loads(self.gtop("fields", "--json").stdout)
        left_out = ["time", "age", "node", "index", "uuid", "command"]
        fields = {field["alias"]: field["type"] for field in listed
                  if field["of"] in ["device", "host"] and field["alias"] not in left_out}
        # The call for CSV names no texts such as the version of the driver.
        named = ["user", "job", "health", "certainty", *(name for name, kind in fields.items() if kind != "text")]
        for endings, names in [(["ndjson", "parquet"], fields), (["csv"], named)]:
            words = ["--wide", "--every", "2s", "--fields", ",".join(names)]
            rows = self.check_readers(self.recording, *words, endings=endings)
            unknown = [sum(value is None for value in row.values()) for row in rows]
            self.assertTrue(0 < min(unknown) < max(unknown), unknown)

    def test_names_that_look_like_numbers_or_like_nothing_are_texts(self):
        tape, users = Tape(), ["null", "007", "1e5", "NA", "true", "ada"]
        tape.start(0)
        tape.list(0, ["12"], [(f"{number}_3" if number == 5 else str(number), "n", user, {"12": [number]})
                              for number, user in enumerate(users)])
        tape.open(0, "12")
        for at in range(0, 60, 10):
            tape.sample(at, "12", {uuid: device(60) for uuid in "ABCDEF"})
        tape.end(60)
        rows = self.check_readers(tape.save(), "--wide")
        self.assertEqual({row["user"] for row in rows}, set(users))
        self.assertEqual({row["job"] for row in rows}, {"0", "1", "2", "3", "4", "5_3"})
        self.assertEqual({row["node"] for row in rows}, {"12"})

    def test_a_hostile_text_is_a_text(self):
        names = ["=cmd()|' /C calc'!A0", "say \"hi\", 'ho'", "two\r\nlines", "\U0001f980 \u202e", "x" * 65536, "@SUM(A1)", "null"]
        tape = Tape()
        tape.start(0)
        tape.list(0, ["gpu01"])
        tape.open(0, "gpu01")
        for at in range(0, 60, 10):
            tape.sample(at, "gpu01", {f"GPU-{index}": device(60, name=name) for index, name in enumerate(names)})
        tape.end(60)
        rows = self.check_readers(tape.save(), "--wide", "--fields", "util,user,job,name")
        found = {row["name"] for row in rows}
        self.assertEqual(len(found), len(names))
        for name in [names[0], names[1], names[5], "null"]:
            self.assertIn(name, found)

    def test_a_parquet_file_says_what_its_columns_are(self):
        path = self.export("schema.parquet", "--wide", "--fields", "util,mem,mig,user,cpu", "--force")
        found = self.in_tables_python(SCHEMA, path)
        self.assertEqual(found["types"], {
            "time": "timestamp[us, tz=UTC]", "seconds": "double", "node": "string", "device": "string", "index": "int64",
            "utilization_percent": "double", "memory_used_bytes": "int64", "mig_enabled": "bool", "user": "string",
            "host_cpu_percent": "double"})
        self.assertEqual(found["required"], ["time", "seconds", "node", "device"])
        units = {"seconds": "s", "utilization_percent": "%", "memory_used_bytes": "B", "host_cpu_percent": "%"}
        self.assertEqual({key: text for key, text in found["about"].items() if key.startswith("unit")},
                         {"unit." + name: unit for name, unit in units.items()})
        self.assertEqual({key for key in found["about"] if key.startswith("help")}, {"help." + name for name in found["types"]})
        self.assertRegex(found["by"], r"^gtop version \d+\.\d+\.\d+")

    def test_a_recording_without_devices_is_a_table_without_rows(self):
        tape = Tape()
        tape.start(0)
        tape.list(0, ["gpu01"])
        tape.end(60)
        self.assertEqual(self.check_readers(tape.save(), "--wide", endings=["csv", "parquet"]), [])

    def test_a_spreadsheet_reads_times_and_ids(self):
        if not shutil.which("soffice"):
            self.skipTest("LibreOffice is not installed")
        folder = rig.folder()
        path = self.export(os.path.join(folder, "a.csv"), "--wide", "--spreadsheet", "--every", "5s")
        with open(path, newline="") as file:
            written = list(csv.DictReader(file))
        title, *rows = cells(path, re.search("--infilter=([^ ]+)", page_calls("exports.md")["LibreOffice"])[1])
        self.assertEqual([text for _, text in title], list(written[0]))
        self.assertEqual(len(rows), len(written))
        for row, expected in zip(rows, written):
            for (kind, text), (name, value) in zip(row, expected.items()):
                if name == "time":
                    self.assertEqual((kind, text[:19]), ("date", value.replace(" ", "T")[:19]))
                elif name in ["node", "device", "user", "job"]:
                    self.assertIn((kind, text), [("string", value), (None, "")])
                    self.assertEqual(text, value)
                elif value:
                    self.assertEqual(kind, "float", (name, value))
        command = page_calls("exports.md")["LibreOffice"].split()
        command.insert(1, f"-env:UserInstallation=file://{folder}/profile")
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180, check=True)
        self.assertGreater(os.path.getsize(os.path.join(folder, "a.xlsx")), 0)

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
        path = self.export("anonymous.csv", "--wide", "--anonymize", "--fields", "util,user,job,health,certainty")
        with open(path) as file:
            text = file.read()
        for word in [",ok,", ",certain"]:
            self.assertIn(word, text)
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

    def test_a_recording_that_is_read_is_not_replaced(self):
        read = self.path("read.gtop")
        shutil.copy(self.recording, read)
        part, link = self.path("read.gtop.20260101T000000Z"), self.path("link.gtop")
        shutil.copy(self.recording, part)
        os.symlink(read, link)
        with open(read, "rb") as file:
            before = file.read()
        for command, words in [("export", ["--format", "csv"]), ("report", ["--format", "md"])]:
            for written in [read, link, part]:
                done = self.gtop(command, read, *words, "-w", written, "--force")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f"{written} is read by this command".encode(), done.stderr)
        for path in [read, part]:
            with open(path, "rb") as file:
                self.assertEqual(file.read(), before)

    def test_bad_words_name_the_remedy(self):
        for words, expected in [(["--format", "parquet", "--spreadsheet"], "leave out --spreadsheet"),
                                (["--fields", "utl"], "did you mean util?"),
                                (["--fields", "command"], "gtop report --commands"), (["--from", "never"], "not a time"),
                                (["--from", "-1s", "--to", "-2s"], '--from "-1s" is after --to "-2s"'),
                                (["--from", "2000-01-01", "--to", "2000-01-02"], "the recording covers")]:
            done = self.gtop("export", self.recording, *words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(expected, done.stderr.decode())
            self.assertEqual(done.stdout, b"")

    def test_a_reader_that_stops_is_no_error(self):
        for reader, form, begins in [("head -n 1", "csv", b"time,seconds,node,device,index,"), ("head -c 4", "parquet", b"PAR1"),
                                     ("true", "parquet", b"")]:
            command = f"{rig.GTOP} export {self.recording} --wide --format {form} | {reader}; exit ${{PIPESTATUS[0]}}"
            done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertTrue(done.stdout.startswith(begins))

    def test_a_pipe_gets_the_bytes_of_the_file_and_a_terminal_none(self):
        path = self.export("piped.parquet", "--wide", "--force")
        done = self.gtop("export", self.recording, "--wide", "--format", "parquet")
        with open(path, "rb") as file:
            self.assertEqual(done.stdout, file.read())
        leader, terminal = pty.openpty()
        command = [rig.GTOP, "export", self.recording, "--format", "parquet"]
        done = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, timeout=60, check=False)
        os.close(terminal)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"-w", done.stderr)
        with self.assertRaises(OSError):
            os.read(leader, 1)
        os.close(leader)

    def test_a_full_disk_leaves_no_file(self):
        folder = rig.folder()
        script = 'mount -t tmpfs -o size=4k none "$0" && "$1" export "$2" --wide --fields all -w "$0/a.$3"; echo $?; ls -A "$0"'
        for form in ["csv", "parquet"]:
            command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, folder, rig.GTOP, self.recording, form]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
            if b"unshare" in done.stderr or b"mount" in done.stderr:
                self.skipTest("no namespaces here")
            self.assertEqual(done.stdout, b"1\n", done.stderr)
            self.assertRegex(done.stderr, rb"^gtop: cannot write [^\n]*No space left on device[^\n]*\n$")


if __name__ == "__main__":
    unittest.main()
