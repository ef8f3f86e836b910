"""Jobs of a real Slurm: their devices, jobs that start and end, and a controller that is down for a while."""

import json
import os
import re
import shutil
import unittest

from harness import TIMEOUT, LabCase, Snapshot, wait_for

# Seconds between job lists: short for the tests, but longer than a query takes.
INTERVAL = ("--discovery-interval", "1")


@unittest.skipUnless(shutil.which("slurmctld", path=os.environ["PATH"] + ":/usr/sbin") or os.environ.get("GTOP_CI"), "no Slurm on this machine")
class SlurmCase(LabCase):
    NODES, GPUS = 6, 8

    @classmethod
    def prepare(cls):
        cls.lab("slurm", "up")

    @classmethod
    def sbatch(cls, *arguments, user="alice", command="srun sleep 3600"):
        done = cls.lab.run("sbatch", "--parsable", "-D", "/tmp", "-o", "/dev/null", *arguments, "--wrap", command, user=user)
        assert done.returncode == 0, done.stderr
        return done.stdout.split(";")[0].strip()

    @classmethod
    def wait_until_running(cls, *jobs):
        """Waits until all of these run; for an array, its first task."""
        for job in jobs:
            wait_for(f"job {job} runs", lambda: "RUNNING" in cls.lab.run("squeue", "-h", "-j", job, "-o", "%T").stdout)

    @classmethod
    def allocated_by_slurm(cls, job):
        """Returns {node: device indexes} of a job according to `scontrol show job -d`."""
        text = cls.lab.run("scontrol", "show", "job", "-d", "-o", job).stdout
        found = {}
        for nodes, gres in re.findall(r"Nodes=(\S+) CPU_IDs=\S+ Mem=\S+ GRES=(\S*)", text):
            indexes = re.search(r"gpu\S*?\(IDX:([0-9,-]+)\)", gres)
            for node in cls.lab.run("scontrol", "show", "hostnames", nodes).stdout.split():
                found[node] = parse_ranges(indexes.group(1)) if indexes else []
        return found


def parse_ranges(text):
    """Returns the numbers of a list such as `0,2-3`."""
    spans = [[int(end) for end in part.split("-")] for part in text.split(",")]
    return [number for span in spans for number in range(span[0], span[-1] + 1)]


def find_job(snapshot, shown_id):
    """Returns the job with this `shown_id`, or None."""
    return next((job for job in snapshot.value["jobs"] if job.get("shown_id") == shown_id), None)


def indexes_of(job):
    """Returns {node: device indexes} of a job according to gtop."""
    return {one["node"]: one["places"] for one in job["allocations"]}


def shown_ids(snapshot):
    return [job["shown_id"] for job in snapshot.value["jobs"] if "shown_id" in job]


def devices_used(snapshot, number):
    """Returns {node: uuids} of the devices on which the nodes report processes of the job."""
    found = {}
    for node in snapshot.value["nodes"]:
        for device in node["devices"]:
            if any(process["job"] == number for process in device["processes"] or ()):
                found.setdefault(node["name"], []).append(device["uuid"])
    return found


class DeviceFiles(SlurmCase):
    """gres.conf lists device files by number: the driver may have another order, and a device may be missing."""

    NODES, GPUS = 2, 4
    # The numbers of the device files in the driver's order; the second node lacks the device of file 1.
    MINORS = {"gpu01": [2, 0, 3, 1], "gpu02": [0, 2, 3]}

    @classmethod
    def prepare(cls):
        super().prepare()
        for node, minors in cls.MINORS.items():
            lines = cls.lab.gpu_file(node).splitlines()
            lines = lines[: 1 + len(minors)] + [f"gpu {gpu} minor={minor}" for gpu, minor in enumerate(minors)]
            cls.lab.set_gpus(node, "\n".join(lines) + "\n")
        cls.jobs = [cls.sbatch("--gres=gpu:1", "-w", node) for node in cls.MINORS for _ in range(4)]
        cls.wait_until_running(*cls.jobs)
        cls.watch = cls.lab.watch("--slurm", *INTERVAL)

    def test_jobs_get_the_devices_of_their_device_files(self):
        def is_complete(snapshot):
            seen = [devices_used(snapshot, number) for number in self.jobs]
            # Without ConstrainDevices, processes prove nothing: the list of slurmd does, once the probe has asked for it.
            certain = [one for job in snapshot.value["jobs"] for one in job["allocations"] if one["certainty"] == "certain"]
            return len(snapshot.up()) == 2 and sum(bool(one) for one in seen) == len(certain) == 7 and len(snapshot.value["jobs"]) == 8

        seen = self.watch.until("processes and places of all jobs whose device exists", is_complete, 3 * TIMEOUT)
        for number in self.jobs:
            (node, (minor,)), = self.allocated_by_slurm(number).items()
            (allocation,) = find_job(seen, number)["allocations"]
            minors = self.MINORS[node]
            devices = next(one for one in seen.value["nodes"] if one["name"] == node)["devices"]
            self.assertEqual([device["device_minor"] for device in devices], minors)
            expected = [devices[minors.index(minor)]["uuid"]] if minor in minors else None
            reported = (allocation["places"], allocation["devices"], "scheduler" in allocation["evidence"], allocation["certainty"])
            certainty = "certain" if expected else "unknown"
            self.assertEqual(reported, ([minor], expected, True, certainty), (node, number))
            self.assertEqual(devices_used(seen, number), {node: expected} if expected else {})


