"""Jobs that use some of what a real Slurm gave them: what `gtop report` says of it, beside reportseff and Slurm's accounting."""

import glob
import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import slurm
from harness import CONNECT_TIMEOUT, TIMEOUT, wait_for
from test_slurm import SlurmCase

# Its jobs would slow down other tests.
ALONE = True

# For so long a job works; what is used of hosts is read every 10 s, and on a busy machine later.
SECONDS = 90
UNREAD = 15
MIB = 1 << 20

# PROCESSES, of which each uses SHARE of a CPU, as far as the machine lets it, and the first one fills MIB of memory. The
# second task of a step uses three times as much.
LOAD = """
import os, sys, time
processes, share, mib = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
share *= 1 + 2 * int(os.environ.get("SLURM_PROCID", 0))
started = time.monotonic()
children = []
for _ in range(processes - 1):
    child = os.fork()
    if not child:
        children, mib = [], 0
        break
    children.append(child)
kept = b"x" * (mib << 20)
while time.monotonic() < started + {seconds}:
    if time.process_time() > share * (time.monotonic() - started):
        time.sleep(0.02)
for child in children:
    os.waitpid(child, 0)
"""

# Writes a file of MIB, and reads it again and again.
READ = """
import os, sys, time
end = time.monotonic() + {seconds}
path, mib = sys.argv[1], int(sys.argv[2])
with open(path, "wb") as file:
    for _ in range(mib):
        file.write(os.urandom(1 << 20))
    os.fsync(file.fileno())
while time.monotonic() < end:
    with open(path, "rb") as file:
        while file.read(1 << 20):
            pass
    time.sleep(1)
"""


