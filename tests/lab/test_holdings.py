"""What jobs hold, on nodes whose Slurm lists devices in many orders: what gtop shows is compared with what jobs can open.

The truth is the device cgroup of a job: see `openable_files` in slurm.py. It uses no rule for Slurm's indices. The table
of all cells is printed, and written to the file that GTOP_HOLDINGS names, if it is set.
"""

import json
import os
import re
import unittest
from collections import Counter
from dataclasses import dataclass

import slurm
from device_lists import LISTS
from harness import CONNECT_TIMEOUT, TIMEOUT, wait_for
from test_pick import GTOP, allocate
from test_slurm import INTERVAL, SlurmCase, replace

# What users of the nodes can read. Without the configuration, slurmd tells them nothing either.
EVIDENCE = {
    "readable": (),
    "no daemon": ("daemon",),
    "nothing": ("daemon", "config", "driver", "groups"),
}
# Lists whose order is not that of the device files or not that of the driver: there a likely guess may be wrong if what
# the guess needs is hidden.
UNGUESSABLE = {
    "backwards", "range turned", "first left out", "third left out", "two types", "two types turned", "types untold",
    "crossed", "detected crossed", "slices interleaved", "slices crossed", "slices detected", "cards and slices",
}  # fmt: skip
# (list, evidence) where a likely claim may be wrong.
PREDICTED = {(name, "nothing") for name in UNGUESSABLE}


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

    def __str__(self):
        shown = "-" if self.shown is None else short(self.shown)
        verdict = "right" if self.is_right else "WRONG" if self.is_wrong else "open"
        return (
            f"{self.name:18} {self.evidence:10} {self.job:14} {short(self.truth):30} {shown:30} {self.certainty:9} "
            f"{','.join(self.sources):30} {verdict}"
        )


HEADER = f"{'list':18} {'evidence':10} {'job':14} {'held':30} {'shown':30} {'certainty':9} {'sources':30}"


def short(uuids):
    """Returns UUIDs without what is the same for all devices of a node."""
    return " ".join(re.sub(r"^(\w)\w+-\w{8}-(\w{4}).*-0*(\w+)$", r"\1\2.\3", uuid) for uuid in sorted(uuids)) or "none"


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
            for one in device["holders"] or ():
                yield node["name"], device["uuid"], one["job"], one["certainty"]


class HoldingsCase(SlurmCase):
    """A strict Slurm; NAMES are the lists of the nodes."""

    NAMES = ()

    @classmethod
    def prepare(cls):
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

    def assert_none(self, cells, what):
        self.assertFalse(cells, f"{what}: {len(cells)}\n{HEADER}\n" + "\n".join(map(str, cells)))


def cgroups(pid):
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""  # it ended meanwhile


def picked(done):
    """Returns {node: UUIDs} that `gtop pick --json` picked."""
    return {node["name"].rpartition("@")[2]: set(node["uuids"]) for node in json.loads(done)["nodes"]}


