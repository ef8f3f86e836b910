"""`gtop pick` picks the devices that nvisel picks on the same machine; `-- COMMAND` becomes the command.

    GTOP=path/to/gtop python3 -m unittest -v test_pick
"""

import getpass
import json
import os
import signal
import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import rig
from rig import GTOP, Machine
from scenarios import ABSENT, DRIVER, SCENARIOS, busy, many_slices, mixed, slices


def setUpModule():
    rig.needs_packages()


def nvisel():
    return os.path.join(rig.CLIENTS, "bin", "nvisel")


def gpu_uuid(machine, index):
    return machine.node()["devices"][index]["uuid"]


def loads(pids):
    """Six devices of several loads and two sizes; the third and the fourth are alike."""
    return DRIVER + (
        f"gpu 0 util=97 memutil=60 used_mib=70000\nproc 0 {pids[0]} 69000\n"
        f"gpu 1 util=0 memutil=0 used_mib=3\n"
        f"gpu 2 util=12 memutil=4 used_mib=2000\nproc 2 {pids[2]} 1900\n"
        f"gpu 3 util=12 memutil=4 used_mib=2000\nproc 3 {pids[3]} 1900\n"
        f"gpu 4 util=12 memutil=3 used_mib=2000\nproc 4 {pids[1]} 1500\n"
        f"gpu 5 util=35 memutil=0 used_mib=2000 total_mib=40960\nproc 5 {pids[4]} 1900\n"
    )


def one_cut_of_three(pids):
    """Three devices; the second is cut into two slices."""
    return DRIVER + (
        f"gpu 0 util=5 used_mib=1000\nproc 0 {pids[1]} 900\n"
        "gpu 1 mig=1 util=~ memutil=~ used_mib=700\n"
        "slice 1 0 total_mib=9728 used_mib=100 gi=7 ci=0\nslice 1 1 total_mib=19968 used_mib=50 gi=8 ci=0\n"
        f"gpu 2 util=50 used_mib=40000\nproc 2 {pids[0]} 39900\n"
    )


def only_slices(pids):
    """Two devices in MIG mode, of which one has slices, and a third of them is in use."""
    return DRIVER + (
        "gpu 0 mig=1 util=~ memutil=~\ngpu 1 mig=1 util=~ memutil=~\n"
        f"slice 1 0 total_mib=9728 used_mib=9000 gi=7 ci=0\nproc 1 {pids[0]} 8000 slice=0\n"
        "slice 1 1 total_mib=9728 used_mib=12 gi=8 ci=0\nslice 1 2 total_mib=9728 used_mib=450 gi=9 ci=0\n"
    )


USER = getpass.getuser()

