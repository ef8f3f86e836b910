"""The ssh program as the transport: chosen for all nodes, and as the fallback for nodes that need it."""

import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from harness import LabCase, wait_for

# gtop terminates its ssh processes within two seconds; a busy machine gets three times that.
EXIT_TIMEOUT = 6.0
# Fields that change between snapshots, or that name the transport.
VOLATILE = re.compile(r"seconds|bytes_per|_percent|free|^(at|load|age|transport|memory_(available|cached|buffers)|pressure|.*_per_second|.*used.*)")


class SshProgram(LabCase):
    NODES, GPUS = 5, 2
    HEALTHY, HEALTHY_TOO, HOSTBASED, PASSWORD, NO_PYTHON = (f"gpu{number:02}" for number in range(1, 6))

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
        nodes = (self.HEALTHY, self.NO_PYTHON)
        native = self.lab.snapshot("--transport", "native", *nodes)
        program = self.lab.snapshot("--ssh-binary", *nodes)
        for node in nodes:
            one, other = native.node(node), program.node(node)
            self.assertEqual((one.value["transport"], other.value["transport"]), ("native", "ssh"))
            self.assertEqual(one.devices, other.devices, node)
            self.assertEqual(without_volatile(one.value), without_volatile(other.value), node)
            self.assertTrue(one.devices)

    def test_a_node_that_accepts_only_hostbased_is_reached_by_fallback(self):
        snapshot = self.lab.snapshot(self.HEALTHY, self.HOSTBASED)
        transports = {name: snapshot.node(name).value["transport"] for name in (self.HEALTHY, self.HOSTBASED)}
        self.assertEqual(transports, {self.HEALTHY: "native", self.HOSTBASED: "ssh"})
        self.assertTrue(snapshot.node(self.HOSTBASED).devices)
        native = self.lab.snapshot("--transport", "native", self.HOSTBASED).node(self.HOSTBASED)
        self.assertRegex(native.fault, r"authentication refused.*hostbased")

    def test_the_screen_names_the_transport(self):
        terminal = self.lab.terminal((140, 40))
        terminal.gtop(self.HEALTHY, self.HOSTBASED)
        terminal.until("both nodes", r"2 of 2 nodes")
        self.assertNotIn("ssh program", terminal.text())
        terminal.type("Down")
        terminal.until("the transport", r"gpu03.*via ssh ")
        terminal.type("q")

    def test_ssh_never_prompts_for_a_password(self):
        terminal = self.lab.terminal((140, 40))
        terminal.gtop("--ssh", self.HEALTHY, self.PASSWORD)
        text = terminal.until("the refusal", r"authentication refused")
        for _ in range(20):
            self.assertNotRegex(text, r"(?i)password:|'s password|\(yes/no")
            time.sleep(0.05)
            text = terminal.text()
        terminal.until("the other node", r"1 of 2 nodes")
        terminal.type("q")

    def test_a_missing_ssh_program_is_named(self):
        done = self.lab.gtop("--once", "--ssh-binary=/no/such/ssh", self.HEALTHY)
        self.assertEqual(done.returncode, 1)
        self.assertIn("/no/such/ssh", done.stdout + done.stderr)

    def test_q(self):
        self.check_exit(lambda terminal: terminal.type("q"))

    def test_control_c(self):
        self.check_exit(lambda terminal: terminal.type("C-c"))

    def test_sigterm(self):
        self.check_exit(lambda terminal: os.kill(terminal.pid, signal.SIGTERM))

    def test_sigkill(self):
        self.check_exit(lambda terminal: os.kill(terminal.pid, signal.SIGKILL))

    def test_sigkill_while_a_node_is_silent(self):
        # ssh is still waiting for the node: it has nothing to read, and must exit anyway.
        self.lab.fault("silent", self.HEALTHY_TOO)
        self.addCleanup(self.lab.fault, "cont", self.HEALTHY_TOO)
        self.check_exit(lambda terminal: os.kill(terminal.pid, signal.SIGKILL), live=2)

    def check_exit(self, act, live=3):
        nodes = (self.HEALTHY, self.HEALTHY_TOO, self.NO_PYTHON)
        terminal = self.lab.terminal((120, 40))
        terminal.gtop("--ssh", *nodes)
        self.addCleanup(terminal.kill, terminal.pid)
        terminal.until("live", rf"{live} of 3 nodes")
        self.assertEqual(len(self.programs()), 3)
        started = time.monotonic()
        act(terminal)
        seen = {}

        def nothing():
            seen.update(login=self.programs(), **{node: self.lab.leftovers(node) for node in nodes})
            return not any(seen.values())

        wait_for(lambda: f"nothing left; there is {seen}", nothing, EXIT_TIMEOUT, pause=0.02)
        print(f"gone after {time.monotonic() - started:.2f} s ... ", end="", flush=True)

    def programs(self):
        """Returns the ssh programs on the login node."""
        found = self.lab.script.processes().items()
        return [pid for pid, (_, _, words) in found if words[:1] == ["ssh"] and self.lab.contains(pid)]


def without_volatile(value):
    """Returns part of a snapshot without the fields that change."""
    if isinstance(value, dict):
        return {key: without_volatile(inner) for key, inner in value.items() if not VOLATILE.search(key)}
    if isinstance(value, list):
        return [without_volatile(inner) for inner in value]
    return value


if __name__ == "__main__":
    assert shutil.which("ssh")
    unittest.main()