class Table(HoldingsCase):
    """Every list, with jobs of every kind, while users can read everything, something, and nothing."""

    NAMES = tuple(LISTS)
    NODES, GPUS = len(NAMES), 4

    @classmethod
    def prepare(cls):
        super().prepare()
        cls.all, cls.picks, cls.inside, cls.snapshots = [], [], [], []
        everywhere = f"-N{cls.NODES}"
        with_shards = [node for node, name in cls.name_of.items() if "shard" in LISTS[name].gres]
        with_types = [node for node, name in cls.name_of.items() if "a100" in LISTS[name].gres and LISTS[name].gres.startswith("gpu:h100")]
        cls.none = cls.idle(everywhere, "--gres=none")
        cls.own = cls.idle(everywhere, "--gres=gpu:1")
        bobs = cls.idle(everywhere, "--gres=gpu:2", user="bob")
        cls.working = cls.busy(everywhere, "--gres=gpu:1")
        typed = cls.idle(f"-N{len(with_types)}", "-w", ",".join(with_types), "--gres=gpu:a100:1", user="bob")
        shared = [f"-N{len(with_shards)}", "-w", ",".join(with_shards), "--gres=shard:1"]
        cls.sharing = [cls.idle(*shared, user="bob"), cls.busy(*shared)]
        cls.jobs = {cls.own: "idle", bobs: "idle, other's", cls.working: "busy", typed: "idle, typed"}
        cls.jobs |= dict(zip(cls.sharing, ("shared, idle", "shared, busy")))
        cls.parts = cls.truths(cls.jobs)
        cls.record_all(cls.jobs, cls.parts, {bobs, typed, cls.sharing[0]})
        cls.extra_checks = cls.check_truth()
        cls.lab.run("scancel", "-u", "alice")
        cls.lab.run("scancel", "-u", "bob", user="bob")
        wait_for("no job left", lambda: not cls.lab.run("squeue", "-h").stdout)
        whole = cls.idle(everywhere, "--exclusive", "--gres=gpu:1", user="bob")
        cls.wholes = cls.truths([whole])
        cls.record_all({whole: "whole node"}, cls.wholes, {whole})
        cls.write_table()

    @classmethod
    def record_all(cls, jobs, truths, others):
        """Records what gtop shows and picks as alice, with each kind of evidence; `others` are jobs of bob."""
        held = {}
        for (node, job), truth in truths.items():
            held.setdefault(node, {})[job] = truth
        for evidence, hidden in EVIDENCE.items():
            for node in [*cls.lab.nodes, *(["login"] if "config" in hidden else [])]:
                cls.slurm.hide(node, *(kind for kind in hidden if node != "login" or kind == "config"))
            cells, snapshot = cls.cells(evidence, jobs, truths)
            cls.all += cells
            cls.snapshots.append((evidence, snapshot, held))
            done = cls.lab.gtop("pick", "--json", "--connect-timeout", str(CONNECT_TIMEOUT), "--deadline", "40", f"gpu[01-{cls.NODES:02}]", timeout=120)
            for node, uuids in picked(done.stdout).items():
                taken = set().union(*(held[node].get(job, ()) for job in others))
                cls.picks.append((evidence, node, uuids & taken))
            if cls.working in jobs:
                cls.record_inside(evidence, held)
            for node in [*cls.lab.nodes, *(["login"] if "config" in hidden else [])]:
                cls.slurm.show(node, *(kind for kind in hidden if node != "login" or kind == "config"))

    @classmethod
    def record_inside(cls, evidence, held):
        """Records what is picked in the busy job, on each of its nodes."""
        line = f'echo "$SLURMD_NODENAME $({GTOP} pick --json --deadline 40)"'
        done = cls.lab.run("srun", "--overlap", "--jobid", cls.working, everywhere(cls.NODES), "--ntasks-per-node=1", "sh", "-c", line, timeout=120)
        for node, answer in (text.split(" ", 1) for text in done.stdout.splitlines()):
            uuids = set().union(*picked(answer).values())
            others = set().union(*(truth for job, truth in held[node].items() if job != cls.working))
            cls.inside.append((evidence, node, uuids & others, uuids - held[node][cls.working]))

    @classmethod
    def check_truth(cls):
        """Returns what a step of Slurm's own could open, by job and node, and the processes that the driver lists."""
        steps = {}
        for job in (cls.own, cls.working, cls.none):
            line = 'echo "$SLURMD_NODENAME" $(for f in /dev/nvidia[0-9]* /dev/nvidia-caps/nvidia-cap[0-9]*; do ' \
                'case "$(head -c0 "$f" 2>&1)" in *ermitted* | *"No such file"*) ;; *) echo "$f" ;; esac; done)'  # fmt: skip
            done = cls.lab.run("srun", "--overlap", "--jobid", job, everywhere(cls.NODES), "--ntasks-per-node=1", "sh", "-c", line)
            for node, *files in map(str.split, done.stdout.splitlines()):
                left_out = {f"/dev/nvidia{minor}" for minor in LISTS[cls.name_of[node]].left_out}
                steps[node, job] = cls.uuids(node, set(files) - left_out), left_out - set(files)
        working = [job for job in (cls.working, cls.sharing[1])]
        listed = {(node, job): cls.driver_processes(node, job) for node, job in cls.parts if job in working}
        return steps, {(node, cls.none): cls.truth(node, cls.none) for node in cls.lab.nodes}, listed

    @classmethod
    def write_table(cls):
        counts = Counter()
        for cell in cls.all:
            counts[cell.evidence, cell.certainty, "right" if cell.is_right else "wrong" if cell.is_wrong else "open"] += 1
        lines = [HEADER, *map(str, cls.all), ""]
        lines += [f"{evidence:10} {certainty:9} {verdict:6} {count:4}" for (evidence, certainty, verdict), count in sorted(counts.items())]
        wrong = sum(cell.is_wrong for cell in cls.all)
        others = sum(bool(taken) for _, _, taken in cls.picks) + sum(bool(taken) for _, _, taken, _ in cls.inside)
        lines.append(f"wrong: {wrong} of {len(cls.all)}; picks with a device of another job: {others} of {len(cls.picks) + len(cls.inside)}")
        text = "\n".join(lines)
        print(text)
        if os.environ.get("GTOP_HOLDINGS"):
            replace(os.environ["GTOP_HOLDINGS"], text + "\n")

    # ---- the lab itself ----

    def test_the_truth_agrees_with_the_steps_of_slurm(self):
        steps, nothing, _ = self.extra_checks
        self.assertEqual(len(steps), 3 * self.NODES)
        for (node, job), (opened, closed) in steps.items():
            with self.subTest(node=node, list=self.name_of[node], job=job):
                self.assertEqual(opened, nothing[node, job] if job == self.none else self.parts[node, job])
                self.assertEqual(closed, set(), "every job may open a device that gres.conf leaves out")

    def test_a_job_without_devices_holds_none(self):
        _, nothing, _ = self.extra_checks
        self.assertEqual(set(nothing.values()), {frozenset()})

    def test_each_job_holds_as_many_as_it_asked_for(self):
        counts = {kind: {len(truth) for (_, job), truth in self.parts.items() if self.jobs[job] == kind} for kind in self.jobs.values()}
        self.assertEqual(counts.pop("idle, other's"), {2})
        self.assertEqual(set(map(frozenset, counts.values())), {frozenset({1})})
        for (node, _), truth in self.wholes.items():
            self.assertEqual(len(truth), sum(int(part.split(":")[-1]) for part in LISTS[self.name_of[node]].gres.split(",") if part.startswith("gpu:")))

    def test_jobs_hold_different_devices_except_shards(self):
        first, second = self.sharing
        for node in self.lab.nodes:
            held = {job: truth for (where, job), truth in self.parts.items() if where == node}
            self.assertEqual(held.pop(first, None), held.pop(second, held.get(first)), node)
            self.assertEqual(sum(map(len, held.values())), len(frozenset().union(*held.values())), node)

    def test_the_driver_lists_processes_on_the_devices_of_their_job(self):
        _, _, listed = self.extra_checks
        for (node, job), uuids in listed.items():
            self.assertEqual(uuids, self.parts[node, job], (node, self.name_of[node], job))

    # ---- what gtop shows ----

    def test_what_is_certain_is_right(self):
        self.assert_none([cell for cell in self.all if cell.certainty in ("certain", "unstated") and not cell.is_right], "certain and wrong")

    def test_with_all_evidence_everything_is_known_and_right(self):
        cells = [cell for cell in self.all if cell.evidence == "readable"]
        self.assert_none([cell for cell in cells if cell.certainty == "unknown" or not cell.is_right], "unknown or wrong with all evidence")

    def test_a_likely_claim_is_wrong_only_where_predicted(self):
        cells = [cell for cell in self.all if cell.certainty == "likely" and cell.is_wrong]
        self.assert_none([cell for cell in cells if (cell.name, cell.evidence) not in PREDICTED], "likely and wrong")

    def test_a_disputed_job_has_none_of_another_s_devices(self):
        self.assert_none([cell for cell in self.all if cell.certainty in ("disputed", "unknown") and cell.is_wrong], "disputed and wrong")

    def test_devices_name_only_jobs_that_hold_them(self):
        for evidence, snapshot, held in self.snapshots:
            named = list(holders(snapshot))
            self.assertTrue(named)
            for node, uuid, job, certainty in named:
                if certainty == "certain":
                    self.assertIn(uuid, held[node].get(job, ()), (evidence, node, self.name_of[node], job))

    # ---- what gtop picks ----

    def test_from_the_login_node_no_device_of_somebody_else_is_picked(self):
        self.assertTrue(self.picks)
        for evidence, node, taken in self.picks:
            with self.subTest(evidence=evidence, node=node, list=self.name_of[node]):
                self.assertEqual(taken, set())

    def test_inside_a_job_no_device_of_another_is_picked(self):
        self.assertEqual(len(self.inside), len(EVIDENCE) * self.NODES)
        for evidence, node, taken, foreign in self.inside:
            with self.subTest(evidence=evidence, node=node, list=self.name_of[node]):
                self.assertEqual(taken, set())
                if evidence == "readable":
                    self.assertEqual(foreign, set(), "a device that no job holds")


