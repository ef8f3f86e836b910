"""Signals sent from the screen: only the selected process gets them, on its node, after a confirmation."""

import re
import unittest

from harness import LabCase, wait_for


class Signals(LabCase):
    NODES, GPUS = 2, 4

    def setUp(self):
        self.files = {node: self.lab.gpu_file(node) for node in self.lab.nodes}

    def tearDown(self):
        for node, text in self.files.items():
            self.lab.set_gpus(node, text)

    def train(self, node, user, gpu=0):
        """Starts a process of a user's on a device and returns its pid on the node."""
        pid = int(self.lab("train", node, user))
        self.use(node, pid, gpu)
        return pid

    def use(self, node, pid, gpu=0):
        self.lab.set_gpus(node, self.lab.gpu_file(node) + f"proc {gpu} {pid} 500 50\n")

    def start_time(self, node, pid):
        """Returns the start time of a process, in ticks; None if it has ended."""
        done = self.lab.run("cat", f"/proc/{pid}/stat", node=node, user="root")
        fields = done.stdout.rpartition(")")[2].split()
        return int(fields[19]) if fields and fields[0] not in "ZX" else None

    def start_process_with_pid(self, pid, node="", user="alice"):
        """Starts a process with this pid; returns its start time."""
        script = f"""
            for try in $(seq 200); do
                test -e /proc/{pid} && exit
                echo {pid - 1} > /proc/sys/kernel/ns_last_pid
                setpriv --reuid {user} --clear-groups sleep 1000 > /dev/null 2>&1 < /dev/null &
                test $! = {pid} && exit
                kill $!
            done
        """
        self.lab.run("bash", "-c", script, node=node, user="root")
        return wait_for(f"a process {pid} on {node or 'the login node'}", lambda: self.start_time(node, pid), 5)

    def open_processes(self, *arguments):
        """Starts gtop with both nodes and opens the process view."""
        terminal = self.lab.terminal((120, 40))
        terminal.gtop(*arguments, *self.lab.nodes)
        terminal.until("both nodes fresh", r"2 of 2 nodes")
        terminal.type("4")
        terminal.until("the table", r"GPU-MEM")
        return terminal

    def select(self, terminal, node, pid):
        """Moves the cursor to a process, with a filter that only it matches."""
        terminal.until(f"{pid} listed", rf"{node} .* {pid} ")
        terminal.type("/")
        terminal.tmux("send-keys", "-t", "s", "-l", f"node={node} pid={pid}")
        terminal.type("Enter")
        terminal.until("only this process", r"1 process on 1 node")
        terminal.type("Home")
        terminal.until("its details", rf"^{pid} \w+ on {node}")

    def quit(self, terminal):
        hints = r"^s scope"
        if not re.search(hints, terminal.text(), re.MULTILINE):
            terminal.type("Escape")
            # A key that comes together with Escape is that key with Alt.
            terminal.until("no dialog", hints)
        terminal.type("q")
        terminal.until("the prompt again", r"ready> *$")

    def test_the_remote_process_is_killed_and_a_local_one_with_the_same_pid_is_not(self):
        pid, other = self.train("gpu01", "alice"), self.train("gpu02", "alice")
        local = self.start_process_with_pid(pid)
        terminal = self.open_processes()
        self.select(terminal, "gpu01", pid)
        terminal.type("K")
        question = terminal.until("the confirmation", r"send KILL to this process\?")
        self.assertRegex(question, rf"{pid} +alice +gpu01 +python")
        self.assertIsNotNone(self.start_time("gpu01", pid), "nothing is sent before the confirmation")
        terminal.type("Enter")
        terminal.until("sent", rf"KILL sent to {pid} .*alice on gpu01")
        wait_for("it dies", lambda: self.start_time("gpu01", pid) is None)
        terminal.until("shown as gone", r"\bgone\b|no process that")
        self.assertEqual(self.start_time("", pid), local)
        self.assertIsNotNone(self.start_time("gpu02", other))
        self.quit(terminal)

    def test_escape_sends_nothing(self):
        pid = self.train("gpu01", "alice")
        terminal = self.open_processes()
        self.select(terminal, "gpu01", pid)
        started_at = self.start_time("gpu01", pid)
        for key in ("K", "T", "I", "C-c"):
            terminal.type(key)
            terminal.until("the confirmation", r"send \w+ to this process\?")
            terminal.type("Escape")
            wait_for("it closes", lambda: "send " not in terminal.text())
        self.assertEqual(self.start_time("gpu01", pid), started_at)
        self.quit(terminal)

    def test_a_reused_pid_is_refused(self):
        pid = self.train("gpu01", "alice")
        terminal = self.open_processes()
        self.select(terminal, "gpu01", pid)
        terminal.type("T")
        terminal.until("the confirmation", r"send TERM to this process\?")
        self.lab.run("kill", "-KILL", str(pid), node="gpu01", user="root")
        wait_for("it is gone", lambda: self.start_time("gpu01", pid) is None)
        started_at = self.start_process_with_pid(pid, "gpu01")
        terminal.type("Enter")
        terminal.until("refused", r"another one has its pid")
        self.assertEqual(self.start_time("gpu01", pid), started_at)
        self.quit(terminal)

    def test_a_process_that_ended_meanwhile_is_reported(self):
        pid = self.train("gpu02", "alice")
        terminal = self.open_processes()
        self.select(terminal, "gpu02", pid)
        terminal.type("F9")
        terminal.until("the list", r"15 SIGTERM")
        terminal.type("K")
        terminal.until("the confirmation", r"send KILL to this process\?")
        self.lab.run("kill", "-KILL", str(pid), node="gpu02", user="root")
        terminal.until("seen", r"process has ended")
        terminal.type("Enter")
        terminal.until("the report", r"the process has ended")
        self.quit(terminal)

    def test_a_process_of_another_user_is_refused(self):
        pid = self.train("gpu01", "bob", gpu=2)
        terminal = self.open_processes()
        self.select(terminal, "gpu01", pid)
        started_at = self.start_time("gpu01", pid)
        terminal.type("K")
        terminal.until("a warning", r"not yours")
        terminal.type("Enter")
        terminal.until("refused", r"not allowed")
        self.assertEqual(self.start_time("gpu01", pid), started_at)
        self.quit(terminal)

    def test_tagged_processes_on_two_nodes_are_terminated_together(self):
        pids = {node: self.train(node, "alice") for node in self.lab.nodes}
        terminal = self.open_processes()
        terminal.until("both listed", rf"(?s) {pids['gpu01']} .* {pids['gpu02']} ")
        terminal.type("/")
        terminal.tmux("send-keys", "-t", "s", "-l", "user=alice !sleep")
        terminal.type("Enter")
        terminal.until("two", r"2 processes on 2 nodes")
        terminal.type("Home", "Space", "Space")
        terminal.until("tagged", r"2 tagged")
        terminal.type("T")
        question = terminal.until("the confirmation", r"send TERM to 2 processes\?")
        for node, pid in pids.items():
            self.assertRegex(question, rf"{pid} +alice +{node}")
        terminal.type("Enter")
        terminal.until("sent", r"TERM sent to 2 processes")
        for node, pid in pids.items():
            wait_for(f"{pid} on {node} ends", lambda node=node, pid=pid: self.start_time(node, pid) is None)
        self.quit(terminal)

    def test_readonly_sends_nothing(self):
        pid = self.train("gpu01", "alice")
        terminal = self.open_processes("--readonly")
        self.select(terminal, "gpu01", pid)
        started_at = self.start_time("gpu01", pid)
        self.assertNotRegex(terminal.text(), r"K end")
        for key in ("K", "T", "I", "F9"):
            terminal.type(key)
        terminal.type("h")
        page = terminal.until("help", r"Signs and colours")
        self.assertNotRegex(page, r"send |SIGTERM")
        terminal.type("Escape")
        self.assertEqual(self.start_time("gpu01", pid), started_at)
        terminal.type("C-c")
        terminal.until("the prompt again", r"ready> *$")
        self.assertEqual(self.start_time("gpu01", pid), started_at)

    def test_tree_and_environment_come_from_the_node(self):
        pid = self.train("gpu01", "alice")
        terminal = self.open_processes()
        self.select(terminal, "gpu01", pid)
        terminal.type("t")
        terminal.until("the tree", rf"^ +{pid} +alice +GPU 0 .*[├└]─ .*python")
        terminal.type("e")
        environment = terminal.until("the environment", r"^HOME=/home/alice")
        self.assertIn(str(pid), environment)
        terminal.type("Escape")
        terminal.until("the tree again", r"^tree +gpu01")
        terminal.type("t")
        terminal.until("the table", r"GPU-MEM")
        self.quit(terminal)


if __name__ == "__main__":
    unittest.main()
