"""Everyday questions about training runs, answered with a few keys; each row acts on its own run."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from screen import TIMEOUT, TOP, Journey, program

TRAIN = """
import sys, time
sys.path.insert(0, sys.argv[2])
from gtop_monitor import TrainingMonitor
monitor = TrainingMonitor(sys.argv[1])
monitor.track_variables({"batch_size": 32, "lr": 0.001, "amp": True, "opt": "adam"})
monitor.start_monitoring()
for epoch in range(10000):
    monitor.start_epoch(epoch, 50, 10000)
    monitor.start_phase("training")
    for batch in range(50):
        monitor.start_batch()
        monitor.update_metrics(loss=0.5)
        print("epoch", epoch, "batch", batch, flush=True)
        time.sleep(0.05)
    monitor.end_phase()
    monitor.end_epoch()
"""


class Runs(Journey):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gtop-runs-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        with open(self.path("gtop_monitor.py"), "w", encoding="utf-8") as file:
            subprocess.run([program(), "python"], stdout=file, check=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def train(self, name):
        """Starts a training and returns its process."""
        with open(self.path(f"{name}.out"), "w", encoding="utf-8") as out:
            command = [sys.executable, "-c", TRAIN, self.path("runs", name), self.folder]
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + TIMEOUT
        while not os.path.exists(self.path("runs", name, "progress.json")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        return process

    def write(self, name, **changes):
        """Writes a progress file as ttop does."""
        with open(os.path.join(TOP, "tests", "fixtures", "ttop", "ttop-progress-running.json"), encoding="utf-8") as file:
            value = json.load(file)
        value["metadata"].update(hostname=socket.gethostname(), start_time=time.time(), wandb_run_name=None)
        for key, one in changes.items():
            (value["metadata"] if key in value["metadata"] else value)[key] = one
        os.makedirs(self.path("runs", name), exist_ok=True)
        with open(self.path("runs", name, "progress.json"), "w", encoding="utf-8") as file:
            json.dump(value, file)

    def watch(self, **options):
        screen = self.open("runs", self.path("runs"), "-i", "0.5", **options)
        screen.until(r"^RUN +STATUS", "the table")
        return screen

    def leave(self, screen):
        screen.press("Escape")
        screen.until(r"^s status", "the keys of the table")

    def test_filters_show_runs_by_status_and_name(self):
        for number, status in enumerate(["FINISHED", "FAILED", "CANCELED", "FINISHED"]):
            self.write(f"run_{number}", status=status, end_time=time.time())
        screen = self.watch()
        screen.until(r"^4 runs · 2 finished · 1 failed · 1 canceled", "the counts")
        seen = []
        for _ in range(6):
            screen.press("s")
            screen.until(r"only [A-Z]+", "a status")
            screen.settle()
            seen.append((screen.until(r"only ([A-Z]+)")[1], len(screen.rows(r"^run_\d"))))
        self.assertEqual(seen, [("RUNNING", 0), ("FINISHED", 2), ("CANCELED", 1), ("FAILED", 1), ("KILLED", 0), ("UNKNOWN", 0)])
        screen.press("s", "f")
        screen.until("name contains:", "the prompt")
        screen.type("RUN_3")
        screen.press("Enter")
        screen.until(r'only name "RUN_3"', "the filter")
        self.assertEqual(len(screen.rows(r"^run_\d")), 1)
        screen.press("Escape")
        screen.until(r"^run_0 ", "all runs again")

    def test_a_row_below_a_run_acts_on_that_run(self):
        live = self.train("aa")
        self.write("bb", status="FINISHED", end_time=time.time())
        screen = self.watch()
        screen.until(r"^aa +RUNNING +training ", "the live run")
        screen.press("Home", "t")
        screen.until(rf"\[P\] {live.pid} python", "its process")
        screen.press("Down")
        screen.press("c")
        screen.until(r"aa was not deleted: it is running", "the run of the row")
        screen.press("e")
        screen.until(r"variables of aa .* pid %d" % live.pid, "its variables")
        screen.leave("variables of")
        screen.press("o")
        screen.until(r"^output of aa ", "its output")
        screen.leave("output of")
        self.assertTrue(os.path.exists(self.path("runs", "bb", "progress.json")))
        screen.press("t")
        screen.until(rf"    \[T\] {live.pid} ", "its threads")
        screen.press("t")
        screen.until(r"^bb ", "the rows folded")
        screen.settle()
        self.assertFalse(screen.rows(r"\[[PT]\]"))

    def test_a_conflicting_edit_is_caught_and_types_are_kept(self):
        self.train("live")
        screen = self.watch(size=(120, 40))
        screen.until(r"^live +RUNNING +training ", "the live run")
        screen.press("e")
        screen.until(r"batch_size +int +32", "the variables")
        screen.press("Enter", "C-u")
        screen.type("many")
        screen.until(r'"many" is not an integer', "the error in place")
        screen.press("C-u")
        screen.type("64")
        control = self.path("runs", "live", "control.json")
        with open(control, encoding="utf-8") as file:
            values = json.load(file)
        with open(control + ".new", "w", encoding="utf-8") as file:
            json.dump(dict(values, lr=0.5), file)
        os.replace(control + ".new", control)
        screen.press("Enter")
        screen.until(r"someone else has changed the file; nothing was written", "the conflict")
        screen.until(r"lr +float +0\.5", "the value of the other")
        screen.press("Enter", "C-u")
        screen.type("64")
        screen.press("Enter")
        screen.until(r"batch_size +int +64 +taken over by the job", "the acknowledgement")
        with open(control, encoding="utf-8") as file:
            self.assertEqual(json.load(file), dict(values, lr=0.5, batch_size=64))

    def test_an_output_is_searched_and_followed(self):
        self.write("quiet", status="FINISHED", end_time=time.time(), stdout_path=self.path("log"), stderr_path=self.path("err"))
        with open(self.path("log"), "w", encoding="utf-8") as file:
            file.writelines(f"line {number}\n" for number in range(100000))
            file.write(" 10%|#  |\r 50%|## |\r100%|###|\n\x1b[31mred\x1b[0m \x1b]0;title\x07end\n")
        with open(self.path("err"), "w", encoding="utf-8") as file:
            file.write("warning: one\n")
        os.utime(self.path("err"), (1, 1))
        screen = self.watch()
        screen.press("o")
        screen.until(r"^red end$", "the end of the log")
        screen.until(r"^100%\|###\|$", "the last state of the bar")
        screen.press("/")
        screen.until("search:", "the prompt")
        screen.type("line 50000")
        screen.press("Enter")
        screen.until("search continued from the beginning", "nothing behind the end")
        screen.until(r"^line 50000$", "the line")
        screen.press("Home")
        screen.until(r"^warning: one$", "the file that was written first")
        screen.press("2")
        screen.until(r"stderr .*hidden", "the stream hidden")
        screen.settle()
        self.assertFalse(screen.rows("^warning"))
        screen.press("a")
        screen.until("following", "the end again")
        with open(self.path("log"), "a", encoding="utf-8") as file:
            file.write("the newest\n")
        screen.until(r"^the newest$", "the newest line")

    def test_readonly_changes_nothing(self):
        self.write("done", status="FINISHED", end_time=time.time())
        with open(self.path("runs", "done", "control.json"), "w", encoding="utf-8") as file:
            file.write('{"lr": 1}')
        screen = self.open("runs", self.path("runs"), "--readonly", size=(100, 24))
        screen.until(r"^done +FINISHED", "the run")
        screen.press("c")
        screen.until(r"deleting is disabled", "the refusal")
        screen.press("e")
        screen.until(r"lr +int +1", "the variables")
        screen.press("Enter")
        screen.until(r"editing is disabled", "the refusal")

    def test_a_thousand_runs_and_a_folder_that_vanishes(self):
        for number in range(1000):
            self.write(f"run_{number}", status="FINISHED", end_time=time.time())
        screen = self.watch()
        screen.until(r"^1000 runs", "all runs")
        screen.press("End")
        screen.until(r"^run_999 ", "the last in natural order")
        os.rename(self.path("runs"), self.path("away"))
        screen.until(r"runs: No such file or directory", "the reason")
        self.assertTrue(screen.rows(r"^run_999 "), "the last good copies stay")
        os.rename(self.path("away"), self.path("runs"))
        screen.until(r"^1000 runs", "all runs again")
        screen.press("q")
        self.assertEqual(screen.status(), 0)


if __name__ == "__main__":
    unittest.main()
