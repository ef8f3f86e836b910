"""What jobs hold while Slurm changes, keeps silent or hides jobs, and as seen from inside a job."""

import os
import re
import time
import unittest

from device_lists import LISTS
from harness import TIMEOUT, Unsupported, wait_for
from holdings import HoldingsCase, picked, short, shown_allocations, text_of
from test_slurm import INTERVAL, replace


class Restarted(HoldingsCase):
    """slurmd starts again with another gres.conf while jobs run: their running steps keep their devices, and what comes gets others."""

    NAMES, NODES = ("plain", "backwards"), 2

    def started(self, node):
        return re.search(r"SlurmdStartTime=(\S+)", self.lab.run("scontrol", "show", "node", node).stdout)[1]

    def test_running_steps_keep_their_devices_and_the_next_gets_others(self):
        watch = self.lab.watch("--slurm", "--all-users", "--all-nodes", *INTERVAL)
        jobs = {self.idle("-w", "gpu01", "--gres=gpu:2", user="bob"): "before", self.busy("-w", "gpu01", "--gres=gpu:1"): "before, busy"}
        before = self.truths(jobs)
        first = next(iter(jobs))
        is_certain = lambda snapshot: shown_allocations(snapshot).get((first, "gpu01"), ("", ""))[1] == "certain"  # noqa: E731
        watch.until("its devices", is_certain, 4 * TIMEOUT)
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
        watch.until("the new list", lambda snapshot: not is_certain(snapshot), 4 * TIMEOUT)
        # Each step is given what the list means at its start.
        self.lab.run("srun", "--overlap", "--jobid", first, "true", user="bob")
        truth = self.truth("gpu01", first)
        self.assertNotEqual(truth, before["gpu01", first])
        cells, _ = self.cells("next step", jobs, self.truths(jobs))
        print(text_of(cells))
        self.assert_none([cell for cell in cells if cell.is_surely_wrong], "certain and wrong")
        self.assertFalse(is_certain(watch.latest()), "the watch does not see the step")
        self.assertFalse(self.pick("gpu01").get("gpu01", set()) & truth)


class HiddenEnvironment(HoldingsCase):
    """The environment of slurmd, which users cannot read, names another configuration than the usual one."""

    NAMES, NODES = ("backwards", "plain"), 2

    def test_what_the_usual_configuration_says_is_only_likely(self):
        etc, other = f"{self.lab.root}/run/lab/nodes/gpu01/etc/slurm", f"{self.lab.root}/run/lab/slurm/other"
        os.makedirs(other)
        for name in ("slurm.conf", "cgroup.conf", "gres.conf"):
            os.symlink(f"/run/lab/slurm/etc/{name}", f"{other}/{name}")
        os.remove(f"{etc}/gres.conf")
        self.lab.script.write(f"{etc}/gres.conf", "".join(f"{line}\n" for line in LISTS["plain"].config))
        started = self.started("gpu01")
        os.environ["SLURM_CONF"] = "/run/lab/slurm/other/slurm.conf"
        self.addCleanup(os.environ.pop, "SLURM_CONF", None)
        self.slurm.restart("gpu01", "", "-v")
        del os.environ["SLURM_CONF"]
        wait_for("the controller knows the new slurmd", lambda: self.started("gpu01") != started)
        time.sleep(2)
        jobs = {self.idle("-N2", "--gres=gpu:1", user="bob"): "other's"}
        truths = self.truths(jobs)
        cells, _ = self.cells("hidden environment", jobs, truths)
        print(text_of(cells))
        self.assert_none([cell for cell in cells if cell.is_surely_wrong], "certain and wrong")
        self.assertEqual([cell.certainty for cell in cells if cell.name == "plain"], ["certain"])
        for (node, _), truth in truths.items():
            self.assertFalse(self.pick(node).get(node, set()) & truth, node)

    def started(self, node):
        return re.search(r"SlurmdStartTime=(\S+)", self.lab.run("scontrol", "show", "node", node).stdout)[1]