class Devices(SlurmCase):
    """Each kind of job has the devices that Slurm allocated to it, and its processes run on them."""

    @classmethod
    def prepare(cls):
        super().prepare()
        cls.jobs = {
            "several nodes": cls.sbatch("-J", "train", "-N2", "--gres=gpu:8", "--ntasks-per-node=1", "-w", "gpu[01-02]"),
            "one": cls.sbatch("-J", "one", "--gres=gpu:1", "-w", "gpu03"),
            "uneven": "",
            "cpu only": cls.sbatch("-J", "cpu", "-w", "gpu03"),
        }
        # One device of gpu03 is allocated, so the next job gets other device indexes there than on gpu04.
        cls.wait_until_running(cls.jobs["one"])
        cls.jobs["uneven"] = cls.sbatch("-J", "uneven", "-N2", "--gres=gpu:2", "--ntasks-per-node=1", "-w", "gpu[03-04]")
        cls.wait_until_running(cls.jobs["uneven"])
        cls.jobs["per task"] = cls.sbatch("-J", "tasks", "--ntasks=2", "--gpus-per-task=1", "-w", "gpu03")
        cls.jobs["array"] = cls.sbatch("-J", "sweep", "--array=0-5%2", "--gres=gpu:1", "-w", "gpu04")
        cls.jobs["steps"] = cls.sbatch(
            "-J", "steps", "--gres=gpu:2", "-n2", "-w", "gpu04",
            command="srun -n1 --exact --gres=gpu:1 sleep 3600 & srun -n1 --exact --gres=gpu:1 sleep 3600 & wait",
        )  # fmt: skip
        cls.jobs["exclusive"] = cls.sbatch("-J", "excl", "--exclusive", "--gres=gpu:1", "-w", "gpu05")
        cls.jobs["het"] = cls.lab.run(
            "sbatch", "--parsable", "-D", "/tmp", "-J", "het", "-o", "/dev/null", "--gres=gpu:2", "-w", "gpu06", ":",
            "-J", "het", "-o", "/dev/null", "--gres=gpu:1", "-w", "gpu03", "--wrap", "srun sleep 3600 : sleep 3600",
        ).stdout.split(";")[0].strip()  # fmt: skip
        cls.jobs["hostile"] = cls.sbatch("-J", "x'\"\n$(touch /tmp/gotcha)\t|\x1b[31m\x1f\x1eJobId=1 ", "--gres=gpu:1", "-w", "gpu06")
        cls.jobs["bob's"] = cls.sbatch("-J", "other", "--gres=gpu:1", "-w", "gpu06", user="bob")
        cls.wait_until_running(*cls.jobs.values())
        # Submitted last, when all others run.
        cls.jobs["waiting"] = cls.sbatch("-J", "big", "-N6", "--gres=gpu:8")
        cls.watch = cls.lab.watch("--slurm", *INTERVAL)
        cls.seen = cls.watch.until("all jobs, their devices, and all processes", cls.is_complete, 3 * TIMEOUT)

    @classmethod
    def is_complete(cls, snapshot):
        ids = {job["id"] for job in snapshot.value["jobs"] if job.get("state") == "running"}
        wanted = {number for name, number in cls.jobs.items() if name not in ("waiting", "bob's", "array", "cpu only")}
        has_processes = all(devices_used(snapshot, number) for number in wanted)
        running = [job for job in snapshot.value["jobs"] if job.get("state") == "running"]
        allocations = [one for job in running for one in job["allocations"]]
        # How Slurm numbers the devices of a node is learned from the processes on them.
        has_devices = all(one["devices"] for one in allocations if one["places"])
        return wanted <= ids and len(snapshot.up()) == 6 and has_processes and has_devices

    def checked_job(self, name, shown_id=None):
        """Returns a job after comparing its allocations with Slurm's."""
        number = self.jobs[name]
        found = find_job(self.seen, shown_id or number)
        self.assertIsNotNone(found, shown_ids(self.seen))
        # For a heterogeneous job, scontrol prints all components.
        expected = {node: indexes for node, indexes in self.allocated_by_slurm(found["id"]).items() if node in indexes_of(found)}
        self.assertEqual(indexes_of(found), expected)
        for one in found["allocations"]:
            self.assertIn("scheduler", one["evidence"])
            number = int(one["node"].removeprefix("gpu"))
            self.assertEqual(one["devices"], [f"GPU-{number:08x}-0000-4000-8000-{index:012x}" for index in one["places"]])
        return found

    def test_a_job_on_several_nodes(self):
        found = self.checked_job("several nodes")
        self.assertEqual((found["name"], found["user"], found["partition"], found["nodes"]), ("train", "alice", "gpu", 2))
        self.assertEqual(found["state"], "running")
        self.assertEqual(found["limit_seconds"], 3600)
        self.assertTrue(0 < found["left_seconds"] <= 3600)
        self.assertEqual({one["node"]: one["devices"] for one in found["allocations"]}, devices_used(self.seen, found["id"]))

    def test_two_jobs_on_one_node(self):
        one, uneven = self.checked_job("one"), self.checked_job("uneven")
        self.assertEqual(len(indexes_of(one)["gpu03"]), 1)
        self.assertNotEqual(indexes_of(uneven)["gpu03"], indexes_of(uneven)["gpu04"])
        node = self.seen.node("gpu03").value
        for found in (one, uneven):
            self.assertIn(found["id"], node["jobs"])
        self.assertEqual(devices_used(self.seen, one["id"])["gpu03"], one["allocations"][0]["devices"])

    def test_a_job_with_gpus_per_task(self):
        self.assertEqual(len(indexes_of(self.checked_job("per task"))["gpu03"]), 2)

    def test_running_and_pending_tasks_of_an_array(self):
        array = self.jobs["array"]
        first, second = self.checked_job("array", f"{array}_0"), self.checked_job("array", f"{array}_1")
        self.assertNotEqual(indexes_of(first), indexes_of(second))
        self.assertNotEqual(first["id"], second["id"])
        waiting = find_job(self.seen, f"{array}_[2-5%2]")
        self.assertEqual((waiting["state"], waiting["reason"], waiting["allocations"]), ("pending", "JobArrayTaskLimit", []))
        self.assertIn(first["id"], self.seen.node("gpu04").value["jobs"])

    def test_the_process_list_shows_job_ids_as_squeue_prints_them(self):
        terminal = self.lab.terminal()
        self.addCleanup(terminal.close)
        terminal.gtop("--slurm", *INTERVAL)
        terminal.until("the nodes", r"gpu06")
        terminal.type("4")
        terminal.until("a task of an array", rf" {self.jobs['array']}_0 ")
        terminal.until("a component of a heterogeneous job", rf" {self.jobs['het']}\+1 ")

    def test_steps_share_the_devices_of_their_job(self):
        found = self.checked_job("steps")
        self.assertEqual(sorted(devices_used(self.seen, found["id"])["gpu04"]), found["allocations"][0]["devices"])
        # Slurm tells only how many devices a step has; its processes show which.
        self.assertNotIn("IDX", self.lab.run("scontrol", "-dd", "show", "step", found["id"]).stdout)
        steps = {}
        for device in self.seen.node("gpu04").devices:
            for process in device["processes"]:
                if process["job"] == found["id"]:
                    steps.setdefault(process["step"], []).append(device["uuid"])
        self.assertEqual(sorted(steps), ["0", "1"])
        self.assertEqual(sorted(steps["0"] + steps["1"]), found["allocations"][0]["devices"])

    def test_an_exclusive_job(self):
        self.assertEqual(len(indexes_of(self.checked_job("exclusive"))["gpu05"]), 8)

    def test_the_components_of_a_heterogeneous_job(self):
        number = self.jobs["het"]
        first, second = self.checked_job("het", f"{number}+0"), self.checked_job("het", f"{number}+1")
        self.assertEqual([*indexes_of(first), *indexes_of(second)], ["gpu06", "gpu03"])
        self.assertEqual(devices_used(self.seen, second["id"]), {"gpu03": second["allocations"][0]["devices"]})

    def test_a_job_without_devices(self):
        found = self.checked_job("cpu only")
        self.assertEqual(found["allocations"], [
            {"node": "gpu03", "devices": [], "evidence": ["scheduler"], "certainty": "certain", "unplaced": 0, "places": [],
             "count": 0, "host_share": None}
        ])

    def test_a_job_name_with_control_and_shell_characters(self):
        found = self.checked_job("hostile")
        self.assertRegex(found["name"], r"^x'\" \$\(touch /tmp/gotcha\) \| \[31m *JobId=1$")
        self.assertFalse(os.path.exists(f"{self.lab.root}/tmp/gotcha"))

    def test_a_pending_job_has_a_reason(self):
        found = find_job(self.seen, self.jobs["waiting"])
        self.assertEqual((found["state"], found["allocations"], found["nodes"]), ("pending", [], 6))
        self.assertRegex(found["reason"], r"Resources|Priority")

    def test_jobs_of_other_users_are_not_listed_by_default(self):
        self.assertIsNone(find_job(self.seen, self.jobs["bob's"]))
        # The node lists it nevertheless, because of its processes.
        self.assertIn(self.jobs["bob's"], self.seen.node("gpu06").value["jobs"])

    def test_jobs_of_other_users_can_be_selected(self):
        for arguments in (("--user", "bob"), ("--all-users",), ("--job", self.jobs["bob's"])):
            with self.subTest(arguments):
                seen = self.lab.snapshot(*arguments)
                self.assertIsNotNone(find_job(seen, self.jobs["bob's"]))
                self.assertEqual(find_job(seen, self.jobs["one"]) is not None, arguments == ("--all-users",))
        array = self.jobs["array"]
        seen = self.lab.snapshot("--job", f"{array}_1")
        self.assertEqual((shown_ids(seen), len(seen.value["nodes"])), ([f"{array}_1"], 1))
        self.assertEqual(self.lab.snapshot("--partition", "debug", "--slurm").value["jobs"], [])

    def test_inside_an_allocation_gtop_monitors_its_job(self):
        number = self.jobs["one"]
        inside = ("srun", "--overlap", "--jobid", number, "--gres=none", "/run/lab/bin/gtop", "--json")
        done = self.lab.run(*inside)
        seen = Snapshot(json.loads(done.stdout))
        self.assertEqual((shown_ids(seen), seen.up()), ([number], ["gpu03"]))
        self.assertIn(f"job {number}, this allocation", seen.value["source"])
        self.assertEqual(seen.node("gpu03").value["transport"], "local")
        seen = Snapshot(json.loads(self.lab.run(*inside, "--local").stdout))
        self.assertEqual((seen.value["roster"], seen.value["source"]), (None, "this machine"))


