"""Shared by the tests of this folder: the NVML stub, gtop and real NVML clients running on it, and processes to show.

GTOP is the program. CLIENTS is the folder of the Python packages: a virtual environment with current versions, and folders
with older ones; default: beside the build. Without a network or a C compiler, tests are skipped with a message.
"""

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GTOP = os.environ.get("GTOP", os.path.join(ROOT, "target", "debug", "gtop"))
CLIENTS = os.environ.get("CLIENTS", os.path.join(os.path.dirname(os.path.dirname(GTOP)), "clients"))
PACKAGES = ["nvidia-ml-py", "nvitop", "gpustat", "jsonschema", "mypy", "pcodec", "vermin"]
OLDER = ["10.418.84", "12.535.77"]     # of nvidia-ml-py
PYTHON = os.path.join(CLIENTS, "bin", "python")
MIB = 1 << 20
SCRATCH = tempfile.mkdtemp()           # for all files that these tests write
atexit.register(shutil.rmtree, SCRATCH, True)


def install():
    """Installs the packages if they are missing; returns the reason if that fails."""
    wanted = " ".join(PACKAGES + OLDER)
    note = os.path.join(CLIENTS, "installed")
    if os.path.exists(note):
        with open(note) as file:
            if file.read() == wanted:
                return None
    pip = [PYTHON, "-m", "pip", "-q", "install"]
    commands = [] if os.path.exists(PYTHON) else [[sys.executable, "-m", "venv", CLIENTS]]
    commands += [pip + PACKAGES]
    commands += [pip + ["--no-deps", "--upgrade", "--target", older(one), f"nvidia-ml-py=={one}"] for one in OLDER]
    for command in commands:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
        if done.returncode:
            words = done.stdout.decode(errors="replace").strip().split("\n")
            return f"{' '.join(command[1:4])} failed: {words[-1][:200]}"
    with open(note, "w") as out:
        out.write(wanted)
    return None


def folder():
    return tempfile.mkdtemp(dir=SCRATCH)


def older(version):
    """Returns the folder of an older nvidia-ml-py."""
    return os.path.join(CLIENTS, "nvidia-ml-py-" + version)


def recorded_lines(path, *words):
    """Returns the lines of a recording, or of its sums, as text."""
    needs_packages()
    command = [PYTHON, os.path.join(HERE, "recorded_lines.py"), *words, path]
    return subprocess.run(command, stdout=subprocess.PIPE, timeout=300, check=True).stdout.decode()


def needs_packages():
    why = install()
    if why:
        raise unittest.SkipTest(f"no clients of NVML: {why}")


class Machine:
    """A simulated machine: programs run on it see the NVML devices of a scenario, and no others."""

    sleepers = []

    def __init__(self, scenario, entry=24, **environment):
        self.home = folder()
        self.state = os.path.join(self.home, "state")
        self.write(scenario)
        defaults = {"LD_LIBRARY_PATH": self.library(entry), "NVML_STUB_STATE": self.state, "HOME": self.home, "COLUMNS": "79",
                    # On a busy machine, the first sample may come after the default one.
                    "GTOP_DEADLINE": "60"}
        self.environment = {**os.environ, **defaults, **environment}

    @classmethod
    def without_library(cls, scenario, program=None):
        """Returns a machine without NVML, whose nvidia-smi is the stub or this text; an empty one means that there is none."""
        machine = cls(scenario, LD_LIBRARY_PATH="")
        machine.set_program(program)
        return machine

    def set_program(self, program):
        """Makes nvidia-smi the stub, this text, or nothing."""
        tools = os.path.join(self.home, "tools")
        os.mkdir(tools)
        if program is None:
            os.symlink(os.path.join(ROOT, "tests", "stubs", "nvidia-smi"), os.path.join(tools, "nvidia-smi"))
        elif program:
            with open(os.path.join(tools, "nvidia-smi"), "w") as out:
                out.write(program)
            os.chmod(out.name, 0o755)
        self.environment["PATH"] = tools + ":/usr/bin:/bin"

    def add_bus(self, *addresses, has_kmsg=True, driver="nvidia"):
        """Gives the machine a PCI bus with NVIDIA devices of a driver at these addresses, and no device files of them."""
        root = os.path.join(self.home, "root")
        self.environment["GTOP_ROOT"] = root

        def write(name, text):
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as out:
                out.write(text)
        for minor, address in enumerate(addresses):
            function = f"sys/bus/pci/devices/{address}"
            for name, text in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200")):
                write(f"{function}/{name}", text + "\n")
            os.symlink("../../../bus/pci/drivers/" + driver, os.path.join(root, function, "driver"))
            if driver == "nvidia":
                write(f"proc/driver/nvidia/gpus/{address}/information", f"Device Minor: \t {minor}\n")
        if has_kmsg:
            write("dev/kmsg", "")

    def write(self, scenario):
        """Replaces the scenario, atomically."""
        with open(self.state + ".new", "w") as out:
            out.write(scenario)
        os.replace(self.state + ".new", self.state)

    @staticmethod
    def library(entry):
        """Returns the folder of the NVML stub whose process list entries have this many bytes."""
        path = os.path.join(SCRATCH, f"library-{entry}")
        if not os.path.exists(path):
            os.mkdir(path)
            command = ["cc", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1",
                       f"-DENTRY={entry}", "-o", os.path.join(path, "libnvidia-ml.so.1")]
            try:
                subprocess.check_call(command + [os.path.join(ROOT, "tests", "stubs", "nvml.c")])
            except OSError as error:
                raise unittest.SkipTest(f"no C compiler: {error}") from error
        return path

    @classmethod
    def pids(cls, count):
        """Returns the pids of this many running processes: clients leave out processes that do not exist."""
        while len(cls.sleepers) < count:
            sleeper = subprocess.Popen(["sleep", "100000"])
            atexit.register(sleeper.wait)
            atexit.register(sleeper.kill)
            cls.sleepers.append(sleeper)
        return [sleeper.pid for sleeper in cls.sleepers[:count]]

    def run(self, *command, seconds=60, stdin=""):
        """Returns (exit status, standard output, standard error); None after a timeout."""
        try:
            done = subprocess.run(command, env=self.environment, input=stdin.encode(), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return None
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def snapshot(self, *words):
        code, out, err = self.run(GTOP, "--json", *words)
        assert out, (code, err)
        return json.loads(out)

    def node(self, *words):
        return self.snapshot("--local", *words)["nodes"][0]

    def start(self, *command):
        """Starts a program; read its output line by line."""
        return subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def source(node, name):
    return next(source for source in node["sources"] if source["id"] == name)
