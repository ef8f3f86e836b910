"""What is true of a fleet: facts, one a line of NDJSON, with times in seconds since 1970.

They are sums over what each device did, and know nothing of samples. Time counts while it is recorded; `unseen` is the part of
it in which nobody could see the device. `within_seconds` is how much device-time an observer may attribute otherwise, who
sees a change only when the next sample arrives and takes a value to hold for three sampling intervals."""

import json

from fleet.cluster import USERS
from report_reference import common, seconds
from tape import START

BUSY_PERCENT = 5
LATENCY = 0.05                         # seconds in which a sample arrives, at most
INTERVALS_HELD = 3
POWER_NOISE = 0.02                     # by which a sample differs, at most
JOULES_PER_KWH = 3.6e6
TIMES = ["from", "to"]


class Account:
    """Device-time and what was done in it; shares of devices add up."""

    def __init__(self):
        self.states = dict.fromkeys(["busy", "idle_held", "free", "faulty", "unseen"], 0.0)
        self.load = self.loaded = self.memory = self.total = self.joules = 0.0
        self.within_seconds = self.within_joules = 0.0
        self.has_part = False          # it has slices, whose part of the energy of a device nothing measures

    def add(self, unit, piece, recorded, seen):
        """Adds a piece of the time of a device or slice."""
        self.states[state_of(piece)] += seen
        self.states["unseen"] += recorded - seen
        if piece.activity.is_faulty:
            return
        self.load += piece.activity.load * seen
        self.loaded += seen
        self.memory += piece.activity.memory * seen
        self.total += unit.memory * seen

    def allow(self, span, joules):
        self.within_seconds += span
        self.within_joules += joules

    def numbers(self):
        hours = {f"{state}_hours": span / 3600 for state, span in self.states.items()}
        return {"device_hours": sum(self.states.values()) / 3600, **hours, "busy_seconds": self.states["busy"],
                "mean_load_percent": ratio(self.load, self.loaded), "mean_memory_bytes": ratio(self.memory, self.loaded),
                "memory_percent": ratio(100 * self.memory, self.total), **self.energy(), "within_seconds": self.within_seconds}

    def energy(self):
        known = None if self.has_part else self.joules / JOULES_PER_KWH
        return {"energy_kwh": known, "within_kwh": self.within_joules / JOULES_PER_KWH}


def ratio(part, whole):
    return part / whole if whole > 0 else None


def state_of(piece):
    """Returns what a device counts as: a process that has some memory holds it, and a job that it is allocated to."""
    if piece.activity.is_faulty:
        return "faulty"
    if piece.activity.load >= BUSY_PERCENT:
        return "busy"
    return "idle_held" if piece.holds else "free"


def uncertainty(fleet, device):
    """Returns how many seconds of a device may be attributed otherwise, and how many joules."""
    node = device.node
    held = max(fleet.interval, 1)
    pauses = len(node.silences) + len(fleet.gaps) + INTERVALS_HELD * len(node.hangs)
    steps = sum(abs(step) for _, step in node.clock_steps)
    span = 2 * LATENCY + pauses * held + steps
    return span, node.model.limit_watts * (span + (POWER_NOISE * held if fleet.is_noisy else 0))