class Reconfigured(HoldingsCase):
    """gres.conf changes, and slurmd reads it at once, later or never: nothing wrong is certain, and nothing of bob's picked."""

    NAMES, NODES = ("plain", "backwards", "shards by file"), 3

    def write(self, node, name, path="gres.conf", **times):
        """Writes the lines of a list for a node; `mtime` is the time that the file shows."""
        path = f"{self.lab.root}/run/lab/slurm/etc/{path}"
        lines = self.lab.script.read(path).splitlines(True) if os.path.exists(path) else []
        lines = [line for line in lines if not line.startswith(f"NodeName={node} ")]
        self.lab.script.write(path, "".join([*lines, *(f"NodeName={node} {line}\n" for line in LISTS[name].config)]))
        if times:
            os.utime(path, (times["mtime"],) * 2)

    def hide(self, node, *kinds):
        """Hides them until the test ends."""
        self.slurm.hide(node, *kinds)
        self.addCleanup(self.slurm.show, node, *kinds)

    def started(self, node):
        return re.search(r"SlurmdStartTime=(\S+)", self.lab.run("scontrol", "show", "node", node).stdout)[1]

    def restart(self, node):
        before = self.started(node)
        self.slurm.restart(node)
        wait_for("the controller knows the new slurmd", lambda: self.started(node) != before)

    def check(self, what, jobs):
        truths = self.truths(jobs)
        cells, _ = self.cells(what, jobs, truths)
        print(text_of(cells))
        self.assert_none([cell for cell in cells if cell.is_surely_wrong], f"{what}: certain and wrong")
        for node in {node for node, _ in truths}:
            bobs = set().union(*(truth for (at, job), truth in truths.items() if at == node and jobs[job] != "own"))
            self.assertFalse(self.pick(node).get(node, set()) & bobs, what)

    def pause(self):
        """Lets the clock go on: times of files and starts are whole seconds."""
        now = int(time.time())
        wait_for("the next second", lambda: int(time.time()) > now + 1)

    def watch_for(self, watch, node, job, truth, seconds=15):
        """Watches a job for a while: what is certain of it is right."""
        end = time.monotonic() + seconds

        def is_over(snapshot):
            shown, certainty = shown_allocations(snapshot)[job, node][:2]
            self.assertFalse(certainty == "certain" and set(shown) != truth, f"{shown} is certain, and it is {truth}")
            return time.monotonic() > end

        watch.until("the end", is_over, 4 * TIMEOUT)

    def test_a_job_that_starts_between_the_change_and_the_restart(self):
        self.pause()
        self.write("gpu01", "backwards")
        self.pause()
        jobs = {self.idle("-w", "gpu01", "--gres=gpu:2", user="bob"): "after the change"}
        self.check("changed", jobs)
        self.pause()
        self.restart("gpu01")
        self.check("restarted", jobs)

    def test_a_file_that_shows_an_earlier_time(self):
        jobs = {self.idle("-w", "gpu02", "--gres=gpu:2", user="bob"): "before"}
        self.pause()
        self.write("gpu02", "plain", mtime=time.time() - 3600)
        self.pause()
        self.restart("gpu02")
        self.check("with an earlier time", jobs)

    def test_a_file_that_gres_conf_includes(self):
        self.write("gpu03", "shards by file", "more.conf")
        path = f"{self.lab.root}/run/lab/slurm/etc/gres.conf"
        lines = [line for line in self.lab.script.read(path).splitlines(True) if not line.startswith("NodeName=gpu03 ")]
        self.lab.script.write(path, "".join([*lines, "Include /run/lab/slurm/etc/more.conf\n"]))
        self.pause()
        self.restart("gpu03")
        jobs = {self.idle("-w", "gpu03", "--gres=gpu:1", user="bob"): "before"}
        self.pause()
        self.write("gpu03", "backwards", "more.conf")
        self.pause()
        jobs[self.idle("-w", "gpu03", "--gres=gpu:1", user="bob")] = "after the change"
        self.check("included", jobs)


