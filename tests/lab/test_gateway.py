"""Many nodes behind one gateway (`ProxyJump`): one shared session, also after failures."""

import re
import unittest

from harness import LabCase, wait_for

# This many nodes keep a small machine busy.
ALONE = True

GATEWAY = "gpu01"
# On a small machine, sixty-four nodes take this long to reconnect.
RECONNECT_TIMEOUT = 90
# Seconds between samples; long, because only the connections are tested.
INTERVAL = 5


class Gateway(LabCase):
    NODES, GPUS = 65, 1

    @classmethod
    def prepare(cls):
        lab = cls.lab
        # The defaults of sshd; the nodes behind the gateway must not count against either.
        lab("sshd", GATEWAY, "MaxSessions 10", "MaxStartups 10:30:100")
        home = lab.home("gateway")
        with open(f"{home}/.ssh/config", "w", encoding="utf-8") as file:
            file.write(f"Host gpu* !{GATEWAY}\n  ProxyJump {GATEWAY}\n")
        cls.behind = [node for node in lab.nodes if node != GATEWAY]
        cls.watch = lab.watch("--interval", str(INTERVAL), *cls.behind, home="gateway")
        cls.all_live()

    @classmethod
    def all_live(cls, deadline=RECONNECT_TIMEOUT):
        cls.watch.until(
            "all nodes are live", lambda snapshot: all(fresh(snapshot.node(node)) for node in cls.behind), deadline
        )

    def sessions(self):
        return len(re.findall(r"Accepted publickey", self.log(GATEWAY)))

    def log(self, node):
        with open(f"{self.lab.root}/run/lab/nodes/{node}/log", encoding="utf-8") as file:
            return file.read()

    def cut(self):
        """Ends the sessions with the gateway; its sshd stays."""
        self.lab.run("pkill", "-KILL", "-u", "alice", "-f", "^sshd: alice", user="root", node=GATEWAY)

    def test_1_all_nodes_share_one_session(self):
        self.assertEqual(self.sessions(), 1)
        address = self.lab.script.address(GATEWAY)
        for node in self.behind:
            self.assertEqual(set(re.findall(r"Accepted publickey for alice from (\S+)", self.log(node))), {address}, node)

    def test_2_a_dropped_session_is_opened_once_for_all(self):
        before = self.sessions()
        self.cut()
        # It may be over before the next snapshot.
        wait_for("another session", lambda: self.sessions() > before)
        self.all_live()
        self.assertEqual(self.sessions(), before + 1)

    def test_3_a_gateway_that_is_down_is_named_and_retried_with_backoff(self):
        self.lab.fault("reject", GATEWAY)
        self.cut()
        faults = {self.watch.until_down(node, r"refused.*via gpu01") for node in self.behind}
        self.assertEqual(len(faults), 1, "one fault for all")
        self.lab.fault("clear", GATEWAY)
        self.all_live()

    def test_4_no_session_is_left_on_the_gateway(self):
        self.watch.close()
        left = self.lab.run("pgrep", "-u", "alice", "-a", node=GATEWAY).stdout
        self.assertEqual(left, "")


def fresh(node):
    return node.live and node.age("host") < 3 * INTERVAL


if __name__ == "__main__":
    unittest.main()
