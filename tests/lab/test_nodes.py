"""Nodes without Python, without nvidia-smi or with a failing one: host values arrive, the rest has a reason."""

import os
import re
import unittest

from harness import LabCase

# What nvidia-smi prints on stdout when it fails with these codes, and what gtop must say about it.
FAILURES = {
    9: (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        "Make sure that the latest NVIDIA driver is installed and running.",
        r"driver",
    ),
    12: ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", r"librar|libnvidia-ml"),
    15: (
        "Unable to determine the device handle for GPU0000:18:00.0: GPU is lost.  Reboot the system to recover this GPU",
        r"lost",
    ),
    18: ("Failed to initialize NVML: Driver/library version mismatch", r"mismatch"),
}


class Nodes(LabCase):
    NODES, GPUS = 12, 2
    NO_PYTHON, PYTHON2, NO_SMI, HUNG, FLOOD, HUNG_SH, NO_PYTHON_NO_SMI = (f"gpu{number:02}" for number in range(2, 9))

    @classmethod
    def prepare(cls):
        lab = cls.lab
        lab("python", cls.NO_PYTHON, "none")
        lab("python", cls.HUNG_SH, "none")
        lab("python", cls.NO_PYTHON_NO_SMI, "none")
        if os.environ.get("GTOP_PYTHON2"):
            lab("python", cls.PYTHON2, "2")
        for node in (cls.NO_SMI, cls.NO_PYTHON_NO_SMI):
            lab("smi", node, "none")
        for node in (cls.HUNG, cls.HUNG_SH):
            lab("smi", node, "hang")
        lab("smi", cls.FLOOD, "flood")
        cls.failing = dict(zip(FAILURES, lab.nodes[8:]))
        for code, node in cls.failing.items():
            lab("smi", node, "fail", code, FAILURES[code][0])
        cls.watch = lab.watch(*lab.nodes)

    def check_reason(self, node, pattern):
        """Checks that the node is up, its host is fresh, and a source or device gives the reason."""
        self.watch.until(
            f"{node} reports {pattern}",
            lambda snapshot: snapshot.node(node).live and re.search(pattern, snapshot.node(node).problems, re.IGNORECASE),
        )
        self.check_stays_fresh(node)

    def check_stays_fresh(self, node):
        before = len(self.watch.snapshots)
        self.watch.until("time passes", lambda _: len(self.watch.snapshots) > before + 4)
        self.assertLess(self.watch.latest().node(node).age("host"), 3)

    def test_without_python_the_shell_probe_reports_the_same(self):
        self.check_devices(self.NO_PYTHON)

    def test_the_doctor_recommends_python_until_it_is_installed(self):
        node = self.NO_PYTHON_NO_SMI
        report = self.lab.run("gtop", "doctor", node).stdout
        self.assertRegex(report, r"(?s)note +interpreter .*> .*install Python 3\.6 or newer\n.*needs python3.*> install Python 3\.6 or newer on the node")
        self.lab("python", node, "3")
        self.addCleanup(self.lab, "python", node, "none")
        report = self.lab.run("gtop", "doctor", node).stdout
        self.assertRegex(report, r"ok +interpreter .*python3")
        self.assertNotIn("needs python3", report)

    @unittest.skipUnless(os.environ.get("GTOP_PYTHON2"), "no Python 2.7 on this machine (GTOP_PYTHON2)")
    def test_python_2_alone_uses_the_shell_probe(self):
        self.check_devices(self.PYTHON2)

    def check_devices(self, name):
        node = self.watch.until(f"devices of {name}", lambda snapshot: len(snapshot.node(name).devices) == 2).node(name)
        self.assertRegex(node.host["probe"], "^sh ")
        for device, gpu in zip(node.devices, self.lab.gpu_values(name)):
            self.assertEqual((device["uuid"], device["utilization_percent"]), (gpu["uuid"], int(gpu["util"])))

    def test_a_node_without_nvidia_smi_is_up_and_has_no_devices(self):
        for name in (self.NO_SMI, self.NO_PYTHON_NO_SMI):
            with self.subTest(name):
                node = self.watch.until_live(name)
                self.assertEqual(node.devices, [])

    def test_a_failing_nvidia_smi_is_reported_with_its_own_message(self):
        for code, (_, pattern) in FAILURES.items():
            with self.subTest(code=code):
                self.check_reason(self.failing[code], pattern)

    def test_a_hung_nvidia_smi_is_reported_while_the_host_stays_fresh(self):
        for name in (self.HUNG, self.HUNG_SH):
            with self.subTest(name):
                self.check_reason(name, r"starting|slow|stuck|waiting|no answer")

    def test_megabytes_from_nvidia_smi_are_ignored(self):
        node = self.watch.until_live(self.FLOOD)
        self.assertEqual(node.devices, [])
        self.check_stays_fresh(self.FLOOD)

    def test_a_healthy_node_is_not_affected(self):
        node = self.watch.until_live("gpu01")
        self.assertEqual(len(node.devices), 2)
        self.assertRegex(node.host["probe"], "^python 3")
        self.assertEqual(node.fault, "")

    def test_hung_calls_do_not_pile_up(self):
        for name in (self.HUNG, self.HUNG_SH):
            with self.subTest(name):
                self.check_reason(name, r"starting|slow|stuck|waiting|no answer")
                lines = list(self.lab.leftovers(name).values())
                self.assertLessEqual(lines.count("sleep 1000000"), 1, lines)
                self.assertLessEqual(len(lines), 16, lines)


if __name__ == "__main__":
    unittest.main()
