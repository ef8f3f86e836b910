"""Signals from the screen: the right process gets them, on the right node, after a yes, and no other."""

import unittest

from harness import LabCase, wait_for


class Signals(LabCase):
    NODES, GPUS = 2, 4

    def setUp(self):
        self.files = {node: self.lab.gpu_file(node) for node in self.lab.nodes}

    def tearDown(self):
        for node, text in self.files.items():
            self.lab.gpus(node, text)

    def train(self, node, user, gpu=0):
        """Starts a process of a user's on a device and returns its pid on the node."""
        pid = int(self.lab("train", node, user))
        self.use(node, pid, gpu)
        return pid

    def use(self, node, pid, gpu=0):
        self.lab.gpus(node, self.lab.gpu_file(node) + f"proc {gpu} {pid} 500 50\n")

    def start(self, node, pid):
        """Returns when a process began, in ticks; None when it has ended."""
        done = self.lab.run("cat", f"/proc/{pid}/stat", node=node, user="root")
        fields = done.stdout.rpartition(")")[2].split()
        return int(fields[19]) if fields and fields[0] not in "ZX" else None

    def take_pid(self, pid, node="", user="alice"):
        """Starts a process that has this very pid, and returns when it began."""
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
        return wait_for(f"a process {pid} on {node or 'the login node'}", lambda: self.start(node, pid), 5)

    def screen(self, *arguments):
        """Starts gtop on both nodes and goes to the processes."""
        terminal = self.lab.terminal((120, 40))
        terminal.gtop(*arguments, *self.lab.nodes)
        terminal.until("both nodes fresh", r"2 of 2 nodes")
        terminal.type("4")
        terminal.until("the table", r"GPU-MEM")
        return terminal

    def select(self, terminal, node, pid):
        """Puts the cursor on a process: the only one a filter leaves."""
        terminal.until(f"{pid} listed", rf"{node} .* {pid} ")
        terminal.type("/")
        terminal.tmux("send-keys", "-t", "s", "-l", f"node={node} pid={pid}")
        terminal.type("Enter")
        terminal.until("it alone", r"1 process on 1 node")
        terminal.type("Home")
        terminal.until("its details", rf"^{pid} \w+ on {node}")

    def quit(self, terminal):
        terminal.type("Escape")
        terminal.type("q")
        terminal.until("the prompt again", r"ready> *$")

    def test_the_remote_process_dies_and_the_local_one_of_the_same_pid_lives(self):
        pid, other = self.train("gpu01", "alice"), self.train("gpu02", "alice")
        local = self.take_pid(pid)
        terminal = self.screen()
        self.select(terminal, "gpu01", pid)
        terminal.type("K")
        asked = terminal.until("the question", r"send KILL to this process\?")
        self.assertRegex(asked, rf"{pid} +alice +gpu01 +python")
        self.assertIsNotNone(self.start("gpu01", pid), "nothing is sent without a yes")
        terminal.type("Enter")
        terminal.until("sent", rf"KILL sent to {pid} .*alice on gpu01")
        wait_for("it dies", lambda: self.start("gpu01", pid) is None)
        terminal.until("seen gone", r"\bgone\b|no process that")
        self.assertEqual(self.start("", pid), local)
        self.assertIsNotNone(self.start("gpu02", other))
        self.quit(terminal)

    def test_no_is_no(self):
        pid = self.train("gpu01", "alice")
        terminal = self.screen()
        self.select(terminal, "gpu01", pid)
        began = self.start("gpu01", pid)
        for key in ("K", "T", "I", "C-c"):
            terminal.type(key)
            terminal.until("the question", r"send \w+ to this process\?")
            terminal.type("Escape")
            wait_for("it closes", lambda: "send " not in terminal.text())
        self.assertEqual(self.start("gpu01", pid), began)
        self.quit(terminal)

    def test_a_reused_pid_is_refused(self):
        pid = self.train("gpu01", "alice")
        terminal = self.screen()
        self.select(terminal, "gpu01", pid)
        terminal.type("T")
        terminal.until("the question", r"send TERM to this process\?")
        self.lab.run("kill", "-KILL", str(pid), node="gpu01", user="root")
        wait_for("it is gone", lambda: self.start("gpu01", pid) is None)
        began = self.take_pid(pid, "gpu01")
        terminal.type("Enter")
        terminal.until("refused", r"another one has its pid")
        self.assertEqual(self.start("gpu01", pid), began)
        self.quit(terminal)

    def test_a_process_that_ended_meanwhile_is_said_to_have_ended(self):
        pid = self.train("gpu02", "alice")
        terminal = self.screen()
        self.select(terminal, "gpu02", pid)
        terminal.type("F9")
        terminal.until("the list", r"15 SIGTERM")
        terminal.type("K")
        terminal.until("the question", r"send KILL to this process\?")
        self.lab.run("kill", "-KILL", str(pid), node="gpu02", user="root")
        terminal.until("seen", r"process has ended")
        terminal.type("Enter")
        terminal.until("told", r"the process has ended")
        self.quit(terminal)

    def test_another_user_s_is_refused(self):
        pid = self.train("gpu01", "bob", gpu=2)
        terminal = self.screen()
        self.select(terminal, "gpu01", pid)
        began = self.start("gpu01", pid)
        terminal.type("K")
        terminal.until("a warning", r"not yours")
        terminal.type("Enter")
        terminal.until("refused", r"not allowed")
        self.assertEqual(self.start("gpu01", pid), began)
        self.quit(terminal)

    def test_tagged_processes_on_two_nodes_are_ended_together(self):
        pids = {node: self.train(node, "alice") for node in self.lab.nodes}
        terminal = self.screen()
        terminal.until("both listed", rf"(?s) {pids['gpu01']} .* {pids['gpu02']} ")
        terminal.type("/")
        terminal.tmux("send-keys", "-t", "s", "-l", "user=alice !sleep")
        terminal.type("Enter")
        terminal.until("two", r"2 processes on 2 nodes")
        terminal.type("Home", "Space", "Space")
        terminal.until("tagged", r"2 tagged")
        terminal.type("T")
        asked = terminal.until("the question", r"send TERM to 2 processes\?")
        for node, pid in pids.items():
            self.assertRegex(asked, rf"{pid} +alice +{node}")
        terminal.type("Enter")
        terminal.until("sent", r"TERM sent to 2 processes")
        for node, pid in pids.items():
            wait_for(f"{pid} on {node} ends", lambda node=node, pid=pid: self.start(node, pid) is None)
        self.quit(terminal)

    def test_readonly_sends_nothing(self):
        pid = self.train("gpu01", "alice")
        terminal = self.screen("--readonly")
        self.select(terminal, "gpu01", pid)
        began = self.start("gpu01", pid)
        self.assertNotRegex(terminal.text(), r"K end")
        for key in ("K", "T", "I", "F9"):
            terminal.type(key)
        terminal.type("h")
        page = terminal.until("help", r"Everywhere")
        self.assertNotRegex(page, r"send |SIGTERM")
        terminal.type("Escape")
        self.assertEqual(self.start("gpu01", pid), began)
        terminal.type("C-c")
        terminal.until("the prompt again", r"ready> *$")
        self.assertEqual(self.start("gpu01", pid), began)

    def test_tree_and_environment_come_from_the_node(self):
        pid = self.train("gpu01", "alice")
        terminal = self.screen()
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
