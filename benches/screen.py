#!/usr/bin/env python3
"""Cost of the screen: time from key to frame, bytes per second, CPU time of the whole program.

    cargo build --release && cargo bench --bench fleet --no-run
    python3 benches/screen.py [--nodes 256,1000] [--seconds 30] [--sizes 80x24,200x60]

The real program in a pseudo-terminal watches simulated nodes that another process serves over real SSH on
loopback. A frame is a synchronized update; a key's frame is the first one that begins after the key was
written. Keys are pressed while nodes connect, and again later; bytes and CPU time are measured in between,
without key presses.
"""

import argparse
import fcntl
import glob
import os
import pathlib
import pty
import random
import select
import shutil
import signal
import struct
import subprocess
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

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        shutil.rmtree(self.home)


class Terminal:
    """The program in a pseudo-terminal."""

    def __init__(self, program, server, size):
        hosts = server.home / "hosts"
        hosts.write_text("\n".join(server.names), encoding="ascii")
        width, height = size
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
            environment = {
                "HOME": str(server.home),
                "PATH": os.environ["PATH"],
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "USER": os.environ.get("USER", "root"),
            }
            at_home = str(pathlib.Path(__file__).resolve().parent.parent / "tests/at_home")
            os.execve(at_home, [at_home, str(server.home), program, "-f", str(hosts)], environment)
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

    def cpu(self):
        """Returns the CPU seconds of the program so far, all threads."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

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
    return f"p50 {at(0.5):5.1f}  p99 {at(0.99):5.1f}  max {ordered[-1] * 1000:5.1f} ms of {len(ordered)}"


def measure(options, nodes, size):
    server = Server(options.server, nodes, 600)
    terminal = Terminal(options.gtop, server, size)
    try:
        connecting = terminal.type(options.keys)
        terminal.read(20)
        os.write(terminal.fd, b"1")
        terminal.read(5)
        cpu, began = terminal.cpu(), time.monotonic()
        count = len(terminal.read(options.seconds))
        lasted = time.monotonic() - began
        share = (terminal.cpu() - cpu) / lasted
        later = terminal.type(options.keys)
        print(f"{nodes} nodes × 8 devices, {size[0]}×{size[1]}, every 1 s:")
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
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gtop", default=str(target / "gtop"))
    parser.add_argument("--server", default=newest(target / "deps" / "fleet-*"))
    parser.add_argument("--nodes", default="256,1000")
    parser.add_argument("--sizes", default="80x24,200x60")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--keys", type=int, default=120)
    options = parser.parse_args()
    if not options.server:
        parser.error("build the server first: cargo bench --bench fleet --no-run")
    for nodes in options.nodes.split(","):
        for size in options.sizes.split(","):
            width, _, height = size.partition("x")
            measure(options, int(nodes), (int(width), int(height)))


if __name__ == "__main__":
    main()
