"""Nodes that let nobody in by ssh are watched by one step of each job, and the step is in nobody's way."""

import os
import re
import signal
import time
import unittest

from harness import Unsupported
from harness import wait_for
from test_slurm import INTERVAL, SlurmCase

# How soon steps are gone after gtop was killed: the controller looks now and then.
GONE = 10


class SrunCase(SlurmCase):
    NODES, GPUS = 4, 4
    KIND = "strict"

    @classmethod
    def prepare(cls):
        cls.lab("slurm", "up", *filter(None, [cls.KIND]))
        cls.close_ssh()

    @classmethod
    def close_ssh(cls):
        for node in cls.lab.nodes:
            cls.lab("sshd", node, "AllowUsers root")

    def setUp(self):
        self.addCleanup(wait_for, "no job left", lambda: not self.lab.run("squeue", "-h").stdout)
        self.addCleanup(self.until_gone)
        self.addCleanup(self.lab.run, "scancel", "-u", "alice")

    @classmethod
    def job(cls, nodes=None, command="sleep 3600", **options):
        number = cls.sbatch(f"-N{nodes or min(3, cls.NODES)}", "--ntasks-per-node=1", "-c2", "--gres=gpu:2", "--mem=2000", command=command, **options)
        cls.running(number)
        return number

    def watch(self, *arguments, **options):
        watch = self.lab.watch(*arguments, **options)
        self.addCleanup(watch.close)
        return watch

    def terminal(self):
        terminal = self.lab.terminal()
        self.addCleanup(terminal.close)
        return terminal

    def is_tried_when_a_job_begins(self, says):
        node = self.lab.nodes[0]
        bobs = self.sbatch("-w", node, "-c2", "--mem=2000", user="bob")
        self.running(bobs)
        self.addCleanup(self.lab.run, "scancel", bobs, user="bob")
        watch = self.watch("--slurm", *INTERVAL, node, home="anew")
        watch.until_down(node, says)
        mine = self.sbatch("-w", node, "-c2", "--mem=2000")
        self.running(mine)
        watch.until("it is watched by a step", lambda seen: by_srun(seen) == [node])

    def steps(self):
        """Returns the steps of gtop's that Slurm knows."""
        lines = self.lab.run("squeue", "-h", "-s", "-o", "%i %j").stdout.splitlines()
        return [line.split()[0] for line in lines if line.endswith(" gtop")]

    def until_gone(self):
        wait_for(lambda: f"no step left: {self.steps()}", lambda: not self.steps(), GONE)

    def remembered(self, home=None):
        """Returns what gtop remembers of clusters, as it stands in its file."""
        return self.lab.run("sh", "-c", "cat ~/.local/state/gtop/srun-clusters", home=home).stdout.strip()

    def remember(self, text, home):
        self.lab.run("sh", "-c", "mkdir -p ~/.local/state/gtop && cat >~/.local/state/gtop/srun-clusters", stdin=text, home=home)

    def doctor(self, *arguments, home=None):
        return self.lab.run("gtop", "--connect-timeout", "4", *arguments, "doctor", "--slurm", home=home, timeout=120).stdout

    def says(self, out, step, mark, words):
        pattern = rf"^  {mark} +{step} .*{words}"
        self.assertTrue(re.search(pattern, out, re.MULTILINE), f"{pattern!r} not in:\n{out}")

    def allocated(self, job):
        return sorted(self.lab.run("scontrol", "show", "hostnames", self.lab.run("squeue", "-h", "-j", job, "-o", "%N").stdout.strip()).stdout.split())


def by_srun(snapshot):
    return sorted(node["name"] for node in snapshot.value["nodes"] if node["link"] == "up" and node["transport"] == "srun")


