"""Keyboard-interactive prompts at a terminal: real sshd with PAM, a real gtop in a pseudo-terminal.

The servers run on loopback in their own mount namespace, where a folder of this test is mounted over
/etc/pam.d: nothing on this machine is changed, and nothing is left.
"""

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import threading
import time
import unittest

from harness import TIMEOUT, wait_for

GTOP = os.environ["GTOP"]
AT_HOME = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../at_home")
CODE = "sesame-7319"
WRONG = "barley-4242"
ADDRESS = "127.0.89.1"
NO_JOB = "Access denied by pam_slurm_adopt: you have no active jobs on this node"

# pam_exec writes the answer to the standard input of a script, followed by a NUL.
PAM = """\
auth required pam_exec.so expose_authtok quiet {folder}/check
auth required pam_permit.so
account required pam_permit.so
session required pam_permit.so
"""
CHECK = """\
#!/bin/sh
answer=$(tr -d '\\000')
echo x >> {folder}/asked
[ "$answer" = {code} ]
"""

# What each node requires, by name.
NODES = {
    "both": "AuthenticationMethods publickey,keyboard-interactive",
    "asks1": "AuthenticationMethods keyboard-interactive",
    "asks2": "AuthenticationMethods keyboard-interactive",
    "asks3": "AuthenticationMethods keyboard-interactive",
    # Many names use this server, so its limits are raised and login files of root are not read.
    "key": "AuthenticationMethods publickey\nMaxStartups 100\nSetEnv HOME=/nonexistent",
    # Many names use this server, which accepts two logins at a time and drops the others.
    "crowd": "AuthenticationMethods publickey\nMaxStartups 2:100:2\nSetEnv HOME=/nonexistent",
    "gate": "AuthenticationMethods keyboard-interactive",
    "password": "AuthenticationMethods password\nPasswordAuthentication yes",
    "locked": "AuthenticationMethods publickey\nAuthorizedKeysFile {folder}/locked.pub",
}

SSHD_CONFIG = """\
{options}
ListenAddress {address}:{port}
HostKey {folder}/hostkey
AuthorizedKeysFile {folder}/id.pub
PidFile none
StrictModes no
UsePAM yes
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication yes
"""

# Nodes whose PAM account phase refuses the login: the PAM line, and the user. pam_nologin lets root pass.
REFUSING = {
    "closed": ("account required pam_exec.so stdout quiet {folder}/maintenance", "root"),
    "nologin": ("account required pam_nologin.so file={folder}/nologin", "nobody"),
    "nojob": ("account required pam_exec.so stdout quiet {folder}/adopt", "root"),
    "denied": ("account required pam_deny.so", "root"),
}

# Prints a running job on a node once a file is there.
SQUEUE = r"""#!/usr/bin/python3 -IS
import os, sys, time
mark, *letters = [word for word in sys.argv if word.startswith("--format=")][0][len("--format="):].split("\x1f")
while not os.path.exists("RELEASED"):
    time.sleep(0.05)
job = [7, 7, "root", "gpu", "phys", "RUNNING", 1795269430, 1795269440, "N/A", "1:00:00", "0:07", 1, "locked", "None", "x"]
for fields in (["JOBID"] + ["X"] * (len(letters) - 1), job):
    print(mark + "\x1f" + "\x1f".join(map(str, fields)) + mark, flush=True)
"""

CONFIG = """\
Host *
  HostName {address}
  User root
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  GlobalKnownHostsFile /dev/null
"""


