"""`gtop report --slurm --job ID --for TIME`: a job of a real Slurm, watched for a while and reported."""

import json
import os
import unittest

from harness import CONNECT_TIMEOUT
from test_slurm import SlurmCase

SECONDS = 12


class Report(SlurmCase):
    """A job of two nodes, beside a job of somebody else on one of them and a node without a job."""

    NODES, GPUS = 3, 4
    # The numbers of the device files of gpu02, by which Slurm counts, in the driver's order.
    MINORS = [2, 0, 3, 1]

    @classmethod
    def prepare(cls):
        super().prepare()
        lines = cls.lab.gpu_file("gpu02").splitlines()
        lines = lines[: 1 + cls.GPUS] + [f"gpu {gpu} minor={minor}" for gpu, minor in enumerate(cls.MINORS)]
        cls.lab.set_gpus("gpu02", "\n".join(lines) + "\n")
        cls.job = cls.sbatch("-J", "train", "-N2", "--gres=gpu:2", "--ntasks-per-node=1", "-w", "gpu[01-02]")
        cls.wait_until_running(cls.job)
        cls.bobs = cls.sbatch("-J", "other", "--gres=gpu:1", "-w", "gpu02", user="bob")
        cls.wait_until_running(cls.bobs)

    def report(self, *words, **options):
        words = ("report", "--connect-timeout", str(CONNECT_TIMEOUT), *words)
        return self.lab.gtop(*words, timeout=120, **options)

    def report_of(self, *words):
        done = self.report("--slurm", "--for", f"{SECONDS}s", "--format", "json", *words)
        self.assertTrue(done.stdout, done.stderr)
        return json.loads(done.stdout)

    def hours_watched(self, report, job):
        """Returns the device-hours of a job, and checks that they are the sum of its states."""
        (found,) = [one for one in report["jobs"] if one["job"] == job]
        self.assertAlmostEqual(found["watched_hours"], sum(found["device_hours"].values()), places=5)
        return found["watched_hours"]

    def test_the_devices_of_a_job_are_watched_and_reported(self):
        report = self.report_of("--job", self.job)
        self.assertEqual([node["node"] for node in report["nodes"]], ["gpu01", "gpu02"])
        # Who shares a node with the job is not part of its report.
        (train,) = report["jobs"]
        expected = (self.job, "train", "alice", 4, ["gpu01", "gpu02"])
        self.assertEqual(tuple(train[name] for name in ("job", "name", "user", "devices", "nodes")), expected)
        # It is the devices that Slurm gave the job, whatever their order in the driver's list.
        held = [("gpu01", place) for place in self.allocated_by_slurm(self.job)["gpu01"]]
        held += [("gpu02", self.MINORS.index(minor)) for minor in self.allocated_by_slurm(self.job)["gpu02"]]
        watts = {(one["node"], one["index"]): one["power_watts"]["mean"] for one in report["devices"]}
        self.assertEqual(sorted(watts), sorted(held))
        self.assertEqual(len(set(watts.values())), len(held))
        # The nodes are watched for times that differ by the interval of a sample.
        hours = {(one["node"], one["index"]): one["watched_hours"] for one in report["devices"]}
        mean = sum(watts[key] * hours[key] for key in watts) / sum(hours.values())
        self.assertAlmostEqual(train["power_watts"]["mean"], mean, delta=0.01)
        # Four devices, from the first sample of each node to its last.
        hours = self.hours_watched(report, self.job)
        self.assertGreater(hours, 0)
        self.assertLessEqual(hours * 3600, 4 * (report["to"] - report["from"]) + 0.1)
        self.assertEqual(report["totals"]["devices"], 4)
        self.assertAlmostEqual(report["totals"]["watched_hours"], hours, places=5)

    def test_a_job_that_ends_meanwhile_keeps_its_hours(self):
        short = self.sbatch("-J", "short", "--gres=gpu:2", "-w", "gpu03", command="srun sleep 10")
        self.wait_until_running(short)
        report = self.report_of("--job", short, "--discovery-interval", "1")
        self.assertEqual([node["node"] for node in report["nodes"]], ["gpu03"])
        (job,) = report["jobs"]
        self.assertEqual((job["job"], job["devices"]), (short, 2))
        self.assertGreater(self.hours_watched(report, short), 0)

    def test_what_was_watched_is_reported_if_another_job_is_pending(self):
        waiting = self.sbatch("-J", "later", "--begin=now+3600", "--gres=gpu:1")
        done = self.report("--slurm", "--job", f"{self.job},{waiting}", "--for", "6s", "--format", "json")
        self.assertEqual([job["job"] for job in json.loads(done.stdout)["jobs"]], [self.job], done.stderr)
        self.assertIn(f"job {waiting} is pending; it has had no devices", json.loads(done.stdout)["source"]["notes"])
        uid = self.lab.run("id", "-u", "alice").stdout.strip()
        report = self.report_of("--user", uid)
        self.assertIn(self.job, [job["job"] for job in report["jobs"]])

    def test_a_job_that_is_not_there_is_named(self):
        done = self.report("--slurm", "--job", "999999", "--for", "1h", "-w", "/tmp/nothing.json")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("job 999999 never existed", done.stderr)
        self.assertFalse(os.path.exists(self.lab.root + "/tmp/nothing.json"))


del SlurmCase

if __name__ == "__main__":
    unittest.main()
