"""Nodes that refuse SSH are monitored by one step per job, which does not hinder other steps."""

import os
import re
import signal
import time
import unittest

from harness import Unsupported, wait_for
from test_slurm import INTERVAL, SlurmCase

# Seconds until a step of a killed gtop has ended; the controller checks only at intervals.
STEP_END_TIMEOUT = 10


class SrunCase(SlurmCase):
    NODES, GPUS = 4, 4
    KIND = "strict"

    @classmethod
    def prepare(cls):
        cls.lab("slurm", "up", *filter(None, [cls.KIND]))
        cls.restrict_ssh()

    @classmethod
    def restrict_ssh(cls):
        for node in cls.lab.nodes:
            cls.lab("sshd", node, "AllowUsers root")

    def setUp(self):
        self.addCleanup(wait_for, "no job left", lambda: not self.lab.run("squeue", "-h").stdout)
        self.addCleanup(self.wait_for_no_step)
        self.addCleanup(self.lab.run, "scancel", "-u", "alice")

    @classmethod
    def start_job(cls, nodes=None, command="sleep 3600", **options):
        number = cls.sbatch(f"-N{nodes or min(3, cls.NODES)}", "--ntasks-per-node=1", "-c2", "--gres=gpu:2", "--mem=2000", command=command, **options)
        cls.wait_until_running(number)
        return number

    def watch(self, *arguments, **options):
        watch = self.lab.watch(*arguments, **options)
        self.addCleanup(watch.close)
        return watch

    def terminal(self):
        terminal = self.lab.terminal()
        self.addCleanup(terminal.close)
        return terminal

    def check_retry_when_a_job_starts(self, reason):
        """Asserts that a node which is down for this reason is retried once a job of alice starts there."""
        node = self.lab.nodes[0]
        bobs = self.sbatch("-w", node, "-c2", "--mem=2000", user="bob")
        self.wait_until_running(bobs)
        self.addCleanup(self.lab.run, "scancel", bobs, user="bob")
        watch = self.watch("--slurm", *INTERVAL, node, home="retry")
        watch.until_down(node, reason)
        mine = self.sbatch("-w", node, "-c2", "--mem=2000")
        self.wait_until_running(mine)
        watch.until("a step monitors it", lambda seen: nodes_by_srun(seen) == [node])

    def steps(self):
        """Returns the ids of gtop's steps that Slurm lists."""
        lines = self.lab.run("squeue", "-h", "-s", "-o", "%i %j").stdout.splitlines()
        return [line.split()[0] for line in lines if line.endswith(" gtop")]

    def wait_for_no_step(self):
        wait_for(lambda: f"no step left: {self.steps()}", lambda: not self.steps(), STEP_END_TIMEOUT)

    def cluster_cache(self, home=None):
        """Returns the content of gtop's file of clusters whose nodes refuse SSH."""
        return self.lab.run("sh", "-c", "cat ~/.local/state/gtop/srun-clusters", home=home).stdout.strip()

    def write_cluster_cache(self, text, home):
        self.lab.run("sh", "-c", "mkdir -p ~/.local/state/gtop && cat >~/.local/state/gtop/srun-clusters", stdin=text, home=home)

    def doctor(self, *arguments, home=None):
        return self.lab.run("gtop", "--connect-timeout", "4", *arguments, "doctor", "--slurm", home=home, timeout=120).stdout

    def assert_step(self, out, step, mark, words):
        pattern = rf"^  {mark} +{step} .*{words}"
        self.assertTrue(re.search(pattern, out, re.MULTILINE), f"{pattern!r} not in:\n{out}")

    def allocated(self, job):
        return sorted(self.lab.run("scontrol", "show", "hostnames", self.lab.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()).stdout.split())


def nodes_by_srun(snapshot):
    return sorted(node["name"] for node in snapshot.value["nodes"] if node["link"] == "up" and node["transport"] == "srun")


