"""The gtop that all Python processes of a user share: it starts with the first of them and ends with the last.

    GTOP=path/to/gtop python3 -m unittest -v test_sharing
"""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

import rig
from rig import Machine
from scenarios import DRIVER
from test_python import BEGIN, FAKE, module_folder, pythons

# Prints the memory in use, and obeys its input line by line.
PROGRAM = BEGIN + """
device = Device(0)
print(device.memory_used() >> 20, flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_true, seconds=120):
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "does not come true"
        time.sleep(0.02)


class Sharing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rig.needs_packages()
        cls.folder = module_folder()

    def setUp(self):
        self.runtime = rig.folder()
        self.home = rig.folder()
        self.machine = self.on(self.home)

    def on(self, home, **environment):
        """Returns a machine whose programs have this home."""
        return Machine(DRIVER + "gpu 0 used_mib=7\n", **{
            "GTOP": rig.GTOP, "PYTHONPATH": self.folder, "HOME": home, "XDG_RUNTIME_DIR": self.runtime, **environment})

    def start(self, machine=None, code=PROGRAM, python=rig.PYTHON, under=()):
        """Starts a program that uses a device; returns once it has the first value."""
        program = (machine or self.machine).start(*under, python, "-c", code)
        self.addCleanup(self.end, program)
        self.assertEqual(program.stdout.readline(), b"7\n")
        return program

    def tell(self, program, line):
        program.stdin.write(line.encode() + b"\n")
        program.stdin.flush()
        self.assertEqual(program.stdout.readline(), b"done\n")

    @staticmethod
    def end(program):
        """Lets a program end by itself."""
        if program.stdin.closed:
            return
        program.stdin.close()
        program.wait(60)
        program.stdout.close()

    def gtops(self, home=None):
        """Returns the pids of the gtops that programs with this home share."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as words, open(f"/proc/{pid}/environ", "rb") as variables:
                    is_meant = f"HOME={home or self.home}".encode() in variables.read().split(b"\0")
                    if b"--feed" in words.read().split(b"\0") and is_meant and is_running(pid):
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def nothing_is_left(self):
        wait_until(lambda: not self.gtops())
        wait_until(lambda: not os.listdir(self.runtime))

    def test_all_processes_share_one_and_it_ends_with_the_last(self):
        first = self.start(under=["setsid"])
        gtop, = self.gtops()
        socket_file, = os.listdir(os.path.join(self.runtime, "gtop"))
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.runtime, "gtop")).st_mode), 0o700)
        self.assertTrue(socket_file.startswith("python-"))
        others = [self.start(python=python) for python in pythons().values()]
        self.assertEqual(self.gtops(), [gtop])
        # The process that has started gtop goes, as by Ctrl-C with all of its group: the others keep their values.
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        for other in others:
            self.tell(other, "assert gtop_monitor.stream().wait(60) and device.memory_used() == 7 << 20")
        self.assertEqual(self.gtops(), [gtop])
        for other in others:
            self.assertTrue(is_running(gtop))
            self.end(other)
        self.nothing_is_left()

    def test_processes_that_start_at_once_share_one(self):
        programs = [self.machine.start(rig.PYTHON, "-c", PROGRAM) for _ in range(12)]
        for program in programs:
            self.addCleanup(self.end, program)
        for program in programs:
            self.assertEqual(program.stdout.readline(), b"7\n")
        self.assertEqual(len(self.gtops()), 1)
        for program in programs:
            self.end(program)
        self.nothing_is_left()

    def test_processes_that_come_and_go_always_have_values(self):
        """Each start meets a gtop that may just be ending."""
        code = BEGIN + "print(Device(0).memory_used() >> 20, flush=True)"
        for _ in range(15):
            pair = [self.machine.start(rig.PYTHON, "-c", code) for _ in range(2)]
            for program in pair:
                self.assertEqual(program.communicate(timeout=120)[0], b"7\n")
        self.nothing_is_left()

    def test_a_gtop_that_was_killed_is_replaced_by_one_for_all(self):
        programs = [self.start() for _ in range(3)]
        gtop, = self.gtops()
        os.kill(gtop, signal.SIGKILL)
        for program in programs:
            self.tell(program, f"wait_until(lambda: device.memory_used() == 7 << 20 and gtops() not in ([], [{gtop}]) "
                      "and gtop_monitor.stream().wait(1))")
        self.assertEqual(len(self.gtops()), 1)
        for program in programs:
            self.end(program)
        self.nothing_is_left()

    def test_a_socket_that_nobody_listens_on_is_replaced(self):
        program = self.start()
        folder = os.path.join(self.runtime, "gtop")
        name, = os.listdir(folder)
        self.end(program)
        self.nothing_is_left()
        os.mkdir(folder, 0o700)
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(os.path.join(folder, name))
        # What a gtop with other arguments has left.
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(os.path.join(folder, "python-of-another"))
        self.end(self.start())
        self.nothing_is_left()

    def fake_once(self, script):
        """Returns a machine whose gtop is this script at its first start, and gtop from then on."""
        path = os.path.join(rig.folder(), "gtop")
        flag = path + ".used"
        with open(path, "w") as file:
            file.write(f"#!{sys.executable}\n{FAKE}\nif os.path.exists({flag!r}): os.execv({rig.GTOP!r}, sys.argv)\n"
                       f"open({flag!r}, 'w').close()\n{script}\n")
        os.chmod(path, 0o755)
        return self.on(self.home, GTOP=path), flag

    def test_a_gtop_that_hangs_is_not_waited_for(self):
        machine, flag = self.fake_once("accept().recv(1)")
        hangs = machine.start(rig.PYTHON, "-c", BEGIN + "gtop_monitor._DEADLINE_SECONDS = 1e9; Device(0)")
        for clean_up in (hangs.stdout.close, hangs.stdin.close, hangs.wait, hangs.kill):
            self.addCleanup(clean_up)
        wait_until(lambda: os.path.exists(flag))
        self.end(self.start(machine, PROGRAM.replace("device =", "gtop_monitor._STUCK_SECONDS = 0.5\ndevice =")))

    def test_a_gtop_that_ends_while_a_process_connects(self):
        snapshot = json.dumps(self.machine.snapshot("--local")).encode() + b"\n"
        machine, _ = self.fake_once(f"first = accept(); first.sendall({snapshot!r}); accept()")
        first = self.start(machine)
        self.start(machine)
        self.tell(first, "wait_until(lambda: device.is_fresh() and gtop_monitor.stream().wait(1))")
        self.assertEqual(len(self.gtops()), 1)

    def test_what_differs_is_not_shared(self):
        self.start()
        mine, = self.gtops()
        self.start(code=PROGRAM.replace("device =", "connect(interval=0.5)\ndevice ="))
        self.start(self.on(self.home, GTOP_DEADLINE="30"))
        of_home = self.gtops()
        self.assertEqual(len(of_home), 3)
        # The settings of another home.
        other = rig.folder()
        self.start(self.on(other))
        self.assertEqual(len(self.gtops(other)), 1)
        # What does not matter to gtop.
        self.start(self.on(self.home, RANK="3", PATH=os.environ["PATH"] + ":/nonexistent"))
        self.assertEqual(sorted(self.gtops()), sorted(of_home))
        self.assertIn(mine, of_home)

    def test_a_gtop_that_was_replaced_is_not_the_one_that_runs(self):
        path = os.path.join(rig.folder(), "gtop")
        os.symlink(rig.GTOP, path)
        wrapper = os.path.join(rig.folder(), "gtop")

        def write(text):
            with open(wrapper + ".new", "w") as file:
                file.write(f"#!/bin/sh\n# {text}\nexec {path} \"$@\"\n")
            os.chmod(wrapper + ".new", 0o755)
            os.replace(wrapper + ".new", wrapper)

        machine = self.on(self.home, GTOP=wrapper)
        write("old")
        self.start(machine)
        self.assertEqual(len(self.gtops()), 1)
        write("new")
        self.start(machine)
        self.assertEqual(len(self.gtops()), 2)

    def test_a_forked_process_shares_it_too(self):
        program = self.start()
        gtop, = self.gtops()
        self.tell(program, "child = os.fork(); child or os._exit(0 if device.memory_used() == 7 << 20 else 1)")
        self.tell(program, "assert os.waitpid(child, 0)[1] == 0 and device.memory_used() == 7 << 20")
        self.assertEqual(self.gtops(), [gtop])
        # A child that uses no device does not keep it, whether its parent closes the stream or is killed.
        end = os.path.join(self.home, "end")
        self.addCleanup(lambda: open(end, "w").close())
        idle = (f"child = os.fork(); child or (list(map(os.close, (0, 1, 2))), wait_until(lambda: os.path.exists({end!r})), "
                "os._exit(0))")
        self.tell(program, idle)
        self.tell(program, "gtop_monitor.stream().close()")
        wait_until(lambda: not self.gtops())
        self.tell(program, "wait_until(lambda: device.memory_used() == 7 << 20)")
        self.tell(program, idle)
        program.kill()
        wait_until(lambda: not self.gtops())

    def test_the_end_of_gtop_leaves_no_zombie(self):
        program = self.start()
        gtop, = self.gtops()
        self.tell(program, "gtop_monitor.stream().close()")
        wait_until(lambda: not os.path.exists(f"/proc/{gtop}"))

    def test_without_a_private_folder_each_process_has_its_own(self):
        open(os.path.join(self.runtime, "gtop"), "w").close()
        programs = [self.start(), self.start()]
        self.assertEqual(len(self.gtops()), 2)
        for program in programs:
            self.end(program)
        wait_until(lambda: not self.gtops())
        self.assertEqual(os.listdir(self.runtime), ["gtop"])

    def test_a_folder_that_others_can_enter_is_not_used(self):
        os.mkdir(os.path.join(self.runtime, "gtop"))
        os.chmod(os.path.join(self.runtime, "gtop"), 0o777)
        self.start()
        self.assertEqual(os.listdir(os.path.join(self.runtime, "gtop")), [])
        self.assertEqual(len(self.gtops()), 1)

    def test_a_path_too_long_for_a_socket(self):
        runtime, scratch = os.path.join(rig.folder(), "x" * 100), rig.folder()
        os.mkdir(runtime, 0o700)
        program = self.start(self.on(self.home, XDG_RUNTIME_DIR=runtime, TMPDIR=scratch))
        self.assertEqual(os.listdir(scratch), [])
        self.end(program)
        wait_until(lambda: not self.gtops())

    @unittest.skipUnless(os.getuid() == 0, "needs root")
    def test_a_container_does_not_share_that_of_the_host(self):
        self.start()
        program = self.machine.start("unshare", "--pid", "--fork", "--mount-proc", rig.PYTHON, "-c", PROGRAM)
        self.addCleanup(self.end, program)
        self.assertEqual(program.stdout.readline(), b"7\n")
        self.assertEqual(len(self.gtops()), 2)

    def test_without_a_socket_it_is_an_error(self):
        done = subprocess.run([rig.GTOP, "--json", "--watch", "--feed", "--local"], stdin=subprocess.DEVNULL,
                              env=self.machine.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"standard input is not a listening socket", done.stderr)
