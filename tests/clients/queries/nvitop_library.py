"""Prints the values of nvitop's library under gtop's keys, one JSON object per line of standard input."""

import json
import sys

from nvitop import NA, Device


def known(value):
    return None if value == NA else value


def flag(value):
    return {"Enabled": True, "Disabled": False, NA: None}[value]


def milli(value):
    return None if value == NA else value / 1000


def process_row(process):
    shares = [process.gpu_sm_utilization(), process.gpu_memory_utilization(), process.gpu_encoder_utilization(),
              process.gpu_decoder_utilization()]
    return [process.pid, known(process.gpu_memory()), process.type] + [known(share) for share in shares]


def memory_and_processes(device):
    return {"uuid": device.uuid(), "memory_total_bytes": known(device.memory_total()),
            "memory_used_bytes": known(device.memory_used()), "memory_free_bytes": known(device.memory_free()),
            "processes": sorted(process_row(process) for process in device.processes().values())}


def physical_device(device):
    state = known(device.performance_state())
    capability = device.cuda_compute_capability()
    return dict(memory_and_processes(device), **{
        "name": device.name(), "pci_bus": device.bus_id(),
        "utilization_percent": known(device.gpu_utilization()),
        "memory_utilization_percent": known(device.memory_utilization()),
        "encoder_percent": known(device.encoder_utilization()), "decoder_percent": known(device.decoder_utilization()),
        "bar1_total_bytes": known(device.bar1_memory_total()), "bar1_used_bytes": known(device.bar1_memory_used()),
        "graphics_clock_megahertz": known(device.graphics_clock()), "sm_clock_megahertz": known(device.sm_clock()),
        "memory_clock_megahertz": known(device.memory_clock()), "video_clock_megahertz": known(device.video_clock()),
        "graphics_clock_max_megahertz": known(device.max_graphics_clock()),
        "sm_clock_max_megahertz": known(device.max_sm_clock()),
        "memory_clock_max_megahertz": known(device.max_memory_clock()),
        "fan_percent": known(device.fan_speed()), "temperature_celsius": known(device.temperature()),
        "power_watts": milli(device.power_usage()),
        "power_limit_requested_watts": milli(device.power_limit()),
        "persistence_enabled": flag(device.persistence_mode()), "display_active": flag(device.display_active()),
        "mig_enabled": flag(device.mig_mode()),
        "performance_state": None if state is None else int(state[1:]),
        "ecc_uncorrected_errors": known(device.total_volatile_uncorrected_ecc_errors()),
        "compute_capability": None if capability == NA else ".".join(map(str, capability)),
    })


def devices():
    for number in range(Device.count()):
        device = Device(number)
        if device.handle is None:
            yield {"fault": device.name()}
            continue
        values = physical_device(device)
        if device.is_mig_mode_enabled():
            values["processes"] = []    # reported for its slices
        yield values
        for part in device.mig_devices():
            yield dict(memory_and_processes(part), gpu_instance=part.gpu_instance_id(), compute_instance=part.compute_instance_id())


for _ in sys.stdin:
    print(json.dumps({"driver": Device.driver_version(), "devices": list(devices())}), flush=True)
