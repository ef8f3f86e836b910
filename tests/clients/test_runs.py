"""`gtop runs` on this machine: the script that reads and changes files of runs, and what the program makes of them.

    GTOP=path/to/gtop python3 -m unittest -v test_runs
"""

import base64
import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

import rig
from test_python import BEGIN, module_folder

PROBES = os.path.join(rig.ROOT, "probes")
FILES = ("runs_folder.py", "runs_changes.py", "runs_output.py", "runs_processes.py", "runs.py")
FIXTURES = os.path.join(rig.ROOT, "tests", "fixtures", "ttop")
SENTINEL = b"\x1eruns1 "
TIMEOUT = 60

TRAIN = """
import sys, time
from gtop_monitor import TrainingMonitor
monitor = TrainingMonitor(sys.argv[1])
monitor.track_variables({"batch_size": 32, "lr": 0.001, "amp": True, "opt": "adam", "sizes": [1, 2], "none": None})
monitor.start_monitoring()
for epoch in range(1000):
    monitor.start_epoch(epoch, 50, 1000)
    monitor.start_phase("training")
    for batch in range(50):
        monitor.start_batch()
        monitor.update_metrics(loss=0.5, learning_rate=0.001, accuracy=0.25)
        print("epoch", epoch, "batch", batch, flush=True)
        changes = monitor.is_change()
        if changes:
            print("changed", sorted(changes.items()), file=sys.stderr, flush=True)
        time.sleep(0.05)
    monitor.end_phase()
    monitor.end_epoch()
"""


# Writes as ttop does: into the file itself, so that a reader finds it empty or half written.
IN_PLACE = """
import json, os, sys, time
path, value = sys.argv[1], json.loads(sys.argv[2])
value["metadata"]["pid"] = os.getpid()
while True:
    value["state"]["batch"] += 1
    text = json.dumps(value, indent=2)
    with open(path, "w") as file:
        for part in (text[:300], text[300:]):
            time.sleep(0.05)
            file.write(part)
            file.flush()
    time.sleep(0.05)
"""


def until(what, condition):
    deadline = time.monotonic() + TIMEOUT
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} never came")
        time.sleep(0.05)


def write(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))


def read(path):
    with open(path) as file:
        return file.read()


def progress(**changes):
    """Returns the progress file of ttop, of a run on this machine, with other metadata or top-level values."""
    with open(os.path.join(FIXTURES, "ttop-progress-running.json")) as file:
        value = json.load(file)
    value["metadata"].update(hostname=socket.gethostname(), start_time=time.time())
    for name, one in changes.items():
        (value["metadata"] if name in value["metadata"] else value)[name] = one
    return value


class Script:
    """The script, running by itself."""

    def __init__(self, folder=None, logs=(), interval=0.2, deadman=30, watch=None, before=()):
        settings = dict(folder=folder, logs=list(logs), interval=interval, deadman=deadman, watch=watch)
        source = "".join(read(os.path.join(PROBES, name)) for name in FILES)
        command = [*before, sys.executable, "-IS", "-c", source]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdin.write(json.dumps(settings).encode() + b"\n")
        self.process.stdin.flush()
        self.number, self.kept = 0, []

    def send(self, verb, **values):
        self.number += 1
        line = json.dumps(dict(values, id=self.number, verb=verb)) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        return self.number

    def next(self):
        line = self.process.stdout.readline()
        assert line.startswith(SENTINEL), line
        return json.loads(line[len(SENTINEL):])

    def until(self, condition):
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            message = self.next()
            if condition(message):
                return message
        raise AssertionError("no such message")

    def ask(self, verb, **values):
        number = self.send(verb, **values)
        return self.until(lambda message: message["t"] == "answer" and message["id"] == number)

    def look(self):
        """Returns the runs that were sent up to the next complete scan of the folder."""
        found, gone = {}, set()
        while True:
            message = self.next()
            if message["t"] == "runs":
                found.update((run["run"], run) for run in message["runs"])
                gone.update(message["gone"])
            elif message["t"] == "tick":
                return found, gone, message["error"]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.read()
        status = self.process.wait(TIMEOUT)
        self.process.stdout.close()
        return status


class ScriptCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = rig.folder()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def script(self, *arguments, **options):
        script = Script(*arguments, **options)
        self.addCleanup(lambda: script.process.stdin.closed or script.close())
        self.hello = script.next()
        return script

    def sleeper(self, *words):
        process = subprocess.Popen(words or ["sleep", "1000"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process


class Folder(ScriptCase):
    def test_both_layouts_are_read_and_nothing_else(self):
        write(self.path("run_2", "progress.json"), {"a": 2})
        write(self.path("run_2", "control.json"), {"lr": 1})
        write(self.path("flat.json"), {"metadata": {"pid": 1}})
        write(self.path("control_flat.json"), {"x": 1})
        write(self.path("both.json"), {"metadata": {"pid": 1}, "is": "flat"})
        # As ttop writes: in place. The rest comes.
        write(self.path("half.json"), '{"metadata": {"pid": 12, "hostname": "gpu01", "scr')
        write(self.path("older.json"), {"metadata": {"status": "FINISHED"}})
        # A run may be called so; a control file is none.
        write(self.path("control_group.json"), {"metadata": {"pid": 1}})
        write(self.path("both", "progress.json"), {"is": "folder"})
        write(self.path("checkpoint_flat.json"), {})
        # JSON of other programs.
        write(self.path("package.json"), {"name": "x", "version": "1"})
        write(self.path("model.safetensors.index.json"), {"metadata": {"total_size": 5}, "weight_map": {}})
        write(self.path("signal.json"), {"pid": 5, "signal_name": "SIGTERM"})
        write(self.path("list.json"), [1, 2])
        write(self.path("broken.json"), "{")
        write(self.path("large.json"), "x" * (2 << 20))
        write(self.path("empty", "notes.txt"), "")
        write(self.path(".hidden", "progress.json"), {})
        write(self.path("bad\x1bname", "progress.json"), {})
        os.mkfifo(self.path("pipe.json"))
        write(self.path("big", "progress.json"), "x" * (2 << 20))
        write(self.path("run_\u00b2", "progress.json"), {})
        for watch in (None, "polling"):
            script = self.script(self.folder, watch=watch)
            found, gone, error = script.look()
            self.assertEqual(self.hello["watch"], watch or "inotify")
            names = ["big", "both", "control_group", "flat", "half", "older", "run_2", "run_\u00b2"]
            self.assertEqual((sorted(found), gone, error), (names, set(), None))
            self.assertEqual(json.loads(found["run_2"]["progress"]["text"]), {"a": 2})
            self.assertEqual(json.loads(found["run_2"]["control"]["text"]), {"lr": 1})
            self.assertEqual(found["run_2"]["uid"], os.geteuid())
            self.assertTrue(found["flat"]["flat"])
            self.assertEqual(json.loads(found["flat"]["control"]["text"]), {"x": 1})
            self.assertEqual(json.loads(found["both"]["progress"]["text"]), {"is": "folder"})
            self.assertEqual(found["both"]["control"]["error"], "missing")
            self.assertIn("larger than 1 MiB", found["big"]["progress"]["error"])
            self.assertEqual(script.close(), 0)

    def test_a_linked_folder_is_a_run_and_linked_files_are_not_followed(self):
        outside = rig.folder()
        write(os.path.join(outside, "progress.json"), {"n": 1})
        os.symlink(outside, self.path("linked"))
        os.symlink(outside, self.path("linked_again"))
        os.symlink("nowhere", self.path("dangling"))
        os.mkdir(self.path("run"))
        os.symlink("/etc/shadow", self.path("run", "progress.json"))
        os.symlink("run", self.path("latest"))
        os.symlink("/etc/shadow", self.path("flat.json"))
        for watch in (None, "polling"):
            script = self.script(self.folder, watch=watch)
            found, _, _ = script.look()
            self.assertEqual(sorted(found), ["linked", "run"])
            run = found["run"]
            self.assertEqual((run["progress"]["text"], run["progress"]["error"]), (None, "not a regular file"))
            self.assertIn('"n"', found["linked"]["progress"]["text"])
            write(os.path.join(outside, "progress.json"), {"n": 22})
            found = script.until(lambda message: message["t"] == "runs" and message["runs"])
            self.assertEqual([run["run"] for run in found["runs"]], ["linked"])
            write(os.path.join(outside, "progress.json"), {"n": 1})
            script.close()

    def test_a_file_becomes_a_run_with_its_content_and_stays_one_while_it_is_written(self):
        for watch in (None, "polling"):
            path = self.path("late.json")
            write(path, "")
            script = self.script(self.folder, watch=watch)
            self.assertEqual(script.look()[0], {})
            write(path, progress())
            found = script.until(lambda message: message["t"] == "runs" and message["runs"])
            self.assertEqual([run["run"] for run in found["runs"]], ["late"])
            write(path, "")
            found = script.until(lambda message: message["t"] == "runs" and message["runs"])
            self.assertEqual((found["gone"], found["runs"][0]["progress"]["text"]), ([], ""))
            os.unlink(path)
            script.until(lambda message: message["t"] == "runs" and message["gone"] == ["late"])
            script.close()

    def test_only_changes_are_told(self):
        for watch in (None, "polling"):
            shutil.rmtree(self.folder)
            os.mkdir(self.folder)
            for number in range(20):
                write(self.path(f"run_{number}", "progress.json"), {"n": 0})
            script = self.script(self.folder, watch=watch)
            self.assertEqual(len(script.look()[0]), 20)
            self.assertEqual(script.look()[0], {})
            write(self.path("run_3", "progress.json"), {"n": 33})
            write(self.path("run_4", "control.json"), {"lr": 1})
            write(self.path("new", "progress.json"), {"n": 1})
            shutil.rmtree(self.path("run_5"))
            found, gone = {}, set()
            while len(found) < 3 or not gone:
                more, less, _ = script.look()
                found.update(more)
                gone |= less
            self.assertEqual((sorted(found), gone), (["new", "run_3", "run_4"], {"run_5"}))
            self.assertNotIn("control", found["run_3"])
            self.assertNotIn("progress", found["run_4"])
            script.close()

    def test_a_folder_that_vanishes_is_told_and_found_again(self):
        write(self.path("runs", "a", "progress.json"), {"n": 1})
        script = self.script(self.path("runs"))
        self.assertEqual(list(script.look()[0]), ["a"])
        shutil.rmtree(self.path("runs"))
        script.until(lambda message: message["t"] == "tick" and message["error"])
        write(self.path("runs", "b", "progress.json"), {"n": 2})
        found = script.until(lambda message: message["t"] == "runs" and message["runs"])
        self.assertEqual([run["run"] for run in found["runs"]], ["b"])

    def test_it_ends_with_its_input_and_without_heartbeats(self):
        script = self.script(self.folder)
        self.assertEqual(script.close(), 0)
        script = self.script(self.folder, deadman=1)
        self.assertEqual(script.process.wait(TIMEOUT), 0)

    def test_logs_are_told_by_their_end(self):
        write(self.path("train.log"), "x" * 20000 + "\nstep 1/10\n")
        script = self.script(None, [self.path("train.log"), self.path("missing.log")])
        message = script.until(lambda message: message["t"] == "logs")
        good, missing = message["logs"]
        self.assertTrue(good["tail"].endswith("step 1/10\n") and len(good["tail"]) <= 8192)
        self.assertEqual(missing["error"], "No such file or directory")


class Changes(ScriptCase):
    CONTROL = '{\n  "batch_size": 32, "lr": 0.001, "amp": true, "opt": "adam", "l": [1], "n": null, "big": 123456789012345678901\n}'

    def setUp(self):
        super().setUp()
        write(self.path("a", "progress.json"), progress(status="FINISHED"))
        write(self.path("a", "control.json"), self.CONTROL)
        self.started = self.script(self.folder)
        self.started.look()

    def set(self, name, value, base=None):
        return self.started.ask("set", run="a", base=base or self.CONTROL, name=name, value=json.dumps(value))

    def control(self):
        with open(self.path("a", "control.json")) as file:
            return file.read()

    def test_a_variable_is_replaced_and_the_rest_stays(self):
        os.chmod(self.path("a", "control.json"), 0o640)
        answer = self.set("lr", 1)
        self.assertTrue(answer["ok"], answer)
        self.assertEqual(answer["text"], self.control())
        before, after = json.loads(self.CONTROL), json.loads(self.control())
        self.assertEqual(list(after), list(before))
        self.assertEqual(dict(after, lr=0.001), before)
        self.assertIsInstance(after["lr"], float)
        self.assertEqual(os.stat(self.path("a", "control.json")).st_mode & 0o777, 0o640)
        self.assertEqual(sorted(os.listdir(self.path("a"))), ["control.json", "progress.json"])

    def test_types_are_kept(self):
        for name, value in [("batch_size", 1.5), ("amp", 1), ("opt", 5), ("l", {}), ("lr", "x"), ("lr", True)]:
            self.assertEqual(self.set(name, value).get("kind"), "type", (name, value))
        self.assertEqual(self.set("missing", 1)["kind"], "missing")
        answer = self.started.ask("set", run="a", base=self.CONTROL, name="lr", value="NaN")
        self.assertEqual(answer["kind"], "type")
        self.assertEqual(self.control(), self.CONTROL)
        self.assertTrue(self.set("n", "anything")["ok"])

    def test_a_change_by_somebody_else_is_not_overwritten(self):
        write(self.path("a", "control.json"), {"lr": 5})
        answer = self.set("lr", 1)
        self.assertEqual((answer["ok"], answer["kind"]), (False, "conflict"))
        self.assertEqual(json.loads(self.control()), {"lr": 5})

    def test_what_is_no_plain_control_file_is_refused(self):
        path = self.path("a", "control.json")
        target = os.path.join(rig.folder(), "target.json")
        write(target, self.CONTROL)
        os.unlink(path)
        os.symlink(target, path)
        self.assertFalse(self.set("lr", 1)["ok"])
        self.assertEqual(read(target), self.CONTROL)
        os.unlink(path)
        self.assertFalse(self.set("lr", 1)["ok"])
        for text in ('{"lr": 1, "lr": 2}', "[1]", "{"):
            write(path, text)
            answer = self.set("lr", 1, base=text)
            self.assertIn(answer["kind"], ("broken", "missing"), text)
        self.assertEqual(self.started.ask("set", run="../a", base="", name="lr", value="1")["kind"], "gone")

    def test_a_control_file_that_is_not_utf_8_is_not_written_back(self):
        data = b'{"lr": 0.001, "name": "caf\xe9"}'
        with open(self.path("a", "control.json"), "wb") as file:
            file.write(data)
        answer = self.set("lr", 1, base=data.decode("utf-8", "replace"))
        self.assertEqual(answer["kind"], "broken", answer)
        with open(self.path("a", "control.json"), "rb") as file:
            self.assertEqual(file.read(), data)

    def test_a_deletion_lists_what_goes_and_follows_no_link(self):
        outside = rig.folder()
        write(os.path.join(outside, "kept"), "kept")
        os.symlink(outside, self.path("a", "link"))
        write(self.path("a", "deep", "er", "file"), "12345")
        plan = self.started.ask("plan", run="a")
        listed = sorted(entry[0] for entry in plan["entries"])
        expected = ["a", "a/control.json", "a/deep", "a/deep/er", "a/deep/er/file", "a/link", "a/progress.json"]
        self.assertEqual((listed, plan["count"], plan["folder"]), (expected, 7, self.folder))
        wrong = self.started.ask("delete", run="a", identity="1:2:3 4:5:6")
        self.assertEqual(wrong["kind"], "changed")
        write(self.path("a", "progress.json"), progress(status="FAILED"))
        self.assertEqual(self.started.ask("delete", run="a", identity=plan["identity"])["kind"], "changed")
        plan = self.started.ask("plan", run="a")
        answer = self.started.ask("delete", run="a", identity=plan["identity"])
        self.assertEqual((answer["ok"], answer["count"]), (True, 7), answer)
        self.assertFalse(os.path.exists(self.path("a")))
        self.assertEqual(os.listdir(outside), ["kept"])

    def test_of_a_linked_run_the_link_is_deleted(self):
        outside = rig.folder()
        write(os.path.join(outside, "progress.json"), progress(status="FINISHED"))
        write(os.path.join(outside, "control.json"), {"lr": 1})
        os.symlink(outside, self.path("linked"))
        self.started.until(lambda message: message["t"] == "runs" and message["runs"])
        answer = self.started.ask("set", run="linked", base='{"lr": 1}', name="lr", value="2")
        self.assertTrue(answer["ok"], answer)
        self.assertEqual(json.loads(read(os.path.join(outside, "control.json"))), {"lr": 2})
        plan = self.started.ask("plan", run="linked")
        self.assertEqual([entry[0] for entry in plan["entries"]], ["linked"])
        self.assertTrue(self.started.ask("delete", run="linked", identity=plan["identity"])["ok"])
        self.assertFalse(os.path.lexists(self.path("linked")))
        self.assertEqual(sorted(os.listdir(outside)), ["control.json", "progress.json"])

    def test_only_a_run_is_deleted(self):
        write(self.path("b.json"), progress(status="FINISHED"))
        write(self.path("website", "progress.json"), {"steps": ["design", "build"]})
        write(self.path("website", "index.html"), "")
        self.started.until(lambda message: message["t"] == "runs" and any(run["run"] == "b" for run in message["runs"]))
        until("the other folder", lambda: self.started.ask("plan", run="website").get("kind") != "gone")
        answer = self.started.ask("plan", run="website")
        self.assertEqual((answer["ok"], answer["kind"]), (False, "foreign"), answer)
        plan = self.started.ask("plan", run="b")
        # Another program writes a file of the name meanwhile.
        write(self.path("b.json"), {"name": "b"})
        for request in ("plan", "delete"):
            answer = self.started.ask(request, run="b", identity=plan["identity"])
            self.assertEqual((answer["ok"], answer["kind"]), (False, "foreign"), answer)
        self.assertTrue(os.path.exists(self.path("b.json")) and os.path.exists(self.path("website", "index.html")))

    def test_the_progress_file_goes_last(self):
        write(self.path("a", "zz", "file"), "")
        entries = [entry[0] for entry in self.started.ask("plan", run="a")["entries"]]
        # Deleted backwards.
        self.assertEqual(entries, ["a", "a/progress.json", "a/control.json", "a/zz", "a/zz/file"])

    def test_a_running_run_and_a_flat_neighbour_stay(self):
        sleeper = self.sleeper()
        write(self.path("live", "progress.json"), progress(pid=sleeper.pid))
        write(self.path("x.json"), progress(status="FINISHED"))
        write(self.path("control_x.json"), {})
        write(self.path("checkpoint_x.pth"), "weights")
        write(self.path("x", "notes"), "")
        self.started.until(lambda message: message["t"] == "runs" and any(run["run"] == "x" for run in message["runs"]))
        until("the live run", lambda: self.started.ask("plan", run="live")["ok"])
        plan = self.started.ask("plan", run="live")
        self.assertEqual(self.started.ask("delete", run="live", identity=plan["identity"])["kind"], "running")
        plan = self.started.ask("plan", run="x")
        self.assertEqual([entry[0] for entry in plan["entries"]], ["x.json", "control_x.json", "checkpoint_x.pth"])
        self.assertEqual(self.started.ask("delete", run="x", identity=plan["identity"])["count"], 3)
        self.assertTrue(os.path.exists(self.path("x", "notes")))
        self.assertTrue(os.path.exists(self.path("live", "progress.json")))


class Outputs(ScriptCase):
    def open(self, script, path, stream="stdout", **values):
        values = dict({"pid": None, "start": None, "uid": os.geteuid()}, **values)
        return script.ask("open", path=path, stream=stream, **values)

    def read(self, script, handle, offset, length):
        return base64.b64decode(script.ask("read", handle=handle, offset=offset, length=length)["data"])

    def test_only_regular_files_of_the_user_are_read(self):
        script = self.script(None)
        path = self.path("log")
        write(path, "hello\n")
        os.symlink(path, self.path("link"))
        os.mkfifo(self.path("fifo"))
        for name, kind in [("link", "link"), ("fifo", "error"), ("missing", "deleted")]:
            self.assertEqual(self.open(script, self.path(name))["kind"], kind)
        for name, kind in [("pipe:[5]", "pipe"), ("/dev/pts/3", "terminal"), ("/dev/null", "null"), ("/dev/zero", "error"),
                           ("relative", "error"), ("/etc", "error")]:
            self.assertEqual(self.open(script, name)["kind"], kind, name)
        # What a hostile file names: the file belongs to somebody else than the run.
        self.assertEqual(self.open(script, "/etc/shadow", uid=os.geteuid() + 12345)["kind"], "foreign")
        self.assertEqual(self.open(script, path, uid=None)["kind"], "foreign")
        answer = self.open(script, path)
        self.assertEqual((answer["ok"], answer["size"], answer["deleted"]), (True, 6, False))
        self.assertEqual(self.read(script, answer["handle"], 1, 4), b"ello")

    def test_the_output_of_the_process_is_read_even_when_it_is_deleted(self):
        path = self.path("log")
        with open(path, "w") as file:
            process = subprocess.Popen(["sh", "-c", "echo one; exec sleep 1000"], stdout=file)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        until("the output", lambda: os.path.getsize(path))
        start = int(read(f"/proc/{process.pid}/stat").rpartition(")")[2].split()[19])
        script = self.script(None)
        self.assertTrue(self.open(script, path, pid=process.pid, start=start, uid=None)["ok"])
        self.assertFalse(self.open(script, path, pid=process.pid, start=start + 1, uid=None)["ok"])
        self.assertFalse(self.open(script, path, "stderr", pid=process.pid, start=start, uid=None)["ok"])
        os.unlink(path)
        answer = self.open(script, path, pid=process.pid, start=start)
        self.assertEqual((answer["ok"], answer["deleted"]), (True, True))
        self.assertEqual(self.read(script, answer["handle"], 0, 100), b"one\n")
        self.assertEqual(self.open(script, path)["kind"], "deleted")

    def test_a_huge_log_is_read_and_searched_by_windows(self):
        path, size = self.path("log"), 5 << 30
        with open(path, "wb") as file:
            file.truncate(size)
            file.seek(3 << 30)
            file.write(b"\nthe Needle\n")
        script = self.script(None)
        started = time.monotonic()
        handle = self.open(script, path)["handle"]
        self.assertEqual(self.read(script, handle, size - 4, 100), b"\0\0\0\0")
        print(f"\nopened 5 GiB and read its end in {(time.monotonic() - started) * 1000:.0f} ms", file=sys.stderr)
        for backwards, offset in ((False, 0), (True, size)):
            rounds = 0
            while True:
                answer = script.ask("find", handle=handle, offset=offset, pattern="needle", backwards=backwards, fold=True)
                rounds += 1
                if answer["found"] is not None:
                    break
                self.assertNotEqual(answer["searched"], offset)
                offset = answer["searched"]
            self.assertEqual(answer["found"], (3 << 30) + 5)
        self.assertIsNone(script.ask("find", handle=handle, offset=size - 100, pattern="needle", backwards=False)["found"])
        with open(f"/proc/{script.process.pid}/status") as file:
            peak = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) >> 10
        print(f"peak of the script {peak} MiB", file=sys.stderr)
        self.assertLess(peak, 50)

    def test_growth_is_told_without_falling_behind(self):
        path = self.path("log")
        write(path, "begin\n")
        script = self.script(None)
        answer = self.open(script, path)
        script.send("follow", handles=[answer["handle"]])
        with open(path, "a") as file:
            for number in range(200000):
                file.write(f"line {number}\n")
        size = os.path.getsize(path)
        growth = script.until(lambda message: message["t"] == "output" and message["size"] == size)
        data = base64.b64decode(growth["data"])
        self.assertLessEqual(len(data), 65536)
        self.assertTrue(data.endswith(b"line 199999\n"))
        self.assertEqual(growth["from"] + len(data), size)
        write(path, "anew\n")
        script.until(lambda message: message["t"] == "output" and message["truncated"])
        if os.path.getsize(path) != 5:
            self.fail("the file is not as it was written")
        until("the new text", lambda: self.read(script, answer["handle"], 0, 100) == b"anew\n")
        os.rename(path, path + ".1")
        write(path, "other\n")
        script.until(lambda message: message["t"] == "output" and message["rotated"])


class Processes(ScriptCase):
    def processes(self, script, *pids, **values):
        script.send("processes", pids=list(pids), **values)
        message = script.until(lambda message: message["t"] == "processes" and len(message["list"]) == len(pids))
        return message, {process["pid"]: process for process in message["list"]}

    def test_processes_with_what_they_started_zombies_and_the_dead(self):
        parent = self.sleeper(sys.executable, "-c", "import subprocess as s, time; s.Popen(['sleep', '1000']); time.sleep(1000)")
        zombie = subprocess.Popen(["true"])
        self.addCleanup(zombie.wait)
        gone = subprocess.Popen(["true"])
        gone.wait()
        until("the child", lambda: len(self.tree(parent.pid)) == 2)
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in self.tree(parent.pid)[1:]])
        until("the zombie", lambda: read(f"/proc/{zombie.pid}/stat").rpartition(")")[2].split()[0] == "Z")
        script = self.script(None)
        message, found = self.processes(script, parent.pid, zombie.pid, gone.pid, expanded=[parent.pid])
        self.assertEqual([row[0] for row in found[parent.pid]["tree"]], self.tree(parent.pid))
        self.assertEqual(found[zombie.pid]["state"], "Z")
        self.assertEqual(found[gone.pid], {"pid": gone.pid, "gone": True})
        self.assertLess(abs(found[parent.pid]["created"] - time.time()), TIMEOUT)
        self.assertEqual(found[parent.pid]["uid"], os.geteuid())
        self.assertEqual([row[0] for row in found[parent.pid]["tasks"][str(parent.pid)]], [parent.pid])
        self.assertEqual(message["cores"], os.cpu_count())
        later = script.until(lambda message: message["t"] == "processes")
        self.assertIsNotNone({one["pid"]: one for one in later["list"]}[parent.pid]["cpu"])

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_process_below_pid_2_of_a_container_is_not_the_kernels(self):
        below = "(sleep 1000 & wait) & exec \"$@\""
        before = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", below, "sh"]
        script = self.script(None, before=before)
        until("the process", lambda: self.processes(script, 3)[1][3].get("comm") == "sleep")
        _, found = self.processes(script, 2, 3)
        self.assertEqual([(found[pid]["kernel"], len(found[pid]["tree"])) for pid in (2, 3)], [(False, 2), (False, 1)])

    def test_a_thread_of_the_kernel_is_told(self):
        # Where threads of the kernel are visible, they are children of the second process.
        has_threads = os.path.exists("/proc/2/comm") and read("/proc/2/comm") == "kthreadd\n"
        kernel = self.tree(2)[1:] if has_threads else []
        if not kernel:
            self.skipTest("no thread of the kernel is visible")
        _, found = self.processes(self.script(None), kernel[0])
        self.assertTrue(found[kernel[0]]["kernel"])

    @staticmethod
    def tree(pid):
        done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], stdout=subprocess.PIPE, check=False)
        return [pid] + [int(word) for word in done.stdout.split()]