class RefusedSsh(SrunCase):
    def test_one_snapshot_has_every_node_of_the_job(self):
        job = self.start_job()
        seen = self.lab.snapshot("--slurm")
        self.assertEqual(nodes_by_srun(seen), self.allocated(job))
        self.assertEqual([len(node["devices"]) for node in seen.value["nodes"]], [4, 4, 4])
        listed = next(one for one in seen.value["jobs"] if one["id"] == job)
        given = (listed["cpus"], listed["memory_bytes"], listed["devices_per_node"])
        self.assertEqual(given, (6, 3 * 2000 << 20, 2))
        self.wait_for_no_step()
        # The cluster is in the cache now: gtop uses a step without trying SSH.
        self.assertRegex(self.cluster_cache(), r"^lab \d{10}$")
        self.lab.fault("drop", self.allocated(job)[0])
        self.addCleanup(self.lab.fault, "clear", self.allocated(job)[0])
        self.assertEqual(nodes_by_srun(self.lab.snapshot("--slurm")), self.allocated(job))

    def test_a_cache_entry_expires_after_a_month_and_is_renewed(self):
        job = self.start_job(1)
        expired = int(time.time()) - 31 * 24 * 3600
        self.write_cluster_cache(f"other {int(time.time())}\nlab {expired}\n", "expired")
        watch = self.lab.watch("--slurm", *INTERVAL, home="expired")
        self.addCleanup(watch.close)
        watch.until("the node", lambda seen: nodes_by_srun(seen) == self.allocated(job))
        wait_for("the entry is renewed", lambda: f"lab {expired}" not in self.cluster_cache("expired"))
        self.assertRegex(self.cluster_cache("expired"), r"^other \d{10}\nlab \d{10}$")

    def test_doctor_checks_steps_and_retries_ssh(self):
        job = self.start_job(2)
        out = self.doctor(home="doctor")
        self.assertNotIn("FAILED", out)
        self.assert_step(out, "srun", "ok", r"slurm\S* [0-9.]+: steps can overlap")
        self.assert_step(out, "step", "ok", f"runs on gpu\\d+ in job {job}")
        self.assert_step(out, "preferred transport", "ok", "ssh; a job step if a node refuses ssh")
        # It reaches the nodes as the monitor would, and writes the cache.
        self.assertEqual(len(re.findall(rf"^  ok +srun .*connected by a step of job {job}", out, re.MULTILINE)), 2, out)
        self.assertEqual(len(re.findall(r"^  note +built-in SSH .*refused", out, re.MULTILINE)), 2, out)
        old = int(time.time()) - 9 * 24 * 3600
        self.assertRegex(self.cluster_cache("doctor"), r"^lab \d{10}$")
        self.write_cluster_cache(f"lab {old}\n", "doctor")
        out = self.doctor(home="doctor")
        self.assert_step(out, "preferred transport", "ok", "job step: a node of cluster lab refused ssh 9 days ago")
        self.assertRegex(out, r"retried ssh to gpu\d+: authentication refused")
        self.assertNotIn("built-in SSH", out)
        self.assertNotIn(str(old), self.cluster_cache("doctor"))
        out = self.doctor("--transport", "srun", home="other-doctor")
        self.assertNotIn("FAILED", out)
        self.assert_step(out, "preferred transport", "ok", r"job steps only \(--transport srun\)")
        self.assertEqual(self.cluster_cache("other-doctor"), "")
        self.wait_for_no_step()

    def test_a_refused_connection_leads_to_srun_too(self):
        job = self.start_job(2)
        for node in self.allocated(job):
            self.lab.fault("reject", node)
            self.addCleanup(self.lab.fault, "clear", node)
        self.assertEqual(nodes_by_srun(self.lab.snapshot("--slurm", home="other")), self.allocated(job))

    def test_the_screen_shows_them_and_q_leaves_no_step(self):
        job = self.start_job()
        terminal = self.terminal()
        terminal.gtop("--slurm", *INTERVAL)
        for node in self.allocated(job):
            terminal.until(node, rf"{node}.*%")
        wait_for("one step", lambda: len(self.steps()) == 1)
        terminal.type("q")
        terminal.until("the prompt", r"ready> *$")
        self.wait_for_no_step()

    def test_steps_of_the_user_start_beside_the_step_of_gtop(self):
        job = self.start_job()
        watch = self.watch("--slurm", *INTERVAL)
        watch.until("three nodes", lambda seen: len(nodes_by_srun(seen)) == 3)
        for options in (
            [], ["--gres=gpu:2"], ["--gpus-per-task=1"], ["--exclusive"], ["--exact", "-c2"], ["--mem=2000"], ["-N1", "-n1", "--gres=gpu:1"]
        ):  # fmt: skip
            done = self.lab.run("srun", f"--jobid={job}", "--immediate=5", *options, "sh", "-c", "echo $SLURM_STEP_GPUS", timeout=20)
            self.assertEqual(done.returncode, 0, (options, done.stderr))
            self.assertRegex(done.stdout, r"^\d")
        self.assertEqual(len(nodes_by_srun(watch.latest())), 3)
        self.assertEqual(len(self.steps()), 1)

    def test_the_step_starts_beside_one_with_all_resources(self):
        job = self.start_job(command="srun --exclusive --gres=gpu:2 --mem=2000 sleep 3600")
        self.assertEqual(nodes_by_srun(self.lab.snapshot("--slurm")), self.allocated(job))
        self.wait_for_no_step()

    def test_the_probe_can_open_only_the_devices_of_the_job(self):
        job = self.start_job(1)
        script = "for i in 0 1 2 3; do (exec 9</dev/nvidia$i) 2>&1; done"
        options = ["--overlap", "--mem=0"]
        done = self.lab.run("srun", f"--jobid={job}", *options, "/bin/sh", "-c", script)
        self.assertEqual(done.stdout.count("not permitted") + done.stderr.count("not permitted"), 2, done)
        done = self.lab.run("srun", f"--jobid={job}", *options, "--gres=none", "/bin/sh", "-c", script)
        self.assertEqual(done.stdout.count("not permitted") + done.stderr.count("not permitted"), 4, done)

    def test_killing_gtop_leaves_no_step(self):
        self.start_job()
        for name in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(name):
                watch = self.watch("--slurm", *INTERVAL)
                watch.until("three nodes", lambda seen: len(nodes_by_srun(seen)) == 3)
                os.kill(watch.pid, name)
                watch.process.wait(10)
                self.wait_for_no_step()
                for node in self.lab.nodes:
                    wait_for(f"no probe process on {node}", lambda: not [a for a in self.lab.leftovers(node).values() if "SLURMD" in a or "gtop" in a])

    def test_a_cancelled_job_is_reported_and_the_next_one_monitored(self):
        first = self.start_job(2)
        watch = self.watch("--slurm", "--discovery-interval", "20")
        watch.until("two nodes", lambda seen: len(nodes_by_srun(seen)) == 2)
        nodes = self.allocated(first)
        self.lab.run("scancel", first)
        watch.until_down(nodes[0], "the job was cancelled")
        second = self.start_job(2)
        watch.until("the next job", lambda seen: nodes_by_srun(seen) == self.allocated(second), 60)

    def test_a_node_that_refused_is_retried_when_the_user_s_job_starts_there(self):
        self.check_retry_when_a_job_starts("refused")

    def test_all_components_of_a_heterogeneous_job_are_monitored(self):
        first, second = self.lab.nodes[:2]
        number = self.lab.run(
            "sbatch", "--parsable", "-D", "/tmp", "-J", "het", "-o", "/dev/null", "--gres=gpu:2", "--mem=2000", "-w", first, ":",
            "-J", "het", "-o", "/dev/null", "--gres=gpu:1", "--mem=2000", "-w", second, "--wrap", "srun sleep 3600 : sleep 3600",
        ).stdout.strip()  # fmt: skip
        self.wait_until_running(number)
        watch = self.watch("--slurm", *INTERVAL)
        watch.until("both components", lambda seen: nodes_by_srun(seen) == [first, second])
        out = self.doctor(home="doctor-het")
        self.assertNotIn("FAILED", out)
        self.assert_step(out, "step", "ok", rf"runs on gpu\d+ in job {number}\+[01]")

    def test_when_one_of_two_jobs_is_cancelled_the_node_is_reached_by_the_other(self):
        node = self.lab.nodes[0]
        jobs = [self.sbatch("-w", node, "-c2", "--mem=2000", "--gres=gpu:1") for _ in range(2)]
        self.wait_until_running(*jobs)
        watch = self.watch("--slurm", "--discovery-interval", "300")
        watch.until("the node", lambda seen: nodes_by_srun(seen) == [node])
        (step,) = self.steps()
        used_job = step.split(".")[0]
        self.assertIn(used_job, jobs)
        # The job list is outdated by then; the node must be reached in the other job nevertheless.
        self.lab.run("scancel", used_job)
        wait_for("a step in the other job", lambda: [one for one in self.steps() if one.split(".")[0] in jobs and not one.startswith(f"{used_job}.")], 60)
        watch.until("the node again", lambda seen: nodes_by_srun(seen) == [node])

    def test_a_cancelled_step_is_restarted_once(self):
        self.start_job()
        watch = self.watch("--slurm", *INTERVAL)
        watch.until("three nodes", lambda seen: len(nodes_by_srun(seen)) == 3)
        (step,) = self.steps()
        self.lab.run("scancel", step)
        # Between the two steps, no snapshot may have been taken.
        (restarted,) = wait_for("another step", lambda: [one for one in self.steps() if one != step])
        before = len(watch.snapshots)
        watch.until("three nodes again", lambda seen: len(nodes_by_srun(seen)) == 3, after=before)
        self.assertEqual(self.steps(), [restarted])

    def test_a_slow_node_does_not_delay_the_others(self):
        slow = self.lab.nodes[0]
        self.lab("slurm", "task-delay", slow, "20")
        self.addCleanup(self.lab, "slurm", "task-delay", slow, "0")
        self.start_job(3, user="alice")
        watch = self.watch("--slurm", *INTERVAL)
        watch.until("two nodes", lambda seen: len(nodes_by_srun(seen)) == 2, 25)
        watch.until_down(slow, "has not joined")
        self.assertIn("its task has started", watch.latest().node(slow).remedy)
        watch.until("the slow node", lambda seen: len(nodes_by_srun(seen)) == 3, 60)
        self.assertEqual(len(self.steps()), 1)

    def test_nodes_with_and_without_python_share_a_step(self):
        job = self.start_job()
        other = self.allocated(job)[1]
        self.lab("python", other, "none")
        self.addCleanup(self.lab, "python", other, "3")
        watch = self.watch("--slurm", *INTERVAL)
        watch.until("devices of all nodes", lambda seen: len(nodes_by_srun(seen)) == 3 and all(len(node["devices"]) == 4 for node in seen.value["nodes"]))


