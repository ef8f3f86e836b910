"""A node with real accounts, PAM and sshd, and the home of a person who logs in there.

Servers and clients run in their own namespaces, with a copy of /etc and their own homes: this machine is not
changed. A stub of systemctl knows only the sshd of the node, under its name on Debian and Ubuntu.
"""


import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import wait_for

PASSWORD = "barley-4242"

# PAM as Debian's sshd has it, without what needs a whole machine.
PAM = """\
auth required pam_unix.so
account required pam_nologin.so
account required pam_unix.so
password required pam_unix.so
session required pam_unix.so
"""

SSHD_CONFIG = """\
{options}
ListenAddress {address}:{port}
HostKey {folder}/hostkey
PidFile /run/sshd.pid
StrictModes no
UsePAM yes
KbdInteractiveAuthentication no
PasswordAuthentication no
LogLevel VERBOSE
"""
PORT = 23200

SYSTEMCTL = """\
#!/bin/sh
listens() {{ grep -c 'Server listening' {folder}/log; }}
before=$(listens)
case $* in
"start ssh") {folder}/gtop-test-sshd -D -e -f /etc/ssh/sshd_config </dev/null >/dev/null 2>>{folder}/log & ;;
"reload ssh") kill -HUP "$(cat /run/sshd.pid)" ;;
*) exit 1 ;;
esac
until [ "$(listens)" -gt "$before" ]; do sleep 0.1; done
"""

# Prepares the server's files, in its own mount and PID namespace.
SCRIPT = """\
set -e
mount -t tmpfs tmpfs /mnt
cp -a /etc /mnt/etc
mkdir /mnt/home
mount --bind /mnt/etc /etc
mount --bind /mnt/home /home
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd
cp {folder}/pam /etc/pam.d/gtop-test-sshd
rm -f /etc/nologin
useradd -m -s /bin/sh ada
echo ada:{password} | chpasswd
touch {folder}/ready
exec sleep infinity
"""


def skip_reason():
    """Returns why these tests cannot run here, or None."""
    if os.geteuid() != 0:
        return "only root can create test users"
    if subprocess.run(["unshare", "-m", "-p", "-f", "true"], check=False, capture_output=True).returncode != 0:
        return "no namespaces can be made"
    return None


