"""What jobs hold while Slurm changes, keeps silent or hides jobs, and as seen from inside a job."""

import re
import unittest

from device_lists import LISTS
from harness import TIMEOUT, Unsupported, wait_for
from holdings import HoldingsCase, picked, short, shown_allocations, text_of
from test_slurm import INTERVAL, replace


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
        print(text_of(cells))
        self.assert_none([cell for cell in cells if cell.is_surely_wrong], "certain and wrong")
        bobs = set().union(*(truth for (_, job), truth in truths.items() if jobs[job] == "before"))
        self.assertFalse(self.pick("gpu01").get("gpu01", set()) & bobs)


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
        print(text_of(cells))
        self.assertEqual(len(cells), 2)
        self.assert_none([cell for cell in cells if not cell.is_right], "own and wrong")
        self.assertNotIn(bobs, [job["id"] for job in snapshot.value["jobs"]])
        for node, uuids in self.pick("gpu[01-02]").items():
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
        seen = watch.until("its devices", lambda snapshot: shown_allocations(snapshot).get((job, "gpu01"), (None,))[0])
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


class Adopted(HoldingsCase):
    """A session that pam_slurm_adopt puts into a job: the driver shows it only what the job may open."""

    NAMES, NODES = ("backwards", "first left out"), 2

    @classmethod
    def prepare(cls):
        super().prepare()
        for node in cls.lab.nodes:
            try:
                cls.lab("slurm", "adopt", node)
            except Unsupported as refused:
                raise unittest.SkipTest(str(refused)) from refused

    def test_the_session_s_devices_are_those_of_its_job(self):
        jobs = {self.idle("-N2", "--gres=gpu:1", user="bob"): "other's"}
        own = self.idle("-N2", "--gres=gpu:2")
        jobs[own] = "own"
        truths = self.truths(jobs)
        for node in self.lab.nodes:
            seen = self.lab.run("ssh", node, "nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader").stdout.split()
            left_out = {f"/dev/nvidia{minor}" for minor in LISTS[self.name_of[node]].left_out}
            self.assertEqual(set(seen), truths[node, own] | self.uuids(node, left_out), node)
        cells, _ = self.cells("adopted", jobs, truths)
        print(text_of(cells))
        self.assert_none([cell for cell in cells if cell.is_surely_wrong], "certain and wrong")
        self.assert_none([cell for cell in cells if cell.job == "own" and not cell.is_right], "own and wrong")


del HoldingsCase

if __name__ == "__main__":
    unittest.main()
