"""The module that `gtop python` prints: beside nvitop on the same devices, and where things go wrong.

    GTOP=path/to/gtop python3 -m unittest -v test_python
"""

import ast
import glob
import json
import os
import re
import subprocess
import sys
import unittest

import rig
from rig import Machine
from scenarios import DRIVER

QUERIES = os.path.join(rig.HERE, "queries")
TABLE = os.path.join(rig.ROOT, "docs", "python.md")


def setUpModule():
    rig.needs_packages()


def module_folder():
    """Returns a folder with gtop_monitor.py."""
    folder = rig.folder()
    code, out, err = Machine("").run(rig.GTOP, "python")
    assert code == 0, err
    with open(os.path.join(folder, "gtop_monitor.py"), "w") as file:
        file.write(out)
    return folder


def three_devices(pids):
    return (DRIVER + f"gpu 0 util=90 memutil=50 used_mib=40000 temp=60 power_mw=380250 fan=30 enc=5 dec=7 pcie_tx=1 pcie_rx=2\n"
            "gpu 1 used_mib=10 util=3\ngpu 2 used_mib=500 util=40 display=1\n"
            f"proc 0 {pids[0]} 39000 sm=50 mem=20 enc=1 dec=2\nproc 0 {pids[1]} 100 sm=1 type=G\nproc 2 {pids[0]} 430\n")


def with_slices(pids):
    lines = [DRIVER + f"gpu 0 used_mib=9\nproc 0 {pids[0]} 8\ngpu 1 mig=1 used_mib=700 util=~ memutil=~\n"]
    for i in range(3):
        lines.append(f"slice 1 {i} total_mib=9728 used_mib={100 + i} gi={7 + i} ci=0 name=NVIDIA H100 80GB HBM3 MIG 1g.10gb\n"
                     f"proc 1 {pids[i]} {90 + i} slice={i}\n")
    return "".join(lines)


def rows():
    """Returns the rows of the table: expression, what it says, remark."""
    with open(TABLE) as file:
        return re.findall(r"^\| `(.*)` \| (yes|differs|no) \| (.*) \|$", file.read(), re.MULTILINE)


class Table(unittest.TestCase):
    maxDiff = None

    def answers(self, module, scenario, expressions):
        pids = Machine.pids(3)
        machine = Machine(scenario(pids), GTOP=rig.GTOP, PYTHONPATH=self.folder, CUDA_VISIBLE_DEVICES="0,1,2")
        done = machine.run(rig.PYTHON, os.path.join(QUERIES, "python_rows.py"), module, str(pids[0]), seconds=300,
                           stdin=json.dumps(expressions))
        self.assertIsNotNone(done, f"{module} hangs")
        self.assertEqual(done[0], 0, done[2])
        return json.loads(done[1])

    def test_every_row_is_as_it_says(self):
        self.folder = module_folder()
        table = rows()
        self.assertGreater(len(table), 250)
        for scenario, is_of_slices in ((three_devices, False), (with_slices, True)):
            chosen = [row for row in table if row[1] != "no" and ("lice" in row[0] or "MigDevice" in row[0]) == is_of_slices]
            expressions = [row[0] for row in chosen]
            theirs = self.answers("nvitop", scenario, expressions)
            ours = self.answers("gtop_monitor", scenario, expressions)
            for (expression, says, _), their, our in zip(chosen, theirs, ours):
                with self.subTest(expression):
                    if says == "yes":
                        self.assertEqual(our, their)
                    else:
                        self.assertNotRegex(our, r"^\w*(Error|Exception|NotFound): ")

    def test_what_is_missing_is_missing(self):
        with open(os.path.join(module_folder(), "gtop_monitor.py")) as file:
            text = file.read()
        names = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        for expression, says, remark in rows():
            if says == "no":
                with self.subTest(expression):
                    self.assertTrue(remark)
                    self.assertNotIn(re.split(r"[(.]", expression.split(".", 1)[-1])[0], names)

    def test_every_name_of_nvitop_has_a_row(self):
        names = subprocess.run([rig.PYTHON, "-c", NAMES], stdout=subprocess.PIPE, check=True).stdout.decode().split()
        self.assertGreater(len(names), 350)
        text = "\n".join(expression for expression, _, _ in rows())
        # A row of a constant of psutil stands for all constants that begin alike.
        constants = {name.partition("_")[0] for name in re.findall(r"\bhost\.([A-Z_]+)", text)}

        def has_row(name):
            kind, _, last = name.rpartition(".")
            is_constant = kind == "host" and last.isupper()
            return last.partition("_")[0] in constants if is_constant else re.search(rf"(?<!\w){last}(?!\w)", text)

        missing = [name for name in names if not has_row(name)]
        self.assertEqual(missing, [])


