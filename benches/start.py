#!/usr/bin/env python3
"""Start time and memory of a gtop program.

    benches/start.py PROGRAM [ROUNDS]

Prints the median and the minimum of the run time of `--version` and of the time from the start of `--local`
on a terminal to its first complete frame; and the memory of a `--local` that has run for five seconds.
"""

import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import termios
import time


def version(program):
    began = time.monotonic()
    subprocess.run([program, "--version"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - began


def screen(program):
    """Starts the program on a terminal of 120 x 40; returns its pid and the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", LC_ALL="C.UTF-8")
        # Wait until the terminal has its size.
        os.read(0, 1)
        os.execv(program, [program, "--local"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    attributes = termios.tcgetattr(terminal)
    attributes[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    return pid, terminal


def end(pid, terminal):
    os.write(terminal, b"q")
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                if not os.read(terminal, 65536):
                    break
            except OSError:
                break
    os.waitpid(pid, 0)
    os.close(terminal)


def first_frame(program):
    pid, terminal = screen(program)
    began = time.monotonic()
    os.write(terminal, b"x")
    seen = b""
    # The key hints are the last line of a frame.
    while b"quit" not in seen and time.monotonic() - began < 10:
        if select.select([terminal], [], [], 0.1)[0]:
            seen += os.read(terminal, 65536)
    duration = time.monotonic() - began
    end(pid, terminal)
    return duration


def memory(program):
    pid, terminal = screen(program)
    os.write(terminal, b"x")
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if select.select([terminal], [], [], 0.1)[0]:
            os.read(terminal, 65536)
    with open("/proc/%d/status" % pid) as file:
        fields = dict(line.split(":", 1) for line in file)
    end(pid, terminal)
    return fields["VmRSS"].strip(), fields["VmHWM"].strip()


def main():
    program = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    for name, measure in (("--version", version), ("first frame of --local", first_frame)):
        times = [measure(program) * 1000 for _ in range(rounds)]
        print("%-24s median %.1f ms, minimum %.1f ms" % (name, statistics.median(times), min(times)))
    print("%-24s resident %s, maximum %s" % ("memory of --local", *memory(program)))


if __name__ == "__main__":
    main()
