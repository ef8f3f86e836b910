"""Prints what nvidia-ml-py says, in gtop's words, as one JSON object for each line of standard input."""

import json
import sys

import pynvml as n

n.nvmlInit()


def ask(function, *arguments):
    """The answer, or None when it is refused."""
    try:
        return function(*arguments)
    except n.NVMLError:
        return None


def field(handle, number):
    value = ask(n.nvmlDeviceGetFieldValues, handle, [number])
    return value[0].value.uiVal if value and value[0].nvmlReturn == 0 else None


def part(value, name):
    return None if value is None else getattr(value, name)


def first(value):
    return None if value is None else value[0]


def thousandth(value):
    return None if value is None else value / 1000


def holds(handle):
    memory = ask(n.nvmlDeviceGetMemoryInfo, handle, n.nvmlMemory_v2)
    processes = {}
    for letter, name in (("C", "Compute"), ("G", "Graphics"), ("C", "MPSCompute")):
        rows = ask(getattr(n, f"nvmlDeviceGet{name}RunningProcesses"), handle)
        if rows is None and name == "Compute":
            processes = None
            break
        for row in rows or ():
            memories, letters = processes.get(row.pid, (set(), set()))
            processes[row.pid] = memories | {row.usedGpuMemory}, letters | {letter}
    if processes is not None:
        known = {pid: [held for held in memories if held is not None] for pid, (memories, _) in processes.items()}
        processes = sorted([pid, max(known[pid], default=None), "+".join(sorted(letters))]
                           for pid, (_, letters) in processes.items())
    return {
        "uuid": n.nvmlDeviceGetUUID(handle), "name": n.nvmlDeviceGetName(handle),
        "memory_total_bytes": part(memory, "total"), "memory_used_bytes": part(memory, "used"),
        "memory_free_bytes": part(memory, "free"), "memory_reserved_bytes": part(memory, "reserved"),
        "processes": processes,
    }


def device(h):
    use = ask(n.nvmlDeviceGetUtilizationRates, h)
    rows = ask(n.nvmlDeviceGetRemappedRows, h)
    return dict(holds(h), **{
        "pci_bus": n.nvmlDeviceGetPciInfo(h).busId,
        "utilization_percent": part(use, "gpu"), "memory_utilization_percent": part(use, "memory"),
        "power_watts": thousandth(ask(n.nvmlDeviceGetPowerUsage, h)),
        "power_limit_watts": thousandth(ask(n.nvmlDeviceGetEnforcedPowerLimit, h)),
        "power_limit_requested_watts": thousandth(ask(n.nvmlDeviceGetPowerManagementLimit, h)),
        "temperature_celsius": ask(n.nvmlDeviceGetTemperature, h, n.NVML_TEMPERATURE_GPU),
        "temperature_margin_celsius": ask(n.nvmlDeviceGetMarginTemperature, h),
        "memory_temperature_celsius": field(h, n.NVML_FI_DEV_MEMORY_TEMP),
        "remapped_corrected_rows": first(rows), "remapped_uncorrected_rows": rows and rows[1],
        "remapping_pending": rows and bool(rows[2]), "remapping_failed": rows and bool(rows[3]),
        "sm_clock_megahertz": ask(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_SM),
        "memory_clock_megahertz": ask(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_MEM),
        "graphics_clock_megahertz": ask(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_GRAPHICS),
        "video_clock_megahertz": ask(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_VIDEO),
        "memory_clock_max_megahertz": ask(n.nvmlDeviceGetMaxClockInfo, h, n.NVML_CLOCK_MEM),
        "performance_state": ask(n.nvmlDeviceGetPerformanceState, h),
        "throttle_bits": ask(n.nvmlDeviceGetCurrentClocksThrottleReasons, h),
        "ecc_corrected_errors": ask(n.nvmlDeviceGetTotalEccErrors, h, 0, 0),
        "ecc_uncorrected_errors": ask(n.nvmlDeviceGetTotalEccErrors, h, 1, 0),
        "ecc_corrected_total_errors": ask(n.nvmlDeviceGetTotalEccErrors, h, 0, 1),
        "ecc_uncorrected_total_errors": ask(n.nvmlDeviceGetTotalEccErrors, h, 1, 1),
        "encoder_percent": first(ask(n.nvmlDeviceGetEncoderUtilization, h)),
        "decoder_percent": first(ask(n.nvmlDeviceGetDecoderUtilization, h)),
        "jpeg_percent": first(ask(n.nvmlDeviceGetJpgUtilization, h)),
        "bar1_used_bytes": part(ask(n.nvmlDeviceGetBAR1MemoryInfo, h), "bar1Used"),
        "fan_percent": ask(n.nvmlDeviceGetFanSpeed, h),
        "pcie_generation": ask(n.nvmlDeviceGetCurrPcieLinkGeneration, h),
        "pcie_lanes": ask(n.nvmlDeviceGetCurrPcieLinkWidth, h),
        "recovery": field(h, 230),
    })


def slices(h):
    for number in range(n.nvmlDeviceGetMaxMigDeviceCount(h)):
        slice = ask(n.nvmlDeviceGetMigDeviceHandleByIndex, h, number)
        if slice is not None:
            yield dict(holds(slice), gpu_instance=n.nvmlDeviceGetGpuInstanceId(slice),
                       compute_instance=n.nvmlDeviceGetComputeInstanceId(slice))


def devices():
    out = []
    for number in range(n.nvmlDeviceGetCount()):
        try:
            h = n.nvmlDeviceGetHandleByIndex(number)
            n.nvmlDeviceGetUUID(h)
        except n.NVMLError as trouble:
            out.append({"fault": str(trouble)})
            continue
        own = device(h)
        out.append(own)
        if first(ask(n.nvmlDeviceGetMigMode, h)) == 1:
            own["processes"] = []       # those of its slices
            out += slices(h)
    return out


def listen():
    """A set with the events of all devices that can be listened to."""
    events = n.nvmlEventSetCreate()
    for number in range(n.nvmlDeviceGetCount()):
        h = ask(n.nvmlDeviceGetHandleByIndex, number)
        types = ask(n.nvmlDeviceGetSupportedEventTypes, h) if h is not None else None
        if types is not None:
            ask(n.nvmlDeviceRegisterEvents, h, types, events)
    return events


def happened(events):
    """(uuid, type, data) of everything that waits."""
    out = []
    while True:
        event = ask(n.nvmlEventSetWait_v2, events, 50)
        if event is None:
            return out
        out.append([n.nvmlDeviceGetUUID(event.device), event.eventType, event.eventData])


def main():
    events = listen()
    for _ in sys.stdin:
        said = {"driver": n.nvmlSystemGetDriverVersion(), "devices": devices(), "events": happened(events)}
        print(json.dumps(said), flush=True)


main()
