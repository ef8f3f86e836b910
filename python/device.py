"""Devices: GPUs and their MIG slices, by index, UUID or bus id, and as CUDA counts them."""

import contextlib
import functools
import json
import os
import re
import subprocess
import sys
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Type, Union

from .process import GpuProcess
from .server import GtopError, program
from .stream import Row, Source, Stream, View, _warn_once, share_percent, stream, whole
from .values import (NA, ClockInfos, ClockSpeedInfos, MaybeFloat, MaybeInt, MaybeText, MemoryInfo, Snapshot,
                     ThroughputInfo, UtilizationRates, bytes2human)

Index = Union[int, Tuple[int, int]]

_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F-]+(?:/\d+/\d+)?|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_BUS_ID = re.compile(r"(?:([0-9a-f]+):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-9a-f]))?", re.IGNORECASE)


class DeviceNotFound(LookupError):
    """No device has this index, UUID or bus id; the text says which devices there are."""


class Device(Source):
    """A GPU or TPU chip, by one of: index, (index, slice), UUID or the beginning of one, PCI bus id.

    `Device(0)` is a PhysicalDevice, `Device((0, 1))` or the UUID of a slice a MigDevice. `node` names its node if
    several are watched; default: the first one. Values are those of the latest sample: at most about one interval old,
    and NA if they are unknown, or the device is lost or its node does not answer.

    Raises DeviceNotFound if there is none, and GtopError if gtop cannot run.
    """

    SNAPSHOT_KEYS = [
        "name", "uuid", "bus_id", "memory_info", "memory_used", "memory_free", "memory_total", "memory_used_human",
        "memory_free_human", "memory_total_human", "memory_percent", "memory_usage", "utilization_rates",
        "gpu_utilization", "memory_utilization", "encoder_utilization", "decoder_utilization", "clock_infos",
        "max_clock_infos", "clock_speed_infos", "sm_clock", "memory_clock", "fan_speed", "temperature", "power_usage",
        "power_limit", "power_status", "pcie_throughput", "pcie_tx_throughput", "pcie_rx_throughput",
        "pcie_tx_throughput_human", "pcie_rx_throughput_human", "display_active", "display_mode",
        "current_driver_model", "persistence_mode", "performance_state", "total_volatile_uncorrected_ecc_errors",
        "compute_mode", "cuda_compute_capability", "mig_mode"]
    GPU_PROCESS_CLASS = GpuProcess
    cuda = None  # type: Any

    _index = 0  # type: Index
    _is_local = None  # type: Optional[bool]
    _links = None  # type: Optional[Tuple[float, List[Row]]]

    def __new__(cls, index: Union[Index, str, None] = None, *, uuid: Optional[str] = None,
                bus_id: Optional[str] = None, node: Optional[str] = None) -> Any:
        given = [one for one in (index, uuid, bus_id) if one is not None]
        if len(given) != 1:
            raise TypeError("Device takes one of index, uuid and bus_id")
        source = stream()
        row, place = _find(source.view(), node, given[0])
        kind = PhysicalDevice if row["parent"] is None else MigDevice  # type: Type[Device]
        if issubclass(cls, (PhysicalDevice, MigDevice)) and not issubclass(cls, kind):
            raise DeviceNotFound("%r is no %s" % (given[0], cls.__name__))
        return _make(kind if cls is Device else cls, source, place, row)

    def __init__(self, index: Union[Index, str, None] = None, *, uuid: Optional[str] = None,
                 bus_id: Optional[str] = None, node: Optional[str] = None) -> None:
        """Everything is done by __new__, which also chooses the class."""

    # ---- finding devices

    @classmethod
    def is_available(cls) -> bool:
        """Returns true if there is a device."""
        try:
            return cls.count() > 0
        except GtopError:
            return False

    @staticmethod
    def _of_driver(key: str) -> MaybeText:
        for node in stream().view().nodes.values():
            for source in node["sources"]:
                if source["driver"] is not None and source["driver"].get(key):
                    return str(source["driver"][key])
        return NA

    @staticmethod
    def driver_version() -> MaybeText:
        """Returns the version of the driver, of the first node that has one."""
        return Device._of_driver("version")

    @staticmethod
    def cuda_driver_version() -> MaybeText:
        """Returns the CUDA version that the driver supports, such as 12.8."""
        return Device._of_driver("cuda")

    max_cuda_version = cuda_driver_version
    cuda_version = cuda_driver_version

    @staticmethod
    def cuda_runtime_version() -> MaybeText:
        """Returns the version of the CUDA runtime that is loaded or installed here, such as 12.4."""
        return _cuda_runtime_version()

    cudart_version = cuda_runtime_version

    @classmethod
    def count(cls) -> int:
        """Returns the number of devices of all nodes, of all vendors, without MIG slices."""
        return len(PhysicalDevice.all())

    @classmethod
    def all(cls) -> "List[Any]":
        """Returns all devices, of all vendors, without MIG slices."""
        source = stream()
        return [_make(PhysicalDevice, source, (node, row["index"]), row) for node, row in _rows(source.view(), None)
                if row["parent"] is None]

    @classmethod
    def from_indices(cls, indices: Union[int, Iterable[Index], None] = None) -> "List[Any]":
        """Returns the devices of these indices, default: all GPUs of the first node."""
        if indices is None:
            first = next(iter(stream().view().nodes), None)
            return [device for device in PhysicalDevice.all() if device.node == first]
        return [cls(index) for index in ([indices] if isinstance(indices, int) else indices)]

    @staticmethod
    def from_cuda_visible_devices() -> "List[CudaDevice]":
        """Returns the devices that CUDA programs started now would see, in CUDA's order."""
        return CudaDevice.all()

    @staticmethod
    def from_cuda_indices(cuda_indices: Union[int, Iterable[int], None] = None) -> "List[CudaDevice]":
        """Returns devices by CUDA's order; default: all visible ones. Raises DeviceNotFound."""
        return CudaDevice.from_indices(cuda_indices)

    @staticmethod
    def parse_cuda_visible_devices(cuda_visible_devices: Optional[str] = "\0") -> "List[Index]":
        """Returns the indices of the devices in a value of CUDA_VISIBLE_DEVICES; None is an unset variable.

        As CUDA does: the list ends at the first entry that names no device, is empty if a device is named twice, and
        of MIG slices only the first is visible.
        """
        return [device.index for device in _cuda_devices(cuda_visible_devices)]

    @staticmethod
    def normalize_cuda_visible_devices(cuda_visible_devices: Optional[str] = "\0") -> str:
        """Returns the same devices as a list of UUIDs."""
        return ",".join(device.uuid() for device in _cuda_devices(cuda_visible_devices))

    # ---- identity

    @property
    def index(self) -> Index:
        """The index on its node, in the driver's order; (index, slice) for a MIG slice."""
        return self._index

    nvml_index = index

    @property
    def physical_index(self) -> int:
        """The index of the GPU on its node."""
        return self._index if isinstance(self._index, int) else self._index[0]

    @property
    def cuda_index(self) -> int:
        """The index in CUDA's order. Raises DeviceNotFound if CUDA does not see the device."""
        for place, device in enumerate(_cuda_devices()):
            if (device.node, device._uuid) == (self._node, self._uuid):
                return place
        raise DeviceNotFound("%r is not visible to CUDA: CUDA_VISIBLE_DEVICES=%s" % (
            self, os.environ.get("CUDA_VISIBLE_DEVICES", "")))

    def name(self) -> MaybeText:
        """Returns the model, or `ERROR: GPU is Lost` if the driver has lost the device."""
        row = self._last_row()
        if row.get("name"):
            return str(row["name"])
        fault = row.get("fault")
        return NA if fault is None else "ERROR: GPU is Lost" if fault == "lost" else "ERROR: %s" % fault

    def _last_row(self) -> Row:
        """Returns the row of the latest snapshot, however old: for what does not change."""
        view = self._latest()[0]
        return view.rows.get((self._node, self._uuid), {}) if view is not None else {}

    def uuid(self) -> MaybeText:
        """Returns the UUID."""
        return NA if self._uuid.startswith("index-") else self._uuid

    def bus_id(self) -> MaybeText:
        """Returns the PCI bus id, such as 00000000:18:00.0."""
        return _text(self._last_row().get("pci_bus"))

    def is_local(self) -> bool:
        """Returns true if the device is in this machine."""
        if self._is_local is None:
            view = self._latest()[0]
            node = view.nodes.get(self._node) if view is not None else None
            if node is None:
                return False
            self._is_local = node["transport"] == "local"
        return self._is_local

    # ---- memory

    def memory_info(self) -> MemoryInfo:
        """Returns the device memory in bytes."""
        row = self._latest()[1]
        return MemoryInfo(*(whole(_known(row, key)) for key in (
            "memory_total_bytes", "memory_free_bytes", "memory_used_bytes", "memory_reserved_bytes")))

    def memory_total(self) -> MaybeInt:
        """Returns the total device memory in bytes."""
        return self.memory_info().total

    def memory_used(self) -> MaybeInt:
        """Returns the device memory in use, in bytes."""
        return self.memory_info().used

    def memory_free(self) -> MaybeInt:
        """Returns the free device memory in bytes."""
        return self.memory_info().free

    def memory_total_human(self) -> MaybeText:
        """Returns the total device memory as text."""
        return bytes2human(self.memory_total())

    def memory_used_human(self) -> MaybeText:
        """Returns the device memory in use as text."""
        return bytes2human(self.memory_used())

    def memory_free_human(self) -> MaybeText:
        """Returns the free device memory as text."""
        return bytes2human(self.memory_free())

    def memory_percent(self) -> MaybeFloat:
        """Returns the share of device memory in use, in percent."""
        memory = self.memory_info()
        return share_percent(memory.used, memory.total)

    def memory_usage(self) -> str:
        """Returns used and total device memory as text."""
        return "%s / %s" % (self.memory_used_human(), self.memory_total_human())

    def bar1_memory_info(self) -> MemoryInfo:
        """Returns the BAR1 memory, device memory that the host maps, in bytes."""
        row = self._latest()[1]
        total, free, used = (whole(_known(row, key)) for key in ("bar1_total_bytes", "bar1_free_bytes", "bar1_used_bytes"))
        return MemoryInfo(total, free, used, NA)

    def bar1_memory_total(self) -> MaybeInt:
        """Returns the total BAR1 memory in bytes."""
        return self.bar1_memory_info().total

    def bar1_memory_used(self) -> MaybeInt:
        """Returns the BAR1 memory in use, in bytes."""
        return self.bar1_memory_info().used

    def bar1_memory_free(self) -> MaybeInt:
        """Returns the free BAR1 memory in bytes."""
        return self.bar1_memory_info().free

    def bar1_memory_total_human(self) -> MaybeText:
        """Returns the total BAR1 memory as text."""
        return bytes2human(self.bar1_memory_total())

    def bar1_memory_used_human(self) -> MaybeText:
        """Returns the BAR1 memory in use as text."""
        return bytes2human(self.bar1_memory_used())

    def bar1_memory_free_human(self) -> MaybeText:
        """Returns the free BAR1 memory as text."""
        return bytes2human(self.bar1_memory_free())

    def bar1_memory_percent(self) -> MaybeFloat:
        """Returns the share of BAR1 memory in use, in percent."""
        memory = self.bar1_memory_info()
        return share_percent(memory.used, memory.total)

    def bar1_memory_usage(self) -> str:
        """Returns used and total BAR1 memory as text."""
        return "%s / %s" % (self.bar1_memory_used_human(), self.bar1_memory_total_human())

    # ---- utilization, clocks, power

    def utilization_rates(self) -> UtilizationRates:
        """Returns the utilization of the GPU, its memory bandwidth, its encoder and decoder, in percent."""
        row = self._latest()[1]
        return UtilizationRates(*(whole(_known(row, key)) for key in (
            "utilization_percent", "memory_utilization_percent", "encoder_percent", "decoder_percent")))

    def gpu_utilization(self) -> MaybeInt:
        """Returns the share of time in which the device executed work, in percent."""
        return self.utilization_rates().gpu

    gpu_percent = gpu_utilization

    def memory_utilization(self) -> MaybeInt:
        """Returns the share of time in which device memory was read or written, in percent."""
        return self.utilization_rates().memory

    def encoder_utilization(self) -> MaybeInt:
        """Returns the utilization of the video encoder in percent."""
        return self.utilization_rates().encoder

    def decoder_utilization(self) -> MaybeInt:
        """Returns the utilization of the video decoder in percent."""
        return self.utilization_rates().decoder

    def _clocks(self, form: str) -> ClockInfos:
        row = self._latest()[1]
        return ClockInfos(*(whole(_known(row, form % name)) for name in ("graphics", "sm", "memory", "video")))

    def clock_infos(self) -> ClockInfos:
        """Returns the clocks in MHz."""
        return self._clocks("%s_clock_megahertz")

    clocks = clock_infos

    def max_clock_infos(self) -> ClockInfos:
        """Returns the maximum clocks in MHz."""
        return self._clocks("%s_clock_max_megahertz")

    max_clocks = max_clock_infos

    def clock_speed_infos(self) -> ClockSpeedInfos:
        """Returns the current and maximum clocks in MHz."""
        return ClockSpeedInfos(self.clock_infos(), self.max_clock_infos())

    def graphics_clock(self) -> MaybeInt:
        """Returns the graphics clock in MHz."""
        return self.clock_infos().graphics

    def sm_clock(self) -> MaybeInt:
        """Returns the SM clock in MHz."""
        return self.clock_infos().sm

    def memory_clock(self) -> MaybeInt:
        """Returns the memory clock in MHz."""
        return self.clock_infos().memory

    def video_clock(self) -> MaybeInt:
        """Returns the video clock in MHz."""
        return self.clock_infos().video

    def max_graphics_clock(self) -> MaybeInt:
        """Returns the maximum graphics clock in MHz."""
        return self.max_clock_infos().graphics

    def max_sm_clock(self) -> MaybeInt:
        """Returns the maximum SM clock in MHz."""
        return self.max_clock_infos().sm

    def max_memory_clock(self) -> MaybeInt:
        """Returns the maximum memory clock in MHz."""
        return self.max_clock_infos().memory

    def max_video_clock(self) -> MaybeInt:
        """Returns the maximum video clock in MHz."""
        return self.max_clock_infos().video

    def fan_speed(self) -> MaybeInt:
        """Returns the intended fan speed in percent."""
        return whole(self.value("fan_percent"))

    def temperature(self) -> MaybeInt:
        """Returns the core temperature in °C."""
        return whole(self.value("temperature_celsius"))

    def power_usage(self) -> MaybeInt:
        """Returns the power draw in milliwatts."""
        return whole(self.value("power_watts"), 1000)

    power_draw = power_usage

    def power_limit(self) -> MaybeInt:
        """Returns the requested power limit in milliwatts, the one in force if only that is known."""
        requested = self.value("power_limit_requested_watts")
        return whole(self.value("power_limit_watts") if requested is NA else requested, 1000)

    def power_status(self) -> str:
        """Returns power draw and limit as text, in watts."""
        return " / ".join(str(NA) if power is NA else "%dW" % round(power / 1000)
                          for power in (self.power_usage(), self.power_limit()))

    # ---- traffic

    def pcie_throughput(self) -> ThroughputInfo:
        """Returns the traffic over PCIe in KiB/s."""
        row = self._latest()[1]
        return ThroughputInfo(*(whole(_known(row, key), 1 / 1024) for key in (
            "pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second")))

    def pcie_tx_throughput(self) -> MaybeInt:
        """Returns the PCIe transmit rate in KiB/s."""
        return self.pcie_throughput().tx

    def pcie_rx_throughput(self) -> MaybeInt:
        """Returns the PCIe receive rate in KiB/s."""
        return self.pcie_throughput().rx

    def pcie_tx_throughput_human(self) -> MaybeText:
        """Returns the PCIe transmit rate as text."""
        return _rate(self.pcie_tx_throughput())

    def pcie_rx_throughput_human(self) -> MaybeText:
        """Returns the PCIe receive rate as text."""
        return _rate(self.pcie_rx_throughput())

    def nvlink_link_count(self) -> int:
        """Returns the number of NVLinks; 0 if it is unknown."""
        return int(self.value("nvlinks"))

    def nvlink_throughput(self, interval: Optional[float] = None) -> List[ThroughputInfo]:
        """Returns the traffic over each NVLink in KiB/s, since the call before or over `interval` seconds.

        NA at the first call without an interval, and where the driver counts only the sum of all links.
        """
        if interval:
            self._count_links()
            if not self._origin.wait(max(interval, 2 * self._origin.interval)):
                return [ThroughputInfo(NA, NA)] * self.nvlink_link_count()
        return self._count_links()

    def _count_links(self) -> List[ThroughputInfo]:
        view, row = self._latest()
        now = (view.at if view is not None else 0.0, row.get("links") or [])
        before, links = self._links, []
        if before is None or before[0] != now[0]:
            self._links = now
        for place in range(self.nvlink_link_count()):
            pair = []
            for key in ("transmit_bytes", "receive_bytes"):
                try:
                    assert before is not None
                    change = now[1][place][key] - before[1][place][key]
                    pair.append(whole(change / (now[0] - before[0]) / 1024) if change >= 0 else NA)
                except (AssertionError, IndexError, TypeError, ZeroDivisionError):
                    pair.append(NA)
            links.append(ThroughputInfo(*pair))
        return links

    def nvlink_total_throughput(self, interval: Optional[float] = None) -> ThroughputInfo:
        """Returns the traffic over all NVLinks in KiB/s, by the latest sample; `interval` changes nothing."""
        row = self._latest()[1]
        return ThroughputInfo(*(whole(_known(row, key), 1 / 1024) for key in (
            "nvlink_transmit_bytes_per_second", "nvlink_receive_bytes_per_second")))

    def nvlink_mean_throughput(self, interval: Optional[float] = None) -> ThroughputInfo:
        """Returns the mean traffic of an NVLink in KiB/s."""
        total, links = self.nvlink_total_throughput(interval), self.nvlink_link_count()
        return ThroughputInfo(*(whole(rate, 1 / links) if links else NA for rate in total))

    def nvlink_tx_throughput(self, interval: Optional[float] = None) -> List[MaybeInt]:
        """Returns the transmit rate of each NVLink in KiB/s."""
        return [link.tx for link in self.nvlink_throughput(interval)]

    def nvlink_rx_throughput(self, interval: Optional[float] = None) -> List[MaybeInt]:
        """Returns the receive rate of each NVLink in KiB/s."""
        return [link.rx for link in self.nvlink_throughput(interval)]

    def nvlink_total_tx_throughput(self, interval: Optional[float] = None) -> MaybeInt:
        """Returns the transmit rate of all NVLinks in KiB/s."""
        return self.nvlink_total_throughput(interval).tx

    def nvlink_total_rx_throughput(self, interval: Optional[float] = None) -> MaybeInt:
        """Returns the receive rate of all NVLinks in KiB/s."""
        return self.nvlink_total_throughput(interval).rx

    def nvlink_mean_tx_throughput(self, interval: Optional[float] = None) -> MaybeInt:
        """Returns the mean transmit rate of an NVLink in KiB/s."""
        return self.nvlink_mean_throughput(interval).tx

    def nvlink_mean_rx_throughput(self, interval: Optional[float] = None) -> MaybeInt:
        """Returns the mean receive rate of an NVLink in KiB/s."""
        return self.nvlink_mean_throughput(interval).rx

    def nvlink_tx_throughput_human(self, interval: Optional[float] = None) -> List[MaybeText]:
        """Returns the transmit rate of each NVLink as text."""
        return [_rate(rate) for rate in self.nvlink_tx_throughput(interval)]

    def nvlink_rx_throughput_human(self, interval: Optional[float] = None) -> List[MaybeText]:
        """Returns the receive rate of each NVLink as text."""
        return [_rate(rate) for rate in self.nvlink_rx_throughput(interval)]

    def nvlink_total_tx_throughput_human(self, interval: Optional[float] = None) -> MaybeText:
        """Returns the transmit rate of all NVLinks as text."""
        return _rate(self.nvlink_total_tx_throughput(interval))

    def nvlink_total_rx_throughput_human(self, interval: Optional[float] = None) -> MaybeText:
        """Returns the receive rate of all NVLinks as text."""
        return _rate(self.nvlink_total_rx_throughput(interval))

    def nvlink_mean_tx_throughput_human(self, interval: Optional[float] = None) -> MaybeText:
        """Returns the mean transmit rate of an NVLink as text."""
        return _rate(self.nvlink_mean_tx_throughput(interval))

    def nvlink_mean_rx_throughput_human(self, interval: Optional[float] = None) -> MaybeText:
        """Returns the mean receive rate of an NVLink as text."""
        return _rate(self.nvlink_mean_rx_throughput(interval))

    # ---- modes

    def _switch(self, key: str) -> MaybeText:
        return {True: "Enabled", False: "Disabled"}.get(self.value(key), NA)

    def display_active(self) -> MaybeText:
        """Returns Enabled if a display is attached and active, else Disabled."""
        return self._switch("display_active")

    def display_mode(self) -> MaybeText:
        """Returns Enabled if a display is connected, else Disabled."""
        return self._switch("display_connected")

    def current_driver_model(self) -> MaybeText:
        """Returns NA: only Windows has driver models."""
        return NA

    driver_model = current_driver_model

    def persistence_mode(self) -> MaybeText:
        """Returns Enabled or Disabled: whether the driver stays loaded while the device is unused."""
        return self._switch("persistence_enabled")

    def performance_state(self) -> MaybeText:
        """Returns the performance state from P0, the fastest, to P15."""
        state = self.value("performance_state")
        return NA if state is NA else "P%d" % state

    def total_volatile_uncorrected_ecc_errors(self) -> MaybeInt:
        """Returns the uncorrected ECC errors since the driver was loaded."""
        return whole(self.value("ecc_uncorrected_errors"))

    def compute_mode(self) -> MaybeText:
        """Returns who may use the device: Default, Exclusive Thread, Prohibited or Exclusive Process."""
        mode = self.value("compute_mode")
        return NA if mode is NA else str(mode).title()

    def cuda_compute_capability(self) -> Any:
        """Returns the CUDA compute capability, such as (8, 0)."""
        text = self._last_row().get("compute_capability")
        return NA if text is None else tuple(int(part) for part in text.split("."))

    def mig_mode(self) -> MaybeText:
        """Returns Enabled or Disabled: whether MIG mode is on."""
        return self._switch("mig_enabled")

    def is_mig_mode_enabled(self) -> bool:
        """Returns true if MIG mode is on."""
        return self._last_row().get("mig_enabled") is True

    def is_mig_device(self) -> bool:
        """Returns true for a MIG slice."""
        return isinstance(self._index, tuple)

    def max_mig_device_count(self) -> int:
        """Returns the number of slices of the GPU now; 0 without MIG."""
        return len(self.mig_devices())

    def mig_devices(self) -> "List[MigDevice]":
        """Returns the MIG slices."""
        return []

    def is_leaf_device(self) -> bool:
        """Returns true for a MIG slice, and for a GPU without slices."""
        return not self.mig_devices()

    def to_leaf_devices(self) -> "List[Device]":
        """Returns the MIG slices, or the GPU itself if it has none."""
        return list(self.mig_devices()) or [self]

    # ---- processes and snapshots

    def processes(self) -> Dict[int, GpuProcess]:
        """Returns the processes on the device by pid; none also if they are unknown (see `has_processes`)."""
        return dict((row["pid"], self.GPU_PROCESS_CLASS(row["pid"], self, row)) for row in self.process_rows() or ())

    def has_processes(self) -> Any:
        """Returns whether a process uses the device; NA if gtop cannot find out."""
        rows = self.process_rows()
        return NA if rows is None else bool(rows)

    def as_snapshot(self) -> Snapshot:
        """Returns all values of the device, of one sample."""
        with self.oneshot():
            values = dict((name, getattr(self, name)()) for name in self.SNAPSHOT_KEYS)
        return Snapshot(self, self.timestamp(), index=self.index, physical_index=self.physical_index,
                        is_mig_device=self.is_mig_device(), node=self.node, **values)

    def __reduce__(self) -> Any:
        return _restore, (type(self), self._node, self._uuid)

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Device) and isinstance(self, CudaDevice) == isinstance(other, CudaDevice)
                and (self._node, self._uuid) == (other._node, other._uuid))

    def __hash__(self) -> int:
        return hash((self._node, self._uuid))

    def __repr__(self) -> str:
        return "%s(index=%r, name=%r, total_memory=%s)" % (
            type(self).__name__, self._index, str(self.name()), self.memory_total_human())


