"""What happens to nodes and devices. An incident is a class that changes the fleet in `happen`, and tells in `facts` what is
true of it, where the key `what` is its kind, and in `events` what the driver reports of it."""

from dataclasses import dataclass

from fleet.cluster import Device, Node, changed

ROW_REMAPPED, FELL_OFF_THE_BUS = 63, 79


class Incident:
    """Changes nothing."""

    def happen(self, fleet):
        """Changes the fleet."""

    def facts(self, _fleet):
        """Returns what is true of it."""
        return []

    def events(self):
        """Returns times, devices and what the driver reports of them then."""
        return []


@dataclass
class RecorderGap(Incident):
    """The recorder does not run for a while."""
    since: float
    until: float

    def happen(self, fleet):
        fleet.gaps.append((self.since, self.until))

    def facts(self, _fleet):
        yield {"what": "recorder-gap", "from": self.since, "to": self.until}


@dataclass
class NodeDown(Incident):
    """A node is not reached for a while, and goes on."""
    node: Node
    since: float
    until: float

    def happen(self, _fleet):
        self.node.silences.append((self.since, self.until))

    def facts(self, _fleet):
        yield {"what": "node-down", "node": self.node.name, "from": self.since, "to": self.until}


@dataclass
class Replacement(Incident):
    """A node is off for a while, and has another device in the same place afterwards."""
    device: Device
    since: float
    until: float

    def happen(self, fleet):
        node, old = self.device.node, self.device
        node.silences.append((self.since, self.until))
        node.boots.append((self.until, fleet.identity("")))
        self.new = Device(node, old.index, fleet.identity("GPU-"))
        old.until, self.new.since = self.until, self.until
        for device in node.devices:
            device.effects.append((self.since, self.until, changed(power=0.0)))
        node.devices.insert(node.devices.index(old) + 1, self.new)

    def facts(self, _fleet):
        place = {"node": self.device.node.name, "index": self.device.index, "from": self.since, "to": self.until}
        yield {"what": "replaced", **place, "device": self.device.uuid, "by": self.new.uuid}


@dataclass
class ClockStep(Incident):
    """The clock of a node jumps."""
    node: Node
    at: float
    seconds: float

    def happen(self, _fleet):
        self.node.clock_steps.append((self.at, self.seconds))

    def facts(self, _fleet):
        yield {"what": "clock-step", "node": self.node.name, "from": self.at, "seconds": self.seconds}


@dataclass
class HungDriver(Incident):
    """No device of a node answers, while its host does; the devices go on."""
    node: Node
    since: float
    until: float

    def happen(self, _fleet):
        self.node.hangs.append((self.since, self.until))

    def facts(self, _fleet):
        yield {"what": "driver-hung", "node": self.node.name, "from": self.since, "to": self.until}


@dataclass
class MemoryErrors(Incident):
    """A device has memory errors from a time on; its driver remaps the rows of those that it could not correct."""
    device: Device
    at: float
    corrected: int
    uncorrected: int

    def happen(self, _fleet):
        self.device.errors.append(self)

    def facts(self, _fleet):
        counts = {"corrected": self.corrected, "uncorrected": self.uncorrected}
        yield {"what": "ecc", **place_of(self.device), "from": self.at, **counts}

    def events(self):
        return [(self.at, self.device, {"kind": "xid", "code": ROW_REMAPPED})] if self.uncorrected else []


@dataclass
class Throttled(Incident):
    """Heat slows a device down, for this share of the time."""
    device: Device
    since: float
    until: float
    share: float = 0.6

    def happen(self, _fleet):
        self.device.effects.append((self.since, self.until, changed(clock=0.65, power=0.65, heated=self.share)))

    def facts(self, _fleet):
        yield {"what": "throttled", **place_of(self.device), "from": self.since, "to": self.until, "share": self.share}


@dataclass
class LostDevice(Incident):
    """A device falls off the bus, and does not come back."""
    device: Device
    at: float

    def happen(self, fleet):
        self.device.effects.append((self.at, fleet.duration, changed(is_faulty=True)))

    def facts(self, fleet):
        yield {"what": "lost", **place_of(self.device), "from": self.at, "to": fleet.duration}

    def events(self):
        return [(self.at, self.device, {"kind": "xid", "code": FELL_OFF_THE_BUS})]


def place_of(device):
    return {"node": device.node.name, "device": device.uuid, "index": device.index}
