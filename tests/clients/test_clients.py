"""The stand-in for NVML is one that real clients take for the real one, and they say what gtop says.

    GTOP=path/to/gtop python3 -m unittest -v test_clients

nvidia-ml-py, nvitop and gpustat come from the package index into an environment of their own, kept beside the build in
CLIENTS (a folder). Without a network or a C compiler the tests are skipped and say why.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
STUB = os.path.join(HERE, "..", "stubs", "nvml.c")
GTOP = os.environ.get("GTOP", os.path.join(HERE, "..", "..", "target", "debug", "gtop"))
CLIENTS = os.environ.get("CLIENTS", os.path.join(os.path.dirname(os.path.dirname(GTOP)), "clients"))
PACKAGES = ["nvidia-ml-py", "nvitop", "gpustat"]
MIB = 1 << 20

PYNVML = """
import json, pynvml as n
n.nvmlInit()

def ask(function, *arguments):
    try:
        return function(*arguments)
    except n.NVMLError:
        return None

def field(handle, number):
    value = ask(n.nvmlDeviceGetFieldValues, handle, [number])
    return value[0].value.uiVal if value and value[0].nvmlReturn == 0 else None

def part(value, name):
    return None if value is None else getattr(value, name)

def thousandth(value):
    return None if value is None else value / 1000

def holds(handle):
    memory = ask(n.nvmlDeviceGetMemoryInfo, handle, n.nvmlMemory_v2)
    processes = ask(n.nvmlDeviceGetComputeRunningProcesses, handle)
    return {
        "uuid": n.nvmlDeviceGetUUID(handle), "name": n.nvmlDeviceGetName(handle),
        "memory_total_bytes": part(memory, "total"), "memory_used_bytes": part(memory, "used"),
        "memory_free_bytes": part(memory, "free"), "memory_reserved_bytes": part(memory, "reserved"),
        "processes": None if processes is None else sorted([p.pid, p.usedGpuMemory] for p in processes),
    }

def device(h):
    use = ask(n.nvmlDeviceGetUtilizationRates, h)
    rows = ask(n.nvmlDeviceGetRemappedRows, h)
    return dict(holds(h), **{
        "pci_bus": n.nvmlDeviceGetPciInfo(h).busId,
        "utilization_percent": part(use, "gpu"), "memory_utilization_percent": part(use, "memory"),
        "power_watts": thousandth(ask(n.nvmlDeviceGetPowerUsage, h)),
        "power_limit_watts": thousandth(ask(n.nvmlDeviceGetEnforcedPowerLimit, h)),
        "temperature_celsius": ask(n.nvmlDeviceGetTemperature, h, n.NVML_TEMPERATURE_GPU),
        "temperature_margin_celsius": ask(n.nvmlDeviceGetMarginTemperature, h),
        "memory_temperature_celsius": field(h, n.NVML_FI_DEV_MEMORY_TEMP),
        "remapped_corrected_rows": field(h, n.NVML_FI_DEV_REMAPPED_COR),
        "remapped_uncorrected_rows": field(h, n.NVML_FI_DEV_REMAPPED_UNC),
        "sm_clock_megahertz": ask(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_SM),
        "graphics_clock_megahertz": ask(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_GRAPHICS),
        "video_clock_megahertz": ask(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_VIDEO),
        "memory_clock_max_megahertz": ask(n.nvmlDeviceGetMaxClockInfo, h, n.NVML_CLOCK_MEM),
        "performance_state": ask(n.nvmlDeviceGetPerformanceState, h),
        "throttle_bits": ask(n.nvmlDeviceGetCurrentClocksThrottleReasons, h),
        "ecc_corrected_errors": ask(n.nvmlDeviceGetTotalEccErrors, h, 0, 0),
        "ecc_uncorrected_errors": ask(n.nvmlDeviceGetTotalEccErrors, h, 1, 0),
        "ecc_corrected_total_errors": ask(n.nvmlDeviceGetTotalEccErrors, h, 0, 1),
        "ecc_uncorrected_total_errors": ask(n.nvmlDeviceGetTotalEccErrors, h, 1, 1),
        "encoder_percent": part((ask(n.nvmlDeviceGetEncoderUtilization, h) or [None])[0], "real"),
        "jpeg_percent": part((ask(n.nvmlDeviceGetJpgUtilization, h) or [None])[0], "real"),
        "bar1_used_bytes": part(ask(n.nvmlDeviceGetBAR1MemoryInfo, h), "bar1Used"),
        "fan_percent": ask(n.nvmlDeviceGetFanSpeed, h),
        "pcie_generation": ask(n.nvmlDeviceGetCurrPcieLinkGeneration, h),
        "pcie_lanes": ask(n.nvmlDeviceGetCurrPcieLinkWidth, h),
        "recovery": field(h, 230),
    })

