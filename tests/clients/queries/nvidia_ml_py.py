"""Prints the values of nvidia-ml-py under gtop's keys, one JSON object per line of standard input."""

import json
import sys

import pynvml as n

n.nvmlInit()


def call(function, *arguments):
    """Returns the result of an NVML call, or None if it fails."""
    try:
        return function(*arguments)
    except n.NVMLError:
        return None


def field(handle, number):
    value = call(n.nvmlDeviceGetFieldValues, handle, [number])
    return value[0].value.uiVal if value and value[0].nvmlReturn == 0 else None


def part(value, name):
    return None if value is None else getattr(value, name)


def first(value):
    return None if value is None else value[0]


def milli(value):
    return None if value is None else value / 1000


def memory_and_processes(handle):
    memory = call(n.nvmlDeviceGetMemoryInfo, handle, n.nvmlMemory_v2)
    processes = {}
    for letter, name in (("C", "Compute"), ("G", "Graphics"), ("C", "MPSCompute")):
        rows = call(getattr(n, f"nvmlDeviceGet{name}RunningProcesses"), handle)
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
    use = call(n.nvmlDeviceGetUtilizationRates, h)
    rows = call(n.nvmlDeviceGetRemappedRows, h)
    return dict(memory_and_processes(h), **{
        "pci_bus": n.nvmlDeviceGetPciInfo(h).busId,
        "utilization_percent": part(use, "gpu"), "memory_utilization_percent": part(use, "memory"),
        "power_watts": milli(call(n.nvmlDeviceGetPowerUsage, h)),
        "power_limit_watts": milli(call(n.nvmlDeviceGetEnforcedPowerLimit, h)),
        "power_limit_requested_watts": milli(call(n.nvmlDeviceGetPowerManagementLimit, h)),
        "temperature_celsius": call(n.nvmlDeviceGetTemperature, h, n.NVML_TEMPERATURE_GPU),
        "temperature_margin_celsius": call(n.nvmlDeviceGetMarginTemperature, h),
        "memory_temperature_celsius": field(h, n.NVML_FI_DEV_MEMORY_TEMP),
        "remapped_corrected_rows": first(rows), "remapped_uncorrected_rows": rows and rows[1],
        "remapping_pending": rows and bool(rows[2]), "remapping_failed": rows and bool(rows[3]),
        "sm_clock_megahertz": call(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_SM),
        "memory_clock_megahertz": call(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_MEM),
        "graphics_clock_megahertz": call(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_GRAPHICS),
        "video_clock_megahertz": call(n.nvmlDeviceGetClockInfo, h, n.NVML_CLOCK_VIDEO),
        "memory_clock_max_megahertz": call(n.nvmlDeviceGetMaxClockInfo, h, n.NVML_CLOCK_MEM),
        "performance_state": call(n.nvmlDeviceGetPerformanceState, h),
        "throttle_bits": call(n.nvmlDeviceGetCurrentClocksThrottleReasons, h),
        "ecc_corrected_errors": call(n.nvmlDeviceGetTotalEccErrors, h, 0, 0),
        "ecc_uncorrected_errors": call(n.nvmlDeviceGetTotalEccErrors, h, 1, 0),
        "ecc_corrected_total_errors": call(n.nvmlDeviceGetTotalEccErrors, h, 0, 1),
        "ecc_uncorrected_total_errors": call(n.nvmlDeviceGetTotalEccErrors, h, 1, 1),
        "encoder_percent": first(call(n.nvmlDeviceGetEncoderUtilization, h)),
        "decoder_percent": first(call(n.nvmlDeviceGetDecoderUtilization, h)),
        "jpeg_percent": first(call(n.nvmlDeviceGetJpgUtilization, h)),
        "bar1_used_bytes": part(call(n.nvmlDeviceGetBAR1MemoryInfo, h), "bar1Used"),
        "fan_percent": call(n.nvmlDeviceGetFanSpeed, h),
        "pcie_generation": call(n.nvmlDeviceGetCurrPcieLinkGeneration, h),
        "pcie_lanes": call(n.nvmlDeviceGetCurrPcieLinkWidth, h),
        "recovery": field(h, 230),
    })


def slices(h):
    for number in range(n.nvmlDeviceGetMaxMigDeviceCount(h)):
        slice = call(n.nvmlDeviceGetMigDeviceHandleByIndex, h, number)
        if slice is not None:
            yield dict(memory_and_processes(slice), gpu_instance=n.nvmlDeviceGetGpuInstanceId(slice),
                       compute_instance=n.nvmlDeviceGetComputeInstanceId(slice))


def devices():
    out = []
    for number in range(n.nvmlDeviceGetCount()):
        try:
            h = n.nvmlDeviceGetHandleByIndex(number)
            n.nvmlDeviceGetUUID(h)
        except n.NVMLError as error:
            out.append({"fault": str(error)})
            continue
        values = device(h)
        out.append(values)
        if first(call(n.nvmlDeviceGetMigMode, h)) == 1:
            values["processes"] = []    # reported for its slices
            out += slices(h)
    return out


def register_events():
    """Registers for the events of all devices that support them; returns the event set."""
    events = n.nvmlEventSetCreate()
    for number in range(n.nvmlDeviceGetCount()):
        h = call(n.nvmlDeviceGetHandleByIndex, number)
        types = call(n.nvmlDeviceGetSupportedEventTypes, h) if h is not None else None
        if types is not None:
            call(n.nvmlDeviceRegisterEvents, h, types, events)
    return events


def pending_events(events):
    """Returns (uuid, type, data) of the pending events."""
    out = []
    while True:
        event = call(n.nvmlEventSetWait_v2, events, 50)
        if event is None:
            return out
        out.append([n.nvmlDeviceGetUUID(event.device), event.eventType, event.eventData])


def main():
    events = register_events()
    for _ in sys.stdin:
        values = {"driver": n.nvmlSystemGetDriverVersion(), "devices": devices(), "events": pending_events(events)}
        print(json.dumps(values), flush=True)


main()
