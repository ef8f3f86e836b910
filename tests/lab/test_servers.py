"""Kinds of servers: gtop is up exactly where `ssh` is, and says what to do where it is not.

What ssh does is the truth: without questions, and with a program that answers them (`gtop login`). Servers are OpenSSH,
Dropbear and TinySSH, directly and behind a gateway.
"""

import json
import shutil
import unittest

from private_node import PASSWORD, PORT, PrivateNode, skip_reason

OLD = 'HostKeyAlgorithms ssh-rsa\nHostKey {folder}/rsa'
# Of OpenSSH, by what its configuration adds.
OPENSSH = {
    "as it comes": "",
    "another key exchange": "KexAlgorithms ecdh-sha2-nistp521",
    "hybrid key exchange alone": "KexAlgorithms sntrup761x25519-sha512@openssh.com",
    "group exchange alone": "KexAlgorithms diffie-hellman-group-exchange-sha256",
    "group exchange with SHA-1": "KexAlgorithms diffie-hellman-group-exchange-sha1",
    "group 14 with SHA-1": "KexAlgorithms diffie-hellman-group14-sha1",
    "group 1 with SHA-1": "KexAlgorithms diffie-hellman-group1-sha1",
    "group 18": "KexAlgorithms diffie-hellman-group18-sha512",
    "CBC": "Ciphers aes128-cbc",
    "triple DES": "Ciphers 3des-cbc",
    "CTR with HMAC-SHA1": "Ciphers aes128-ctr\nMACs hmac-sha1",
    "UMAC": "Ciphers aes128-ctr\nMACs umac-64@openssh.com",
    "MD5": "Ciphers aes256-ctr\nMACs hmac-md5",
    "GCM": "Ciphers aes256-gcm@openssh.com",
    "ChaCha": "Ciphers chacha20-poly1305@openssh.com",
    "an RSA host key": "HostKeyAlgorithms rsa-sha2-512\nHostKey {folder}/rsa",
    "an RSA host key with SHA-1": OLD,
    "an old server": OLD + "\nKexAlgorithms diffie-hellman-group1-sha1\nCiphers 3des-cbc\nMACs hmac-sha1",
    "delayed compression": "Compression delayed",
    "a long banner": "Banner /etc/services",
    "a version of its own": "VersionAddendum of the site",
    "passwords alone": "AuthenticationMethods password\nPasswordAuthentication yes",
    "questions alone": "AuthenticationMethods keyboard-interactive\nKbdInteractiveAuthentication yes",
    "a key and a password": "AuthenticationMethods publickey,password\nPasswordAuthentication yes",
    "a key and a question": "AuthenticationMethods publickey,keyboard-interactive\nKbdInteractiveAuthentication yes",
    "a key or a password": "PasswordAuthentication yes",
    "two keys": "AuthenticationMethods publickey,publickey",
    "its hosts alone": "AuthenticationMethods hostbased\nHostbasedAuthentication yes",
    "no sessions": "MaxSessions 0",
    "no logins of this user": "DenyUsers ada",
    "a command of its own": "ForceCommand echo this is a gateway",
    "no SHA-2 signatures": "PubkeyAcceptedAlgorithms ssh-rsa",
    "a limit of keys": "MaxAuthTries 1",
    "no terminals": "PermitTTY no",
    "a folder of its own": "AuthorizedKeysFile .ssh/authorized_keys .ssh/others",
}
# What has happened on the node: what root runs there before, and after.
STATES = {
    "nologin": ("echo Down for repairs >/etc/nologin", "rm /etc/nologin"),
    "an expired account": ("chage -E 1 ada", "chage -E -1 ada"),
    "an expired password": ("chage -d 0 ada", "chage -d 20000 ada"),
    "no login shell": ("usermod -s /usr/sbin/nologin ada", "usermod -s /bin/sh ada"),
    "a restricted shell": ("usermod -s /bin/rbash ada", "usermod -s /bin/sh ada"),
    "keys that others may write": ("chmod o+w ~ada/.ssh/authorized_keys", "chmod go-w ~ada/.ssh/authorized_keys"),
}
# What must be printed where another remedy would be false.
SAID = {"two keys": "a second key", "its hosts alone": "HostbasedAuthentication", "an expired password": "ssh -t plain"}
# Where ssh gets no answer without questions, gtop login may help.
ASKS = {"passwords alone", "questions alone", "a key and a password", "a key and a question"}