class PhysicalDevice(Device):
    """A GPU."""

    def mig_devices(self) -> "List[MigDevice]":
        """Returns its MIG slices."""
        view = self._latest()[0]
        rows = view.slices.get((self._node, self._uuid), []) if view is not None else []
        return [_make(MigDevice, self._origin, (self._node, (self.physical_index, place)), row)
                for place, row in enumerate(rows)]

    def mig_device(self, mig_index: int) -> "MigDevice":
        """Returns a MIG slice. Raises DeviceNotFound."""
        slices = self.mig_devices()
        if not 0 <= mig_index < len(slices):
            raise DeviceNotFound("%r has %d slices, and none with index %d" % (self, len(slices), mig_index))
        return slices[mig_index]


class MigDevice(Device):
    """A MIG slice of a GPU."""

    @classmethod
    def all(cls) -> "List[Any]":
        """Returns the MIG slices of all GPUs."""
        return [part for device in PhysicalDevice.all() for part in device.mig_devices()]

    @classmethod
    def count(cls) -> int:
        """Returns the number of MIG slices."""
        return len(cls.all())

    @property
    def mig_index(self) -> int:
        """The place among the slices of the GPU."""
        return self._index[1] if isinstance(self._index, tuple) else 0

    @property
    def parent(self) -> PhysicalDevice:
        """The GPU."""
        view = self._origin.view()
        uuid = view.rows[self._node, self._uuid]["parent"]
        row = view.rows[self._node, uuid]
        parent = _make(PhysicalDevice, self._origin, (self._node, self.physical_index), row)  # type: PhysicalDevice
        return parent

    def gpu_instance_id(self) -> MaybeInt:
        """Returns the GPU instance id."""
        return whole(self.value("gpu_instance"))

    def compute_instance_id(self) -> MaybeInt:
        """Returns the compute instance id."""
        return whole(self.value("compute_instance"))

    def as_snapshot(self) -> Snapshot:
        """Returns all values of the slice, of one sample."""
        snapshot = super().as_snapshot()
        snapshot["mig_index"] = self.mig_index
        for name in ("gpu_instance_id", "compute_instance_id"):
            snapshot[name] = getattr(self, name)()
        return snapshot


