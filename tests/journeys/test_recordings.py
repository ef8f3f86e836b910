"""Going back: what was recorded on the screen, and in a live one."""

import os
import subprocess
import tempfile
import unittest

from screen import Journey, program


class Recordings(Journey):
    def recorded(self, seconds):
        """Records the demo for some seconds; returns the file."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "demo.gtop")
        command = ["timeout", "-s", "TERM", str(seconds), program(), "record", "--demo=4", "-w", path]
        subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
        return path

    def position(self, screen):
        return screen.until(r"^(?:▶|▮▮) +[\d.]+× .*?(\d\d:\d\d:\d\d)", "the timeline").group(1)

    def test_a_recording_is_played_paused_and_searched(self):
        screen = self.open("replay", self.recorded(12), size=(120, 40))
        screen.until(r"REPLAY", "that this is not live")
        screen.until(r"^! gpu01 |^  gpu01 ", "the nodes")
        screen.press("x")
        screen.until(r"^▮▮ +1×", "the pause")
        paused = self.position(screen)
        screen.press("}")
        screen.until(r"^▮▮ +2×", "a higher speed")
        screen.press("S-Right")
        screen.until(rf"^▮▮ +2× .*(?!{paused})\d\d:\d\d:\d\d", "another time")
        screen.type(":nonsense")
        screen.press("Enter")
        screen.until(r"not a time: write 14:05, -3m", "what is wrong with the time")
        screen.leave("not a time")
        screen.press("F9")
        screen.until(r"this is a recording; gtop sends nothing to nodes", "that nobody gets a signal")
        screen.press("q")
        screen.until(r"^ended 0", "the end")

    def test_a_live_screen_goes_back_and_returns(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "live.gtop")
        screen = self.open("--demo=4", "--record", path, size=(120, 40))
        screen.until(r"● rec \d+s", "that a recording runs")
        screen.type("(")
        screen.until(r"REPLAY", "an earlier time")
        screen.until(r"now *$", "the live end of the timeline")
        screen.until(r"^End now", "how to return")
        screen.press("End")
        screen.until(r"● rec \d+s", "the live fleet")
        self.assertFalse(screen.rows("REPLAY"))
        self.assertFalse(screen.rows("no longer monitored"))
        screen.type("N")
        screen.until(r"REPLAY", "an earlier event")
        screen.type("x")
        screen.until(r"^▮▮", "the pause")
        screen.press("End")
        screen.until(r"● rec \d+s", "the live fleet again")
        screen.press("q")
        screen.until(r"^ended 0", "the end")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    def test_without_a_recorder_the_keys_say_how_to_have_one(self):
        screen = self.open("--demo=2", size=(120, 40))
        screen.until(r"2 of 2 nodes|of 2 nodes fresh", "the nodes")
        screen.type("(")
        screen.until(r"nothing is being recorded; with gtop --record FILE", "the way to record")


if __name__ == "__main__":
    unittest.main()
