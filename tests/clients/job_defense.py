"""Prints what job_defense_shield finds in several lists of jobs, whose rows, as sacct prints them, come as JSON on standard input.

It is run by a Python that has job_defense_shield, and uses its classes as its own program does.
"""

import json
import sys
import tempfile

import pandas
from job_defense_shield.alert.compute_efficiency import LowEfficiencyGPU
from job_defense_shield.alert.zero_util_gpu_hours import ZeroUtilGPUHours
from job_defense_shield.cleaner import SacctCleaner
from job_defense_shield.efficiency import cpu_efficiency, cpu_memory_usage, get_stats_dict, gpu_efficiency
from job_defense_shield.utils import add_new_and_derived_fields

RENAMED = {"cputimeraw": "cpu-seconds", "nnodes": "nodes", "ncpus": "cores", "timelimitraw": "limit-minutes"}


def main():
    with tempfile.TemporaryDirectory() as folder:
        found = {name: findings(pandas.DataFrame(rows), folder) for name, rows in json.load(sys.stdin).items()}
    # numpy's numbers are not those of JSON.
    print(json.dumps(found, default=float))


def findings(rows, folder):
    jobs = add_new_and_derived_fields(SacctCleaner(rows, RENAMED, {}).clean())
    jobs["admincomment"] = jobs["admincomment"].apply(get_stats_dict)
    settings = {"days_between_emails": 7, "vpath": folder, "cluster": "lab", "partitions": ["*"], "verbose": True}
    zero = ZeroUtilGPUHours(jobs, violation="zero", gpu_hours_threshold_admin=0, gpu_hours_threshold_user=0, **settings)
    low = LowEfficiencyGPU(jobs, violation="low", eff_thres_pct=100, absolute_thres_hours=0, show_all_users=True, **settings)
    each_job = list(zip(jobs["jobid"], jobs["admincomment"], jobs["elapsedraw"]))
    used = {job: gpu_efficiency(summary, elapsed, job, "lab") for job, summary, elapsed in each_job}
    return {
        "unused_devices": dict(zip(zero.df["JobID"], zero.df["GPUs-Unused"])),
        "unused_hours": dict(zip(zero.gp["User"], zero.gp["GPU-Hours-At-0%"])),
        "hours": dict(zip(jobs["jobid"], jobs["gpu-hours"])),
        "used_hours": {job: seconds / 3600 for job, (seconds, _, error) in used.items() if not error},
        "cpu_percent": {job: cpu_efficiency(summary, elapsed, job, "lab", single=True)[0] for job, summary, elapsed in each_job},
        "memory": {job: cpu_memory_usage(summary, job, "lab", precision=3)[:2] for job, summary, _ in each_job},
        "percent_of_user": dict(zip(low.admin["user"], low.admin["eff(%)"])),
    }


if __name__ == "__main__":
    main()
