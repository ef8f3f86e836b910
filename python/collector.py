"""Snapshots of devices and processes, and their metrics over time."""

import contextlib
import math
import os
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Union

from .device import CudaDevice, Device
from .host import HostProcess, ProcessError, host
from .process import GpuProcess
from .values import GiB, MiB, Snapshot

SnapshotResult = NamedTuple("SnapshotResult", [("devices", List[Snapshot]), ("gpu_processes", List[Snapshot])])


def take_snapshots(devices: Union[Device, Iterable[Device], None] = None, *,
                   gpu_processes: Union[bool, GpuProcess, Iterable[GpuProcess], None] = None) -> SnapshotResult:
    """Returns snapshots of devices and of processes on them.

    Default: all devices, their slices, and all processes. Without `devices`, they are those of the given processes.
    `gpu_processes=False` leaves processes out.
    """
    chosen = None if devices is None else _chosen(devices)
    if gpu_processes is None or gpu_processes is True:
        chosen = _with_slices(Device.all()) if chosen is None else chosen
        leaves = [device for device in chosen if device.is_leaf_device()]
        processes = [process for device in leaves for process in device.processes().values()]
    else:
        processes = [gpu_processes] if isinstance(gpu_processes, GpuProcess) else list(gpu_processes or ())
        for process in processes:
            process.update_gpu_status()
        if chosen is None:
            chosen = _unique(process.device for process in processes) if processes else Device.all()
    snapshots = [device.as_snapshot() for device in chosen]
    return SnapshotResult(snapshots, GpuProcess.take_snapshots(processes, failsafe=True))


def _chosen(devices: Union[Device, Iterable[Device], None]) -> List[Device]:
    return Device.all() if devices is None else [devices] if isinstance(devices, Device) else list(devices)


def _unique(devices: Iterable[Device]) -> List[Device]:
    found = []  # type: List[Device]
    for device in devices:
        if device not in found:
            found.append(device)
    return found


def _with_slices(devices: Iterable[Device]) -> List[Device]:
    return [part for device in devices for part in [device] + list(device.mig_devices())]