class CudaDevice(Device):
    """A device as CUDA counts it, among those of CUDA_VISIBLE_DEVICES: `CudaDevice(0)`, or `Device.cuda(0)`.

    Or by one of: its index on the node, as `nvml_index` or `physical_index`; its UUID. Raises DeviceNotFound if CUDA sees
    no such device.
    """

    _cuda_index = 0

    def __new__(cls, cuda_index: Optional[int] = None, *, nvml_index: Optional[Index] = None,
                physical_index: Optional[Index] = None, uuid: Optional[str] = None) -> Any:
        given = [one for one in (cuda_index, nvml_index, physical_index, uuid) if one is not None]
        if len(given) != 1:
            raise TypeError("CudaDevice takes one of cuda_index, nvml_index, physical_index and uuid")
        if cuda_index is not None:
            return cls.from_indices(cuda_index)[0]
        wanted = Device(given[0])
        return cls.from_indices(wanted.cuda_index)[0]

    def __init__(self, cuda_index: Optional[int] = None, *, nvml_index: Optional[Index] = None,
                 physical_index: Optional[Index] = None, uuid: Optional[str] = None) -> None:
        """Everything is done by __new__."""

    @classmethod
    def is_available(cls) -> bool:
        """Returns true if CUDA sees a device."""
        try:
            return cls.count() > 0
        except GtopError:
            return False

    @classmethod
    def count(cls) -> int:
        """Returns the number of devices that CUDA sees."""
        return len(cls.all())

    @classmethod
    def all(cls) -> "List[Any]":
        """Returns the devices that CUDA sees."""
        found = []
        for place, device in enumerate(_cuda_devices()):
            kind = CudaMigDevice if device.is_mig_device() else CudaDevice  # type: Type[CudaDevice]
            made = _make(kind, device._origin, (device.node, device.index), {"uuid": device._uuid})
            made._cuda_index = place
            found.append(made)
        return found

    @classmethod
    def from_indices(cls, indices: Union[int, Iterable[Index], None] = None) -> "List[Any]":
        """Returns devices by CUDA's order; default: all."""
        visible = cls.all()
        if indices is None:
            return visible
        found = []
        for index in [indices] if isinstance(indices, int) else indices:
            if not isinstance(index, int) or not 0 <= index < len(visible):
                raise DeviceNotFound("CUDA sees %d devices, and none with index %r: CUDA_VISIBLE_DEVICES=%s" % (
                    len(visible), index, os.environ.get("CUDA_VISIBLE_DEVICES", "(unset)")))
            found.append(visible[index])
        return found

    @property
    def cuda_index(self) -> int:
        """The index in CUDA's order when it was made."""
        return self._cuda_index

    def mig_devices(self) -> "List[MigDevice]":
        """Returns the slices of the GPU."""
        return PhysicalDevice.mig_devices(self)  # type: ignore[arg-type]

    def as_snapshot(self) -> Snapshot:
        """Returns all values of the device, of one sample."""
        snapshot = super().as_snapshot()
        snapshot["cuda_index"] = self._cuda_index
        return snapshot

    def __reduce__(self) -> Any:
        return _restore, (type(self), self._node, self._uuid, self._cuda_index)

    def __repr__(self) -> str:
        return '%s(cuda_index=%d, nvml_index=%r, name="%s", total_memory=%s)' % (
            type(self).__name__, self._cuda_index, self._index, self.name(), self.memory_total_human())


