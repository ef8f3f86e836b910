"""`gtop pick --on-node` runs the command on the node of the devices as `ssh` would: with the terminal, the pipes, the exit
status and the signals."""

import fcntl
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import termios
import time
import unittest

from harness import CONNECT_TIMEOUT, LabCase, TIMEOUT, wait_for

GTOP = "/run/lab/bin/gtop"
PICK = (GTOP, "pick", "--connect-timeout", str(CONNECT_TIMEOUT), "--deadline", "30", "--on-node")


class OnNode(LabCase):
    NODES, GPUS = 2, 4

    @classmethod
    def prepare(cls):
        # The devices of gpu02 are better.
        cls.lab.set_gpus("gpu01", re.sub(r"used_mib=\d+", "used_mib=70000", cls.lab.gpu_file("gpu01")))
        cls.lab.set_gpus("gpu02", re.sub(r"used_mib=\d+", "used_mib=5", cls.lab.gpu_file("gpu02")))

    def pick(self, *words, **options):
        return self.lab.run(*PICK, *words, **{"timeout": 120, **options})

    def test_it_runs_there_with_the_variables_and_its_words_as_they_are(self):
        words = ["it's", "two words", "a\\b\\\\c", "$HOME", "*", "", "!!", "é\n"]
        program = "import os, sys; print(os.uname()[1], os.environ['CUDA_VISIBLE_DEVICES'], os.environ['CUDA_DEVICE_ORDER'], sys.argv[1:], os.getcwd())"
        done = self.pick("-n", "2", "gpu01", "gpu02", "--", "python3", "-c", program, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        home = self.lab.run("ssh", "gpu02", "pwd").stdout.strip()
        self.assertRegex(done.stdout, r"\Agpu02 (\d),(?!\1)\d PCI_BUS_ID ")
        self.assertTrue(done.stdout.endswith(f"{words!r} {home}\n"), done.stdout)

    def test_without_it_the_refusal_prints_the_line_that_works(self):
        words = [word for word in PICK if word != "--on-node"]
        done = self.lab.run(*words, "-n", "1", "gpu[01-02]", "--", "sh", "-c", 'echo "ran on $(uname -n)"')
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        line = done.stderr.strip().rpartition("this runs it there: ")[2]
        words = shlex.split(line)
        self.assertEqual(words[:3], ["gtop", "pick", "--on-node"], done.stderr)
        done = self.lab.run(GTOP, *words[1:], timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, "ran on gpu02\n"), done.stderr)

    def test_exit_statuses_and_both_outputs_are_those_of_ssh(self):
        for script in ("exit 0", "echo out; echo err >&2; exit 7", "kill -TERM $$", "kill -9 $$", "no-such-command", "exit 255"):
            with self.subTest(script):
                ours = self.pick("-n", "1", "gpu02", "--", "sh", "-c", script)
                theirs = self.lab.run("sh", "-c", f"ssh gpu02 {shlex.quote('exec sh -c ' + shlex.quote(script))}")
                # ssh tells no signals.
                status = {"kill -TERM $$": 143, "kill -9 $$": 137}.get(script, theirs.returncode)
                self.assertEqual((ours.returncode, ours.stdout, ours.stderr.replace("sh: 1: ", "")), (status, theirs.stdout, theirs.stderr.replace("sh: 1: ", "")))
        self.assertEqual(self.pick("-n", "1", "gpu02", "--", "/no/such/program").returncode, 127)

    def test_input_and_output_of_any_size_pass_through(self):
        text = "".join(f"line {number}\n" for number in range(200_000))
        done = self.pick("-n", "1", "gpu02", "--", "cat", stdin=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout == text, f"{len(done.stdout)} of {len(text)}")

    def test_too_few_on_one_node_do_not_run(self):
        done = self.pick("-n", "5", "gpu01", "gpu02", "--", "echo", "ran")
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertIn("echo does not run: 4 devices found, 5 wanted", done.stderr)

    def start(self, *words, **options):
        command = self.lab.command(*PICK, *words)
        process = subprocess.Popen(command, text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **options})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for stream in (process.stdout, process.stderr):
            if stream:
                self.addCleanup(stream.close)
        return process

    def gtop_pid(self, mark):
        """Returns the pid of the gtop with this word among its arguments."""
        def find():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        words = file.read().split(b"\0")
                except OSError:
                    continue
                if words[1:2] == [b"pick"] and mark.encode() in b" ".join(words):
                    return int(pid)
            return None
        return wait_for("the process of gtop", find)

    def test_signals_are_passed_on(self):
        script = "trap 'echo got TERM; exit 5' TERM; trap 'echo got INT' INT; echo mark-signals; while :; do sleep 0.05; done"
        process = self.start("-n", "1", "gpu02", "--", "sh", "-c", script)
        self.assertEqual(process.stdout.readline(), "mark-signals\n")
        pid = self.gtop_pid("mark-signals")
        os.kill(pid, signal.SIGINT)
        self.assertEqual(process.stdout.readline(), "got INT\n")
        os.kill(pid, signal.SIGINT)
        self.assertEqual(process.stdout.readline(), "got INT\n")
        os.kill(pid, signal.SIGTERM)
        self.assertEqual(process.stdout.read(), "got TERM\n")
        self.assertEqual(process.wait(TIMEOUT), 5, process.stderr.read())

    def test_with_a_terminal_keys_sizes_and_control_c_reach_the_command(self):
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
        before = termios.tcgetattr(theirs)
        script = ("test -t 0 && test -t 1 && stty size; trap 'stty size' WINCH; trap 'echo interrupted; exit 9' INT; "
                  "echo mark-terminal; read line; echo \"read $line\"; while :; do sleep 0.05; done")
        process = self.start("-n", "1", "gpu02", "--", "sh", "-c", script, stdin=theirs, stdout=theirs, stderr=theirs,
                             start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        seen = b""

        def until(text):
            nonlocal seen
            def read():
                nonlocal seen
                seen += os.read(ours, 4096)
                return text in seen
            wait_for(lambda: f"{text}: {seen}", read)
        until(b"mark-terminal")
        self.assertIn(b"31 97", seen)
        os.write(ours, b"hello\r")
        until(b"read hello")
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.kill(self.gtop_pid("mark-terminal"), signal.SIGWINCH)
        until(b"40 120")
        os.write(ours, b"\x03")
        until(b"interrupted")
        self.assertEqual(process.wait(TIMEOUT), 9)
        self.assertEqual(termios.tcgetattr(theirs), before, "the terminal is as it was")
        os.close(theirs)

    def test_a_lost_connection_ends_it(self):
        process = self.start("-n", "1", "gpu02", "--", "sh", "-c", "echo mark-lost; sleep 600")
        self.assertEqual(process.stdout.readline(), "mark-lost\n")
        self.lab.run("sh", "-c", "pkill -f '[s]shd.*alice' || pkill sshd-session", node="gpu02", user="root")
        self.assertEqual(process.wait(TIMEOUT), 255)
        self.assertRegex(process.stderr.read(), "the connection to gpu02 ended before the command")

    def test_by_the_ssh_program_and_by_exec(self):
        program = "echo $(uname -n) $CUDA_VISIBLE_DEVICES; cat; exit 3"
        for words in (("--transport", "ssh"), ("--exec", "ssh {node} {command}")):
            with self.subTest(words):
                done = self.pick("-n", "1", *words, "gpu02", "--", "sh", "-c", program, stdin="given\n")
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertRegex(done.stdout, r"\Agpu02 \d\ngiven\n\Z")
        done = self.pick("-n", "1", "--exec", "ssh {node} sh", "gpu02", "--", "true")
        self.assertEqual(done.returncode, 255)
        self.assertIn("--exec has no {command}", done.stderr)


class Picks(LabCase):
    """Picks beside each other and beside others' programs, on nodes without a scheduler."""

    NODES, GPUS = 1, 4

    @classmethod
    def prepare(cls):
        cls.lab.set_gpus("gpu01", re.sub(r"used_mib=\d+", "used_mib=5", cls.lab.gpu_file("gpu01")))
        # The host keys that alice knows.
        script = "cp /home/alice/.ssh/known_hosts /home/bob/.ssh/ && chown bob: /home/bob/.ssh/known_hosts"
        cls.lab.run("sh", "-c", script, user="root")

    def pick(self, *words, **options):
        words = (GTOP, "pick", "--connect-timeout", str(CONNECT_TIMEOUT), "--deadline", "30", *words)
        return self.lab.run(*words, **{"timeout": 120, **options})

    def start(self, *words, user="alice"):
        command = self.lab.command(*PICK, *words, user=user)
        process = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for stream in (process.stdin, process.stdout, process.stderr):
            self.addCleanup(stream.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_picks_at_once_take_others_and_a_lock_ends_with_its_command(self):
        script = "echo $CUDA_VISIBLE_DEVICES; cat"
        processes = [self.start("-n", "1", "gpu01", "--", "sh", "-c", script, user=user) for user in ("alice", "bob", "alice", "bob")]
        lines = sorted(process.stdout.readline() for process in processes)
        self.assertEqual(lines, ["0\n", "1\n", "2\n", "3\n"], [process.stderr.read() for process in processes if process.poll()])
        done = self.pick("-n", "1", "gpu01")
        self.assertEqual((done.returncode, done.stdout), (4, "\n"))
        self.assertIn("another gtop pick has reserved it", done.stderr)
        self.assertEqual(self.pick("-n", "1", "--no-lock", "gpu01").returncode, 0)
        # One that waits gets the device of the command that ends.
        waiting = self.start("-n", "1", "--wait", "gpu01", "--", "sh", "-c", script)
        self.assertIn("gtop: waiting: 0 devices found, 1 wanted", waiting.stderr.readline())
        processes[0].stdin.close()
        self.assertEqual(processes[0].wait(TIMEOUT), 0)
        self.assertIn(waiting.stdout.readline(), lines)
        for process in (*processes[1:], waiting):
            process.stdin.close()
            self.assertEqual(process.wait(TIMEOUT), 0)
        self.assertEqual(self.pick("-n", "4", "gpu01").returncode, 0)

    def test_what_is_printed_is_reserved_only_when_asked_for_and_for_its_time(self):
        self.assertEqual(self.pick("-n", "4", "gpu01").returncode, 0)
        printed = time.time()
        self.assertEqual(self.pick("-n", "4", "--lock=20s", "gpu01").returncode, 0)
        # Whoever waits for them has to wait for the end of the lock.
        waiting = self.start("-n", "4", "--wait", "gpu01", "--", "echo", "runs", user="bob")
        self.assertEqual(waiting.stdout.readline(), "runs\n")
        self.assertRegex(waiting.stderr.read(), "waiting: 0 devices found.* another gtop pick has reserved it")
        self.assertGreater(time.time() - printed, 20)

    def test_waiting_ends_with_its_time(self):
        began = time.monotonic()
        done = self.pick("-n", "5", "--wait=2s", "gpu01")
        self.assertEqual(done.returncode, 4)
        self.assertGreater(time.monotonic() - began, 2)
        self.assertIn("gtop: waiting: 4 devices found, 5 wanted", done.stderr)

    def test_a_device_that_becomes_free_is_picked(self):
        text = self.lab.gpu_file("gpu01")
        self.addCleanup(self.lab.set_gpus, "gpu01", text)
        self.lab.set_gpus("gpu01", text.replace("used_mib=5", "used_mib=70000", 1))
        waiting = self.start("-n", "4", "-f", "60GiB", "--wait", "gpu01", "--", "echo", "runs")
        self.assertIn("gtop: waiting: 3 devices found, 4 wanted", waiting.stderr.readline())
        self.lab.set_gpus("gpu01", text)
        self.assertEqual(waiting.stdout.readline(), "runs\n")
        self.assertEqual(waiting.wait(TIMEOUT), 0)


if __name__ == "__main__":
    unittest.main()