class _Series:
    """The values of one metric: mean by time, minimum, maximum and last. NaN is a gap."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._at = math.nan
        self._sum = 0.0             # of value × seconds
        self._seconds = 0.0         # in which the value is known
        self.last = self.min = self.max = math.nan

    def add(self, value: float, now: float) -> None:
        if math.isnan(value):
            self._at = math.nan
            return
        if math.isnan(self.last):
            # The first value counts from the start on.
            self._spend(value, now - self._started)
            self.min = self.max = value
        elif not math.isnan(self._at):
            self._spend((self.last + value) / 2, now - self._at)
        self.last, self._at = value, now
        self.min, self.max = min(self.min, value), max(self.max, value)

    def _spend(self, value: float, seconds: float) -> None:
        self._sum += value * seconds
        self._seconds += seconds

    def values(self, now: float) -> Dict[str, float]:
        still = 0.0 if math.isnan(self._at) else now - self._at
        seconds = self._seconds + still
        mean = (self._sum + self.last * still if still else self._sum) / seconds if seconds > 0 else self.last
        return {"mean": mean, "min": self.min, "max": self.max, "last": self.last}


class _Collection:
    """The series of a tag, and of the tags that it is in."""

    def __init__(self, tag: str, outer: "Optional[_Collection]") -> None:
        self.tag = tag
        self.outer = outer
        self.prefix = tag if outer is None else "%s/%s" % (outer.prefix, tag)  # type: str
        self.clear()

    def clear(self) -> None:
        self.started = time.monotonic()
        self.last_timestamp = time.time()
        self.series = {}  # type: Dict[str, _Series]

    def add(self, metrics: Dict[str, float], now: float) -> None:
        self.last_timestamp = time.time()
        for key in set(self.series) - set(metrics):
            self.series[key].add(math.nan, now)
        for key, value in metrics.items():
            if key not in self.series:
                self.series[key] = _Series(self.started)
            self.series[key].add(value, now)
        if self.outer is not None:
            self.outer.add(metrics, now)

    def metrics(self) -> Dict[str, float]:
        now = time.monotonic()
        found = {}
        for key, series in self.series.items():
            values = series.values(now)
            if key.endswith("/host/running_time (min)"):
                found["%s/%s" % (self.prefix, key)] = values["max"]
                values = {"last": values["last"]}
            for name, value in values.items():
                found["%s/%s/%s" % (self.prefix, key, name)] = value
        found[self.prefix + "/duration (s)"] = now - self.started
        found[self.prefix + "/timestamp"] = time.time()
        found[self.prefix + "/last_timestamp"] = self.last_timestamp
        return found


class ResourceMetricCollector:
    """Metrics of this machine, of devices and of this process's part in them, over time.

    `devices`: one or several, default all. `root_pids`: processes on the devices that descend from these are included; default: this
    process; `{1}` is all. `interval`: seconds between samples.

        collector = ResourceMetricCollector(Device.cuda.all())
        with collector(tag="train"):
            ...
            logger.log(collector.collect())

    Keys are `TAG/SCOPE/METRIC (UNIT)/mean`, and `min`, `max` and `last`. SCOPE is `host`, `gpu:3`, `cuda:0 (gpu:3)`,
    `pid:12345/host` or `pid:12345/cuda:0 (gpu:3)`. Means are weighted by time; times without a value are not part of them.
    Tags may be nested: the key of the inner one is `OUTER/INNER`.
    """

    # Name in a snapshot, name in keys, what the value is divided by.
    DEVICE_METRICS = [
        ("memory_used", "memory_used (MiB)", MiB), ("memory_free", "memory_free (MiB)", MiB),
        ("memory_total", "memory_total (MiB)", MiB), ("memory_percent", "memory_percent (%)", 1),
        ("gpu_utilization", "gpu_utilization (%)", 1), ("memory_utilization", "memory_utilization (%)", 1),
        ("fan_speed", "fan_speed (%)", 1), ("temperature", "temperature (C)", 1),
        ("power_usage", "power_usage (W)", 1000), ("power_limit", "power_limit (W)", 1000)]
    # The same, with the scope: the host or the device.
    PROCESS_METRICS = [
        ("cpu_percent", "host", "cpu_percent (%)", 1), ("host_memory", "host", "host_memory (MiB)", MiB),
        ("host_memory_percent", "host", "host_memory_percent (%)", 1),
        ("running_time_in_seconds", "host", "running_time (min)", 60),
        ("gpu_memory", None, "gpu_memory (MiB)", MiB), ("gpu_memory_percent", None, "gpu_memory_percent (%)", 1),
        ("gpu_memory_utilization", None, "gpu_memory_utilization (%)", 1),
        ("gpu_sm_utilization", None, "gpu_sm_utilization (%)", 1)]

    def __init__(self, devices: Union[Device, Iterable[Device], None] = None, *,
                 root_pids: Optional[Iterable[int]] = None, interval: float = 1.0) -> None:
        if not isinstance(interval, (int, float)) or not 0 < interval < math.inf:
            raise ValueError("interval must be a number of seconds above 0, not %r" % (interval,))
        self.interval = float(interval)
        self.devices = _chosen(devices)
        self.root_pids = {os.getpid()} if root_pids is None else set(root_pids)
        self._roots = set(HostProcess(pid) for pid in self.root_pids)
        self._descends = {}  # type: Dict[HostProcess, bool]
        self._lock = threading.RLock()
        self._collection = None  # type: Optional[_Collection]
        self._sampled = -math.inf
        self._thread = None  # type: Optional[threading.Thread]
        self._stopped = threading.Event()
        host.cpu_percent()

    # ---- tags

    def activate(self, tag: str) -> "ResourceMetricCollector":
        """Begins a collection, inside the one that runs. Raises RuntimeError if one of this tag runs."""
        with self._lock:
            if tag in self._tags():
                raise RuntimeError("a collection with tag %r runs already" % (tag,))
            self._collection = _Collection(tag, self._collection)
            self._sampled = -math.inf
            if self._thread is None or not self._thread.is_alive():
                self._stopped = threading.Event()
                self._thread = threading.Thread(target=self._run, args=(self._stopped,), daemon=True,
                                                name="gtop metrics")
                self._thread.start()
        return self

    start = activate

    def deactivate(self, tag: Optional[str] = None) -> "ResourceMetricCollector":
        """Ends a collection, default the innermost, with those inside it. Raises RuntimeError if there is none."""
        with self._lock:
            if tag is None and self._collection is None:
                return self
            self._collection = self._find(tag).outer
            if self._collection is None:
                self._stopped.set()
                self._thread = None
        return self

    stop = deactivate

    def clear(self, tag: Optional[str] = None) -> None:
        """Begins a collection anew, default the innermost, with those inside it. Raises RuntimeError if there is none."""
        with self._lock:
            if tag is None and self._collection is None:
                return
            last = self._find(tag)
            for one in self._collections():
                one.clear()
                if one is last:
                    break

    reset = clear

    @contextlib.contextmanager
    def context(self, tag: str) -> "Iterator[ResourceMetricCollector]":
        """Collects in the block."""
        self.activate(tag)
        try:
            yield self
        finally:
            self.deactivate(tag)

    __call__ = context

    def _collections(self) -> List[_Collection]:
        """Returns the collections, the innermost one first."""
        found = []
        one = self._collection
        while one is not None:
            found.append(one)
            one = one.outer
        return found

    def _tags(self) -> Set[str]:
        return set(one.tag for one in self._collections())

    def _find(self, tag: Optional[str]) -> _Collection:
        for one in self._collections():
            if tag in (None, one.tag):
                return one
        raise RuntimeError("no collection runs%s: begin one with activate(tag)" % ("" if tag is None else " with tag %r" % tag))

    # ---- values

    def collect(self) -> Dict[str, float]:
        """Returns the metrics of the innermost collection since it began. Raises RuntimeError if there is none."""
        with self._lock:
            found = self._find(None)
            if time.monotonic() - self._sampled > self.interval / 2:
                self.take_snapshots()
            return found.metrics()

    def daemonize(self, on_collect: Callable[[Dict[str, float]], Optional[bool]], interval: Optional[float] = None, *,
                  on_start: "Optional[Callable[[ResourceMetricCollector], None]]" = None,
                  on_stop: "Optional[Callable[[ResourceMetricCollector], None]]" = None,
                  tag: str = "metrics-daemon", start: bool = True) -> threading.Thread:
        """Calls `on_collect` with the metrics of each interval, in a thread, until it returns false.

        A value that is not a bool, such as None, does not end it. `on_start` and `on_stop` get the collector.
        """
        return collect_in_background(on_collect, self, interval, on_start=on_start, on_stop=on_stop, tag=tag,
                                     start=start)

    def take_snapshots(self) -> SnapshotResult:
        """Adds a sample to the collections that run, and returns it."""
        devices = _with_slices(self.devices)
        leaves = [device for device in devices if device.is_leaf_device()]
        processes = [process for device in leaves for process in device.processes().values()
                     if self._is_included(process)]
        result = SnapshotResult([device.as_snapshot() for device in devices],
                                GpuProcess.take_snapshots(processes, failsafe=True))
        metrics = _host_metrics()
        scopes = {}
        for device in result.devices:
            scope = scopes[device.real] = _scope(device.real)
            for name, key, divisor in self.DEVICE_METRICS:
                metrics["%s/%s" % (scope, key)] = float(device[name]) / divisor
        for process in result.gpu_processes:
            for name, place, key, divisor in self.PROCESS_METRICS:
                scope = place or scopes[process.device]
                metrics["pid:%d/%s/%s" % (process.pid, scope, key)] = float(process[name]) / divisor
        with self._lock:
            self._sampled = time.monotonic()
            if self._collection is not None:
                self._collection.add(metrics, self._sampled)
        return result

    def _is_included(self, process: GpuProcess) -> bool:
        """Returns true if the process descends from one of the roots."""
        if 1 in self.root_pids:
            return True
        one = process.host
        if not isinstance(one, HostProcess):
            return False
        if one not in self._descends:
            if len(self._descends) > 10000:
                self._descends.clear()
            try:
                self._descends[one] = one in self._roots or not self._roots.isdisjoint(one.parents())
            except ProcessError:
                return False
        return self._descends[one]

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.is_set():
            begun = time.monotonic()
            with self._lock:
                if not stopped.is_set():
                    self.take_snapshots()
            stopped.wait(max(0.0, self.interval - (time.monotonic() - begun)))


def _host_metrics() -> Dict[str, float]:
    try:
        load = host.load_average()
        return {
            "host/cpu_percent (%)": host.cpu_percent(),
            "host/memory_percent (%)": host.memory_percent(),
            "host/swap_percent (%)": host.swap_percent(),
            "host/memory_used (GiB)": host.virtual_memory().used / GiB,
            "host/load_average (%) (1 min)": load[0],
            "host/load_average (%) (5 min)": load[1],
            "host/load_average (%) (15 min)": load[2],
        }
    except OSError:
        return {}


def _scope(device: Device) -> str:
    """Returns the name of a device in keys, after that of its node unless it is this machine."""
    index = "gpu:%s" % (device.index,)
    if isinstance(device, CudaDevice):
        return "cuda:%d (%s)" % (device.cuda_index, index)
    return index if device.is_local() else "%s/%s" % (device.node, index)


def collect_in_background(on_collect: Callable[[Dict[str, float]], Optional[bool]],
                          collector: Optional[ResourceMetricCollector] = None, interval: Optional[float] = None, *,
                          on_start: Optional[Callable[[ResourceMetricCollector], None]] = None,
                          on_stop: Optional[Callable[[ResourceMetricCollector], None]] = None,
                          tag: str = "metrics-daemon", start: bool = True) -> threading.Thread:
    """Same as ResourceMetricCollector.daemonize; default: a new collector."""
    chosen = ResourceMetricCollector() if collector is None else collector
    seconds = chosen.interval if interval is None else float(interval)
    if not 0 < seconds < math.inf:
        raise ValueError("interval must be a number of seconds above 0, not %r" % (interval,))
    chosen.interval = min(chosen.interval, seconds / 2.5)

    def run() -> None:
        if on_start is not None:
            on_start(chosen)
        try:
            with chosen(tag):
                goes_on = True
                while goes_on:
                    due = time.monotonic() + seconds
                    goes_on = on_collect(chosen.collect()) is not False
                    time.sleep(max(0.0, due - time.monotonic()))
        finally:
            if on_stop is not None:
                on_stop(chosen)

    thread = threading.Thread(target=run, name=tag, daemon=True)
    if start:
        thread.start()
    return thread
