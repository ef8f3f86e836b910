"""Ages are correct: a shown value is the one the node had at the time given by its age, within a second."""

import re
import threading
import time
import unittest

from harness import LabCase

# Tolerance of ages, in seconds.
TOLERANCE = 1.0
# The sampling interval, in seconds.
INTERVAL = 0.5


class Freshness(LabCase):
    NODES, GPUS = 5, 1
    HEALTHY, CUT_OFF, SLOW, STUCK, STOPPED = (f"gpu{number:02}" for number in range(1, 6))

    @classmethod
    def prepare(cls):
        cls.clocks = [ChangingValue(cls.lab, node) for node in cls.lab.nodes]
        for clock in cls.clocks:
            cls.addClassCleanup(clock.close)
        cls.watch = cls.lab.watch("--interval", str(INTERVAL), *cls.lab.nodes)
        for node in cls.lab.nodes:
            cls.watch.until(f"{node} live", lambda snapshot, node=node: snapshot.node(node).devices)

    def test_ages_of_a_healthy_node(self):
        self.check_values(self.HEALTHY, 8)

    def test_a_backlog_after_a_stall_does_not_look_new(self):
        self.check_values(self.CUT_OFF, 3)
        self.lab.fault("partition", self.CUT_OFF)
        self.check_values(self.CUT_OFF, 12)
        self.assertGreater(self.watch.latest().node(self.CUT_OFF).age("host"), 8)
        self.lab.fault("heal", self.CUT_OFF)
        self.check_values(self.CUT_OFF, 15)

    def test_a_backlog_on_a_slow_link_does_not_look_new(self):
        self.lab.fault("slow", self.SLOW, "6kbit")
        self.check_values(self.SLOW, 15)
        self.lab.fault("fast", self.SLOW)
        self.check_values(self.SLOW, 10)

    def test_a_stuck_backend_ages_while_its_host_is_fresh(self):
        self.check_values(self.STUCK, 3)
        injected = self.inject("smi", self.STUCK, "hang")
        self.check_values(self.STUCK, 10)
        node, arrived = self.watch.latest().node(self.STUCK), self.watch.latest().arrived
        self.assertLess(node.age("host"), 2 * INTERVAL + TOLERANCE)
        self.check_age(injected, arrived, node.age("nvidia-smi"), 2 * INTERVAL + 1)
        self.lab("smi", self.STUCK, "stub")

    def test_a_stopped_probe_ages(self):
        self.check_values(self.STOPPED, 3)
        injected = self.inject("fault", "freeze", self.STOPPED, "alice")
        self.check_values(self.STOPPED, 10)
        node, arrived = self.watch.latest().node(self.STOPPED), self.watch.latest().arrived
        self.check_age(injected, arrived, node.age("host"), 2 * INTERVAL)
        self.lab.fault("thaw", self.STOPPED, "alice")
        self.check_values(self.STOPPED, 8)

    def test_the_screen_shows_the_same_age(self):
        terminal = self.lab.terminal((140, 30))
        terminal.gtop(self.HEALTHY)
        terminal.until("live", r"1 of 1 nodes?")
        self.lab.fault("partition", self.HEALTHY)
        began = time.time()
        try:
            for _ in range(3):
                shown = int(re.search(r"stale (\d+)s", terminal.until("stale", r"stale \d+s"))[1])
                self.assertAlmostEqual(shown, time.time() - began, delta=TOLERANCE + 1.5)
                terminal.until("older", rf"stale (?!{shown}s)\d+s")
        finally:
            self.lab.fault("heal", self.HEALTHY)
        terminal.type("q")

    def inject(self, *words):
        """Injects a fault; returns the times before and after, because that can take a while."""
        before = time.time()
        self.lab(*words)
        return before, time.time()

    def check_age(self, injected, arrived, age, slack):
        """Checks that the last sample is from before the fault, by at most `slack`."""
        before, after = injected
        self.assertGreaterEqual(age, arrived - after - TOLERANCE)
        self.assertLessEqual(age, arrived - before + TOLERANCE + slack)

    def check_values(self, name, seconds):
        """For a while, compares each value of a node with the one it had at the time given by its age."""
        clock = next(clock for clock in self.clocks if clock.node == name)
        start = len(self.watch.snapshots)
        end = time.time() + seconds
        self.watch.until("a while", lambda snapshot: snapshot.arrived > end, seconds + 30)
        for snapshot in self.watch.snapshots[start:]:
            node = snapshot.node(name)
            if not node.devices or node.age("nvidia-smi") is None:
                continue
            value, taken = node.devices[0]["utilization_percent"], snapshot.arrived - node.age("nvidia-smi")
            if value is None:
                continue  # shown as unknown
            self.assertIn(
                value,
                clock.values(taken - TOLERANCE, taken + TOLERANCE),
                f"{name} at {snapshot.arrived:.2f}, age {node.age('nvidia-smi')}: the value is from another time",
            )


class ChangingValue:
    """Changes the utilization of a node every two seconds, and records each value with its time."""

    def __init__(self, lab, node):
        self.lab, self.node, self.history, self.stop = lab, node, [], threading.Event()
        self.state = lab.gpu_file(node)
        self.tick(0)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        step = 0
        while not self.stop.wait(2):
            step += 1
            self.tick(step)

    def tick(self, step):
        value = step % 100
        self.lab.set_gpus(self.node, re.sub(r"\butil=\d+", f"util={value}", self.state))
        self.history.append((time.time(), value))

    def values(self, start, end):
        """Returns the values that were current between two times."""
        found = []
        for number, (since, value) in enumerate(self.history):
            until = self.history[number + 1][0] if number + 1 < len(self.history) else float("inf")
            if until >= start and since <= end:
                found.append(value)
        return found

    def close(self):
        self.stop.set()
        self.thread.join()


if __name__ == "__main__":
    unittest.main()