# Options that both accept, by machine; `{0}` is the UUID of the first device.
SAME = (
    (loads, 5, (
        [], ["-n", "1"], ["-n", "2"], ["-n", "4"], ["-n", "9"], ["-n", "0"], ["-C", "0"], ["-c", "2"], ["-C", "3"],
        ["-c", "2", "-C", "4"], ["-c", "7"], ["-S"], ["-S", "-C", "2"], ["-f", "40GiB"], ["-f", "70000MiB", "-n", "2"],
        ["-f", "5000M"], ["-f", "79.9GiB"], ["-f", "999T"], ["-t", "60GB"], ["-t", "42949672960"], ["-t", "40960MiB"],
        ["-G", "10"], ["-G", "12"], ["-G", "0"], ["-M", "3"], ["-M", "4", "-G", "12"], ["-G", "10", "--tol", "2"],
        ["-G", "10", "--tolerance", "30"], ["-f", "80GiB", "--tol", "5"], ["-f", "80GiB", "-G", "5", "--tol", "50"],
        ["-t", "80GiB", "--tol", "50"], ["-f", "1GiB", "--tol", "200"], ["-c", "3", "-G", "0", "-O", "uuid"],
        ["-O", "uuid"], ["-O", "uuid", "-n", "2", "-s", ":"], ["-s", ";"], ["--sep", " "], ["--separator=+"],
        ["--newline"], ["-0"], ["--null", "-n", "3"], ["-0", "-n", "0"], ["--newline", "-O", "uuid", "-C", "2"],
        ["--account-as-free"], ["--account-as-free", USER, "-f", "75GiB"], ["--account-as-free", "nobody-at-all"],
        ["--account-as-free", USER, "nobody-at-all", "-n", "3"],
        ["-i"], ["-i", "3,1"], ["-i", "3,1", "-S"], ["-i", "1,9,2"], ["-i", "1,1"], ["-i", ""], ["--inherit=-1"],
        ["-i", "0, 2 ,4", "-n", "2"], ["-i", "{4},{2}"], ["-i", "{4},{2}", "-S", "-O", "uuid"], ["-i", "{4},2", "-S"],
        ["-i", "2,{4}", "-S"], ["-i", "junk"], ["-i", "GPU-junk"], ["-i", "1x,2", "-S"], ["-i", "2,3,4", "-f", "1GiB", "-n", "2"],
        ["-i", "5", "-n", "2"],
    )),
    (busy, 40, ([], ["-n", "2"], ["-G", "50"], ["-M", "52"], ["-f", "10GiB", "-n", "3"], ["-f", "12GiB", "--tol", "10"],
                ["--account-as-free", "-f", "50GiB"], ["-C", "4", "-O", "uuid"], ["-i", "7,6,5", "-n", "2"])),
    (slices, 7, ([], ["-n", "1"], ["-n", "2"], ["-O", "uuid"], ["-S"], ["-i", "0"], ["-f", "9GiB"], ["-f", "50GiB"],
                 ["--account-as-free"], ["-n", "1", "-0"], ["-i", "{0}"], ["-i", "{3}"], ["-i", "{3},{2}"])),
    (many_slices, 56, ([], ["-n", "1"], ["-n", "3"], ["-S"], ["-i", "2,3"], ["-f", "9.4GiB"])),
    (one_cut_of_three, 2, (["-c", "2"], ["-S"], ["-t", "60GiB"], ["-i", "0,1"], ["-i", "1,0"], ["-i", "0,2"],
                           ["-i", "{3}"], ["-f", "19GiB", "-i", "1"], ["-f", "1GiB"], ["-f", "1GiB", "-O", "uuid"])),
    (only_slices, 1, ([], ["-n", "1"], ["-c", "2"], ["-i", "0"], ["-i", "0,1"], ["--account-as-free", "-f", "9GiB", "-S"])),
    (mixed, 4, ([], ["-f", "70GiB"], ["-G", "5"], ["--account-as-free"])),
)

UNKNOWN = DRIVER + "gpu 0 used_mib=100\ngpu 1 util=~ used_mib=50\ngpu 2 used_mib=!999\ngpu 3 util=!999 memutil=7 used_mib=100\n"

FREE_SLICE = "MIG-0abc0001-0001-5000-8000-000000000001"

# (machine, options, nvisel, gtop, why): standard output of both.
DIFFERENT = (
    (UNKNOWN, [], "2,1,3,0", "1,0,3", "a device of unknown memory is never picked; unknown utilization comes after a known one"),
    (DRIVER + "gpu 0 used_mib=9\ngpu 1 used_mib=22273\n", [], "0,1", "0", "memory that no process has is nobody's to give"),
    (DRIVER + "gpu 0 used_mib=9\ngpu 1 used_mib=22273\nfault nvmlDeviceGetComputeRunningProcesses_v3@1 4\n", [], "0,1", "0",
     "the same, where the driver does not say which processes have it"),
    (DRIVER + "gpu 0 used_mib=9\ngpu 1 used_mib=99\nfault nvmlDeviceGetComputeRunningProcesses_v3@1 4\n", ["-n", "1"], "0", "0",
     "who may be there matters less with next to no memory in use"),
    (DRIVER + "gpu 0 used_mib=9\ngpu 1 recovery=1\n", [], "1,0", "0", "a device that its driver wants reset is never picked"),
    (one_cut_of_three, [], "0,2", FREE_SLICE, "without limits, a free slice comes before devices in use"),
    (one_cut_of_three, ["-n", "1"], "0", FREE_SLICE, "the same"),
    (one_cut_of_three, ["-t", "15GiB", "-C", "1"], "0", FREE_SLICE, "how large a device is does not limit its use"),
    (DRIVER + "gpu 0\ngpu 1 lost\n", [], "1,0", "0", "a lost device is never picked"),
    (DRIVER + "gpu 0 used_mib=9\ngpu 1 util=~ used_mib=5\n", ["-S", "-C", "1", "-i", "GPU-0"], "", "", "the same"),
)