def skip_reason():
    """Returns the reason why these tests cannot run here, or None."""
    if os.geteuid() != 0:
        return "only root can mount another PAM configuration"
    if not any(os.path.exists(f"{path}/security/pam_exec.so") for path in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/lib64")):
        return "pam_exec is not installed"
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode != 0:
        return "mount namespaces are not available"
    return None


class Terminal:
    """A program with a terminal for its standard input and error; standard output is the terminal too, or a pipe."""

    def __init__(self, arguments, environment, is_screen=True, program=GTOP):
        master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 120))
        self.master, self.seen, self.printed = master, b"", b""
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(
            [program, *arguments], env=environment, stdin=slave, stderr=slave, stdout=slave if is_screen else subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip

    def read(self, timeout=0.1):
        if select.select([self.master], [], [], timeout)[0]:
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                pass  # the other end is closed

    def until(self, pattern, times=1):
        """Waits until the output matches this often."""
        end = time.monotonic() + TIMEOUT
        while len(re.findall(pattern, self.text())) < times:
            if time.monotonic() > end:
                raise AssertionError(f"{pattern!r} x{times} did not come: {self.text()!r}")
            self.read()

    def text(self):
        """Returns the output; the blanks that the cursor skips are blanks."""
        text = self.seen.decode("utf-8", "replace")
        return re.sub(r"\x1b\[(\d+)C", lambda skip: " " * int(skip[1]), text)

    def type(self, text):
        os.write(self.master, text.encode())

    def answer(self, prompt, text, times=1, mode=termios.ICANON):
        """Types a line once the prompt is shown, and a mode of the terminal is off: in a prompt of gtop, ICANON."""
        self.until(prompt, times)
        wait_for("a terminal that waits for a hidden line", lambda: not termios.tcgetattr(self.slave)[3] & mode)
        self.type(text + "\r")

    def end(self):
        """Waits until the program exits; returns its exit code."""
        end = time.monotonic() + TIMEOUT
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
            if self.process.stdout and select.select([self.process.stdout], [], [], 0)[0]:
                self.printed += os.read(self.process.stdout.fileno(), 65536)
        self.read()
        if self.process.stdout:
            self.printed += self.process.stdout.read()
        return self.process.wait(1)

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.end()
        if self.process.stdout:
            self.process.stdout.close()
        self.hang_up()

    def hang_up(self):
        """Closes the terminal, like closing its window."""
        for side in self.slave, self.master:
            if side is not None:
                os.close(side)
        self.slave = self.master = None


class Relay:
    """A port that accepts a connection at once, and leads to that of a server when it is opened."""

    def __init__(self, test, port, server_port):
        self.listener, self.server_port = socket.create_server((ADDRESS, port)), server_port
        test.addCleanup(self.listener.close)

    def open(self):
        client, _ = self.listener.accept()
        server = socket.create_connection((ADDRESS, self.server_port))
        for ends in (client, server), (server, client):
            threading.Thread(target=self.copy, args=ends, daemon=True).start()

    @staticmethod
    def copy(source, target):
        with source:
            while data := source.recv(65536):
                target.sendall(data)


@unittest.skipIf(skip_reason(), skip_reason())
class Login(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="gtop-login.")

        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.chmod(cls.folder, 0o755)
        os.makedirs("/run/sshd", exist_ok=True)
        for name, words in (("hostkey", []), ("id", []), ("locked", ["-N", "open sesame", "-a", "1"])):
            words = words or ["-N", ""]
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-f", f"{cls.folder}/{name}", *words], check=True)
        cls.write("check", CHECK.format(folder=cls.folder, code=CODE), 0o755)
        os.makedirs(f"{cls.folder}/pam.d")
        # OpenSSH uses the name it was started by as the PAM service name.
        cls.write("pam.d/gtop-test-sshd", PAM.format(folder=cls.folder))
        cls.write("pam.d/other", "auth required pam_deny.so\naccount required pam_deny.so\n")
        os.symlink("/usr/sbin/sshd", f"{cls.folder}/gtop-test-sshd")
        cls.write("maintenance", "#!/bin/sh\nprintf 'Maintenance until 18:00\\033[2J\\nAsk ada\\n'\nexit 1\n", 0o755)
        cls.write("adopt", f"#!/bin/sh\necho '{NO_JOB}'\nexit 1\n", 0o755)
        cls.write("nologin", "Down for repairs\n")
        cls.write("legal", "Authorized use only\n")
        for name, (account, _) in REFUSING.items():
            cls.write(f"pam.d/gtop-test-{name}", f"auth required pam_permit.so\n{account.format(folder=cls.folder)}\nsession required pam_permit.so\n")
            os.symlink("/usr/sbin/sshd", f"{cls.folder}/gtop-test-{name}")
        cls.serve()

    @classmethod
    def serve(cls):
        config, known, commands = CONFIG.format(folder=cls.folder, address=ADDRESS), "", []
        with open(f"{cls.folder}/hostkey.pub", encoding="utf-8") as file:
            key = file.read()
        refusing = "AuthenticationMethods publickey\nBanner {folder}/legal\nLogLevel VERBOSE"
        for number, (name, options) in enumerate({**NODES, **dict.fromkeys(REFUSING, refusing)}.items()):
            port = 23100 + number
            text = SSHD_CONFIG.format(folder=cls.folder, address=ADDRESS, port=port, options=options.format(folder=cls.folder))
            cls.write(f"sshd.{name}", text)
            identity = "locked" if name == "locked" else "id"
            # Several names share a server.
            names = {"key": "key inner* far*", "crowd": "crowd*"}.get(name, name)
            config += f"Host {names}\n  Port {port}\n  IdentityFile {cls.folder}/{identity}\n"
            known += f"[{ADDRESS}]:{port} {key}"
            commands.append(f"{cls.folder}/gtop-test-{name if name in REFUSING else 'sshd'} -D -e -f {cls.folder}/sshd.{name} 2>{cls.folder}/log.{name} &")
            if name in REFUSING:
                config = f"Host {name}\n  User {REFUSING[name][1]}\n{config}"
        config += f"Host inner*\n  ProxyJump gate\nHost far*\n  ProxyCommand ssh -W %h:%p crowd\nHost gate\n  ControlPath {cls.folder}/master-%C\n"
        known += f"[{ADDRESS}]:23098 {key}"
        cls.write("known", known)
        os.makedirs(f"{cls.folder}/home/.ssh", mode=0o700)
        cls.write("home/.ssh/config", config)
        os.makedirs(f"{cls.folder}/bin")
        cls.write("bin/ssh", f'#!/bin/sh\nexec {shutil.which("ssh")} -F {cls.folder}/home/.ssh/config "$@"\n', 0o755)
        # The servers end with the shell that waits for them.
        script = f"mount --bind {cls.folder}/pam.d /etc/pam.d && {' '.join(commands)} wait"
        servers = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-c", script], start_new_session=True)
        cls.addClassCleanup(servers.wait)
        cls.addClassCleanup(os.killpg, servers.pid, signal.SIGTERM)
        for name in (*NODES, *REFUSING):
            wait_for(f"the sshd of {name}", lambda name=name: "listening" in cls.read(f"log.{name}"))

    @classmethod
    def write(cls, name, text, mode=0o644):
        with open(f"{cls.folder}/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{cls.folder}/{name}", mode)

    @classmethod
    def read(cls, name):
        try:
            with open(f"{cls.folder}/{name}", encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def environment(self):
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return {"HOME": f"{self.folder}/home", "USER": "root", "PATH": path, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}

    def at_home(self):
        """Returns the prefix of a command that runs with the home of the test."""
        return [AT_HOME, f"{self.folder}/home"]

    def gtop(self, *arguments, is_screen=True):
        program, *words = [*self.at_home(), GTOP, *arguments]
        terminal = Terminal(words, self.environment(), is_screen, program)
        self.addCleanup(terminal.close)
        return terminal

    def snapshot(self, *arguments):
        """Returns the nodes of one snapshot by name, taken without a terminal."""
        done = subprocess.run([*self.at_home(), GTOP, "--json", *arguments], env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        return {node["name"]: node for node in json.loads(done.stdout)["nodes"]}

    def prompt_count(self):
        return self.read("asked").count("x")

    def test_a_key_and_an_answer_authenticate_after_a_wrong_answer(self):
        log = f"{self.folder}/gtop.log"
        gtop = self.gtop("--json", "--log", log, "both", "key", is_screen=False)
        gtop.answer(r"root@both: Password: ", WRONG)
        gtop.answer(r"root@both: Password: ", CODE, times=2)
        self.assertEqual(gtop.end(), 0)
        nodes = {node["name"]: node["link"] for node in json.loads(gtop.printed)["nodes"]}
        self.assertEqual(nodes, {"both": "up", "key": "up"}, gtop.text() + gtop.printed.decode())
        for text in (gtop.text(), gtop.printed.decode(), self.read("gtop.log")):
            self.assertTrue(text)
            self.assertNotIn(CODE, text)
            self.assertNotIn(WRONG, text)

    def test_the_answer_is_neither_shown_nor_logged(self):
        log = f"{self.folder}/screen.log"
        gtop = self.gtop("--log", log, "asks1")
        gtop.answer(r"root@asks1: Password: ", CODE)
        gtop.until(r"(?s)Password: .*\x1b\[\?1049h.*asks1")
        process = f"/proc/{gtop.process.pid}"
        for name in ("environ", "cmdline"):
            with open(f"{process}/{name}", "rb") as file:
                self.assertNotIn(CODE.encode(), file.read())
        gtop.type("q")
        self.assertEqual(gtop.end(), 0)
        self.assertNotIn(CODE, gtop.text())
        self.assertNotIn(CODE, self.read("screen.log"))

    def test_nodes_prompt_one_after_the_other_and_can_be_skipped(self):
        gtop = self.gtop("--json", "asks1", "asks2", "asks3", "key", is_screen=False)
        # In any order: the first is answered, the second skipped, then Ctrl-D skips the rest.
        gtop.answer(r"root@asks\d: Password: ", CODE)
        gtop.answer(r"root@asks\d: Password: ", "", times=2)
        gtop.until(r"root@asks\d: Password: ", times=3)
        gtop.type("\x04")
        self.assertEqual(gtop.end(), 0)
        nodes = json.loads(gtop.printed)["nodes"]
        self.assertEqual([node["link"] for node in nodes].count("up"), 2, nodes)
        faults = [node["fault"]["kind"] for node in nodes if node["fault"]]
        self.assertEqual(faults, ["login prompt"] * 2)

    def test_the_screen_is_suspended_for_the_prompt_of_a_retried_node(self):
        gtop = self.gtop("asks1", "asks2")
        gtop.answer(r"root@asks\d: Password: ", "")
        gtop.answer(r"root@asks\d: Password: ", "", times=2)
        gtop.until(r"\x1b\[\?1049h")
        gtop.until(r"login prompt")
        prompts_before = self.prompt_count()
        time.sleep(2)
        gtop.read()
        self.assertEqual(len(re.findall("Password: ", gtop.text())), 2, "no node prompts again without F5")
        gtop.type("\x1b[15~")  # F5
        gtop.answer(r"root@asks\d: Password: ", CODE, times=3)
        gtop.answer(r"root@asks\d: Password: ", CODE, times=4)
        wait_for("both answers", lambda: self.prompt_count() >= prompts_before + 2)
        # The screen comes back with both nodes up; it notes that they are the same machine.
        gtop.until(r"(?s)Password: .*Password: .*Password: .*Password: .*\x1b\[\?1049h.*same machine as asks")
        gtop.type("q")
        self.assertEqual(gtop.end(), 0)
        self.assertNotIn(CODE, gtop.text())

    def test_the_screen_shows_all_nodes_before_it_makes_way_for_a_prompt(self):
        # Accepts connections and says nothing.
        listener = socket.create_server((ADDRESS, 23099))
        self.addCleanup(listener.close)
        gtop = self.gtop("asks1", *(f"silent{number:02}:23099" for number in range(1, 20)))
        gtop.until(r"20 connecting")
        self.assertNotIn("Password", gtop.text())
        gtop.answer(r"root@asks1: Password: ", CODE)
        gtop.until(r"(?s)Password: .*\x1b\[\?1049h")

        def is_up():
            gtop.type("\x0c")  # Ctrl-L
            gtop.read()
            return "19 connecting" in gtop.text()

        wait_for("the node that was logged in to", is_up)
        gtop.type("q")
        self.assertEqual(gtop.end(), 0)
        self.assertEqual(termios.tcgetattr(gtop.slave)[:4], gtop.before[:4])
        self.assertNotIn(CODE, gtop.text())

    def test_what_is_typed_on_the_screen_answers_no_prompt(self):
        relay = Relay(self, 23098, 23101)
        prompts_before = self.prompt_count()
        gtop = self.gtop("--log", f"{self.folder}/typed.log", "relayed:23098")
        gtop.until(r"1 connecting")
        gtop.type(f"/{WRONG}")
        gtop.until(WRONG[-1])
        relay.open()
        gtop.until("waiting.*for.*your.*answer")
        self.assertNotIn("Password", gtop.text())
        gtop.type("\x1b")
        gtop.answer(r"root@relayed: Password: ", CODE)
        gtop.until(r"(?s)Password: .*\x1b\[\?1049h")
        wait_for("an answer", lambda: self.prompt_count() > prompts_before)
        self.assertEqual(self.prompt_count(), prompts_before + 1, "the first answer is right")
        gtop.type("q")
        self.assertEqual(gtop.end(), 0)

    def test_an_interrupt_of_a_prompt_leads_to_the_screen(self):
        gtop = self.gtop("asks1")
        gtop.until(r"root@asks1: Password: ")
        wait_for("a terminal without echo", lambda: not termios.tcgetattr(gtop.slave)[3] & termios.ICANON)
        gtop.type(WRONG + "\x03")
        gtop.until(r"(?s)Password: .*\x1b\[\?1049h.*login prompt")
        gtop.type("\x03")
        self.assertEqual(gtop.end(), 130)
        self.assertEqual(termios.tcgetattr(gtop.slave)[:4], gtop.before[:4])
        self.assertNotIn(WRONG, gtop.text())

    def test_an_interrupt_of_a_prompt_without_a_screen_ends_gtop(self):
        gtop = self.gtop("--json", "asks1", is_screen=False)
        gtop.until(r"root@asks1: Password: ")
        wait_for("a terminal without echo", lambda: not termios.tcgetattr(gtop.slave)[3] & termios.ICANON)
        gtop.type(WRONG + "\x03")
        self.assertEqual(gtop.end(), 130)
        self.assertEqual(termios.tcgetattr(gtop.slave)[:4], gtop.before[:4])
        self.assertNotIn(WRONG, gtop.text())

    def test_a_signal_ends_a_prompt_without_a_screen(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            gtop = self.gtop("--json", "asks1", is_screen=False)
            gtop.until(r"root@asks1: Password: ")
            gtop.process.send_signal(number)
            self.assertEqual(gtop.end(), code)
            self.assertEqual(termios.tcgetattr(gtop.slave)[:4], gtop.before[:4])

    def test_a_signal_ends_a_prompt_during_the_screen_and_restores_the_terminal(self):
        gtop = self.gtop("asks1")
        gtop.answer(r"root@asks1: Password: ", "")
        gtop.until(r"login prompt")
        gtop.type("\x1b[15~")
        gtop.until(r"root@asks1: Password: ", times=2)
        gtop.process.send_signal(signal.SIGTERM)
        self.assertEqual(gtop.end(), 143)
        self.assertEqual(termios.tcgetattr(gtop.slave)[:4], gtop.before[:4])

    def test_closing_the_terminal_ends_gtop_at_any_time(self):
        def at_the_first_prompt(gtop):
            gtop.until(r"root@asks1: Password: ")

        def on_the_screen(gtop):
            gtop.answer(r"root@asks1: Password: ", "")
            gtop.until(r"login prompt")

        def while_suspended(gtop):
            on_the_screen(gtop)
            gtop.type("\x1b[15~")
            gtop.until(r"root@asks1: Password: ", times=2)

        def after_resuming(gtop):
            while_suspended(gtop)
            gtop.answer(r"root@asks1: Password: ", "", times=2)
            gtop.until(r"(?s)\x1b\[\?1049h.*\x1b\[\?1049h.*login prompt")

        for moment in at_the_first_prompt, on_the_screen, while_suspended, after_resuming:
            with self.subTest(moment.__name__):
                gtop = self.gtop("asks1")
                moment(gtop)
                gtop.hang_up()
                try:
                    self.assertIn(gtop.process.wait(10), (1, 129, 130))
                except subprocess.TimeoutExpired:
                    gtop.process.kill()
                    raise

    def test_without_a_terminal_the_fault_has_a_remedy(self):
        prompts_before = self.prompt_count()
        nodes = self.snapshot("asks1", "both", "password", "key")
        self.assertEqual(nodes["key"]["link"], "up")
        for name in ("asks1", "both"):
            fault = nodes[name]["fault"]
            self.assertEqual(fault["kind"], "login prompt", fault)
            self.assertIn("no terminal", fault["what"])
            self.assertIn(f"gtop login {name}", fault["remedy"])
        fault = nodes["password"]["fault"]
        self.assertEqual(fault["kind"], "authentication refused")
        self.assertIn("only a password", fault["detail"])
        self.assertIn("ssh-copy-id", fault["remedy"])
        self.assertEqual(self.prompt_count(), prompts_before, "no node was made to prompt")

    def test_an_open_master_is_used_for_its_host_and_all_nodes_behind_it(self):
        behind = [f"inner{number:02}" for number in range(1, 31)]
        # ssh prompts on its controlling terminal; the master must have detached from it before it closes.
        opening = "ssh -fNM gate && ssh -O check gate"
        master = Terminal(["--ctty", "--wait", "sh", "-c", opening], self.environment(), program="setsid")
        self.addCleanup(master.close)
        self.addCleanup(subprocess.run, [f"{self.folder}/bin/ssh", "-O", "exit", "gate"], env=self.environment(), capture_output=True, check=False)
        master.answer("Password: ", CODE, mode=termios.ECHO)
        self.assertEqual(master.end(), 0)
        prompts_before = self.prompt_count()
        for nodes in (["gate"], ["inner"], behind):
            with self.subTest(nodes[0]):
                # At a terminal, where a prompt would be shown.
                gtop = self.gtop("--json", "--watch", *nodes, is_screen=False)
                transports, end = {}, time.monotonic() + 4 * TIMEOUT
                while len(transports) < len(nodes):
                    snapshot = json.loads(gtop.process.stdout.readline())
                    transports.update((node["name"], node["transport"]) for node in snapshot["nodes"] if node["link"] == "up")
                    self.assertLess(time.monotonic(), end, f"of {nodes} only {transports}")
                self.assertEqual(transports, dict.fromkeys(nodes, "ssh"))
                gtop.read()
                self.assertNotIn("Password", gtop.text())
        self.assertEqual(self.snapshot("--transport", "native", "gate")["gate"]["fault"]["kind"], "login prompt")
        self.assertEqual(self.prompt_count(), prompts_before, "no node prompted")
        for node, words in (("gate", r"ok +master .*open at .*/master-"), ("inner", r"gate: over its master connection at .*/master-")):
            done = subprocess.run([*self.at_home(), GTOP, "doctor", node], env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            self.assertRegex(done.stdout, words)
        subprocess.run([f"{self.folder}/bin/ssh", "-O", "exit", "gate"], env=self.environment(), capture_output=True, check=True)
        done = subprocess.run([*self.at_home(), GTOP, "doctor", "gate"], env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        self.assertRegex(done.stdout, r"master .*no master connection is open")
        # Without the master the gateway prompts again.
        gtop = self.gtop("--json", "inner", is_screen=False)
        gtop.answer(r"root@gate: Password: ", CODE)
        self.assertEqual(gtop.end(), 0)
        self.assertEqual(json.loads(gtop.printed)["nodes"][0]["link"], "up")

    def test_nodes_refused_by_max_startups_come_up_in_one_snapshot(self):
        # Directly, and through a gateway that each of them uses.
        for name, *arguments in ("crowd", "--json"), ("crowd", "--once"), ("crowd", "--json", "--transport", "ssh"), ("far", "--json"):
            with self.subTest((name, arguments)):
                nodes, before = [f"{name}{number:02}" for number in range(1, 31)], len(self.read("log.crowd"))
                done = subprocess.run(
                    [*self.at_home(), GTOP, "--deadline", "100", *arguments, *nodes], env=self.environment(),
                    stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
                )  # fmt: skip
                if "--json" in arguments:
                    links = {node["name"]: node["link"] for node in json.loads(done.stdout)["nodes"]}
                    self.assertEqual(links, dict.fromkeys(nodes, "up"))
                else:
                    # Thirty names of one machine.
                    self.assertEqual(done.stdout.count("same machine as crowd01"), 29, done.stdout)
                self.assertIn("past MaxStartups", self.read("log.crowd")[before:])

    def test_the_reason_of_a_refused_login_is_reported_and_retried_later(self):
        # A port that closes at once is retried meanwhile, which defines how long to watch.
        listener = socket.create_server((ADDRESS, 23099))
        self.addCleanup(listener.close)
        reasons = {"closed": "Maintenance until 18:00 [2J Ask ada", "nologin": "Down for repairs", "nojob": NO_JOB}
        for transport in ("auto", "ssh"):
            with self.subTest(transport):
                logged = {name: self.read(f"log.{name}").count("Connection from") for name in reasons}
                arguments = ["--json", "--watch", "--interval", "0.2", "--transport", transport, *reasons, "denied", f"{ADDRESS}:23099"]
                watch = subprocess.Popen([*self.at_home(), GTOP, *arguments], env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
                self.addCleanup(watch.stdout.close)
                self.addCleanup(watch.wait)
                self.addCleanup(watch.kill)
                listener.settimeout(TIMEOUT)
                for _ in range(4):
                    listener.accept()[0].close()
                # Read all snapshots; the last one is current.
                watch.terminate()
                nodes = {node["name"]: node for node in json.loads(watch.stdout.read().splitlines()[-1])["nodes"]}
                for name, words in reasons.items():
                    fault = nodes[name]["fault"]
                    self.assertEqual(fault["kind"], "no job on the node" if name == "nojob" else "login refused", fault)
                    if transport == "auto":
                        self.assertEqual(fault["detail"], words)
                    self.assertIn(fault["detail"], words)
                    self.assertEqual(self.read(f"log.{name}").count("Connection from"), logged[name] + 1, name)
                # The general banner is not taken for the reason of the refusal.
                self.assertNotIn("Authorized use", nodes["denied"]["fault"]["detail"] if transport == "auto" else "")

    def test_a_passphrase_has_three_attempts(self):
        prompt = rf"Passphrase of {self.folder}/locked \(empty to skip\): "
        gtop = self.gtop("--json", "locked", "key", is_screen=False)
        for times in (1, 2, 3):
            gtop.answer(prompt, WRONG, times)
        self.assertEqual(gtop.end(), 0)
        links = {node["name"]: node for node in json.loads(gtop.printed)["nodes"]}
        self.assertEqual(links["locked"]["fault"]["kind"], "key needs a passphrase")
        self.assertEqual(links["key"]["link"], "up")
        gtop = self.gtop("--json", "locked", is_screen=False)
        gtop.answer(prompt, WRONG)
        gtop.answer(prompt, "open sesame", 2)
        self.assertEqual(gtop.end(), 0)
        self.assertEqual(json.loads(gtop.printed)["nodes"][0]["link"], "up")
        self.assertNotIn("open sesame", gtop.text())

    def test_keys_of_nodes_that_slurm_names_late_are_asked_for_on_the_screen(self):
        released = f"{self.folder}/released"
        self.write("bin/squeue", SQUEUE.replace("RELEASED", released), 0o755)
        self.addCleanup(os.remove, f"{self.folder}/bin/squeue")
        gtop = self.gtop("--slurm")
        gtop.until("asking Slurm")
        self.assertNotIn("Passphrase", gtop.text())
        self.write("released", "")
        gtop.answer(rf"Passphrase of {self.folder}/locked \(empty to skip\): ", "open sesame")
        gtop.until("1 of 1 node fresh")
        self.assertNotIn("open sesame", gtop.text())
        gtop.type("q")
        self.assertEqual(gtop.end(), 0)

    def test_doctor_prompts_as_monitoring_does(self):
        gtop = self.gtop("doctor", "locked", "both", is_screen=False)
        gtop.answer(rf"Passphrase of {self.folder}/locked \(empty to skip\): ", "open sesame")
        gtop.answer(r"root@both: Password: ", CODE)
        self.assertEqual(gtop.end(), 0, gtop.text() + gtop.printed.decode())
        printed = gtop.printed.decode()
        self.assertRegex(printed, r"(?s)^locked\n.*\nboth\n.*accepted, more required: .*accepted: your answer")
        self.assertNotIn(CODE, printed + gtop.text())

    def test_doctor_without_a_terminal_shows_the_remedy(self):
        for node, words in (
            ("asks1", r"FAILED +login .*\n.*\n.*> log in once, and gtop shares the connection: gtop login asks1"),
            ("password", r"node offers: password(?s:.*)PubkeyAuthentication yes"),
            ("locked", rf"not offered: {self.folder}/locked \(encrypted(?s:.*): eval \$\(ssh-agent\) && ssh-add {self.folder}/locked"),
        ):
            with self.subTest(node):
                done = subprocess.run([*self.at_home(), GTOP, "doctor", node], env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stdout, words)


if __name__ == "__main__":
    unittest.main()
