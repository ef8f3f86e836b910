"""Eight healthy nodes: gtop shows exactly the values of the nodes."""

import re
import unittest

from harness import DEVICE_VALUES, LabCase


class Live(LabCase):
    NODES, GPUS = 8, 4

    @classmethod
    def prepare(cls):
        # On each node alice trains on the first two devices and bob on the third.
        cls.trainers = {}
        for number, node in enumerate(cls.lab.nodes):
            alice, bob = int(cls.lab("train", node, "alice")), int(cls.lab("train", node, "bob"))
            uses = [(0, alice, 500 + number), (1, alice, 600 + number), (2, bob, 700 + number)]
            cls.lab.set_gpus(node, cls.lab.gpu_file(node) + "".join(f"proc {gpu} {pid} {mib} 50\n" for gpu, pid, mib in uses))
            cls.trainers[node] = [(gpu, pid, mib, "alice" if pid == alice else "bob") for gpu, pid, mib in uses]

    def test_each_json_value_equals_that_of_the_node(self):
        snapshot = self.lab.snapshot(*self.lab.nodes)
        self.assertEqual(snapshot.up(), self.lab.nodes)
        for name in self.lab.nodes:
            with self.subTest(node=name):
                self.check_devices(snapshot.node(name))
                self.check_processes(snapshot.node(name), self.trainers[name])
                self.check_host(snapshot.node(name))
        self.assertEqual(snapshot.value["totals"]["fresh"], 8)
        self.assertEqual(snapshot.value["totals"]["known"], 8)

    def check_devices(self, node):
        expected = self.lab.gpu_values(node.name)
        self.assertEqual([device["uuid"] for device in node.devices], [gpu["uuid"] for gpu in expected])
        for device, gpu in zip(node.devices, expected):
            for key, expected_value in DEVICE_VALUES.items():
                value, message = expected_value(gpu), f"{key} of device {device['index']}"
                if isinstance(value, float):
                    self.assertAlmostEqual(device[key], value, places=2, msg=message)
                else:
                    self.assertEqual(device[key], value, message)

    def check_processes(self, node, trainers):
        seen = sorted(
            (device["index"], process["pid"], process["memory_used_bytes"], process["user"])
            for device in node.devices
            for process in device["processes"]
        )
        self.assertEqual(seen, sorted((gpu, pid, mib << 20, user) for gpu, pid, mib, user in trainers))
        for device in node.devices:
            for process in device["processes"]:
                self.assertIn("train.py --tp 8", process["command"])

    def check_host(self, node):
        self.assertGreaterEqual(node.age("host"), 0)
        self.assertLess(node.age("host"), 3)
        with open("/proc/meminfo", encoding="utf-8") as file:
            total = int(re.search(r"MemTotal: *(\d+)", file.read())[1]) << 10
        self.assertEqual(node.host["memory_total_bytes"], total)

    def test_once_prints_the_same_as_text(self):
        done = self.lab.gtop("--once", *self.lab.nodes)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\x1b", done.stdout)
        for name in self.lab.nodes:
            with self.subTest(node=name):
                self.assertRegex(done.stdout, name)
        shares = [int(device["util"]) for device in self.lab.gpu_values("gpu05")]
        self.assertRegex(done.stdout, rf"gpu05 .* {sum(shares) / len(shares):.0f} ")

    def test_piped_output_is_a_table(self):
        done = self.lab.gtop("gpu01")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("gpu01", done.stdout)

    def test_the_screen_shows_all_nodes_live_in_each_size(self):
        for size in ((80, 24), (120, 40), (200, 50)):
            with self.subTest(size=size):
                terminal = self.lab.terminal(size)
                terminal.gtop("gpu[01-08]")
                terminal.until("all nodes fresh", r"8 of 8 nodes")
                text = terminal.text()
                for name in self.lab.nodes:
                    self.assertIn(name, text)
                self.assertLessEqual(max(map(len, text.splitlines())), size[0])
                terminal.type("q")
                terminal.until("the prompt again", r"ready> *$")

    def test_the_screen_shows_a_change_on_a_node(self):
        terminal = self.lab.terminal((120, 40))
        terminal.gtop("gpu08")
        terminal.until("live", r"1 of 1 nodes?")
        state = self.lab.gpu_file("gpu08")
        self.lab.set_gpus("gpu08", re.sub(r"\btemp=\d+", "temp=93", state))
        try:
            terminal.until("the new temperature", r"\b93\b")
        finally:
            self.lab.set_gpus("gpu08", state)
        terminal.type("q")

    def test_any_terminal_size_works(self):
        terminal = self.lab.terminal((100, 30))
        terminal.gtop("gpu[01-03]")
        terminal.until("live", r"3 of 3 nodes")
        # tmux cannot make a window of one column and one row; the smallest it makes are 2x2.
        for size in ((2, 2), (10, 3), (500, 200), (40, 10), (80, 24)):
            terminal.resize(*size)
        terminal.until("drawn anew", r"3 of 3 nodes")
        terminal.type("q")
        text = terminal.until("the prompt again", r"ready> *$")
        self.assertNotIn("panicked", text)

    def test_two_gtops_do_not_disturb_each_other(self):
        first, second = self.lab.watch("gpu01"), self.lab.watch("gpu01", "gpu02")
        first.until_live("gpu01")
        second.until_live("gpu02")
        second.close()
        before = len(first.snapshots)
        first.until("going on", lambda _: len(first.snapshots) > before + 2)
        self.assertTrue(first.latest().node("gpu01").up)


if __name__ == "__main__":
    unittest.main()