@unittest.skipIf(skip_reason(), skip_reason())
class Servers(PrivateNode):
    ADDRESS = "127.0.89.4"

    def setUp(self):
        super().setUp()
        self.key()
        for name in "rsa", "other":
            self.write(name, "")
        self.root(f"rm {self.folder}/rsa && ssh-keygen -q -t rsa -b 3072 -N '' -f {self.folder}/rsa")
        known = "".join(f"[{self.ADDRESS}]:{port} {self.read(key)}" for port in range(PORT, PORT + 3) for key in ("hostkey.pub", "rsa.pub"))
        self.write_as_user("/home/here/.ssh/known_hosts", known)
        self.table = []

    def ssh(self, node, **variables):
        """Returns whether ssh runs a command there."""
        batch = "no" if variables else "yes"
        # A node may also run something else than what was asked for.
        done = self.run_here("ssh", "-o", f"BatchMode={batch}", "-o", "ConnectTimeout=30", node, "/bin/sh -c 'echo up'", **variables)
        return done.stdout == "up\n"

    def gtop(self, node):
        """Returns whether gtop is up there."""
        return json.loads(self.run_here("gtop", "--json", node).stdout)["nodes"][0]["link"] == "up"

    def check(self, kind, node="plain"):
        """Compares gtop with ssh; where ssh does not get in, the doctor says what to do."""
        by_ssh, by_gtop = self.ssh(node), self.gtop(node)
        advice = [] if by_gtop else [": ".join(part for part in remedy if part) for remedy in self.remedies(node)]
        self.table.append((kind, node, by_ssh, by_gtop, (advice or ["-"])[0]))
        self.assertEqual(by_gtop, by_ssh, f"{kind}, {node}: {advice}")
        self.assertTrue(by_gtop or any(SAID.get(kind, "") in step for step in advice), f"{kind}: {advice}")

    def tearDown(self):
        for kind, node, by_ssh, by_gtop, advice in self.table:
            print(f"{kind:32} {node:6} ssh {'up' if by_ssh else '-':3} gtop {'up' if by_gtop else '-':3} {advice[:110]!r}")

    def test_openssh_in_many_configurations(self):
        answers = self.askpass("assword:", PASSWORD)
        for kind, options in OPENSSH.items():
            with self.subTest(kind):
                self.sshd(options.format(folder=self.folder))
                self.check(kind)
                if kind in ASKS:
                    self.assertTrue(self.ssh("plain", **answers), kind)
                    self.run_ok("gtop", "login", "plain", **answers)
                    self.assertTrue(self.gtop("plain"), kind)
                    self.run_ok("gtop", "login", "--close", "plain")

    def test_a_gateway_in_many_configurations(self):
        # The node is reached through another server of the same configuration.
        for kind in ("as it comes", "group exchange alone", "group 1 with SHA-1", "CBC", "an RSA host key with SHA-1",
                     "passwords alone", "two keys", "no sessions", "no logins of this user"):  # fmt: skip
            with self.subTest(kind):
                self.sshd(OPENSSH[kind].format(folder=self.folder))
                self.check(kind, "inner")

    def test_what_has_happened_on_the_node(self):
        for kind, (before, after) in STATES.items():
            with self.subTest(kind):
                strict = "StrictModes yes" if "others" in kind else ""
                self.sshd(strict)
                self.root(before)
                self.check(kind)
                self.root(after)

    def test_dropbear(self):
        if not shutil.which("dropbear", path="/usr/sbin:/usr/bin"):
            self.skipTest("dropbear is not installed")
        port = PORT + 1
        self.root(f"dropbearkey -t ed25519 -f {self.folder}/dropbear >/dev/null")
        public = self.root(f"dropbearkey -y -f {self.folder}/dropbear | grep ^ssh-").strip()
        self.write_as_user("/home/here/.ssh/known_hosts", f"[{self.ADDRESS}]:{port} {public}\n")
        self.write_as_user("/home/here/.ssh/config", f"HostName {self.ADDRESS}\nPort {port}\nUser ada\n")
        for kind, options, prepare in (("Dropbear", "-s", "true"), ("Dropbear without the key", "", "rm ~/.ssh/authorized_keys")):
            with self.subTest(kind):
                self.run_ok("sh", "-c", prepare)
                self.root(f"dropbear -E -p {self.ADDRESS}:{port} -r {self.folder}/dropbear -P /run/dropbear.pid {options} </dev/null >/dev/null 2>&1")
                self.check(kind)
                self.root("kill $(cat /run/dropbear.pid) && while [ -e /run/dropbear.pid ]; do sleep 0.1; done")

    def test_tinyssh(self):
        if not shutil.which("tinysshd", path="/usr/sbin:/usr/bin") or not shutil.which("tcpserver"):
            self.skipTest("tinysshd or tcpserver is not installed")
        port = PORT + 2
        self.root(f"tinysshd-makekey {self.folder}/tiny")
        self.root(f"tcpserver -HRDl0 {self.ADDRESS} {port} tinysshd {self.folder}/tiny </dev/null >/dev/null 2>&1 &")
        scanned = self.run_ok("sh", "-ec", f"for i in 1 2 3 4 5 6 7 8 9; do ssh-keyscan -p {port} {self.ADDRESS} 2>/dev/null | grep . && exit; sleep 0.3; done")
        self.write_as_user("/home/here/.ssh/known_hosts", scanned)
        self.write_as_user("/home/here/.ssh/config", f"HostName {self.ADDRESS}\nPort {port}\nUser ada\n")
        self.check("TinySSH")


if __name__ == "__main__":
    unittest.main()
