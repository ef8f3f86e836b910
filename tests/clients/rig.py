"""What the tests of this folder share: the stand-in for NVML, gtop on it, real clients of NVML, and processes to show.

GTOP is the program. What comes from the package index lies beside the build in CLIENTS (a folder), an environment with
today's packages and folders with older ones. Without a network or a C compiler tests are skipped and say why.
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
PACKAGES = ["nvidia-ml-py", "nvitop", "gpustat", "jsonschema"]
OLDER = ["10.418.84", "12.535.77"]     # of nvidia-ml-py
PYTHON = os.path.join(CLIENTS, "bin", "python")
MIB = 1 << 20
PLACE = tempfile.mkdtemp()             # of everything these tests write
atexit.register(shutil.rmtree, PLACE, True)


def install():
    """Brings the packages, once; why not, where that fails."""
    wanted = " ".join(PACKAGES + OLDER)
    note = os.path.join(CLIENTS, "installed")
    if os.path.exists(note):
        with open(note) as said:
            if said.read() == wanted:
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
    return tempfile.mkdtemp(dir=PLACE)


def older(version):
    """Where an older nvidia-ml-py lies."""
    return os.path.join(CLIENTS, "nvidia-ml-py-" + version)


def needs_packages():
    why = install()
    if why:
        raise unittest.SkipTest(f"no clients of NVML: {why}")


class Machine:
    """A machine as a scenario tells it; everything run on it sees that and nothing else of NVML."""

    sleepers = []

    def __init__(self, scenario, entry=24, **environment):
        self.place = folder()
        self.state = os.path.join(self.place, "state")
        self.write(scenario)
        usual = {"LD_LIBRARY_PATH": self.library(entry), "NVML_STUB_STATE": self.state, "HOME": self.place, "COLUMNS": "79"}
        self.environment = {**os.environ, **usual, **environment}

    def write(self, scenario):
        """The scenario from now on. Replaced as a whole: nobody reads half of it."""
        with open(self.state + ".new", "w") as out:
            out.write(scenario)
        os.replace(self.state + ".new", self.state)

    @staticmethod
    def library(entry):
        """The folder with the stand-in whose lists of processes have entries of so many bytes."""
        place = os.path.join(PLACE, f"library-{entry}")
        if not os.path.exists(place):
            os.mkdir(place)
            command = ["cc", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1",
                       f"-DENTRY={entry}", "-o", os.path.join(place, "libnvidia-ml.so.1")]
            try:
                subprocess.check_call(command + [os.path.join(ROOT, "tests", "stubs", "nvml.c")])
            except OSError as trouble:
                raise unittest.SkipTest(f"no C compiler: {trouble}") from trouble
        return place

    @classmethod
    def pids(cls, count):
        """The numbers of so many processes that are really there: clients leave out what is not."""
        while len(cls.sleepers) < count:
            sleeper = subprocess.Popen(["sleep", "100000"])
            atexit.register(sleeper.wait)
            atexit.register(sleeper.kill)
            cls.sleepers.append(sleeper)
        return [sleeper.pid for sleeper in cls.sleepers[:count]]

    def run(self, *command, seconds=60, said=""):
        """Exit status, output, complaints; None when it did not end in that time."""
        try:
            done = subprocess.run(command, env=self.environment, input=said.encode(), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return None
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def snapshot(self, *words):
        code, out, complaints = self.run(GTOP, "--json", "--deadline", "60", *words)
        assert out, (code, complaints)
        return json.loads(out)

    def node(self, *words):
        return self.snapshot("--local", *words)["nodes"][0]

    def start(self, *command):
        """A program that goes on; read its output line by line."""
        return subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def source(node, name):
    return next(source for source in node["sources"] if source["id"] == name)
