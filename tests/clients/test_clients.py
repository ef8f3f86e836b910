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
out = []
for i in range(n.nvmlDeviceGetCount()):
    h = n.nvmlDeviceGetHandleByIndex(i)
    memory, use = n.nvmlDeviceGetMemoryInfo(h, version=n.nvmlMemory_v2), n.nvmlDeviceGetUtilizationRates(h)
    fields = n.nvmlDeviceGetFieldValues(h, [n.NVML_FI_DEV_MEMORY_TEMP, n.NVML_FI_DEV_REMAPPED_UNC])
    out.append({
        "uuid": n.nvmlDeviceGetUUID(h), "name": n.nvmlDeviceGetName(h), "pci_bus": n.nvmlDeviceGetPciInfo(h).busId,
        "utilization_percent": use.gpu, "memory_utilization_percent": use.memory,
        "memory_total_bytes": memory.total, "memory_used_bytes": memory.used, "memory_free_bytes": memory.free,
        "memory_reserved_bytes": memory.reserved, "power_watts": n.nvmlDeviceGetPowerUsage(h) / 1000,
        "power_limit_watts": n.nvmlDeviceGetEnforcedPowerLimit(h) / 1000,
        "temperature_celsius": n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU),
        "temperature_margin_celsius": n.nvmlDeviceGetMarginTemperature(h),
        "memory_temperature_celsius": fields[0].value.uiVal, "remapped_uncorrected_rows": fields[1].value.uiVal,
        "sm_clock_megahertz": n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM),
        "memory_clock_max_megahertz": n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_MEM),
        "performance_state": n.nvmlDeviceGetPerformanceState(h),
        "throttle_bits": n.nvmlDeviceGetCurrentClocksThrottleReasons(h),
        "ecc_corrected_total_errors": n.nvmlDeviceGetTotalEccErrors(h, 0, 1),
        "encoder_percent": n.nvmlDeviceGetEncoderUtilization(h)[0],
        "bar1_used_bytes": n.nvmlDeviceGetBAR1MemoryInfo(h).bar1Used,
        "pcie_lanes": n.nvmlDeviceGetCurrPcieLinkWidth(h),
        "processes": sorted([p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(h)),
    })
print(json.dumps({"driver": n.nvmlSystemGetDriverVersion(), "devices": out}))
"""


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
        said = json.loads(self.ask([self.python, "-c", PYNVML]))
        self.assertEqual(len(said["devices"]), len(self.devices))
        nvml = next(source for source in self.node["sources"] if source["id"] == "nvml")
        self.assertEqual(nvml["driver"]["version"], said["driver"])
        for theirs, ours in zip(said["devices"], self.devices):
            processes = theirs.pop("processes")
            for field, value in theirs.items():
                if isinstance(value, str):
                    self.assertEqual(ours[field], value, field)
                else:
                    self.assertAlmostEqual(ours[field], value, 2, field)
            self.assertEqual([[p["pid"], p["memory_used_bytes"]] for p in ours["processes"]], processes)

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