class Refused(SrunCase):
    def test_one_picture_holds_every_node_of_the_job(self):
        job = self.job()
        seen = self.lab.snapshot("--slurm")
        self.assertEqual(by_srun(seen), self.allocated(job))
        self.assertEqual([len(node["devices"]) for node in seen.value["nodes"]], [4, 4, 4])
        self.until_gone()
        # This cluster is known now, and ssh is not even tried.
        self.assertRegex(self.remembered(), r"^lab \d{10}$")
        self.lab.fault("drop", self.allocated(job)[0])
        self.addCleanup(self.lab.fault, "clear", self.allocated(job)[0])
        self.assertEqual(by_srun(self.lab.snapshot("--slurm")), self.allocated(job))

    def test_what_is_remembered_lapses_after_a_month_and_is_found_out_again(self):
        job = self.job(1)
        lapsed = int(time.time()) - 31 * 24 * 3600
        self.remember(f"other {int(time.time())}\nlab {lapsed}\n", "lapsed")
        watch = self.lab.watch("--slurm", *INTERVAL, home="lapsed")
        self.addCleanup(watch.close)
        watch.until("the node", lambda seen: by_srun(seen) == self.allocated(job))
        wait_for("it is remembered anew", lambda: f"lab {lapsed}" not in self.remembered("lapsed"))
        self.assertRegex(self.remembered("lapsed"), r"^other \d{10}\nlab \d{10}$")

    def test_the_doctor_examines_steps_and_tries_ssh_again(self):
        job = self.job(2)
        out = self.doctor(home="doctor")
        self.assertNotIn("FAILED", out)
        self.says(out, "srun", "ok", r"slurm\S* [0-9.]+: steps can overlap")
        self.says(out, "step", "ok", f"runs on gpu\\d+ in job {job}")
        self.says(out, "preferred transport", "ok", "ssh; a job step if a node refuses ssh")
        # Its nodes are reached as a watch would reach them, and that is remembered.
        self.assertEqual(len(re.findall(rf"^  ok +srun .*connected by a step of job {job}", out, re.MULTILINE)), 2, out)
        self.assertEqual(len(re.findall(r"^  note +built-in SSH .*refused", out, re.MULTILINE)), 2, out)
        old = int(time.time()) - 9 * 24 * 3600
        self.assertRegex(self.remembered("doctor"), r"^lab \d{10}$")
        self.remember(f"lab {old}\n", "doctor")
        out = self.doctor(home="doctor")
        self.says(out, "preferred transport", "ok", "job step: a node of cluster lab refused ssh 9 days ago")
        self.assertRegex(out, r"retried ssh to gpu\d+: authentication refused")
        self.assertNotIn("built-in SSH", out)
        self.assertNotIn(str(old), self.remembered("doctor"))
        out = self.doctor("--transport", "srun", home="other-doctor")
        self.assertNotIn("FAILED", out)
        self.says(out, "preferred transport", "ok", r"job steps only \(--transport srun\)")
        self.assertEqual(self.remembered("other-doctor"), "")
        self.until_gone()

    def test_a_refused_connection_leads_to_srun_too(self):
        job = self.job(2)
        for node in self.allocated(job):
            self.lab.fault("reject", node)
            self.addCleanup(self.lab.fault, "clear", node)
        self.assertEqual(by_srun(self.lab.snapshot("--slurm", home="other")), self.allocated(job))

    def test_the_screen_shows_them_and_q_leaves_no_step(self):
        job = self.job()
        terminal = self.terminal()
        terminal.gtop("--slurm", *INTERVAL)
        for node in self.allocated(job):
            terminal.until(node, rf"{node}.*%")
        wait_for("one step", lambda: len(self.steps()) == 1)
        terminal.type("q")
        terminal.until("the prompt", r"ready> *$")
        self.until_gone()

    def test_steps_of_the_user_start_beside_it(self):
        job = self.job()
        watch = self.watch("--slurm", *INTERVAL)
        watch.until("three nodes", lambda seen: len(by_srun(seen)) == 3)
        for options in (
            [], ["--gres=gpu:2"], ["--gpus-per-task=1"], ["--exclusive"], ["--exact", "-c2"], ["--mem=2000"], ["-N1", "-n1", "--gres=gpu:1"]
        ):  # fmt: skip
            done = self.lab.run("srun", f"--jobid={job}", "--immediate=5", *options, "sh", "-c", "echo $SLURM_STEP_GPUS", timeout=20)
            self.assertEqual(done.returncode, 0, (options, done.stderr))
            self.assertRegex(done.stdout, r"^\d")
        self.assertEqual(len(by_srun(watch.latest())), 3)
        self.assertEqual(len(self.steps()), 1)

    def test_it_starts_beside_a_step_that_has_everything(self):
        job = self.job(command="srun --exclusive --gres=gpu:2 --mem=2000 sleep 3600")
        self.assertEqual(by_srun(self.lab.snapshot("--slurm")), self.allocated(job))
        self.until_gone()

    def test_the_probe_may_open_the_devices_of_the_job_and_no_others(self):
        job = self.job(1)
        script = "for i in 0 1 2 3; do (exec 9</run/lab/slurm/dev/nvidia$i) 2>&1; done"
        options = ["--overlap", "--mem=0"]
        done = self.lab.run("srun", f"--jobid={job}", *options, "/bin/sh", "-c", script)
        self.assertEqual(done.stdout.count("not permitted") + done.stderr.count("not permitted"), 2, done)
        done = self.lab.run("srun", f"--jobid={job}", *options, "--gres=none", "/bin/sh", "-c", script)
        self.assertEqual(done.stdout.count("not permitted") + done.stderr.count("not permitted"), 4, done)

    def test_killing_gtop_leaves_no_step(self):
        self.job()
        for name in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(name):
                watch = self.watch("--slurm", *INTERVAL)
                watch.until("three nodes", lambda seen: len(by_srun(seen)) == 3)
                os.kill(watch.pid, name)
                watch.process.wait(10)
                self.until_gone()
                for node in self.lab.nodes:
                    wait_for(f"nothing of the probe on {node}", lambda: not [a for a in self.lab.leftovers(node).values() if "SLURMD" in a or "gtop" in a])

    def test_a_job_that_is_cancelled_says_so_and_the_next_one_is_watched(self):
        first = self.job(2)
        watch = self.watch("--slurm", "--discovery-interval", "20")
        watch.until("two nodes", lambda seen: len(by_srun(seen)) == 2)
        nodes = self.allocated(first)
        self.lab.run("scancel", first)
        watch.until_down(nodes[0], "the job was cancelled")
        second = self.job(2)
        watch.until("the next job", lambda seen: by_srun(seen) == self.allocated(second), 60)

    def test_a_node_that_refused_is_tried_again_when_a_job_of_mine_begins_there(self):
        self.is_tried_when_a_job_begins("refused")

    def test_a_heterogeneous_job_is_watched_in_all_its_parts(self):
        first, second = self.lab.nodes[:2]
        number = self.lab.run(
            "sbatch", "--parsable", "-D", "/tmp", "-J", "het", "-o", "/dev/null", "--gres=gpu:2", "--mem=2000", "-w", first, ":",
            "-J", "het", "-o", "/dev/null", "--gres=gpu:1", "--mem=2000", "-w", second, "--wrap", "srun sleep 3600 : sleep 3600",
        ).stdout.strip()  # fmt: skip
        self.running(number)
        watch = self.watch("--slurm", *INTERVAL)
        watch.until("both parts", lambda seen: by_srun(seen) == [first, second])
        out = self.doctor(home="doctor-het")
        self.assertNotIn("FAILED", out)
        self.says(out, "step", "ok", rf"runs on gpu\d+ in job {number}\+[01]")

    def test_a_cancelled_job_of_two_on_a_node_leaves_the_node_to_the_other(self):
        node = self.lab.nodes[0]
        both = [self.sbatch("-w", node, "-c2", "--mem=2000", "--gres=gpu:1") for _ in range(2)]
        self.running(*both)
        watch = self.watch("--slurm", "--discovery-interval", "300")
        watch.until("the node", lambda seen: by_srun(seen) == [node])
        (step,) = self.steps()
        used = step.split(".")[0]
        self.assertIn(used, both)
        # The list of jobs is old by then: the node is tried in the other job all the same.
        self.lab.run("scancel", used)
        wait_for("a step in the other one", lambda: [one for one in self.steps() if one.split(".")[0] in both and not one.startswith(f"{used}.")], 60)
        watch.until("the node again", lambda seen: by_srun(seen) == [node])

    def test_a_cancelled_step_is_begun_anew_and_never_twice(self):
        self.job()
        watch = self.watch("--slurm", *INTERVAL)
        watch.until("three nodes", lambda seen: len(by_srun(seen)) == 3)
        (step,) = self.steps()
        self.lab.run("scancel", step)
        watch.until("they are lost", lambda seen: len(by_srun(seen)) == 0)
        watch.until("three nodes again", lambda seen: len(by_srun(seen)) == 3)
        self.assertEqual(len(self.steps()), 1)
        self.assertNotEqual(self.steps(), [step])

    def test_a_node_that_comes_late_holds_nobody_up(self):
        late = self.lab.nodes[0]
        self.lab("slurm", "late", late, "20")
        self.addCleanup(self.lab, "slurm", "late", late, "0")
        self.job(3, user="alice")
        watch = self.watch("--slurm", *INTERVAL)
        watch.until("two nodes", lambda seen: len(by_srun(seen)) == 2, 25)
        watch.until_down(late, "has not joined")
        self.assertIn("its task has started", watch.latest().node(late).remedy)
        watch.until("the late one", lambda seen: len(by_srun(seen)) == 3, 60)
        self.assertEqual(len(self.steps()), 1)

    def test_nodes_with_and_without_python_share_a_step(self):
        job = self.job()
        other = self.allocated(job)[1]
        self.lab("python", other, "none")
        self.addCleanup(self.lab, "python", other, "3")
        watch = self.watch("--slurm", *INTERVAL)
        watch.until("all with values", lambda seen: len(by_srun(seen)) == 3 and all(len(node["devices"]) == 4 for node in seen.value["nodes"]))


