"""What jobs hold: the truth, what gtop shows, and the difference, for tests on nodes with lists of device_lists.py.

The truth is the device cgroup of a job: see `openable_files` in slurm.py. It uses no rule for Slurm's indices.
"""

import json
import os
import unittest
from dataclasses import dataclass

import slurm
from harness import CONNECT_TIMEOUT, TIMEOUT, wait_for
from test_pick import allocate
from test_slurm import SlurmCase


@dataclass(frozen=True)
class Cell:
    """What gtop shows of a job on a node, and the truth."""

    name: str
    evidence: str
    job: str
    truth: frozenset
    # None if gtop names no devices.
    shown: frozenset | None
    certainty: str
    sources: tuple

    @property
    def is_right(self):
        return self.shown == self.truth

    @property
    def is_wrong(self):
        """True if gtop names a device that the job does not hold, or claims to know all and does not."""
        if self.shown is None:
            return False
        return not self.is_right if self.certainty not in ("disputed", "unknown") else not self.shown <= self.truth

    @property
    def is_surely_wrong(self):
        """True if gtop is certain, or says nothing of its certainty, and is wrong."""
        return self.is_wrong if self.certainty == "unstated" else self.certainty == "certain" and not self.is_right

    def __str__(self):
        shown = "-" if self.shown is None else short(self.shown)
        verdict = "right" if self.is_right else "WRONG" if self.is_wrong else "open"
        return (
            f"{self.name:18} {self.evidence:9} {self.job:14} {short(self.truth):27} {shown:27} {self.certainty:9} {verdict:5} "
            f"{','.join(self.sources)}"
        )


HEADER = f"{'list':18} {'evidence':9} {'job':14} {'held':27} {'shown':27} {'certainty':9} {'':5} sources"


def with_cards(uuids):
    """Returns UUIDs with those of the cards of their slices: who holds a slice is a holder of its card, too."""
    found = set(uuids)
    for uuid in uuids:
        kind, number, card, _ = uuid.split("-", 3)
        if kind == "MIG":
            found.add(f"GPU-{number}-0000-4000-8000-{card:0>12}")
    return found


def text_of(cells):
    return "\n".join([HEADER, *map(str, cells)])


def short(uuids):
    """Returns the positions of devices in the driver's order; a slice is CARD/INSTANCE."""
    names = []
    for uuid in sorted(uuids):
        kind, _, card, *_, last = uuid.split("-")
        names.append(f"{int(card, 16)}/{int(last, 16)}" if kind == "MIG" else f"{int(last, 16)}")
    return " ".join(names) or "none"


def shown_allocations(snapshot):
    """Returns {(job, node): (UUIDs or None, certainty, sources)} of a snapshot: the only reader of these keys."""
    found = {}
    for job in snapshot.value["jobs"]:
        for one in job["allocations"]:
            devices = one["devices"]
            sources = tuple(one.get("evidence") or ())
            found[job["id"], one["node"]] = (None if devices is None else frozenset(devices), one.get("certainty", "unstated"), sources)
    return found


def holders(snapshot):
    """Yields (node, UUID, job, certainty) of what the devices of a snapshot say of their holders."""
    for node in snapshot.value["nodes"]:
        for device in node["devices"]:
            for one in device.get("holders") or ():
                # Without a job: a process outside of jobs, or a job that Slurm hides.
                if one["job"]:
                    yield node["name"], device["uuid"], one["job"], one["certainty"]


class HoldingsCase(SlurmCase):
    """A strict Slurm; NAMES are the lists of the nodes."""

    NAMES = ()

    @classmethod
    def prepare(cls):
        if not os.path.isdir(slurm.DEVICES):
            raise unittest.SkipTest("no device cgroup of cgroup v1 on this machine")
        words = [f"gpu{number:02}={name}" for number, name in enumerate(cls.NAMES, 1)]
        cls.lab("slurm", "up", "strict", *words)
        cls.name_of = dict(zip(cls.lab.nodes, cls.NAMES))
        cls.slurm = slurm.Slurm(cls.lab.script)

    @classmethod
    def nodes_of(cls, job):
        return cls.lab.run("scontrol", "show", "hostnames", cls.lab.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()).stdout.split()

    @classmethod
    def uuids(cls, node, files):
        """Returns the UUIDs of the devices with all of their files among these."""
        return frozenset(uuid for needed, _, uuid in slurm.device_places(cls.lab.gpu_file(node)) if needed <= set(files))

    @classmethod
    def truth(cls, node, job):
        """Returns the UUIDs of what a job holds on a node."""
        return cls.uuids(node, cls.slurm.held_files(node, job))

    @classmethod
    def truths(cls, jobs):
        """Returns {(node, job): UUIDs} of jobs."""
        return {(node, job): cls.truth(node, job) for job in jobs for node in cls.nodes_of(job)}

    @classmethod
    def driver_processes(cls, node, job):
        """Returns the UUIDs of the devices on which the stub driver lists processes of a job."""
        text, found = cls.lab.gpu_file(node), set()
        uuid_of = {(index, words.strip()): uuid for _, (index, words), uuid in slurm.device_places(text)}
        pids = {str(number) for pid, (number, *_) in cls.lab.script.node_processes(node).items() if f"/job_{job}/" in cgroups(pid)}
        for line in text.splitlines():
            kind, *words = line.split()
            if kind == "proc" and words[1] in pids:
                found.add(uuid_of[words[0], " ".join(word for word in words if word.startswith("slice="))])
        return found

    @classmethod
    def busy(cls, *words, user="alice"):
        """Starts a job with a process on each node, and waits until the driver lists them."""
        job = cls.sbatch("--ntasks-per-node=1", "-c1", "--mem=100", *words, user=user)
        cls.wait_until_running(job)
        for node in cls.nodes_of(job):
            wait_for(f"processes of job {job} on {node}", lambda: cls.driver_processes(node, job), 3 * TIMEOUT)
        return job

    @classmethod
    def idle(cls, *words, user="alice"):
        return allocate(cls.lab, "-c1", "--mem=100", *words, user=user)

    @classmethod
    def cells(cls, evidence, jobs, truths):
        """Returns the cells of {job: what kind it is}, and the snapshot."""
        snapshot = cls.lab.snapshot("--all-users", "--deadline", "40", timeout=120)
        shown = shown_allocations(snapshot)
        found = []
        for (node, job), truth in truths.items():
            if job in jobs:
                seen = shown.get((job, node), (None, "unknown", ()))
                found.append(Cell(cls.name_of[node], evidence, jobs[job], truth, *seen))
        return found, snapshot

    @classmethod
    def pick(cls, *words):
        """Returns {node: UUIDs} of the devices that alice picks on the login node."""
        done = cls.lab.gtop("pick", "--json", "--connect-timeout", str(CONNECT_TIMEOUT), "--deadline", "40", *words, timeout=120)
        return picked(done.stdout)

    def assert_none(self, cells, what):
        if cells:
            self.fail(f"{what}: {len(cells)}\n{text_of(cells)}")


def cgroups(pid):
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""  # it ended meanwhile


def picked(answer):
    """Returns {node: UUIDs} of an answer of `gtop pick --json`."""
    return {node["name"].rpartition("@")[2]: set(node["uuids"]) for node in json.loads(answer)["nodes"]}
