#!/usr/bin/env python3
"""The screen: how soon first data and answers to keys are on it, bytes per second, CPU time of the whole program.

    cargo build --profile dist && cargo bench --bench fleet --no-run
    benches/screen.py [PROGRAM [BEFORE]] [--nodes 256,1000] [--seconds 30] [--sizes 80x24,200x60] [--only silent,first,pace,output,keys]

Each program runs in a pseudo-terminal; with two, the figures of both are printed one after the other.

silent  Hosts that accept a connection and say nothing: the time from the start of the program to its first frame, and, with
        the most hosts, from a key to its frame while all of them connect.
first   16 nodes, each a stub behind `--exec` that writes its first sample at a known time, 37 ms apart. The figures are the
        times from that write to the number on the screen, which a small terminal emulator reads; and the time from the start
        of the program to its first frame.
pace    This machine and simulated nodes, sampled every 0.05 s: pictures and bytes per second, CPU time of the whole program
        and of the thread that draws.
output  64 simulated nodes: bytes written to the terminal, mean of the first 60 s.
keys    Nodes over real SSH on loopback, served by another process; without that program, by `--demo`. A frame is a
        synchronized update; a key's frame is the first one that begins after the key was written. Keys are pressed from the
        first frame on, while nodes connect, and again later; bytes and CPU time are measured in between, without key presses.
"""

import argparse
import fcntl
import glob
import json
import os
import pathlib
import pty
import random
import re
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TICK = os.sysconf("SC_CLK_TCK")
END = b"\x1b[?2026l"
# Each of these keys changes the screen.
KEYS = b"jjkjj3141jjk5161jk"


class Server:
    """Serves simulated nodes; `home` has the SSH configuration to reach them."""

    def __init__(self, program, nodes, seconds):
        command = [program, "--serve", str(nodes), "8", "5", str(seconds)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="gtop-bench-"))
        ssh = self.home / ".ssh"
        ssh.mkdir(mode=0o700)
        self.names, config, known = [], [], []
        for line in self.process.stdout:
            if line.strip() == "ready":
                break
            name, address, key, host_key = line.rstrip("\n").split("\t")
            host, _, port = address.rpartition(":")
            identity = ssh / f"id-{name}"
            identity.write_text(key.replace("|", "\n"), encoding="ascii")
            identity.chmod(0o600)
            self.names.append(name)
            config.append(
                f"Host {name}\n  HostName {host}\n  Port {port}\n  IdentityFile {identity}\n"
                "  IdentitiesOnly yes\n"
            )
            known.append(f"[{host}]:{port} {host_key}\n")
        (ssh / "config").write_text("".join(config), encoding="ascii")
        (ssh / "known_hosts").write_text("".join(known), encoding="ascii")
        hosts = self.home / "hosts"
        hosts.write_text("\n".join(self.names), encoding="ascii")
        self.arguments = ["-f", str(hosts)]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.home)


