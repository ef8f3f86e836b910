"""A person, a gateway and a node: machines with real accounts, PAM and sshd, and a terminal for the person.

Each machine is a mount namespace with a copy of /etc, homes and processes of its own; all of them share a network
of their own, in which nothing else listens. A stub of systemctl knows only the sshd of its machine, under its name on
Debian and Ubuntu.
"""

import itertools
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time

from harness import TIMEOUT, wait_for

PASSWORD = "barley-4242"
NEW_PASSWORD = "Sorghum+7319"
PASSPHRASE = "sesame"
USERS = ("ada", "eve")
HERE, GATE, NODE = "here", "gate", "node"
ADDRESSES = {GATE: "127.0.0.2", NODE: "127.0.0.3"}

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
HostKey /etc/ssh/hostkey
PidFile /run/sshd.pid
StrictModes no
UsePAM yes
KbdInteractiveAuthentication no
PasswordAuthentication no
LogLevel VERBOSE
"""

SYSTEMCTL = """\
#!/bin/sh
listens() { grep -c 'Server listening' /run/log; }
before=$(listens)
case $* in
"start ssh") /usr/sbin/sshd -D -e -f /etc/ssh/sshd_config </dev/null >/dev/null 2>>/run/log & ;;
"reload ssh") kill -HUP "$(cat /run/sshd.pid)" ;;
*) exit 1 ;;
esac
until [ "$(listens)" -gt "$before" ]; do sleep 0.05; done
"""

# Prepares what all machines begin with: /etc with the accounts.
TEMPLATE = """\
set -e
mkdir {folder}/etc
cp -a /etc/. {folder}/etc
mount --bind {folder}/etc /etc
rm -rf /etc/nologin /etc/ssh /etc/profile.d /etc/sudoers.d
mkdir /etc/ssh
cp {folder}/pam /etc/pam.d/sshd
for user in {users}; do
  userdel $user 2>/dev/null || true
  useradd -U -d /home/$user -s /bin/sh $user
  echo $user:{password} | chpasswd
done
"""

# Prepares one machine, in its own mount and PID namespace.
MACHINE = """\
set -e
mount -t tmpfs tmpfs /mnt
mkdir /mnt/home /mnt/run /mnt/sbin
install -d -m 1777 /mnt/tmp
cp -a {folder}/etc /mnt/etc
for part in etc home run; do mount --bind /mnt/$part /$part; done
mount --bind {folder}/bin /usr/local/bin
mount --bind /mnt/sbin /usr/local/sbin
mkdir -p /run/sshd
cp {folder}/systemctl /usr/local/sbin/systemctl
touch /run/log
for user in {users}; do install -d -o $user -g $user /home/$user && install -d -m 700 -o $user -g $user /home/$user/.ssh; done
touch {folder}/ready.{name}
mount --bind /mnt/tmp /tmp
exec cat >/dev/null
"""


class Template:
    """What all machines begin with, made once."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="gtop-machines.")
        os.chmod(self.folder, 0o755)
        os.mkdir(f"{self.folder}/bin")
        # Where each user can run it, under its name.
        try:
            os.link(program, f"{self.folder}/bin/gtop")
        except OSError:
            shutil.copy(program, f"{self.folder}/bin/gtop")
        self.write("pam", PAM)
        self.write("systemctl", SYSTEMCTL, 0o755)
        script = TEMPLATE.format(folder=self.folder, users=" ".join(USERS), password=PASSWORD)
        subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script], check=True, capture_output=True)

    def write(self, name, text, mode=0o644):
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{self.folder}/{name}", mode)

    def close(self):
        shutil.rmtree(self.folder)


