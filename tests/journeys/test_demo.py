"""Everyday questions about the simulated fleet, answered with a few keys."""

import os
import unittest

from screen import Journey


class Demo(Journey):
    def demo(self, *arguments, **options):
        screen = self.open("--demo", *arguments, **options)
        screen.until(r"10/12 fresh|10 of 12 nodes fresh", "ten of twelve nodes")
        return screen

    def test_filter_shows_idle_held_devices_of_a_user(self):
        screen = self.demo()
        screen.type("/")
        screen.type("user=barbara util<5")
        screen.until(r"^1 of 12 nodes ", "the filter, while it is typed")
        screen.press("Enter")
        screen.until(r"filter.*/user=barbara|/user=barbara util", "the filter in the header")
        self.assertTrue(screen.rows(r"^! gpu07 "))
        self.assertFalse(screen.rows(r"^. gpu08 "))
        screen.press("4")
        screen.until(r"^ gpu07 +0 +\d+ barbara", "her processes")
        self.assertFalse(screen.rows(r" ada "))
        screen.press("Escape")
        screen.until(r" ada ", "all processes, once the filter is cleared")

    def test_users_of_a_node(self):
        screen = self.demo(size=(120, 40))
        screen.type("/")
        screen.type("node=gpu07")
        screen.press("Enter")
        screen.press("5")
        screen.until(r"\+ barbara +4 ", "the one user of that node")
        self.assertFalse(screen.rows("katherine"))
        screen.press("Down", "Enter")
        screen.until(r"- barbara", "barbara unfolded")
        screen.until(r"gpu07", "her node below her name")

    def test_fault_and_remedy_of_a_node_that_is_down(self):
        screen = self.demo()
        screen.press("End")
        screen.until(r"✗ gpu12 .*connection refused", "the node and its fault")
        screen.press("Enter")
        screen.until(r"^connection refused on port \d+", "the fault with its remedy")
        screen.press("Escape")
        screen.until(r"^m map", "the fleet again")

    def test_sort_by_memory(self):
        screen = self.demo()
        screen.press("4")
        screen.until(r"by node and device", "the default order")
        screen.type("om")
        screen.until(r"by device memory$", "the order that was chosen")
        amounts = self.amounts(screen)
        self.assertGreater(len(amounts), 10)
        self.assertEqual(amounts, sorted(amounts, reverse=True))
        screen.type("oM")
        screen.until(r"by device memory, reversed$", "the reversed order")
        amounts = self.amounts(screen)
        self.assertEqual(amounts, sorted(amounts))

    def amounts(self, screen):
        """Returns the values of the device memory column, from the top."""
        screen.settle()
        return [float(row.split()[4].rstrip("G")) for row in screen.rows(r"^ gpu\d+ +[\d.]+ +\d+ ")]

    def test_a_process_is_terminated(self):
        screen = self.demo(size=(120, 40))
        screen.press("4")
        screen.until(r"^ gpu01 +0 ", "processes")
        screen.press("Down")
        row = screen.until(r"^(\d+) ada on gpu01", "the row under the cursor")
        screen.type("T")
        screen.until(rf"(?s)TERM.*{row[1]}", "a confirmation that names the process")
        screen.press("Enter")
        screen.until(r"sent|ended|gone", "the outcome")
        screen.press("Escape")
        self.assertFalse(screen.has_ended())

    def test_the_setup_is_saved(self):
        screen = self.demo("-i", "0.5", "--theme", "mono")
        screen.save_fahrenheit()
        path = os.path.join(screen.home, ".config", "gtop", "setup.toml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertRegex(text, r"(?m)^fahrenheit = true$")
        self.assertRegex(text, r'(?m)^theme = "mono"$')
        # The interval of simulated nodes says nothing about real ones.
        self.assertNotIn("interval", text)

    def test_a_key_right_after_escape_is_recognised(self):
        screen = self.demo()
        screen.press("Escape", "F2")
        screen.until(r"^Setup ", "the setup; a terminal sends ESC ESC O Q for these two keys")

    def test_every_view_and_any_size(self):
        screen = self.demo()
        for width, height in [(80, 24), (1, 1), (200, 50), (37, 9), (120, 40), (3, 60), (80, 24)]:
            screen.tmux("resize-window", "-t", "s", "-x", str(width), "-y", str(height))
            screen.type("1m2g3g456hh")
        screen.type("1")
        screen.until(r"(?s)^80 (?:devices )?.* gpu09 .*▆▆.*q quit$", "a whole screen again")
        self.assertFalse(screen.has_ended(), screen.text())
        screen.type("q")
        self.assertEqual(screen.status(), 0)


if __name__ == "__main__":
    unittest.main()