class Watched(Reconfigured):
    """The same while gtop watches, which has learned what the indices meant."""

    NAMES, NODES = ("plain", "backwards"), 2

    test_a_job_that_starts_between_the_change_and_the_restart = None
    test_a_file_that_shows_an_earlier_time = test_a_file_that_gres_conf_includes = None

    def test_a_start_of_which_slurm_tells_later(self):
        # Whatever another test has left.
        self.write("gpu02", "backwards")
        self.pause()
        self.restart("gpu02")
        self.pause()
        watch = self.lab.watch("--slurm", "--all-users", "--all-nodes", *INTERVAL)
        job = self.idle("-w", "gpu02", "--gres=gpu:1", user="bob")
        truth = self.truth("gpu02", job)
        is_certain = lambda snapshot: shown_allocations(snapshot).get((job, "gpu02"), ("", ""))[1] == "certain"  # noqa: E731
        watch.until("its device", is_certain, 4 * TIMEOUT)
        self.pause()
        self.write("gpu02", "plain")
        self.pause()
        before = self.started("gpu02")
        self.lab("slurm", "controller", "freeze")
        self.addCleanup(self.lab, "slurm", "controller", "thaw")
        self.slurm.restart("gpu02")
        self.watch_for(watch, "gpu02", job, truth, 25)
        self.lab("slurm", "controller", "thaw")
        wait_for("the controller knows the new slurmd", lambda: self.started("gpu02") != before)
        self.watch_for(watch, "gpu02", job, truth)

    def test_scontrol_reconfigure_under_a_watch(self):
        watch = self.lab.watch("--slurm", "--all-users", "--all-nodes", *INTERVAL)
        first = self.idle("-w", "gpu01", "--gres=gpu:1", user="bob")
        watch.until("its job", lambda snapshot: (first, "gpu01") in shown_allocations(snapshot))
        self.pause()
        self.write("gpu01", "backwards")
        self.pause()
        self.lab.run("scontrol", "reconfigure", user="root")
        self.pause()
        job = self.idle("-w", "gpu01", "--gres=gpu:2", user="bob")
        truth = self.truth("gpu01", job)
        watch.until("the new job", lambda snapshot: (job, "gpu01") in shown_allocations(snapshot))
        self.watch_for(watch, "gpu01", job, truth)
        self.check("reconfigured", {first: "before", job: "after"})

    def test_a_daemon_that_starts_again_at_once(self):
        self.hide("gpu02", "driver", "groups")
        watch = self.lab.watch("--slurm", "--all-users", "--all-nodes", *INTERVAL)
        busy = [self.busy("-w", "gpu02", "--gres=gpu:1") for _ in range(3)]
        watch.until("its jobs", lambda snapshot: all((job, "gpu02") in shown_allocations(snapshot) for job in busy))
        self.lab.run("scancel", *busy)
        self.write("gpu02", "plain")
        self.restart("gpu02")
        self.hide("gpu02", "daemon")
        job = self.idle("-w", "gpu02", "--gres=gpu:2", user="bob")
        truth = self.truth("gpu02", job)
        watch.until("the new job", lambda snapshot: (job, "gpu02") in shown_allocations(snapshot))
        self.watch_for(watch, "gpu02", job, truth)


class LeftOut(HoldingsCase):
    """gres.conf leaves out a device, which every job may open: a process there does not show what its job holds."""

    NAMES, NODES = ("first left out", "third left out"), 2

    def test_a_process_on_a_device_of_nobody(self):
        jobs = {}
        for node, file in (("gpu01", "/dev/nvidia0"), ("gpu02", "/dev/nvidia2")):
            jobs[self.busy("-w", node, "--gres=gpu:1", f"--export=ALL,LAB_FILES={file}", user="bob")] = "on a left out"
        truths = self.truths(jobs)
        for (node, job), truth in truths.items():
            self.assertFalse(self.driver_processes(node, job) & truth)
        for kinds in ((), ("daemon",), ("daemon", "config")):
            for node in self.lab.nodes:
                self.slurm.hide(node, *kinds)
            cells, _ = self.cells(" ".join(kinds) or "readable", jobs, truths)
            print(text_of(cells))
            self.assert_none([cell for cell in cells if cell.is_surely_wrong], "certain and wrong")
            picks = self.pick("gpu[01-02]")
            for (node, _), truth in truths.items():
                self.assertFalse(picks.get(node, set()) & truth, kinds)
            for node in self.lab.nodes:
                self.slurm.show(node, *kinds)


