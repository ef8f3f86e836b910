"""The numbers of a report, computed from a recording by Python alone.

    python3 report_reference.py FILE     prints them, in the form of `gtop report --format json`

Written from docs/reports.md and docs/recordings.md, not from the program. Lines of checkpoints are passed over: the file is read
from its start, and is whole up to where it is cut.

Not followed, as no recording of the tests has it: output of nvidia-smi (refused), memory of the host as that of a device,
jobs by their SLUID, a probe inside a job, allocations that processes contradict, several files.
"""

import json
import re
import sys

import rig

MIB = 1 << 20
HELD = 256 * MIB                       # bytes from which processes hold a device
GAP = 15                               # seconds without a line that separate spans
DRIFT = 1e-4                           # of clocks
STATES = ["active", "idle_held", "free", "faulty", "unknown"]
SLURM = re.compile(r"/(?:[^/]*slurmstepd\.scope|slurm|slurm_[^/]*)/(?:uid_\d+/)*job_([A-Za-z0-9_+.]{1,32})(?:/|$)")


# The file.

def read(path):
    """Returns the lines of a recording. Of the group at the cut of a file, nothing is read."""
    return [json.loads(line) for line in rig.recorded_lines(path).splitlines()]


def spans_of(lines):
    """Returns the recorded spans: segments, from one checkpoint to the next, that are not further apart than GAP."""
    segments, before = [], {}
    for line in lines:
        is_repeated = line.get("checkpoint", False)
        if "start" in line or (is_repeated and "nodes" in line and "start" not in before) or not segments:
            segments.append([])
        if not is_repeated:
            segments[-1].append(line["at"])
        before = line
    merged = []
    for first, last in sorted((segment[0], max(segment)) for segment in segments if segment):
        if merged and first <= merged[-1][1] + GAP:
            merged[-1][1] = max(merged[-1][1], last)
        else:
            merged.append([first, last])
    return merged


# Lists of intervals of time.

def union(intervals):
    joined = []
    for start, end in sorted(interval for interval in intervals if interval[1] > interval[0]):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return joined


def common(some, others):
    pairs = [(max(a, c), min(b, d)) for a, b in some for c, d in others]
    return [pair for pair in pairs if pair[1] > pair[0]]


def seconds(intervals):
    return sum(end - start for start, end in intervals)


# Sums.

def ratio(part, whole):
    return part / whole if whole > 0 else None


class Usage:
    """Sums over the time of one or several devices."""

    def __init__(self):
        self.states = dict.fromkeys(STATES, 0.0)
        self.by_percent = [0.0] * 101
        self.util, self.used, self.power = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]     # value x seconds, seconds
        self.total = 0.0
        self.energy = None             # joules
        self.most = {}

    def add(self, values, span):
        self.states[values["state"]] += span
        if values["is_lost"]:
            return
        for key, sums in [("util", self.util), ("used", self.used), ("power", self.power)]:
            if values[key] is not None:
                sums[0] += values[key] * span
                sums[1] += span
        if values["power"] is not None:
            self.add_energy(values["power"] * span)
        if values["util"] is not None:
            self.by_percent[int(values["util"] + 0.5)] += span
        share = None
        if values["used"] is not None:
            self.total += values["total"] * span
            share = ratio(100 * values["used"], values["total"])
        for key, value in [("share", share), ("power", values["power"]), ("temperature", values["temperature"])]:
            if value is not None:
                self.most[key] = max(value, self.most.get(key, value))

    def percentile(self, share):
        covered, total = 0.0, sum(self.by_percent)
        for percent, span in enumerate(self.by_percent):
            covered += span
            if covered > 0 and covered >= total * share * (1 - 1e-9):
                return percent
        return None

    def report(self, watched=None):
        """Returns what a report says; `watched` is in seconds, by default what was seen."""
        seen = sum(self.states.values())
        watched = seen if watched is None else watched
        hours = {state: span / 3600 for state, span in self.states.items()}
        return {
            "watched_hours": watched / 3600,
            "device_hours": {**hours, "not_seen": (watched - seen) / 3600},
            "utilization_percent": {"mean": ratio(*self.util), "p50": self.percentile(0.5), "p95": self.percentile(0.95)},
            "memory_percent": {"mean": ratio(100 * self.used[0], self.total), "max": self.most.get("share")},
            "memory_used_bytes": ratio(*self.used),
            "power_watts": {"mean": ratio(*self.power), "max": self.most.get("power")},
            "energy_kwh": None if self.energy is None else max(self.energy, 0) / 3.6e6,
            "temperature_celsius": {"max": self.most.get("temperature")},
            "coverage_percent": ratio(100 * seen, watched),
        }

    def report_of_owner(self, unseen):
        """Returns what a report says of a user or a job, whose devices were not seen for some seconds."""
        return self.report(sum(self.states.values()) + unseen)

    def add_energy(self, joules):
        self.energy = (self.energy or 0.0) + joules