class SameAsNvisel(unittest.TestCase):
    maxDiff = None

    def test_the_same_devices_in_the_same_bytes(self):
        compared = 0
        for scenario, processes, option_sets in SAME:
            machine = Machine(scenario(Machine.pids(processes)), LOGNAME=USER)
            uuids = [device["uuid"] for device in machine.node()["devices"]]
            option_sets = [[option.format(*uuids) for option in options] for options in option_sets]
            # Both mostly wait.
            with ThreadPoolExecutor(4) as pool:
                all_theirs = pool.map(lambda options: machine.run(nvisel(), *options), option_sets)
                all_ours = pool.map(lambda options: machine.run(GTOP, "pick", *options), option_sets)
                results = list(zip(option_sets, all_theirs, all_ours))
            for options, theirs, ours in results:
                with self.subTest(f"{scenario.__name__} {' '.join(options)}"):
                    self.assertEqual(ours[:2], theirs[:2], ours[2])
                    line = next(line for line in theirs[2].splitlines() if line.startswith("CUDA_VISIBLE_DEVICES="))
                    self.assertIn(line, ours[2].splitlines())
                    # nvisel warns without a number.
                    self.assertEqual("wanted" in ours[2], "Not enough devices" in theirs[2])
                    compared += 1
        self.assertGreater(compared, 100)

    def test_the_variable_of_the_environment_is_inherited(self):
        for value in ("4,2", "", "0,nonsense", "7", "2,2"):
            with self.subTest(value):
                machine = Machine(loads(Machine.pids(5)), CUDA_VISIBLE_DEVICES=value)
                self.assertEqual(machine.run(GTOP, "pick", "-i")[:2], machine.run(nvisel(), "-i")[:2])
                self.assertEqual(machine.run(GTOP, "pick")[:2], machine.run(nvisel())[:2])