class StartAndEnd(SlurmCase):
    """Jobs start and end while gtop runs."""

    NODES, GPUS = 3, 2

    def test_a_job_starts_and_ends_while_gtop_runs(self):
        done = self.lab.gtop("--slurm", "--once")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no running job of alice; submit one with sbatch or salloc", done.stdout)
        watch = self.lab.watch("--slurm", *INTERVAL)
        watch.until("a job list", lambda snapshot: snapshot.value["roster"]["age_seconds"] is not None)
        self.assertEqual(watch.latest().value["nodes"], [])
        number = self.sbatch("-J", "brief", "-N2", "--gres=gpu:1", "--ntasks-per-node=1")
        self.wait_until_running(number)
        started = self.next_job_list(watch)
        self.assertEqual(shown_ids(started), [number])
        watch.until("its nodes are up", lambda snapshot: len(snapshot.up()) == 2)
        self.lab.run("scancel", number)
        wait_for("the job is gone", lambda: not self.lab.run("squeue", "-h", "-j", number).stdout)
        ended = self.next_job_list(watch)
        self.assertEqual((shown_ids(ended), ended.value["nodes"]), ([], []))
        watch.close()

    def next_job_list(self, watch):
        """Returns the first snapshot whose job list is newer than this call."""
        now = watch.latest().arrived if watch.latest() else 0
        self.lab.run("true")
        clock = float(self.lab.run("date", "+%s.%N").stdout)
        return watch.until(
            f"a list newer than {now}", lambda snapshot: snapshot.arrived - snapshot.value["roster"]["age_seconds"] > clock + 0.5
        )

    def test_the_screen_shows_pending_jobs_and_the_age_of_the_list(self):
        terminal = self.lab.terminal()
        terminal.gtop("--slurm", *INTERVAL)
        terminal.until("the message", r"no running job of alice; submit one")
        held = self.sbatch("-J", "held-back", "--hold")
        terminal.until("the held job", rf"{held} +held-back .*JobHeldUser")
        self.lab.run("scontrol", "release", held)
        terminal.until("its node", r"gpu01")
        terminal.until("the source and the age of the list", r"Slurm: jobs of alice  jobs \d+s old")
        self.lab.run("scancel", held)
        terminal.until("no job again", r"no running job of alice")
        terminal.type("q")
        terminal.until("the prompt", r"ready> *$")

    def test_the_job_view_moves_through_jobs_and_their_nodes(self):
        first = self.sbatch("-J", "first", "-N2", "--gres=gpu:1", "--ntasks-per-node=1")
        self.wait_until_running(first)
        second = self.sbatch("-J", "second", "--gres=gpu:1", "-w", "gpu03")
        self.wait_until_running(second)
        terminal = self.lab.terminal()
        terminal.gtop("--slurm", *INTERVAL)
        terminal.until("the nodes", r"gpu03")
        terminal.type("2")
        terminal.until("the list of jobs", rf"^{first} +first ")
        terminal.type("Enter")
        terminal.until("the first job", rf"job {first}  first  alice  partition gpu  running .*job 1 of 2")
        terminal.until("only its devices", r"2 nodes · 2 devices")
        terminal.until("the selected node", r"^gpu01  2× H100")
        terminal.type("Right")
        terminal.until("its other node", r"^gpu02  2× H100")
        terminal.type("j")
        terminal.until("the second job", rf"job {second}  second .*job 2 of 2")
        self.lab.run("scancel", first)
        terminal.until("the second job stays, now the only one", rf"job {second}  second .*job 1 of 1")
        self.lab.run("scancel", second)
        terminal.until("how it ended", rf"job {second}  second  alice  was cancelled")
        terminal.type("o")
        terminal.until("the fleet", r"no running job of alice")
        terminal.type("q")
        terminal.until("the prompt", r"ready> *$")