# Prints the names of nvitop, and of the methods and values of its classes.
NAMES = """
import nvitop
from nvitop import host
print(*nvitop.__all__)
for kind in ("Device", "PhysicalDevice", "MigDevice", "CudaDevice", "GpuProcess", "HostProcess", "ResourceMetricCollector"):
    print(*(kind + "." + name for name in dir(getattr(nvitop, kind)) if not name.startswith("_")))
print(*("host." + name for name in host.__all__))
"""


def pythons():
    """Returns all Pythons from 3.6 on that are installed here."""
    folders = os.environ["PATH"].split(":") + glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin"))
    found = {}
    for path in sorted(path for folder in folders for path in glob.glob(os.path.join(folder, "python3*"))
                       if re.fullmatch(r"python3(\.[0-9]+)?", os.path.basename(path))):
        asked = subprocess.run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, check=False)
        version = asked.stdout.decode().strip()
        if asked.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 6):
            found.setdefault(version, path)
    return found


# What the programs below begin with.
BEGIN = """
import os, signal, sys, time, warnings
import gtop_monitor
from gtop_monitor import *

def wait_until(is_true, seconds=120):
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "does not come true"
        time.sleep(0.05)

def gtops():
    # Returns the pids of the gtops that the Python processes of this home share.
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as words, open("/proc/%s/environ" % pid, "rb") as variables:
                if b"--feed" in words.read().split(b"\\0") and os.fsencode("HOME=" + os.environ["HOME"]) in variables.read().split(b"\\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return [pid for pid in sorted(found) if runs(pid)]

def runs(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
"""

# What a program in place of gtop begins with.
FAKE = """
import os, socket, sys

listener = socket.socket(fileno=0)

def accept():
    return listener.accept()[0]

def feed(text):
    client = accept()
    client.sendall(text)
    client.recv(1)

"""


class Programs(unittest.TestCase):
    """Small programs that use the module."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = module_folder()

    def machine(self, scenario, **environment):
        return Machine(scenario, **{"GTOP": rig.GTOP, "PYTHONPATH": self.folder, **environment})

    def run_on(self, machine, code, *words, python=rig.PYTHON, under=()):
        """Returns what a program prints; it must end well."""
        done = machine.run(*under, python, "-c", BEGIN + code, *words, seconds=300)
        self.assertIsNotNone(done, "hangs")
        self.assertEqual(done[0], 0, done[2])
        return done[1]

    def test_all_pythons_that_are_installed(self):
        machine = self.machine(three_devices(Machine.pids(3)))
        for version, python in pythons().items():
            with self.subTest(version):
                out = self.run_on(machine, """
collector = ResourceMetricCollector(interval=0.1, root_pids={1})
with collector(tag="x"):
    metrics = collector.collect()
