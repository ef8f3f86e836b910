"""Without a network, or while gtop is suspended, probes exit by themselves and are restarted afterwards."""

import os
import signal
import time
import unittest

from harness import LabCase, wait_for

# Maximum lifetime of a probe without heartbeats, in seconds.
EXIT_TIMEOUT = 35.0


class Loss(LabCase):
    """One test for all cases, because the heartbeat timeout takes half a minute."""

    NODES, GPUS = 10, 4
    CUT_OFF = {"python": "gpu01", "sh": "gpu02", "python, hung nvidia-smi": "gpu03", "sh, hung nvidia-smi": "gpu04"}
    SUSPENDED = {"python": "gpu05", "sh": "gpu06", "python, hung nvidia-smi": "gpu07"}
    # No packet about gtop's exit reaches the first; on the others it waits behind a backlog and may be
    # rejected, because its sequence number is out of the window.
    KILLED, STALLED = "gpu08", {"python": "gpu09", "sh": "gpu10"}

    @classmethod
    def prepare(cls):
        for node in ("gpu02", "gpu04", "gpu06", "gpu10"):
            cls.lab("python", node, "none")
        for node in ("gpu03", "gpu04", "gpu07"):
            cls.lab("smi", node, "hang")

    def test_probes_exit_within_35_seconds_and_are_restarted(self):
        lost = self.lab.watch("--interval", "0.5", *self.CUT_OFF.values())
        killed = self.lab.watch("--interval", "0.05", self.KILLED, *self.STALLED.values())
        terminal = self.lab.terminal((120, 40))
        before = terminal.modes()
        terminal.gtop(*self.SUSPENDED.values())
        terminal.until("all live", r"3 of 3 nodes")
        suspended = terminal.pid
        for watch in (lost, killed):
            for node in watch.nodes:
                watch.until_live(node)
                wait_for(f"a probe on {node}", lambda node=node: self.lab.leftovers(node))
        for node in self.STALLED.values():
            self.lab.fault("slow", node, "2kbit")
        killed.until("stale", lambda snapshot: all(snapshot.node(node).age("host") > 4 for node in self.STALLED.values()))

        started = time.monotonic()
        for node in (*self.CUT_OFF.values(), self.KILLED):
            self.lab.fault("partition", node)
        os.kill(killed.pid, signal.SIGKILL)
        terminal.type("C-z")
        terminal.until("the shell, gtop stopped", r"(?i)stopped[\s\S]*ready> *$")
        self.assertEqual(terminal.modes(), before)

        waiting = {**{node: f"cut off, {what}" for what, node in self.CUT_OFF.items()}, self.KILLED: "cut off and killed"}
        waiting.update({node: f"stalled and killed, {what}" for what, node in self.STALLED.items()})
        waiting.update({node: f"suspended, {what}" for what, node in self.SUSPENDED.items()})

        def all_gone():
            for node in [node for node in waiting if not self.lab.leftovers(node)]:
                print(f"\n{waiting.pop(node)}: gone after {time.monotonic() - started:.1f} s", end="", flush=True)
            return not waiting

        wait_for(lambda: f"gone: {({what: self.lab.leftovers(node) for node, what in waiting.items()})}", all_gone, EXIT_TIMEOUT, pause=0.1)

        for node in self.CUT_OFF.values():
            self.lab.fault("heal", node)
        for node in self.CUT_OFF.values():
            lost.until(f"{node} is back", lambda snapshot, node=node: fresh(snapshot.node(node)), 90)
        self.lab.fault("heal", self.KILLED)

        terminal.command("fg")
        terminal.until("live again", r"3 of 3 nodes", 90)
        self.assertEqual(terminal.pid, suspended)
        terminal.type("q")
        terminal.until("the prompt again", r"ready> *$")
        self.assertEqual(terminal.modes(), before)


def fresh(node):
    return node.live and node.age("host") < 2


if __name__ == "__main__":
    unittest.main()
