"""A recording that is made up: lines in groups, and a checkpoint every minute, as a recorder writes them.

Times are seconds since START. A sample arrives when it is taken, and has the values that changed.
"""

import json
import os
import subprocess

import rig

GIB = 1 << 30
START = 1_800_000_000
STEP = 10                              # seconds between samples, if nothing else is said
MAX_GROUP = 4 << 20                    # bytes of text
BACKEND = "nvml"


def compress(text):
    return subprocess.run(["zstd", "-cq"], input=text.encode(), stdout=subprocess.PIPE, timeout=60, check=True).stdout


def device(util, used=40 * GIB, total=80 * GIB, power=300, **more):
    return {"util": util, "memory_used": used, "memory_total": total, "power": power * 1000, "temperature": 50, **more}


def job(number, name, user, nodes, **more):
    """A running job; `nodes` are the indices of its devices by node."""
    allocations = [{"node": node, "indices": indices} for node, indices in nodes.items()]
    return {"id": number, "shown_id": number, "name": name, "user": user, "partition": "p", "state": "running",
            "node_count": len(nodes), "allocations": allocations, **more}


def changes(new, before, always=()):
    """Returns what a sample says of an object: what changed, and these keys."""
    return {key: value for key, value in new.items() if key not in before or before[key] != value or key in always}


def list_changes(new, before, identity, always=()):
    """Returns what a sample says of the elements of a list, which are the same if these keys are."""
    known = {tuple(element[key] for key in identity): element for element in before}
    return [changes(element, known.get(tuple(element[key] for key in identity), {}), (*identity, *always)) for element in new]


def without_repeated_device(uses):
    """Leaves out the device of each use that has the device of the one before."""
    before = [None] + [use["device"] for use in uses]
    return [{key: value for key, value in use.items() if key != "device" or value != last} for use, last in zip(uses, before)]


class TapedNode:
    """What is known of a node."""

    def __init__(self):
        self.link = {"state": "idle"}
        self.clock = START - 1000      # when its clock was zero
        self.hello, self.opened_at, self.session = None, None, []
        self.number, self.sampled_at = 0, None
        self.parts = {}                # what it sent last, with the time by its clock
        self.gone, self.events, self.error = {}, [], None
        self.last_uses = None

    def known(self, part, default):
        return self.parts[part][1] if part in self.parts else default

    def whole_sample(self):
        """Returns a sample that leaves out nothing."""
        objects = {part: {"at": at, **value} for part, (at, value) in self.parts.items() if part in ["host", "host_slow", "shares"]}
        backends = []
        if "devices" in self.parts:
            at, devices = self.parts["devices"]
            backends.append({"kind": BACKEND, "at": at, "devices": devices})
            if "uses" in self.parts:
                used_at, uses = self.parts["uses"]
                backends[0]["uses"] = {"at": used_at, "list": without_repeated_device(uses)}
        if "processes" in self.parts:
            at, processes = self.parts["processes"]
            objects["processes"] = {"at": at, "list": processes}
        if "evidence" in self.parts:
            objects["evidence"] = self.known("evidence", None)
        at = max(at for at, _ in self.parts.values())
        return {"t": "sample", "n": self.number, "at": at, "full": True, "backends": backends, **objects}


