"""`gtop runs` over SSH: training runs of other hosts are watched, edited, followed, signalled and deleted there."""

import json
import os
import re
import shlex
import time
import unittest

from harness import LabCase, wait_for

TRAIN = """
import sys, time
sys.path.insert(0, "/home/alice")
from gtop_monitor import TrainingMonitor
monitor = TrainingMonitor(sys.argv[1])
monitor.track_variables({"batch_size": 32, "lr": 0.001})
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


class Runs(LabCase):
    NODES, GPUS = 2, 2

    @classmethod
    def prepare(cls):
        module = cls.lab.gtop("python").stdout
        for node in cls.lab.nodes:
            cls.lab.write_file(node, "gtop_monitor.py", module)
            cls.lab.write_file(node, "train.py", TRAIN)

    def on(self, node, command):
        done = self.lab.run("sh", "-c", f"cd && {command}", node=node)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def train(self, node, run):
        """Starts a training on a node and returns its pid there."""
        self.on(node, f"mkdir -p {os.path.dirname(run)}; setsid python3 train.py {run} > {run}.out 2> {run}.err < /dev/null &")
        wait_for("the progress file", lambda: self.lab.run("test", "-s", f"/home/alice/{run}/progress.json", node=node).returncode == 0)
        pid = self.progress(node, run)["metadata"]["pid"]
        self.addCleanup(self.lab.run, "kill", "-KILL", str(pid), node=node)
        return pid

    def progress(self, node, run):
        return json.loads(self.on(node, f"cat {run}/progress.json"))

    def control(self, node, run):
        return json.loads(self.on(node, f"cat {run}/control.json"))

    def test_a_run_is_watched_edited_followed_signalled_and_deleted_on_its_host(self):
        pid = self.train("gpu01", "runs/a")
        terminal = self.lab.terminal((160, 40))
        terminal.gtop("runs", "gpu01:runs")
        terminal.until("the run", r"^a +RUNNING +training ")
        terminal.type("t")
        terminal.until("its process", rf"\[P\] {pid} python3")
        terminal.type("e")
        terminal.until("its variables", r"lr +float +0\.001")
        terminal.type("Down", "Enter", "C-u", "0", ".", "5", "Enter")
        terminal.until("the job has taken it over", r"lr +float +0\.5 +taken over by the job")
        self.assertEqual(self.control("gpu01", "runs/a"), {"batch_size": 32, "lr": 0.5})
        self.leave(terminal)
        terminal.type("o")
        terminal.until("its output, followed", r"following")
        terminal.until("lines", r"^epoch \d+ batch \d+")
        seen = terminal.text().splitlines()
        terminal.until("later lines", r"^epoch \d+ batch \d+")
        wait_for("later lines", lambda: not set(re.findall("epoch .*", "\n".join(seen))) & set(terminal.text().splitlines()))
        self.leave(terminal)
        terminal.type("c")
        terminal.until("a running run stays", r"a was not deleted: it is running")
        terminal.type("k")
        terminal.until("the signals", r"TERM")
        terminal.type("Down", "Enter")
        terminal.until("the confirmation", rf"send \w+ to this process")
        self.leave(terminal)
        self.lab.run("kill", "-TERM", str(pid), node="gpu01")
        terminal.until("its end", r"^a +CANCELED ")
        terminal.type("c")
        terminal.until("what goes", r"delete run a for good\? \d+ files")
        terminal.until("each file", r"a/progress\.json")
        terminal.type("Enter")
        terminal.until("deleted", r"a deleted")
        self.assertEqual(self.on("gpu01", "ls runs | grep -v '\\.' || true").split(), [])
        terminal.type("q")
        terminal.until("the prompt again", r"ready> *$")
        wait_for("nothing is left", lambda: not self.lab.leftovers("gpu01"))

    def test_a_signal_reaches_the_process_of_the_run(self):
        pid = self.train("gpu01", "signalled/b")
        terminal = self.lab.terminal((160, 40))
        terminal.gtop("runs", "gpu01:signalled")
        terminal.until("the run", r"^b +RUNNING +training ")
        terminal.type("k")
        terminal.until("the signals", r"KILL")
        # The keys of the menu are those of the process view.
        terminal.type(self.key_of(terminal, "KILL"))
        terminal.until("the confirmation", rf"send KILL to this process\?")
        terminal.until("the process", rf"{pid} ")
        terminal.type("Enter")
        terminal.until("sent", rf"KILL sent to {pid} ")
        terminal.until("killed", r"^b +KILLED ")
        self.assertEqual(self.progress("gpu01", "signalled/b")["status"], "RUNNING", "gtop never writes a progress file")
        terminal.type("q")

    @staticmethod
    def leave(terminal):
        """Closes a dialog: a key right behind Esc would be taken for one with Alt."""
        terminal.type("Escape")
        terminal.until("the table's keys", r"s status")

    @staticmethod
    def key_of(terminal, name):
        line = next(line for line in terminal.text().splitlines() if name in line)
        return line.split()[0]

    def stranger(self, run, **metadata):
        """Writes a progress file on gpu01 that names another host."""
        value = {"metadata": dict({"pid": 4242, "hostname": "gpu02", "start_time": time.time()}, **metadata), "status": "RUNNING",
                 "state": {"phase": "training", "epoch": 0, "batch": 1, "total_epochs": None, "total_batches": 5}}
        done = self.lab.run("sh", "-c", f"cd && mkdir -p {run} && cat > {run}/progress.json", node="gpu01", stdin=json.dumps(value))
        self.assertEqual(done.returncode, 0, done.stderr)

    def logins(self, node):
        """Returns the number of logins that the sshd of a node has accepted so far."""
        return self.lab.script.read(f"{self.lab.root}/run/lab/nodes/{node}/log").count("Accepted ")

    def test_a_file_never_makes_gtop_connect_to_a_host(self):
        self.stranger("strange/c")
        self.stranger("strange/d", hostname="gpu02.cluster.example; touch /tmp/hacked")
        before, elsewhere = self.logins("gpu02"), self.logins("gpu01")
        done = self.lab.gtop("runs", "gpu01:strange", "--once", "--deadline", "90", timeout=120)
        self.assertRegex(done.stdout, r"(?m)^c +RUNNING \? .* elsewhere: gpu02 ")
        self.assertRegex(done.stdout, r"(?m)^d +RUNNING \? .* elsewhere: gpu02\.cluster\.example; to")
        self.assertEqual(self.logins("gpu02"), before)
        self.assertGreater(self.logins("gpu01"), elsewhere, "logins are counted")
        # Named on the command line, it is looked at: the process is gone.
        done = self.lab.gtop("runs", "gpu01:strange", "gpu02", "--once", "--deadline", "90", timeout=120)
        self.assertRegex(done.stdout, r"(?m)^c +KILLED ", done.stderr)

    def test_a_host_that_does_not_answer_kills_no_run(self):
        pid = self.train("gpu02", "shared/e")
        self.stranger("kept/e", pid=pid, start_time=self.progress("gpu02", "shared/e")["metadata"]["start_time"])
        words = ("runs", "gpu01:kept", "gpu02")
        done = self.lab.gtop(*words, "--once", "--deadline", "90", timeout=120)
        self.assertRegex(done.stdout, r"(?m)^e +RUNNING +training ", done.stderr)
        self.lab.fault("reject", "gpu02")
        self.addCleanup(self.lab.fault, "clear", "gpu02")
        done = self.lab.gtop(*words, "--once", "--deadline", "10", timeout=120)
        self.assertRegex(done.stdout, r"(?m)^e +RUNNING \? ", done.stderr)
        self.assertIn("its host does not answer", done.stdout)

    def test_the_output_of_a_hostile_file_is_not_read(self):
        self.on("gpu01", "mkdir -p hostile; ln -sf /etc/passwd hostile/link")
        self.stranger("hostile/f", hostname="gpu01", pid=1, stdout_path="/etc/shadow", stderr_path="/home/alice/hostile/link")
        terminal = self.lab.terminal((160, 30))
        terminal.gtop("runs", "gpu01:hostile")
        terminal.until("the run", r"^f ")
        terminal.type("o")
        terminal.until("the refusal", r"stdout: /etc/shadow on gpu01: .*(not read|Permission denied)")
        terminal.until("no link", r"stderr: /home/alice/hostile/link on gpu01: a link")
        self.assertNotIn("root:", terminal.text())
        self.leave(terminal)
        terminal.type("q")

    def test_a_node_set_names_a_folder_on_each_node(self):
        for node in self.lab.nodes:
            self.on(node, "mkdir -p many/run_of_$(hostname) && echo '{\"status\": \"FINISHED\"}' > many/run_of_$(hostname)/progress.json")
        done = self.lab.gtop("runs", "gpu[01-02]:many", "--once", "--deadline", "90", timeout=120)
        self.assertRegex(done.stdout, r"(?m)^run_of_gpu01 +FINISHED ", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^run_of_gpu02 +FINISHED ")
        done = self.lab.gtop("runs", "gpu[01-02]:many", "--exclude", "gpu02", "--once", "--deadline", "90", timeout=120)
        self.assertEqual(done.returncode, 2)
        self.assertIn("gpu02 is not watched", done.stderr)

    def test_tmux_follows_an_output_on_its_host_by_ssh(self):
        self.train("gpu01", "windows/a")
        terminal = self.lab.terminal((160, 40))
        terminal.gtop("runs", "gpu01:windows", "--tmux")
        terminal.until("the run", r"^a +RUNNING +training ")
        terminal.type("o")
        terminal.until("the window with both outputs", r"==> /home/alice/windows/a\.err <==")
        terminal.until("lines as they come", r"^epoch \d+ batch \d+")
        terminal.type("C-c")
        terminal.until("the window waits for Enter", r"Connection to gpu01 closed")
        terminal.type("Enter")
        terminal.until("the screen again, behind the window", r"^a +RUNNING +training ")

    def test_a_missing_folder_is_told(self):
        done = self.lab.gtop("runs", "gpu01:" + shlex.quote("no such folder"), "--once", "--deadline", "90", timeout=120)
        self.assertIn("No such file or directory", done.stdout, done.stderr)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