def everywhere(count):
    return f"-N{count}"


class Restarted(HoldingsCase):
    """slurmd starts again with another gres.conf while jobs run: the jobs keep their devices, and new jobs get others."""

    NAMES, NODES = ("plain", "backwards"), 2

    def started(self, node):
        return re.search(r"SlurmdStartTime=(\S+)", self.lab.run("scontrol", "show", "node", node).stdout)[1]

    def test_running_jobs_keep_their_devices(self):
        jobs = {self.idle("-w", "gpu01", "--gres=gpu:2", user="bob"): "before", self.busy("-w", "gpu01", "--gres=gpu:1"): "before, busy"}
        before = self.truths(jobs)
        started = self.started("gpu01")
        self.slurm.restart("gpu01", "backwards")
        wait_for("the controller knows the new slurmd", lambda: self.started("gpu01") != started)
        self.assertEqual(self.truths(jobs), before)
        jobs[self.idle("-w", "gpu01", "--gres=gpu:1")] = "after"
        truths = self.truths(jobs)
        # Slurm now takes other files for its indices, so it may give a new job what a running one has.
        print({(node, jobs[job]): short(truth) for (node, job), truth in truths.items()})
        cells, _ = self.cells("readable", jobs, truths)
        print("\n".join([HEADER, *map(str, cells)]))
        self.assert_none([cell for cell in cells if cell.certainty in ("certain", "unstated") and not cell.is_right], "certain and wrong")
        bobs = set().union(*(truth for (_, job), truth in truths.items() if jobs[job] == "before"))
        done = self.lab.gtop("pick", "--json", "--connect-timeout", str(CONNECT_TIMEOUT), "--deadline", "30", "gpu01")
        self.assertFalse(picked(done.stdout).get("gpu01", set()) & bobs)