class Tape:
    """`has_old_hellos`: as a recorder does, a checkpoint repeats the hello of a node with the time at which it was sent, and not
    with that of the checkpoint. Of a node whose clock went back, a report then loses samples where one of its parts begins."""

    def __init__(self, has_old_hellos=False):
        self.has_old_hellos = has_old_hellos
        self.frames, self.lines, self.size = [], [], 0
        self.at, self.written_at, self.alive = None, None, None
        self.nodes, self.roster, self.checkpoint_at = {}, {"nodes": []}, 0

    def write(self, line, at=None, **more):
        at = self.at if at is None else at
        text = json.dumps({"at": START + at, **more, **line}, separators=(",", ":"))
        self.lines.append(text)
        self.size += len(text)
        self.written_at = self.at

    def begin_group(self):
        if self.lines:
            self.frames.append(compress("".join(line + "\n" for line in self.lines)))
        self.lines, self.size = [], 0

    def start(self, at, alive=None):
        """Starts a recorder; `alive` is after how many seconds without a line it writes that it runs."""
        self.at, self.checkpoint_at, self.nodes, self.alive = at, at, {}, alive
        self.begin_group()
        self.write({"start": {"gtop": 1, "version": "0", "host": "h", "title": "a tape", **({"alive": alive} if alive else {})}})
        self.write({"nodes": []}, checkpoint=True)

    def end(self, at):
        self.wait(at)
        self.write({"end": True})

    def list(self, at, names, jobs=None, **about):
        """Lists the nodes, and jobs: those of `job`, or the arguments of one; None is no scheduler."""
        listed = [known if isinstance(known, dict) else job(*known) for known in jobs or []]
        self.move(at)
        self.roster = {"nodes": list(names), **({} if jobs is None else {"jobs": {"jobs": listed, "at": START + at, **about}})}
        self.write(self.roster)

    def wait(self, at):
        """Goes on to a time at which nothing is repeated."""
        while self.alive and at - self.written_at > self.alive:
            self.at = self.written_at + self.alive
            self.write({"alive": True})
        self.at = at

    def move(self, at):
        """Goes on to a time; once a minute a checkpoint repeats what is known."""
        self.wait(at)
        if at - self.checkpoint_at >= 60:
            self.write_checkpoint()
        elif self.size > MAX_GROUP:
            self.begin_group()

    def write_checkpoint(self):
        self.checkpoint_at = self.at
        self.begin_group()
        self.write(self.roster, checkpoint=True)
        for name, node in self.nodes.items():
            for line in node.session if node.hello else []:
                self.write(line, checkpoint=True, node=name)
            if node.hello:
                self.write({"body": node.hello}, node.opened_at if self.has_old_hellos else None, checkpoint=True, node=name)
            if node.gone:
                self.write({"gone": list(node.gone.values())}, checkpoint=True, node=name)
            if node.parts:
                self.write({"body": node.whole_sample()}, node.sampled_at, checkpoint=True, node=name)
            for at, body in [*node.events, *([node.error] if node.error else [])]:
                self.write({"body": body}, at, checkpoint=True, node=name)
            if node.link["state"] != "up":
                self.write({"link": node.link}, checkpoint=True, node=name)

    def link(self, at, name, state):
        self.move(at)
        link = {"state": state, **({"fault": "connection refused", "detail": "port 22"} if state == "down" else {})}
        self.node(name).link = link
        self.write({"link": link}, node=name)

    def node(self, name):
        return self.nodes.setdefault(name, TapedNode())

    def open(self, at, name, step=STEP, processes=False, boot="b", host=None, **hello):
        """Opens a session."""
        self.link(at, name, "opening")
        self.link(at, name, "up")
        node = self.node(name)
        if node.hello and node.hello["boot"] != boot:
            node.events = []
        node.session = [{"link": {"state": "up"}}, {"interval": step}]
        self.write({"interval": step}, node=name)
        intervals = {"host": step, BACKEND: step, **({f"{BACKEND}.processes": step} if processes else {})}
        node.hello = {"t": "hello", "v": 1, "probe": "python", "at": START + at - node.clock, "host": host or name, "boot": boot,
                      "intervals": intervals, "backends": [{"kind": BACKEND, "state": "ready"}], **hello}
        node.parts, node.last_uses, node.number, node.error = {}, None, 0, None
        node.opened_at = at
        self.write({"body": node.hello}, node=name)

    def event(self, at, name, **event):
        """Something happened to a device."""
        self.move(at)
        node = self.node(name)
        body = {"t": "event", "at": START + at - node.clock, "source": BACKEND, **event}
        node.events.append((at, body))
        self.write({"body": body}, node=name)

    def error(self, at, name, **error):
        """A source has no new values."""
        self.move(at)
        node = self.node(name)
        body = {"t": "error", "at": START + at - node.clock, "source": BACKEND, "scope": "host", **error}
        node.error = (at, body)
        self.write({"body": body}, node=name)

    def sample(self, at, name, devices, uses=(), clock=0):
        """A sample: the values of each device by UUID; uses are a UUID, a pid, the bytes and the user (or the uid)."""
        node = self.node(name)
        whole = [{"uuid": uuid, "index": index, "minor": index, "name": "a model", "pci": f"00000000:0{index}:00.0", **values}
                 for index, (uuid, values) in enumerate(devices.items())]
        parts = {"host": {}, "devices": whole}
        # As a probe, it sends the users of devices when they change.
        if uses != node.last_uses:
            node.last_uses = uses
            owners = {pid: {"uid": user} if isinstance(user, int) else {"user": user} for _, pid, _, user in uses}
            parts["uses"] = [{"device": uuid, "pid": pid, "memory": memory} for uuid, pid, memory, _ in uses]
            parts["processes"] = [{"pid": pid, "start": 1, "command": "python", **owner} for pid, owner in owners.items()]
        self.write_sample(at, name, parts, clock)

    def write_sample(self, at, name, parts, clock=0):
        """A sample of some parts of a node, each as a whole: `host`, `host_slow`, `shares`, `devices`, `uses`, `processes`,
        `evidence`."""
        self.move(at)
        node = self.node(name)
        node.number += 1
        probe = round(START + at - node.clock + clock, 6)
        body = {"t": "sample", "n": node.number, "at": probe, "took": 1.2, **({} if node.parts else {"full": True})}
        if "host" in parts:
            body["host"] = {"at": probe, **changes(parts["host"], node.known("host", {}), ["net", "infiniband", "disk"])}
        if "host_slow" in parts:
            body["host_slow"] = {"at": probe, **changes(parts["host_slow"], node.known("host_slow", {}))}
        if "shares" in parts:
            body["shares"] = {"at": probe, **parts["shares"]}
        if "devices" in parts:
            body["backends"] = [self.backend(node, parts, probe)]
            node.error = None
        if "processes" in parts:
            known = node.known("processes", [])
            body["processes"] = {"at": probe, "list": list_changes(parts["processes"], known, ["pid", "start"])}
        if "evidence" in parts and parts["evidence"] != node.known("evidence", None):
            body["evidence"] = parts["evidence"]
        node.parts.update((part, (probe, value)) for part, value in parts.items())
        node.sampled_at = at
        self.write({"body": body}, node=name)

    def backend(self, node, parts, probe):
        """Returns what a sample says of the devices, and notes those that are gone."""
        known = node.known("devices", [])
        # A device in the same slot has replaced the one before.
        kept = {listed[key] for listed in parts["devices"] for key in ["uuid", "pci"]}
        for missing in known:
            if missing["uuid"] not in kept and missing["pci"] not in kept and "parent" not in missing:
                identity = {key: missing[key] for key in ["uuid", "index", "name", "pci"]}
                node.gone[missing["uuid"]] = {"source": BACKEND, "since": START + self.at, **identity}
        found = {"kind": BACKEND, "at": probe, "devices": list_changes(parts["devices"], known, ["uuid"], ["parent", "fault"])}
        if "uses" in parts:
            uses = list_changes(parts["uses"], node.known("uses", []), ["device", "pid"])
            found["uses"] = {"at": probe, "list": without_repeated_device(uses)}
        return found

    def save(self, path=None):
        path = path or os.path.join(rig.folder(), "tape.gtop")
        self.begin_group()
        with open(path, "wb") as out:
            out.writelines(self.frames)
        return path