class Ending(SlurmCase):
    """While the epilog of a job runs, Slurm gives its devices to nobody, although it no longer counts them."""

    NODES, GPUS = 2, 4
    SECONDS = 60

    def setUp(self):
        self.lab("slurm", "epilog-delay", "gpu01", str(self.SECONDS))
        self.job = self.sbatch("--gres=gpu:4", "-w", "gpu01")
        self.wait_until_running(self.job)
        self.watch = self.lab.watch("--slurm", "gpu01", *INTERVAL)
        self.watch.until("the devices of the job", lambda snapshot: (find_job(snapshot, self.job) or {}).get("allocations"))
        self.lab.run("scancel", self.job)
        wait_for("the job ends", lambda: self.lab.run("squeue", "-h", "-j", self.job, "-o", "%T").stdout.strip() == "COMPLETING")

    def devices(self, snapshot):
        (node,) = [node for node in snapshot["nodes"] if node["name"] == "gpu01"]
        self.assertEqual(node["scheduler"]["state"], "completing")
        self.assertEqual(len(node["devices"]), self.GPUS)
        return node["devices"]

    def test_the_devices_of_an_ending_job_are_not_free(self):
        waiting = self.sbatch("--gres=gpu:1", "-w", "gpu01", user="bob")
        # The last list does not have the job.
        for words in (("--slurm",), ("--slurm", "--all-users"), ("--slurm", "--user", "carl", "gpu01")):
            done = self.lab.gtop(*words, "--json")
            for device in self.devices(json.loads(done.stdout)):
                self.assertNotEqual((device["holders"] or [], device["no_other_job"]), ([], "certain"), words)
        self.assertEqual(self.lab.run("squeue", "-h", "-j", waiting, "-o", "%T").stdout.strip(), "PENDING")
        # Who has seen the job before knows which devices it has.
        is_ending = lambda snapshot: snapshot.value["nodes"][0]["scheduler"]["state"] == "completing"
        for device in self.devices(self.watch.until("the node is completing", is_ending).value):
            self.assertEqual([holder["job"] for holder in device["holders"]], [self.job])


