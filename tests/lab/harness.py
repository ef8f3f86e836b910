"""The harness of the lab tests: a lab, gtop running in it, and a terminal.

The shapes of gtop's JSON that tests rely on are named here, once.
"""

import fcntl
import importlib.machinery
import importlib.util
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
SCRIPT = f"{HERE}/lab"

# The connect timeout, short so that a silent node fails soon.
CONNECT_TIMEOUT = 4
# The timeout for things that normally take a second or two: the machine may be small and busy.
TIMEOUT = 30


def load_script():
    """Returns the lab script as a module; it reads the processes of a lab without starting one."""
    loader = importlib.machinery.SourceFileLoader("lab_script", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lab_script", loader))
    loader.exec_module(module)
    return module


def wait_for(what, condition, deadline=TIMEOUT, pause=0.05):
    """Polls until `condition` returns something true, and returns that."""
    end, seen = time.monotonic() + deadline, None
    while True:
        seen = condition()
        if seen:
            return seen
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline} s: {what() if callable(what) else what}")
        time.sleep(pause)


def with_connect_timeout(arguments):
    """Returns the arguments of gtop with a connect timeout, if they have none."""
    has_own = "--connect-timeout" in arguments
    return arguments if has_own else ("--connect-timeout", str(CONNECT_TIMEOUT), *arguments)


class Unsupported(Exception):
    """The lab cannot do this on this machine; the message says why."""


class Lab:
    """A lab that lives as long as this object, and no longer than this process."""

    def __init__(self, nodes, gpus=8):
        self.state = tempfile.mkdtemp(prefix="gtop-lab.")
        self.environment = {**os.environ, "GTOP_LAB": self.state, "GTOP_PIDS": "own"}
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT, "run", str(nodes), str(gpus)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment,
        )  # fmt: skip
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the lab did not come up")
        self.script = load_script()
        self.script.STATE = self.state
        self.root = f"/proc/{self.script.lab_pid()}/root"
        self.nodes = sorted(os.listdir(f"{self.root}/run/lab/nodes"))
        self.running = []

    def close(self):
        for thing in reversed(self.running):
            thing.close()
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self("down")

    def __call__(self, *arguments, **options):
        """Runs a verb of the lab script and returns what it prints."""
        options = {"capture_output": True, "text": True, "env": self.environment, **options}
        done = subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], check=False, **options)
        if done.returncode != 0:
            raise Unsupported(f"lab {' '.join(map(str, arguments))}: {done.stderr.strip()}")
        return done.stdout

    def command(self, *arguments, home=None, user="alice", node=""):
        options = ["-H", home] if home else []
        return self.script.command_in("-u", user, "-n", node, *options, "--", *arguments)

    def run(self, *arguments, timeout=60, stdin="", **options):
        """Runs a command in the lab, as alice on the login node, and returns the finished process."""
        command = self.command(*arguments, **options)
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, input=stdin, check=False)

    def fault(self, verb, node, *arguments):
        self("fault", verb, node, *arguments)

    def write_file(self, node, path, text):
        """Writes a file in alice's home on a node."""
        target = f"{self.root}/run/lab/nodes/{node}/home/alice/{path}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)

    def home(self, name):
        """Creates another home of alice on the login node; returns its path as seen by this process."""
        self.run("true", home=name)
        return f"{self.root}/run/lab/homes/{name}"

    def forget(self, home, *nodes):
        """Removes nodes from a home's known_hosts; returns the path of the file."""
        path = f"{self.home(home)}/.ssh/known_hosts"
        with open(path, encoding="utf-8") as file:
            kept = [line for line in file if line.split()[0] not in nodes]
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(kept)
        return path

    def fingerprint(self, node):
        """Returns the fingerprint of a node's host key, as ssh-keygen prints it."""
        path = f"{self.root}/run/lab/nodes/{node}/hostkey.pub"
        return subprocess.run(["ssh-keygen", "-lf", path], check=True, stdout=subprocess.PIPE, text=True).stdout.split()[1]

    def set_gpus(self, node, text):
        self("gpus", node, input=text)

    def gpu_file(self, node):
        """Returns the content of the file that the node's nvidia-smi stub reports."""
        return self.script.read(f"{self.root}/run/lab/nodes/{node}/gpus")

    def gpu_values(self, node):
        """Returns these values as a list of dicts, one per device."""
        lines = [line.split() for line in self.gpu_file(node).splitlines() if line.startswith("gpu ")]
        return [{"index": line[1], **dict(word.split("=", 1) for word in line[2:] if "=" in word)} for line in lines]

    def leftovers(self, node):
        """Returns {pid: command line} of alice's processes on a node, except her training runs and sshd."""
        return self.script.leftovers(node)

    def bytes_in_pipe(self, node):
        """Returns the number of unread bytes in the pipe between the node's probe and its sshd."""
        processes = self.script.processes()
        for pid in self.leftovers(node):
            parent = processes.get(pid, (0,))[0]
            if processes.get(parent, (0, 0, [""]))[2][0].startswith("sshd: "):
                pipe = os.open(f"/proc/{pid}/fd/1", os.O_RDONLY | os.O_NONBLOCK)
                try:
                    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
                finally:
                    os.close(pipe)
        return 0

    def find(self, *arguments):
        """Returns the pid, as seen by this process, of the gtop that was started with these arguments."""
        for pid, (_, _, found) in self.script.processes().items():
            if found[:1] and os.path.basename(found[0]) == "gtop" and found[1:] == list(arguments):
                if self.contains(pid):
                    return pid
        return None

    def contains(self, pid):
        """Returns True if the process runs on the login node of this lab, not in another lab or outside."""
        try:
            return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink(f"/proc/{self.script.lab_pid()}/ns/pid")
        except FileNotFoundError:
            return False  # it ended meanwhile

    def gtop(self, *arguments, **options):
        return self.run("gtop", *arguments, **options)

    def snapshot(self, *arguments, **options):
        """Returns one complete snapshot, parsed."""
        done = self.gtop("--json", *with_connect_timeout(arguments), **options)
        if not done.stdout:
            raise AssertionError(f"gtop --json printed nothing; exit code {done.returncode}: {done.stderr}")
        return Snapshot(json.loads(done.stdout))

    def watch(self, *arguments, home=None):
        return self.track(Watch(self, arguments, home))

    def background(self, *arguments):
        return self.track(Background(self, arguments))

    def terminal(self, size=(120, 40), home=None):
        return self.track(Terminal(self, size, home))

    def track(self, thing):
        """Closes it together with the lab."""
        self.running.append(thing)
        return thing


