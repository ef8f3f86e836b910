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
# A sample is this old at most: the interval, a tick of publishing, and one sample lost to a busy machine.
LATE = 2 * INTERVAL + 0.5
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
            message = f"{node} keeps its cadence; {healthy['oldest'][node]:.2f} s without the silent one"
            self.assertLess(silent["oldest"][node], LATE, message)
        # From the first moment to well after the timeout: as much is seen as without the silent one.
        self.assertAlmostEqual(silent["pictures"], healthy["pictures"], delta=2)

    def look(self, what, nodes):
        """Watches for a while; returns when the picture was complete, and how old the samples got after that."""
        watch = self.lab.watch("--interval", str(INTERVAL), "--connect-timeout", str(SILENCE), *self.lab.nodes)
        complete = watch.until("all live", lambda snapshot: all(live(snapshot.node(node)) for node in nodes))
        watch.until("a while", lambda snapshot: snapshot.arrived > complete.arrived + LOOK)
        watch.close()
        first = next(s.arrived for s in watch.snapshots if all(live(s.node(node)) for node in nodes))
        window = [s for s in watch.snapshots if first <= s.arrived <= first + LOOK]
        ages = {node: [s.node(node).age("host") for s in window] for node in nodes}
        faults = [s.arrived - watch.started for s in watch.snapshots if s.node(self.SILENT).fault]
        result = {
            "complete": first - watch.started,
            "pictures": len(window),
            "oldest": {node: max(seen) for node, seen in ages.items()},
            "fault": faults[0] if faults else None,
        }
        everything = sorted(age for seen in ages.values() for age in seen)
        print(
            f"\n{what}: complete after {result['complete']:.2f} s; then, in {LOOK:.0f} s, {len(window)} pictures with samples "
            f"{statistics.mean(everything):.2f} s old (95% under {everything[len(everything) * 95 // 100]:.2f}, "
            f"oldest {everything[-1]:.2f}); fault of {self.SILENT} after {result['fault'] and round(result['fault'], 2)} s",
            flush=True,
        )
        return result


def live(node):
    return node.live and len(node.devices) == Cadence.GPUS


if __name__ == "__main__":
    unittest.main()