class JobStates(SlurmCase):
    """Jobs that are suspended, cancelled or missing."""

    NODES, GPUS = 2, 2

    def once(self, *arguments, user="alice"):
        return self.lab.run("gtop", "--once", "--deadline", "10", *arguments, user=user).stdout

    def test_the_remaining_time_of_a_suspended_job_does_not_change(self):
        number = self.sbatch("-J", "paused", "-w", "gpu01")
        self.wait_until_running(number)
        self.addCleanup(self.lab.run, "scancel", number)
        self.lab.run("scontrol", "suspend", number, user="root")
        watch = self.lab.watch("--slurm", *INTERVAL)
        self.addCleanup(watch.close)

        def paused(snapshot):
            found = find_job(snapshot, number)
            return found and found["state"] == "suspended"

        first = watch.until("it is suspended", paused)
        left = find_job(first, number)["left_seconds"]
        later = watch.until("time passes", lambda snapshot: paused(snapshot) and snapshot.arrived > first.arrived + 3)
        self.assertEqual(find_job(later, number)["left_seconds"], left)
        self.assertLessEqual(left, 3600)
        self.lab.run("scontrol", "resume", number, user="root")
        watch.until("it continues", lambda snapshot: find_job(snapshot, number)["left_seconds"] < left)

    def test_a_cancelled_job_is_not_reported_as_timed_out(self):
        # It ignores SIGTERM, so it stays in state completing for a while.
        number = self.sbatch("-J", "stubborn", "-w", "gpu01", command="trap '' TERM; while :; do sleep 1; done")
        self.wait_until_running(number)
        terminal = self.lab.terminal()
        self.addCleanup(terminal.close)
        terminal.gtop("--slurm", *INTERVAL)
        terminal.until("the node", r"gpu01")
        terminal.type("2")
        terminal.until("the list of jobs", rf"^{number} +stubborn ")
        terminal.type("Enter")
        terminal.until("the job", rf"job {number}  stubborn")
        self.lab.run("scancel", number)
        terminal.until("how it ended", rf"job {number}  stubborn  alice  was cancelled")
        self.assertNotIn("time limit reached", terminal.text())
        self.assertIn(f"job {number} was cancelled", self.once("--job", number))

    def test_a_missing_job_has_ended_never_existed_or_is_hidden(self):
        number = self.sbatch("-J", "brief", command="true")
        wait_for("it has ended", lambda: "COMPLETED" in self.lab.run("scontrol", "show", "job", number).stdout)
        self.assertIn(f"job {number} has ended", self.once("--job", number))
        self.assertRegex(self.once("--job", "4000"), r"job 4000 never existed: the next id is \d+")
        conf = f"{self.lab.root}/run/lab/slurm/etc/slurm.conf"
        with open(conf, encoding="utf-8") as file:
            text = file.read()
        self.addCleanup(self.reconfigure, conf, text)
        self.reconfigure(conf, f"{text}PrivateData=jobs\n")
        wait_for("bob sees nothing", lambda: "Invalid job" in self.lab.run("scontrol", "show", "job", number, user="bob").stderr)
        self.assertIn("or PrivateData=jobs hides it from you", self.once("--job", number, user="bob"))

    def reconfigure(self, path, text):
        replace(path, text)
        self.lab.run("scontrol", "reconfigure", user="root")

    def test_an_unknown_key_in_slurm_conf_is_reported(self):
        conf = self.lab.script.read(f"{self.lab.root}/run/lab/slurm/etc/slurm.conf")
        home = self.lab.home("bad-conf")
        with open(f"{home}/slurm.conf", "w", encoding="utf-8") as file:
            file.write(f"{conf}KeyOfTomorrow=yes\n")
        error = "has an error: Parsing error at unrecognized key: KeyOfTomorrow"
        gtop = ("sh", "-c", 'SLURM_CONF=$HOME/slurm.conf exec gtop "$@"', "gtop")
        done = self.lab.run(*gtop, "--slurm", "--once", home="bad-conf")
        self.assertIn(error, done.stdout)
        out = self.lab.run(*gtop, "doctor", "--slurm", home="bad-conf").stdout
        self.assertRegex(out, rf"(?m)^  FAILED  configuration .*{error}")
        self.assertEqual(out.count("FAILED"), 1, out)