class CudaMigDevice(CudaDevice, MigDevice):
    """A MIG slice as CUDA counts it."""


Device.cuda = CudaDevice


def _make(kind: Any, source: Stream, place: "Tuple[str, Index]", row: Row) -> Any:
    made = object.__new__(kind)
    Source.__init__(made, source, place[0], row["uuid"])
    made._index = place[1]
    made.is_local()
    return made


def _restore(kind: Any, node: str, uuid: str, cuda_index: Optional[int] = None) -> Any:
    source = stream()
    row, place = _find(source.view(), node, uuid)
    made = _make(kind, source, place, row)
    if cuda_index is not None:
        made._cuda_index = cuda_index
    return made


def _known(row: Row, key: str) -> Any:
    value = row.get(key)
    return NA if value is None else value


def _text(value: Any) -> MaybeText:
    return NA if value is None else str(value)


def _rate(kib: MaybeInt) -> MaybeText:
    return NA if kib is NA else bytes2human(kib * 1024) + "/s"


def _rows(view: View, node: Optional[str]) -> Iterator[Tuple[str, Row]]:
    """Yields the devices of a node, or of all."""
    for name in view.nodes if node is None else [node]:
        for row in view.nodes[name]["devices"]:
            yield name, row


def _find(view: View, node: Optional[str], wanted: Union[Index, str]) -> "Tuple[Row, Tuple[str, Index]]":
    """Returns the row of a device, its node and its index. Raises DeviceNotFound."""
    if node is not None and node not in view.nodes:
        raise DeviceNotFound("no node %r is watched; there are: %s" % (node, ", ".join(view.nodes) or "none"))
    found = []
    for name in [node] if node is not None else list(view.nodes):
        for row, index in _indexed(view, name):
            if _is_named(row, index, wanted):
                found.append((row, (name, index)))
        if found and not isinstance(wanted, str):
            break
    exact = [one for one in found if one[0]["uuid"] == wanted]
    if len(exact or found) == 1 or (found and not isinstance(wanted, str)):
        return (exact or found)[0]
    if found:
        raise DeviceNotFound("%r is the beginning of several UUIDs: %s" % (
            wanted, ", ".join(row["uuid"] for row, _ in found)))
    raise DeviceNotFound("no device %r: %s" % (wanted, _what_there_is(view)))


