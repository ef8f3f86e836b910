"""The ssh program as the transport: chosen for all nodes, and as the fallback for nodes that need it."""

import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from harness import LabCase, wait_for

# gtop ends its programs within two seconds; a busy machine gets three times that.
GONE = 6.0
# Fields that change between snapshots, or that name the transport.
VOLATILE = re.compile(r"seconds|bytes_per|_percent|free|^(at|load|age|transport|memory_available|pressure|.*_per_second|.*used.*)")


class Program(LabCase):
    NODES, GPUS = 5, 2
    WELL, WELL_TOO, HOSTBASED, PASSWORD, NO_PYTHON = (f"gpu{number:02}" for number in range(1, 6))

    @classmethod
    def prepare(cls):
        lab = cls.lab
        lab("python", cls.NO_PYTHON, "none")
        lab("sshd", cls.PASSWORD, "PubkeyAuthentication no", "PasswordAuthentication yes", "KbdInteractiveAuthentication yes")
        cls.make_hostbased()

    @classmethod
    def make_hostbased(cls):
        """A node with host-based authentication, and a login node whose key it trusts."""
        own, node = f"{cls.lab.root}/etc/ssh", f"{cls.lab.root}/run/lab/nodes/{cls.HOSTBASED}/etc"
        key = f"{own}/ssh_host_ed25519_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "login", "-f", key], check=True)
        with open(f"{own}/ssh_config", "w", encoding="utf-8") as file:
            file.write("EnableSSHKeysign yes\nHostbasedAuthentication yes\n")
        os.makedirs(f"{node}/ssh", exist_ok=True)
        with open(f"{key}.pub", encoding="utf-8") as public, open(f"{node}/ssh/ssh_known_hosts", "w", encoding="utf-8") as file:
            file.write(f"login {public.read()}")
        with open(f"{node}/ssh/shosts.equiv", "w", encoding="utf-8") as file:
            file.write("login\n")
        cls.lab(
            "sshd", cls.HOSTBASED, "PubkeyAuthentication no", "HostbasedAuthentication yes",
            "HostbasedUsesNameFromPacketOnly yes", "IgnoreUserKnownHosts yes",
        )  # fmt: skip

    def test_both_transports_report_the_same(self):
        nodes = (self.WELL, self.NO_PYTHON)
        native = self.lab.snapshot("--transport", "native", *nodes)
        program = self.lab.snapshot("--ssh-binary", *nodes)
        for node in nodes:
            one, other = native.node(node), program.node(node)
            self.assertEqual((one.value["transport"], other.value["transport"]), ("native", "ssh"))
            self.assertEqual(one.devices, other.devices, node)
            self.assertEqual(steady(one.value), steady(other.value), node)
            self.assertTrue(one.devices)

    def test_a_node_that_accepts_only_hostbased_is_reached_by_fallback(self):
        snapshot = self.lab.snapshot(self.WELL, self.HOSTBASED)
        ways = {name: snapshot.node(name).value["transport"] for name in (self.WELL, self.HOSTBASED)}
        self.assertEqual(ways, {self.WELL: "native", self.HOSTBASED: "ssh"})
        self.assertTrue(snapshot.node(self.HOSTBASED).devices)
        native = self.lab.snapshot("--transport", "native", self.HOSTBASED).node(self.HOSTBASED)
        self.assertRegex(native.fault, r"authentication refused.*hostbased")

    def test_the_screen_names_the_transport(self):
        terminal = self.lab.terminal((140, 40))
        terminal.gtop(self.WELL, self.HOSTBASED)
        terminal.until("both nodes", r"2 of 2 nodes")
        self.assertNotIn("ssh program", terminal.text())
        terminal.type("Down")
        terminal.until("how it is reached", r"gpu03.*via ssh ")
        terminal.type("q")

    def test_a_password_is_never_asked_for(self):
        terminal = self.lab.terminal((140, 40))
        terminal.gtop("--ssh", self.WELL, self.PASSWORD)
        text = terminal.until("the refusal", r"authentication refused")
        for _ in range(20):
            self.assertNotRegex(text, r"(?i)password:|'s password|\(yes/no")
            time.sleep(0.05)
            text = terminal.text()
        terminal.until("the other node", r"1 of 2 nodes")
        terminal.type("q")

    def test_an_ssh_that_is_not_there_is_named(self):
        done = self.lab.gtop("--once", "--ssh-binary=/no/such/ssh", self.WELL)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/ssh", done.stdout + done.stderr)

    def test_q(self):
        self.ends(lambda terminal: terminal.type("q"))

    def test_control_c(self):
        self.ends(lambda terminal: terminal.type("C-c"))

    def test_sigterm(self):
        self.ends(lambda terminal: os.kill(terminal.pid, signal.SIGTERM))

    def test_sigkill(self):
        self.ends(lambda terminal: os.kill(terminal.pid, signal.SIGKILL))

    def test_sigkill_while_a_node_is_silent(self):
        # ssh is still waiting for the node: it has nothing to read, and must exit anyway.
        self.lab.fault("silent", self.WELL_TOO)
        self.addCleanup(self.lab.fault, "cont", self.WELL_TOO)
        self.ends(lambda terminal: os.kill(terminal.pid, signal.SIGKILL), live=2)

    def ends(self, act, live=3):
        nodes = (self.WELL, self.WELL_TOO, self.NO_PYTHON)
        terminal = self.lab.terminal((120, 40))
        terminal.gtop("--ssh", *nodes)
        self.addCleanup(terminal.kill, terminal.pid)
        terminal.until("live", rf"{live} of 3 nodes")
        self.assertEqual(len(self.programs()), 3)
        started = time.monotonic()
        act(terminal)
        seen = {}

        def nothing():
            seen.update(login=self.programs(), **{node: self.lab.left(node) for node in nodes})
            return not any(seen.values())

        wait_for(lambda: f"nothing left; there is {seen}", nothing, GONE, pause=0.02)
        print(f"gone after {time.monotonic() - started:.2f} s ... ", end="", flush=True)

    def programs(self):
        """Returns the ssh programs on the login node."""
        found = self.lab.script.processes().items()
        return [pid for pid, (_, _, words) in found if words[:1] == ["ssh"] and self.lab.holds(pid)]


def steady(value):
    """Returns part of a snapshot without the fields that change."""
    if isinstance(value, dict):
        return {key: steady(inner) for key, inner in value.items() if not VOLATILE.search(key)}
    if isinstance(value, list):
        return [steady(inner) for inner in value]
    return value


if __name__ == "__main__":
    assert shutil.which("ssh")
    unittest.main()
