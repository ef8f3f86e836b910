"""gtop in a terminal of 80 x 24 or more, driven by keys and read as text."""

import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
TIMEOUT = 60


def program():
    """The gtop to test: $GTOP, or the debug build."""
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(TOP, "target"))
    return os.environ.get("GTOP") or os.path.join(target, "debug", "gtop")


class Screen:
    """A terminal, drawn by tmux. `home` is its HOME, removed with it; `command` replaces gtop."""

    count = 0

    def __init__(self, *arguments, size=(80, 24), command=None, **environment):
        Screen.count += 1
        self.name = f"journey-{os.getpid()}-{Screen.count}"
        self.home = tempfile.mkdtemp(prefix="gtop-journey-")
        variables = {
            "HOME": self.home,
            "PATH": os.environ["PATH"],
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LC_ALL": "C.UTF-8",
            "USER": os.environ.get("USER", "root"),
            **environment,
        }
        script = '"$0" "$@"; echo "ended $?"; exec sleep 600'
        command_line = ["sh", "-c", script, *(command or [program()]), *arguments]
        variables = [f"{name}={value}" for name, value in variables.items()]
        self.tmux(
            "-f", "/dev/null", "-u", "new-session", "-d", "-s", "s", "-x", str(size[0]), "-y", str(size[1]),
            "env", "-i", *variables, *command_line,
        )  # fmt: skip

    def tmux(self, *arguments):
        environment = dict(os.environ, LC_ALL="C.UTF-8")
        environment.pop("TMUX", None)
        command = ["tmux", "-L", self.name, *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout

    def press(self, *keys):
        """Presses keys by tmux's names: j, Enter, F9, C-c."""
        self.tmux("send-keys", "-t", "s", *keys)

    def type(self, text):
        self.tmux("send-keys", "-t", "s", "-l", text)

    def text(self):
        return self.tmux("capture-pane", "-p", "-t", "s").rstrip("\n")

    def until(self, pattern, what=""):
        """Waits until a line of the screen matches, and returns the match."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            text = self.text()
            found = re.search(pattern, text, re.MULTILINE)
            if found:
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"{what or pattern} never came; on screen:\n{text}")
            time.sleep(0.1)

    def until_gone(self, pattern):
        """Waits until no line of the screen matches."""
        deadline = time.monotonic() + TIMEOUT
        while self.rows(pattern):
            if time.monotonic() > deadline:
                raise AssertionError(f"{pattern} is still there:\n{self.text()}")
            time.sleep(0.1)

    def leave(self, pattern):
        """Presses Esc and waits for what it closes: Esc and a letter in one read are Alt and that letter."""
        self.press("Escape")
        self.until_gone(pattern)

    def settle(self):
        """Waits until the screen stops changing: a capture may come in the middle of a frame."""
        before, now = "", self.text()
        while now != before:
            time.sleep(0.1)
            before, now = now, self.text()

    def rows(self, pattern):
        """Returns the lines that match."""
        return [line for line in self.text().splitlines() if re.search(pattern, line)]

    def save_fahrenheit(self):
        """Opens the setup dialog, switches to Fahrenheit, and saves."""
        self.press("F2")
        self.until(r"^Setup ", "the setup")
        self.type("jjjjjjjjj")
        self.until(r"temperatures in °F +no", "the row of the setting")
        self.press("Right")
        self.until(r"temperatures in °F +yes", "the change")
        self.press("F12")
        self.until(r"saved to .*setup\.toml", "the path of the saved file")

    def has_ended(self):
        return bool(self.rows(r"^ended \d+$"))

    def status(self):
        """Waits until the program has ended, and returns its exit status."""
        return int(self.until(r"^ended (\d+)$", "the end")[1])

    def close(self):
        subprocess.run(["tmux", "-L", self.name, "kill-server"], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.home, ignore_errors=True)


class Journey(unittest.TestCase):
    """An end-to-end test: a question about the nodes, answered with a few keys."""

    def open(self, *arguments, **options):
        if not shutil.which("tmux"):
            self.skipTest("there is no tmux")
        screen = Screen(*arguments, **options)
        self.addCleanup(screen.close)
        return screen