print(Device(0).memory_used(), Device(2).gpu_utilization(), metrics["x/gpu:0/power_usage (W)/last"])
print(len(take_snapshots().gpu_processes), HostProcess().status(), Device.cuda(1).index, NA + 1, repr(NA))
""", python=python)
                self.assertEqual(out.split(), ["41943040000", "40", "380.25", "3", "running", "1", "nan", "'N/A'"])

    def test_types_and_oldest_python(self):
        path = os.path.join(self.folder, "gtop_monitor.py")
        with open(path) as file:
            ast.parse(file.read(), feature_version=(3, 6))
        checks = (("mypy", "--strict", "--no-color-output"), ("vermin", "--target=3.6-", "--no-tips"))
        for words in checks:
            done = subprocess.run([os.path.join(rig.CLIENTS, "bin", words[0]), *words[1:], path], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, cwd=self.folder, check=False)
            self.assertEqual(done.returncode, 0, done.stdout.decode())

    def test_examples_of_the_page(self):
        with open(TABLE) as file:
            examples = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
        self.assertEqual(len(examples), 3)
        names = """
import types
os.chdir(os.environ["HOME"])
train = lambda: time.sleep(0.01)
logged = []
logger = types.SimpleNamespace(log=logged.append)
"""
        out = self.run_on(self.machine(three_devices(Machine.pids(3))), names + "".join(examples) + """
print(open("progress/run_1/progress.json").read().count("FINISHED"))
print(len(logged), logged[0]["train/cuda:0 (gpu:0)/gpu_utilization (%)/mean"])
""")
        self.assertEqual(out.count(" sleep 100000"), 3)
        self.assertTrue(out.endswith("1\n10 90.0\n"), out)

    def test_means_are_weighted_by_time(self):
        self.run_on(self.machine(""), """
series = gtop_monitor._Series(100.0)
series.add(10.0, 102.0)                 # counts from the start on: 20 in 2 s
series.add(30.0, 104.0)                 # a line from 10 to 30: 40 in 2 s
assert series.values(105.0) == {"mean": 18.0, "min": 10.0, "max": 30.0, "last": 30.0}, series.values(105.0)
series.add(float("nan"), 106.0)         # a gap is no part of the mean
series.add(50.0, 110.0)
assert series.values(110.0)["mean"] == 15.0, series.values(110.0)
assert series.values(116.0) == {"mean": 36.0, "min": 10.0, "max": 50.0, "last": 50.0}, series.values(116.0)
""")

    def test_gtop_is_missing(self):
        out = self.run_on(self.machine("", GTOP="/nonexistent/gtop"), """
try:
    Device.count()
except GtopError as error:
    print(error)
""")
        self.assertEqual(out, "/nonexistent/gtop was not found: copy gtop to a folder of PATH, or set GTOP to its path\n")

    def fake(self, script):
        """Returns a program in place of gtop; `feed` sends a text to the first program that connects."""
        path = os.path.join(rig.folder(), "gtop")
        with open(path, "w") as file:
            file.write(f"#!{sys.executable}\n" + FAKE + script + "\n")
        os.chmod(path, 0o755)
        return path

    def test_a_gtop_of_another_version_or_none_at_all(self):
        for script, said in (("feed(b'{\"schema\":2}\\n')", "make it anew with `gtop python > gtop_monitor.py`"),
                             ("feed(b'hello\\n')", "make it anew with `gtop python > gtop_monitor.py`"),
                             ("feed(b'{\"schema\":1,\"nodes\":[{}]}\\n')", "make it anew"),
                             ("sys.exit('gtop: unexpected argument --feed found')", "older than this file: make it anew"),
                             ("sys.exit('no such option')", "gtop has ended: no such option"),
                             ("", "gtop has ended: it printed nothing")):
            with self.subTest(script):
                out = self.run_on(self.machine("", GTOP=self.fake(script)), """
try:
    Device.count()
except GtopError as error:
    print(error)
print(Device.is_available())
""")
                self.assertIn(said, out)
                self.assertIn("False", out)

    def test_gtop_dies_and_is_started_again(self):
        self.run_on(self.machine(DRIVER + "gpu 0 used_mib=7\n"), """
device = Device(0)
first, = gtops()
assert device.memory_used() == 7 << 20
os.kill(first, signal.SIGKILL)
wait_until(lambda: not runs(first))
def is_back():
    value = device.memory_used()
    assert value is NA or value == 7 << 20, value
    return first not in gtops() and len(gtops()) == 1 and device.is_fresh() and gtop_monitor.stream()._lines > 0