class PamAdopt(SrunCase):
    """pam_slurm_adopt admits only users with a job on the node; under a wrong node name it finds none."""

    NODES, GPUS = 2, 2

    @classmethod
    def restrict_ssh(cls):
        for node in cls.lab.nodes:
            try:
                cls.lab("slurm", "adopt", node, "nodename=another")
            except Unsupported as refused:
                raise unittest.SkipTest(str(refused)) from refused

    def test_a_refusal_by_pam_slurm_adopt_leads_to_srun(self):
        job = self.start_job(2)
        node = self.allocated(job)[0]
        done = self.lab.run("ssh", node, "true")
        self.assertIn("Access denied by pam_slurm_adopt", done.stderr)
        self.assertEqual(nodes_by_srun(self.lab.snapshot("--slurm", home="adopted")), self.allocated(job))
        self.assertRegex(self.cluster_cache("adopted"), r"^lab \d{10}$")
        # If the settings exclude steps, the remedy suggests them.
        seen = self.lab.snapshot("--slurm", "--ssh-binary", home="adopted").node(node)
        self.assertIn("Access denied by pam_slurm_adopt", seen.fault)
        self.assertIn("--transport srun", seen.remedy)
        # The command that doctor suggests works.
        command = re.search("> if one of your jobs runs there: gtop (.*)", self.lab.run("gtop", "doctor", node, home="adopted").stdout)[1]
        self.assertEqual(nodes_by_srun(self.lab.snapshot(*command.split(), home="adopted")), self.allocated(job))
        self.wait_for_no_step()

    def test_a_node_that_requires_a_job_is_retried_when_one_starts_there(self):
        # Without the job, the next retry would be minutes away.
        self.check_retry_when_a_job_starts("no job on the node")


