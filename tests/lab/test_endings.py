"""However gtop ends, nothing of it remains on any node, and the terminal is as before."""

import os
import signal
import time
import unittest

from harness import LabCase, Refused, wait_for

# Probes must fill their pipes before the dead-man ends them, which takes a machine for itself.
ALONE = True

# Two seconds are promised, and what it took is printed. A machine that runs four labs at once, or
# somebody else's work, gets three times that before the test calls it broken.
GONE = 6.0
# A pipe takes 64 KiB, but only whole frames go in.
FULL = 48 << 10


class Endings(LabCase):
    """Each ending ends probes of four kinds at once."""

    NODES, GPUS = 4, 8
    PYTHON, SHELL, HUNG, HUNG_SHELL = (f"gpu{number:02}" for number in range(1, 5))

    @classmethod
    def prepare(cls):
        for node in (cls.SHELL, cls.HUNG_SHELL):
            cls.lab("python", node, "none")
        for node in (cls.HUNG, cls.HUNG_SHELL):
            cls.lab("smi", node, "hang")
        # The other two have so much to tell that a stopped reader's windows are full before the dead-man
        # of a stopped reader ends the probe.
        for node in (cls.PYTHON, cls.SHELL):
            uses = "".join(f"proc {line % cls.GPUS} {100000 + line} 100\n" for line in range(1000))
            cls.lab.gpus(node, cls.lab.gpu_file(node) + uses)

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
        # Nothing can restore the terminal then; the nodes must be clean all the same.
        self.ends(lambda terminal: os.kill(terminal.pid, signal.SIGKILL), is_restored=False)

    def test_the_window_closes(self):
        self.ends(lambda terminal: terminal.tmux("kill-server"), is_restored=False)

    def test_sigkill_while_probes_cannot_write(self):
        terminal = self.start()
        self.fill(terminal.pid)
        started = time.monotonic()
        os.kill(terminal.pid, signal.SIGKILL)
        self.gone(started)

    def test_sigterm_after_probes_could_not_write(self):
        terminal = self.start()
        pid = terminal.pid
        self.fill(pid)
        started = time.monotonic()
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)
        self.gone(started)

    def test_a_suspended_gtop_can_be_ended(self):
        # As shells do at logout: a signal, and a second one to let it be seen, from the background.
        terminal = self.start()
        pid = terminal.pid
        terminal.type("C-z")
        terminal.until("the shell", r"(?i)stopped[\s\S]*ready> *$")
        started = time.monotonic()
        terminal.command("kill %1")
        self.gone(started)
        wait_for("gtop itself ended", lambda: not os.path.exists(f"/proc/{pid}"), GONE)
        self.assertEqual(terminal.modes(), self.before)

    def test_a_call_that_cannot_be_killed_does_not_keep_the_probe(self):
        terminal = self.start()
        try:
            self.lab.fault("dstate", self.HUNG, "sleep 1000000")
        except Refused as reason:
            self.skipTest(str(reason))
        self.addCleanup(self.lab.fault, "undstate", self.HUNG)
        terminal.type("q")
        self.gone(time.monotonic(), besides="sleep 1000000")

    def test_json_watch_ends_when_its_reader_does(self):
        command = f"gtop --json --watch --interval 0.2 {' '.join(self.lab.nodes)} | head -2 | wc -l"
        done = self.lab.run("bash", "-c", command)
        self.assertEqual(done.stdout.strip(), "2")
        self.gone(time.monotonic())

    def test_once_leaves_nothing(self):
        self.lab.gtop("--once", "--deadline", "5", *self.lab.nodes)
        self.gone(time.monotonic())

    def start(self):
        """Starts gtop in a terminal and returns it once probes of every kind are at work."""
        terminal = self.lab.terminal((120, 40))
        self.before = terminal.modes()
        terminal.gtop("--interval", "0.05", *self.lab.nodes)
        # A test that fails must not leave a gtop that the next one takes for its own.
        self.addCleanup(terminal.kill, terminal.pid)
        terminal.until("all live", r"4 of 4 nodes")
        for node in (self.HUNG, self.HUNG_SHELL):
            wait_for(f"a hung call on {node}", lambda node=node: "sleep 1000000" in self.lab.left(node).values())
        return terminal

    def fill(self, pid):
        """Stops gtop until windows and pipes are full, and probes wait to write or drop what they have."""
        os.kill(pid, signal.SIGSTOP)
        waiting, began = {}, time.monotonic()

        def is_full():
            waiting.update({node: self.lab.waiting(node) for node in (self.PYTHON, self.SHELL)})
            # The shell probe is slow: on a busy machine it cannot fill a window before the dead-man ends it.
            is_shell_late = time.monotonic() - began > 18
            return waiting[self.PYTHON] > FULL and (waiting[self.SHELL] > FULL or is_shell_late)

        wait_for(lambda: f"full pipes; there wait {waiting} bytes", is_full, 25)
        print(f"{waiting} bytes wait", end=" ... ", flush=True)

    def ends(self, act, is_restored=True):
        terminal = self.start()
        started = time.monotonic()
        act(terminal)
        self.gone(started)
        if not is_restored:
            return
        text = terminal.until("the prompt again", r"ready> *$")
        self.assertNotIn("panicked", text)
        self.assertEqual(terminal.modes(), self.before)

    def gone(self, started, besides=""):
        remaining = {}

        def nothing():
            remaining.clear()
            for node in self.lab.nodes:
                found = [line for line in self.lab.left(node).values() if line != besides]
                if found:
                    remaining[node] = found
            return not remaining

        wait_for(lambda: f"nothing left; there is {remaining}", nothing, GONE - (time.monotonic() - started), pause=0.02)
        print(f"gone after {time.monotonic() - started:.2f} s ... ", end="", flush=True)


if __name__ == "__main__":
    unittest.main()