wait_until(is_back)
""")

    def test_gtop_dies_for_good(self):
        snapshot = self.machine(DRIVER + "gpu 0 used_mib=7\n").snapshot("--local")
        path = os.path.join(rig.folder(), "snapshot")
        with open(path, "w") as file:
            json.dump(snapshot, file)
            file.write("\n")
        flag = path + ".used"
        fake = self.fake(f"""
if os.path.exists({flag!r}):
    sys.exit("broken")
open({flag!r}, "w").close()
accept().sendall(open({path!r}, "rb").read())""")
        out = self.run_on(self.machine("", GTOP=fake), """
device = Device(0)
assert device.memory_used() == 7 << 20
wait_until(lambda: device.memory_used() is NA)
print(device.fault(), device.memory_used_human(), device.name(), len(device.processes()), device.as_snapshot().temperature)
with ResourceMetricCollector([device], interval=0.1)(tag="x") as collector:
    print(collector.collect()["x/gpu:0/memory_used (MiB)/mean"])
""")
        self.assertEqual(out.split("\n")[0].split()[-2:], ["0", "N/A"])
        self.assertIn("nan", out)

    def test_what_the_sample_of_a_remote_process_does_not_know(self):
        snapshot = self.machine("").snapshot("--demo=1")
        node = snapshot["nodes"][0]
        device = next(row for row in node["devices"] if row["processes"])
        process = device["processes"][0]
        # As of a process that has just started: nothing is known but which one it is.
        for key in process:
            if key not in ("pid", "start_ticks"):
                process[key] = {} if key == "unknown" else None
        device["processes"] = [process]
        out = self.run_on(self.machine("", GTOP=self.fake(f"feed({json.dumps(snapshot).encode()!r} + b'\\n')")), """
device = next(one for one in Device.all() if one.uuid() == sys.argv[1])
process, = device.processes().values()
for name in ("cpu_percent", "memory_percent", "host_memory", "host_memory_human", "status", "username", "name", "command",
             "running_time", "running_time_human", "running_time_in_seconds", "elapsed_time", "elapsed_time_human",
             "elapsed_time_in_seconds", "create_time", "ppid", "num_threads", "cwd", "gpu_memory", "gpu_sm_utilization"):
    assert getattr(process, name)() is NA, (name, getattr(process, name)())
assert process.cmdline() == [NA] and process.type is NA and process.is_running()
snapshot = process.as_snapshot()
assert snapshot.cpu_percent is NA and snapshot.host.username is NA and snapshot.gpu_memory_percent is NA
assert GpuProcess.take_snapshots([process])[0].running_time_human is NA
assert process.host.identity == (device.node, process.pid, process.identity[2]) and process.identity[3] == device.index
collector = ResourceMetricCollector([device], root_pids={1}, interval=0.1)
with collector(tag="x"):
    metrics = collector.collect()
print(metrics["x/pid:%d/host/cpu_percent (%%)/mean" % process.pid], process, snapshot.cmdline)
""", device["uuid"])
        self.assertTrue(out.startswith("nan GpuProcess("), out)

    def test_a_process_that_starts_on_a_remote_node(self):
        """Its first sample has no CPU utilization."""
        pids = Machine.pids(2)
        machine = self.machine(DRIVER + f"gpu 0 used_mib=9\nproc 0 {pids[0]} 8\n")
        program = machine.start(rig.PYTHON, "-c", BEGIN + """
connect(["here"], options=["--exec", "env NODE={node} sh -c {command}"], interval=1.0)
device, = Device.all()
assert not device.is_local() and device.processes()
print("begins", flush=True)
pid = int(sys.argv[1])
wait_until(lambda: pid in device.processes())
with device.oneshot():
    process = device.processes()[pid]
    row, = [row for row in device.process_rows() if row["pid"] == pid]
    snapshot = process.as_snapshot()
    known = process.cpu_percent()