class AcceptedSsh(SrunCase):
    NODES, GPUS = 2, 2
    KIND = ""

    @classmethod
    def restrict_ssh(cls):
        """SSH stays open on these nodes."""

    def test_doctor_removes_a_cache_entry_that_is_no_longer_true(self):
        self.start_job(1)
        self.write_cluster_cache(f"lab {int(time.time()) - 3 * 24 * 3600}\n", "outdated")
        out = self.doctor(home="outdated")
        self.assertNotIn("FAILED", out)
        self.assert_step(out, "preferred transport", "ok", r"ssh from now on: cluster lab refused it 3 days ago, but gpu\d+ now accepts it")
        self.assert_step(out, "login", "ok", "as alice")
        self.assertEqual(self.cluster_cache("outdated"), "")
        self.assertEqual(nodes_by_srun(self.lab.snapshot("--slurm", home="outdated")), [])

    def test_ssh_is_preferred_unless_srun_is_selected(self):
        self.start_job()
        self.assertEqual(nodes_by_srun(self.lab.snapshot("--slurm")), [])
        self.assertEqual(len(nodes_by_srun(self.lab.snapshot("--slurm", "--transport", "srun"))), 2)
        done = self.lab.gtop("--json", "--transport", "srun", "gpu01")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--slurm", done.stderr)


if __name__ == "__main__":
    unittest.main()
