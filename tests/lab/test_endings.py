"""However gtop ends, nothing of it remains on any node, and the terminal is as before."""

import os
import signal
import time
import unittest

from harness import LabCase, wait_for

# The promise, in seconds.
GONE = 2.0


class Endings(LabCase):
    """Each ending ends probes of five kinds at once."""

    NODES, GPUS = 5, 8
    PYTHON, SHELL, HUNG, HUNG_SHELL, STALLED = (f"gpu{number:02}" for number in range(1, 6))

    @classmethod
    def prepare(cls):
        for node in (cls.SHELL, cls.HUNG_SHELL):
            cls.lab("python", node, "none")
        for node in (cls.HUNG, cls.HUNG_SHELL):
            cls.lab("smi", node, "hang")
        # Small buffers, so that a stalled link soon fills the pipe the probe writes to.
        command = ["sh", "-c", "echo 4096 4096 8192 >/proc/sys/net/ipv4/tcp_wmem"]
        cls.lab.run(*command, user="root", node=cls.STALLED)

    def test_q(self):
        self.ends(lambda terminal: terminal.type("q"))

    def test_control_c(self):
        self.ends(lambda terminal: terminal.type("C-c"))

    def test_sigint(self):
        self.ends(lambda terminal: os.kill(terminal.pid, signal.SIGINT))

    def test_sigterm(self):
        self.ends(lambda terminal: os.kill(terminal.pid, signal.SIGTERM))

    def test_sighup(self):
        self.ends(lambda terminal: os.kill(terminal.pid, signal.SIGHUP))

    def test_sigkill(self):
        self.ends(lambda terminal: os.kill(terminal.pid, signal.SIGKILL), restored=False)

    def test_the_terminal_window_closes(self):
        terminal = self.start()
        terminal.tmux("kill-server")
        self.gone()

    def test_json_watch_ends_when_its_reader_does(self):
        command = f"gtop --json --watch --interval 0.2 {' '.join(self.lab.nodes)} | head -2 | wc -l"
        done = self.lab.run("bash", "-c", command)
        self.assertEqual(done.stdout.strip(), "2")
        self.gone()

    def test_once_leaves_nothing(self):
        self.lab.gtop("--once", "--deadline", "5", *self.lab.nodes)
        self.gone()

    def start(self):
        """Starts gtop in a terminal and returns it once probes of every kind are at work."""
        self.lab.fault("fast", self.STALLED) if self.stalled else None
        terminal = self.lab.terminal((120, 40))
        self.before = terminal.modes()
        terminal.gtop("--interval", "0.05", *self.lab.nodes)
        terminal.until("all live", r"5 of 5 nodes")
        for node in self.lab.nodes:
            wait_for(f"a probe on {node}", lambda node=node: self.lab.left(node))
        wait_for("a hung nvidia-smi", lambda: any("1000000" in line for line in self.lab.left(self.HUNG).values()))
        self.lab.fault("slow", self.STALLED, "2kbit")
        type(self).stalled = True
        wait_for("the stalled node is stale", lambda: "4 of 5 nodes" in terminal.text())
        return terminal

    stalled = False

    def ends(self, act, restored=True):
        terminal = self.start()
        started = time.monotonic()
        act(terminal)
        self.gone(started)
        if not restored:
            return
        text = terminal.until("the prompt again", r"ready> *$")
        self.assertNotIn("panicked", text)
        self.assertEqual(terminal.modes(), self.before)

    def gone(self, started=None):
        started = started or time.monotonic()
        remaining = {}

        def nothing():
            remaining.clear()
            remaining.update({node: left for node in self.lab.nodes if (left := self.lab.left(node))})
            return not remaining

        wait_for(lambda: f"nothing left; there is {remaining}", nothing, GONE, pause=0.02)
        print(f" gone after {time.monotonic() - started:.2f} s ", end="", flush=True)


if __name__ == "__main__":
    unittest.main()