out = []
for i in range(n.nvmlDeviceGetCount()):
    h = ask(n.nvmlDeviceGetHandleByIndex, i)
    if h is None:
        out.append({"fault": True})
        continue
    out.append(device(h))
    if (ask(n.nvmlDeviceGetMigMode, h) or [0])[0] != 1:
        continue
    out[-1]["processes"] = []       # those of its slices
    for k in range(n.nvmlDeviceGetMaxMigDeviceCount(h)):
        slice = ask(n.nvmlDeviceGetMigDeviceHandleByIndex, h, k)
        if slice is not None:
            out.append(dict(holds(slice), gpu_instance=n.nvmlDeviceGetGpuInstanceId(slice),
                            compute_instance=n.nvmlDeviceGetComputeInstanceId(slice)))
print(json.dumps({"driver": n.nvmlSystemGetDriverVersion(), "devices": out}))
"""

RECOVERY = ("none", "reset the device", "reboot the node")
DRIVER = "driver 570.133.20 12080\n"
SLICES = "".join(f"slice 0 {i} total_mib=9728 used_mib={100 + i} gi={7 + i} ci=0\n" for i in range(7))
SCENARIOS = {
    "eight busy A100": DRIVER + "".join(
        f"gpu {i} capability=8.0 util=9{i} memutil=5{i} temp=6{i} power_mw=38{i}250 limit_mw=400000 total_mib=81920 "
        f"used_mib=7000{i} clk_gr=1410 clk_sm=1405 clk_video=1275 throttle=4 jpg={i} name=NVIDIA A100-SXM4-80GB\n"
        + "".join(f"proc {i} {4000000 + i * 10 + k} {9000 + k} sm={k}\n" for k in range(5)) for i in range(8)),
    "an H100 in seven slices": DRIVER + "gpu 0 mig=1 used_mib=700 util=~ memutil=~\n" + SLICES
        + "".join(f"proc 0 {4000100 + i} {90 + i} slice={i}\n" for i in range(7)),
    "values that are refused": DRIVER + "gpu 0 power_mw=~ temp=!4 limit_mw=~ limit_requested_mw=~ ecc_cv=!4 fan=31\n"
        "gpu 1 util=!999 clk_sm=!999\n",
    "a device that is not ours": DRIVER + "gpu 0\ngpu 1\ngpu 2\nfault nvmlDeviceGetHandleByIndex_v2@1 4\n",
    "a device that is lost": DRIVER + "gpu 0\ngpu 1 lost\n",
    "three hundred processes": DRIVER + "gpu 0 used_mib=70000\n"
        + "".join(f"proc 0 {4000000 + i} {100 + i} sm={i % 100}\n" for i in range(300)),
    "unified memory": "driver 580.95.05 13000\ngpu 0 total_mib=~ used_mib=~ reserved_mib=~ limit_mw=~ "
        "limit_requested_mw=~ clk_mem_max=~ memtemp=~ ecc_cv=~ ecc_uv=~ ecc_ca=~ ecc_ua=~ pcie_gen=~ pcie_width=~ "
        "name=NVIDIA GB10\nproc 0 4000001 51200 sm=97\n",
    "throttled, with errors and remapped rows": "driver 580.95.05 13000\ngpu 0 util=99 throttle=0x48 margin=-3 temp=91 "
        "ecc_cv=3 ecc_uv=2 ecc_ca=412 ecc_ua=7 remap_corrected=1 remap_uncorrected=6 recovery=1\nxid 0 63\n",
    "a list of processes that is refused": DRIVER + "gpu 0\ngpu 1\nproc 0 4000001 400\n"
        "fault nvmlDeviceGetComputeRunningProcesses_v3@1 4\n",
}


def scenario(pid):
    lines = ["driver 570.133.20 12080"]
    for i in range(4):
        lines.append(
            f"gpu {i} util={30 + i} memutil={10 + i} temp={50 + i} memtemp={60 + i} power_mw={210250 + i} limit_mw=650000 limit_requested_mw=650000 "
            f"used_mib={20000 + i} throttle=4 ecc_ca={i} enc={i} margin={-i} remap_corrected=0 remap_uncorrected={i} "
            f"remap_pending=0 remap_failed=0 bar1_total_mib=131072 bar1_used_mib={i} clk_sm={1900 + i}"
        )
        lines.append(f"proc {i} {pid} {9000 + i} sm={40 + i} mem={20 + i}")
    return "\n".join(lines) + "\n"


def prepare():
    """The environment with the clients, or why there is none."""
    python = os.path.join(CLIENTS, "bin", "python")
    if os.path.exists(os.path.join(CLIENTS, "complete")):
        return python, None
    for command in ([sys.executable, "-m", "venv", CLIENTS], [python, "-m", "pip", "-q", "install", *PACKAGES]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
        if done.returncode:
            words = done.stdout.decode(errors="replace").strip().split("\n")
            return None, f"{' '.join(command[1:3])} failed: {words[-1][:200]}"
    open(os.path.join(CLIENTS, "complete"), "w").close()
    return python, None


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        library = os.path.join(cls.folder.name, "libnvidia-ml.so.1")
        command = ["cc", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1", "-o"]
        try:
            subprocess.check_call(command + [library, STUB])
        except OSError as trouble:
            raise unittest.SkipTest(f"no C compiler: {trouble}") from trouble
        cls.python, why = prepare()
        if why:
            raise unittest.SkipTest(f"no clients of NVML: {why}")
        cls.user = subprocess.Popen(["sleep", "1000"])
        cls.addClassCleanup(cls.user.wait)
        cls.addClassCleanup(cls.user.kill)
        state = os.path.join(cls.folder.name, "state")
        with open(state, "w") as out:
            out.write(scenario(cls.user.pid))
        cls.environment = dict(os.environ, LD_LIBRARY_PATH=cls.folder.name, NVML_STUB_STATE=state, COLUMNS="79")
        snapshot = json.loads(cls.ask([GTOP, "--json", "--deadline", "60"]))
        cls.node = snapshot["nodes"][0]
        cls.devices = cls.node["devices"]

    @classmethod
    def ask(cls, command):
        done = subprocess.run(command, env=cls.environment, stdout=subprocess.PIPE, timeout=120, check=True)
        return done.stdout.decode()

    def client(self, name):
        return os.path.join(CLIENTS, "bin", name)

    def test_nvidia_ml_py_says_the_same(self):
        said = self.compare(self.environment, self.node)
        nvml = next(source for source in self.node["sources"] if source["id"] == "nvml")
        self.assertEqual(nvml["driver"]["version"], said["driver"])

    def test_nvidia_ml_py_says_the_same_of_machines_of_all_kinds(self):
        for name, state in SCENARIOS.items():
            with self.subTest(name):
                path = os.path.join(self.folder.name, "other")
                with open(path, "w") as out:
                    out.write(state)
                environment = dict(self.environment, NVML_STUB_STATE=path)
                done = subprocess.run([GTOP, "--json", "--deadline", "60"], env=environment, stdout=subprocess.PIPE,
                                      timeout=120, check=True)
                self.compare(environment, json.loads(done.stdout.decode())["nodes"][0])

    def compare(self, environment, node):
        """What nvidia-ml-py says; it must be what the node's devices say, known or not."""
        done = subprocess.run([self.python, "-c", PYNVML], env=environment, stdout=subprocess.PIPE, timeout=120, check=True)
        said = json.loads(done.stdout.decode())
        self.assertEqual(len(said["devices"]), len(node["devices"]))
        for theirs, ours in zip(said["devices"], node["devices"]):
            if "fault" in theirs:
                self.assertIsNotNone(ours["fault"])
                self.assertIsNone(ours["processes"])
                continue
            self.assertIsNone(ours["fault"])
            processes, action = theirs.pop("processes"), theirs.pop("recovery", None)
            if action is not None:
                self.assertEqual(ours["recovery_action"], RECOVERY[action])
            for field, value in theirs.items():
                if isinstance(value, (int, float)):
                    self.assertIsNotNone(ours[field], field)
                    self.assertAlmostEqual(ours[field], value, 2, field)
                else:
                    self.assertEqual(ours[field], value, field)
            shown = ours["processes"]
            if shown is not None:
                shown = sorted([p["pid"], p["memory_used_bytes"]] for p in shown)
            self.assertEqual(shown, processes)
        return said

    def test_gpustat_says_the_same(self):
        said = json.loads(self.ask([self.client("gpustat"), "--json"]))["gpus"]
        self.assertEqual(len(said), len(self.devices))
        for theirs, ours in zip(said, self.devices):
            self.assertEqual(theirs["uuid"], ours["uuid"])
            self.assertEqual(theirs["name"], ours["name"])
            self.assertEqual(theirs["temperature.gpu"], ours["temperature_celsius"])
            self.assertEqual(theirs["fan.speed"], ours["fan_percent"])
            self.assertEqual(theirs["utilization.gpu"], ours["utilization_percent"])
            self.assertEqual(theirs["utilization.enc"], ours["encoder_percent"])
            self.assertEqual(theirs["power.draw"], int(ours["power_watts"]))
            self.assertEqual(theirs["enforced.power.limit"], ours["power_limit_watts"])
            self.assertEqual(theirs["memory.used"], ours["memory_used_bytes"] // MIB)
            self.assertEqual(theirs["memory.total"], ours["memory_total_bytes"] // MIB)
            self.assertEqual(
                [(p["pid"], p["gpu_memory_usage"], p["username"]) for p in theirs["processes"]],
                [(p["pid"], p["memory_used_bytes"] // MIB, p["user"]) for p in ours["processes"]],
            )

    def test_nvitop_says_the_same(self):
        shown = self.ask([self.client("nvitop"), "-1"])
        rows = re.findall(
            r"(\d+)C +P(\d+) +(\d+)W / (\d+)W │ +(\d+)MiB / ([\d.]+)GiB │ +(\d+)%", shown
        )
        self.assertEqual(len(rows), len(self.devices), shown)
        for row, ours in zip(rows, self.devices):
            memory = str(ours["memory_used_bytes"] // MIB), f"{ours['memory_total_bytes'] / 1024 ** 3:.2f}"
            watts = str(round(ours["power_watts"])), str(round(ours["power_limit_watts"]))
            temperature, state = str(int(ours["temperature_celsius"])), str(ours["performance_state"])
            self.assertEqual(row, (temperature, state, *watts, *memory, str(int(ours["utilization_percent"]))))
        used = re.findall(r"(\d+) +(\d+) C +\S+ +([\d.]+[MG]iB) +(\d+) +(\d+) ", shown)
        self.assertEqual(len(used), len(self.devices), shown)
        for row, ours in zip(used, self.devices):
            process = ours["processes"][0]
            self.assertEqual(row[:2], (str(ours["index"]), str(process["pid"])))
            shares = process["sm_percent"], process["memory_utilization_percent"]
            self.assertEqual(tuple(float(share) for share in row[3:]), shares)


if __name__ == "__main__":
    unittest.main()