assert known == (NA if row["cpu_percent"] is None else row["cpu_percent"]), known
assert snapshot.cpu_percent == known and snapshot.status == "sleeping", snapshot
wait_until(lambda: process.cpu_percent() is not NA)
print(process.command())
""", str(pids[1]))
        self.assertEqual(program.stdout.readline(), b"begins\n")
        machine.write(DRIVER + f"gpu 0 used_mib=19\nproc 0 {pids[0]} 8\nproc 0 {pids[1]} 9\n")
        said = program.communicate(timeout=120)[0]
        self.assertEqual((said, program.returncode), (b"sleep 100000\n", 0))

    @unittest.skipUnless(os.getuid() == 0, "needs root")
    def test_sensors_and_clocks_as_psutil_reads_them(self):
        root = rig.folder()

        def write(name, text):
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(f"{text}\n")

        chip, other, fan = "class/hwmon/hwmon0/", "class/hwmon/hwmon10/", "class/hwmon/hwmon2/"
        for name, text in {
                chip + "name": "coretemp", chip + "temp1_input": 45000, chip + "temp1_max": 80000, chip + "temp1_crit": 100000,
                chip + "temp1_label": "Package id 0", chip + "temp2_input": 41500, chip + "temp2_crit": 99000,
                chip + "temp10_input": 39000, chip + "temp3_input": "broken", other + "name": "nvme",
                other + "temp1_input": 33850, fan + "name": "nct6775", fan + "fan1_input": 1234, fan + "fan2_input": 0,
                fan + "fan1_label": "CPU fan", "class/power_supply/BAT0/energy_now": 30000000,
                "class/power_supply/BAT0/energy_full": 40000000, "class/power_supply/BAT0/power_now": 10000000,
                "class/power_supply/BAT0/status": "Discharging", "class/power_supply/AC/online": 0,
                **{f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_{name}_freq": value for cpu in range(12)
                   for name, value in (("cur", 2000000 + 1000 * cpu), ("min", 800000), ("max", 3500000))}}.items():
            write(name, text)
        # As the kernel wrote them, with numbers that do not change meanwhile.
        for name, pattern, text in (("stat", None, "cpu  900 20 300 4000 50 6 7 8 9 1\ncpu0 500 10 100 2000 25 3 4 5 6 1\n"
                                     "cpu1 400 10 200 2000 25 3 3 3 3 0\nintr 12345 1 2\nctxt 67890\nbtime 1700000000\nsoftirq 4242 0 1"),
                                    ("meminfo", r"(?m)^(SwapTotal|SwapFree|MemFree):.*kB", r"\1:  4321 kB"),
                                    ("vmstat", r"(?m)^(pswpin|pswpout) .*", r"\1 77"),
                                    ("cpuinfo", r"(?m)^cpu MHz.*", "cpu MHz\t\t: 1234.567")):
            with open("/proc/" + name) as file:
                write("proc/" + name, re.sub(pattern, text, file.read().rstrip()) if pattern else text)
        code = """
for call in (host.cpu_times, host.cpu_stats, host.virtual_memory, host.swap_memory):
    print(sorted(call()._asdict().items()))
print([tuple(one) for one in host.cpu_times(percpu=True)], host.boot_time())
print([[tuple(one) for one in chip] for chip in host.sensors_temperatures().values()], sorted(host.sensors_temperatures()))
print([[tuple(one) for one in chip] for chip in host.sensors_temperatures(fahrenheit=True).values()])
print([[tuple(one) for one in chip] for chip in host.sensors_fans().values()], sorted(host.sensors_fans()))
print(tuple(host.sensors_battery()))
print([(one.min, one.max) for one in host.cpu_freq(percpu=True)], [one.current for one in host.cpu_freq(percpu=True)])
"""
        outs = []
        for module in ("nvitop", "gtop_monitor"):
            words = ["unshare", "--mount", "sh", "-c", 'mount --bind "$1/class" /sys/class && '
                     'mount --bind "$1/devices/system/cpu" /sys/devices/system/cpu && '
                     'for name in stat meminfo vmstat cpuinfo; do mount --bind "$1/proc/$name" /proc/$name; done && '
                     'shift && exec "$@"', "sh", root]
            done = self.machine("").run(*words, rig.PYTHON, "-c", f"from {module} import host{code}")
            self.assertEqual(done[0], 0, done[2])
            outs.append(done[1])
        self.assertIn("Package id 0", outs[1])
        self.assertEqual(outs[1].split("\n"), outs[0].split("\n"))

    def test_a_device_is_lost(self):
        machine = self.machine(DRIVER + "gpu 0 used_mib=7\ngpu 1 used_mib=8\n")
        program = machine.start(rig.PYTHON, "-c", BEGIN + """
