"""gtop_monitor: GPUs, their processes and their metrics in Python, of this machine, of a fleet or of a recording.

Written by `gtop python > gtop_monitor.py`. Needs Python 3.6 or newer and the program gtop, and no other package:

    from gtop_monitor import Device, ResourceMetricCollector, take_snapshots

    for device in Device.all():
        print(device.index, device.name(), device.gpu_utilization(), device.memory_used_human())

Names, units and keys are those of nvitop, so that its users can go on. Values come from `gtop --json --watch`, which
runs in the background from the first use on, once for all Python processes of a user; `connect(["gpu01", "gpu02"])`
watches other nodes, and
`use(Recording("a.gtop"))` reads a recording. What is not known is NA, never 0.
"""

__version__ = "@VERSION@"
__all__ = [
    "AccessDenied", "ClockInfos", "ClockSpeedInfos", "CudaDevice", "CudaMigDevice", "Device", "DeviceNotFound",
    "GiB", "GpuProcess", "GpuStats", "GtopError", "HostProcess", "KerasGpuStatsLogger", "KiB",
    "LightningGpuStatsLogger", "MemoryInfo", "MiB", "MigDevice", "NA", "NaType", "NoSuchProcess", "NotApplicable",
    "NotApplicableType", "PhysicalDevice", "PiB", "ProcessError", "Recording", "RemoteProcess",
    "ResourceMetricCollector", "SIZE_UNITS", "Snapshot", "SnapshotResult", "Stream", "ThroughputInfo", "TiB",
    "TrainingMonitor", "TransformersGpuStatsLogger", "UINT_MAX", "ULONGLONG_MAX", "UtilizationRates",
    "ZombieProcess", "boolify", "bytes2human", "collect_in_background", "colored", "command_join", "connect",
    "host", "human2bytes", "normalize_cuda_visible_devices", "parse_cuda_visible_devices", "select_devices",
    "set_color", "stream", "take_snapshots", "timedelta2human", "ttl_cache", "use", "utilization2string",
]
