"""Unreachable nodes, one per kind of fault, beside a healthy one."""

import os
import re
import subprocess
import unittest

from harness import LabCase


class Reach(LabCase):
    """One gtop monitors all of them: each fault is reported on its node, and only there."""

    NODES, GPUS = 9, 2
    # The fault of each node; gpu01 and gpu09 are healthy.
    REFUSED, SILENT, DROPPED, CHANGED, UNKNOWN, UNKNOWN_TOO, NO_KEY = (f"gpu{number:02}" for number in range(2, 9))
    HEALTHY = ("gpu01", "gpu09")

    @classmethod
    def prepare(cls):
        lab = cls.lab
        lab.fault("reject", cls.REFUSED)
        lab.fault("silent", cls.SILENT)
        lab.fault("drop", cls.DROPPED)
        lab.fault("hostkey", cls.CHANGED)
        lab.forget("reach", cls.UNKNOWN, cls.UNKNOWN_TOO)
        # It offers two methods and accepts no credential of alice.
        lab("sshd", cls.NO_KEY, "PasswordAuthentication yes", "AuthorizedKeysFile none")
        cls.targets = [*lab.nodes, "noroute", "unplugged", "ghost", "gpu01:2222"]
        cls.watch = lab.watch(*cls.targets, home="reach")

    def check_down(self, node, pattern):
        fault = self.watch.until_down(node, pattern)
        self.assertLess(len(fault), 120, "a short reason")
        self.assertTrue(self.watch.latest().node(node).remedy, "and what to do")
        for name in self.HEALTHY:
            self.assertTrue(self.watch.until_live(name).devices, f"{name} is not affected by {node}")

    def test_an_unknown_name_is_not_found(self):
        self.check_down("ghost", r"not found")

    def test_a_closed_port_refuses(self):
        self.check_down(self.REFUSED, r"refused")

    def test_a_port_without_a_listener_refuses(self):
        self.check_down("gpu01:2222", r"refused")

    def test_no_route_is_unreachable(self):
        self.check_down("noroute", r"unreachable|no route")

    def test_an_absent_machine_is_unreachable_or_times_out(self):
        self.check_down("unplugged", r"unreachable|no route|timed out")

    def test_a_silent_port_times_out(self):
        self.check_down(self.SILENT, r"timed out|silent")

    def test_dropped_packets_time_out(self):
        self.check_down(self.DROPPED, r"timed out")

    def test_a_changed_host_key_is_refused(self):
        self.check_down(self.CHANGED, r"host key.*changed|changed.*host key")

    def test_an_unknown_host_key_waits_for_the_user(self):
        self.check_down(self.UNKNOWN, r"host key unknown")
        self.check_down(self.UNKNOWN_TOO, r"host key unknown")

    def test_a_refusal_lists_the_offered_methods(self):
        self.check_down(self.NO_KEY, r"authentication refused.*publickey.*password")

    def test_refusals_and_host_key_faults_are_not_retried(self):
        for node in (self.NO_KEY, self.UNKNOWN, self.CHANGED):
            self.watch.until_down(node, "authentication|host key")
        before = {node: self.connections(node) for node in (self.NO_KEY, self.UNKNOWN, self.CHANGED)}
        # Six more snapshots take long enough for a retry of other faults.
        seen = len(self.watch.snapshots)
        self.watch.until("six more snapshots", lambda _: len(self.watch.snapshots) > seen + 6)
        for node, count in before.items():
            self.assertEqual(self.connections(node), count, node)

    def connections(self, node):
        with open(f"{self.lab.root}/run/lab/nodes/{node}/log", encoding="utf-8") as file:
            return len(re.findall(r"^Connection from", file.read(), re.MULTILINE))

    def test_the_screen_groups_equal_faults_and_counts_only_fresh_nodes(self):
        terminal = self.lab.terminal((160, 50), home="reach")
        terminal.gtop(*self.lab.nodes)
        terminal.until("one line for both nodes", r"gpu\[06-07\].*host key unknown")
        terminal.until("the count", r"2 of 9 nodes")
        terminal.type("q")

    def test_once_ends_when_every_node_has_answered_or_is_down(self):
        done = self.lab.gtop("--once", "--connect-timeout", "3", "--deadline", "20", *self.lab.nodes, home="reach")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("refused", done.stdout + done.stderr)

    def test_once_fails_if_no_node_answers(self):
        done = self.lab.gtop("--once", self.REFUSED, "ghost", home="reach")
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_json_fails_if_no_node_answers_but_reports_the_fault(self):
        done = self.lab.gtop("--json", "ghost", home="reach")
        self.assertEqual(done.returncode, 1)
        self.assertIn("not found", done.stdout)

    def test_a_wrong_argument_is_a_usage_error(self):
        for arguments in (["--interval", "0"], ["--no-such-option"], ["gpu[01-"], ["--hosts-file", "/no/such/file", "gpu01"]):
            with self.subTest(arguments=arguments):
                done = self.lab.gtop("--once", *arguments)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(arguments[-1].rstrip("0"), done.stderr + "gpu01")