class Addresses(SlurmCase):
    """gtop reaches nodes whose names do not resolve at the addresses Slurm uses, and shows their names."""

    NODES, GPUS = 2, 2

    @classmethod
    def prepare(cls):
        super().prepare()
        hosts = f"{cls.lab.root}/etc/hosts"
        text = cls.lab.script.read(hosts)
        address_of = {name: address for address, name in (line.split() for line in text.splitlines())}
        addresses = ",".join(address_of[node] for node in cls.lab.nodes)
        conf = f"{cls.lab.root}/run/lab/slurm/etc/slurm.conf"
        cls.lab("slurm", "controller", "stop")
        replace(conf, re.sub(r"^(NodeName=\S+)", rf"\1 NodeAddr={addresses}", cls.lab.script.read(conf), flags=re.MULTILINE))
        cls.lab("slurm", "controller", "start")
        wait_for("nodes", lambda: cls.lab.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.split()[:1] == [str(cls.NODES)])
        cls.job = cls.sbatch("-N2", "--gres=gpu:1", "--ntasks-per-node=1", command="sleep 3600")
        cls.wait_until_running(cls.job)
        replace(hosts, "".join(f"{line}\n" for line in text.splitlines() if line.split()[1] not in cls.lab.nodes))

    def test_both_ssh_implementations_reach_them(self):
        self.assertNotEqual(self.lab.run("getent", "hosts", "gpu01").returncode, 0)
        for options in ((), ("--ssh-binary",)):
            with self.subTest(options):
                seen = self.lab.snapshot("--slurm", *options)
                self.assertEqual(seen.up(), self.lab.nodes, seen.value["nodes"])

    def test_the_doctor_reaches_them(self):
        out = self.lab.run("gtop", "--connect-timeout", "4", "doctor", "--slurm", timeout=120).stdout
        self.assertNotIn("FAILED", out)
        self.assertEqual(len(re.findall(r"(?m)^  ok +name .*10\.77\.", out)), 2, out)


