"""`gtop login`: nodes that ask for passwords and one-time codes, real sshd with PAM, a real gtop in a pseudo-terminal.

Servers and clients run in their own namespaces, with a copy of /etc and their own homes: this machine is not
changed. Accounts are those of pam_unix, codes are checked by pam_oath.
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import termios
import unittest

from harness import wait_for
from test_login import Terminal

ADDRESS = "127.0.89.3"
FIRST_PORT = 23300
PASSWORD = "barley-4242"
WRONG = "sorghum-1111"
OTHER = "millet-9090"
SECRET = "3132333435363738393031323334353637383930"
MANUAL = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../docs/transports.md")

UNIX = "auth required pam_unix.so nodelay\n"
OATH = "auth requisite pam_unix.so nodelay\nauth required pam_oath.so usersfile=/mnt/oath window=20 digits=6\n"
REST = "account required pam_unix.so\npassword required pam_unix.so\nsession required pam_unix.so\n"

BY_PASSWORD = "PasswordAuthentication yes\nAuthenticationMethods password"
BY_CODE = "KbdInteractiveAuthentication yes\nAuthenticationMethods keyboard-interactive"

# What each node requires, by name: its PAM service, and the options of its sshd.
NODES = {
    "pw1": ("unix", BY_PASSWORD),
    "pw2": ("unix", BY_PASSWORD),
    "pw3": ("unix", BY_PASSWORD),
    "pw4": ("unix", BY_PASSWORD),
    "code1": ("oath", BY_CODE),
    "code2": ("oath", BY_CODE),
    "both": ("unix", "PasswordAuthentication yes\nAuthenticationMethods publickey,password"),
    "key": ("unix", "AuthenticationMethods publickey"),
    "gate": ("unix", BY_PASSWORD),
    "inner": ("unix", BY_PASSWORD),
    "open": ("unix", "AuthenticationMethods publickey"),
    "own": ("unix", BY_PASSWORD),
    "stale": ("unix", BY_PASSWORD),
    "fresh": ("unix", BY_PASSWORD),
    "changed": ("unix", BY_PASSWORD),
}

SSHD_CONFIG = """\
UsePAM yes
PasswordAuthentication no
KbdInteractiveAuthentication no
ListenAddress {address}:{port}
HostKey {folder}/hostkey
AuthorizedKeysFile {folder}/id.pub
PidFile none
StrictModes no
LogLevel VERBOSE
"""

# Prepares the server's files, in its own namespaces.
SCRIPT = """\
set -e
ip link set lo up
mount -t tmpfs tmpfs /mnt
cp -a /etc /mnt/etc
mkdir /mnt/home
mount --bind /mnt/etc /etc
mount --bind /mnt/home /home
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd
rm -f /etc/nologin
useradd -m -s /bin/sh ada
useradd -m -s /bin/sh bob
useradd -m -s /bin/sh eve
echo bob:{other} | chpasswd
echo ada:{password} | chpasswd
echo eve:{password} | chpasswd
chage -d 0 eve
echo 'HOTP ada - {secret}' >/mnt/oath
chmod 600 /mnt/oath
install -d -m 700 -o ada -g ada /home/ada/.ssh
mkdir /run/user
install -d -m 700 -o ada -g ada /run/user/ada
install -m 600 -o ada -g ada {folder}/id /home/ada/.ssh/id_ed25519
install -m 600 -o ada -g ada {folder}/config {folder}/known_hosts /home/ada/.ssh
cp {folder}/pam.d/* /etc/pam.d
{servers}
touch {folder}/ready
exec sleep infinity
"""


def skip_reason():
    """Returns why these tests cannot run here, or None."""
    if os.geteuid() != 0:
        return "only root can create test users"
    if subprocess.run(["unshare", "-m", "-n", "-p", "-f", "true"], check=False, capture_output=True).returncode != 0:
        return "no namespaces can be made"
    if not any(glob.glob(f"{path}/security/pam_oath.so") for path in ("/lib/*", "/usr/lib/*", "/usr/lib64")) or not shutil.which("oathtool"):
        return "pam_oath or oathtool is not installed"
    return None


@unittest.skipIf(skip_reason(), skip_reason())
class MasterLogin(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gtop-master.")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        # Where its user can run it.
        shutil.copy(os.environ["GTOP"], f"{self.folder}/gtop")
        for name in ("hostkey", "otherkey", "id"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.folder}/{name}"], check=True)
        os.makedirs(f"{self.folder}/pam.d")
        self.write("pam.d/gtop-test-unix", UNIX + REST)
        self.write("pam.d/gtop-test-oath", OATH + REST)
        for service in "unix", "oath":
            os.symlink("/usr/sbin/sshd", f"{self.folder}/gtop-test-{service}")
        self.codes_used = 0
        self.serve()

    def serve(self):
        config, known, servers = "", "", []
        for number, (name, (service, options)) in enumerate(NODES.items()):
            port = FIRST_PORT + number
            self.write(f"sshd.{name}", options + "\n" + SSHD_CONFIG.format(folder=self.folder, address=ADDRESS, port=port))
            config += f"Host {name}\n  Port {port}\n"
            key = self.read("otherkey.pub" if name == "changed" else "hostkey.pub")
            known += "" if name == "fresh" else f"[{ADDRESS}]:{port} {key}"
            servers.append(f"{self.folder}/gtop-test-{service} -D -e -f {self.folder}/sshd.{name} </dev/null >/dev/null 2>{self.folder}/log.{name} &")
        config += f"Host inner open\n  ProxyJump gate\nHost own stale\n  ControlPath ~/.ssh/%C\nHost expired\n  User eve\n  Port {FIRST_PORT}\nHost bob\n  User bob\n  Port {FIRST_PORT}\n"
        self.write("config", f"{config}Host *\n  HostName {ADDRESS}\n  User ada\n")
        self.write("known_hosts", known)
        script = SCRIPT.format(folder=self.folder, password=PASSWORD, other=OTHER, secret=SECRET, servers="\n".join(servers))
        self.servers = subprocess.Popen(
            ["unshare", "-m", "-n", "-p", "-f", "--kill-child", "--mount-proc", "--propagation", "private", "sh", "-c", script]
        )
        self.addCleanup(self.servers.wait)
        self.addCleanup(self.servers.send_signal, signal.SIGKILL)
        wait_for("the user", lambda: os.path.exists(f"{self.folder}/ready"))
        children = f"/proc/{self.servers.pid}/task/{self.servers.pid}/children"
        with open(children, encoding="utf-8") as file:
            self.inside = file.read().split()[0]
        for name in NODES:
            wait_for(f"the sshd of {name}", lambda name=name: "listening" in self.read(f"log.{name}"))

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

    def command(self, *words, user="ada", **variables):
        variables = {"HOME": "/home/ada", "USER": "ada", "PATH": f"{self.folder}:/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "XDG_RUNTIME_DIR": "/run/user/ada", **variables}
        return [
            "nsenter", "-t", self.inside, "-m", "-n", "-p", "setpriv", "--reuid", user, "--regid", user, "--clear-groups",
            "env", "-i", *(f"{name}={value}" for name, value in variables.items()), *words,
        ]  # fmt: skip

    def run_here(self, *words, text="", **variables):
        """Runs a command as the local user, without a terminal."""
        return subprocess.run(self.command(*words, **variables), input=text, capture_output=True, text=True, timeout=100, check=False, start_new_session=True)

    def login(self, *words, **variables):
        """Starts gtop login at a terminal."""
        program, *arguments = self.command("gtop", "login", *words, **variables)
        terminal = Terminal(arguments, os.environ, program=program)
        self.addCleanup(terminal.close)
        return terminal

    def screen(self, *words):
        """Starts gtop at a terminal."""
        program, *arguments = self.command("gtop", *words)
        terminal = Terminal(arguments, os.environ, program=program)
        self.addCleanup(terminal.close)
        return terminal

    def ends_with(self, terminal, status):
        self.assertEqual(terminal.end(), status, terminal.text())
        return terminal.text()

    def links(self, *arguments, **variables):
        """Returns the link and the transport of each node in a snapshot, taken without a terminal."""
        done = self.run_here("gtop", "--json", *arguments, **variables)
        return {node["name"]: (node["link"], node["transport"]) for node in json.loads(done.stdout)["nodes"]}

    def code(self):
        """Returns the next one-time code."""
        done = subprocess.run(["oathtool", "-c", str(self.codes_used), SECRET], capture_output=True, text=True, check=True)
        self.codes_used += 1
        return done.stdout.strip()

    def processes(self, name="ssh"):
        """Returns the command lines of the user's programs of this name."""
        done = self.run_here("ps", "-u", "ada", "-o", "stat=,comm=,args=")
        lines = [line.split(None, 2) for line in done.stdout.splitlines()]
        return [words for state, program, words in lines if program == name and not state.startswith("Z")]

    def files(self):
        """Returns what is in gtop's folder."""
        return self.run_here("find", "/run/user/ada", "-mindepth", "1").stdout.splitlines()

    def failures(self, name):
        """Returns how often a node has refused a password."""
        return self.read(f"log.{name}").count("Failed password")

    def test_one_password_opens_all_nodes_and_close_ends_the_connections(self):
        login = self.login("pw[1-3]", "key")
        login.answer(r"ada@127.0.89.3's password: ", PASSWORD)
        login.until(r'use the same answer to "password" for ada at pw\[2-3\]\? \[y/N\] ')
        login.type("y\r")
        text = self.ends_with(login, 0)
        self.assertRegex(text, r"key: no login needed\r\n(?s:.*)pw1: logged in\r\n(?s:.*)pw2: logged in\r\npw3: logged in\r\n")
        self.assertNotIn(PASSWORD, text)
        self.assertEqual(self.links("pw[1-3]", "key"), {**{f"pw{number}": ("up", "ssh") for number in (1, 2, 3)}, "key": ("up", "native")})
        self.assertEqual([self.failures(f"pw{number}") for number in (1, 2, 3)], [0, 0, 0])
        # It is not asked again, and each node gets one login, and no refused one by gtop's own client.
        again = self.login("pw[1-3]")
        self.assertRegex(self.ends_with(again, 0), r"^pw\[1-3\]: already logged in\r\n$")
        self.assertEqual(self.read("log.pw2").count("Accepted password"), 1)
        doctor = self.run_here("gtop", "doctor", "pw1").stdout
        self.assertRegex(doctor, r"ok +master .*open at /run/user/ada/gtop/")
        self.assertEqual(self.run_here("gtop", "login", "--close", "pw1").stdout, "pw1: closed\n")
        self.assertEqual(self.links("pw1", "pw2"), {"pw1": ("down", None), "pw2": ("up", "ssh")})
        self.assertEqual(self.run_here("gtop", "login", "--close").stdout, "pw[2-3]: closed\n")
        wait_for("the masters to end", lambda: not self.processes())
        self.assertEqual(self.files(), [])

    def test_the_commands_of_the_manual_do_what_it_says(self):
        """The lines of docs/transports.md, with the names of these nodes."""
        with open(MANUAL, encoding="utf-8") as file:
            section = re.search(r"## Passwords and one-time codes\n(.*?)\n## ", file.read(), re.DOTALL)[1]
        lines = [re.split(" {3,}", line.strip())[0] for line in re.findall("^    (.*)$", section, re.MULTILINE)]
        commands, session = lines[:3], lines[3:]
        self.assertEqual(session[0], f"$ {commands[0]}")
        commands = [command.replace("gpu[01-16]", "pw[1-4]") for command in commands]
        start, watch, close = commands
        asked, offer = session[1].replace("gpu01", ADDRESS), session[2].replace("gpu[02-16]", "pw[2-4]")
        question, _, reply = offer.rpartition(" ")
        program, *arguments = self.command("sh", "-c", start)
        login = Terminal(arguments, os.environ, program=program)
        self.addCleanup(login.close)
        login.answer(re.escape(asked), PASSWORD)
        login.until(re.escape(question))
        login.type(reply + "\r")
        self.ends_with(login, 0)
        shown = self.run_here("sh", "-c", f"{watch} --json").stdout
        self.assertEqual({node["name"]: node["transport"] for node in json.loads(shown)["nodes"]}, {f"pw{number}": "ssh" for number in (1, 2, 3, 4)})
        self.assertEqual(self.run_here("sh", "-c", close).stdout, "pw[1-4]: closed\n")
        self.assert_clean()

    def assert_clean(self):
        """Nothing is left: no program, no file."""
        wait_for("the programs to end", lambda: not self.processes() + self.processes("gtop"))
        self.assertEqual(self.files(), [])

    def test_a_code_is_asked_for_at_each_node_and_the_password_once(self):
        login = self.login("code[1-2]")
        login.answer(r"\(ada@127.0.89.3\) Password: ", PASSWORD)
        login.answer(r"One-time password \(OATH\) for `ada': ", self.code())
        login.until(r'use the same answer to "One-time password \(OATH\) for `ada\':" for ada at code2\? \[y/N\] ')
        login.type("\r")
        login.until(r'use the same answer to "Password:" for ada at code2\? \[y/N\] ')
        login.type("y\r")
        login.answer(r"One-time password \(OATH\) for `ada': $", self.code())
        text = self.ends_with(login, 0)
        self.assertEqual(text.count(") Password: "), 1, text)
        self.assertEqual(self.links("code[1-2]"), {"code1": ("up", "ssh"), "code2": ("up", "ssh")})

    def test_a_code_that_is_used_again_as_told_is_refused_and_asked_for(self):
        login = self.login("code[1-2]")
        login.answer(r"Password: ", PASSWORD)
        login.answer(r"OATH\) for `ada': ", self.code())
        login.until(r"One-time password .* for ada at code2\? \[y/N\] ")
        login.type("y\r")
        login.until(r'"Password:" for ada at code2\? \[y/N\] ')
        login.type("y\r")
        # The server accepts each code once: both answers are asked for again.
        login.answer(r"\) Password: ", PASSWORD, times=2)
        login.answer(r"\) One-time password \(OATH\) for `ada': ", self.code(), times=2)
        self.ends_with(login, 0)

    def test_an_answer_is_tried_again_after_a_refusal_and_never_for_another_user(self):
        login = self.login("pw1", "bob", "pw2")
        login.answer(r"ada@127.0.89.3's password: ", WRONG)
        login.answer(r"ada@127.0.89.3's password: ", PASSWORD, times=2)
        login.until(r"for ada at pw2\? \[y/N\] ")
        login.type("y\r")
        login.answer(r"bob@127.0.89.3's password: ", OTHER)
        text = self.ends_with(login, 0)
        self.assertIn("Permission denied, please try again.", text)
        self.assertEqual((self.failures("pw1"), self.failures("pw2")), (1, 0))
        self.assertEqual(self.read("log.pw1").count("password for bob"), 1)
        for secret in WRONG, PASSWORD, OTHER:
            self.assertNotIn(secret, text)

    def test_gtop_login_is_refused_where_its_connection_would_not_be_used(self):
        done = self.run_here("gtop", "--transport", "native", "login", "pw1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("log in and watch with --transport auto", done.stderr)
        screen = self.screen("--transport", "native", "pw1", "key")
        screen.until("no job|password")
        screen.type("L")
        screen.until("no node asks for a password or a code here")
        screen.type("q")
        self.assertNotIn("log in now", self.ends_with(screen, 0))
        self.assert_clean()

    def test_three_wrong_answers_end_with_the_reason(self):
        login = self.login("pw1", "pw2")
        for times in (1, 2, 3):
            login.answer(r"ada@127.0.89.3's password: ", WRONG, times)
        login.answer(r"ada@127.0.89.3's password: ", PASSWORD, 4)
        text = self.ends_with(login, 1)
        self.assertRegex(text, r"pw1: the node refuses the answers\r\n(?s:.*)pw2: logged in")

    def test_a_gateway_is_logged_in_to_once_for_all_nodes_behind_it(self):
        login = self.login("inner", "open")
        login.answer(r"ada@127.0.89.3's password: ", PASSWORD)
        login.until(r"for ada at inner,open\? \[y/N\] ")
        login.type("n\r")
        login.answer(r"ada@127.0.89.3's password: ", PASSWORD, times=2)
        text = self.ends_with(login, 0)
        self.assertRegex(text, r"gate: logged in, for the nodes behind it\r\n(?s:.*)inner: logged in\r\n(?s:.*)open: logged in")
        self.assertEqual(self.links("inner", "open", "gate"), {"inner": ("up", "ssh"), "open": ("up", "ssh"), "gate": ("up", "ssh")})
        self.assertEqual(self.read("log.gate").count("Accepted password"), 1)
        self.assertEqual(self.read("log.inner").count("Accepted password"), 1)
        # The gateway is closed with the last node behind it.
        self.assertEqual(self.run_here("gtop", "login", "--close", "inner").stdout, "gate,inner: closed\n")
        self.assert_clean()

    def test_a_key_and_a_password_authenticate_together(self):
        login = self.login("both")
        login.answer(r"ada@127.0.89.3's password: ", PASSWORD)
        self.ends_with(login, 0)
        self.assertEqual(self.links("both"), {"both": ("up", "ssh")})
        self.assertEqual(self.links("both", "--transport", "ssh"), {"both": ("up", "ssh")})

    def test_an_expired_password_is_reported_and_no_connection_is_kept(self):
        login = self.login("expired")
        login.answer(r"eve@127.0.89.3's password: ", PASSWORD)
        self.assertRegex(self.ends_with(login, 1), r"expired: the node runs no commands: .*password has expired")
        self.assert_clean()

    def test_after_the_start_one_question_leads_to_the_logins_of_all_nodes(self):
        screen = self.screen("pw[1-2]", "key")
        screen.until(r"pw\[1-2\] ask for a password or a code: log in now\? \[y/N\] ")
        screen.type("y\r")
        screen.answer(r"ada@127.0.89.3's password: ", PASSWORD)
        screen.until(r'use the same answer to "password" for ada at pw2\? \[y/N\] ')
        screen.type("y\r")
        screen.until("via ssh")
        screen.type("q")
        self.ends_with(screen, 0)
        self.assertEqual(self.links("pw[1-2]"), {"pw1": ("up", "ssh"), "pw2": ("up", "ssh")})
        # Nothing is asked where the connections are open, nor without a terminal.
        again = self.screen("pw[1-2]")
        again.until("via ssh")
        again.type("q")
        self.assertNotIn("log in now", self.ends_with(again, 0))
        self.assertEqual(self.run_here("gtop", "login", "--close").stdout, "pw[1-2]: closed\n")
        self.assertNotIn("log in now", self.run_here("gtop", "--once", "pw1").stderr)
        self.assertEqual([self.failures(f"pw{number}") for number in (1, 2)], [0, 0])
        self.assert_clean()

    def test_a_key_of_the_screen_logs_in_to_nodes_that_ask_for_it(self):
        screen = self.screen("pw1", "key")
        screen.until(r"pw1 asks for a password or a code: log in now\? \[y/N\] ")
        screen.type("\r")
        screen.until(r"(?s)log in now.*press L to log in")
        screen.type("L")
        screen.answer(r"ada@127.0.89.3's password: ", WRONG)
        screen.answer(r"ada@127.0.89.3's password: ", PASSWORD, 2)
        screen.until("via ssh")
        screen.type("L")
        screen.until("no node asks for a password or a code here")
        screen.type("q")
        self.ends_with(screen, 0)
        self.assertEqual(self.links("pw1"), {"pw1": ("up", "ssh")})
        self.assertEqual(self.run_here("gtop", "login", "--close").stdout, "pw1: closed\n")
        self.assert_clean()

    def test_ctrl_c_during_a_login_from_the_screen_leads_back_to_it(self):
        screen = self.screen("pw1", "key")
        screen.until(r"log in now\? \[y/N\] ")
        screen.type("\r")
        screen.until(r"(?s)log in now.*press L to log in")
        screen.type("L")
        screen.until("'s password: ")
        wait_for("a hidden line", lambda: not termios.tcgetattr(screen.slave)[3] & termios.ICANON)
        screen.type("\x03")
        screen.until("(?s)'s password: .*press L to log in")
        screen.type("q")
        self.ends_with(screen, 0)
        self.assertEqual(termios.tcgetattr(screen.slave), screen.before)
        self.assert_clean()

    def test_what_is_typed_before_the_question_is_neither_shown_nor_an_answer(self):
        def signal_sshd(name):
            subprocess.run(["nsenter", "-t", self.inside, "-m", "-p", "pkill", f"-{name}", "-f", "sshd.pw1"], check=True)

        signal_sshd("STOP")
        login = self.login("pw1")
        wait_for("a terminal without echo", lambda: not termios.tcgetattr(login.slave)[3] & termios.ECHO)
        self.assertTrue(termios.tcgetattr(login.slave)[3] & termios.ICANON, "no question is open")
        login.type(WRONG + "\r")
        signal_sshd("CONT")
        login.answer(r"ada@127.0.89.3's password: ", PASSWORD)
        text = self.ends_with(login, 0)
        self.assertNotIn(WRONG, text)
        self.assertEqual(self.failures("pw1"), 0)
        self.assertEqual(termios.tcgetattr(login.slave), login.before)

    def test_ctrl_c_during_a_question_leaves_nothing(self):
        login = self.login("pw1")
        login.until(r"password: ")
        wait_for("a hidden line", lambda: not termios.tcgetattr(login.slave)[3] & termios.ICANON)
        self.assertEqual(len(self.processes()), 1)
        login.type("\x03")
        self.ends_with(login, 130)
        self.assertEqual(termios.tcgetattr(login.slave), login.before)
        self.assert_clean()
        self.assertEqual(self.failures("pw1"), 0)

    def test_a_killed_gtop_leaves_no_program_and_sends_no_empty_password(self):
        login = self.login("pw1")
        login.until(r"password: ")
        wait_for("the program that asks", lambda: len(self.processes("gtop")) > 1)
        self.run_here("pkill", "-9", "-o", "-x", "gtop")
        login.end()
        wait_for("the programs to end", lambda: not self.processes() + self.processes("gtop"))
        self.assertEqual(self.failures("pw1"), 0)

    def test_nodes_can_be_skipped(self):
        login = self.login("pw[1-3]")
        login.answer(r"password: ", "")
        login.until(r"pw1: skipped")
        login.until(r"password: ", 2)
        login.type("\x04")
        self.ends_with(login, 1)
        self.assert_clean()
        self.assertEqual([self.failures(f"pw{number}") for number in (1, 2, 3)], [0, 0, 0])

    def test_an_unknown_host_key_is_asked_about_and_a_changed_one_refused(self):
        login = self.login("pw1", "fresh", "changed")
        login.answer(r"password: ", PASSWORD)
        login.until(r"for ada at fresh\? \[y/N\] ")
        login.type("y\r")
        login.until(r"The authenticity of host (?s:.*)ED25519 key fingerprint is SHA256:(?s:.*)\(yes/no/\[fingerprint\]\)\? ")
        login.type("perhaps\r")
        login.until(r"Please type 'yes', 'no' or the fingerprint: ")
        login.type("yes\r")
        text = self.ends_with(login, 1)
        self.assertRegex(text, r"changed: host key of .* has changed(?s:.*)fresh: logged in")
        self.assertEqual(text.count("password: "), 1, text)
        self.assertIn(self.read("hostkey.pub").split()[1], self.run_here("cat", "/home/ada/.ssh/known_hosts").stdout)
        self.assertNotIn("Failed", self.read("log.changed"))
        # It is not trusted if the user says no.
        self.run_here("gtop", "login", "--close")
        self.write("known_hosts", "")
        self.run_here("cp", f"{self.folder}/known_hosts", "/home/ada/.ssh/known_hosts")
        login = self.login("fresh")
        login.until(r"\(yes/no/\[fingerprint\]\)\? ")
        login.type("no\r")
        self.assertRegex(self.ends_with(login, 1), r"fresh: host key unknown")
        self.assertEqual(self.run_here("cat", "/home/ada/.ssh/known_hosts").stdout, "")

    def test_without_a_terminal_the_program_of_ssh_askpass_is_asked(self):
        done = self.run_here("gtop", "login", "pw1", "key")
        self.assertEqual((done.returncode, done.stdout), (1, "key: no login needed\n"))
        self.assertRegex(done.stderr, r"^gtop: there is no terminal to ask on; run gtop login in one, or set SSH_ASKPASS")
        script = f"""#!/bin/sh
echo "$SSH_ASKPASS_PROMPT $1" >>/home/ada/asked
case $1 in *OATH*) echo {self.code()} ;; *assword*) echo {PASSWORD} ;; *) exit 1 ;; esac
"""
        self.write("askpass", script, 0o755)
        display = {"SSH_ASKPASS": f"{self.folder}/askpass", "DISPLAY": ":9"}
        for never in ({"SSH_ASKPASS": f"{self.folder}/askpass"}, {**display, "SSH_ASKPASS_REQUIRE": "never"}):
            self.assertIn("there is no terminal", self.run_here("gtop", "login", "pw1", **never).stderr)
        done = self.run_here("gtop", "login", "pw1", **display)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "pw1: logged in\n", "Enter skips a node, Ctrl-D skips all\n"))
        # Prompts at start are asked for there, too.
        self.assertEqual(self.links("code1", **display), {"code1": ("up", "native")})
        # At a terminal, if it is required.
        login = self.login("pw2", SSH_ASKPASS_REQUIRE="force", **display)
        self.ends_with(login, 0)

    def test_the_socket_is_where_the_user_wants_it(self):
        self.write("askpass", f"#!/bin/sh\necho {PASSWORD}\n", 0o755)
        asking = {"SSH_ASKPASS": f"{self.folder}/askpass", "SSH_ASKPASS_REQUIRE": "force"}
        self.assertEqual(self.run_here("ssh", "-fNM", "stale", **asking).returncode, 0)
        done = self.run_here("gtop", "login", "own", "stale", **asking)
        self.assertEqual((done.returncode, done.stdout), (0, "stale: already logged in\nown: logged in\n"), done.stderr)
        # ssh itself uses it.
        self.assertEqual(self.run_here("ssh", "-o", "BatchMode=yes", "own", "echo", "up").stdout, "up\n")
        self.assertEqual(self.links("own", "stale"), {"own": ("up", "ssh"), "stale": ("up", "ssh")})
        # Only what gtop has opened is closed.
        self.assertEqual(self.run_here("gtop", "login", "--close", "own", "stale").stdout, "own: closed\n")
        self.assertEqual(self.run_here("ssh", "-O", "check", "own").returncode, 255)
        self.assertEqual(self.run_here("ssh", "-O", "check", "stale").returncode, 0)
        self.assertEqual(self.files(), [])

    def test_connections_end_after_their_time(self):
        login = self.login("--persist", "1s", "pw1")
        login.answer(r"password: ", PASSWORD)
        # On a slow machine it ends before gtop has used it.
        login.end()
        wait_for("the master to end", lambda: not self.processes())

    def test_answers_are_in_no_command_line_and_no_environment(self):
        login = self.login("pw[1-2]")
        login.answer(r"password: ", PASSWORD)
        login.until(r"for ada at pw2\? \[y/N\] ")
        self.assertTrue(self.processes())
        script = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'"
        words = subprocess.run(["nsenter", "-t", self.inside, "-m", "-p", "sh", "-c", script], capture_output=True, text=True, check=False).stdout
        self.assertIn("XDG_RUNTIME_DIR=/run/user/ada", words)
        self.assertNotIn(PASSWORD, words)
        found = subprocess.run(["nsenter", "-t", self.inside, "-m", "-p", "grep", "-rlF", PASSWORD, "/run", "/home", "/mnt"], capture_output=True, text=True, check=False)
        self.assertEqual(found.stdout, "")

    def test_the_list_of_nodes_may_be_standard_input(self):
        inner = self.command("sh", "-c", "echo pw1 | gtop login -f -")
        login = Terminal(["--ctty", "--wait", *inner], os.environ, program="setsid")
        self.addCleanup(login.close)
        login.answer(r"password: ", PASSWORD)
        self.assertIn("pw1: logged in", self.ends_with(login, 0))

    def test_without_a_runtime_folder_the_sockets_are_in_tmp(self):
        uid = self.run_here("id", "-u").stdout.strip()
        folder = f"/tmp/gtop-{uid}"
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.write("askpass", f"#!/bin/sh\necho {PASSWORD}\n", 0o755)
        there = {"SSH_ASKPASS": f"{self.folder}/askpass", "SSH_ASKPASS_REQUIRE": "force", "XDG_RUNTIME_DIR": "/nonexistent"}
        # A folder of another user is refused.
        os.mkdir(folder, 0o700)
        done = self.run_here("gtop", "login", "pw1", **there)
        self.assertRegex(done.stdout, f"pw1: .*{folder} belongs to another user; move it away")
        os.rmdir(folder)
        self.assertEqual(self.run_here("gtop", "login", "pw1", **there).returncode, 0)
        self.assertEqual(self.links("pw1", XDG_RUNTIME_DIR="/nonexistent"), {"pw1": ("up", "ssh")})
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)
        self.run_here("gtop", "login", "--close", XDG_RUNTIME_DIR="/nonexistent")
        self.assertFalse(os.path.exists(folder))


if __name__ == "__main__":
    unittest.main()
