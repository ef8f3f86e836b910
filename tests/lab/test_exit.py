"""However gtop exits, nothing of it remains on any node, and the terminal is restored."""

import os
import signal
import time
import unittest

from harness import LabCase, Unsupported, wait_for

# Probes must fill their pipes before their heartbeat timeout ends them, which takes an otherwise idle machine.
ALONE = True

# The limit is two seconds, and the time taken is printed. A busy machine, such as one that runs four labs
# at once, gets three times that.
EXIT_TIMEOUT = 6.0
# A pipe holds 64 KiB, but only whole frames are written.
FULL_PIPE = 48 << 10


class Exit(LabCase):
    """Each test ends probes of four kinds at once."""

    NODES, GPUS = 4, 8
    PYTHON, SHELL, HUNG, HUNG_SHELL = (f"gpu{number:02}" for number in range(1, 5))

    @classmethod
    def prepare(cls):
        for node in (cls.SHELL, cls.HUNG_SHELL):
            cls.lab("python", node, "none")
        for node in (cls.HUNG, cls.HUNG_SHELL):
            cls.lab("smi", node, "hang")
        # The samples of the other two are so large that the windows of a stopped reader fill up before the
        # probe's heartbeat timeout.
        for node in (cls.PYTHON, cls.SHELL):
            uses = "".join(f"proc {line % cls.GPUS} {100000 + line} 100\n" for line in range(1000))
            cls.lab.set_gpus(node, cls.lab.gpu_file(node) + uses)

    def test_q(self):
        self.check_exit(lambda terminal: terminal.type("q"))

    def test_control_c(self):
        self.check_exit(lambda terminal: terminal.type("C-c"))

    def test_sigint(self):
        self.check_exit(lambda terminal: os.kill(terminal.pid, signal.SIGINT))

    def test_sigterm(self):
        self.check_exit(lambda terminal: os.kill(terminal.pid, signal.SIGTERM))

    def test_sighup(self):
        self.check_exit(lambda terminal: os.kill(terminal.pid, signal.SIGHUP))

    def test_sigkill(self):
        # Nothing can restore the terminal then; the nodes must be clean anyway.
        self.check_exit(lambda terminal: os.kill(terminal.pid, signal.SIGKILL), is_restored=False)

    def test_closing_the_window(self):
        self.check_exit(lambda terminal: terminal.tmux("kill-server"), is_restored=False)

    def test_sigkill_while_probes_cannot_write(self):
        terminal = self.start()
        self.fill_pipes(terminal.pid)
        started = time.monotonic()
        os.kill(terminal.pid, signal.SIGKILL)
        self.check_nothing_left(started)

    def test_sigterm_after_probes_could_not_write(self):
        terminal = self.start()
        pid = terminal.pid
        self.fill_pipes(pid)
        started = time.monotonic()
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)
        self.check_nothing_left(started)

    def test_a_suspended_gtop_can_be_terminated(self):
        # As shells do at logout: a signal to a stopped job, then SIGCONT so that it is delivered.
        terminal = self.start()
        pid = terminal.pid
        terminal.type("C-z")
        terminal.until("the shell", r"(?i)stopped[\s\S]*ready> *$")
        started = time.monotonic()
        terminal.command("kill %1")
        self.check_nothing_left(started)
        wait_for("gtop itself ended", lambda: not os.path.exists(f"/proc/{pid}"), EXIT_TIMEOUT)
        self.assertEqual(terminal.modes(), self.before)

    def test_an_unkillable_call_does_not_keep_the_probe_alive(self):
        terminal = self.start()
        try:
            self.lab.fault("dstate", self.HUNG, "sleep 1000000")
        except Unsupported as reason:
            self.skipTest(str(reason))
        self.addCleanup(self.lab.fault, "undstate", self.HUNG)
        terminal.type("q")
        self.check_nothing_left(time.monotonic(), ignored="sleep 1000000")

    def test_json_watch_exits_when_its_reader_does(self):
        command = f"gtop --json --watch --interval 0.2 {' '.join(self.lab.nodes)} | head -2 | wc -l"
        done = self.lab.run("bash", "-c", command)
        self.assertEqual(done.stdout.strip(), "2")
        self.check_nothing_left(time.monotonic())

    def test_once_leaves_nothing(self):
        self.lab.gtop("--once", "--deadline", "5", *self.lab.nodes)
        self.check_nothing_left(time.monotonic())

    def start(self):
        """Starts gtop in a terminal and returns it once all four kinds of probes run."""
        terminal = self.lab.terminal((120, 40))
        self.before = terminal.modes()
        terminal.gtop("--interval", "0.05", *self.lab.nodes)
        # A failed test must not leave a gtop that the next test mistakes for its own.
        self.addCleanup(terminal.kill, terminal.pid)
        terminal.until("all live", r"4 of 4 nodes")
        for node in (self.HUNG, self.HUNG_SHELL):
            wait_for(f"a hung call on {node}", lambda node=node: "sleep 1000000" in self.lab.leftovers(node).values())
        return terminal

    def fill_pipes(self, pid):
        """Stops gtop until windows and pipes are full, and probes block in writes or drop samples."""
        os.kill(pid, signal.SIGSTOP)
        waiting, began = {}, time.monotonic()

        def is_full():
            waiting.update({node: self.lab.bytes_in_pipe(node) for node in (self.PYTHON, self.SHELL)})
            # The shell probe is slow: on a busy machine it cannot fill a window before its heartbeat timeout.
            is_shell_late = time.monotonic() - began > 18
            return waiting[self.PYTHON] > FULL_PIPE and (waiting[self.SHELL] > FULL_PIPE or is_shell_late)

        wait_for(lambda: f"full pipes; bytes in pipes: {waiting}", is_full, 25)
        print(f"bytes in pipes: {waiting}", end=" ... ", flush=True)

    def check_exit(self, act, is_restored=True):
        terminal = self.start()
        started = time.monotonic()
        act(terminal)
        self.check_nothing_left(started)
        if not is_restored:
            return
        text = terminal.until("the prompt again", r"ready> *$")
        self.assertNotIn("panicked", text)
        self.assertEqual(terminal.modes(), self.before)

    def check_nothing_left(self, started, ignored=""):
        remaining = {}

        def nothing():
            remaining.clear()
            for node in self.lab.nodes:
                found = [line for line in self.lab.leftovers(node).values() if line != ignored]
                if found:
                    remaining[node] = found
            return not remaining

        wait_for(lambda: f"nothing left; there is {remaining}", nothing, EXIT_TIMEOUT - (time.monotonic() - started), pause=0.02)
        print(f"gone after {time.monotonic() - started:.2f} s ... ", end="", flush=True)


if __name__ == "__main__":
    unittest.main()