# The nodes.

def checked(value, least, most):
    """Returns a number of a frame; None if it is none, or cannot be."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and least <= value <= most else None


def shown(text, limit):
    """Returns a text of others as gtop shows it: each control character as a space."""
    return "".join(" " if ord(letter) < 32 or 127 <= ord(letter) < 160 else letter for letter in text)[:limit].strip()


def max_interval(source, requested):
    """Returns the longest interval of a source that counts while the node is sampled every `requested` seconds."""
    kind, _, group = source.partition(".")
    least = 0 if source == "host" else 120 if kind == "nvidia-smi" else {"slow": 10, "processes": 2}.get(group, 1)
    return requested + least if requested < least else requested


class Device:
    """A device of a node: what was last sent of it, and what it did."""

    def __init__(self, uuid, kind):
        self.uuid, self.kind = uuid, kind
        self.keys = {}
        self.index, self.model = None, None
        self.lacks = {}                # why a value is null
        self.is_impossible = False     # more memory is in use than there is
        self.present, self.since = [], None
        self.held, self.pieces = None, []
        self.samples = []              # time, owners, joules by the counter

    def take(self, sent):
        """Takes what a sample says: a key that it leaves out is as before."""
        if "fault" in sent:
            # The values before do not hold any more.
            self.keys = {key: self.keys[key] for key in ["index", "name", "pci", "minor", "parent"] if key in self.keys}
            self.lacks = {}
        self.keys.pop("fault", None)
        self.lacks.update(sent.get("lacks", {}))
        self.keys.update(sent)
        used, total = self.keys.get("memory_used"), self.keys.get("memory_total")
        if "memory_used" in sent:
            self.is_impossible = False
        self.is_impossible |= None not in (used, total) and used > total
        self.index = self.keys.get("index", self.index)
        self.model = self.model or self.keys.get("name")

    def values(self, state, whole, part):
        """Returns its values; power and heat are those of the `whole` device, of which it is a `part`."""
        keys = self.keys
        total = checked(keys.get("memory_total"), 0, 1 << 50)
        used = None if self.is_impossible or total is None else checked(keys.get("memory_used"), 0, 1 << 50)
        power = checked(whole.keys.get("power"), 0, 100_000_000)
        util = None if state == "faulty" else self.load()
        return {"state": state, "is_lost": "fault" in whole.keys, "util": util, "used": used, "total": total,
                "power": None if power is None else power / 1000 * part,
                "temperature": checked(whole.keys.get("temperature"), -100, 300)}

    def load(self):
        """Returns the utilization or, without one, the share of time that the engines or multiprocessors were active."""
        active = (self.keys.get("activity") or [])[:2]
        known = [checked(share, 0, 100) for share in [self.keys.get("util"), *active]]
        return next((share for share in known if share is not None), None)

    def close(self, at):
        """Ends what holds; a time that goes back counts nothing."""
        if self.held:
            start, end, values, owners = self.held
            self.pieces.append((start, min(end, at), values, owners))
        self.held = None

    def leave(self, at):
        self.close(at)
        if self.since is not None:
            self.present.append((self.since, at))
        self.since = None


class Node:
    def __init__(self, name):
        self.name = name
        self.listed, self.listed_since = [], None
        self.down, self.down_since = [], None
        self.was_down, self.boot = False, None
        self.offset, self.offset_at = None, None
        self.requested, self.every, self.intervals = None, 0, {}
        self.samples, self.sampled_at = [], None
        self.devices, self.gone = [], []
        self.uses, self.listed_uses = {}, set()      # by backend; the backends that have sent them
        self.processes, self.unseen, self.statics = {}, {}, {}

    # Time.

    def on_clock(self, probe, arrival):
        observed = arrival - probe
        if self.offset is not None:
            observed = min(observed, self.offset + max(arrival - self.offset_at, 0) * DRIFT)
        self.offset, self.offset_at = observed, arrival

    def time(self, probe, arrival):
        return min(probe + self.offset, arrival)

    def interval(self, source):
        return max(self.intervals.get(source, 1), self.every)

    # Lines.

    def take(self, line, jobs):
        at = line["at"]
        if "link" in line:
            self.on_link(at, line["link"]["state"])
        elif "interval" in line:
            self.requested = line["interval"]
            for source, known in self.intervals.items():
                self.intervals[source] = min(known, max_interval(source, self.requested))
        elif "every" in line:
            self.every = line["every"]
        elif "body" in line:
            body = line["body"]
            if body["t"] in ["hello", "sample", "error", "event"]:
                self.on_clock(body["at"], at)
            if body["t"] == "hello":
                self.on_hello(at, body)
            elif body["t"] == "sample":
                self.on_sample(at, body, jobs)

    def on_link(self, at, state):
        if state == "opening":
            self.offset = None
        if state != "up":
            self.statics = {}
        if state in ["up", "down"]:
            self.was_down = state == "down"
        is_down = state == "down" or (state == "opening" and self.was_down)
        if is_down and self.down_since is None:
            self.down_since = at
        elif not is_down and self.down_since is not None:
            self.down.append((self.down_since, at))
            self.down_since = None
        if is_down:
            for device in self.devices:
                device.close(at)

    def on_hello(self, at, hello):
        if self.boot not in (None, hello.get("boot")):
            self.uses, self.processes, self.unseen, self.intervals = {}, {}, {}, {}
            self.remove(at, lambda device: True)
        self.boot = hello.get("boot")
        limit = float("inf") if self.requested is None else self.requested
        announced = hello.get("intervals", {})
        self.intervals = {source: min(span, max_interval(source, limit)) for source, span in announced.items()}
        self.remove(at, lambda device: device.kind not in announced)

    def remove(self, at, is_gone):
        for device in [device for device in self.devices if is_gone(device)]:
            device.leave(at)
            self.devices.remove(device)
            self.gone.append(device)

    def on_sample(self, at, sample, jobs):
        if sample.get("host"):
            taken_at = self.time(sample["host"]["at"], at)
            if taken_at != self.sampled_at:
                self.samples.append(taken_at)
            self.sampled_at = taken_at
        sampled = []
        for backend in sample.get("backends", []):
            assert "csv" not in backend and "apps" not in backend, "output of nvidia-smi"
            kind = backend["kind"]
            if backend.get("devices") is not None:
                taken_at = self.time(backend["at"], at)
                sampled.append((taken_at, kind))
                self.on_devices(taken_at, kind, backend["devices"])
            if backend.get("uses") is not None:
                self.on_uses(kind, backend["uses"]["list"])
        if sample.get("processes"):
            self.on_processes(sample["processes"])
        for taken_at, kind in sampled:
            self.hold(taken_at, kind, jobs)

    def on_devices(self, at, kind, listed):
        own = [device for device in self.devices if device.kind == kind]
        listed = [(self.known(own, sent), sent) for sent in listed if sent.get("uuid")]
        kept = [device for device, _ in listed if device]
        missing = [device for device in own if device not in kept]
        self.remove(at, lambda device: device in missing and "parent" in device.keys)
        for device in missing:
            device.take({"fault": "gone"})
        for device, sent in listed:
            if device is None:
                device = next((old for old in self.gone if old.uuid == sent["uuid"]), None)
                if device:
                    self.gone.remove(device)
                    device.keys, device.lacks = {}, {}
                else:
                    device = Device(sent["uuid"], kind)
                self.devices.append(device)
            device.take(sent)

    @staticmethod
    def known(own, sent):
        """Returns the device that is meant; a lost one may be known by its bus id or index only."""
        def is_same(device):
            if device.uuid == sent["uuid"]:
                return True
            if "fault" not in sent or "parent" in device.keys:
                return False
            if sent.get("pci"):
                return sent["pci"].lower() == (device.keys.get("pci") or "").lower()
            return sent["uuid"].startswith("index-") and sent.get("index") == device.keys.get("index")
        return next((device for device in own if is_same(device)), None)

    def on_uses(self, kind, listed):
        before = {(use["device"], use["pid"]): use for use in self.uses.get(kind, [])}
        uses, device = [], None
        for sent in listed:
            device = sent.get("device") or device
            if device:
                uses.append({**before.get((device, sent["pid"]), {}), **sent, "device": device})
        self.uses[kind] = uses
        self.listed_uses.add(kind)

    def on_processes(self, sent):
        statics = {}
        for process in sent["list"]:
            key = (process["pid"], process["start"])
            is_new = any(word in process for word in ["command", "user", "uid"])
            statics[key] = process if is_new else self.statics.get(key, {})
        self.statics = statics
        self.processes = {pid: known for (pid, _), known in statics.items()}
        self.unseen = {process["pid"]: process for process in sent.get("unseen") or []}

    # Devices at a sample.

    def hold(self, at, kind, jobs):
        """What a sample says of the devices of a backend holds from now on."""
        source = self.interval(kind)
        for device in self.units():
            if device.kind == kind:
                device.close(at)
                device.since = at if device.since is None else device.since
                allocated = self.allocated(device, jobs)
                state = self.state(device, bool(allocated))
                if state == "free" and self.is_unproved(device, jobs):
                    state = "unknown"
                owners = allocated or self.users(device)
                values = device.values(state, *self.part(device))
                energy = checked(device.keys.get("energy"), 0, 1 << 62)
                device.samples.append((at, owners if state != "free" else set(), energy and energy / 1000))
                if not self.was_down:
                    device.held = (at, at + max(3 * source, 3), values, set() if state == "free" else owners)

    def whole(self):
        return [device for device in self.devices if "parent" not in device.keys]

    def slices(self, uuid):
        return [device for device in self.devices if device.keys.get("parent") == uuid]

    def units(self):
        """Returns the slices, and the devices without slices."""
        return [device for device in self.devices if not self.slices(device.uuid)]

    def part(self, device):
        """Returns the device that a slice is cut from, and which part of it it is; a device is all of itself."""
        whole = next((one for one in self.devices if one.uuid == device.keys.get("parent")), None)
        if whole is None:
            return device, 1
        sizes = [checked(one.keys.get("memory_total"), 0, 1 << 50) for one in self.slices(whole.uuid)]
        own = checked(device.keys.get("memory_total"), 0, 1 << 50)
        return whole, 1 / len(sizes) if None in sizes or not sum(sizes) else own / sum(sizes)

    def of_device(self, device):
        """Returns the uses of a device or slice."""
        return [use for uses in self.uses.values() for use in uses if use["device"] == device.uuid]

    def state(self, device, is_allocated):
        util = device.load()
        held = [checked(use.get("memory"), 0, 1 << 50) for use in self.of_device(device)]
        is_open = (device.keys.get("tpu") or {}).get("held")
        is_in_use = None in held or sum(held) >= HELD or is_open is True
        if self.is_faulty(device):
            return "faulty"
        if util is not None and util >= 5:
            return "active"
        if util is not None and (is_allocated or is_in_use):
            return "idle_held"
        is_asleep = util is None and device.lacks.get("util") == "asleep"
        is_idle = util is not None or is_asleep or is_open is False
        is_quiet = not is_allocated and not is_in_use and not self.has_unexplained_memory(device)
        if is_idle and is_quiet and self.are_users_known(device):
            return "free"
        return "unknown"

    @staticmethod
    def is_faulty(device):
        """Returns true if the driver lost the device, wants it reset or rebooted, or its maker wants it replaced."""
        keys = device.keys
        wants_recovery = keys.get("recovery") not in (None, 0, 3)  # nvmlDeviceGpuRecoveryAction_t: none; drain the peers
        return "fault" in keys or wants_recovery or keys.get("remap_failed") is True or keys.get("sram_threshold") is True

    def has_unexplained_memory(self, device):
        """Returns true if more of its memory is in use than the driver keeps, and no process has it."""
        used, total = (checked(device.keys.get(key), 0, 1 << 50) for key in ["memory_used", "memory_total"])
        listed = self.of_device(device)
        are_visible = all(use["pid"] in self.processes or self.unseen.get(use["pid"], {}).get("why") == "gone" for use in listed)
        if used is None or device.kind not in self.listed_uses or not are_visible:
            return False
        reserved = 0 if device.keys.get("memory_reserved") is not None else (total or 0) // 40
        return used - sum(use["memory"] for use in listed) >= HELD + reserved

    def are_users_known(self, device):
        is_open = (device.keys.get("tpu") or {}).get("held")
        if is_open is not None:
            return not is_open
        if "users" in device.keys and device.keys["users"] is None:
            return False
        return f"{device.kind}.processes" not in self.intervals or device.kind in self.listed_uses

    def numbering(self):
        """Returns the scheduler's numbers of the devices: of NVIDIA's their minor numbers, with each slice as one."""
        listed = [device for device in self.whole() if device.keys.get("fault") != "gone"]
        whole = sorted(listed, key=lambda device: device.index or 0)
        is_by_minor = any(device.kind in ["nvml", "nvidia-smi"] or "minor" in device.keys for device in whole)
        numbers = {device.keys.get("minor") if is_by_minor else place: device for place, device in enumerate(whole)}
        numbers.pop(None, None)
        slices = [device for device in self.devices if "parent" in device.keys]
        if not slices:
            return numbers
        units = []
        for number in range(len(numbers)):
            if number not in numbers:
                break
            device = numbers[number]
            units += self.slices(device.uuid) or [device]
        return dict(enumerate(units))

    def allocated(self, device, jobs):
        """Returns the users and jobs to which the scheduler allocated a device."""
        found = set()
        for job in jobs:
            for allocation in job.get("allocations", []):
                if allocation["node"] == self.name and allocation.get("indices"):
                    numbers = self.numbering()
                    # A list that is longer than the driver's may have any order.
                    is_known = all(index in numbers for index in allocation["indices"])
                    if is_known and device in [numbers[index] for index in allocation["indices"]]:
                        found.add((shown(job["user"], 1000), job["id"]))
        return found

    def is_unproved(self, device, jobs):
        """Returns true if a job has devices of the node, and nothing proves that this is none of them."""
        numbered = any(one.kind in ["nvml", "nvidia-smi"] or "minor" in one.keys for one in self.whole())
        allocations = [one for job in jobs for one in job.get("allocations", []) if one["node"] == self.name]
        return not numbered and "tpu" not in device.keys and any(one.get("indices") for one in allocations)

    def users(self, device):
        """Returns the users and jobs whose processes use a device; little memory counts only where nobody has more."""
        held = {}
        for use in self.of_device(device):
            owner = self.owner(use["pid"])
            if owner:
                memory = checked(use.get("memory"), 0, 1 << 50)
                held[owner] = held.get(owner, 0) + (1 << 60 if memory is None else memory)
        least = min(HELD, max(held.values(), default=0))
        return {owner for owner, memory in held.items() if memory >= least}

    def owner(self, pid):
        """Returns the user and the job of a process; None if it has ended."""
        unseen = self.unseen.get(pid)
        if pid not in self.processes and unseen and unseen["why"] == "gone":
            return None
        known = self.processes.get(pid, unseen or {})
        job = SLURM.search(known.get("cgroup") or "")
        job = job.group(1) if job else known.get("job") if str(known.get("job")).isdigit() else None
        user = known.get("user")
        if user is None and known.get("uid") is not None:
            user = f"uid {known['uid']}"
        return shown(user, 64) if user is not None else "hidden" if unseen else "unknown", job

    def finish(self, at):
        if self.down_since is not None:
            self.down.append((self.down_since, at))
        for device in list(self.devices):
            device.leave(at)

    def all_devices(self):
        devices = [device for device in self.devices + self.gone if device.present]
        return sorted(devices, key=lambda device: (device.index is None, device.index, device.uuid))


def report(path):
    """Returns the numbers of a recording, in the form of the JSON of a report."""
    lines = read(path)
    spans = spans_of(lines)
    end = spans[-1][1]
    nodes, roster, jobs, facts = {}, [], [], {}
    for line in lines:
        if line.get("checkpoint"):
            continue
        if "nodes" in line:
            for name in roster:
                nodes[name].listed.append((nodes[name].listed_since, line["at"]))
            roster = line["nodes"]
            for name in roster:
                nodes.setdefault(name, Node(name)).listed_since = line["at"]
            jobs = line.get("jobs", {}).get("jobs", [])
            for job in jobs:
                if job["state"] != "pending":
                    facts.setdefault(job["id"], job)
        elif "node" in line:
            nodes.setdefault(line["node"], Node(line["node"])).take(line, jobs)
    for name in roster:
        nodes[name].listed.append((nodes[name].listed_since, end))
    for node in nodes.values():
        node.finish(end)
    return summary(nodes, spans, facts, {job["id"] for job in jobs if job["state"] != "pending" and job.get("allocations")})


def summary(nodes, spans, facts, listed_jobs):
    totals, of_owners, found = Usage(), {}, {"spans": spans, "nodes": [], "devices": []}
    seen_samples, expected, watched_devices = 0, 0.0, 0.0
    known = [node.interval("host") for node in nodes.values() if node.samples]
    for name in sorted(nodes):
        node = nodes[name]
        of_node, node_watched = Usage(), 0.0
        listed = common(union(node.listed), spans)
        for device in node.all_devices():
            usage = Usage()
            watched = common(union(device.present), listed)
            counted = 0
            powers = []
            for start, end, values, owners in device.pieces:
                # No time counts twice, also where the clock went back.
                parts = common([(max(start, counted), end)], watched)
                counted = max(counted, end)
                # A value does not hold beyond the span in which it was taken.
                parts = [part for part in parts if any(a <= start <= b and part[1] <= b for a, b in spans)]
                for part in parts:
                    span = part[1] - part[0]
                    powers.append((part, values["power"] or 0))
                    for sums in [usage, of_node, totals]:
                        sums.add(values, span)
                    for owner in owners:
                        of_owner = of_owners.setdefault(owner, {"usage": Usage(), "devices": set(), "times": []})
                        of_owner["usage"].add(values, span / len(owners))
                        of_owner["devices"].add((name, device.uuid))
                        of_owner["times"] += part
            corrected = corrections(device, powers, spans)
            for sums in [usage, of_node, totals]:
                if corrected:
                    sums.add_energy(sum(corrected.values()))
            for until, unseen, owners, count in gaps(device, powers, spans, facts, listed_jobs, spans[-1][1]):
                for owner in owners & set(of_owners):
                    of_owners[owner]["unseen"] = of_owners[owner].get("unseen", 0) + unseen / count
                    if until in corrected:
                        of_owners[owner]["usage"].add_energy(corrected[until] / count)
            node_watched += seconds(watched)
            about = {"node": name.split(" ")[0], "index": device.index, "uuid": device.uuid,
                     "model": device.model and shown(device.model, 96)}
            found["devices"].append({**about, **usage.report(seconds(watched))})
        samples = sum(any(start <= at <= end for start, end in spans) for at in node.samples)
        # A node that never answered is expected as often as the others are.
        interval = node.interval("host") if node.samples else max(known, default=1)
        samples_expected = seconds(listed) / interval
        seen_samples, expected = seen_samples + samples, expected + samples_expected
        watched_devices += node_watched
        found["nodes"].append({"node": name.split(" ")[0], "devices": len(node.all_devices()),
                               "down_hours": seconds(common(union(node.down), listed)) / 3600,
                               **coverage(of_node.report(node_watched), samples, samples_expected)})
    found["users"], found["jobs"] = owners_of(of_owners, facts)
    counts = {"nodes": len(nodes), "nodes_seen": sum(bool(node.samples) for node in nodes.values()),
              "devices": len(found["devices"]), "users": len(found["users"]), "jobs": len(found["jobs"])}
    found["totals"] = {**counts, **coverage(totals.report(watched_devices), seen_samples, expected)}
    return found


def coverage(usage, samples, expected):
    """Adds the samples to what a report says; the smaller coverage counts."""
    known = [percent for percent in [usage["coverage_percent"], ratio(100 * samples, expected)] if percent is not None]
    return {**usage, "coverage_percent": min(known, default=None), "samples_seen": samples, "samples_expected": expected}


def corrections(device, pieces, spans):
    """Returns, for each sample at which the driver's counter has moved on, by how much the energy from power since it moved
    before has to be corrected."""
    found, last = {}, None
    for at, _, joules in device.samples:
        if joules is None:
            continue
        is_later = last and joules >= last[1] and any(start <= last[0] and at <= end for start, end in spans)
        if is_later and joules > last[1]:
            by_power = sum(seconds(common([(last[0], at)], [piece])) * power for piece, power in pieces)
            found[at] = joules - last[1] - by_power
        if not is_later or joules > last[1]:
            last = (at, joules)
    return found


def gaps(device, pieces, spans, facts, listed, end):
    """Returns the times in which a device was not seen, with those who held it before and after, and among how many."""
    found = []
    for number, (at, owners, _) in enumerate(device.samples):
        seen_to = max([at] + [piece[1] for piece, _ in pieces if piece[0] <= at < piece[1]])
        if number + 1 < len(device.samples):
            until, after = device.samples[number + 1][:2]
        else:
            until, after = end, {owner for owner in owners if owner[1] in listed}
        unseen = seconds(common([(seen_to, until)], spans))
        found.append((until, unseen, owners & after, len(owners)))
    return found


def owners_of(of_owners, facts):
    """Returns the users and the jobs."""
    users, jobs, numbers, unseen = {}, [], {}, {}
    for (user, job), found in of_owners.items():
        known = users.setdefault(user, Usage())
        merge(known, found["usage"])
        unseen[user] = unseen.get(user, 0) + found.get("unseen", 0)
        numbers[user] = numbers.get(user, 0) + (job is not None)
        if job is None:
            continue
        fact = facts.get(job, {})
        jobs.append({"job": fact.get("shown_id", job), "name": shown(fact.get("name", ""), 1000), "user": user,
                     "partition": fact.get("partition"), "nodes": sorted({node.split(" ")[0] for node, _ in found["devices"]}),
                     "devices": len(found["devices"]), "from": min(found["times"]), "to": max(found["times"]),
                     **found["usage"].report_of_owner(found.get("unseen", 0))})
    return [{"user": user, "jobs": numbers[user], **usage.report_of_owner(unseen[user])} for user, usage in users.items()], jobs


def merge(usage, more):
    for state, span in more.states.items():
        usage.states[state] += span
    for mine, others in [(usage.by_percent, more.by_percent), (usage.util, more.util), (usage.used, more.used),
                         (usage.power, more.power)]:
        mine[:] = [one + other for one, other in zip(mine, others)]
    usage.total += more.total
    if more.energy is not None:
        usage.add_energy(more.energy)
    for key, value in more.most.items():
        usage.most[key] = max(value, usage.most.get(key, value))


if __name__ == "__main__":
    json.dump(report(sys.argv[1]), sys.stdout, indent=1)
