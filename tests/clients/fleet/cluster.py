"""Nodes, devices and jobs, and what each device does from when to when."""

import random
import uuid
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Optional

from report_reference import common
from fleet.hardware import GIB, MIB, MODELS, SLICES

BASE_MEMORY = 4 * MIB                  # in use of a device without processes
USERS = {"ada": 1001, "alan": 1002, "edsger": 1003, "grace": 1004, "katherine": 1005}


@dataclass(frozen=True)
class Activity:
    """What a device does, or what one job does on it."""
    load: int = 0                      # percent
    memory: int = 0                    # bytes
    power: float = 1.0                 # share of the power that it would draw
    clock: float = 1.0                 # share of the clock that it would have
    heated: float = 0.0                # share of time in which it is slowed down by heat
    is_faulty: bool = False            # the driver lost it


@dataclass(frozen=True)
class Piece:
    """What a device does in some time, and whose it is."""
    since: float
    until: float
    activity: Activity
    holds: tuple


@dataclass
class Hold:
    """A device that a job has, and what it does on it."""
    job: "Job"
    device: "Device"
    pid: Optional[int]                 # of its process; None if it never starts one there
    phases: list                       # since, until, Activity

    @property
    def since(self):
        return self.job.since

    @property
    def until(self):
        return self.job.until


@dataclass
class Job:
    number: Optional[str]              # None for processes of a user without a job
    name: str
    user: str
    workload: "Workload"
    since: float
    until: float
    shares_devices: bool = False
    holds: list = field(default_factory=list)

    def cpus_on(self, node):
        """Returns the CPUs that it has on a node."""
        return self.workload.cpus_per_device * self.devices_on(node)

    def memory_on(self, node):
        """Returns the bytes of host memory that it has on a node."""
        return 16 * GIB * self.devices_on(node)

    def devices_on(self, node):
        return sum(hold.device.node is node for hold in self.holds)

    def indices(self):
        """Returns the scheduler's numbers of its devices, by node."""
        found = {}
        for hold in self.holds:
            node = hold.device.node
            found.setdefault(node.name, []).append(node.units(self.since).index(hold.device))
        return found


class Device:
    """A device, or a slice of one."""

    def __init__(self, node, index, identity, parent=None, part=(None, None, 1.0, None)):
        self.node, self.index, self.uuid, self.parent = node, index, identity, parent
        self.profile, self.memory, self.share, self.instance = part
        self.slices = []
        self.memory = self.memory or node.model.memory
        self.since, self.until = 0.0, node.duration
        self.holds = []
        self.effects = []              # since, until, a function of the activity: what incidents do to it
        self.errors = []               # incidents that gave it memory errors

    @property
    def name(self):
        return self.node.model.name + (f" MIG {self.profile}" if self.parent else "")

    @property
    def pci(self):
        number = self.parent.index if self.parent else self.index
        return f"00000000:{0x0B + 0x11 * number:02X}:00.0"

    def units(self):
        """Returns its slices, or itself if it has none."""
        return self.slices or [self]

    @cached_property
    def pieces(self):
        """What it does, from its beginning to its end."""
        holds = [hold for unit in self.units() for hold in unit.holds]
        phases = sorted(((*phase, hold) for hold in holds for phase in hold.phases), key=lambda phase: phase[0])
        spans = phases + self.effects
        times = sorted({self.since, self.until, *(time for span in spans for time in span[:2] if self.since < time < self.until)})
        found, running, begun = [], [], 0
        for since, until in zip(times, times[1:]):
            running = [phase for phase in running if phase[1] > since]
            while begun < len(phases) and phases[begun][0] <= since:
                running.append(phases[begun])
                begun += 1
            activity = self.sum_of([(part, hold.device.share) for _, _, part, hold in running])
            for first, last, effect in self.effects:
                if first <= since < last:
                    activity = effect(activity)
            found.append(Piece(since, until, activity, tuple(hold for *_, hold in running)))
        return found

    def sum_of(self, parts):
        """Returns what it does while its jobs and slices do these."""
        load = sum(activity.load * (share if self.slices else 1) for activity, share in parts)
        memory = sum(activity.memory for activity, _ in parts)
        return Activity(load=min(load, 100), memory=memory + (0 if self.parent else BASE_MEMORY))

    def watts(self, activity):
        return 0.0 if activity.is_faulty else self.node.model.watts(activity.load) * activity.power


