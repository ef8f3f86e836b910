"""Everyday questions about real nodes, answered with a few keys on 80 columns and 24 rows.

Each wait is for text that the screen did not show before the key.
"""

import os
import re
import shutil
import sys
import unittest

from harness import HERE, LabCase, with_connect_timeout, wait_for

sys.path.insert(0, os.path.join(os.path.dirname(HERE), "journeys"))
from screen import Screen  # noqa: E402

# A proxy that delays data in both directions, by the seconds in the file `late`, which can be changed while it runs.
DELAY_PROXY = '''
import collections, os, select, socket, sys, time
here = os.path.dirname(os.path.realpath(__file__))
peer = socket.create_connection((sys.argv[1], int(sys.argv[2])))
ends = {0: peer.fileno(), peer.fileno(): 1}
waiting = {end: collections.deque() for end in ends}
open_ends = set(ends)
while open_ends or any(waiting.values()):
    due = [queue[0][0] for queue in waiting.values() if queue]
    pause = max(0, min(due) - time.monotonic()) if due else None
    for end in select.select(list(open_ends), [], [], pause)[0]:
        data = os.read(end, 65536)
        with open(f"{here}/late") as file:
            late = float(file.read() or 0)
        waiting[end].append((time.monotonic() + late, data))
        if not data:
            open_ends.discard(end)
    for end, queue in waiting.items():
        while queue and queue[0][0] <= time.monotonic():
            data = queue.popleft()[1]
            if not data:
                sys.exit()
            while data:
                data = data[os.write(ends[end], data):]
'''


