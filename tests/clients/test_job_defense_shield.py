"""What of devices is wasted, by `gtop report` of a recording, and by job_defense_shield of the truth about it.

    GTOP=path/to/gtop GTOP_JOB_DEFENSE_SHIELD=path/to/python python3 -m unittest -v test_job_defense_shield

The second is a Python that has job_defense_shield. It judges the jobs of Slurm's accounting by the summaries of jobstats that
these have in their comment. Here both are made of the truth: nothing of them comes from gtop.
"""

import base64
import collections
import gzip
import json
import os
import subprocess
import sys
import unittest

import rig

PART = 0.02                            # by which hours and efficiencies may differ, of themselves
ROUNDED = 0.05                         # percentage points: below it, the summary has a load of 0
NODES = {"mixed": 16, "turns": 2, "low-load": 1, "half-used": 1, "held-warm": 1, "unlaunched": 1, "starved": 1, "down": 2, "lost": 1, "gap": 2, "shared": 1}
# In a gap, nothing is recorded; of a shared device, each job has a part.
COUNTED_OTHERWISE = ["gap", "shared"]
LOW = ["unlaunched", "held cold", "held warm", "unused", "low load"]


def generate(scenario, seed, nodes):
    """Returns the path of a recording, and the facts about it."""
    folder = rig.folder()
    recording, truth = (os.path.join(folder, name) for name in ["fleet.gtop", "truth.ndjson"])
    words = ["--scenario", scenario, "--seed", str(seed), "--nodes", str(nodes), "--hours", "1", "--out", recording, "--truth", truth]
    subprocess.run([sys.executable, os.path.join(rig.HERE, "generate"), *words], timeout=120, check=True)
    with open(truth) as file:
        return recording, [json.loads(line) for line in file]


def accounted(job, holds):
    """Returns a job as a row of Slurm's accounting."""
    elapsed, cpus = round(job["to"] - job["from"]), job["host"]["cpus"]
    tres = f"billing={cpus},cpu={cpus},gres/gpu={len(holds)},mem={job['host']['memory_bytes'] >> 20}M,node={len(job['nodes'])}"
    times = {"submit": job["from"], "eligible": job["from"], "start": job["from"], "end": job["to"]}
    row = {"jobid": job["job"], "jobidraw": job["job"], "user": job["user"], "cluster": "lab", "account": "ml", "partition": "gpu",
           "cputimeraw": elapsed * cpus, "elapsedraw": elapsed, "timelimitraw": 1440, "nnodes": len(job["nodes"]), "ncpus": cpus,
           "alloctres": tres, **{key: round(at) for key, at in times.items()}, "qos": "normal", "state": "COMPLETED",
           "admincomment": summary(job["host"], holds, elapsed), "jobname": job["name"]}
    return {key: str(value) for key, value in row.items()}


def summary(host, holds, elapsed):
    """Returns the summary of jobstats: the mean of each device over the samples that there are of it, with one digit."""
    nodes = {}
    for hold in holds:
        nodes.setdefault(hold["node"], {})[str(hold["index"])] = round(hold["mean_load_percent"] or 0, 1)
    of_node = {"cpus": host["cpus"], "total_time": host["cpus_used"] * elapsed, "total_memory": host["memory_bytes"],
               "used_memory": host["memory_max_bytes"]}
    found = {}
    for node, loads in nodes.items():
        part = len(loads) / len(holds)
        found[node] = {**{key: value * part for key, value in of_node.items()}, "gpu_utilization": loads}
    text = json.dumps({"nodes": found, "gpus": len(holds), "total_time": elapsed})
    return "JS1:" + base64.b64encode(gzip.compress(text.encode())).decode()


