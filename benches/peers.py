#!/usr/bin/env python3
"""gtop beside other monitors on one machine, each as its users start it, on the same simulated devices.

    benches/peers.py [--seconds 30] [--rounds 5] NAME=COMMAND…

such as `gtop='target/dist/gtop --local' nvitop='nvitop' nvidb='nvidb --no-remote'`. Each runs on a terminal of 120
columns and 40 rows with the NVML stub of tests/stubs, which has eight devices with a process on each. Needs Linux and a
C compiler. Prints a table in Markdown: the time from the start to the first screen with a device on it (median), then,
over the seconds after the first five, the processor time as a share of one core, the memory (Pss) and the output; all of
the program and its children. Compares and checks nothing.
"""

import argparse
import fcntl
import os
import pty
import re
import select
import shlex
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
DEVICES = 8
# A model and a power limit, of which each program shows one with the devices.
MODEL, LIMIT = "Nebula 9", 613
TICKS = os.sysconf("SC_CLK_TCK")


def stub(folder):
    """Builds the stub and its state; returns the environment, and the processes on its devices."""
    source = os.path.join(TOP, "tests", "stubs", "nvml.c")
    name = "libnvidia-ml.so.1"
    command = ["cc", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", f"-Wl,-soname,{name}", "-DENTRY=24"]
    subprocess.check_call([*command, "-o", os.path.join(folder, name), source])
    users = [subprocess.Popen(["sleep", "100000"]) for _ in range(DEVICES)]
    lines = ["driver 570.124.06 12080"]
    for number, user in enumerate(users):
        lines.append(f"gpu {number} util={40 + 5 * number}%20 used_mib=30000%900 limit_mw={LIMIT}000 limit_requested_mw={LIMIT}000 name={MODEL}")
        lines.append(f"proc {number} {user.pid} 29000 sm=40%20")
    state = os.path.join(folder, "state")
    with open(state, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    environment = dict(os.environ, LD_LIBRARY_PATH=folder, NVML_STUB_STATE=state, HOME=folder, TERM="xterm-256color")
    return dict(environment, LC_ALL="C.UTF-8", COLUMNS="120", LINES="40"), users


class Run:
    """A program on a terminal; everything that it prints is read."""

    def __init__(self, command, environment):
        words = shlex.split(command)
        path = shutil.which(words[0]) or words[0]
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            # Waits until the terminal has its size.
            os.read(0, 1)
            os.execve(path, [path, *words[1:]], environment)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        attributes = termios.tcgetattr(self.terminal)
        attributes[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(self.terminal, termios.TCSANOW, attributes)
        self.text, self.count = b"", 0
        self.began = time.monotonic()
        os.write(self.terminal, b"x")

    def read(self, seconds, until=None):
        """Reads for some seconds, or until a pattern is on the screen; returns true if it is."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.terminal], [], [], min(left, 0.1))[0]:
                continue
            try:
                data = os.read(self.terminal, 65536)
            except OSError:
                return False
            self.count += len(data)
            if until is not None:
                self.text += data
                if until.search(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b" ", self.text)):
                    return True
        return False

    def tree(self):
        """Returns the pids of the program and its descendants."""
        parents = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    parents.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
            except OSError:
                continue
        found = [self.pid]
        for pid in found:
            found.extend(parents.get(pid, []))
        return found

    def processor_seconds(self):
        total = 0
        for pid in self.tree():
            try:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    total += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
            except OSError:
                continue
        return total / TICKS

    def memory(self):
        """Returns the memory in MB, shared pages divided among those that share them."""
        total = 0
        for pid in self.tree():
            try:
                with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
                    total += int(re.search(r"^Pss: +(\d+)", file.read(), re.MULTILINE)[1])
            except (OSError, TypeError):
                continue
        return total * 1024 / 1e6

    def end(self):
        for pid in reversed(self.tree()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def first_screen(command, environment):
    """Returns the seconds to the first screen with a device; None if there was none in 30 seconds."""
    run = Run(command, environment)
    found = run.read(30, re.compile(f"{MODEL.split()[0]}|{LIMIT}".encode()))
    seconds = time.monotonic() - run.began
    run.end()
    return seconds if found else None


def steady(command, environment, seconds):
    """Returns the share of a core, the memory in MB and the output in kB a second."""
    run = Run(command, environment)
    run.read(5)
    before, run.count, began = run.processor_seconds(), 0, time.monotonic()
    run.read(seconds)
    passed = time.monotonic() - began
    result = ((run.processor_seconds() - before) / passed, run.memory(), run.count / passed / 1000)
    run.end()
    return result


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return f"{os.cpu_count()} cores of {model[1] if model else os.uname().machine}, {time.strftime('%Y-%m-%d')}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("programs", nargs="+", metavar="NAME=COMMAND")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="gtop-peers-")
    environment, users = stub(folder)
    print(f"{machine()}; {DEVICES} devices\n")
    print("| program | first screen | processor, of one core | memory | output |\n|---|---|---|---|---|")
    try:
        for program in options.programs:
            name, _, command = program.partition("=")
            times = [first_screen(command, environment) for _ in range(options.rounds)]
            if None in times:
                print(f"| {name} | no device in 30 s | – | – | – |", flush=True)
                continue
            share, memory, output = steady(command, environment, options.seconds)
            first = statistics.median(times)
            print(f"| {name} | {first:.2f} s | {100 * share:.1f} % | {memory:.0f} MB | {output:.1f} kB/s |", flush=True)
    finally:
        for user in users:
            user.kill()
            user.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
