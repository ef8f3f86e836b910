"""The remedies of `gtop doctor` for a refused login, run as printed: real sshd with PAM, and the node comes up."""

import json
import os
import pty
import re
import unittest

from private_node import PASSWORD, PrivateNode, skip_reason

NEW_PASSWORD = "Sorghum+7319"
# A login prompt of the node is never reported if the cause is known.
LOGIN_PROMPT = "KbdInteractiveAuthentication yes"


@unittest.skipIf(skip_reason(), skip_reason())
class Remedies(PrivateNode):
    def test_a_key_that_others_can_read(self):
        self.key()
        self.assert_up("plain")
        for options in "", LOGIN_PROMPT:
            self.sshd(options)
            self.root("chmod 644 /home/here/.ssh/id_ed25519")
            self.apply_remedy("plain", "chmod 600")

    def test_a_key_algorithm_that_the_configuration_excludes(self):
        self.home("PubkeyAcceptedAlgorithms rsa-sha2-512")
        self.key()
        self.sshd(LOGIN_PROMPT)
        self.apply_remedy("plain", "PubkeyAcceptedAlgorithms")

    def test_an_encrypted_key_without_an_agent(self):
        self.key("id_ed25519", "-t", "ed25519", "-N", "sesame", "-a", "1")
        self.sshd(LOGIN_PROMPT)
        for variables in {}, {"SSH_AUTH_SOCK": "/nonexistent"}:
            _, command = self.remedy("plain", "ssh-add", **variables)
        self.assert_up_after(command, **self.askpass("passphrase", "sesame"))
        # If an agent runs, only the key is missing.
        output = self.run_ok("sh", "-ec", "eval $(ssh-agent) >&2; gtop doctor plain || true; ssh-agent -k >&2")
        self.assertRegex(output, r"> .*: ssh-add /home/here/.ssh/id_ed25519\n")

    def assert_up_after(self, command, **variables):
        """Asserts that the node is up after a command that starts an agent; kills the agent."""
        output = self.run_ok("sh", "-ec", f"{{ {command}; }} >&2; gtop --json plain; ssh-agent -k >&2", **variables)
        self.assertEqual(json.loads(output)["nodes"][0]["link"], "up", output)

    def test_an_agent_that_does_not_run(self):
        self.key("kept")
        _, command = self.remedy("plain", "ssh-add", SSH_AUTH_SOCK="/nonexistent")
        self.assert_up_after(command.replace("FILE", "~/.ssh/kept"))

    def test_no_common_algorithm(self):
        self.key()
        self.sshd("KexAlgorithms diffie-hellman-group18-sha512")
        self.apply_remedy("plain", "gtop --transport ssh", by=("--transport", "native"))

    def test_algorithms_that_ssh_has_and_does_not_offer(self):
        self.key()
        for options in ("KexAlgorithms diffie-hellman-group1-sha1", "Ciphers aes128-cbc", "Ciphers aes128-ctr\nMACs hmac-md5"):
            with self.subTest(options):
                self.home("")
                self.sshd(options)
                option = options.rpartition("\n")[2].split()[0]
                self.apply_remedy("plain", f"  {option} +")

    def test_no_key_at_all(self):
        self.sshd("PasswordAuthentication yes")
        self.apply_remedy("plain", "ssh-keygen", "\n\n\n", **self.askpass("password:", PASSWORD))

    def test_a_key_missing_in_authorized_keys(self):
        self.key(authorized=False)
        self.sshd("PasswordAuthentication yes")
        self.apply_remedy("plain", "ssh-copy-id", **self.askpass("password:", PASSWORD))

    def test_a_node_that_accepts_only_keys(self):
        for prepare in (lambda command: self.run_ok("sh", "-ec", command, text="\n\n\n"), lambda _: None):
            text, command = self.remedy("plain", "ask the administrator")
            file, target = re.match(r"ask the administrator to add (\S+) to (\S+) on ", text).groups()
            prepare(command)
            self.root(f"install -d -o ada {os.path.dirname(target)}; cat {file.replace('~/', '~ada/')} >>{target}")
            self.assert_up("plain")
            self.root(f"rm {target}")

    def test_a_key_that_the_node_rejects(self):
        for words, options, break_login in (
            ("not in PubkeyAcceptedAlgorithms", "PubkeyAcceptedAlgorithms rsa-sha2-512", "true"),
            ("bad ownership or modes", "StrictModes yes", "chmod o+w ~ada/.ssh/authorized_keys"),
            ("because shell", "", "usermod -s /bin/nonexistent ada"),
        ):
            with self.subTest(words):
                self.root("rm -f ~ada/.ssh/*")
                self.home("")
                self.key()
                self.sshd(options)
                self.root(break_login)
                self.write("log", "")
                self.apply_remedy("plain", f'if its sshd logs "{words}"')
                self.assertIn(words, self.read("log"))

    def test_a_node_that_accepts_only_passwords(self):
        self.key()
        options = "PubkeyAuthentication no\nPasswordAuthentication yes"
        self.sshd(options)
        self.apply_remedy("plain", "PubkeyAuthentication")
        self.sshd(options)
        self.apply_remedy("plain", "ssh -fNM", **self.askpass("password:", PASSWORD))

    def test_too_many_keys(self):
        for number in range(9):
            self.key(f"key{number}", authorized=number == 8)
        self.home("\n".join(f"IdentityFile ~/.ssh/key{number}" for number in range(9)))
        self.apply_remedy("plain", "IdentitiesOnly", file="~/.ssh/key8")

    def test_an_account_without_a_shell(self):
        self.key()
        self.sshd(LOGIN_PROMPT)
        for shell in "/usr/sbin/nologin", "/bin/false":
            with self.subTest(shell):
                self.root(f"usermod -s {shell} ada")
                self.apply_remedy("plain", "usermod")

    def test_a_host_key_that_is_not_known(self):
        self.key()
        self.root("rm ~ada/.ssh/known_hosts")
        self.apply_remedy("plain", "gtop trust", "yes\n")

    def test_a_host_key_that_is_kept_nowhere(self):
        self.key()
        self.home("UserKnownHostsFile /dev/null")
        self.apply_remedy("plain", "gtop login", **self.askpass("connecting", "yes"))
        self.run_ok("gtop", "login", "--close", "plain")
        self.run_ok("sh", "-c", "sed -i 's|/dev/null|~/.ssh/kept|' ~/.ssh/config")
        self.apply_remedy("plain", "gtop trust", "yes\n")

    def test_a_host_key_that_only_the_ssh_program_can_check(self):
        self.key()
        answers = self.askpass("connecting", "yes")
        for options in ("VerifyHostKeyDNS yes", "KnownHostsCommand /bin/true", "PKCS11Provider /nonexistent.so",
                        "KexAlgorithms sntrup761x25519-sha512@openssh.com"):  # fmt: skip
            for node in "plain", "inner":
                with self.subTest(options=options, node=node):
                    self.home(options)
                    self.root("rm ~ada/.ssh/known_hosts")
                    done = self.run_here("gtop", "trust", node)
                    steps = [line for line in done.stdout.splitlines() if line.startswith("  > ")]
                    self.assertTrue(steps, done.stdout + done.stderr)
                    self.run_ok("sh", "-ec", steps[0].rpartition(": ")[2], **answers)
                    self.assert_up(node)

    def test_a_host_key_that_has_changed(self):
        self.key()
        self.root(f"rm {self.folder}/hostkey && ssh-keygen -q -t ed25519 -N '' -f {self.folder}/hostkey && systemctl reload ssh")
        self.apply_remedy("plain", "gtop trust", "yes\n")

    def test_a_server_that_does_not_run(self):
        self.key()
        self.root("kill $(cat /run/sshd.pid) && while [ -e /run/sshd.pid ]; do sleep 0.1; done")
        self.apply_remedy("plain", "systemctl start sshd")

    def test_a_server_that_allows_no_sessions(self):
        self.key()
        self.sshd("MaxSessions 0")
        self.apply_remedy("plain", "MaxSessions")

    def test_a_gateway_that_forwards_nothing(self):
        self.key()
        self.sshd("AllowTcpForwarding no")
        self.apply_remedy("inner", "AllowTcpForwarding")

    def test_a_node_with_a_nologin_file(self):
        self.key()
        self.sshd(LOGIN_PROMPT)
        self.root("echo Down for repairs >/etc/nologin")
        self.apply_remedy("plain", "nologin")

    def test_an_account_that_has_expired(self):
        self.key()
        self.sshd(LOGIN_PROMPT)
        self.root("chage -E 1 ada")
        self.apply_remedy("plain", "chage")

    def test_a_password_that_has_expired(self):
        self.key()
        self.sshd(LOGIN_PROMPT)
        self.root("chage -d 0 ada")
        _, command = self.remedy("plain", "new password")
        pid, master = pty.fork()
        if pid == 0:
            words = self.command(*command.split())
            os.execvp(words[0], words)
        self.addCleanup(os.close, master)
        seen = b""
        for prompt, answer in ((b"Current password:", PASSWORD), (b"New password:", NEW_PASSWORD), (b"Retype new password:", NEW_PASSWORD)):
            while prompt not in seen:
                seen += os.read(master, 4096)
            seen = b""
            os.write(master, answer.encode() + b"\n")
        try:
            while os.read(master, 4096):
                pass
        except OSError:
            pass  # the terminal is gone with its last user
        os.waitpid(pid, 0)
        self.assert_up("plain")


if __name__ == "__main__":
    unittest.main()