class Trust(LabCase):
    NODES, GPUS = 4, 1

    def test_trust_shows_fingerprints_and_stores_keys_after_yes(self):
        self.lab.forget("trust", *self.lab.nodes)
        self.assertEqual(self.lab.snapshot(*self.lab.nodes, home="trust").up(), [])
        terminal = self.lab.terminal((160, 40), home="trust")
        terminal.command("gtop trust gpu[01-03]")
        for node in ("gpu01", "gpu02", "gpu03"):
            terminal.until(f"the fingerprint of {node}", re.escape(self.lab.fingerprint(node)))
        terminal.command("yes")
        terminal.until("the prompt again", r"ready> *$")
        self.assertEqual(self.lab.snapshot(*self.lab.nodes, home="trust").up(), ["gpu01", "gpu02", "gpu03"])
        # ssh accepts the stored keys.
        self.assertEqual(self.lab.run("ssh", "-o", "BatchMode=yes", "gpu02", "hostname", home="trust").stdout, "gpu02\n")

    def test_trust_stores_nothing_after_no(self):
        known_hosts = self.lab.forget("distrust", "gpu04")
        terminal = self.lab.terminal((160, 40), home="distrust")
        terminal.command("gtop trust gpu04")
        terminal.until("the fingerprint", re.escape(self.lab.fingerprint("gpu04")))
        terminal.command("no")
        terminal.until("the prompt again", r"ready> *$")
        with open(known_hosts, encoding="utf-8") as file:
            self.assertNotIn("gpu04", file.read())


class Keys(LabCase):
    NODES, GPUS = 1, 1

    def test_an_encrypted_key_without_a_passphrase_is_reported(self):
        self.make_key("locked", "-N", "secret")
        fault = self.lab.snapshot("gpu01", home="locked").node("gpu01").fault
        self.assertRegex(fault, r"(?i)encrypted|passphrase")

    def test_an_encrypted_key_opens_with_its_passphrase(self):
        self.make_key("unlocked", "-N", "secret")
        terminal = self.lab.terminal((120, 40), home="unlocked")
        terminal.gtop("gpu01")
        terminal.until("the question", r"(?i)passphrase")
        terminal.command("secret")
        terminal.until("live", r"1 of 1 nodes?")
        terminal.type("q")

    def test_an_unauthorised_key_is_refused(self):
        home = self.lab.home("foreign")
        os.remove(f"{home}/.ssh/id_ed25519")
        self.lab.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ".ssh/id_ed25519", home="foreign", stdin="y\n")
        fault = self.lab.snapshot("gpu01", home="foreign").node("gpu01").fault
        self.assertRegex(fault, r"authentication refused.*publickey")

    def make_key(self, home, *options):
        """Changes the passphrase of alice's key in another home, with these options of ssh-keygen."""
        self.lab.home(home)
        done = self.lab.run("ssh-keygen", "-q", "-p", "-P", "", *options, "-f", ".ssh/id_ed25519", home=home)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