def shield(rows):
    """Returns what job_defense_shield finds in lists of jobs, by the name of the list."""
    command = [os.environ["GTOP_JOB_DEFENSE_SHIELD"], os.path.join(rig.HERE, "job_defense.py")]
    done = subprocess.run(command, input=json.dumps(rows), stdout=subprocess.PIPE, text=True, timeout=120, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def report(recording, kind):
    return subprocess.run([rig.GTOP, "report", recording, "--format", kind], stdout=subprocess.PIPE, timeout=120, check=True).stdout


class Fleet:
    """The jobs of a recording, by the truth and by gtop."""

    def __init__(self, scenario, seed):
        recording, facts = generate(scenario, seed, NODES[scenario])
        self.truth = {fact["job"]: fact for fact in facts if fact["what"] == "job"}
        self.holds = {job: [fact for fact in facts if fact["what"] == "hold" and fact["job"] == job] for job in self.truth}
        self.rows = [accounted(fact, self.holds[job]) for job, fact in self.truth.items()]
        self.jobs = {line["job"]: line for line in map(json.loads, report(recording, "jobs").splitlines())}
        of_report = json.loads(report(recording, "json"))
        self.devices = {job["job"]: job["each_device"] for job in of_report["jobs"]}
        self.low_hours = {finding["job"]: finding["hours"] for finding in of_report["findings"] if finding["kind"] == "low-load"}

    def never_active(self, job):
        """Returns the hours in which each device of a job was seen, of those that never were active."""
        return [device["known_hours"] for device in self.devices[job] if device["active_hours"] == 0]

    def unseen_hours(self, job):
        """Returns the hours in which nobody saw those devices of a job that have no load."""
        return sum(hold["unseen_hours"] for hold in self.holds[job] if hold["mean_load_percent"] < ROUNDED)


@unittest.skipUnless(os.environ.get("GTOP_JOB_DEFENSE_SHIELD") or os.environ.get("GTOP_CI"), "job_defense_shield is not installed")
class Wasted(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleets = {scenario: Fleet(scenario, seed) for seed, scenario in enumerate(NODES, 1)}
        cls.shield = shield({scenario: fleet.rows for scenario, fleet in cls.fleets.items()})

    def each_job(self, *left_out):
        """Yields the scenario, its fleet, what job_defense_shield finds there, and the id of each job."""
        return [(scenario, fleet, self.shield[scenario], job) for scenario, fleet in self.fleets.items()
                if scenario not in left_out for job in fleet.truth]

    def assert_near(self, found, expected, what):
        self.assertLessEqual(abs(found - expected), PART * expected + 1e-9, f"{what}: {found}, expected {expected}")

    def test_the_same_devices_are_never_used(self):
        counts = []
        for scenario, fleet, found, job in self.each_job("held-warm"):
            counts.append(len(fleet.never_active(job)))
            self.assertEqual(counts[-1], found["unused_devices"].get(job, 0), (scenario, job))
        self.assertGreater(max(counts), min(counts))

    def test_hours_of_devices_that_are_never_used(self):
        for scenario, fleet in self.fleets.items():
            if scenario == "held-warm":
                continue
            hours, unused = collections.Counter(), self.shield[scenario]["unused_hours"]
            for job, fact in fleet.truth.items():
                # Of these, gtop knows only what was seen.
                hours[fact["user"]] += sum(fleet.never_active(job)) + fleet.unseen_hours(job)
            for user in hours | unused:
                self.assert_near(hours[user], unused.get(user, 0), (scenario, user))
        self.assertTrue(any(self.shield[scenario]["unused_hours"] for scenario in ["mixed", "half-used"]))

    def test_efficiency_of_jobs_and_users(self):
        for scenario, fleet, found, job in self.each_job():
            self.assert_near(fleet.jobs[job]["efficiency_percent"], 100 * found["used_hours"][job] / found["hours"][job], (scenario, job))
        for scenario, fleet in self.fleets.items():
            used, held = collections.Counter(), collections.Counter()
            for job, fact in fleet.truth.items():
                used[fact["user"]] += fleet.jobs[job]["efficiency_percent"] * fleet.jobs[job]["held_hours"]
                held[fact["user"]] += fleet.jobs[job]["held_hours"]
            for user, percent in self.shield[scenario]["percent_of_user"].items():
                # It is rounded to whole percents.
                self.assertAlmostEqual(used[user] / held[user], percent, delta=PART * percent + 0.5, msg=(scenario, user))

    def test_efficiency_of_cpus_and_memory(self):
        for scenario, fleet, found, job in self.each_job():
            used, given = found["memory"][job]
            self.assert_near(fleet.jobs[job]["cpu_efficiency_percent"], found["cpu_percent"][job], (scenario, job))
            self.assert_near(fleet.jobs[job]["host_memory_efficiency_percent"], 100 * used / given, (scenario, job))

    def test_hours_that_jobs_have_and_that_low_load_wastes(self):
        for scenario, fleet, found, job in self.each_job(*COUNTED_OTHERWISE):
            self.assert_near(fleet.jobs[job]["held_hours"], found["hours"][job], (scenario, job))
            if job in fleet.low_hours:
                self.assert_near(fleet.low_hours[job], found["hours"][job] - found["used_hours"][job], (scenario, job))
        self.assertTrue(self.fleets["low-load"].low_hours)

    def test_the_same_jobs_have_an_efficiency_below_15_percent(self):
        for scenario, fleet, found, job in self.each_job():
            verdict = fleet.jobs[job]["verdict"]
            is_low = found["used_hours"][job] < 0.15 * found["hours"][job]
            if verdict not in ["not judged", "held back"]:
                self.assertEqual(verdict in LOW, is_low, (scenario, job, verdict))

    def test_a_device_with_less_than_5_percent_all_the_time_is_unused_for_gtop_only(self):
        fleet = self.fleets["held-warm"]
        self.assertEqual(self.shield["held-warm"]["unused_hours"], {})
        for job, fact in fleet.truth.items():
            self.assert_near(sum(fleet.never_active(job)), fact["device_hours"], job)

    def test_time_in_which_a_device_that_is_used_does_nothing_is_idle_for_gtop_only(self):
        fleet = self.fleets["turns"]
        self.assertEqual(self.shield["turns"]["unused_hours"], {})
        for job, fact in fleet.truth.items():
            self.assert_near(fleet.jobs[job]["idle_hours"], fact["idle_held_hours"], job)
        self.assertGreater(sum(fleet.jobs[job]["idle_hours"] for job in fleet.truth), 0.1)

    def test_time_that_was_not_recorded_counts_for_job_defense_shield_only(self):
        for job, hours in self.shield["gap"]["hours"].items():
            self.assert_near(self.fleets["gap"].jobs[job]["held_hours"], 0.8 * hours, job)

    def test_a_shared_device_counts_whole_for_each_job_there_and_in_parts_in_gtop(self):
        for job, hours in self.shield["shared"]["hours"].items():
            self.assert_near(self.fleets["shared"].jobs[job]["held_hours"], hours / 2, job)


if __name__ == "__main__":
    unittest.main()
