"""The programs and sessions in nvitop's README run with `gtop python` as they are, but for the import line.

    GTOP=path/to/gtop GTOP_TABLES=path/to/python python3 -m unittest -v test_nvitop_programs

They are taken from the installed nvitop. GTOP_TABLES is a Python with pandas, from PyPI; without one, the program that needs
it is skipped. torch, tensorboard and cupy are stand-ins; what the README leaves out (`...`, `train`, a UUID) is given.
"""

import glob
import json
import os
import re
import subprocess
import unittest

import rig
from rig import Machine
from scenarios import DRIVER
from test_python import TABLE, module_folder

PANDAS = os.environ.get("GTOP_TABLES")
# What the README writes for what is different on each machine, and a comma that it lacks.
GIVEN = {"GPU-xxxxxxxx-...": "GPU-0abc0006-0000-4000-8000-000000000006", "00000000:06:00.0": "00000000:29:00.0",
         "logger = ...": "logger = Logger()", "normalize_cuda_visible_devices\n": "normalize_cuda_visible_devices,\n"}
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"

# By the title in docs/python.md: a text by which the program is found.
PROGRAMS = {
    "choosing devices with `select_devices`": ["min_free_memory='8GiB'"],
    "devices and processes, plain": ["Device.all()  # or `Device.cuda.all()` to use"],
    "devices and processes, coloured": ["NA, colored"],
    "a training with TensorBoard": ["SummaryWriter()"],
    "metrics to a CSV file with pandas": ["import pandas as pd"],
    "metrics in the background": ["def on_collect(metrics)", "daemonize("],
}
SESSIONS = {
    "session: `take_snapshots`": ["SnapshotResult("],
    "session: `ResourceMetricCollector`": ["key -> '<tag>"],
    "session: devices, processes, `NA` and the host": [
        "from nvitop import NA\n>>> NA", "PhysicalDevice, CudaDevice,", "Union[int, NaType]", "sorted(Device.all()",
        "process.as_snapshot()", "host.cpu_times()"],
}
MODULES = {"import nvitop as alias": "`import nvitop.api` and `nvitop.device`", "import nvitop.tui": "`nvitop.cli` and `nvitop.tui`"}

# What precedes and follows programs.
AROUND = {
    "a training with TensorBoard": ("""
import sys, types
written = []
for name in ("torch", "torch.nn", "torch.nn.functional", "torch.utils", "torch.utils.tensorboard"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["torch"].nn = sys.modules["torch.nn"]
sys.modules["torch.nn"].functional = sys.modules["torch.nn.functional"]
sys.modules["torch.utils.tensorboard"].SummaryWriter = lambda: types.SimpleNamespace(
    add_scalar=lambda tag, scalar, global_step, walltime: written.append((tag, float(scalar))))
num_epoch, train_dataset, validation_dataset, net = 2, [1, 2], [3], None
train = validate = lambda net, data: {"loss": 0.5}
""", """
print(dict(written)["resources/train/batch/cuda:0 (gpu:9)/memory_used (MiB)/mean"])
"""),
    "metrics to a CSV file with pandas": ("""
import os, time
os.chdir(os.environ["HOME"])
wait, time.sleep = time.sleep, lambda seconds: wait(min(seconds, 0.02))
""", """
import csv
with open("results.csv") as file:
    rows = list(csv.DictReader(file))
print(len(rows), rows[-1]["resources/gpu:1/memory_used (MiB)/mean"])
"""),
    "metrics in the background": ("""
import time
wait, time.sleep = time.sleep, lambda seconds: wait(min(seconds, 0.1))
class Logger:
    logged = closed = 0
    def log(self, metrics):
        self.logged += "metrics-daemon/cuda:0 (gpu:9)/memory_used (MiB)/mean" in metrics
    def is_closed(self):
        return self.closed or self.logged >= 4
    def close(self):
        self.closed += 1
""", """
end = time.monotonic() + 120
import threading
while any(thread.name == "metrics-daemon" for thread in threading.enumerate()) and time.monotonic() < end:
    wait(0.05)
print(logger.logged >= 4)
"""),
}

# Runs the inputs of a session; prints what each ends with.
SESSION = """
import ast, json, sys
names, found = {}, []
for text in json.load(sys.stdin):
    try:
        tree = ast.parse(text)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "README", "exec"), names)
        found.append(repr(None if last is None else eval(compile(ast.Expression(last.value), "README", "eval"), names)))
    except Exception as error:
        found.append("%s: %s" % (type(error).__name__, error))
print(json.dumps(found))
"""