class Machine:
    """One machine; root and the users run commands in it."""

    count = itertools.count()

    def __init__(self, template, name, network=None):
        self.name = name
        marker = f"{name}.{next(Machine.count)}"
        script = MACHINE.format(folder=template.folder, name=marker, users=" ".join(USERS))
        apart = ["unshare", "-m", "-p", "-u", "-f", "--kill-child", "--mount-proc", "--propagation", "private"]
        joined = ["nsenter", "-t", network, "-n"] if network else ["unshare", "-n"]
        prepare = [] if network else ["sh", "-c", 'ip link set lo up && exec "$0" "$@"']
        # It ends with this process, which has the other end of its input.
        self.process = subprocess.Popen([*joined, *prepare, *apart, "sh", "-c", f"hostname {name}; {script}"], stdin=subprocess.PIPE)
        ready = f"{template.folder}/ready.{marker}"
        wait_for(f"the machine {name}", lambda: os.path.exists(ready) or self.process.poll() is not None)
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(children, encoding="utf-8") as file:
            self.pid = file.read().split()[0]

    def inside(self, *words):
        return ["nsenter", "-t", self.pid, "-m", "-p", "-n", "-u", "--wd=/", *words]

    def root(self, line, text=""):
        """Runs a shell line as root, and returns what it prints."""
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        command = self.inside("env", "-i", path, "HOME=/run", "LC_ALL=C.UTF-8", "sh", "-ec", line)
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise AssertionError(f"root on {self.name}: {line}: {done.stdout}{done.stderr}")
        return done.stdout

    def write(self, path, text, user="root"):
        self.root(f"cat >{path} && chown {user}: {path}", text)

    def terminal(self, user, shell):
        return Terminal(self.inside("su", "-", "-s", shell, user))

    def close(self):
        self.process.stdin.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Terminal:
    """A login shell of a person, into which lines are pasted; questions are answered as a person does."""

    PROMPT = re.compile(r"<(\d+)>ready> $")
    ANSWERS = (
        (r"\(yes/no[^)]*\)\? $", "yes"),
        (r"Trust .*\? \[y/N or fingerprints\] $", "yes"),
        (r"Current password: ?$", PASSWORD),
        (r"(New|new) password: ?$", NEW_PASSWORD),
        (r"[Pp]assword: ?$", PASSWORD),
        (r"Enter file in which to save the key .*: $", ""),
        (r"Enter passphrase \(empty.*: $", ""),
        (r"Enter same passphrase again: $", ""),
        (r"passphrase for .*: ?$", PASSPHRASE),
    )

    def __init__(self, command):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execvp(command[0], command)
        self.seen = ""
        self.send("PS1='<$?>ready> '; PS2=; export TERM=xterm LC_ALL=C.UTF-8; set +o emacs 2>&-; set +o vi 2>&-")
        self.wait()

    def send(self, line):
        os.write(self.master, line.encode() + b"\n")

    def paste(self, line, on_screen=None):
        """Runs a line, and returns its exit status and what was seen; `on_screen` is typed into a full screen."""
        self.seen = ""
        self.send(line)
        status = self.wait(on_screen)
        return status, self.seen

    def wait(self, on_screen=None):
        """Answers questions until the shell is ready, and returns the exit status of the line."""
        end, answered = time.monotonic() + TIMEOUT, 0
        while True:
            if time.monotonic() > end:
                raise AssertionError(f"the terminal is not ready: {self.seen[-3000:]!r}")
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                self.seen += os.read(self.master, 65536).decode("utf-8", "replace")
            except OSError:
                raise AssertionError(f"the shell has ended: {self.seen[-3000:]!r}") from None
            tail = self.seen[answered:]
            if found := self.PROMPT.search(tail):
                return int(found[1])
            if on_screen and re.search(on_screen, tail):
                os.write(self.master, b"q")
                on_screen = None
            for pattern, answer in self.ANSWERS:
                if re.search(pattern, tail.replace("\r\n", "\n")):
                    answered = len(self.seen)
                    self.send(answer)
                    break

    def close(self):
        os.kill(self.pid, signal.SIGHUP)
        os.close(self.master)
        os.waitpid(self.pid, 0)
