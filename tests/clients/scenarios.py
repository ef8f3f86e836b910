"""Machines of all kinds, and where NVML clients fail or differ.

`fails` of a scenario names the clients that exit with an error, and the error; `differs` names known differences of clients
that run.
"""

DRIVER = "driver 570.133.20 12080\n"


class Scenario:
    def __init__(self, name, state, processes=0, entry=24, fails=None, differs=None):
        self.name = name
        self.state = state              # text, or a function of the pids
        self.processes = processes
        self.entry = entry
        self.fails = fails or {}
        self.differs = differs or {}

    def text(self, pids):
        return self.state if isinstance(self.state, str) else self.state(pids)


def busy(pids):
    """Eight A100 with five processes each."""
    lines = [DRIVER]
    for i in range(8):
        lines.append(f"gpu {i} capability=8.0 util=9{i} memutil=5{i} temp=6{i} power_mw=38{i}250 limit_mw=400000 "
                     f"limit_requested_mw=390000 total_mib=81920 used_mib=7000{i} clk_gr=1410 clk_sm=1405 clk_video=1275 "
                     f"throttle=4 jpg={i} enc={i} dec=1{i} bar1_total_mib=131072 bar1_used_mib={i} "
                     f"name=NVIDIA A100-SXM4-80GB\n")
        lines += [f"proc {i} {pids[i * 5 + k]} {9000 + k} sm={10 * k + i} mem={k} enc=1 dec=2\n" for k in range(5)]
    return "".join(lines)


def slices(pids):
    """An H100 in seven slices, a process in each."""
    lines = [DRIVER + "gpu 0 mig=1 used_mib=700 util=~ memutil=~\n"]
    for i in range(7):
        lines.append(f"slice 0 {i} total_mib=9728 used_mib={100 + i} gi={7 + i} ci=0 "
                     f"name=NVIDIA H100 80GB HBM3 MIG 1g.10gb\nproc 0 {pids[i]} {90 + i} slice={i}\n")
    return "".join(lines)


def many_slices(pids):
    """Eight devices in seven slices each, a process in each."""
    lines = [DRIVER]
    for i in range(8):
        lines.append(f"gpu {i} mig=1 used_mib=7{i} util=~ memutil=~\n")
        lines += [f"slice {i} {k} total_mib=9728 used_mib={100 + 10 * i + k} gi={7 + k} ci=0 "
                  f"name=NVIDIA H100 80GB HBM3 MIG 1g.10gb\nproc {i} {pids[7 * i + k]} {50 + k} slice={k}\n" for k in range(7)]
    return "".join(lines)


def many_processes(pids):
    rows = [f"proc 0 {pid} {100 + i} sm={i % 100}\n" for i, pid in enumerate(pids)]
    return DRIVER + "gpu 0 used_mib=70000\n" + "".join(rows)


def mixed(pids):
    """Compute and graphics processes, both, and one of unknown memory; and rows of garbage."""
    return (f"driver 535.43.02 12020\ngpu 0 used_mib=5000 display=1\nproc 0 {pids[0]} 1000 sm=50 mem=20\n"
            f"proc 0 {pids[1]} 200 sm=1 type=G\nproc 0 {pids[2]} 300 sm=2 type=CG\nproc 0 {pids[3]} - sm=4\n"
            f"stale 0 4009999 17\n")


SCENARIOS = (
    Scenario("eight busy A100", busy, 40),
    Scenario("an H100 in seven slices", slices, 7, differs={"nvitop": ("zeros for shares of slices",)}),
    Scenario("eight devices in seven slices each", many_slices, 56, differs={"nvitop": ("zeros for shares of slices",)}),
    Scenario("sixteen devices", DRIVER + "".join(f"gpu {i} util={i} used_mib={100 * i}\n" for i in range(16))),
    Scenario("values that are refused, power among them",
             DRIVER + "gpu 0 power_mw=~ temp=!4 limit_mw=~ limit_requested_mw=~ ecc_cv=!4 fan=31\n"
             "gpu 1 util=!999 clk_sm=!999\n"),
    Scenario("a device that is not ours", DRIVER + "gpu 0\ngpu 1\ngpu 2\nfault nvmlDeviceGetHandleByIndex_v2@1 4\n",
             fails={"gpustat": "Insufficient Permissions", "nvitop": "Insufficient Permissions"}),
    Scenario("a device that is lost", DRIVER + "gpu 0\ngpu 1 lost\n"),
    Scenario("three hundred processes", many_processes, 300),
    # Both require entries of at least 24 bytes.
    Scenario("process entries of 16 bytes", mixed, 4, 16, fails={
        "nvidia-ml-py": "does not match the NVML lib version", "gpustat": "does not match the NVML lib version"}),
    Scenario("process entries of 24 bytes", mixed, 4, 24),
    Scenario("process entries of 32 bytes", mixed, 4, 32, differs={
        # Both assume 24 bytes: from the second process on, their values are garbage.
        "nvidia-ml-py": ("garbage processes",), "gpustat": ("garbage processes",)}),
    Scenario("unified memory", lambda pids: "driver 580.95.05 13000\ngpu 0 total_mib=~ used_mib=~ reserved_mib=~ limit_mw=~ "
             "limit_requested_mw=~ clk_mem=~ clk_mem_max=~ memtemp=~ ecc_mode=~ ecc_cv=~ ecc_uv=~ ecc_ca=~ ecc_ua=~ mig=~ "
             f"pcie_gen=~ pcie_width=~ name=NVIDIA GB10\nproc 0 {pids[0]} 51200 sm=97\n", 1,
             differs=dict.fromkeys(("nvidia-ml-py", "nvitop", "gpustat"), ("memory of the host",))),
    Scenario("throttled", DRIVER + "gpu 0 util=99 throttle=0x48 margin=-3 temp=91 clk_sm=345\n"),
    Scenario("memory errors and remapped rows", DRIVER + "gpu 0 ecc_cv=3 ecc_uv=2 ecc_ca=412 ecc_ua=7 remap_corrected=1 "
             "remap_uncorrected=6 remap_pending=1 remap_failed=0 recovery=1\n"),
    Scenario("an Xid", DRIVER + "gpu 0\ngpu 1\nxid 1 63\nxid 0 79\n"),
    Scenario("a list of processes that is refused",
             lambda pids: DRIVER + f"gpu 0\ngpu 1\nproc 0 {pids[0]} 400\nproc 1 {pids[0]} 400\n"
             "fault nvmlDeviceGetComputeRunningProcesses_v3@1 4\n", 1,
             differs={"nvitop": ("no processes where refused",), "gpustat": ("no processes where refused",)}),
)

# Faults that prevent every client from starting.
ABSENT = (
    ("the driver does not run", "gpu 0\nfault nvmlInit_v2 9\nfault nvmlInitWithFlags 9\n",
     "NVML: the driver is not running", "Driver Not Loaded"),
    ("driver and library differ", "gpu 0\nfault nvmlInit_v2 18\nfault nvmlInitWithFlags 18\n",
     "NVML: driver and library versions differ", "NVML/RM version mismatch"),
)

HUNG = DRIVER + "gpu 0\nfault nvmlDeviceGetPowerUsage hang\n"
