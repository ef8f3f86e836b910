"""Lost sessions that reconnect and slow links, beside one healthy node."""

import time
import unittest

from harness import LabCase

# Maximum time to reconnect: backoff starts at one second and doubles, and a connect may have to time out first.
RECONNECT_TIMEOUT = 60


class Sessions(LabCase):
    NODES, GPUS = 8, 2
    CUT, REBOOTED, CRASHED, RESTARTED, LOSSY, SLOW, STOPPED = (f"gpu{number:02}" for number in range(2, 9))

    @classmethod
    def prepare(cls):
        cls.watch = cls.lab.watch("--interval", "0.5", *cls.lab.nodes)
        for node in cls.lab.nodes:
            cls.watch.until_live(node)

    def tearDown(self):
        well = self.watch.latest().node("gpu01")
        self.assertTrue(well.up)
        self.assertLess(well.age("host"), 3, "the healthy node is not affected")

    def wait_until_back(self, node):
        self.watch.until(f"{node} is back", lambda snapshot: fresh(snapshot.node(node)), RECONNECT_TIMEOUT)

    def devices(self, node, since):
        """Waits until the node has reported its devices after a point in time, and returns their ids."""

        def has_reported(snapshot):
            age = snapshot.node(node).age("nvidia-smi")
            return age is not None and snapshot.arrived - age > since

        seen = self.watch.until(f"{node} reported its devices", has_reported, RECONNECT_TIMEOUT)
        return [device["uuid"] for device in seen.node(node).devices]

    def test_a_session_that_was_cut_is_reopened(self):
        before = len(self.watch.snapshots)
        self.lab.fault("cut", self.CUT)
        self.watch.until_down(self.CUT, r"session|lost|ended|closed", after=before)
        self.wait_until_back(self.CUT)

    def test_a_rebooted_node_comes_back_as_the_same_node(self):
        before = self.devices(self.REBOOTED, since=0)
        self.assertEqual(len(before), self.GPUS)
        self.lab.fault("reboot", self.REBOOTED)
        self.assertEqual(self.devices(self.REBOOTED, since=time.time()), before)
        self.assertEqual(len([node for node in self.watch.latest().value["nodes"] if node["name"] == self.REBOOTED]), 1)

    def test_a_crashed_node_is_down_until_it_boots(self):
        self.lab.fault("crash", self.CRASHED)
        # No peer resets the connection: only the timeout detects the crash; the age shows it earlier.
        self.watch.until(
            "stale", lambda snapshot: not snapshot.node(self.CRASHED).up or snapshot.node(self.CRASHED).age("host") > 4
        )
        self.lab.fault("boot", self.CRASHED)
        self.wait_until_back(self.CRASHED)

    def test_a_restarted_sshd(self):
        self.lab.run("sh", "-c", "kill $(cat /run/lab/nodes/%s/sshd.pid)" % self.RESTARTED, user="root", node=self.RESTARTED)
        self.lab.fault("cut", self.RESTARTED)
        self.watch.until_down(self.RESTARTED, r"refused")
        directory = f"/run/lab/nodes/{self.RESTARTED}"
        self.lab.run("/usr/sbin/sshd", "-f", f"{directory}/sshd_config", "-E", f"{directory}/log", user="root", node=self.RESTARTED)
        self.wait_until_back(self.RESTARTED)

    def test_a_lossy_link_delays_but_loses_no_data(self):
        self.lab.fault("loss", self.LOSSY, 20)
        self.addCleanup(self.lab.fault, "clear", self.LOSSY)
        seen = len(self.watch.snapshots)
        self.watch.until("going on", lambda _: len(self.watch.snapshots) > seen + 10)
        self.assertTrue(self.watch.latest().node(self.LOSSY).up)

    def test_a_slow_link_stays_up(self):
        self.lab.fault("slow", self.SLOW, "40kbit")
        self.addCleanup(self.lab.fault, "fast", self.SLOW)
        seen = len(self.watch.snapshots)
        self.watch.until("going on", lambda _: len(self.watch.snapshots) > seen + 20)
        self.assertTrue(self.watch.latest().node(self.SLOW).up)

    def test_a_stopped_sshd_goes_stale_and_comes_back(self):
        self.lab.fault("stop", self.STOPPED)
        self.watch.until("stale", lambda snapshot: (snapshot.node(self.STOPPED).age("host") or 9) > 4)
        self.lab.fault("cont", self.STOPPED)
        self.wait_until_back(self.STOPPED)


def fresh(node):
    return node.live and node.age("host") < 2


if __name__ == "__main__":
    unittest.main()
