"""One node that accepts and never answers changes nothing for the fifteen others.

The order of events decides; the figures are printed for the closing note of whoever asks.
"""

import statistics
import unittest

from harness import LabCase

# Its figures are about time: nothing else runs beside it.
ALONE = True

INTERVAL = 0.5
LOOK = 12.0
# Long enough that its firing cannot be mixed up with the first pictures, short enough to be seen.
SILENCE = 6


class Cadence(LabCase):
    NODES, GPUS = 16, 8
    SILENT = "gpu16"

    def test_a_silent_node_delays_nobody(self):
        others = self.lab.nodes[:-1]
        healthy = self.look("16 healthy", others)
        self.lab.fault("silent", self.SILENT)
        self.addCleanup(self.lab.fault, "cont", self.SILENT)
        silent = self.look("15 healthy, 1 silent", others)

        self.assertIsNotNone(silent["fault"], "the silent node's timeout was seen")
        self.assertLess(silent["complete"], silent["fault"], "all fifteen had told everything before the sixteenth timed out")
        for node in others:
            self.assertAlmostEqual(silent["samples"][node], healthy["samples"][node], delta=2, msg=f"samples of {node}")
        self.assertLessEqual(silent["spread"], 2, "no node of the fifteen is behind the others")

    def look(self, what, nodes):
        """Watches for a while; returns when the picture was complete, and how many samples each node sent."""
        watch = self.lab.watch("--interval", str(INTERVAL), "--connect-timeout", str(SILENCE), *self.lab.nodes)
        complete = watch.until("all live", lambda snapshot: all(live(snapshot.node(node)) for node in nodes))
        watch.until("a while", lambda snapshot: snapshot.arrived > complete.arrived + LOOK)
        watch.close()
        first = next(s.arrived for s in watch.snapshots if all(live(s.node(node)) for node in nodes)) - watch.started
        window = [s for s in watch.snapshots if first <= s.arrived - watch.started <= first + LOOK]
        samples = {node: count_samples(window, node) for node in nodes}
        faults = [s.arrived - watch.started for s in watch.snapshots if s.node(self.SILENT).fault]
        result = {
            "complete": first,
            "samples": samples,
            "spread": max(samples.values()) - min(samples.values()),
            "fault": faults[0] if faults else None,
        }
        print(
            f"\n{what}: complete after {first:.2f} s, in {LOOK:.0f} s {min(samples.values())} to {max(samples.values())} samples "
            f"a node (mean {statistics.mean(samples.values()):.1f}), fault of {self.SILENT} after {result['fault']} s",
            flush=True,
        )
        return result


def live(node):
    return node.live and len(node.devices) == Cadence.GPUS


def count_samples(snapshots, node):
    """Counts the distinct times of the host's samples: a sample's time is the picture's minus its age."""
    times = sorted(s.arrived - s.node(node).age("host") for s in snapshots)
    return 1 + sum(later - earlier > INTERVAL / 2 for earlier, later in zip(times, times[1:]))


if __name__ == "__main__":
    unittest.main()