class Node:
    def __init__(self, fleet, number, model):
        self.name, self.model, self.duration = f"gpu{number + 1:03}", model, fleet.duration
        self.clock = 100_000.0 + fleet.random.randrange(10_000_000)         # seconds since it was booted
        self.boots = [(0.0, fleet.identity(""))]                         # since when, and the id of the boot
        self.devices = [Device(self, index, fleet.identity("GPU-")) for index in range(model.devices_per_node)]
        self.latency = 0.0             # seconds from when a sample is taken until it arrives
        self.silences = []             # since, until: nobody reaches it
        self.hangs = []                # since, until: its driver does not answer
        self.clock_steps = []          # time, seconds
        self.next_pid = 20_000 + fleet.random.randrange(20_000)

    def current(self, at):
        """Returns the devices that are in it."""
        return [device for device in self.devices if device.since <= at < device.until]

    def units(self, at=None):
        """Returns its slices and the devices that have none, in the order of the scheduler's numbers; at a time, or at any."""
        return [unit for device in (self.devices if at is None else self.current(at)) for unit in device.units()]

    def start_process(self):
        self.next_pid += 1
        return self.next_pid


class Fleet:
    """What there is, and what happens in a time."""

    def __init__(self, seed, nodes=4, hours=1.0, interval=10.0, is_noisy=True):
        self.seed, self.interval, self.is_noisy = seed, interval, is_noisy
        self.random = random.Random(seed)
        self.duration = max(self.snap(hours * 3600), interval)
        self.nodes = [Node(self, number, MODELS[number % len(MODELS)]) for number in range(nodes)]
        # The nodes answer one after the other, all within a 25th of a second.
        for number, node in enumerate(self.nodes):
            node.latency = round(0.001 + 0.039 * number / max(nodes, 1), 6)
        self.gaps = []                 # since, until: the recorder does not run
        self.jobs, self.incidents = [], []
        self.next_job = 1000 + self.random.randrange(8000)

    def snap(self, at):
        """Returns the sampling time that is next to a time."""
        return round(at / self.interval) * self.interval

    def at(self, share):
        """Returns the time at which this share of the whole has passed."""
        return self.snap(self.duration * share)

    def identity(self, prefix):
        return prefix + str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def spans(self):
        """Returns the times that are recorded."""
        times = [0.0, *(time for gap in sorted(self.gaps) for time in gap), self.duration]
        return list(zip(times[::2], times[1::2]))

    def seen(self, device):
        """Returns the times that are recorded in which a device is seen."""
        blind = sorted(device.node.silences + device.node.hangs)
        times = [device.since, *(time for span in blind for time in span), device.until]
        return common(self.spans(), [span for span in zip(times[::2], times[1::2]) if span[0] < span[1]])

    def cut(self, node, index, parts=SLICES):
        """Cuts a device into slices."""
        device = node.devices[index]
        device.slices = [Device(node, number, self.identity("MIG-"), device, part) for number, part in enumerate(parts)]
        return device.slices

    def run(self, workload, devices, since=0.0, until=None, user=None, shares_devices=False):
        """Starts a job on devices."""
        self.next_job += 1
        until = self.duration if until is None else until
        user = user or list(USERS)[self.random.randrange(len(USERS))]
        number = str(self.next_job) if workload.is_scheduled else None
        job = Job(number, workload.job_name, user, workload, since, until, shares_devices)
        plan = workload.plan(len(devices), until - since, self.random)
        for rank, (device, phases) in enumerate(zip(devices, plan)):
            pid = device.node.start_process() if workload.starts_process(rank, len(devices)) else None
            hold = Hold(job, device, pid, self.timed(phases, device, since, until))
            device.holds.append(hold)
            job.holds.append(hold)
        self.jobs.append(job)
        return job

    def timed(self, phases, device, since, until):
        """Returns phases with times, of a plan that has how long each lasts."""
        found, at = [], since
        for seconds, load, share in phases:
            end = self.snap(min(at + max(seconds, self.interval), until))
            if end > at:
                found.append((at, end, Activity(load=load, memory=round(device.memory * share / MIB) * MIB)))
            at = end
        assert at == until, (at, until)
        return found

    def add(self, incident):
        incident.happen(self)
        self.incidents.append(incident)
        return incident


def is_within(at, spans):
    return any(since <= at < until for since, until in spans)


def changed(**values):
    """Returns an effect that replaces these values of an activity."""
    return lambda activity: replace(activity, **values)