device = Device(1)
print(device.memory_used(), flush=True)
wait_until(lambda: device.memory_used() is NA)
print(device.name(), device.fault(), device.uuid(), Device(0).memory_used(), [one.index for one in Device.cuda.all()], flush=True)
""")
        self.assertEqual(program.stdout.readline(), b"%d\n" % (8 << 20))
        machine.write(DRIVER + "gpu 0 used_mib=7\ngpu 1 lost\n")
        said = program.stdout.readline().decode()
        self.assertEqual(program.wait(60), 0)
        program.stdin.close()
        program.stdout.close()
        self.assertRegex(said, r"lost|gone")
        self.assertIn(" %d " % (7 << 20), said)

    def test_nothing_is_left_when_the_program_is_killed(self):
        machine = self.machine(DRIVER + "gpu 0\n")
        program = machine.start(rig.PYTHON, "-c", BEGIN + """
Device(0)
print(*gtops(), flush=True)
time.sleep(1000)
""")
        pid = int(program.stdout.readline())
        self.assertTrue(os.path.exists(f"/proc/{pid}"))
        program.kill()
        program.wait()
        program.stdin.close()
        program.stdout.close()
        self.run_on(machine, "wait_until(lambda: not runs(int(sys.argv[1])))", str(pid))

    def test_without_ctypes(self):
        path = os.path.join(rig.folder(), "ctypes.py")
        with open(path, "w") as file:
            file.write("raise ImportError('no ctypes')\n")
        folders = os.path.dirname(path) + ":" + self.folder
        machine = self.machine(DRIVER + "gpu 0 used_mib=7\ngpu 1\n", CUDA_VISIBLE_DEVICES="1,0", PYTHONPATH=folders)
        self.run_on(machine, """
assert Device(0).memory_used() == 7 << 20
assert [device.index for device in Device.cuda.all()] == [1, 0]
assert Device.cuda_runtime_version() is NA
""")

    @unittest.skipUnless(os.getuid() == 0, "needs root")
    def test_in_a_container_that_does_not_see_the_processes(self):
        pids = Machine.pids(1)
        out = self.run_on(self.machine(DRIVER + f"gpu 0 used_mib=900\nproc 0 {pids[0]} 800\n"), """
assert Device(0).memory_used() == 900 << 20
for process in Device(0).processes().values():
    with GpuProcess.failsafe():
        print(process.gpu_memory_human(), process.username(), process.command(), process.as_snapshot().cpu_percent)
print(len(take_snapshots().devices), "end")
""", under=("unshare", "--pid", "--fork", "--mount-proc"))
        self.assertTrue(out.endswith("1 end\n"), out)

    def test_a_signal_never_reaches_another_process(self):
        self.run_on(self.machine(""), """
import subprocess
for has_handles in (True, False):
    if not has_handles:
        for module, name in ((os, "pidfd_open"), (signal, "pidfd_send_signal")):
            if hasattr(module, name):
                delattr(module, name)
    child = subprocess.Popen(["sleep", "1000"])
    other = HostProcess(child.pid, start_ticks=12345)
    for send in (other.kill, other.terminate, other.suspend, other.resume, lambda: other.send_signal(9)):
        try:
            send()
        except NoSuchProcess:
            pass
        else:
            raise AssertionError("sent")
    assert child.poll() is None and HostProcess(child.pid).status() in ("sleeping", "running", "disk-sleep")
    process = HostProcess(child.pid)
    with process.oneshot():
        process.kill()
        assert child.wait() == -9 and process.status() in ("sleeping", "running", "disk-sleep")
        try:
            process.kill()
        except NoSuchProcess:
            assert not process.is_running()
        else:
            raise AssertionError("sent")
