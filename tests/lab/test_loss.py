"""When the network goes away, or gtop is suspended, the probes end by themselves, and come back with it."""

import os
import signal
import time
import unittest

from harness import LabCase, wait_for

# The promise, in seconds.
GONE = 35.0


class Loss(LabCase):
    """One wait for all: the dead-man takes half a minute."""

    NODES, GPUS = 10, 4
    CUT_OFF = {"python": "gpu01", "sh": "gpu02", "python, hung nvidia-smi": "gpu03", "sh, hung nvidia-smi": "gpu04"}
    SUSPENDED = {"python": "gpu05", "sh": "gpu06", "python, hung nvidia-smi": "gpu07"}
    # No packet of gtop's end reaches the first; on the second the end waits behind a backlog, and may
    # never be believed: what answers the old packets has an old number.
    KILLED, STALLED = "gpu08", {"python": "gpu09", "sh": "gpu10"}

    @classmethod
    def prepare(cls):
        for node in ("gpu02", "gpu04", "gpu06", "gpu10"):
            cls.lab("python", node, "none")
        for node in ("gpu03", "gpu04", "gpu07"):
            cls.lab("smi", node, "hang")

    def test_probes_end_within_35_seconds_and_return(self):
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
                wait_for(f"a probe on {node}", lambda node=node: self.lab.left(node))
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
            for node in [node for node in waiting if not self.lab.left(node)]:
                print(f"\n{waiting.pop(node)}: gone after {time.monotonic() - started:.1f} s", end="", flush=True)
            return not waiting

        wait_for(lambda: f"gone: {({what: self.lab.left(node) for node, what in waiting.items()})}", all_gone, GONE, pause=0.1)

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