def replace(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Controller(SlurmCase):
    """The controller stops and starts again."""

    NODES, GPUS = 2, 2

    def test_the_last_job_list_is_kept_with_its_age_and_the_reason(self):
        number = self.sbatch("-J", "stays", "--gres=gpu:1")
        self.wait_until_running(number)
        watch = self.lab.watch("--slurm", *INTERVAL)
        watch.until("the job", lambda snapshot: shown_ids(snapshot) == [number] and len(snapshot.up()) == 1)
        terminal = self.lab.terminal()
        terminal.gtop("--slurm", *INTERVAL)
        terminal.until("the node", r"gpu01")
        self.lab("slurm", "controller", "stop")
        seen = watch.until("the reason", lambda snapshot: snapshot.value["roster"]["problem"], 90)
        self.assertRegex(seen.value["roster"]["problem"]["sentence"], r"controller is down")
        self.assertIn("scontrol ping", seen.value["roster"]["problem"]["remedy"])
        self.assertEqual((shown_ids(seen), len(seen.up())), ([number], 1))
        self.assertGreater(seen.value["roster"]["age_seconds"], 3)
        terminal.until("the same on the screen", r"the Slurm controller is down", 90)
        terminal.until("its age", r"jobs \d\d+s old|jobs \dm")
        self.lab("slurm", "controller", "start")
        watch.until("the controller answers again", lambda snapshot: not snapshot.value["roster"]["problem"], 120)
        watch.until("the job is still listed", lambda snapshot: shown_ids(snapshot) == [number])
        terminal.type("q")


if __name__ == "__main__":
    unittest.main()