class Adopted(SrunCase):
    """The nodes say that only who has a job there may come in, and do not see that we have one."""

    NODES, GPUS = 2, 2

    @classmethod
    def close_ssh(cls):
        for node in cls.lab.nodes:
            try:
                cls.lab("slurm", "adopt", node, "nodename=another")
            except Unsupported as refused:
                raise unittest.SkipTest(str(refused)) from refused

    def test_a_refusal_by_pam_slurm_adopt_leads_to_srun(self):
        job = self.job(2)
        node = self.allocated(job)[0]
        done = self.lab.run("ssh", node, "true")
        self.assertIn("Access denied by pam_slurm_adopt", done.stderr)
        self.assertEqual(by_srun(self.lab.snapshot("--slurm", home="adopted")), self.allocated(job))
        self.assertRegex(self.remembered("adopted"), r"^lab \d{10}$")
        # Where steps are ruled out they are offered.
        seen = self.lab.snapshot("--slurm", "--ssh-binary", home="adopted").node(node)
        self.assertIn("Access denied by pam_slurm_adopt", seen.fault)
        self.assertIn("--transport srun", seen.remedy)
        # What the doctor says to do leads there.
        command = re.search("> if one of yours runs there: gtop (.*)", self.lab.run("gtop", "doctor", node, home="adopted").stdout)[1]
        self.assertEqual(by_srun(self.lab.snapshot(*command.split(), home="adopted")), self.allocated(job))
        self.until_gone()

    def test_a_node_that_asks_for_a_job_is_tried_again_when_one_begins_there(self):
        # It would be left alone for minutes.
        self.is_tried_when_a_job_begins("no job on the node")


class Open(SrunCase):
    NODES, GPUS = 2, 2
    KIND = ""

    @classmethod
    def close_ssh(cls):
        """It stays open."""

    def test_what_is_not_true_any_more_is_forgotten_by_the_doctor(self):
        self.job(1)
        self.remember(f"lab {int(time.time()) - 3 * 24 * 3600}\n", "forgets")
        out = self.doctor(home="forgets")
        self.assertNotIn("FAILED", out)
        self.says(out, "preferred transport", "ok", r"ssh from now on: cluster lab refused it 3 days ago, but gpu\d+ accepts it now")
        self.says(out, "login", "ok", "as alice")
        self.assertEqual(self.remembered("forgets"), "")
        self.assertEqual(by_srun(self.lab.snapshot("--slurm", home="forgets")), [])

    def test_where_ssh_is_open_it_is_used_unless_srun_is_wanted(self):
        self.job()
        self.assertEqual(by_srun(self.lab.snapshot("--slurm")), [])
        self.assertEqual(len(by_srun(self.lab.snapshot("--slurm", "--transport", "srun"))), 2)
        done = self.lab.gtop("--json", "--transport", "srun", "gpu01")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--slurm", done.stderr)


if __name__ == "__main__":
    unittest.main()