class Truth:
    def __init__(self, fleet):
        self.fleet = fleet
        self.total = Account()
        self.devices, self.nodes, self.holds, self.jobs, self.users = {}, {}, {}, {}, {}
        for node in fleet.nodes:
            for device in node.devices:
                for unit in device.units():
                    self.add_time(unit)
                self.add_energy(device)

    def recorded(self, device):
        return common(self.fleet.spans(), [(device.since, device.until)])

    def owners(self, piece):
        """Returns the accounts of those who have a device: with its hold those of the job and of the user."""
        return [known.setdefault(key, Account()) for hold in piece.holds
                for known, key in [(self.holds, id(hold)), (self.jobs, id(hold.job)), (self.users, hold.job.user)]]

    def shares(self, unit, piece):
        """Returns the accounts in which a device or slice counts, and which part of it: those who share it have equal ones."""
        counted = [self.devices.setdefault(unit, Account()), self.nodes.setdefault(unit.node, Account()), self.total]
        return [(account, 1) for account in counted] + [(account, 1 / len(piece.holds)) for account in self.owners(piece)]

    def add_time(self, unit):
        recorded, seen = self.recorded(unit), self.fleet.seen(unit)
        touched = {}
        for piece in unit.pieces:
            span = [(piece.since, piece.until)]
            times = seconds(common(recorded, span)), seconds(common(seen, span))
            for account, share in self.shares(unit, piece):
                account.add(unit, piece, *(time * share for time in times))
                touched[id(account)] = account
                account.has_part |= unit.parent is not None and account not in [self.total, self.nodes[unit.node]]
        for account in touched.values():
            account.allow(*uncertainty(self.fleet, unit))

    def add_energy(self, device):
        recorded, seen = self.recorded(device), self.fleet.seen(device)
        for piece in device.pieces:
            span, watts = [(piece.since, piece.until)], device.watts(piece.activity)
            time = seconds(common(recorded, span))
            for account, share in self.shares(device, piece):
                account.joules += watts * time * share
            if not all(any(begin <= end <= until for begin, until in seen) for end in span[0]):
                # Where who has a device changes unseen, its counter does not tell them apart.
                for account in self.owners(piece):
                    account.allow(0, watts * (time - seconds(common(seen, span))))

    def facts(self):
        """Returns all facts, in an order that does not depend on chance."""
        fleet = self.fleet
        spans = [[START + time for time in span] for span in fleet.spans()]
        yield {"what": "recording", "seed": fleet.seed, "interval": fleet.interval, "is_noisy": fleet.is_noisy, "from": 0.0,
               "to": fleet.duration, "spans": spans, **self.total.numbers(), "nodes": len(fleet.nodes),
               "devices": sum(len(node.units()) for node in fleet.nodes)}
        for node in fleet.nodes:
            yield {"what": "node", "node": node.name, "model": node.model.name, "devices": len(node.units()),
                   **self.nodes[node].numbers()}
        for device, account in self.devices.items():
            yield from self.of_device(device, account)
        for job in fleet.jobs:
            yield from self.of_job(job)
        for user in sorted(self.users):
            yield {"what": "user", "user": user, "uid": USERS[user], **self.users[user].numbers()}
        for incident in fleet.incidents:
            yield from incident.facts(fleet)

    def of_device(self, device, account):
        """Returns a device, and what it does from when to when."""
        about = {**place(device), "model": device.name, "from": device.since, "to": device.until}
        if device.slices:
            yield {"what": "sliced-device", **about, "slices": [unit.uuid for unit in device.slices], **account.energy()}
        else:
            parent = {"parent": device.parent.uuid} if device.parent else {}
            yield {"what": "slice" if parent else "device", **about, **parent, **account.numbers()}
        for piece in device.pieces:
            doing = {"load_percent": None if device.slices else piece.activity.load, "memory_bytes": piece.activity.memory,
                     "watts": None if device.parent else device.watts(piece.activity), "is_faulty": piece.activity.is_faulty}
            yield {"what": "activity", **place(device), "from": piece.since, "to": piece.until, **doing}

    def of_job(self, job):
        """Returns a job, the devices it holds, and what of them is wasted."""
        about = {"job": job.number, "user": job.user, "from": job.since, "to": job.until}
        nodes = {hold.device.node for hold in job.holds}
        cpus, memory = (sum(map(of, nodes)) for of in [job.cpus_on, job.memory_on])
        host = {"cpus": cpus, "cpus_used": cpus * job.workload.busy_cpus, "memory_bytes": memory,
                "memory_max_bytes": round(memory * job.workload.memory_share)}
        yield {"what": "job" if job.number else "session", **about, **({"host": host} if job.number else {}), "name": job.name, "workload": type(job.workload).__name__,
               "nodes": list(job.indices()), "devices": len(job.holds), **self.jobs[id(job)].numbers()}
        for hold in job.holds:
            yield {"what": "hold", **about, **place(hold.device), "has_process": hold.pid is not None,
                   **self.holds[id(hold)].numbers()}
        wasted = [hold for rank, hold in enumerate(job.holds) if job.workload.is_wasted(rank, len(job.holds))]
        if job.workload.waste:
            hours = sum(self.holds[id(hold)].numbers()["device_hours"] for hold in wasted)
            yield {"what": job.workload.waste, **about, "devices": [hold.device.uuid for hold in wasted], "device_hours": hours}


def place(device):
    return {"node": device.node.name, "device": device.uuid, "index": device.index}


def write(fleet, out):
    for fact in Truth(fleet).facts():
        timed = {key: START + value if key in TIMES else value for key, value in fact.items()}
        out.write(json.dumps(timed) + "\n")