class KnownDifferences(unittest.TestCase):
    def test_what_is_unknown_or_lost_is_never_picked(self):
        for state, options, theirs, ours, why in DIFFERENT:
            with self.subTest(why):
                machine = Machine(state if isinstance(state, str) else state(Machine.pids(2)))
                self.assertEqual(machine.run(nvisel(), *options)[1], theirs + "\n")
                self.assertEqual(machine.run(GTOP, "pick", *options)[1], ours + "\n")

    def test_without_a_driver_the_exit_status_says_so(self):
        machine = Machine(DRIVER, LD_LIBRARY_PATH="")
        self.assertEqual(machine.run(nvisel())[:2], (0, "\n"))
        code, out, err = machine.run(GTOP, "pick")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("libnvidia-ml.so.1 not found", err)
        for name, state, words, _ in ABSENT:
            with self.subTest(name):
                code, out, err = Machine(state).run(GTOP, "pick", "-n", "1")
                self.assertEqual((code, out), (2, ""))
                self.assertIn(words, err)
        code, _, err = Machine(state).run(GTOP, "pick", "--", "sh", "-c", "echo ran >&2")
        self.assertEqual(code, 2)
        self.assertNotIn("ran\n", err)

    def test_that_no_device_can_be_read_is_an_error_and_says_why(self):
        lost = "lost: the driver no longer reaches it"
        for state, words in (("gpu 0 lost\ngpu 1 lost\n", lost), ("gpu 0\ngpu 1\nfault nvml@0 4\nfault nvml@1 4\n", "no permission"),
                             ("gpu 0 used_mib=!999\ngpu 1 used_mib=!999\n", "free memory is unknown")):
            machine = Machine(DRIVER + state)
            for options in ((), ("--env",), ("-C", "1"), ("--", "echo", "ran")):
                with self.subTest(f"{words} {options}"):
                    code, out, err = machine.run(GTOP, "pick", *options)
                    self.assertEqual((code, out), (1, ""), err)
                    passed_over, error = err.splitlines()
                    self.assertEqual([text.split()[0] for text in passed_over.split(": ", 2)[2].split("; ")], ["#0", "#1"])
                    self.assertRegex(error, f"^gtop: no device can be read; 2: {words}.*; gtop doctor says more$")
            self.assertEqual(machine.run(GTOP, "pick", "-n", "1")[:2], (4, "\n"))
            self.assertEqual(machine.run(GTOP, "pick", "-n", "0")[:2], (0, "\n"))
        # One that can be read and is in use is an answer.
        machine = Machine(DRIVER + "gpu 0 lost\ngpu 1 util=90\n")
        self.assertEqual(machine.run(GTOP, "pick", "-G", "10")[:2], (0, "\n"))

    def test_contradictions_are_usage_errors(self):
        machine = Machine(loads(Machine.pids(5)))
        for options in (["-c", "3", "-C", "2"], ["-n", "2", "-c", "1"], ["-f", "4Q"], ["-G", "-3"], ["-O", "name"], ["--nodes", "0"]):
            with self.subTest(" ".join(options)):
                code, out, err = machine.run(GTOP, "pick", *options)
                self.assertEqual((code, out), (2, ""))
                self.assertTrue(err.startswith("gtop: "), err)
                self.assertNotEqual(machine.run(nvisel(), *options)[0], 0 if options[0] != "-n" else None)

    def test_beginnings_of_uuids_are_accepted(self):
        machine = Machine(loads(Machine.pids(5)))
        uuid = gpu_uuid(machine, 3)
        self.assertEqual(machine.run(GTOP, "pick", "-i", uuid[:8])[1], "\n", "six devices begin so")
        others = [device["uuid"] for device in machine.node()["devices"] if device["uuid"] != uuid]
        length = next(length for length in range(5, 40) if not any(one.startswith(uuid[:length]) for one in others))
        self.assertEqual(machine.run(GTOP, "pick", "-i", uuid[:length])[:2], (0, "3\n"))
        code, out, err = machine.run(GTOP, "pick", "-i", "gpu01")
        self.assertEqual((code, out), (0, "\n"))
        self.assertIn("gpu01 is neither the index nor the UUID of a device", err)


