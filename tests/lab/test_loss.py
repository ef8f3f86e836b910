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

    NODES, GPUS = 9, 4
    CUT_OFF = {"python": "gpu01", "sh": "gpu02", "python, hung nvidia-smi": "gpu03", "sh, hung nvidia-smi": "gpu04", "full pipe": "gpu05"}
    SUSPENDED = {"python": "gpu06", "sh": "gpu07", "python, hung nvidia-smi": "gpu08"}
    KILLED = "gpu09"

    @classmethod
    def prepare(cls):
        for node in ("gpu02", "gpu04", "gpu07"):
            cls.lab("python", node, "none")
        for node in ("gpu03", "gpu04", "gpu08"):
            cls.lab("smi", node, "hang")
        cls.lab.run("sh", "-c", "echo 4096 4096 8192 >/proc/sys/net/ipv4/tcp_wmem", user="root", node="gpu05")

    def test_probes_end_within_35_seconds_and_return(self):
        lost = self.lab.watch("--interval", "0.05", *self.CUT_OFF.values())
        killed = self.lab.watch("--interval", "0.5", self.KILLED)
        terminal = self.lab.terminal((120, 40))
        before = terminal.modes()
        terminal.gtop(*self.SUSPENDED.values())
        terminal.until("all live", r"3 of 3 nodes")
        suspended = terminal.pid
        for node in (*self.CUT_OFF.values(), self.KILLED):
            (killed if node == self.KILLED else lost).until_live(node)
            wait_for(f"a probe on {node}", lambda node=node: self.lab.left(node))

        started = time.monotonic()
        for node in (*self.CUT_OFF.values(), self.KILLED):
            self.lab.fault("partition", node)
        # The one that cannot even say goodbye: no packet of its end reaches the node.
        os.kill(killed.pid, signal.SIGKILL)
        terminal.type("C-z")
        terminal.until("the shell, gtop stopped", r"(?i)stopped[\s\S]*ready> *$")
        self.assertEqual(terminal.modes(), before)

        waiting = {**{node: f"cut off, {what}" for what, node in self.CUT_OFF.items()}, self.KILLED: "cut off and killed"}
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
    return node.up and node.age("host") is not None and node.age("host") < 2


if __name__ == "__main__":
    unittest.main()
