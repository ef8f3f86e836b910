"""`gtop doctor --slurm` names the cause if jobs cannot be monitored."""

import json
import os
import re
import unittest

from harness import TIMEOUT, Unsupported, wait_for
from test_slurm import SlurmCase


class Doctor(SlurmCase):
    """One lab; each fault is reverted."""

    NODES, GPUS = 3, 2

    @classmethod
    def prepare(cls):
        super().prepare()
        cls.job = cls.sbatch("-J", "mine", "--gres=gpu:1", "-w", "gpu01")
        cls.bobs = cls.sbatch("-J", "his", "-w", "gpu02", user="bob")
        cls.wait_until_running(cls.job, cls.bobs)

    def doctor(self, *arguments, user="alice"):
        return self.lab.run("gtop", "--connect-timeout", "4", *arguments, "doctor", "--slurm", user=user, timeout=120).stdout

    def assert_step(self, out, step, mark, words):
        pattern = rf"^  {mark} +{step} .*{words}"
        self.assertTrue(re.search(pattern, out, re.MULTILINE), f"{pattern!r} not in:\n{out}")

    def assert_only_failure(self, out, step):
        """Asserts that only this step failed."""
        failed = re.findall(r"^  FAILED +([a-z]+( [a-z]+)*)  ", out, re.MULTILINE)
        self.assertEqual([name for name, _ in failed], [step], out)

    def inject(self, what, verb, back):
        self.lab("slurm", what, verb)
        self.addCleanup(self.wait_for_slurm)
        self.addCleanup(self.lab, "slurm", what, back)

    def wait_for_slurm(self):
        wait_for("Slurm answers", lambda: self.lab.run("timeout", "5", "squeue", "-h").returncode == 0, 2 * TIMEOUT)

    def test_no_faults(self):
        out = self.doctor()
        self.assertNotIn("FAILED", out)
        for step, words in {
            "configuration": "/etc/slurm/slurm.conf",
            "munge": "authentication works",
            "controller": r"Slurmctld\(primary\) at login is UP",
            "jobs": "1 running, 0 pending, of alice",
            "job visibility": "the jobs of all users",
            "nodes": "1 used by your jobs, no problems",
            "srun": r"slurm\S* [0-9.]+: steps can overlap",
            "step": f"runs on gpu01 in job {self.job}",
            "preferred transport": "ssh; a job step if a node refuses ssh",
        }.items():
            self.assert_step(out, step, "ok", words)
        self.assertRegex(out, r"(?m)^gpu01$")
        self.assert_step(out, "login", "ok", "as alice")

    def test_a_dead_controller(self):
        self.inject("controller", "stop", "start")
        out = self.doctor()
        self.assert_only_failure(out, "controller")
        self.assert_step(out, "controller", "FAILED", "down: nothing listens at its address")

    def test_a_frozen_controller(self):
        self.inject("controller", "freeze", "thaw")
        out = self.doctor()
        self.assert_only_failure(out, "controller")
        self.assert_step(out, "controller", "FAILED", "hangs: accepts connections, but does not answer")

    def test_dead_munge(self):
        self.inject("munge", "stop", "start")
        out = self.doctor()
        self.assert_only_failure(out, "munge")
        self.assertIn("systemctl restart munge", out)

    def test_frozen_munge(self):
        self.inject("munge", "freeze", "thaw")
        self.assert_only_failure(self.doctor(), "munge")

    def test_no_configuration(self):
        self.inject("config", "hide", "show")
        out = self.doctor()
        self.assert_only_failure(out, "configuration")
        self.assert_step(out, "configuration", "FAILED", "slurm.conf is missing")

    def test_no_job(self):
        out = self.doctor("--partition", "debug")
        self.assertNotIn("FAILED", out)
        self.assert_step(out, "jobs", "note", "no running job of alice in debug")
        self.assertIn("submit one with sbatch or salloc", out)

    def test_ssh_refused_without_a_job(self):
        try:
            self.lab("slurm", "adopt", "gpu02")
        except Unsupported as refused:
            self.skipTest(str(refused))
        for options in ((), ("--transport", "ssh")):
            with self.subTest(options):
                out = self.doctor("--job", self.bobs, *options)
                self.assert_step(out, "login" if not options else "ssh program", "FAILED", "admits only users with a running job on it .*pam_slurm_adopt")
        # The printed remedy works.
        command = re.search("> submit a job to this node: (salloc .*)", out)[1]
        done = self.lab.run("sh", "-c", command, stdin="gtop --json gpu02", user="alice")
        self.assertEqual(json.loads(done.stdout)["nodes"][0]["link"], "up", done.stdout + done.stderr)
        seen = self.lab.snapshot("--job", self.bobs, "--deadline", "60").node("gpu02")
        self.assertRegex(seen.fault, r"no job on the node: Access denied by pam_slurm_adopt")

    def test_a_login_that_is_adopted_into_a_job(self):
        if not os.path.isdir("/sys/fs/cgroup/freezer"):
            self.skipTest("no cgroups of version 1 on this machine")
        try:
            self.lab("slurm", "adopt", "gpu01")
        except Unsupported as refused:
            self.skipTest(str(refused))
        for python in ("3", "none"):
            with self.subTest(python):
                self.lab("python", "gpu01", python)
                out = self.doctor()
                self.assert_step(out, "job", "note", f"the probe runs inside job {self.job}; pam_slurm_adopt does this")
        self.lab("python", "gpu01", "3")

    def test_a_step_that_is_refused(self):
        out = self.doctor("--job", self.bobs)
        self.assert_step(out, "step", "note", rf"no step in job {self.bobs}: .*Access/permission denied")

    def test_a_drained_node(self):
        self.lab.run("scontrol", "update", "NodeName=gpu01,gpu03", "State=DRAIN", "Reason=ECC errors, bad|PSU", user="root")
        self.addCleanup(self.lab.run, "scontrol", "update", "NodeName=gpu01,gpu03", "State=RESUME", user="root")
        out = self.doctor()
        self.assert_step(out, "nodes", "note", r"gpu01 drain\w*: ECC errors, bad\|PSU")
        waiting = self.sbatch("-J", "waits", "-w", "gpu03")
        self.addCleanup(self.lab.run, "scancel", waiting)
        reason = ("squeue", "-h", "-j", waiting, "-o", "%r")
        wait_for("it waits for its node", lambda: re.search("DOWN|DRAIN|NotAvail", self.lab.run(*reason).stdout))
        out = self.doctor()
        self.assert_step(out, "nodes", "FAILED", r"gpu\[01,03\]|gpu01")
        self.assertIn("gpu03", out)

    def resume(self, out):
        """Runs the printed remedy; afterwards no step fails. The pending job is cancelled first."""
        self.lab.run("scancel", "--name=waits")
        command = re.search("> .* until an administrator runs: (scontrol .*)", out)[1]
        done = self.lab.run("sh", "-c", command, user="root")
        self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}; {out}")
        wait_for("the nodes are back", lambda: "FAILED" not in self.doctor(), 2 * TIMEOUT)

    def test_a_node_that_is_down(self):
        self.lab.run("scontrol", "update", "NodeName=gpu03", "State=DOWN", "Reason=no power", user="root")
        self.addCleanup(self.lab.run, "scontrol", "update", "NodeName=gpu03", "State=RESUME", user="root")
        waiting = self.sbatch("-J", "waits", "-w", "gpu03")
        self.addCleanup(self.lab.run, "scancel", waiting)
        reason = ("squeue", "-h", "-j", waiting, "-o", "%r")
        wait_for("it waits for its node", lambda: re.search("DOWN|DRAIN|NotAvail", self.lab.run(*reason).stdout))
        out = self.doctor()
        self.assert_step(out, "nodes", "FAILED", r"gpu03 down\S*: no power")
        self.resume(out)


if __name__ == "__main__":
    unittest.main()