class Formats(unittest.TestCase):
    def test_variables_and_json(self):
        machine = Machine(loads(Machine.pids(5)))
        code, out, _ = machine.run(GTOP, "pick", "-n", "2", "--env")
        self.assertEqual((code, out), (0, "CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES=1,4\n"))
        out = machine.run("sh", "-c", f"export $('{GTOP}' pick -n 2 --env) && env")[1]
        self.assertIn("\nCUDA_VISIBLE_DEVICES=1,4\n", "\n" + out)
        _, out, _ = machine.run(GTOP, "pick", "-n", "1", "--env", "-O", "uuid")
        self.assertEqual(out, f"CUDA_VISIBLE_DEVICES={gpu_uuid(machine, 1)}\n")
        code, out, err = machine.run(GTOP, "pick", "-n", "3", "-G", "12", "-M", "3", "--json")
        found = json.loads(out)
        self.assertEqual((code, found["found"], found["enough"], found["vendor"]), (4, 2, False, "nvidia"))
        (node,) = found["nodes"]
        self.assertEqual(node["indices"], [1, 4])
        self.assertEqual(node["environment"], {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,4"})
        self.assertEqual(node["devices"][0]["memory_free_bytes"], machine.node()["devices"][1]["memory_free_bytes"])
        reasons = {one["index"]: one["reason"] for one in found["refused"]}
        self.assertEqual(reasons[0], "utilization is 97 %, above 12 %")
        self.assertEqual(reasons[2], "memory utilization is 4 %, above 3 %")
        self.assertEqual(sorted(reasons), [0, 2, 3, 5])
        self.assertIn("2 devices found, 3 wanted", err)

    def test_an_unknown_host_is_named_and_the_others_go_on(self):
        machine = Machine(loads(Machine.pids(5)))
        code, out, err = machine.run(GTOP, "pick", "--local", "no-such-host.invalid", "-n", "1", "--connect-timeout", "5")
        self.assertEqual(code, 0, err)
        self.assertRegex(out, r"^\S+:1\n$")
        self.assertIn("gtop: no-such-host.invalid: down: name not found", err)

    def test_a_stale_node_is_not_picked_from(self):
        machine = Machine(DRIVER + "gpu 0 used_mib=9\ngpu 1\nfault nvmlDeviceGetHandleByIndex_v2@1 4\n")
        self.assertEqual(machine.run(GTOP, "pick")[:2], (0, "0\n"))


class Slurm(unittest.TestCase):
    """Commands of Slurm that hang or are slow."""

    def machine(self, state, squeue):
        path = rig.folder()
        with open(os.path.join(path, "squeue"), "w") as out:
            out.write("#!/bin/sh\n" + squeue)
        os.chmod(os.path.join(path, "squeue"), 0o755)
        return Machine(state, PATH=path + ":" + os.environ["PATH"])

    def test_a_hanging_squeue_is_told_and_delays_until_the_deadline_only(self):
        machine = self.machine(DRIVER + "gpu 0\ngpu 1\n", "sleep 1000\n")
        code, out, err = machine.run(GTOP, "pick", "-n", "1", "--deadline", "15")
        self.assertEqual((code, out), (0, "1\n"))
        self.assertIn("Slurm has not answered", err)
        self.assertIn("devices that a job holds and does not use count as free", err)

    def test_a_hanging_squeue_does_not_make_waiting_longer(self):
        machine = self.machine(DRIVER + "gpu 0\ngpu 1\n", "sleep 1000\n")
        done = machine.run(GTOP, "pick", "-n", "3", "--wait=2s", "--deadline", "1000", seconds=200)
        self.assertIsNotNone(done, "it does not end")
        self.assertEqual(done[0], 4, done)

    def test_a_client_without_configuration_is_no_scheduler(self):
        squeue = "echo 'squeue: fatal: Could not establish a configuration source' >&2; exit 1\n"
        machine = self.machine(DRIVER + "gpu 0\n", squeue)
        self.assertEqual(machine.run(GTOP, "pick"), (0, "0\n", 'CUDA_VISIBLE_DEVICES="0"\n'))

    def test_devices_that_go_stale_while_slurm_is_asked_are_not_picked(self):
        # The driver hangs from the third second on; the answer comes five seconds later.
        squeue = "sleep 8; echo 'squeue: error: Unable to contact slurm controller' >&2; exit 1\n"
        machine = self.machine(DRIVER + "gpu 0\nat 3 fault nvml hang\n", squeue)
        code, out, err = machine.run(GTOP, "pick", "-n", "1", "--deadline", "40", "--json")
        reasons = [one["reason"] for one in json.loads(out)["refused"]]
        self.assertEqual((code, len(reasons)), (4, 1), err)
        self.assertRegex(reasons[0], "^stale: sampled [0-9]+ s ago$")


def catches(process, number):
    """Returns True if a process has a handler for a signal."""
    with open(f"/proc/{process.pid}/status") as status:
        caught = next(line for line in status if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


class Commands(unittest.TestCase):
    def setUp(self):
        self.machine = Machine(loads(Machine.pids(5)))

    def pick(self, *words):
        return self.machine.run(GTOP, "pick", *words)

    def test_the_command_gets_the_variables_and_returns_its_status(self):
        code, out, err = self.pick("-n", "2", "--", "sh", "-c", 'echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER $1"; exit 37', "x", "-n")
        self.assertEqual((code, out, err), (37, "1,4 PCI_BUS_ID -n\n", ""))
        code, out, _ = self.pick("-n", "1", "-O", "uuid", "--", "printenv", "CUDA_VISIBLE_DEVICES")
        self.assertEqual((code, out), (0, gpu_uuid(self.machine, 1) + "\n"))
        code, out, _ = self.pick("-n", "0", "--", "sh", "-c", 'echo "<$CUDA_VISIBLE_DEVICES${ROCR_VISIBLE_DEVICES-unset}>"')
        self.assertEqual((code, out), (0, "<>\n"))

    def test_the_command_has_the_limits_and_signals_that_gtop_was_started_with(self):
        script = "ulimit -n; grep -E '^Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd | wc -l"
        plain = self.machine.run("sh", "-c", f"ulimit -Sn 512; exec sh -c \"{script}\"")[1]
        picked = self.machine.run("sh", "-c", f"ulimit -Sn 512; exec '{GTOP}' pick -n 1 -- sh -c \"{script}\"")[1]
        self.assertEqual(picked.replace("SigIgn:\t0000000000001000", "SigIgn:\t0000000000000000"),
                         plain.replace("SigIgn:\t0000000000001000", "SigIgn:\t0000000000000000"))
        self.assertTrue(picked.startswith("512\n"), picked)

    def test_signals_that_were_ignored_stay_so(self):
        script = f"trap '' HUP INT QUIT; exec '{GTOP}' pick -n 1 -- sh -c 'grep SigIgn /proc/self/status; echo \"$CUDA_VISIBLE_DEVICES|$1\"; exit 9' x 'a  b'"
        code, out, _ = self.machine.run("sh", "-c", script)
        mask, line = out.splitlines()
        self.assertEqual((code, line, int(mask.split()[1], 16) & 7), (9, "1|a  b", 7))

    def test_too_few_devices_do_not_run_it(self):
        code, out, err = self.pick("-n", "3", "-G", "0", "--", "echo", "ran")
        self.assertEqual((code, out), (4, ""))
        self.assertIn("echo does not run: 1 device found, 3 wanted", err)

    def test_a_command_that_cannot_run_is_reported_at_once(self):
        blocked = Machine(DRIVER + "gpu 0\nfault nvmlInit_v2 hang\n")
        code, out, err = blocked.run(GTOP, "pick", "-n", "1", "--deadline", "60", "--", "no-such-command-here", seconds=30)
        self.assertEqual((code, out), (127, ""))
        self.assertIn("no-such-command-here: command not found", err)
        plain = os.path.join(rig.folder(), "plain")
        with open(plain, "w") as out:
            out.write("echo ran\n")
        for path in (plain, os.path.dirname(plain)):
            code, out, err = blocked.run(GTOP, "pick", "--", path, seconds=30)
            self.assertEqual((code, out), (126, ""))
            self.assertIn("not an executable file", err)
        self.assertEqual(blocked.run(GTOP, "pick", "--", plain + ".not", seconds=30)[0], 127)
        # The check passes, and executing fails.
        with open(plain, "w") as out:
            out.write("#!/no/such/interpreter\n")
        os.chmod(plain, 0o755)
        self.assertIn(self.pick("-n", "1", "--", plain)[0], (126, 127))

    def test_signals_reach_it_and_no_process_is_left(self):
        mark = f"pick-{os.getpid()}-{time.time_ns()}"
        process = self.machine.start(GTOP, "pick", "-n", "1", "--", "sh", "-c", f": {mark}; trap 'echo got; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
        with process:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            with open(f"/proc/{process.pid}/comm") as comm:
                self.assertEqual(comm.read(), "sh\n", "gtop became the command")
            children = subprocess.run(["ps", "--ppid", str(process.pid), "-o", "comm="], stdout=subprocess.PIPE, check=False).stdout.decode().split()
            self.assertEqual([one for one in children if one != "sleep"], [], "nothing of gtop is left")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.stdout.readline(), b"got\n")
            self.assertEqual(process.wait(60), 5)

    def test_a_signal_ends_it_with_that_signal(self):
        process = self.machine.start(GTOP, "pick", "-n", "1", "--", "sh", "-c", "echo ready; exec sleep 1000")
        # SIGINT may be ignored here, and then it is ignored by the command too.
        with process:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), -signal.SIGTERM)

    def test_picks_at_once_take_different_devices(self):
        begin = [GTOP, "pick", "-n", "1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 1000"]
        processes = [self.machine.start(*begin) for _ in range(6)]
        for process in processes:
            self.addCleanup(process.__exit__, None, None, None)
            self.addCleanup(process.kill)
        lines = sorted(process.stdout.readline() for process in processes)
        self.assertEqual(lines, [b"%d\n" % device for device in range(6)])
        code, out, err = self.pick("-n", "1")
        self.assertEqual((code, out), (4, "\n"))
        self.assertIn("another gtop pick has reserved it", err)
        self.assertEqual(self.pick("-n", "1", "--no-lock")[0], 0)
        # The lock of a command that is killed ends with it.
        processes[0].kill()
        processes[0].wait()
        self.assertEqual(self.pick("-n", "1", "--wait=60s")[0], 0)

    def test_a_command_picks_among_its_own_devices(self):
        code, out, err = self.pick("-n", "2", "--", GTOP, "pick", "-i", "-n", "1", "--deadline", "60")
        self.assertEqual((code, out), (0, "1\n"), err)

    def elsewhere(self, *conditions):
        """Returns the options for a program that reaches this machine as another one, as soon as these files exist."""
        path = os.path.join(rig.folder(), "reach")
        with open(path, "w") as out:
            out.write("#!/bin/sh\n" + "".join(f"[ -e '{one}' ] || exit 1\n" for one in conditions))
            out.write("exec unshare --uts sh -c 'hostname other; exec sh -c \"$0\"' \"$2\"\n")
        os.chmod(path, 0o755)
        return "--exec", path + " {node} {command}"

    @unittest.skipUnless(os.getuid() == 0, "needs root")
    def test_a_command_for_another_node_need_not_be_here(self):
        reach = self.elsewhere()
        code, out, err = self.pick(*reach, "n1", "-n", "1", "--", "no-such-command-here", "-x")
        self.assertEqual((code, out), (2, ""), err)
        self.assertIn(f"this runs it there: gtop pick --on-node --exec '{reach[1]}' n1 -n 1 -- no-such-command-here -x\n", err)
        code, out, err = self.pick("--on-node", *reach, "n1", "-n", "1", "--", "no-such-command-here")
        self.assertEqual((code, out), (127, ""), err)

    @unittest.skipUnless(os.getuid() == 0, "needs root")
    def test_the_line_that_works_names_a_node_whose_name_was_piped(self):
        reach = self.elsewhere()
        for hosts in (["--hosts-file", "-"], ["--hosts-file=/dev/stdin"]):
            code, _, err = self.machine.run(GTOP, "pick", *reach, *hosts, "-n", "1", "--", "hostname", stdin="n1\n")
            self.assertEqual(code, 2, err)
            self.assertIn(f"gtop pick --on-node n1 --exec '{reach[1]}' -n 1 -- hostname\n", err)
        self.assertEqual(self.pick("--on-node", "n1", *reach, "-n", "1", "--", "hostname")[:2], (0, "other\n"))

    @unittest.skipUnless(os.getuid() == 0, "needs root")
    def test_a_node_that_does_not_answer_yet_is_waited_for(self):
        for words, printed in (([], b"1\n"), (["--on-node", "--", "hostname"], b"other\n")):
            up = os.path.join(rig.folder(), "up")
            process = self.machine.start("sh", "-c", 'exec "$@" 2>&1', "sh", GTOP, "pick", *self.elsewhere(up), "n1", "-n", "1",
                                         "--wait=5m", *words)
            self.addCleanup(process.__exit__, None, None, None)
            self.addCleanup(process.kill)
            self.assertIn(b"gtop: waiting: no devices: no node answered", process.stdout.readline())
            with open(up, "w"):
                pass
            self.assertIn(printed, process.stdout)

    def test_a_signal_while_waiting_ends_gtop(self):
        hung = Machine(DRIVER + "gpu 0\nfault nvml slow 30000000\n")
        process = hung.start(GTOP, "pick", "-n", "1", "--deadline", "300", "--", "echo", "ran")
        with process:
            while not catches(process, signal.SIGINT):
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            self.assertEqual((process.stdout.read(), process.wait(60)), (b"", 130))


if __name__ == "__main__":
    unittest.main()
