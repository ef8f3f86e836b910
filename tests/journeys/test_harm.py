"""A node whose every name means harm: the screen of somebody who looks at it stays whole."""

import os
import subprocess
import tempfile
import unicodedata
import unittest

from screen import TOP, Journey

# Clears the screen, renames the window, rings, turns text around, joins, is wide.
HARM = "\x1b[2J\x1b]0;renamed\x07\x1b[31m\x9b5n\t\u202e\u200f名前👩\u200d💻e\u0301\u0301שלום"


def column(line, word):
    """Returns the column at which a word stands on a terminal."""
    front = line[: line.index(word)]
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in front)


class Harm(Journey):
    def node(self, **options):
        """Opens gtop on a real shell with the real probe, real processes, and a driver that lies."""
        folder = tempfile.TemporaryDirectory(prefix="gtop-harm-")
        self.addCleanup(folder.cleanup)
        self.touched = os.path.join(folder.name, "touched")
        os.symlink(os.path.join(TOP, "tests", "stubs", "nvidia-smi"), os.path.join(folder.name, "nvidia-smi"))
        self.pids = [self.process(HARM), self.process("plain")]
        state = os.path.join(folder.name, "state")
        with open(state, "w", encoding="utf-8", errors="surrogateescape") as file:
            for gpu, name in enumerate(["A " + HARM.replace("\t", " "), "Plain"]):
                file.write(f"gpu {gpu} used_mib=4000 util=50 temp=41 name={name}\n")
            file.write(f"set 1 memory.total a[$(touch {self.touched})0]\n")
            file.write("set 1 power.draw [N/A]\nset 1 ecc.errors.uncorrected.volatile.total [N/A]\n")
            for gpu, pid in enumerate(self.pids):
                file.write(f"proc {gpu} {pid} 100\n")
        path = folder.name + os.pathsep + os.environ["PATH"]
        return self.open("--exec", "env X={node} sh", "node-1", PATH=path, NVML_STUB_STATE=state, **options)

    def process(self, name):
        """Starts a process that goes by this name; returns its pid."""
        words = [os.fsencode(name), b"600"]
        process = subprocess.Popen(words, executable="/bin/sleep")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process.pid

    def test_names_that_mean_harm(self):
        screen = self.node(size=(120, 40))
        screen.until(r"plain 600", "the plain process")
        title = screen.tmux("display-message", "-p", "-t", "s", "#{pane_title}")
        for size in [(120, 40), (80, 24), (200, 50)]:
            screen.tmux("resize-window", "-t", "s", "-x", str(size[0]), "-y", str(size[1]))
            for keys in "34":
                screen.type(keys)
                screen.until(r"plain 600", f"the plain process, after {keys} at {size}")
                screen.settle()
                lines = screen.text().splitlines()
                titles = next(line for line in lines if "COMMAND" in line)
                rows = [next(line for line in lines if f" {pid} " in f" {line} ") for pid in self.pids]
                command = column(titles, "COMMAND")
                self.assertEqual(column(rows[1], "plain 600"), command, screen.text())
                self.assertEqual(column(rows[0], "[2J"), command, screen.text())
                self.assertTrue(lines[0].startswith("gtop "), screen.text())
                self.assertTrue(lines[-1].endswith("q quit"), screen.text())
        screen.type("3")
        screen.until(r"^ +# ", "the devices")
        screen.settle()
        lines = screen.text().splitlines()
        devices = [next(line for line in lines if line.startswith(f"  {gpu}  ")) for gpu in range(2)]
        self.assertEqual(column(devices[0], "41°"), column(devices[1], "41°"), screen.text())
        # What is no number is no number, and what is not told is no error and no zero.
        self.assertRegex(devices[1], r"3\.9/–|–/–|–")
        self.assertNotIn("ECC", screen.text())
        self.assertFalse(os.path.exists(self.touched))
        self.assertEqual(screen.tmux("display-message", "-p", "-t", "s", "#{pane_title}"), title)
        for size in [(1, 1), (2, 40), (300, 2), (7, 7), (80, 24)]:
            screen.tmux("resize-window", "-t", "s", "-x", str(size[0]), "-y", str(size[1]))
            screen.type("1m23g456hh")
        screen.type("3")
        screen.until(r"(?s)^gtop .*plain 600.*q quit$", "a whole screen again")
        screen.type("q")
        self.assertEqual(screen.status(), 0)

    def test_nothing_is_left_of_what_stood_there_before(self):
        screen = self.node()
        screen.until(r"1 of 1 node fresh", "the node")
        screen.press("4")
        screen.until(r"plain 600", "the plain process")
        screen.press("z")
        screen.until(r"FROZEN", "a picture that stands")
        places = ["4", "Down", "t", "Escape", "3", "G", "G", "1", "m", "b", "b", "m", "5", "Enter", "6", "2", "4", "T"]
        for number, place in enumerate([*places, "Escape", "h", "PageDown", "Escape", "F2", "Escape", "4"]):
            if number % 7 == 3:
                screen.tmux("resize-window", "-t", "s", "-x", str(80 + number), "-y", str(20 + number))
            screen.press(place)
            screen.settle()
            screen.until(r"\A(?![\s\S]*waiting for the node)", "the answer of the node")
            screen.settle()
            before = self.body(screen)
            # Everything is drawn anew.
            screen.press("C-l")
            screen.settle()
            self.assertEqual(before, self.body(screen), place)

    def test_what_is_pasted_is_no_keys(self):
        screen = self.node()
        screen.until(r"1 of 1 node fresh", "the node")
        screen.press("4")
        screen.until(r"plain 600", "the plain process")
        screen.press("Down", "Down")
        self.paste(screen, "K\r\rq")
        screen.press("/")
        self.paste(screen, "plain 600\n")
        screen.until(r"^/ plain 600", "the filter")
        self.assertFalse(screen.rows("send "))
        screen.press("Escape")
        # Places of the mouse that no screen has, and sequences nobody knows.
        for text in ["\x1b[<0;0;0M", "\x1b[<0;65535;1M", "\x1b[M   ", "\x1bOz", "\x1b[5n"]:
            screen.type(text)
        screen.press("K")
        screen.until(r"send KILL to this process", "a question, for the key was pressed")
        screen.press("Escape")
        screen.until(r"\A(?![\s\S]*send KILL)", "the question gone")
        screen.type("q")
        self.assertEqual(screen.status(), 0)

    def paste(self, screen, text):
        screen.tmux("set-buffer", text)
        screen.tmux("paste-buffer", "-p", "-t", "s")

    def body(self, screen):
        """Returns all but what goes on in a frozen picture: its age, and the clock."""
        return [line for line in screen.text().splitlines() if "FROZEN" not in line][1:]


if __name__ == "__main__":
    unittest.main()