class PrivateJobs(HoldingsCase):
    """PrivateData=jobs hides the jobs of others, but not that their devices are in use."""

    NAMES, NODES = ("plain", "backwards"), 2

    def test_devices_of_hidden_jobs_are_neither_free_nor_one_s_own(self):
        bobs = self.idle("-N2", "--gres=gpu:2", user="bob")
        own = self.idle("-N2", "--gres=gpu:1")
        conf = f"{self.lab.root}/run/lab/slurm/etc/slurm.conf"
        replace(conf, self.lab.script.read(conf) + "PrivateData=jobs\n")
        self.lab.run("scontrol", "reconfigure", user="root")
        wait_for("bob's job is hidden", lambda: "Invalid job" in self.lab.run("scontrol", "show", "job", bobs).stderr)
        truths = self.truths([own, bobs]) | {(node, bobs): self.truth(node, bobs) for node in self.lab.nodes}
        cells, snapshot = self.cells("private", {own: "own"}, truths)
        print("\n".join([HEADER, *map(str, cells)]))
        self.assertEqual(len(cells), 2)
        self.assertTrue(all(cell.is_right for cell in cells), cells)
        self.assertNotIn(bobs, [job["id"] for job in snapshot.value["jobs"]])
        done = self.lab.gtop("pick", "--json", "--connect-timeout", str(CONNECT_TIMEOUT), "--deadline", "30", "gpu[01-02]")
        for node, uuids in picked(done.stdout).items():
            self.assertFalse(uuids & truths[node, bobs], node)


