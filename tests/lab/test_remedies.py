"""What the doctor says to do about a refused login, done as printed: real sshd with PAM, and the node comes up.

Servers and clients run in namespaces of their own, with a copy of /etc and homes of their own: nothing of
this machine is changed, and nothing is left.
"""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import wait_for

ADDRESS = "127.0.89.2"
PASSWORD = "barley-4242"
NEW_PASSWORD = "Sorghum+7319"

# PAM as Debian's sshd has it, without what needs a whole machine.
PAM = """\
auth required pam_unix.so
account required pam_nologin.so
account required pam_unix.so
password required pam_unix.so
session required pam_unix.so
"""

SSHD_CONFIG = """\
{wants}
ListenAddress {address}:{port}
HostKey {folder}/hostkey
PidFile none
StrictModes no
UsePAM yes
KbdInteractiveAuthentication no
PasswordAuthentication no
"""

# By their names: what each node's sshd says besides.
NODES = {
    "plain": "",
    "password": "PasswordAuthentication yes",
    "asks": "KbdInteractiveAuthentication yes",
}
PORTS = {name: 23200 + number for number, name in enumerate(NODES)}

# Everything the servers need, in a mount and PID namespace of their own.
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
{commands}
touch {folder}/ready
wait
"""


def why_not():
    """Says why these tests cannot run here, if they cannot."""
    if os.geteuid() != 0:
        return "only root can make users of its own"
    if subprocess.run(["unshare", "-m", "-p", "-f", "true"], check=False, capture_output=True).returncode != 0:
        return "no namespaces can be made"
    return None


@unittest.skipIf(why_not(), why_not())
class Remedies(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gtop-remedies.")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        # Where its user can run it.
        self.program = shutil.copy(os.environ["GTOP"], f"{self.folder}/gtop")
        self.write("pam", PAM)
        os.symlink("/usr/sbin/sshd", f"{self.folder}/gtop-test-sshd")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.folder}/hostkey"], check=True)
        commands = []
        for name, wants in NODES.items():
            self.write(f"sshd.{name}", SSHD_CONFIG.format(folder=self.folder, address=ADDRESS, port=PORTS[name], wants=wants))
            commands.append(f"{self.folder}/gtop-test-sshd -D -e -f {self.folder}/sshd.{name} 2>{self.folder}/log.{name} &")
        script = SCRIPT.format(folder=self.folder, password=PASSWORD, commands="\n".join(commands))
        self.servers = subprocess.Popen(
            ["unshare", "-m", "-p", "-f", "--kill-child", "--mount-proc", "--propagation", "private", "sh", "-c", script]
        )
        self.addCleanup(self.servers.wait)
        self.addCleanup(self.servers.send_signal, signal.SIGKILL)
        for name in NODES:
            wait_for(f"the sshd of {name}", lambda name=name: "listening" in self.read(f"log.{name}"))
        wait_for("the user", lambda: os.path.exists(f"{self.folder}/ready"))
        children = f"/proc/{self.servers.pid}/task/{self.servers.pid}/children"
        with open(children, encoding="utf-8") as file:
            self.inside = file.read().split()[0]
        self.home("")

    def home(self, options):
        """Gives the user here a home with an ssh_config."""
        self.root(f"install -d -m 700 -o ada -g ada /home/here && chown ada: /home/here && install -d -m 700 -o ada -g ada /home/here/.ssh")
        config = f"Host *\n  HostName {ADDRESS}\n  User ada\n  {options}\n"
        for name, port in PORTS.items():
            config += f"Host {name}\n  Port {port}\n"
        key = self.read("hostkey.pub")
        known = "".join(f"[{ADDRESS}]:{port} {key}" for port in PORTS.values())
        self.put("/home/here/.ssh/config", config)
        self.put("/home/here/.ssh/known_hosts", known)
        # The programs of OpenSSH take the home of the user database.
        self.root("usermod -d /home/here ada")

    def put(self, path, text):
        self.root(f"cat >{path} && chown ada: {path}", text)

    def key(self, name="id_ed25519", *words, authorized=True):
        words = words or ("-t", "ed25519", "-N", "")
        self.do("ssh-keygen", "-q", "-f", f"/home/here/.ssh/{name}", *words)
        if authorized:
            self.do("sh", "-c", f"cat /home/here/.ssh/{name}.pub >>/home/here/.ssh/authorized_keys")

    def write(self, name, text):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        try:
            with open(f"{self.folder}/{name}", encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def root(self, line, text=""):
        """Does something as the administrator of the nodes."""
        command = ["nsenter", "-t", self.inside, "-m", "-p", "sh", "-ec", line]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, f"{line}: {done.stdout}{done.stderr}")
        return done.stdout

    def command(self, *words, **variables):
        variables = {"HOME": "/home/here", "USER": "ada", "PATH": f"{self.folder}:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8", **variables}
        return [
            "nsenter", "-t", self.inside, "-m", "-p", "setpriv", "--reuid", "ada", "--regid", "ada", "--clear-groups",
            "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *words,
        ]  # fmt: skip

    def run_here(self, *words, **variables):
        """Runs a command as the user here, with no terminal."""
        return subprocess.run(self.command(*words, **variables), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False, start_new_session=True)

    def do(self, *words, **variables):
        done = self.run_here(*words, **variables)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def advice(self, node, pattern, **variables):
        """Returns the groups of what the doctor says to do about a node that is not up."""
        done = self.run_here("gtop", "doctor", node, **variables)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        found = re.search(r"^ +> (.*)", done.stdout, re.MULTILINE)
        self.assertTrue(found, done.stdout)
        said = re.search(pattern, found[1])
        self.assertTrue(said, f"{pattern!r} is not in {done.stdout}")
        return said.groups()

    def is_up(self, node, **variables):
        fleet = json.loads(self.do("gtop", "--json", node, **variables))
        self.assertEqual(fleet["nodes"][0]["link"], "up", fleet["nodes"][0]["fault"])

    def asking(self, word, answer):
        """Returns what lets programs of OpenSSH have an answer without a terminal."""
        self.write("askpass", f"#!/bin/sh\ncase $1 in *{word}*) echo '{answer}' ;; *) echo ;; esac\n")
        os.chmod(f"{self.folder}/askpass", 0o755)
        return {"SSH_ASKPASS": f"{self.folder}/askpass", "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}

    def test_a_key_that_others_can_read(self):
        self.key()
        self.is_up("plain")
        self.root("chmod 644 /home/here/.ssh/id_ed25519")
        for node in "plain", "asks":
            # That the node would ask something besides is not the reason.
            (command,) = self.advice(node, r"^(chmod 600 \S+)$")
        self.do("sh", "-c", command)
        self.is_up("plain")

    def test_a_key_of_a_kind_that_the_configuration_leaves_out(self):
        self.home("PubkeyAcceptedAlgorithms rsa-sha2-512")
        self.key()
        says = r"^let it have (\S+): (?:set (\S+) for plain in (~\S+)|correct \S+ in (\S+):(\d+))$"
        kind, option, new, file, line = self.advice("plain", says)
        # What is said first counts.
        change = f"1i Host plain\\n{option} +{kind}" if new else f"{line}s/$/,{kind}/"
        self.do("sh", "-ec", f"sed -i '{change}' {new or file}")
        self.is_up("plain")

    def test_an_encrypted_key_without_an_agent(self):
        self.key("id_ed25519", "-t", "ed25519", "-N", "sesame", "-a", "1")
        for variables in {}, {"SSH_AUTH_SOCK": "/nonexistent"}:
            (command,) = self.advice("plain", r"^(eval .*ssh-add \S+); or start gtop from a terminal$", **variables)
        shown = self.do("sh", "-ec", f"{{ {command}; }} >&2; gtop --json plain; ssh-agent -k >&2", **self.asking("passphrase", "sesame"))
        self.assertEqual(json.loads(shown)["nodes"][0]["link"], "up", shown)
        # Where an agent listens, the key alone is missing.
        said = self.do("sh", "-ec", f"eval $(ssh-agent) >&2; gtop doctor plain || true; ssh-agent -k >&2")
        self.assertRegex(said, r"> ssh-add /home/here/.ssh/id_ed25519; or start")

    def test_no_key_at_all(self):
        (command,) = self.advice("password", r"^make a key and give it to the node: (ssh-keygen.* && ssh-copy-id \S+)$")
        script = f"{{ {command}; }} <<'END'\n\n\n\nEND"
        self.do("sh", "-ec", script, **self.asking("password:", PASSWORD))
        self.is_up("password")

    def test_no_key_and_a_node_that_takes_nothing_else(self):
        command, file, to = self.advice("plain", r": (ssh-keygen [^;]*); then ask the administrator to add (\S+) to (\S+) there$")
        self.do("sh", "-ec", f"{command} <<'END'\n\n\n\nEND")
        self.root(f"cat {file.replace('~', '/home/here')} >>{to.replace('~ada', '/home/here')}")
        self.is_up("plain")

    def test_an_account_without_a_shell(self):
        self.key()
        self.root("usermod -s /usr/sbin/nologin ada")
        (command,) = self.advice("plain", r"ask the administrator to give it one there: (usermod .*)$")
        self.root(command)
        self.is_up("plain")

    def test_a_password_that_has_expired(self):
        self.key()
        self.root("chage -d 0 ada")
        (command,) = self.advice("plain", r"^log in and set a new password: (ssh -t \S+)$")
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
        self.is_up("plain")


if __name__ == "__main__":
    unittest.main()
