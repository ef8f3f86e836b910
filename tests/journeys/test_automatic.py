"""The setting record = "auto": one of the screens records, until a disk is full, and gtop replay plays it."""

import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import unittest

from screen import Journey, program

AUTO = {"GTOP_RECORD": "auto"}
RECORDS = r"● rec"
ANOTHER_RECORDS = r"○ another gtop records"


class Automatic(Journey):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="gtop-home-")
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.folder = os.path.join(self.home, ".local/state/gtop/recordings")
        self.file = os.path.join(self.folder, re.sub(r"[^A-Za-z0-9._-]", "_", os.uname().nodename), "auto.gtop")

    def screen(self, *arguments, command=None, **variables):
        """Opens a screen of this machine."""
        variables = {"HOME": self.home, **AUTO, **variables}
        return self.open(*arguments, size=(150, 30), command=command, **variables)

    def pid(self, screen):
        """Returns the process id of the program of a screen."""
        shell = screen.tmux("list-panes", "-t", "s", "-F", "#{pane_pid}").strip()
        with open(f"/proc/{shell}/task/{shell}/children", encoding="ascii") as children:
            return int(children.read().split()[0])

    def replay(self, *arguments, **variables):
        environment = {"HOME": self.home, "PATH": os.environ["PATH"], **variables}
        command = [program(), "replay", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def test_it_is_off_until_the_setup_turns_it_on(self):
        screen = self.screen(GTOP_RECORD="")
        screen.until(r"1 of 1 node fresh", "the node")
        self.assertFalse(screen.rows("rec "))
        self.assertFalse(os.path.exists(self.folder))
        screen.press("F2")
        screen.until(r"^Setup ", "the setup")
        screen.type("jj")
        screen.until(r"200 MB", "what it means")
        screen.press("Right")
        screen.until(r"recording of this screen +auto", "the change")
        screen.press("F12")
        screen.until(r"saved to .*setup\.toml: record", "the path of the saved file")
        screen.leave("^Setup ")
        screen.until(RECORDS, "the recorder")
        screen.type("(")
        screen.until(r"REPLAY", "an earlier time")
        screen.press("End")
        screen.until(RECORDS, "the live fleet")
        screen.press("F2")
        screen.until(r"^Setup ", "the setup")
        screen.type("jj")
        screen.press("Left")
        screen.until(r"recording of this screen +off", "that it is off")
        screen.leave("^Setup ")
        screen.until_gone(RECORDS)
        screen.press("q")
        screen.until(r"^ended 0", "the end")
        self.assertIn("1 of 1", self.replay("--once").stdout)

    def test_one_of_three_screens_records_and_another_takes_over(self):
        first = self.screen(command=["sh", "-c", 'umask 0; "$0" & wait $!', program()])
        first.until(RECORDS, "the first recorder")
        others = [self.screen(), self.screen()]
        for other in others:
            other.until(ANOTHER_RECORDS, "that another gtop records")
            other.type("(")
            other.until(r"another gtop records what it watches", "who has the recording")
        for path, folders, files in os.walk(self.folder):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o700, path)
            for file in files:
                mode = os.stat(os.path.join(path, file)).st_mode
                self.assertEqual(stat.S_IMODE(mode), 0o600, file)
        # Each takes over from the one before; the last one begins after all are gone, as after a reboot.
        with open(f"/proc/{self.pid(first)}/task/{self.pid(first)}/children", encoding="ascii") as children:
            recorder = int(children.read().split()[0])
        for ended in range(3):
            os.kill(recorder, signal.SIGKILL)
            if ended == 2:
                others.append(self.screen())
            waiting = others[ended:]
            pattern = re.compile(RECORDS)
            found = []
            while not found:
                found = [other for other in waiting if pattern.search(other.text())]
                waiting[0].settle()
            others = [*others[:ended], *found, *[other for other in waiting if other not in found]]
            recorder = self.pid(found[0])
        # It fails until the new recorder has a sample.
        while (played := self.replay("--once", "--json")).returncode:
            found[0].settle()
        self.assertEqual(played.stderr, "")
        found[0].press("q")
        found[0].until(r"^ended 0", "the end")

    def test_a_file_of_ones_own_wins(self):
        path = os.path.join(self.home, "own.gtop")
        screen = self.screen("--record", path)
        screen.until(RECORDS, "the recorder")
        self.assertTrue(os.path.exists(path))
        self.assertFalse(os.path.exists(self.folder))

    def test_what_is_printed_and_the_demo_are_not_recorded(self):
        environment = {"HOME": self.home, "PATH": os.environ["PATH"], **AUTO}
        subprocess.run([program(), "--json"], env=environment, stdout=subprocess.DEVNULL, check=True)
        screen = self.screen("--demo=2")
        screen.until(r"of 2 nodes fresh", "the nodes")
        screen.press("q")
        screen.until(r"^ended 0", "the end")
        self.assertFalse(os.path.exists(self.folder))

    def test_a_folder_that_is_not_ones_own_is_refused(self):
        os.makedirs(os.path.dirname(self.folder))
        elsewhere = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, elsewhere)
        os.symlink(elsewhere, self.folder)
        screen = self.screen()
        screen.until(r"nothing is recorded: .*recordings is a link; remove it", "why nothing is recorded")
        screen.until(r"1 of 1 node fresh", "the node")
        self.assertEqual(os.listdir(elsewhere), [])

    def test_a_day_of_too_many_nodes_does_not_fit(self):
        screen = self.screen("--exec", "sleep 600 {node}", "--max-connecting", "1", "n[1-2001]")
        screen.until(r"nothing is recorded: of more than 2000 nodes", "why nothing is recorded")

    def test_without_a_home_nothing_is_recorded(self):
        screen = self.screen(HOME="")
        screen.until(r"nothing is recorded: neither HOME nor XDG_STATE_HOME is an absolute path; set one", "why nothing is recorded")
        screen.until(r"1 of 1 node fresh", "the node")
        self.assertEqual(self.replay(HOME="").returncode, 2)

    def test_a_relative_home_is_none(self):
        screen = self.screen(HOME="home")
        screen.until(r"nothing is recorded: neither HOME nor XDG_STATE_HOME is an absolute path", "why nothing is recorded")
        screen.until(r"1 of 1 node fresh", "the node")

    def test_what_is_in_the_way_is_named_and_stays(self):
        os.makedirs(os.path.dirname(self.file), 0o700)
        os.chmod(self.folder, 0o700)
        with open(self.file, "w", encoding="ascii") as file:
            file.write("a note\n")
        screen = self.screen()
        screen.until(r"nothing is recorded: \S*auto\.gtop is not a recording of gtop; move it away", "what is in the way")
        screen.until(r"1 of 1 node fresh", "the node")
        with open(self.file, encoding="ascii") as file:
            self.assertEqual(file.read(), "a note\n")
        state = os.path.join(self.home, "state")
        with open(state, "wb"):
            pass
        screen = self.screen(XDG_STATE_HOME=state)
        screen.until(r"nothing is recorded: cannot write \S*/state/gtop\S*: Not a directory.*; XDG_STATE_HOME names", "the remedy")
        screen.until(r"1 of 1 node fresh", "the node")

    def test_what_others_could_read_is_closed_and_a_link_refused(self):
        screen = self.screen()
        screen.until(RECORDS, "the recorder")
        screen.press("q")
        screen.until(r"^ended 0", "the end")
        folder = os.path.dirname(self.file)
        part = self.file + ".20200101T000000Z"
        os.rename(self.file, part)
        screen = self.screen()
        screen.until(RECORDS, "the recorder")
        screen.press("q")
        screen.until(r"^ended 0", "the end")
        # The older part is played, too.
        begins = re.search(r"covers (\S+ \S+) to", self.replay("--at", "2020-01-01 00:00", part).stderr)[1]
        self.assertIn(f"covers {begins} to", self.replay("--at", "2020-01-01 00:00").stderr)
        for name in (self.file, part, os.path.join(folder, "lock")):
            os.chmod(name, 0o644)
        screen = self.screen()
        screen.until(RECORDS, "the recorder")
        for name in os.listdir(folder):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode), 0o600, name)
        screen.press("q")
        screen.until(r"^ended 0", "the end")
        moved = os.path.join(self.home, "moved.gtop")
        os.rename(self.file, moved)
        os.symlink(moved, self.file)
        screen = self.screen()
        screen.until(r"nothing is recorded: \S*auto\.gtop is a link; remove it", "why nothing is recorded")

    def test_it_ends_at_the_limit_of_the_size_of_files(self):
        screen = self.screen(command=["sh", "-c", 'ulimit -f 2; exec "$0"', program()])
        screen.until(r"nothing is recorded: .*ulimit -f", "why it has ended")
        screen.until(r"1 of 1 node fresh", "the node")
        screen.until_gone(r"rec ")
        screen.press("q")
        screen.until(r"^ended 0", "the end")

    def test_it_ends_on_a_full_disk(self):
        mount = 'mkdir -p "$HOME/.local/state"; mount -t tmpfs -o size=4k none "$HOME/.local/state"'
        unshare = ["unshare", "--mount"] + (["--map-root-user"] if os.geteuid() else [])
        environment = {**os.environ, "HOME": self.home}
        if subprocess.run([*unshare, "sh", "-c", mount], env=environment, check=False).returncode:
            self.skipTest("nothing can be mounted")
        screen = self.screen(command=[*unshare, "sh", "-c", f'{mount}; exec "$0"', program()])
        screen.until(r"nothing is recorded: .*the disk is full", "why it has ended")
        screen.until(r"1 of 1 node fresh", "the node")
        screen.press("q")
        screen.until(r"^ended 0", "the end")

    def test_without_a_recording_replay_says_how_to_have_one(self):
        played = self.replay()
        self.assertEqual(played.returncode, 2)
        self.assertIn(self.file, played.stderr)
        self.assertIn('record = "auto"', played.stderr)
        other = os.path.join(self.folder, "other-host", "auto.gtop")
        os.makedirs(os.path.dirname(other))
        with open(other, "wb"):
            pass
        self.assertIn(f"gtop replay {other}", self.replay().stderr)


if __name__ == "__main__":
    unittest.main()
