"""Keys and options of nvnodetop, nvtop and nvitop do in gtop what docs/coming-from.md says."""

import os
import re
import subprocess
import unittest

from screen import TOP, Journey, program


class ForeignKeys(Journey):
    def demo(self, *arguments):
        screen = self.open("--demo", *arguments, size=(120, 40))
        screen.until(r"10 of 12 nodes fresh", "ten of twelve nodes")
        return screen

    def press_each(self, screen, steps):
        """Presses the keys of each step and waits for the text they bring up."""
        for keys, pattern in steps:
            for key in keys.split():
                screen.press(key)
            screen.until(pattern, f"{keys}: {pattern}")

    def test_jobs_and_nodes_as_in_nvnodetop(self):
        screen = self.demo()
        self.press_each(screen, [("2", r"^ID +NAME "), ("Enter", r"job 1 of \d$")])
        for forward, back in (("Down", "Up"), ("j", "k"), ("J", "K")):
            self.press_each(screen, [(forward, r"job 2 of \d$"), (back, r"job 1 of \d$")])
        for forward, back in ((">", "<"), (".", ","), ("Right", "Left")):
            self.press_each(screen, [(forward, r"^gpu02 .* 2/12 "), (back, r"^gpu01 .* 1/12 ")])
        screen.until(r"^ +PID +USER", "processes of the node")
        screen.press("p")
        screen.until_gone(r"^ +PID +USER ")
        self.press_each(screen, [("p", r"^ +PID +USER "), ("o", r"^  NODE +JOB")])
        self.press_each(screen, [("3", r"^ +# +NAME "), (">", r"^gpu02 .* 2/12 "), ("<", r"^gpu01 .* 1/12 ")])
        self.press_each(screen, [("o", r"^  NODE +JOB"), ("q", r"^ended 0$")])

    def test_function_keys_and_plots_as_in_nvtop(self):
        screen = self.demo("--node-chart", "--charted=power,temp")
        self.press_each(screen, [("3", r"^0 power +\d+W"), ("g", r"^ +PID +USER")])
        screen.until_gone(r"^0 power ")
        self.press_each(screen, [
            ("G", r"^ p \* power"), ("m", r"^ m \* mem"), ("Escape", r"^← → node"),
            ("F2", r"^Setup "), ("4", r"^ metrics in the chart +power,temp "), ("Escape", r"^← → node"),
            ("4", r"by node and device$"), ("F6", r"^sort by$"), ("m", r"by device memory$"),
            ("Home", r"^\d+ \w+ on gpu\d+ "), ("F9", r"^ T 15 SIGTERM"), ("End", r"31 SIGSYS"),
            ("Escape", r"^s scope"), ("F12", r"saved to .*setup\.toml"), ("F10", r"^ended 0$"),
        ])  # fmt: skip

    def test_sorting_as_in_nvitop(self):
        screen = self.demo()
        self.press_each(screen, [
            ("4", r"by node and device$"), ("o p", r"by pid$"), ("o u", r"by user$"), ("o s", r"by device load$"),
            ("o b", r"by memory bandwidth$"), ("o c", r"by CPU$"), ("o t", r"by running time$"),
            ("o h", r"by share of host memory$"), ("o m", r"by device memory$"), ("o M", r"by device memory, reversed$"),
            ("o n", r"by node and device$"), (".", r"by device$"), (">", r"by pid$"), (",", r"by device$"),
            ("<", r"by node and device$"), ("\\", r"by node and device, reversed$"),
        ])  # fmt: skip

    def test_processes_as_in_nvitop(self):
        screen = self.demo()
        self.press_each(screen, [
            ("4", r"by node and device$"), ("Home", r"^34768 ada on gpu01 "), ("Down", r"^34769 "), ("M-k", r"^34768 "),
            ("M-j", r"^34769 "), ("End", r"^\d+ \w+ on (?!gpu01)"), ("Home", r"^34768 "), ("]", r"^\d+ \w+ on (?!gpu01)"),
            ("[", r"^34768 "), ("M-J", r"^\d+ \w+ on (?!gpu01)"), ("M-K", r"^34768 "),
            ("Right", r"^ gpu01 .* 8421 +retrain"), ("Left", r"^ gpu01 .* 8421 +python pretrain"),
            ("M-l", r"^ gpu01 .* 8421 +retrain"), ("^", r"^ gpu01 .* 8421 +python pretrain"),
            ("C-e", r"^ gpu01 .* 8421 +(?!python)\S"), ("C-a", r"^ gpu01 .* 8421 +python pretrain"),
            ("Space", r"1 tagged"), ("Space", r"2 tagged"), ("T", r"send TERM to 2 processes\?"), ("Escape", r"^s scope"),
        ])  # fmt: skip
        screen.press("Escape")
        screen.until_gone(r"tagged")
        self.press_each(screen, [
            ("Home", r"^34768 ada on gpu01 "), ("e", r"^environment +34768 "), ("Escape", r"^34768 ada on gpu01 "),
            ("t", r"^tree +gpu01"), ("t", r"^ NODE↑ +(?:GPU|DEV)"), ("Enter", r"^process +34768 "), ("Escape", r"^ NODE↑ +(?:GPU|DEV)"),
            ("c", r"density: compact|^ NODE↑ +(?:GPU|DEV) +PID USER +(?:GPU|DEV)-MEM +%(?:SM|DEV) +COMMAND"), ("C-c", r"send INT to this process\?"),
            ("Escape", r"^s scope"), ("I", r"send INT to"), ("Escape", r"^s scope"), ("h", r"^Signs and colours in Processes"), ("Escape", r"^s scope"),
            ("q", r"^ended 0$"),
        ])  # fmt: skip

    def test_one_machine_with_the_keys_of_nvitop(self):
        screen = self.open("--demo=1", "--keys", "nvitop", size=(120, 40))
        screen.until(r"^ +PID +USER", "the processes of the node")
        self.press_each(screen, [
            ("Tab", r"^34768 +ada"), ("k", r"send KILL to this process\?"), ("Escape", r"^34768 +ada"),
            ("Enter", r"^process +34768 "), ("Enter", r"^gpu01 .* 1/1 "), ("e", r"^environment +34768 "), ("q", r"^gpu01 .* 1/1 "),
            ("t", r"^tree +gpu01"), ("t", r"^gpu01 .* 1/1 "), ("Space", r"^ +\*34768 +ada"), ("Space", r"^ +\*34769 +ada"),
            ("T", r"send TERM to 2 processes\?"), ("Escape", r"^ +\*34769 +ada"), ("Escape", r"^ +34769 +ada"), ("o m", r"^processes by share of host memory "),
            ("/", r"^processes by share of host memory, reversed "), ("o n", r"^processes by node and device "), ("q", r"^ended 0$"),
        ])  # fmt: skip

    def test_htop_and_nvtop_on_one_machine(self):
        for scheme, steps in (
            ("htop", [("k", r"^ T 15 SIGTERM"), ("Escape", r"^34768 "), ("#", r"# \(hide the meters\): "), ("M", r"^processes by share of host memory "), ("I", r", reversed "), ("F10", r"^ended 0$")]),
            ("nvtop", [("F9", r"^ T 15 SIGTERM"), ("Escape", r"^34768 "), ("F6", r"^sort by$"),
                       ("Escape", r"^34768 "), ("F10", r"^ended 0$")]),
        ):
            with self.subTest(scheme=scheme):
                screen = self.open("--demo=1", "--keys", scheme, size=(120, 40))
                screen.until(r"^ +PID +USER", "the processes of the node")
                self.press_each(screen, steps)

    def test_options_of_nvitop_are_accepted(self):
        options = (
            "--demo=1 -1 -m=full --interval 0.5 --ascii --readonly --colorful --force-color --light "
            "--gpu-util-thresh 20 60 --mem-util-thresh 20 60 -o=0,1 -ov -c -u=katherine,ada"
        )
        done = subprocess.run([program(), *options.split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("\x1b[", done.stdout)
        self.assertTrue(done.stdout.isascii(), done.stdout)
        self.assertIn("POWER ", done.stdout)


class Documentation(unittest.TestCase):
    """docs/coming-from.md names only options that exist."""

    def test_every_option_it_names_exists(self):
        pages = [subprocess.run([program(), *words, "--help"], stdout=subprocess.PIPE, text=True, check=True) for words in ([], ["runs"])]
        known = "".join(page.stdout for page in pages)
        known = set(re.findall(r"--[a-z][a-z-]*", known))
        named = set()
        with open(os.path.join(TOP, "docs", "coming-from.md"), encoding="utf-8") as file:
            for line in file:
                if line.startswith("| "):
                    named.update(re.findall(r"--[a-z][a-z-]*", line.rpartition(" | ")[2]))
        self.assertGreater(len(named), 30)
        # Help does not list aliases.
        self.assertEqual(named - known, {"--username"})


if __name__ == "__main__":
    unittest.main()