class PrivateNode(unittest.TestCase):
    """A node with an account, and a person who logs in there, for one test."""

    # Files of tests run at once, on one loopback.
    ADDRESS = "127.0.89.2"

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gtop-remedies.")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        # Where its user can run it.
        self.program = shutil.copy(os.environ["GTOP"], f"{self.folder}/gtop")
        self.write("pam", PAM)
        self.write("log", "")
        self.write("systemctl", SYSTEMCTL.format(folder=self.folder), 0o755)
        os.symlink("/usr/sbin/sshd", f"{self.folder}/gtop-test-sshd")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.folder}/hostkey"], check=True)
        script = SCRIPT.format(folder=self.folder, password=PASSWORD)
        self.servers = subprocess.Popen(
            ["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "--propagation", "private", "sh", "-c", script]
        )
        self.addCleanup(self.servers.wait)
        self.addCleanup(self.servers.send_signal, signal.SIGKILL)
        wait_for("the user", lambda: os.path.exists(f"{self.folder}/ready"))
        children = f"/proc/{self.servers.pid}/task/{self.servers.pid}/children"
        with open(children, encoding="utf-8") as file:
            self.inside = file.read().split()[0]
        self.home("")
        self.sshd("", "start")

    def sshd(self, options, verb="reload"):
        """Changes the configuration of the node's sshd."""
        text = SSHD_CONFIG.format(folder=self.folder, address=self.ADDRESS, port=PORT, options=options)
        self.root(f"cat >/etc/ssh/sshd_config && systemctl {verb} ssh", text)

    def home(self, options):
        """Creates the local user's home with an ssh_config for the node and for another one behind it."""
        self.root("install -d -m 700 -o ada -g ada /home/here && chown ada: /home/here && install -d -m 700 -o ada -g ada /home/here/.ssh")
        self.write_as_user("/home/here/.ssh/config", f"HostName {self.ADDRESS}\nPort {PORT}\nUser ada\n{options}\nHost inner\n  ProxyJump plain\n")
        self.write_as_user("/home/here/.ssh/known_hosts", f"[{self.ADDRESS}]:{PORT} {self.read('hostkey.pub')}")
        # The programs of OpenSSH take the home of the user database.
        self.root("usermod -d /home/here ada")

    def write_as_user(self, path, text):
        self.root(f"cat >{path} && chown ada: {path}", text)

    def key(self, name="id_ed25519", *words, authorized=True):
        words = words or ("-t", "ed25519", "-N", "")
        self.run_ok("ssh-keygen", "-q", "-f", f"/home/here/.ssh/{name}", *words)
        if authorized:
            self.run_ok("sh", "-c", f"cat /home/here/.ssh/{name}.pub >>/home/here/.ssh/authorized_keys")

    def write(self, name, text, mode=0o644):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{self.folder}/{name}", mode)

    def read(self, name):
        try:
            with open(f"{self.folder}/{name}", encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def root(self, line, text=""):
        """Runs a shell line as root on the nodes."""
        command = ["nsenter", "-t", self.inside, "-m", "-p", "env", f"PATH={self.folder}:{os.environ['PATH']}", "sh", "-ec", line]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, f"{line}: {done.stdout}{done.stderr}")
        return done.stdout

    def command(self, *words, **variables):
        variables = {"HOME": "/home/here", "USER": "ada", "PATH": f"{self.folder}:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8", **variables}
        return [
            "nsenter", "-t", self.inside, "-m", "-p", "setpriv", "--reuid", "ada", "--regid", "ada", "--clear-groups",
            "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *words,
        ]  # fmt: skip

    def run_here(self, *words, text="", **variables):
        """Runs a command as the local user, without a terminal."""
        return subprocess.run(self.command(*words, **variables), input=text, capture_output=True, text=True, timeout=60, check=False, start_new_session=True)

    def run_ok(self, *words, text="", **variables):
        done = self.run_here(*words, text=text, **variables)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def remedies(self, node, by=(), **variables):
        """Returns the remedies of gtop doctor for a node that is not up, each as [description, literal text]."""
        done = self.run_here("gtop", *by, "doctor", node, **variables)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        remedies, margin = [], None
        for line in done.stdout.splitlines():
            if found := re.match("( +)> (.*)$", line):
                margin = found[1]
                how, _, literal = (found[2][:-1], "", "") if found[2].endswith(":") else found[2].rpartition(": ")
                remedies.append([how or literal, literal])
            elif margin and line.startswith(margin + " " * 6):
                remedies[-1][1] += line[len(margin) + 6 :] + "\n"
        return remedies

    def remedy(self, node, words, **variables):
        """Returns the only remedy that contains this text."""
        remedies = self.remedies(node, **variables)
        meant = [remedy for remedy in remedies if words in ": ".join(remedy)]
        self.assertEqual(len(meant), 1, f"{words!r} in {remedies}")
        return meant[0]

    def apply_remedy(self, node, words, answers="", file="", **variables):
        """Applies a remedy as printed; afterwards the node is up."""
        how, literal = self.remedy(node, words, **variables)
        does = self.root if "as root on plain" in how else lambda line, text="": self.run_ok("sh", "-ec", line, text=text, **variables)
        if found := re.search(r"add at the top of ([^ ,]+)(?:.*, then run (.*))?", how):
            place, then = found.groups()
            others = self.run_ok("ssh", "-G", "another")
            does(f"cat - {place} >~/new && cat ~/new >{place}", literal.replace("FILE", file))
            self.assertEqual(self.run_ok("ssh", "-G", "another"), others, "it is meant for this node alone")
            literal = then or "true"
        elif found := re.search(r"add (\S+) to (\w+) in (\S+), then$", how):
            kind, option, place = found.groups()
            does(f"sed -i 's/^{option} .*/&,{kind}/' {place} && grep -q '^{option} .*,{kind}$' {place}")
        does(literal, answers)
        self.assert_up(node, **variables)

    def assert_up(self, node, **variables):
        fleet = json.loads(self.run_ok("gtop", "--json", node, **variables))
        self.assertEqual(fleet["nodes"][0]["link"], "up", fleet["nodes"][0]["fault"])

    def askpass(self, word, answer):
        """Returns the environment in which OpenSSH gets this answer from an askpass program."""
        self.write("askpass", f"#!/bin/sh\ncase $1 in *{word}*) echo '{answer}' ;; *) echo ;; esac\n", 0o755)
        return {"SSH_ASKPASS": f"{self.folder}/askpass", "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