class LabCase(unittest.TestCase):
    """Tests that share one lab; a class sets its number of nodes."""

    NODES, GPUS = 4, 4

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(cls.NODES, cls.GPUS)
        cls.addClassCleanup(cls.lab.close)
        cls.prepare()

    @classmethod
    def prepare(cls):
        """Prepares the nodes for these tests."""


# ---- gtop's JSON -----------------------------------------------------------------------------------------


class Snapshot:
    """One snapshot of the fleet as gtop prints it."""

    def __init__(self, value, arrived=None):
        self.value, self.arrived = value, arrived if arrived is not None else time.time()

    def node(self, name):
        for node in self.value["nodes"]:
            if node["name"].rpartition("@")[2] == name:
                return Node(node)
        raise AssertionError(f"{name} is not among {[node['name'] for node in self.value['nodes']]}")

    def up(self):
        return sorted(Node(node).name for node in self.value["nodes"] if Node(node).up)


class Node:
    """One node of a snapshot."""

    def __init__(self, value):
        self.value, self.name = value, value["name"]

    @property
    def link(self):
        return self.value["link"]

    @property
    def up(self):
        return self.link == "up"

    @property
    def fault(self):
        """Why the node is down, as one line; empty if it is not."""
        fault = self.value["fault"] or {}
        return ": ".join(filter(None, (fault.get("kind"), fault.get("detail"))))

    @property
    def remedy(self):
        return (self.value["fault"] or {}).get("remedy", "")

    @property
    def problems(self):
        """The faults of the node's sources and devices, as text."""
        faults = [source.get("fault") or source.get("absent") for source in self.value["sources"]]
        return json.dumps([fault for fault in faults + [device["fault"] for device in self.devices] if fault])

    @property
    def devices(self):
        return self.value["devices"]

    @property
    def host(self):
        return self.value["host"]

    @property
    def live(self):
        return self.up and self.age("host") is not None

    def age(self, source):
        """Returns the age of a source in seconds; None before its first sample."""
        ages = [entry["age_seconds"] for entry in self.value["sources"] if entry["id"] == source]
        return ages[0] if ages else None