class Efficiency(SlurmCase):
    NODES, GPUS = 4, 4

    @classmethod
    def prepare(cls):
        cls.skip_without_groups_and_programs()
        cls.reportseff = f"{os.path.dirname(os.environ['GTOP_REPORTSEFF'])}/reportseff"
        cls.lab("slurm", "up", "strict", "accounting")
        for name, text in {"load": LOAD, "read": READ}.items():
            with open(f"{cls.lab.root}/run/lab/{name}", "w", encoding="utf-8") as file:
                file.write(text.replace("{seconds}", str(SECONDS)))
        # On a disk: in memory, files are more than pages of a cache.
        cls.folder = tempfile.TemporaryDirectory(prefix="gtop-efficiency.", dir="/var/tmp")
        cls.addClassCleanup(cls.folder.cleanup)
        os.chmod(cls.folder.name, 0o777)
        words = ("record", "-w", "/tmp/jobs.gtop", "--connect-timeout", str(CONNECT_TIMEOUT))
        words += ("--slurm", "--partition", "gpu", "--all-nodes", "--discovery-interval", "1")
        recorder = cls.lab.background("gtop", *words)
        pid = wait_for("the recorder runs", lambda: cls.lab.find(*words))
        wait_for("the recording begins", lambda: os.path.exists(f"{cls.lab.root}/tmp/jobs.gtop"))
        cls.jobs = {
            "some CPUs": cls.start("gpu01", "-c4", "--mem=400", command="python3 /run/lab/load 4 0.1 0"),
            "all CPUs": cls.start("gpu02", "-c1", "--mem=400", command="python3 /run/lab/load 8 0.12 0"),
            "memory": cls.start("gpu01", "-c2", "--mem=1024", command="python3 /run/lab/load 1 0.05 600"),
            "two nodes": cls.start("gpu03,gpu04", "-N2", "--ntasks-per-node=1", "-c2", "--mem=400", command="srun python3 /run/lab/load 1 0.1 100"),
            "files": cls.start("gpu04", "-c1", "--mem=1024", command=f"python3 /run/lab/read {cls.folder.name}/data 300"),
        }
        cls.used = {}
        wait_for("all jobs end", cls.follow, SECONDS + 3 * TIMEOUT, 0.5)
        cls.accounted = wait_for("the accounts of all jobs", cls.accounts, TIMEOUT)
        os.kill(pid, signal.SIGINT)
        recorder.process.wait(TIMEOUT)
        done = cls.lab.gtop("report", "/tmp/jobs.gtop", "--format", "jobs")
        assert done.returncode == 0, done.stderr
        cls.reported = {line["job"]: line for line in map(json.loads, done.stdout.splitlines())}
        cls.efficiencies = cls.run_reportseff()
        cls.print_table()

    @staticmethod
    def skip_without_groups_and_programs():
        missing = [f"{hierarchy} of cgroup v1" for hierarchy in slurm.HIERARCHIES if not os.path.isdir(hierarchy)]
        if not os.environ.get("GTOP_CI"):
            missing += [program for program in slurm.PROGRAMS if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin")]
            missing += [] if os.environ.get("GTOP_REPORTSEFF") else ["reportseff (GTOP_REPORTSEFF: a Python that has it)"]
        if missing:
            raise unittest.SkipTest(f"not on this machine: {', '.join(missing)}")

    @classmethod
    def start(cls, nodes, *words, command):
        return cls.sbatch("--gres=gpu:1", "-w", nodes, *words, command=command)

    @classmethod
    def follow(cls):
        """Notes the CPU time that each job has used on its nodes until now; returns True when no job is left."""
        for job in cls.jobs.values():
            files = glob.glob(f"/sys/fs/cgroup/cpuacct/{slurm.GROUP}-{cls.lab.script.lab_pid()}-*/slurm*/uid_*/job_{job}/cpuacct.usage")
            try:
                used = sum(int(cls.lab.script.read(file)) for file in files) / 1e9
            except OSError:
                continue  # it ended meanwhile
            if files:
                cls.used.setdefault(job, []).append((time.monotonic(), used, len(files)))
        return not cls.lab.run("squeue", "-h").stdout

    @classmethod
    def accounts(cls):
        """Returns what Slurm's accounting has of each job; None until all have ended there."""
        done = cls.lab.run("sacct", "-n", "-P", "-X", "-o", "JobID,State,AllocCPUS,ReqMem,ElapsedRaw", "-j", ",".join(cls.jobs.values()))
        rows = {row[0]: row[1:] for row in (line.split("|") for line in done.stdout.splitlines())}
        return rows if len(rows) == len(cls.jobs) and all(row[0] == "COMPLETED" for row in rows.values()) else None

    @classmethod
    def run_reportseff(cls):
        """Returns the CPU and memory efficiency of each job; reportseff runs outside of the lab, the programs of Slurm in it."""
        for name in ("sacct", "scontrol"):
            with open(f"{cls.folder.name}/{name}", "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec {shlex.join(cls.lab.command(name))} "$@"\n')
                os.fchmod(file.fileno(), 0o755)
        environment = {**os.environ, "PATH": f"{cls.folder.name}:{os.environ['PATH']}"}
        words = ["--parsable", "--delimiter", "|", "--format", "JobID,CPUEff,MemEff", *cls.jobs.values()]
        done = subprocess.run([cls.reportseff, *words], env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr
        rows = [line.rstrip("|").split("|") for line in done.stdout.splitlines()[1:]]
        return {job: {"cpu": float(cpu), "memory": float(memory)} for job, cpu, memory in rows}

    @classmethod
    def print_table(cls):
        print(f"{'percent':12} {'CPUs: gtop':>12} {'reportseff':>10} {'memory: gtop':>14} {'reportseff':>10}")
        for name, job in cls.jobs.items():
            cpus, memory = (cls.reported[job][f"{kind}_efficiency_percent"] for kind in ("cpu", "host_memory"))
            print(f"{name:12} {cpus:12} {cls.efficiencies[job]['cpu']:10} {memory:14} {cls.efficiencies[job]['memory']:10}")

    def each_job(self):
        return [(name, self.reported[job], self.efficiencies[job], job) for name, job in self.jobs.items()]

    def cpus_used(self, job):
        """Returns the fewest and the most CPUs that a job used at once, on average over any time that gtop may have seen."""
        most = max(groups for *_, groups in self.used[job])
        times = [(at, used) for at, used, groups in self.used[job] if groups == most]
        begins = [one for one in times if one[0] < times[0][0] + UNREAD]
        ends = [one for one in times if one[0] > times[-1][0] - UNREAD]
        means = [(end[1] - begin[1]) / (end[0] - begin[0]) for begin in begins for end in ends]
        return min(means), max(means)

    def test_what_a_job_was_given_is_what_slurm_accounts(self):
        for _, reported, _, job in self.each_job():
            _, cpus, memory, _ = self.accounted[job]
            self.assertEqual(reported["cpus"], int(cpus))
            self.assertEqual(reported["host_memory_bytes"], int(memory.rstrip("MG")) * (MIB if memory[-1] == "M" else 1024 * MIB))

    def test_cpu_efficiency_is_that_of_reportseff(self):
        for _, reported, efficiency, job in self.each_job():
            low, high = (100 * used / reported["cpus"] for used in self.cpus_used(job))
            # reportseff counts whole seconds of CPU time, and Slurm whole seconds of a job.
            second = 100 / (reported["cpus"] * SECONDS)
            self.assertTrue(low - 1 <= reported["cpu_efficiency_percent"] <= high + 1, (reported, low, high))
            self.assertTrue(low - 1 - second <= efficiency["cpu"] <= high + 1 + second, (efficiency, low, high))

    def test_memory_efficiency_is_that_of_reportseff(self):
        for name, reported, efficiency, _ in self.each_job():
            if name != "files":
                self.assertAlmostEqual(reported["host_memory_efficiency_percent"], efficiency["memory"], delta=1)
        self.assertGreater(self.reported[self.jobs["memory"]]["host_memory_efficiency_percent"], 55)

    def test_files_that_are_read_again_and_again_are_memory_for_gtop_only(self):
        job = self.jobs["files"]
        self.assertGreater(self.reported[job]["host_memory_max_bytes"], 290 * MIB)
        self.assertLess(self.efficiencies[job]["memory"], 5)

    def test_device_hours_are_the_elapsed_time_of_the_devices(self):
        for _, reported, _, job in self.each_job():
            elapsed = int(self.accounted[job][-1])
            self.assertAlmostEqual(reported["held_hours"] * 3600 / reported["devices"], elapsed, delta=0.05 * elapsed)


del SlurmCase

if __name__ == "__main__":
    unittest.main()