class Program(ScriptCase):
    """The program itself, printing its table once or a line per interval."""

    def run_once(self, *arguments):
        done = subprocess.run([rig.GTOP, "runs", *arguments, "--once"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode().splitlines()

    def table(self, *arguments):
        lines = self.run_once(*arguments)
        header = next(at for at, line in enumerate(lines) if line.startswith("RUN "))
        rows = {}
        for line in lines[header + 1:]:
            rows[line.split()[0]] = line
        return rows, lines[:header]

    def train(self, name="live"):
        """Starts a training with our monitor and returns its process."""
        out, error = open(self.path(name + ".out"), "w"), open(self.path(name + ".err"), "w")
        self.addCleanup(out.close)
        self.addCleanup(error.close)
        environment = dict(os.environ, PYTHONPATH=module_folder())
        process = subprocess.Popen([sys.executable, "-c", BEGIN + TRAIN, self.path("runs", name)], env=environment,
                                   stdout=out, stderr=error)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        until("its progress", lambda: os.path.exists(self.path("runs", name, "progress.json")))
        until("its output", lambda: os.path.getsize(self.path(name + ".out")))
        return process

    def test_runs_are_judged_and_none_is_written(self):
        live = self.train()
        gone = subprocess.Popen(["true"])
        gone.wait()
        zombie = subprocess.Popen(["true"])
        self.addCleanup(zombie.wait)
        stopped = self.sleeper()
        os.kill(stopped.pid, signal.SIGSTOP)
        young = self.sleeper()
        long_ago = time.time() - 86400
        cases = {
            "finished": (progress(status="FINISHED", end_time=time.time()), "FINISHED"),
            "failed": (progress(status="FAILED", end_time=time.time(), error_message="out of \x1b[31mmemory"), "FAILED"),
            "canceled": (progress(status="CANCELED", end_time=time.time()), "CANCELED"),
            "gone": (progress(pid=gone.pid), "KILLED"),
            "zombie": (progress(pid=zombie.pid), "KILLED"),
            "reused": (progress(pid=young.pid, start_time=long_ago), "KILLED"),
            "stopped": (progress(pid=stopped.pid), "STOPPED"),
            "stranger": (progress(hostname="no.such.host.example"), "RUNNING ?"),
            "container": (dict(progress(pid=1), metadata=dict(progress(pid=1)["metadata"], pid_namespace="pid:[1]")), "RUNNING ?"),
            "nothing": ({}, "UNKNOWN"),
            "no_total": (progress(pid=stopped.pid, state=dict(progress()["state"], total_epochs=None)), "STOPPED"),
        }
        for name, (value, _) in cases.items():
            value = json.loads(json.dumps(value))
            value.setdefault("metadata", {})["wandb_run_name"] = None
            write(self.path("runs", name, "progress.json"), value)
        write(self.path("runs", "half", "progress.json"), '{"metadata": {"pid": 1')
        write(self.path("runs", "empty", "progress.json"), "")
        before = {name: os.stat(self.path("runs", name, "progress.json")).st_mtime_ns for name in cases}
        rows, head = self.table(self.path("runs"))
        for name, (_, status) in cases.items():
            self.assertRegex(rows[name], rf"^{name} +{re.escape(status)} ", name)
        self.assertRegex(rows["live"], r"^live +RUNNING +training ")
        self.assertIn("elsewhere: no.such.host.example", rows["stranger"])
        self.assertIn("another one has its pid", rows["reused"])
        self.assertIn("was not reaped", rows["zombie"])
        self.assertIn("it runs in a container", rows["container"])
        self.assertIn("progress file: incomplete JSON", rows["half"])
        self.assertIn("progress file: empty", rows["empty"])
        self.assertRegex(rows["failed"], r"out of .?\[31mmemory")
        self.assertNotIn("\x1b", "".join(rows.values()))
        self.assertRegex(rows["no_total"], r" 1 +3/5 ")
        self.assertRegex(head[0], r"^14 runs .* 3 killed")
        self.assertEqual(before, {name: os.stat(self.path("runs", name, "progress.json")).st_mtime_ns for name in cases})
        self.assertIn(f" {live.pid} ", rows["live"])

    def test_files_that_are_written_in_place_keep_their_last_good_copy(self):
        os.makedirs(self.path("runs", "job"))
        path = self.path("runs", "job", "progress.json")
        self.sleeper(sys.executable, "-c", IN_PLACE, path, json.dumps(progress()))
        program = subprocess.Popen([rig.GTOP, "runs", self.path("runs"), "--headless", "-i", "0.2", "--csv-dir", self.path("csv")],
                                   stdout=subprocess.PIPE)
        self.addCleanup(program.wait)
        lines = iter(program.stdout.readline, b"")
        until("a whole file", lambda: next(lines).endswith(b"1 running\n"))
        seen = [next(lines) for _ in range(25)]
        program.send_signal(signal.SIGTERM)
        program.stdout.close()
        self.assertTrue(all(line.endswith(b": 1 running\n") for line in seen), seen)
        found = self.script(self.path("runs"), interval=0.2)
        texts = []
        while len(texts) < 40:
            texts += [run["progress"]["text"] for run in found.look()[0].values()]
        self.assertTrue(any(not text.endswith("}") for text in texts), "none was read while it was written")

    def test_ended_runs_do_not_grow_older(self):
        start = time.time() - 1000
        value = progress(status="FINISHED", start_time=start, end_time=start + 4)
        value["metadata"]["wandb_run_name"] = None
        write(self.path("runs", "done", "progress.json"), value)
        rows, _ = self.table(self.path("runs"))
        self.assertRegex(rows["done"], r" – +4s +4s ")

    def test_headless_writes_all_rows_and_stops_on_a_signal(self):
        self.train()
        for words, pattern in [((), r"^live_matrix\.csv$"), (("--csv-format", "ttop"), r"^\d{8}_\d{6}_\d{8}_\d{6}\.csv$")]:
            folder = self.path("csv", *words[1:])
            program = subprocess.Popen([rig.GTOP, "runs", self.path("runs"), "--headless", "-i", "0.5", "--csv-dir", folder,
                                        *words], stdout=subprocess.PIPE)
            lines = [program.stdout.readline().decode() for _ in range(6)]
            program.send_signal(signal.SIGTERM)
            program.stdout.close()
            self.assertEqual(program.wait(TIMEOUT), 143)
            self.assertRegex(lines[-1], r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] Found 1 training\(s\): 1 running$")
            names = os.listdir(folder)
            name = next(name for name in names if re.match(pattern, name))
            with open(os.path.join(folder, name)) as file:
                rows = file.read().splitlines()
            self.assertGreater(len(rows), 2)
            self.assertEqual({len(row.split(",")) for row in rows}, {len(rows[0].split(","))})
            if words:
                with open(os.path.join(FIXTURES, "20261121_015624_20261121_015630.csv")) as file:
                    self.assertEqual(rows[0], file.readline().rstrip("\n"))
            else:
                self.assertEqual(sorted(names), ["live_matrix.csv", "live_overall.csv"])
                self.assertIn(",accuracy", rows[0])

    def test_a_run_that_tells_no_totals_has_none(self):
        value = progress(status="FINISHED", end_time=time.time())
        # As a program of ttop's tutorial leaves it: no epoch has begun.
        value["state"].update(phase="phase_name", epoch=0, batch=3, total_epochs=0, total_batches=0)
        value["timing"] = {"epoch_start": None, "validation_start": None}
        value["metadata"]["wandb_run_name"] = None
        write(self.path("runs", "tutorial", "progress.json"), value)
        rows, _ = self.table(self.path("runs"))
        self.assertRegex(rows["tutorial"], r"^tutorial +FINISHED +phase_name +– +3 ")

    def test_batches_of_validations_are_counted(self):
        state = dict(phase="validation", epoch=0, batch=8, total_epochs=2, total_batches=5)
        theirs = progress(status="FINISHED", end_time=time.time(), state=state)
        ours = progress(status="FINISHED", end_time=time.time(),
                        state=dict(state, batch=5, validation_batch=3, total_validation_batches=4))
        for name, value in (("ttop", theirs), ("gtop", ours)):
            value["metadata"]["wandb_run_name"] = None
            write(self.path("runs", name, "progress.json"), value)
        lines = self.run_once(self.path("runs"))
        titles = next(line for line in lines if line.startswith("RUN "))
        end = titles.index("VAL BATCH") + len("VAL BATCH")
        for name, expected in (("ttop", "3"), ("gtop", "3/4")):
            row = next(line for line in lines if line.startswith(name + " "))
            self.assertRegex(row, r" 1/2 +5/5 ")
            self.assertEqual(row[:end].split()[-1], expected, row)

    def test_what_is_left_follows_from_a_log_that_tells_totals(self):
        megatron = (" iteration      100/     500 | elapsed time per iteration (ms): 500.0 | lm loss: 9.7E+00 |"
                    " number of skipped iterations:   2 | number of nan iterations:   3 |\n")
        write(self.path("train.log"), megatron)
        lines = self.run_once("--follow", self.path("train.log"))
        titles, row = [next(line for line in lines if line.startswith(start)) for start in ("RUN ", self.path("train.log")[:8])]
        for title, expected in (("LEFT", "3m20s"), ("IT/S", "2.00"), ("SKIPPED ITERATIONS", "2.0000"),
                                ("NAN ITERATIONS", "3.0000")):
            end = titles.index(" " + title) + len(title) + 1
            self.assertEqual(row[:end].split()[-1], expected, (title, row))

    def test_what_is_left_follows_from_steps_that_are_seen(self):
        log = self.path("train.log")
        grow = ("import itertools, sys, time\nfor step in itertools.count():\n"
                "    open(sys.argv[1], 'a').write('step %d/1000000 loss: 0.5\\n' % step)\n    time.sleep(0.05)")
        self.sleeper(sys.executable, "-c", grow, log)
        until("the log", lambda: os.path.exists(log))
        program = subprocess.Popen([rig.GTOP, "runs", "--follow", log, "--headless", "-i", "0.2", "--csv-dir", self.path("csv")],
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)

        def left():
            names = os.listdir(self.path("csv")) if os.path.exists(self.path("csv")) else []
            for name in [name for name in names if name.endswith("_matrix.csv")]:
                with open(self.path("csv", name)) as file:
                    rows = list(csv.DictReader(file))
                return [row for row in rows if row["run_remaining_s"] and row["rate_its"]]
            return []

        row = until("what is left", left)[-1]
        steps = (1000000 - int(row["batch"])) / float(row["rate_its"])
        self.assertAlmostEqual(float(row["run_remaining_s"]) / steps, 1, places=2)

    @unittest.skipUnless(shutil.which("tmux"), "needs tmux")
    def test_tmux_shows_an_output_in_a_window_of_its_own(self):
        self.train()
        socket_name = "gtop-test-%d" % os.getpid()

        def tmux(*words):
            done = subprocess.run(["tmux", "-L", socket_name, "-f", "/dev/null", *words], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=60, check=False)
            return done.stdout.decode()

        self.addCleanup(tmux, "kill-server")
        tmux("new-session", "-d", "-x", "120", "-y", "30", rig.GTOP, "runs", self.path("runs"), "--tmux")
        until("the run", lambda: "live" in tmux("capture-pane", "-p", "-t", ":0"))
        tmux("send-keys", "-t", ":0", "o")
        until("the window", lambda: "live" in tmux("list-windows", "-F", "#{window_name}").split())
        until("the output", lambda: re.search(r"epoch 0 batch \d+", tmux("capture-pane", "-p", "-t", ":1")))
        # The screen goes on, and says why another run has none.
        self.assertIn("live", tmux("capture-pane", "-p", "-t", ":0"))
        value = progress(status="FINISHED")
        value["metadata"].update(wandb_run_name="a#(touch x)", stdout_path="/dev/null", stderr_path=None)
        write(self.path("runs", "a", "progress.json"), value)
        until("the other run", lambda: "touch x" in tmux("capture-pane", "-p", "-t", ":0"))
        tmux("send-keys", "-t", ":0", "Home")
        tmux("send-keys", "-t", ":0", "o")
        until("the reason", lambda: "does not say where its stderr goes" in tmux("capture-pane", "-p", "-t", ":0"))

    def test_tmux_is_needed_for_its_windows(self):
        environment = dict(os.environ)
        environment.pop("TMUX", None)
        done = subprocess.run(["script", "-qec", f"{rig.GTOP} runs {self.folder} --tmux", "/dev/null"], env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--tmux opens windows of tmux", done.stdout.decode())

    def test_a_log_without_files_of_a_run_is_followed(self):
        write(self.path("train.log"), "Epoch 3/10\n 50%|#####     | 21/42 [00:10<00:10,  2.10it/s, loss=0.25]")
        rows, _ = self.table("--follow", self.path("train.log"))
        self.assertRegex("".join(rows.values()), r"RUNNING \? training +3/10 +21/42 0\.2500 .* 2\.10 ")

    def test_files_of_others_are_not_overwritten(self):
        self.train()
        write(self.path("csv", "live_matrix.csv"), "mine\n")
        write(self.path("csv", "live_overall.csv"), "mine\n")
        program = subprocess.Popen([rig.GTOP, "runs", self.path("runs"), "--headless", "-i", "0.5", "--csv-dir",
                                    self.path("csv")], stdout=subprocess.PIPE)
        until("files of other names", lambda: len(os.listdir(self.path("csv"))) == 4)
        program.send_signal(signal.SIGTERM)
        program.stdout.close()
        program.wait(TIMEOUT)
        self.assertEqual(read(self.path("csv", "live_matrix.csv")), "mine\n")
        self.assertEqual(read(self.path("csv", "live_overall.csv")), "mine\n")

    def test_bad_arguments_name_the_remedy(self):
        for words, text in [
            ((), "use gtop runs FOLDER"),
            (("no_such_folder",), "is not a folder here, so it is taken as a host; name a folder as ./no_such_folder"),
            ((self.folder, "--max-cpus", "0"), "not between 0 and"),
        ]:
            done = subprocess.run([rig.GTOP, "runs", *words, "--once"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  check=False)
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(text, done.stderr.decode())
        done = subprocess.run([rig.GTOP, "runs", self.path("missing/"), "--once"], stdout=subprocess.PIPE, check=False)
        self.assertIn("No such file or directory", done.stdout.decode())
        self.assertEqual(done.returncode, 1)
        # Something is shown.
        done = subprocess.run([rig.GTOP, "runs", self.path("missing/"), self.folder, "--once"], stdout=subprocess.PIPE,
                              check=False)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