# Keys of gtop's JSON, and the value expected for the stub's settings; constants are fixed in the stub.
DEVICE_VALUES = {
    "index": lambda gpu: int(gpu["index"]),
    "uuid": lambda gpu: gpu["uuid"],
    "name": lambda gpu: "NVIDIA H100 80GB HBM3",
    "driver_version": lambda gpu: "570.86.15",
    "utilization_percent": lambda gpu: int(gpu["util"]),
    "memory_utilization_percent": lambda gpu: int(gpu["memutil"]),
    "memory_used_bytes": lambda gpu: int(gpu["used_mib"]) << 20,
    "memory_total_bytes": lambda gpu: 81559 << 20,
    "temperature_celsius": lambda gpu: int(gpu["temp"]),
    "memory_temperature_celsius": lambda gpu: int(gpu["temp"]) + 8,
    "power_watts": lambda gpu: int(gpu["power_mw"]) / 1000,
    "power_limit_watts": lambda gpu: 700,
    "sm_clock_megahertz": lambda gpu: 1980,
    "memory_clock_megahertz": lambda gpu: 2619,
    "fan_percent": lambda gpu: None,
    "performance_state": lambda gpu: 0,
    "mig_enabled": lambda gpu: False,
}


# ---- gtop in the background ------------------------------------------------------------------------------