class Frozen(HoldingsCase):
    """A controller that does not answer for a while: the exporter keeps what jobs hold, with its age."""

    NAMES, NODES = ("backwards",), 1

    def scrape(self):
        done = self.lab.run("sh", "-c", 'exec curl -s --max-time 5 --unix-socket "$HOME/gtop.sock" http://localhost/metrics')
        return done.stdout

    def held(self, text, job):
        """Returns the devices of a job in the metrics, and the age of the scheduler's answer."""
        devices = {match[1] for match in re.finditer(rf'^gtop_job_device_info{{(?=[^}}]*job="{job}")[^}}]*device="([^"]*)"', text, re.MULTILINE)}
        age = re.search(r"^gtop_scheduler_age_seconds(?:{[^}]*})? (\S+)", text, re.MULTILINE)
        return devices, float(age[1]) if age else None

    def test_holdings_are_kept_with_their_age(self):
        job = self.idle("--gres=gpu:2")
        truth = self.truth("gpu01", job)
        watch = self.lab.watch("--slurm", *INTERVAL)
        server = self.lab.background("gtop", "serve", "--slurm", *INTERVAL, "--socket", "gtop.sock")
        self.assertTrue(wait_for("its devices", lambda: self.held(self.scrape(), job)[0], 3 * TIMEOUT))
        first = self.held(self.scrape(), job)[0]
        self.assertEqual(len(first), len(truth))
        seen = watch.until("the job", lambda snapshot: (job, "gpu01") in shown_allocations(snapshot))
        claimed = shown_allocations(seen)[job, "gpu01"]
        self.lab("slurm", "controller", "freeze")
        self.addCleanup(self.lab, "slurm", "controller", "thaw")
        # An answer is missed after some 20 seconds.
        wait_for("three answers are missed", lambda: (self.held(self.scrape(), job)[1] or 0) > 65, 120, 1)
        devices, age = self.held(self.scrape(), job)
        self.assertEqual(devices, first, f"after {age} s")
        kept = shown_allocations(watch.until("an old list", lambda snapshot: snapshot.value["roster"]["age_seconds"] > 65, 120))
        self.assertEqual(kept[job, "gpu01"][0], claimed[0])
        self.assertIsNone(server.process.poll())


class LoginShell(HoldingsCase):
    """The shell of salloc runs on the login node: gtop takes the nodes of the allocation."""

    NAMES, NODES = ("backwards", "range turned", "plain"), 3

    def test_pick_takes_the_nodes_of_the_allocation(self):
        bobs = self.idle("-N3", "--gres=gpu:1", user="bob")
        done = self.lab.run("salloc", "-N2", "-w", "gpu[01-02]", "-c1", "--mem=100", "--gres=gpu:2", "gtop", "pick", "--json", "--deadline", "30")
        self.assertTrue(done.stdout, done.stderr)
        found = picked(done.stdout)
        self.assertEqual(sorted(found), ["gpu01", "gpu02"], done.stdout)
        for node, uuids in found.items():
            self.assertFalse(uuids & self.truth(node, bobs), node)


del HoldingsCase, SlurmCase

if __name__ == "__main__":
    unittest.main()
