"""`gtop pick` over nodes of a real Slurm: devices that a job of somebody else holds are not free, however idle."""

import json
import re
import unittest

from harness import CONNECT_TIMEOUT, TIMEOUT, wait_for
from test_slurm import SlurmCase, devices_used

GTOP = "/run/lab/bin/gtop"


def allocate(lab, *words, user="alice"):
    """Starts a job without a process, and returns its id."""
    done = lab.run("salloc", "--no-shell", *words, user=user)
    return re.search(r"Granted job allocation (\d+)", done.stderr).group(1)


class Pick(SlurmCase):
    NODES, GPUS = 3, 4
    ALL = "gpu[01-03]"
    # The numbers of the device files of gpu01 in the driver's order; gres.conf lists the files by number.
    MINORS = [2, 0, 3, 1]

    @classmethod
    def prepare(cls):
        super().prepare()
        lines = cls.lab.gpu_file("gpu01").splitlines()
        lines = lines[: 1 + cls.GPUS] + [f"gpu {gpu} minor={minor}" for gpu, minor in enumerate(cls.MINORS)]
        cls.lab.set_gpus("gpu01", "\n".join(lines) + "\n")
        cls.bobs = allocate(cls.lab, "--gres=gpu:2", "-w", "gpu01", user="bob")
        cls.own = allocate(cls.lab, "--gres=gpu:1", "-w", "gpu02")

    def pick(self, *words, **options):
        return self.lab.gtop("pick", "--connect-timeout", str(CONNECT_TIMEOUT), "--deadline", "30", *words, **options)

    def picked(self, *words):
        """Returns {node: indices} and the whole answer."""
        done = self.pick("--json", *words)
        self.assertTrue(done.stdout, done.stderr)
        answer = json.loads(done.stdout)
        return {node["name"].rpartition("@")[2]: sorted(node["indices"]) for node in answer["nodes"]}, answer

    def held_by_bob(self):
        """Returns the driver's indices of bob's devices on gpu01."""
        (minors,) = self.allocated_by_slurm(self.bobs).values()
        return sorted(self.MINORS.index(minor) for minor in minors)

    def test_all_devices_but_those_of_others_are_picked(self):
        held = self.held_by_bob()
        self.assertEqual(len(held), 2)
        self.assertEqual(devices_used(self.lab.snapshot(self.ALL), self.bobs), {}, "the job is idle")
        found, answer = self.picked(self.ALL)
        free = [index for index in range(4) if index not in held]
        self.assertEqual(found, {"gpu01": free, "gpu02": [0, 1, 2, 3], "gpu03": [0, 1, 2, 3]}, answer["refused"])
        refused = [(one["node"].rpartition("@")[2], one["index"], one["reason"]) for one in answer["refused"]]
        self.assertEqual(refused, [("gpu01", index, f"job {self.bobs} of bob holds it") for index in held])

    def test_lines_name_the_nodes(self):
        done = self.pick("-n", "6", "--nodes", "3", self.ALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = dict(line.split(":") for line in done.stdout.splitlines())
        self.assertEqual(sorted(lines), ["gpu01", "gpu02", "gpu03"])
        self.assertTrue(all(len(indices.split(",")) == 2 for indices in lines.values()), done.stdout)
        self.assertFalse(set(map(str, self.held_by_bob())) & set(lines["gpu01"].split(",")), done.stdout)
        self.assertNotIn("CUDA_VISIBLE_DEVICES", done.stderr)
        done = self.pick("-n", "3", "--same-node", "--newline", self.ALL)
        self.assertRegex(done.stdout, r"\A(gpu0[23]):\d\n\1:\d\n\1:\d\n\Z")
        done = self.pick("-n", "9", "--nodes", "3", self.ALL)
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (4, 3), done.stderr)
        self.assertIn("6 devices found, 9 wanted", done.stderr)

    def test_one_host_has_a_plain_list_and_commands_run_here_only(self):
        done = self.pick("-n", "1", "gpu01")
        self.assertRegex(done.stdout, r"\A\d\n\Z")
        self.assertIn(f'CUDA_VISIBLE_DEVICES="{done.stdout.strip()}"', done.stderr)
        done = self.pick("-n", "1", "gpu01", "--", "echo", "ran")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("echo does not run: the picked devices are on gpu01", done.stderr)

    def test_a_node_of_another_name_has_the_same_jobs(self):
        # A name of ~/.ssh/config, which Slurm does not know, and names of a domain.
        home = self.lab.root + "/home/alice"
        with open(f"{home}/.ssh/config", "a", encoding="utf-8") as file:
            file.write("Host fast.example\n  HostName gpu01\n")
        found, answer = self.picked("fast.example", "gpu03")
        held = self.held_by_bob()
        free = [index for index in range(4) if index not in held]
        self.assertEqual(found, {"fast.example": free, "gpu03": [0, 1, 2, 3]}, answer["refused"])

    def test_nodes_of_own_jobs_are_picked_from_with_slurm(self):
        found, _ = self.picked("--slurm")
        self.assertEqual(found, {"gpu02": [0, 1, 2, 3]})

    def test_inside_a_job_its_own_devices_are_picked(self):
        (minors,) = self.allocated_by_slurm(self.own).values()
        done = self.lab.run("srun", "--overlap", "--jobid", self.own, GTOP, "pick", "--json", "--deadline", "30")
        self.assertTrue(done.stdout, done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual([node["indices"] for node in answer["nodes"]], [minors], answer)
        reasons = {one["reason"] for one in answer["refused"]}
        self.assertEqual(reasons, {f"outside job {self.own}, in which gtop runs"})

    def test_a_job_that_control_groups_do_not_tell_is_that_of_the_environment(self):
        (minors,) = self.allocated_by_slurm(self.own).values()
        job = f"SLURM_JOB_ID={self.own}"
        done = self.lab.run("ssh", "gpu02", "env", job, GTOP, "pick", "--json", "--deadline", "30")
        self.assertTrue(done.stdout, done.stderr)
        self.assertEqual([node["indices"] for node in json.loads(done.stdout)["nodes"]], [minors], done.stdout)

    def test_without_the_commands_of_slurm_nothing_is_picked_from_its_nodes(self):
        for node in ("gpu01", "gpu03"):
            done = self.lab.run("ssh", node, "env", "PATH=/nowhere", GTOP, "pick", "--json", "--deadline", "30")
            self.assertTrue(done.stdout, done.stderr)
            answer = json.loads(done.stdout)
            self.assertEqual(answer["nodes"], [], node)
            self.assertIn("Slurm does not say who has it: its commands are not on this machine", answer["refused"][0]["reason"])

    def test_bob_may_pick_what_alice_may_not(self):
        done = self.lab.run("srun", "--overlap", "--jobid", self.bobs, GTOP, "pick", "--json", "--deadline", "30", user="bob")
        self.assertTrue(done.stdout, done.stderr)
        self.assertEqual([sorted(node["indices"]) for node in json.loads(done.stdout)["nodes"]], [self.held_by_bob()])


class Trouble(SlurmCase):
    """A node that freezes, a controller that is down, and a job that ends."""

    NODES, GPUS = 2, 2

    def test_trouble_is_told_and_the_rest_is_picked(self):
        words = ("pick", "--connect-timeout", str(CONNECT_TIMEOUT), "--deadline", "20", "gpu[01-02]")
        job = allocate(self.lab, "--gres=gpu:2", "-w", "gpu01", user="bob")
        done = self.lab.gtop(*words, "-n", "3")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stdout, r"\Agpu02:(0,1|1,0)\n\Z")
        self.lab("slurm", "controller", "stop")
        done = self.lab.gtop(*words, "-n", "3", timeout=120)
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        self.assertRegex(done.stderr, r"gtop: gpu\[01-02\]: Slurm does not say who has it: ")
        self.lab("slurm", "controller", "start")
        wait_for("Slurm answers", lambda: self.lab.run("squeue", "-h").returncode == 0)
        self.lab.fault("silent", "gpu02")
        done = self.lab.gtop(*words, timeout=120)
        self.assertEqual(done.stdout, "", done.stderr)
        self.assertRegex(done.stderr, r"gtop: gpu02: (down: |no answer)")
        self.lab.run("scancel", job, user="bob")
        wait_for("the job has ended", lambda: not self.lab.run("squeue", "-h", "-j", job, "-t", "R,CG").stdout, TIMEOUT)
        done = self.lab.gtop(*words, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\Agpu01:(0,1|1,0)\n\Z")


del SlurmCase

if __name__ == "__main__":
    unittest.main()