def _indexed(view: View, node: str) -> "List[Tuple[Row, Index]]":
    """Returns the devices of a node with their indices."""
    parents = {}  # type: Dict[str, int]
    slices = {}  # type: Dict[str, int]
    found = []  # type: List[Tuple[Row, Index]]
    for _, row in _rows(view, node):
        parent = row["parent"]
        if parent is None:
            parents[row["uuid"]] = row["index"]
            found.append((row, row["index"]))
        elif parent in parents:
            place = slices[parent] = slices.get(parent, -1) + 1
            found.append((row, (parents[parent], place)))
    return found


def _is_named(row: Row, index: Index, wanted: Union[Index, str]) -> bool:
    if not isinstance(wanted, str):
        return index == (tuple(wanted) if isinstance(wanted, (list, tuple)) else wanted)
    if _BUS_ID.fullmatch(wanted):
        return row["parent"] is None and _bus_parts(wanted) == _bus_parts(row["pci_bus"] or "")
    parts = re.fullmatch(r"MIG-(GPU-[^/]+)/(\d+)/(\d+)", wanted)
    if parts is not None:
        return (row["parent"] or "").startswith(parts.group(1)) and (
            (row["gpu_instance"], row["compute_instance"]) == (int(parts.group(2)), int(parts.group(3))))
    return _UUID.fullmatch(wanted) is not None and (
        row["uuid"].startswith(wanted) or row["uuid"].split("-", 1)[-1] == wanted)