class PrivateJobs(HoldingsCase):
    """PrivateData=jobs hides the jobs of others, but not that their devices are in use."""

    NAMES, NODES = ("plain", "backwards"), 2

    def hide(self, job):
        conf = f"{self.lab.root}/run/lab/slurm/etc/slurm.conf"
        text = self.lab.script.read(conf)
        if "PrivateData" not in text:
            replace(conf, text + "PrivateData=jobs\n")
            self.lab.run("scontrol", "reconfigure", user="root")
        wait_for("bob's job is hidden", lambda: "Invalid job" in self.lab.run("scontrol", "show", "job", job).stderr)

    def test_shares_of_hidden_jobs_may_be_beside_one_s_own(self):
        bobs = self.idle("-N2", "--gres=shard:2", user="bob")
        own = self.idle("-N2", "--gres=shard:1")
        whole = self.idle("-N2", "--gres=gpu:1")
        self.hide(bobs)
        truths = self.truths([own, whole])
        hidden = {node: self.truth(node, bobs) for node in self.lab.nodes}
        cells, snapshot = self.cells("private", {own: "own", whole: "whole"}, truths)
        print(text_of(cells))
        self.assert_none([cell for cell in cells if not cell.is_right], "own and wrong")
        picks = self.pick("gpu[01-02]")
        for node in snapshot.value["nodes"]:
            rest = {device["uuid"]: device["no_other_job"] for device in node["devices"]}
            name = node["name"]
            self.assertEqual(truths[name, own], hidden[name], "Slurm packs shares")
            self.assertEqual({rest[uuid] for uuid in hidden[name]}, {"unknown"}, name)
            self.assertNotIn("unknown", {rest[uuid] for uuid in truths[name, whole]}, name)
            # Where other jobs are hidden, too, they may be from before slurmd's list: then nothing is picked.
            self.assertFalse(picks.get(name, set()) & hidden[name], name)

    def test_devices_of_hidden_jobs_are_neither_free_nor_one_s_own(self):
        bobs = self.idle("-N2", "--gres=gpu:2", user="bob")
        own = self.idle("-N2", "--gres=gpu:1")
        self.hide(bobs)
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


class Step(HoldingsCase):
    """gtop runs in a step with fewer devices than its job has, and nothing tells what Slurm's indices mean."""

    NAMES, NODES = ("backwards",), 1

    def test_pick_takes_the_devices_of_the_step(self):
        bobs = self.idle("--gres=gpu:1", user="bob")
        own = self.sbatch("-c4", "--mem=400", "--gres=gpu:2")
        self.wait_until_running(own)
        self.slurm.hide("gpu01", "daemon", "config")
        self.slurm.hide("login", "config")
        step = ["srun", "--overlap", "--jobid", own, "-n1", "-c1", "--mem=50"]
        for option, count in (("--gres=gpu:1", 1), ("--gres=gpu:2", 2), ("--gres=none", 0)):
            done = self.lab.run("env", "LAB_FILES=/dev/none", *step, option, "/run/lab/bin/gtop", "pick", "--json", "--deadline", "30")
            self.assertTrue(done.stdout, done.stderr)
            uuids = picked(done.stdout).get("gpu01", set())
            self.assertEqual(len(uuids), count, done.stdout)
            self.assertLessEqual(uuids, self.truth("gpu01", own))
            self.assertFalse(uuids & self.truth("gpu01", bobs))


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