def blocks():
    """Returns the Python blocks of the README."""
    path, = glob.glob(os.path.join(rig.CLIENTS, "lib", "python3*", "site-packages", "nvitop-*.dist-info", "METADATA"))
    with open(path) as file:
        return re.findall(r"^```python\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)


def inputs(block):
    """Returns the inputs of a session; the block itself if it is none."""
    if ">>> " in block:
        return re.findall(r"^>>> (.*)", block, re.MULTILINE)
    found = []
    for line in block.split("\n"):
        first, more = re.match(r"In \[\d+\]: (.*)", line), re.match(r" +\.\.\.: ?(.*)", line)
        if first:
            found.append(first.group(1))
        elif more and found:
            found[-1] += "\n" + more.group(1)
    return [text + "\n" for text in found] or [block]


def is_error(text):
    return re.match(r"\w+(Error|Exception|NotFound|NoSuchProcess\w*|AccessDenied): ", text) is not None


class Programs(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        rig.needs_packages()
        cls.folder = module_folder()
        cls.blocks = blocks()

    def found(self, texts):
        return [block for text in texts for block in self.blocks if text in block]

    def machine(self):
        """Returns ten GPUs, and the pid of a process on the second, which a session ends."""
        child = subprocess.Popen(["sleep", "100000"])
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        pids = Machine.pids(2)
        lines = [f"gpu {i} used_mib={50 + 10 * i} util={i} temp=40 fan=30" + (f" uuid={UUID}" if i == 1 else "") for i in range(10)]
        scenario = DRIVER + "\n".join(lines) + f"\nproc 0 {pids[0]} 40\nproc 1 {child.pid} 60 sm=5\nproc 9 {pids[1]} 30\n"
        machine = Machine(scenario, GTOP=rig.GTOP, PYTHONPATH=self.folder, CUDA_VISIBLE_DEVICES="9,8,7,6",
                          CUDA_DEVICE_ORDER="PCI_BUS_ID")
        return machine, child.pid

    @staticmethod
    def text(block, module, pid):
        for placeholder, value in {**GIVEN, "23266": str(pid)}.items():
            block = block.replace(placeholder, value)
        return re.sub(r"\bnvitop\b(?= import)", module, block)

    def test_programs(self):
        for title, texts in PROGRAMS.items():
            with self.subTest(title):
                found = self.found(texts)
                self.assertEqual(len(found), len(texts))
                needs_pandas = "pandas" in title
                if needs_pandas and not PANDAS:
                    self.skipTest("GTOP_TABLES names no Python with pandas")
                machine, pid = self.machine()
                before, after = AROUND.get(title, ("", "\nprint(os.environ['CUDA_VISIBLE_DEVICES'])" if "select" in title else ""))
                outs = []
                for module in ["gtop_monitor"] if needs_pandas else ["nvitop", "gtop_monitor"]:
                    code = before + "".join(self.text(block, module, pid) for block in found) + after
                    done = machine.run(PANDAS if needs_pandas else rig.PYTHON, "-c", code, seconds=300)
                    self.assertIsNotNone(done, "hangs")
                    self.assertEqual(done[0], 0, done[2])
                    outs.append(done[1])
                self.check(title, outs)

    def check(self, title, outs):
        if "pandas" in title:
            self.assertEqual(outs, ["60 60.0\n"])
        elif "plain" in title or "coloured" in title:
            # The descriptions of processes, and their times, differ.
            theirs, ours = ([line for line in out.split("\n") if line.startswith(("  -", "Phys", "Cuda", "---"))] for out in outs)
            self.assertGreater(len(ours), 30)
            self.assertEqual(ours, theirs)
        else:
            self.assertTrue(outs[1].strip())
            self.assertEqual(outs[1], outs[0])

    def test_sessions(self):
        for title, texts in SESSIONS.items():
            with self.subTest(title):
                found = self.found(texts)
                self.assertEqual(len(found), len(texts))
                answers = []
                for module in ("nvitop", "gtop_monitor"):
                    machine, pid = self.machine()
                    lines = [self.text(text, module, pid) for block in found for text in inputs(block)]
                    lines = ["import sys, types; sys.modules['cupy'] = types.SimpleNamespace(zeros=lambda shape: None)"] + lines
                    done = machine.run(rig.PYTHON, "-c", SESSION, seconds=300, stdin=json.dumps(lines))
                    self.assertEqual(done[0], 0, done[2])
                    answers.append(json.loads(done[1]))
                for line, their, our in zip(lines, *answers):
                    with self.subTest(line):
                        self.assertTrue(is_error(their) or not is_error(our), our)
                        if their in ("True", "'8862MiB'", "'running'") or their.isdigit() and "pid" not in line and "update" not in line:
                            self.assertEqual(our, their)

    def test_the_page_lists_them_all(self):
        with open(TABLE) as file:
            page = file.read()
        rows = dict(re.findall(r"^\| (.*) \| (yes|no) \| .* \|$", page.split("<!-- nvitop programs -->")[1].split("<!--")[0], re.MULTILINE))
        self.assertEqual(rows, {**dict.fromkeys([*PROGRAMS, *SESSIONS], "yes"), **dict.fromkeys(MODULES.values(), "no")})
        known = self.found([text for texts in [*PROGRAMS.values(), *SESSIONS.values()] for text in texts] + list(MODULES))
        self.assertEqual([block for block in self.blocks if block not in known], [])

    def test_the_page_for_its_users_names_every_option(self):
        done = subprocess.run([os.path.join(rig.CLIENTS, "bin", "nvitop"), "--help"], stdout=subprocess.PIPE, check=True)
        options = set(re.findall(r"(?<![\w-])(--?[A-Za-z0-9][\w-]*)", done.stdout.decode().split("\noptions:")[1])) - {"--help", "--version"}
        with open(os.path.join(rig.ROOT, "docs", "coming-from.md")) as file:
            section = file.read().split("\n## nvitop")[1].split("\n## ")[0].split("### Options and variables")[1]
        self.assertGreater(len(options), 25)
        missing = [option for option in options if not re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(option), section)]
        self.assertEqual(missing, [])