def _bus_parts(text: str) -> Optional[List[int]]:
    found = _BUS_ID.fullmatch(text)
    return [int(part or "0", 16) for part in found.groups()] if found else None


def _what_there_is(view: View) -> str:
    """Returns why there may be no device: what there is, and what is wrong with the nodes."""
    words = []
    for name, node in view.nodes.items():
        devices = [str(index) for _, index in _indexed(view, name)]
        if node["fault"] is not None:
            words.append("%s: %s: %s" % (name, node["fault"]["kind"], node["fault"]["remedy"]))
        elif devices:
            words.append("%s has %s" % (name, ", ".join(devices)))
        else:
            reasons = (one["absent"] or (one["fault"] or {}).get("detail") for one in node["sources"])
            words.append("%s has none (%s)" % (name, "; ".join(reason for reason in reasons if reason)))
    return "; ".join(words) or "no node is watched"


# ---- what CUDA sees

# Run in a process of its own, since CUDA reads its variables once, and keeps memory on each device.
_LIST_CUDA = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
count, handle, uuid = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(16)
if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
    sys.exit(1)
for place in range(count.value):
    get_uuid = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    if cuda.cuDeviceGet(ctypes.byref(handle), place) or get_uuid(uuid, handle):
        sys.exit(1)
    print(bytes(uuid.raw).hex())