for pid in (0, -1, 1 << 30):
    try:
        HostProcess(pid).kill()
    except NoSuchProcess:
        pass
    else:
        raise AssertionError(pid)
""")

    def test_variables_of_all_kinds(self):
        uuids = ["GPU-0abc000%d-0000-4000-8000-00000000000%d" % (i, i) for i in range(3)]
        values = ["", "0,1", "2,0", "-1", "0,-1,1", "0,9,1", "x", "0,0", "0,x,1", " 1 , 0", "0 1", "+1", "01", "1.5", ",0", "0,",
                  uuids[1], ",".join(reversed(uuids)), uuids[0] + ",1", "1," + uuids[0], "GPU-", "MIG-" + uuids[0], "\u0663"]
        code = """
import json
print(json.dumps([module.parse_cuda_visible_devices(value) for value in json.loads(sys.argv[1])]))
"""
        answers = []
        for module in ("nvitop", "gtop_monitor"):
            machine = self.machine(three_devices(Machine.pids(3)), CUDA_DEVICE_ORDER="PCI_BUS_ID")
            out = self.run_on(machine, f"import {module} as module\n" + code, json.dumps(values))
            answers.append(dict(zip(values, json.loads(out))))
        self.assertEqual(answers[1], answers[0])
        # The beginning of a UUID is enough for CUDA, if only one device has it; nvitop needs CUDA for that.
        out = self.run_on(machine, "import gtop_monitor as module\n" + code,
                          json.dumps(["GPU-0abc0001", "GPU-0abc0002,GPU-0abc0000", "GPU-0abc000", "GPU-0abc0001,GPU-0abc0001-"]))
        self.assertEqual(json.loads(out), [[1], [2, 0], [], []])

    def test_cuda_counts_the_fastest_device_first(self):
        scenario = DRIVER + "gpu 0 name=NVIDIA A10\ngpu 1 name=NVIDIA H100 80GB HBM3\ngpu 2 name=NVIDIA A10\n"
        machine = self.machine(scenario, CUDA_STUB_ORDER="1,0,2")
        library = os.path.join(machine.environment["LD_LIBRARY_PATH"], "libcuda.so.1")
        subprocess.check_call(["cc", "-shared", "-fPIC", "-o", library, os.path.join(rig.ROOT, "tests", "stubs", "cuda.c")])
        self.addCleanup(os.remove, library)
        code = """
print([device.index for device in module.Device.cuda.all()], module.Device(1).cuda_index)
"""
        for module in ("nvitop", "gtop_monitor"):
            self.assertEqual(self.run_on(machine, f"import {module} as module" + code), "[1, 0, 2] 0\n")
        machine.environment["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        self.assertEqual(self.run_on(machine, "import gtop_monitor as module" + code), "[0, 1, 2] 1\n")
        del machine.environment["CUDA_DEVICE_ORDER"], machine.environment["CUDA_STUB_ORDER"]
        out = self.run_on(machine, """
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    print([device.index for device in Device.cuda.all()], [str(one.message) for one in warned])
""")
        self.assertRegex(out, r"^\[0, 1, 2\] \['.*set CUDA_DEVICE_ORDER=PCI_BUS_ID")

    def test_slices_in_variables(self):
        code = """
