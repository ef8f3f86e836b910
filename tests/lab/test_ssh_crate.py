"""The crate gtop-ssh on its own: its example against the sshd of the lab, beside the real ssh."""

import os
import shutil
import subprocess
import unittest

from harness import HERE, LabCase

TOP = os.path.dirname(os.path.dirname(HERE))
GATEWAY, BEHIND, UNKNOWN = "gpu01", "gpu02", "gpu03"
CONFIG = f"""
Include more
Host {BEHIND} behind
  ProxyJump {GATEWAY}
Host killed
  HostName {GATEWAY}
  HostKeyAlias {GATEWAY}
Match originalhost matched
  HostName {GATEWAY}
"""
# In another file, with a token.
MORE = """
Host behind
  HostName gpu02
  HostKeyAlias gpu02
  IdentityFile %d/.ssh/id_ed25519
"""


def build():
    """Updates the example and returns its path."""
    subprocess.run(["cargo", "build", "--quiet", "--workspace", "--example", "run"], cwd=TOP, check=True)
    return os.path.join(TOP, os.environ.get("CARGO_TARGET_DIR", "target"), "debug", "examples", "run")


class SshCrate(LabCase):
    NODES, GPUS = 3, 1

    @classmethod
    def prepare(cls):
        home = cls.lab.home("crate")
        shutil.copy(os.environ.get("GTOP_SSH_RUN") or build(), f"{home}/run")
        for name, text in (("config", CONFIG), ("more", MORE)):
            with open(f"{home}/.ssh/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        cls.lab.forget("crate", UNKNOWN)

    def ran(self, program, *arguments):
        done = self.lab.run(program, *arguments, home="crate")
        return done.returncode, done.stdout, done.stderr

    def as_ssh(self, *arguments):
        """Runs a command with the example and with ssh, and returns what both give."""
        example, ssh = self.ran("./run", *arguments), self.ran("ssh", "-n", "-o", "BatchMode=yes", *arguments)
        self.assertEqual(example, ssh)
        return example

    def accepted(self, node):
        """Returns from where alice was let in to a node, last first."""
        with open(f"{self.lab.root}/run/lab/nodes/{node}/log", encoding="utf-8") as file:
            return [line.split()[-6] for line in file if "Accepted publickey for alice" in line][::-1]

    def test_output_and_status_are_those_of_ssh(self):
        result = self.as_ssh(GATEWAY, "echo out; echo err >&2; hostname; exit 7")
        self.assertEqual(result, (7, f"out\n{GATEWAY}\n", "err\n"))

    def test_words_are_joined_and_a_user_is_taken(self):
        self.assertEqual(self.as_ssh(f"alice@{GATEWAY}", "echo", "$((1 +", "1))", "$USER"), (0, "2 alice\n", ""))

    def test_a_matched_host_has_its_own_name(self):
        self.assertEqual(self.as_ssh("matched", "hostname"), (0, f"{GATEWAY}\n", ""))

    def test_a_host_behind_a_gateway_is_reached_through_it(self):
        self.assertEqual(self.as_ssh(BEHIND, "hostname"), (0, f"{BEHIND}\n", ""))
        self.assertEqual(self.as_ssh("behind", "hostname"), (0, f"{BEHIND}\n", ""))
        gateway = self.lab.script.address(GATEWAY)
        self.assertEqual(self.accepted(BEHIND), [gateway] * 4)

    def test_much_output_arrives_whole(self):
        status, printed, _ = self.as_ssh(GATEWAY, "seq 200000")
        self.assertEqual((status, printed.count("\n")), (0, 200000))

    def test_a_command_that_is_killed_is_an_error(self):
        status, _, error = self.ran("./run", "killed", "kill -KILL $$")
        self.assertEqual((status, error), (255, "killed: the command was killed by signal KILL\n"))

    def test_an_unknown_host_is_refused_and_its_key_is_named(self):
        status, printed, error = self.ran("./run", UNKNOWN, "hostname")
        self.assertEqual((status, printed), (255, ""))
        self.assertIn(f"{UNKNOWN}: host key of {UNKNOWN} unknown", error)
        self.assertIn(self.lab.fingerprint(UNKNOWN), error)
        self.assertEqual(self.accepted(UNKNOWN), [])

    def test_what_is_wrong_is_said_in_one_line(self):
        for arguments, expected in (
            ((), "usage: run"),
            ((GATEWAY,), "usage: run"),
            (("no such host", "true"), "host name 'no such host' cannot be used"),
            (("nowhere.invalid", "true"), "not found"),
            ((f"nobody@{GATEWAY}", "true"), "nobody"),
        ):
            status, printed, error = self.ran("./run", *arguments)
            self.assertEqual((status, printed, error.count("\n")), (255, "", 1), error)
            self.assertIn(expected, error)


if __name__ == "__main__":
    unittest.main()