@unittest.skipUnless(shutil.which("tmux"), "there is no tmux")
@unittest.skipUnless(shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin") or os.environ.get("GTOP_CI"), "no Slurm on this machine")
class Journeys(LabCase):
    NODES, GPUS = 8, 4

    @classmethod
    def prepare(cls):
        # What the driver keeps is part of the memory in use, and differs between nodes.
        for number, node in enumerate(cls.lab.nodes, 1):
            text = re.sub(r"used_mib=\d+", f"used_mib={200 * number} reserved_mib=~", cls.lab.gpu_file(node))
            cls.lab.set_gpus(node, text)
        # One of the four devices of gpu02 is idle.
        text = cls.lab.gpu_file("gpu02")
        cls.lab.set_gpus("gpu02", re.sub(r"(?m)^(gpu 3 .*)util=\d+ memutil=\d+", r"\1util=0 memutil=0", text))
        cls.lab("slurm", "up")
        cls.train = cls.sbatch("train", "gpu[01-02]", 4)
        cls.bob_job = cls.sbatch("fold", "gpu07", 2, user="bob")
        cls.lab.fault("reject", "gpu05")
        cls.lab.fault("hostkey", "gpu06")
        jobs = {"gpu01": (cls.train, 4), "gpu02": (cls.train, 4), "gpu07": (cls.bob_job, 2)}
        for node, (job, count) in jobs.items():
            wait_for(f"job {job} on {node}", lambda node=node, count=count: cls.lab.gpu_file(node).count("\nproc ") == count)

    @classmethod
    def sbatch(cls, name, nodes, gpus, user="alice"):
        count = 2 if "-" in nodes else 1
        done = cls.lab.run(
            "sbatch", "--parsable", "-D", "/tmp", "-o", "/dev/null", "-J", name, f"-N{count}", "--ntasks-per-node=1",
            f"--gres=gpu:{gpus}", "-w", nodes, "--wrap", "srun sleep 3600", user=user,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def open(self, *arguments, home=None):
        command = self.lab.command("gtop", *with_connect_timeout(arguments), home=home)
        screen = Screen(command=command)
        self.addCleanup(screen.close)
        return screen

    def open_all_nodes(self):
        screen = self.open("gpu[01-08]")
        screen.until(r"6/8 fresh|6 of 8 nodes fresh", "six of eight nodes")
        return screen

    def filter(self, screen, text, left):
        """Applies a filter, and waits for the text `left`."""
        screen.type("/")
        screen.until(r"util<10 user=alice", "the filter prompt")
        screen.type(text)
        screen.until(left, "the filtered nodes")
        screen.press("Enter")

    def test_idle_devices_of_my_job(self):
        screen = self.open("--slurm")
        screen.until(r"([23]) of \1 nodes fresh", "the nodes of her jobs")
        screen.press("2", "Enter")
        screen.until(rf"^job {self.train}  train  alice .*running", "the job")
        row = screen.until(r"^  gpu02 +(\d+) +(\d+) +(\d+) +(\d+) ", "its devices on gpu02")
        self.assertEqual(row[4], "0")
        screen.press("1")
        screen.until(r"^  NODE  JOB", "the fleet")
        self.filter(screen, f"job={self.train} util<1", r"^1 of [23] nodes ")
        screen.until(r"/job=\d+ util<1", "the filter in the header")
        self.assertTrue(screen.rows(r"^  gpu02 "))
        self.assertFalse(screen.rows(r"^  gpu0[13] "))
        screen.press("4")
        screen.until(r"^ gpu02 +3 +\d+ alice", "the process on it")
        self.assertFalse(screen.rows(r"^ gpu02 +[0-2] "), screen.text())

    def test_users_of_a_node(self):
        screen = self.open_all_nodes()
        self.filter(screen, "node=gpu07", r"^1 of 8 nodes ")
        screen.press("5")
        screen.until(r"\+ bob +2 ", "the one user of that node")
        self.assertFalse(screen.rows("alice"))
        screen.press("Down", "Enter")
        screen.until(r"- bob", "bob unfolded")
        screen.until(r"^ +.*gpu07 ", "the node below his name")
        screen.press("4")
        screen.until(r"^ gpu07 +1 +\d+ bob", "his processes")

    def test_a_process_is_killed_and_shown_as_gone(self):
        self.sbatch("wild", "gpu03", 1)
        wait_for("it runs", lambda: "\nproc " in self.lab.gpu_file("gpu03"))
        screen = self.open_all_nodes()
        screen.press("4")
        pid = screen.until(r"^ gpu03 +\d+ +(\d+) alice", "her process there")[1]
        self.filter(screen, "node=gpu03", r"^1 of 8 nodes ")
        screen.press("Home")
        screen.until(rf"^{pid} alice on gpu03 ", "the row under the cursor")
        screen.type("K")
        screen.until(r"send KILL to this process\?", "the confirmation")
        self.assertTrue(screen.rows(rf"{pid} +alice +gpu03 +sleep"))
        screen.press("Enter")
        screen.until(rf"KILL sent to {pid} ", "the report that it is sent")
        wait_for("it is gone", lambda: self.lab.run("test", "-e", f"/proc/{pid}", node="gpu03").returncode != 0)
        screen.until(r"\bgone\b|no process that", "that it is shown as gone")
        self.assertFalse(screen.has_ended())

    def test_faults_and_remedies_of_nodes_that_are_down(self):
        path = f"{self.lab.home('stranger')}/.ssh/known_hosts"
        with open(path, encoding="utf-8") as file:
            known = [line for line in file if not line.startswith("gpu08 ")]
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(known)
        screen = self.open("gpu[01-08]", home="stranger")
        for node, why in (("gpu05", "connection refused"), ("gpu06", "host key changed"), ("gpu08", "host key unknown")):
            screen.until(rf"^✗ {node} .*{why}", f"{node}: {why}")
        self.filter(screen, "node=gpu06", r"^1 of 8 nodes ")
        screen.press("3")
        screen.until(r"^host key of gpu06 has changed", "the fault with its remedy")
        screen.until(r"ssh-keygen\s+-f\s+/home/alice/\.ssh/known_hosts\s+-R\s+gpu06", "what to do about it")
        screen.press("Escape")
        screen.until(r"^gpu06 .* 6/8$", "the same node among all, without the filter")
        screen.press("1")
        screen.until(r"^✗ gpu08 ", "the fleet")
        screen.press("End", "Enter")
        screen.until(r"^host key of gpu08 unknown", "the fault of the other")

    def test_sort_by_memory(self):
        screen = self.open_all_nodes()
        screen.press("F6")
        screen.until(r"^sort by$", "columns to choose from")
        screen.type("m")
        screen.until(r"GiB↓", "the column that was chosen")
        self.assertEqual(self.node_order(screen, 6), ["gpu08", "gpu07", "gpu04", "gpu03", "gpu02", "gpu01"])
        screen.type("\\")
        screen.until(r"GiB↑", "the reversed order")
        self.assertEqual(self.node_order(screen, 6), ["gpu01", "gpu02", "gpu03", "gpu04", "gpu07", "gpu08"])

    def node_order(self, screen, count):
        """Waits until this many nodes are fresh; returns their names in the order of the screen."""
        names = []

        def are_all():
            screen.settle()
            names[:] = [row.split()[0] for row in screen.rows(r"^  gpu\d+ +\S+ +\S+ +[^ ]{4} ")]
            return len(names) == count

        wait_for(f"{count} fresh nodes", are_all)
        return names

    def test_a_misspelt_filter_field_is_explained(self):
        screen = self.open_all_nodes()
        screen.type("/")
        screen.until(r"util<10 user=alice", "the filter prompt")
        screen.type("utl<20")
        screen.until(r"▼ no field utl; did you mean util\?", "the error above the word")
        screen.press("C-u")
        screen.type("util<20 !gpu02")
        screen.until(r"^1 of 8 nodes ", "the filtered nodes")
        screen.press("Enter")
        screen.until(r"/util<20 !gpu02", "the filter in the header")
        self.assertEqual(self.node_order(screen, 1), ["gpu01"])
        screen.press("4")
        screen.until(r"^ gpu01 +3 ", "processes of that node")
        self.assertFalse(screen.rows(r"^ gpu0[2-8] "))
        screen.press("Escape")
        screen.until(r"^ gpu07 ", "all of them, without a filter")

    def test_the_setup_is_saved_and_read_at_the_next_start(self):
        home = self.lab.home("setup")
        screen = self.open("gpu01", home="setup")
        screen.until(r"1/1 fresh|1 of 1 nodes fresh|1 node fresh", "the node")
        screen.save_fahrenheit()
        with open(f"{home}/.config/gtop/setup.toml", encoding="utf-8") as file:
            self.assertRegex(file.read(), r"(?m)^fahrenheit = true$")
        screen.leave("^Setup ")
        screen.type("q")
        self.assertEqual(screen.status(), 0)
        again = self.open("gpu01", home="setup")
        again.until(r"^ +0 1\d\dF ", "degrees Fahrenheit")

    def test_a_distant_node_does_not_delay_keys(self):
        home = self.lab.home("far")
        self.lab.run("sh", "-c", "cat >far.py", home="far", stdin=DELAY_PROXY)
        self.lab.run("sh", "-c", "echo 0.15 >late", home="far")
        with open(f"{home}/.ssh/config", "a", encoding="utf-8") as file:
            file.write("Host gpu02\nProxyCommand /run/lab/python /home/alice/far.py %h %p\n")
        screen = self.open("gpu01", "gpu02", home="far")
        screen.until(r"2 of 2 nodes fresh", "both, one of them 300 ms away")
        screen.press("4")
        screen.until(r"^ gpu02 .* alice", "processes")
        self.filter(screen, "node=gpu02 gpu=3", r"^1 of 2 nodes ")
        screen.press("Home")
        screen.until(r"^\d+ alice on gpu02", "the row under the cursor")
        screen.type("e")
        screen.until(r"^SLURMD_NODENAME=gpu02", "the environment, from there")
        screen.press("Escape")
        screen.until(r"^ gpu02 +3 ", "the table")
        # Now an answer takes so long that the screen must not wait for it.
        self.lab.run("sh", "-c", "echo 7 >late", home="far")
        screen.type("t")
        screen.until(r"waiting for the node", "the pending request")
        screen.type("h")
        screen.until(r"Signs and colours in Processes", "help")
        screen.press("Escape")
        screen.until(r"waiting for the node", "the page again")
        screen.type("/")
        screen.until(r"util<10 user=alice", "the filter prompt")
        screen.type("user=alice")
        screen.until(r"^/ .*user=alice", "what was typed")
        screen.leave("^/ ")
        screen.type("z")
        screen.until(r"FROZEN", "the frozen screen")
        screen.type("z")
        self.assertTrue(screen.rows(r"waiting for the node|did not answer within"), f"keys came before the answer:\n{screen.text()}")


if __name__ == "__main__":
    unittest.main()
