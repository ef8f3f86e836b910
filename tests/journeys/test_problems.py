"""What is wrong, since when and where, and how its node set gets into the clipboard of tmux."""

import unittest

from screen import Journey


class Problems(Journey):
    def copied(self, set_clipboard):
        """Copies the node set of the first problem; returns the screen and the node set."""
        screen = self.open("--demo")
        screen.tmux("set-option", "-s", "set-clipboard", set_clipboard)
        screen.until(r"^m map", "the screen, which then echoes no key")
        screen.press("7")
        screen.until(r"^✗ connection refused \+ +1 ", "the first problem")
        screen.press("y")
        screen.until(r"^ n the nodes +gpu12", "what can be copied")
        screen.press("n")
        return screen, screen.until(r"^copied the nodes: (\S+)", "that it was copied")[1]

    def test_tmux_takes_what_is_copied(self):
        screen, nodes = self.copied("on")
        self.assertEqual(nodes, "gpu12")
        self.assertEqual(screen.tmux("show-buffer"), nodes)
        screen.press("q")
        self.assertEqual(screen.status(), 0)

    def test_what_tmux_does_not_take_is_printed_at_the_end(self):
        screen, nodes = self.copied("off")
        self.assertEqual(screen.tmux("list-buffers"), "")
        screen.press("q")
        screen.until(rf"^copied the nodes:\n{nodes}\nended 0$", "the text, once the screen is left")

    def test_with_a_filter_the_list_names_the_problems_of_its_nodes_only(self):
        screen = self.open("--demo", "--filter", "node=gpu01")
        screen.until(r"8 of 80 devices match", "the devices that match")
        screen.press("7")
        screen.until(r"^no problems among the 1 of 12 nodes that match the filter", "that it has no problem")
        screen.press("1")
        screen.until(r"^m map", "the list")
        self.assertNotIn("connection refused", screen.text())


if __name__ == "__main__":
    unittest.main()
