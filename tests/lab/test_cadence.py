"""A node that accepts connections and never answers does not delay the fifteen others.

The order of events decides; the figures are printed for information.
"""

import statistics
import unittest

from harness import LabCase

# It measures times: nothing else may run beside it.
ALONE = True

INTERVAL = 0.5
OBSERVATION = 12.0
# Maximum age of a sample: the interval, a tick of publishing, and one sample lost to a busy machine.
MAX_AGE = 2 * INTERVAL + 0.5
# Connect timeout: longer than the first snapshots take, short enough to be observed.
SILENT_TIMEOUT = 6


class Cadence(LabCase):
    NODES, GPUS = 16, 8
    SILENT = "gpu16"

    def test_a_silent_node_does_not_delay_the_others(self):
        others = self.lab.nodes[:-1]
        healthy = self.observe("16 healthy", others)
        self.lab.fault("silent", self.SILENT)
        self.addCleanup(self.lab.fault, "cont", self.SILENT)
        silent = self.observe("15 healthy, 1 silent", others)

        self.assertIsNotNone(silent["fault"], "the silent node's timeout was seen")
        self.assertLess(silent["complete"], silent["fault"], "all fifteen were complete before the sixteenth timed out")
        for node in others:
            message = f"{node} keeps its cadence; {healthy['oldest'][node]:.2f} s without the silent one"
            self.assertLess(silent["oldest"][node], MAX_AGE, message)
        # Over the whole time, beyond the timeout, there are as many snapshots as without the silent node.
        self.assertAlmostEqual(silent["snapshots"], healthy["snapshots"], delta=2)

    def observe(self, label, nodes):
        """Watches for a while; returns when all nodes were complete, and the ages of samples after that."""
        watch = self.lab.watch("--interval", str(INTERVAL), "--connect-timeout", str(SILENT_TIMEOUT), *self.lab.nodes)
        complete = watch.until("all live", lambda snapshot: all(is_complete(snapshot.node(node)) for node in nodes))
        watch.until("a while", lambda snapshot: snapshot.arrived > complete.arrived + OBSERVATION)
        watch.close()
        first = next(s.arrived for s in watch.snapshots if all(is_complete(s.node(node)) for node in nodes))
        window = [s for s in watch.snapshots if first <= s.arrived <= first + OBSERVATION]
        ages = {node: [s.node(node).age("host") for s in window] for node in nodes}
        faults = [s.arrived - watch.started for s in watch.snapshots if s.node(self.SILENT).fault]
        result = {
            "complete": first - watch.started,
            "snapshots": len(window),
            "oldest": {node: max(seen) for node, seen in ages.items()},
            "fault": faults[0] if faults else None,
        }
        all_ages = sorted(age for seen in ages.values() for age in seen)
        print(
            f"\n{label}: complete after {result['complete']:.2f} s; then, in {OBSERVATION:.0f} s, {len(window)} snapshots with samples "
            f"{statistics.mean(all_ages):.2f} s old (95% under {all_ages[len(all_ages) * 95 // 100]:.2f}, "
            f"oldest {all_ages[-1]:.2f}); fault of {self.SILENT} after {result['fault'] and round(result['fault'], 2)} s",
            flush=True,
        )
        return result


def is_complete(node):
    return node.live and len(node.devices) == Cadence.GPUS


if __name__ == "__main__":
    unittest.main()