import json
print(json.dumps([module.parse_cuda_visible_devices(value) for value in json.loads(sys.argv[1])]))
"""
        parts = ["MIG-0abc0001-000%d-5000-8000-00000000000%d" % (i, i) for i in range(3)]
        machine = self.machine(with_slices(Machine.pids(3)))
        parts = [row["uuid"] for row in machine.node()["devices"] if row["parent"]]
        values = ["0", "1", "0,1", parts[1], ",".join(parts), parts[2] + ",GPU-0abc0000-0000-4000-8000-000000000000"]
        answers = []
        for module in ("nvitop", "gtop_monitor"):
            out = self.run_on(machine, f"import {module} as module\n" + code, json.dumps(values))
            answers.append(dict(zip(values, json.loads(out))))
        self.assertEqual(answers[1], answers[0])
        out = self.run_on(machine, "import gtop_monitor as module\n" + code,
                          json.dumps(["MIG-GPU-0abc0001-0000-4000-8000-000000000001/8/0", "MIG-GPU-0abc0001/99/0"]))
        self.assertEqual(json.loads(out), [[[1, 1]], []])

    def test_values_of_a_process_by_name(self):
        self.run_on(self.machine(""), """
import subprocess
ended = subprocess.Popen(["true"], stdin=subprocess.DEVNULL)
zombie = HostProcess(ended.pid)
wait_until(lambda: zombie.status() == "zombie")
values = zombie.as_dict(ad_value="?")
assert (values["status"], values["cwd"], values["cmdline"]) == ("zombie", "?", []), values
assert zombie.as_snapshot(ad_value="?").exe == "?"
ended.wait()
sleeper = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL)
for wrong, error in ((["kill"], ValueError), ("pid", TypeError)):
    for call in (HostProcess(sleeper.pid).as_dict, HostProcess(sleeper.pid).as_snapshot):
        try:
            call(wrong)
        except error:
            continue
        raise AssertionError(wrong)
assert sleeper.poll() is None
sleeper.kill()
sleeper.wait()
try:
    zombie.as_dict(ad_value="?")
except NoSuchProcess:
    pass
else:
    raise AssertionError("it has ended")
""")

    def test_a_fleet_and_its_recording(self):
        path = os.path.join(rig.folder(), "a.gtop")
        machine = self.machine("")
        recorder = machine.start(rig.GTOP, "record", "--demo=3", "-w", path)
        self.run_on(machine, "wait_until(lambda: os.path.exists(sys.argv[1]) and os.path.getsize(sys.argv[1]) > 20000)", path)
        recorder.terminate()
        recorder.communicate()
        self.run_on(machine, """
path = sys.argv[1]
for source in (Stream(options=["--demo=3"]), Recording(path)):
    use(source)
    nodes = list(source.view().nodes)
    assert len(nodes) == 3, nodes
    devices = Device.all()
    assert len(devices) >= 12 and Device(0).node == nodes[0] and Device(0, node=nodes[2]).node == nodes[2]
    assert all(device.memory_total() is not NA for device in devices if device.is_fresh())
    processes = [process for device in devices for process in device.processes().values()]
    assert processes and all(process.username() and process.gpu_memory() is not NA for process in processes[:5])
    process = processes[0]
    print(process.host, process.status(), process.command(), process.running_time_human())
    values = process.as_dict(ad_value="?")
    assert sorted(values) == sorted(HostProcess().as_dict()) == sorted(process.host.as_dict()), values
    assert values["uids"] == values["io_counters"] == "?" and process.as_dict()["environ"] is None, values
    assert (values["pid"], values["username"]) == (process.pid, process.username()), values
    assert process.as_dict(["ppid", "nice"], "?") == {"ppid": process.ppid(), "nice": "?"}
    assert process.host.as_snapshot().command == process.command()
    for refused in (process.kill, process.terminate, process.environ, lambda: process.send_signal(9)):
        try:
            refused()
        except AccessDenied as error:
            assert process.device.node in str(error)
        else:
            raise AssertionError("not refused")
    assert Device.cuda.all() == []
    try:
        Device(0, node="elsewhere")
    except LookupError as error:
        assert nodes[1] in str(error)
    for wanted in (99, "GPU-", "GPU-nothing", (0, 0), "00:00.0"):
        try:
            Device(wanted)
        except DeviceNotFound as error:
            assert str(error)
        else:
            raise AssertionError(wanted)
""", path)