class Watch:
    """`gtop --json --watch`: each snapshot it printed, with its time of arrival."""

    def __init__(self, lab, arguments, home):
        self.lab, self.snapshots, self.errors = lab, [], tempfile.TemporaryFile("w+")
        self.arguments = ["--json", "--watch", *with_connect_timeout(arguments)]
        self.nodes = [word for word in arguments if word.startswith("gpu")]
        self.started = time.time()
        self.process = subprocess.Popen(
            lab.command("gtop", *self.arguments, home=home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.snapshots.append(Snapshot(json.loads(line), time.time()))

    def latest(self):
        return self.snapshots[-1] if self.snapshots else None

    def until(self, what, condition, deadline=TIMEOUT, after=None):
        """Waits for a snapshot that meets the condition, and returns the first of them.

        All snapshots from the latest on are looked at, or all that follow the first `after` ones.
        """
        after = max(len(self.snapshots) - 1, 0) if after is None else after

        def attempt():
            nonlocal after
            ended = self.process.poll() is not None
            for seen in self.snapshots[after:]:
                if condition(seen):
                    return seen
                after += 1
            if ended:
                raise AssertionError(f"gtop ended; {what}; the last line: {self.describe()}")
            return None

        return wait_for(lambda: f"{what}; the last line: {self.describe()}", attempt, deadline)

    def until_down(self, node, pattern, deadline=TIMEOUT, after=None):
        """Waits until a node is down for a reason that matches, and returns the reason; `after` as in `until`."""
        seen = self.until(
            f"{node} down: {pattern}",
            lambda snapshot: not snapshot.node(node).up and re.search(pattern, snapshot.node(node).fault, re.IGNORECASE),
            deadline,
            after,
        )
        return seen.node(node).fault

    def until_live(self, node, deadline=TIMEOUT):
        """Waits until a node is up and has reported its host."""
        return self.until(f"{node} live", lambda snapshot: snapshot.node(node).live, deadline).node(node)

    def describe(self):
        self.errors.seek(0)
        seen = self.latest()
        return (json.dumps(seen.value)[:4000] if seen else "none") + f" stderr: {self.errors.read()[-2000:]}"

    @property
    def pid(self):
        return wait_for("gtop runs", lambda: self.lab.find(*self.arguments))

    def close(self):
        pid = self.lab.find(*self.arguments)
        if pid:
            os.kill(pid, signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        self.process.stdout.close()
        self.errors.close()


class Background:
    """A command that runs as alice on the login node until the lab ends."""

    def __init__(self, lab, arguments):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            lab.command(*arguments), stdin=subprocess.DEVNULL, stdout=self.errors, stderr=self.errors, text=True
        )  # fmt: skip

    def close(self):
        self.process.terminate()
        self.process.wait(10)
        self.errors.close()


# ---- a terminal ------------------------------------------------------------------------------------------


class Terminal:
    """A terminal with a shell in it, on the login node; tmux draws it."""

    count = 0

    def __init__(self, lab, size, home):
        Terminal.count += 1
        self.lab, self.home, self.name, self.arguments = lab, home, f"t{Terminal.count}", ()
        self.tmux(
            "-f", "/dev/null", "-u", "new-session", "-d", "-s", "s", "-x", str(size[0]), "-y", str(size[1]),
            "env PS1='ready> ' RUST_BACKTRACE=1 COLORTERM=truecolor bash --norc -i",
        )  # fmt: skip
        self.until("a prompt", r"ready> *$")

    def tmux(self, *arguments):
        return subprocess.run(
            self.lab.command("tmux", "-L", self.name, *arguments, home=self.home), check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    def type(self, *keys):
        self.tmux("send-keys", "-t", "s", *keys)

    def command(self, line):
        self.tmux("send-keys", "-t", "s", "-l", line)
        self.type("Enter")

    def gtop(self, *arguments):
        """Starts gtop from the shell prompt."""
        self.arguments = with_connect_timeout(arguments)
        self.command("gtop " + " ".join(self.arguments))

    @property
    def pid(self):
        """The pid of the gtop in this terminal."""
        return wait_for(lambda: f"gtop runs; on screen: {self.text()}", lambda: self.lab.find(*self.arguments))

    def paste(self, text):
        """Pastes a text, marked as pasted if the program in the terminal wants that."""
        self.tmux("set-buffer", text)
        self.tmux("paste-buffer", "-p", "-t", "s")

    def text(self):
        return self.tmux("capture-pane", "-p", "-t", "s").rstrip("\n")

    def until(self, what, pattern, deadline=TIMEOUT):
        """Waits until the screen matches, and returns it."""

        def attempt():
            text = self.text()
            return text if re.search(pattern, text, re.MULTILINE) else None

        return wait_for(lambda: f"{what}; on screen:\n{self.text()}", attempt, deadline)

    def resize(self, width, height):
        self.tmux("resize-window", "-t", "s", "-x", str(width), "-y", str(height))

    def alternate(self):
        return self.tmux("display-message", "-p", "-t", "s", "#{alternate_on}").strip() == "1"

    def modes(self):
        """Returns the terminal modes as printed by stty, and tmux's flags for screen, mouse, keypad and cursor."""
        path = f"/tmp/{self.name}.stty"
        self.command(f"stty -a >{path}.new; mv {path}.new {path}")
        target = self.lab.root + path
        wait_for(f"stty wrote; on screen:\n{self.text()}", lambda: os.path.exists(target))
        with open(target, encoding="utf-8") as file:
            settings = file.read()
        os.remove(target)
        flags = "#{alternate_on} #{mouse_any_flag} #{keypad_cursor_flag} #{cursor_flag}"
        return settings, self.tmux("display-message", "-p", "-t", "s", flags).strip()

    def kill(self, pid):
        """Kills a gtop, if it still runs."""
        if pid == self.lab.find(*self.arguments):
            os.kill(pid, signal.SIGKILL)
            wait_for("gtop ended", lambda: pid != self.lab.find(*self.arguments))

    def close(self):
        subprocess.run(
            self.lab.command("tmux", "-L", self.name, "kill-server", home=self.home), check=False, stderr=subprocess.DEVNULL
        )