class Terminal:
    """The program in a pseudo-terminal, with these arguments and this home, or that of the user."""

    def __init__(self, program, arguments, home, size):
        width, height = size
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            if home is None:
                os.execve(program, [program, *arguments], {**os.environ, "TERM": "xterm-256color"})
            environment = {
                "HOME": str(home),
                "PATH": os.environ["PATH"],
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "USER": os.environ.get("USER", "root"),
            }
            at_home = str(ROOT / "tests/at_home")
            os.execve(at_home, [at_home, str(home), program, *arguments], environment)
        os.set_blocking(self.fd, False)

    def read(self, seconds):
        """Reads for this long, or until the program exits; returns the bytes."""
        got, until = b"", time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0:
                if select.select([self.fd], [], [], left)[0]:
                    got += os.read(self.fd, 1 << 16)
        except OSError:
            pass
        return got

    def first_frame(self):
        """Returns the seconds from the start to the end of the first frame."""
        got = b""
        while END not in got and time.monotonic() - self.began < 10:
            if select.select([self.fd], [], [], 1)[0]:
                got += os.read(self.fd, 1 << 16)
        return time.monotonic() - self.began

    def press(self, key):
        """Presses a key; returns the seconds to the end of its frame, None if there was none."""
        began = time.monotonic()
        os.write(self.fd, key)
        got = b""
        while time.monotonic() - began < 1:
            if select.select([self.fd], [], [], 0.05)[0]:
                got += os.read(self.fd, 1 << 16)
                if END in got:
                    return time.monotonic() - began
            elif got == b"" and time.monotonic() - began > 0.3:
                return None
        return None

    def type(self, count):
        """Presses keys at the pace of a user; returns the seconds to the frame of each."""
        durations = []
        for index in range(count):
            self.read(random.uniform(0.03, 0.12))
            duration = self.press(KEYS[index % len(KEYS) : index % len(KEYS) + 1])
            if duration is not None:
                durations.append(duration)
        return durations

    def cpu(self, thread=""):
        """Returns the CPU seconds of the program so far, of all threads, or of the one that draws."""
        fields = pathlib.Path(f"/proc/{self.pid}/{thread}stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def drawing_cpu(self):
        return self.cpu(f"task/{self.pid}/")

    def memory(self):
        """Returns the anonymous resident memory in MiB."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
        return float("nan")

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        self.read(1)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def percentiles(times):
    """Formats the median, the 99th percentile and the maximum, in milliseconds."""
    ordered = sorted(times)
    at = lambda share: ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000
    slowest = times.index(ordered[-1]) + 1
    return f"p50 {at(0.5):5.1f}  p99 {at(0.99):5.1f}  max {ordered[-1] * 1000:5.1f} ms (number {slowest} of {len(times)})"


# One step of a terminal: a control sequence, a hyperlink, or a character.
STEP = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\][^\x1b\x07]*(?:\x1b\\|\x07)|(.)", re.S)


class Grid:
    """What is on the screen after the last whole frame: rows of text."""

    def __init__(self, size):
        self.width, self.height = size
        self.rows = [[" "] * self.width for _ in range(self.height)]
        self.at = [0, 0]
        self.unread = b""

    def feed(self, data):
        """Takes bytes; returns true if a frame has ended."""
        self.unread += data
        whole, end, rest = self.unread.rpartition(END)
        if not end:
            return False
        self.unread = rest
        for step in STEP.finditer(whole.decode("utf-8", "replace")):
            self.step(*step.groups())
        return True

    def step(self, numbers, command, letter):
        row, column = self.at
        if letter is not None:
            if letter >= " " and row < self.height and column < self.width:
                self.rows[row][column] = letter
                self.at[1] += 1
        elif command == "H":
            parts = [int(part) for part in (numbers or "1;1").split(";")]
            self.at = [parts[0] - 1, parts[1] - 1]
        elif command == "C":
            self.at[1] += int(numbers or 1)
        elif command == "J":
            self.rows = [[" "] * self.width for _ in range(self.height)]

    def row_of(self, name):
        return next((row for row in map("".join, self.rows) if re.search(rf"\b{name}\b", row)), "")


def stub_load(number):
    """Returns the utilization that the stub of a node reports: another one for each node."""
    return 41 + number


def send_frame(frame):
    data = b"\x1egtop1 " + json.dumps(frame).encode() + b"\n"
    at = time.monotonic()
    os.write(1, data)
    return at


def run_stub(node, first_at, log):
    """Acts as the probe of a node behind `--exec`, whose first sample is written at this monotonic time."""
    line = os.read(0, 1 << 16).decode()
    length, nonce = re.search(r"(\d+) .([0-9a-f]{32})", line).groups()
    os.write(1, f"\n{nonce}\n".encode())
    left = int(length)
    while left > 0:
        left -= len(os.read(0, left))
    number = int(node[1:])
    time.sleep(max(0.0, first_at + 0.037 * number - time.monotonic()))
    now = time.monotonic()
    send_frame({
        "t": "hello", "v": 1, "probe": "python", "version": "3.11.2", "at": now, "time": time.time(), "host": node,
        "boot": node, "kernel": "6.1.0", "arch": "x86_64", "cpus": 8, "tick": 100, "page": 4096, "uid": 1000, "user": "ada",
        "hidepid": 0, "commands": ["heartbeat", "interval", "focus", "full"], "intervals": {"host": 1.0, "nvml": 1.0},
        "backends": [{"kind": "nvml", "state": "ready"}],
    })
    for count in range(1, 1 << 30):
        now = time.monotonic()
        device = {"uuid": f"GPU-{node}", "index": 0, "name": "H100", "util": stub_load(number), "memory_total": 85 << 30,
                  "memory_used": 40 << 30}
        ticks = int(now * 100)
        sample = {"t": "sample", "n": count, "at": now, "full": count == 1,
                  "host": {"at": now, "cpu": [ticks, 0, 0, ticks, 0, 0, 0, 0], "memory_total": 1 << 36},
                  "backends": [{"kind": "nvml", "at": now, "devices": [device]}]}
        at = send_frame(sample)
        if count == 1:
            pathlib.Path(log, node).write_text(repr(at), encoding="ascii")
        if select.select([0], [], [], 1)[0] and not os.read(0, 1 << 16):
            return


def measure_first(program, size, nodes=16):
    """Prints how soon the first frame, and the first numbers of each node, are on the screen."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="gtop-bench-"))
    (home / "log").mkdir()
    began = time.monotonic()
    first_at = began + 4
    names = [f"n{number:02}" for number in range(nodes)]
    stub = f"{sys.executable} -S {os.path.abspath(__file__)} --stub {{node}} {first_at} {home}/log"
    terminal = Terminal(program, ["--exec", stub, *names], home, size)
    grid, first_frame, seen = Grid(size), None, {}
    try:
        while time.monotonic() < first_at + 10 and len(seen) < nodes:
            if not select.select([terminal.fd], [], [], 0.5)[0]:
                continue
            data = os.read(terminal.fd, 1 << 16)
            at = time.monotonic()
            if not grid.feed(data):
                continue
            first_frame = first_frame or at - began
            for number, name in enumerate(names):
                if name not in seen and re.search(rf"\b{stub_load(number)}\b", grid.row_of(name).partition(name)[2]):
                    seen[name] = at
        times = [seen[name] - float((home / "log" / name).read_text()) for name in seen]
    finally:
        terminal.stop()
        shutil.rmtree(home)
    print(f"  first frame               {(first_frame or float('nan')) * 1000:.0f} ms after the start")
    if times:
        print(f"  first numbers on screen   {percentiles(times)} nodes (of {nodes})")
    else:
        print("  first numbers on screen   none was seen")


def measure_silent(options, program, size, counts=(1, 16, 256, 1000), starts=7):
    """Prints how soon the first frame is on the screen, however many hosts do not answer, and keys meanwhile."""
    listener = socket.create_server(("0.0.0.0", 0), backlog=4096)
    port = listener.getsockname()[1]
    with tempfile.NamedTemporaryFile("w", suffix=".hosts") as hosts:
        for count in counts:
            hosts.seek(0)
            hosts.truncate()
            hosts.writelines(f"127.0.{number // 250 + 1}.{number % 250 + 1}:{port}\n" for number in range(count))
            hosts.flush()
            times = []
            for _ in range(starts):
                terminal = Terminal(program, ["-f", hosts.name], None, size)
                times.append(terminal.first_frame() * 1000)
                if len(times) < starts or count < max(counts):
                    terminal.stop()
            print(f"  first frame, {count:4} silent   median {statistics.median(times):.0f}, maximum {max(times):.0f} ms after the start")
        print(f"  key to frame, {count} silent {percentiles(terminal.type(options.keys))}, {terminal.memory():.0f} MiB", flush=True)
        terminal.stop()
    listener.close()


def measure_pace(program, size, seconds=10):
    """Prints how many pictures a second there are of nodes that are sampled 20 times a second."""
    for name, arguments in (("this machine", ["--local"]), *((f"{count} simulated", [f"--demo={count}", "--seed", "1"]) for count in (1, 4, 16, 64))):
        terminal = Terminal(program, [*arguments, "-i", "0.05"], None, size)
        terminal.read(5)
        before, began = (terminal.cpu(), terminal.drawing_cpu()), time.monotonic()
        output = terminal.read(seconds)
        lasted = time.monotonic() - began
        total, drawing = ((after - early) / lasted * 100 for after, early in zip((terminal.cpu(), terminal.drawing_cpu()), before))
        print(
            f"  pace, {name:13}       {output.count(END) / lasted:4.1f} pictures/s, {len(output) / lasted / 1000:5.1f} kB/s, "
            f"CPU {total:.0f} %, drawing {drawing:.1f} %, {terminal.memory():.0f} MiB",
            flush=True,
        )
        terminal.stop()


def measure_output(program, size, nodes=64, seconds=60):
    """Prints the bytes written in the first minute."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="gtop-bench-"))
    terminal = Terminal(program, [f"--demo={nodes}"], home, size)
    try:
        count = len(terminal.read(seconds))
    finally:
        terminal.stop()
        shutil.rmtree(home)
    print(f"  output, first {seconds} s       {count / seconds / 1000:.2f} kB/s of {nodes} nodes")


class DemoServer:
    """Stands in for the server: the program itself simulates the nodes."""

    def __init__(self, nodes):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="gtop-bench-"))
        self.arguments = [f"--demo={nodes}"]

    def stop(self):
        shutil.rmtree(self.home)


def measure_keys(options, program, nodes, size):
    server = Server(options.server, nodes, 600) if options.server else DemoServer(nodes)
    terminal = Terminal(program, server.arguments, server.home, size)
    try:
        first = terminal.first_frame()
        connecting = terminal.type(options.keys)
        terminal.read(20)
        os.write(terminal.fd, b"1")
        terminal.read(5)
        cpu, began = terminal.cpu(), time.monotonic()
        count = len(terminal.read(options.seconds))
        lasted = time.monotonic() - began
        share = (terminal.cpu() - cpu) / lasted
        later = terminal.type(options.keys)
        print(f"  {nodes} nodes × 8 devices, every 1 s{'' if options.server else ', simulated by the program itself'}:")
        print(f"  first frame               {first * 1000:.0f} ms after the start")
        print(f"  key to frame, connecting  {percentiles(connecting)}")
        print(f"  key to frame, later       {percentiles(later)}")
        print(f"  output                    {count / lasted / 1000:.2f} kB/s in the fleet view")
        print(f"  CPU                       {share * 100:.1f} % of a core")
        print(f"  memory                    {terminal.memory():.0f} MiB")
    finally:
        terminal.stop()
        server.stop()


def newest(pattern):
    paths = [path for path in glob.glob(str(pattern)) if not path.endswith(".d")]
    return max(paths, key=os.path.getmtime, default=None)


def main():
    if sys.argv[1:2] == ["--stub"]:
        run_stub(sys.argv[2], float(sys.argv[3]), sys.argv[4])
        return
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", default=[str(target / "dist" / "gtop")], metavar="PROGRAM")
    parser.add_argument("--server", default=newest(target / "release" / "deps" / "fleet-*"))
    parser.add_argument("--nodes", default="256,1000")
    parser.add_argument("--sizes", default="80x24,200x60")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--keys", type=int, default=120)
    parser.add_argument("--only", default="silent,first,pace,output,keys")
    options = parser.parse_args()
    only = options.only.split(",")
    for size in options.sizes.split(","):
        width, _, height = size.partition("x")
        size = int(width), int(height)
        for program in options.programs:
            program = os.path.abspath(program)
            print(f"{program}, {size[0]}×{size[1]}:", flush=True)
            if "silent" in only:
                measure_silent(options, program, size)
            if "first" in only:
                measure_first(program, size)
            if "pace" in only:
                measure_pace(program, size)
            if "output" in only:
                measure_output(program, size)
            for nodes in options.nodes.split(",") if "keys" in only else ():
                measure_keys(options, program, int(nodes), size)


if __name__ == "__main__":
    main()
