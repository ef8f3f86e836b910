"""What jobs hold, on nodes whose Slurm lists devices in many orders: what gtop shows is compared with what jobs can open.

The table of all cells is printed, and written to the file that GTOP_HOLDINGS names, if it is set.
"""

import json
import os
import unittest
from collections import Counter

from device_lists import LISTS
from harness import wait_for
from holdings import HoldingsCase, holders, picked, short, text_of, with_cards
from test_pick import GTOP
from test_slurm import replace

# What is hidden from users. slurmd tells them nothing without its configuration.
EVIDENCE = {
    "readable": (),
    "no daemon": ("daemon",),
    "no config": ("daemon", "config"),
    "nothing": ("daemon", "config", "driver", "groups"),
}
# What fails for a user to whom it is hidden.
READERS = {
    "daemon": "slurmd -G 2>&1 | grep -q Name=gpu",
    "config": "grep -q Name=gpu /etc/slurm/gres.conf",
    "driver": "cat /proc/driver/nvidia/gpus/*/information",
    "groups": "ls /sys/fs/cgroup/devices/slurm_*/uid_*",
}
# Lists whose order is not that of the device files or not that of the driver: there a likely guess may be wrong if what
# the guess needs is hidden.
UNGUESSABLE = {
    "backwards", "range turned", "by socket", "shards by file", "first left out", "third left out", "two types",
    "two types turned", "types untold", "crossed", "detected crossed", "slices interleaved", "slices crossed",
    "slices detected", "cards and slices",
}  # fmt: skip
# (list, evidence) where a likely claim may be wrong.
PREDICTED = {(name, evidence) for name in UNGUESSABLE for evidence in ("no config", "nothing")}


class Table(HoldingsCase):
    """Every list, with jobs of every kind, while users can read everything, something, and nothing."""

    NAMES = tuple(LISTS)
    NODES, GPUS = len(NAMES), 4

    @classmethod
    def prepare(cls):
        super().prepare()
        cls.all, cls.picks, cls.inside, cls.lacking, cls.snapshots, cls.unreadable = [], [], [], [], [], {}
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
            cls.each_host(cls.slurm.hide, hidden)
            cls.unreadable[evidence] = {kind for kind, line in READERS.items() if cls.lab.run("sh", "-c", line, node="gpu02").returncode}
            cells, snapshot = cls.cells(evidence, jobs, truths)
            cls.all += cells
            cls.snapshots.append((evidence, snapshot, held))
            for node, uuids in cls.pick(f"gpu[01-{cls.NODES:02}]").items():
                taken = set().union(*(held[node].get(job, ()) for job in others))
                cls.picks.append((evidence, node, uuids & taken))
            if cls.working in jobs:
                cls.record_inside(evidence, held)
            cls.each_host(cls.slurm.show, hidden)

    @classmethod
    def each_host(cls, change, kinds):
        """Hides or shows on the nodes, and on the login node what is there."""
        for node in cls.lab.nodes:
            change(node, *kinds)
        change("login", *(kind for kind in kinds if kind == "config"))

    @classmethod
    def record_inside(cls, evidence, held):
        """Records what is picked in the busy job, on each of its nodes."""
        line = f'echo "$SLURMD_NODENAME $({GTOP} pick --json --deadline 240)"'
        done = cls.lab.run("srun", "--overlap", "--jobid", cls.working, f"-N{cls.NODES}", "--ntasks-per-node=1", "sh", "-c", line, timeout=300)
        for node, answer in (text.split(" ", 1) for text in done.stdout.splitlines()):
            uuids = set().union(*picked(answer).values())
            others = set().union(*(truth for job, truth in held[node].items() if job != cls.working))
            cls.inside.append((evidence, node, uuids & others, uuids - held[node][cls.working]))
            # The lab's slices do not tell their memory.
            cards = {uuid for uuid in held[node][cls.working] if uuid.startswith("GPU-")}
            why = [one for one in json.loads(answer)["refused"] if one["uuid"] in cards]
            cls.lacking.append((evidence, node, cards - uuids, why))

    @classmethod
    def check_truth(cls):
        """Returns what a step of Slurm's own could open, by job and node, and the processes that the driver lists."""
        steps = {}
        for job in (cls.own, cls.working, cls.none):
            line = 'echo "$SLURMD_NODENAME" $(for f in /dev/nvidia[0-9]* /dev/nvidia-caps/nvidia-cap[0-9]*; do ' \
                'case "$(head -c0 "$f" 2>&1)" in *ermitted* | *"No such file"*) ;; *) echo "$f" ;; esac; done)'  # fmt: skip
            done = cls.lab.run("srun", "--overlap", "--jobid", job, f"-N{cls.NODES}", "--ntasks-per-node=1", "sh", "-c", line)
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
        lines = [text_of(cls.all), ""]
        for where, found in (("login", cls.picks), ("job", cls.inside)):
            lines += [f"picked in {where}, {evidence}, {cls.name_of[node]}: {short(taken)}" for evidence, node, taken, *_ in found if taken]
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
            parts = [part.split(":") for part in LISTS[self.name_of[node]].gres.split(",")]
            self.assertEqual(len(truth), sum(int(count) for name, *_, count in parts if name == "gpu"))

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

    def test_evidence_is_hidden_from_users(self):
        self.assertEqual(self.unreadable, {evidence: set(hidden) for evidence, hidden in EVIDENCE.items()})

    # ---- what gtop shows ----

    def test_what_is_certain_is_right(self):
        self.assert_none([cell for cell in self.all if cell.is_surely_wrong], "certain and wrong")

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
                    self.assertIn(uuid, with_cards(held[node].get(job, ())), (evidence, node, self.name_of[node], job))

    # ---- what gtop picks ----

    def test_from_the_login_node_no_device_of_somebody_else_is_picked(self):
        self.assertTrue(self.picks)
        self.assertEqual([f"{evidence}, {self.name_of[node]}: {short(taken)}" for evidence, node, taken in self.picks if taken], [])

    def test_inside_a_job_no_device_of_another_is_picked(self):
        self.assertEqual(len(self.inside), len(EVIDENCE) * self.NODES)
        self.assertEqual([f"{evidence}, {self.name_of[node]}: {short(taken)}" for evidence, node, taken, _ in self.inside if taken], [])

    def test_inside_a_job_only_its_own_devices_are_picked_if_they_are_known(self):
        found = [(self.name_of[node], short(foreign)) for evidence, node, _, foreign in self.inside if evidence == "readable" and foreign]
        self.assertEqual(found, [])

    def test_inside_a_job_all_of_its_devices_are_picked(self):
        readable = [rest for evidence, *rest in self.lacking if evidence == "readable"]
        found = [(self.name_of[node], short(lacking), why) for node, lacking, why in readable if lacking]
        self.assertEqual(found, [])


del HoldingsCase

if __name__ == "__main__":
    unittest.main()