"""


def _cuda_order(devices: List[Device]) -> List[Device]:
    """Returns the GPUs of this machine in CUDA's order: fastest first, unless CUDA_DEVICE_ORDER is PCI_BUS_ID."""
    is_by_bus = os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    if is_by_bus or len(set(device.name() for device in devices)) < 2:
        return devices
    try:
        order = _listed_by_cuda()
        return sorted(devices, key=lambda device: order.index(device.uuid().partition("-")[2].replace("-", "")))
    except ValueError:
        _warn_once("the devices differ and CUDA does not tell their order: set CUDA_DEVICE_ORDER=PCI_BUS_ID, so that "
                   "CUDA counts them as the driver does")
        return devices


@functools.lru_cache(maxsize=1)
def _listed_by_cuda() -> List[str]:
    """Returns the UUIDs of all GPUs in CUDA's order, as hexadecimal digits; none if CUDA does not tell."""
    environment = dict(os.environ)
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        done = subprocess.run([sys.executable, "-c", _LIST_CUDA], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.decode("ascii", "replace").split()


def _local_devices() -> List[Device]:
    """Returns the GPUs of this machine; of the only node, if no node is this machine."""
    devices = [device for device in PhysicalDevice.all()
               if device.uuid() is not NA and device._last_row().get("vendor") == "nvidia"]
    local = [device for device in devices if device.is_local()]
    return local or (devices if len(set(device.node for device in devices)) == 1 else [])


def _cuda_devices(variable: Optional[str] = "\0") -> List[Device]:
    """Returns the devices that CUDA would see with this CUDA_VISIBLE_DEVICES; default: the one of this process."""
    if variable == "\0":
        variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = _cuda_order(_local_devices())
    if variable is not None:
        devices = _named_devices(devices, variable)
    return _visible_devices(devices)


def _named_devices(devices: List[Device], variable: str) -> List[Device]:
    """Returns the devices of a list of indices, or of UUIDs, up to the first entry that names none."""
    everything = [part for device in devices for part in [device] + list(device.mig_devices())]
    found = []  # type: List[Device]
    seen = set()  # type: Set[Device]
    is_numbers = None  # type: Optional[bool]
    for word in variable.split(","):
        # Like atoi in C: what follows the digits does not count.
        number = re.match(r"\s*([0-9]+)", word)
        is_numbers = number is not None if is_numbers is None else is_numbers
        if is_numbers != (number is not None):
            break
        if number is not None:
            place = int(number.group(1))
            named = devices[place:place + 1]
        else:
            named = [one for one in everything if _is_named(one._last_row(), one.index, word.strip())]
        if len(named) != 1:
            break
        if named[0] in seen:
            return []
        seen.add(named[0])
        found.append(named[0])
    return found


def _visible_devices(devices: List[Device]) -> List[Device]:
    """Returns what CUDA makes of these devices: at most one MIG slice, and no GPU beside it."""
    slices = [device for device in devices if device.is_mig_device()]
    for device in devices:
        if device.is_mig_mode_enabled():
            slices.extend(device.mig_devices())
    if slices:
        return slices[:1]
    return [device for device in devices if not device.is_mig_mode_enabled()]


def parse_cuda_visible_devices(cuda_visible_devices: Optional[str] = "\0") -> "List[Index]":
    """Same as Device.parse_cuda_visible_devices."""
    return Device.parse_cuda_visible_devices(cuda_visible_devices)


def normalize_cuda_visible_devices(cuda_visible_devices: Optional[str] = "\0") -> str:
    """Same as Device.normalize_cuda_visible_devices."""
    return Device.normalize_cuda_visible_devices(cuda_visible_devices)


def _cuda_runtime_version() -> MaybeText:
    try:
        import ctypes
    except ImportError:
        return NA
    with contextlib.suppress(OSError):
        with open("/proc/self/maps") as maps:
            loaded = re.findall(r"(/\S*libcudart[^/\s]*\.so\S*)", maps.read())
        version = ctypes.c_int()
        for name in loaded + ["libcudart.so", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"]:
            with contextlib.suppress(OSError, AttributeError):
                if ctypes.CDLL(name).cudaRuntimeGetVersion(ctypes.byref(version)) == 0:
                    return "%d.%d" % (version.value // 1000, version.value % 1000 // 10)
    return NA


# ---- choosing devices

def select_devices(devices: Optional[Iterable[Device]] = None, *, format: str = "index", force_index: bool = False,
                   min_count: int = 0, max_count: Optional[int] = None,
                   min_free_memory: Union[int, str, None] = None, min_total_memory: Union[int, str, None] = None,
                   max_gpu_utilization: Optional[int] = None, max_memory_utilization: Optional[int] = None,
                   tolerance: int = 0, free_accounts: Optional[Sequence[str]] = None, sort: bool = True) -> List[Any]:
    """Returns free devices of this machine, as `gtop pick` chooses them: indices, UUIDs or Devices by `format`.

    Sizes are bytes or texts such as `8GiB`; utilizations and the tolerance are in percent. If there are fewer than
    `min_count`, those there are. A MIG slice is named by its UUID, unless `force_index`. Raises GtopError.
    """
    if format not in ("index", "uuid", "device"):
        raise ValueError("format must be index, uuid or device, not %r" % (format,))
    if max_count == 0:
        return []
    words = ["pick", "--json", "--local", "--min-count=%d" % min_count, "--tolerance=%d" % tolerance]
    for option, wanted in (("max-count", max_count), ("min-free-memory", min_free_memory),
                           ("min-total-memory", min_total_memory), ("max-gpu-utilization", max_gpu_utilization),
                           ("max-memory-utilization", max_memory_utilization)):
        if wanted is not None:
            words.append("--%s=%s" % (option, wanted))
    words += [] if sort else ["--no-sort"]
    if devices is not None:
        words.append("--inherit=" + ",".join(device.uuid() for device in devices))
    if free_accounts:
        words += ["--account-as-free"] + list(free_accounts)
    done = subprocess.run([program()] + words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    if not done.stdout:
        raise GtopError(done.stderr.decode("utf-8", "replace").strip())
    nodes = json.loads(done.stdout.decode("utf-8"))["nodes"]
    picked = [str(one["uuid"]) for node in nodes for one in node["devices"]]
    if format == "uuid":
        return picked
    found = [Device(uuid=uuid) for uuid in picked]
    if format == "device":
        return found
    return [device.uuid() if device.is_mig_device() and not force_index else device.index for device in found]
