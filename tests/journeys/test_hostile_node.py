"""A node with hostile names and a lying driver: the screen stays intact."""

import os
import subprocess
import tempfile
import unicodedata
import unittest

from screen import TOP, Journey

# Clears the screen, renames the window, rings the bell, reverses text direction; wide and joined characters.
HOSTILE = "\x1b[2J\x1b]0;renamed\x07\x1b[31m\x9b5n\t\u202e\u200f名前👩\u200d💻e\u0301\u0301שלום"


def column(line, word):
    """Returns the terminal column at which a word starts."""
    front = line[: line.index(word)]
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in front)


class HostileNode(Journey):
    def open_node(self, **options):
        """Opens gtop with a real shell, the real probe, real processes, and a driver with hostile values."""
        folder = tempfile.TemporaryDirectory(prefix="gtop-harm-")
        self.addCleanup(folder.cleanup)
        self.touched = os.path.join(folder.name, "touched")
        os.symlink(os.path.join(TOP, "tests", "stubs", "nvidia-smi"), os.path.join(folder.name, "nvidia-smi"))
        self.pids = [self.start_process(HOSTILE), self.start_process("plain")]
        state = os.path.join(folder.name, "state")
        with open(state, "w", encoding="utf-8", errors="surrogateescape") as file:
            for gpu, name in enumerate(["A " + HOSTILE.replace("\t", " "), "Plain"]):
                file.write(f"gpu {gpu} used_mib=4000 util=50 temp=41 name={name}\n")
            file.write(f"set 1 memory.total a[$(touch {self.touched})0]\n")
            file.write("set 1 power.draw [N/A]\nset 1 ecc.errors.uncorrected.volatile.total [N/A]\n")
            for gpu, pid in enumerate(self.pids):
                file.write(f"proc {gpu} {pid} 100\n")
        path = folder.name + os.pathsep + os.environ["PATH"]
        return self.open("--exec", "env X={node} sh", "node-1", PATH=path, NVML_STUB_STATE=state, **options)

    def start_process(self, name):
        """Starts a process with this name as its command line; returns its pid."""
        arguments = [os.fsencode(name), b"600"]
        process = subprocess.Popen(arguments, executable="/bin/sleep")
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process.pid

    def test_hostile_names_do_not_break_the_screen(self):
        screen = self.open_node(size=(120, 40))
        screen.until(r"plain 600", "the plain process")
        title = screen.tmux("display-message", "-p", "-t", "s", "#{pane_title}")
        for size in [(120, 40), (80, 24), (200, 50)]:
            screen.tmux("resize-window", "-t", "s", "-x", str(size[0]), "-y", str(size[1]))
            for key in "34":
                screen.type(key)
                screen.until(r"plain 600", f"the plain process, after {key} at {size}")
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
        # A value that is not a number is unknown; a missing counter is neither an error nor zero.
        self.assertRegex(devices[1], r"3\.9/–|–/–|–")
        self.assertNotIn("ECC:", screen.text())
        self.assertFalse(os.path.exists(self.touched))
        self.assertEqual(screen.tmux("display-message", "-p", "-t", "s", "#{pane_title}"), title)
        for size in [(1, 1), (2, 40), (300, 2), (7, 7), (80, 24)]:
            screen.tmux("resize-window", "-t", "s", "-x", str(size[0]), "-y", str(size[1]))
            screen.type("1m23g456hh")
        screen.type("3")
        screen.until(r"(?s)^gtop .*plain 600.*q quit$", "a whole screen again")
        screen.type("q")
        self.assertEqual(screen.status(), 0)

    def test_each_view_clears_the_one_before(self):
        screen = self.open_node()
        screen.until(r"1 of 1 node fresh", "the node")
        screen.press("4")
        screen.until(r"plain 600", "the plain process")
        screen.press("z")
        screen.until(r"FROZEN", "the frozen screen")
        keys = ["4", "Down", "t", "Escape", "3", "G", "G", "1", "m", "b", "b", "m", "5", "Enter", "6", "2", "4", "T"]
        for number, key in enumerate([*keys, "Escape", "h", "PageDown", "Escape", "F2", "Escape", "4"]):
            if number % 7 == 3:
                screen.tmux("resize-window", "-t", "s", "-x", str(80 + number), "-y", str(20 + number))
            screen.press(key)
            screen.settle()
            screen.until_gone("waiting for the node")
            screen.settle()
            before = self.body(screen)
            # Ctrl-L redraws everything.
            screen.press("C-l")
            screen.settle()
            self.assertEqual(before, self.body(screen), key)

    def test_pasted_text_is_not_taken_as_keys(self):
        screen = self.open_node()
        screen.until(r"1 of 1 node fresh", "the node")
        screen.press("4")
        screen.until(r"plain 600", "the plain process")
        screen.press("Down", "Down")
        self.paste(screen, "K\r\rq")
        screen.press("/")
        self.paste(screen, "plain 600\n")
        screen.until(r"^/ plain 600", "the filter")
        self.assertFalse(screen.rows("send "))
        screen.leave("^/ plain 600")
        # Mouse positions outside the screen, and unknown sequences.
        for text in ["\x1b[<0;0;0M", "\x1b[<0;65535;1M", "\x1b[M   ", "\x1bOz", "\x1b[5n"]:
            screen.type(text)
        screen.press("K")
        screen.until(r"send KILL to this process", "the confirmation: this time the key was pressed")
        screen.leave("send KILL")
        screen.type("q")
        self.assertEqual(screen.status(), 0)

    def paste(self, screen, text):
        screen.tmux("set-buffer", text)
        screen.tmux("paste-buffer", "-p", "-t", "s")

    def body(self, screen):
        """Returns the lines that do not change while the screen is frozen: all but its age and the clock."""
        return [line for line in screen.text().splitlines() if "FROZEN" not in line][1:]


if __name__ == "__main__":
    unittest.main()
