"""Login shells and their start-up files, as people have them, on real sshd."""

import os
import unittest

from harness import TIMEOUT, LabCase

BANNER = 'printf "\\033[1;31mWelcome\\033[0m to \\033[5mthe cluster\\033[0m\\nquota: 93%% used, no newline here: "\n'

# (shell, start-up file, content of the file); the probe runs despite the output.
NOISY = {
    "bash with a banner": ("/bin/bash", ".bashrc", BANNER),
    "bash that prints control characters": ("/bin/bash", ".bashrc", 'printf "\\036gtop1 {\\"t\\":\\n\\000\\377\\033]0;title\\007"\n'),
    "bash that keeps printing": ("/bin/bash", ".bashrc", '(while printf "\\033[31mnoise\\n"; do sleep 0.2; done) 2>/dev/null &\n'),
    "bash with 300 kB of output": ("/bin/bash", ".bashrc", "yes 'a line of a very long banner' | head -c 300000\n"),
    "bash with errors on stderr": ("/bin/bash", ".bashrc", "no-such-module load cuda\nprintf 'lost: ' >&2\n"),
    "zsh": ("/usr/bin/zsh", ".zshenv", BANNER),
    "dash": ("/usr/bin/dash", ".profile", BANNER),
    "mksh": ("/usr/bin/mksh", ".mkshrc", BANNER),
    "tcsh": ("/usr/bin/tcsh", ".cshrc", BANNER),
    "fish": ("/usr/bin/fish", ".config/fish/config.fish", BANNER),
}
# Shells that never run the command: the node is down with a fault.
UNUSABLE = {
    "bash that reads stdin": ("/bin/bash", ".bashrc", "read -r answer\n"),
    "bash that reads all of stdin": ("/bin/bash", ".bashrc", "cat >/tmp/consumed\n"),
    "bash that becomes zsh": ("/bin/bash", ".bashrc", "exec zsh\n"),
    "bash that becomes dash": ("/bin/bash", ".bashrc", "exec dash\n"),
    "bash that exits": ("/bin/bash", ".bashrc", "echo 'this is not a login node'; exit 0\n"),
    "bash that fails": ("/bin/bash", ".bashrc", "echo 'account expired'; exit 1\n"),
    "no such shell": ("/no/such/shell", ".bashrc", ""),
}

# Is slow enough to be reported, and records a second attempt that starts meanwhile.
SLOW = "mkdir /tmp/waiting || echo again >/tmp/twice\nsleep 15\nrmdir /tmp/waiting\n"


class Shells(LabCase):
    NODES, GPUS = len(NOISY) + len(UNUSABLE) + 3, 1

    @classmethod
    def prepare(cls):
        cls.node_of = dict(zip([*NOISY, *UNUSABLE], cls.lab.nodes[1:]))
        for case, (shell, file, text) in {**NOISY, **UNUSABLE}.items():
            cls.lab("shell", cls.node_of[case], shell)
            cls.lab.write_file(cls.node_of[case], file, text)
        cls.slow, cls.restricted = cls.lab.nodes[-2:]
        cls.lab.write_file(cls.slow, ".bashrc", SLOW)
        cls.lab("shell", cls.restricted, "/bin/rbash")
        cls.watch = cls.lab.watch(*cls.lab.nodes[:-2])

    def test_start_up_output_does_not_stop_the_probe(self):
        for case, (shell, _, _) in NOISY.items():
            with self.subTest(case):
                if not os.path.exists(shell):
                    self.skipTest(f"{shell} is not installed")
                node = self.watch.until_live(self.node_of[case])
                self.assertEqual(len(node.devices), 1)

    def test_a_shell_that_never_runs_the_probe_is_reported(self):
        for case in UNUSABLE:
            with self.subTest(case):
                fault = self.watch.until_down(self.node_of[case], r"\w", deadline=TIMEOUT)
                self.assertNotIn("\\u001b", fault)
        self.assertTrue(self.watch.latest().node("gpu01").up)

    def test_the_output_of_the_shell_is_in_the_reason(self):
        self.watch.until_down(self.node_of["bash that exits"], "this is not a login node")
        self.watch.until_down(self.node_of["bash that fails"], "account expired")

    def test_a_shell_that_waits_for_input_is_distinguished_from_one_that_runs_something_else(self):
        # Their input is closed only after a time in which a slow shell would have started.
        for case in ("bash that reads stdin", "bash that reads all of stdin"):
            self.watch.until_down(self.node_of[case], "a login file reads its input", 10 * TIMEOUT)
        self.watch.until_down(self.node_of["bash that becomes zsh"], "ended with its input", 10 * TIMEOUT)

    def test_a_slow_shell_is_waited_for_at_the_first_attempt(self):
        watch = self.lab.watch(self.slow)
        watch.until_down(self.slow, "timed out.* did not start it within 10 s")
        self.assertIn("the login shell is slow", watch.latest().node(self.slow).remedy)
        watch.until_live(self.slow, deadline=10 * TIMEOUT)
        twice = self.lab.run("cat", "/tmp/twice", node=self.slow).stdout
        self.assertEqual(twice, "")

    def test_a_restricted_shell_is_reported(self):
        watch = self.lab.watch(self.restricted)
        watch.until_down(self.restricted, "restricted")
        self.assertIn("may not run /bin/sh", watch.latest().node(self.restricted).remedy)

    def test_a_shell_that_reads_stdin_receives_nothing_of_the_probe(self):
        self.watch.until_down(self.node_of["bash that reads all of stdin"], "its input", 10 * TIMEOUT)
        consumed = self.lab.run("cat", "/tmp/consumed", node=self.node_of["bash that reads all of stdin"]).stdout
        self.assertEqual(consumed, "")

    def test_output_of_nodes_does_not_reach_the_terminal(self):
        nodes = [self.node_of["bash that prints control characters"], self.node_of["bash with a banner"]]
        terminal = self.lab.terminal((100, 30))
        terminal.gtop(*nodes)
        terminal.until("live", r"2 of 2 nodes")
        title = terminal.tmux("display-message", "-p", "-t", "s", "#{pane_title}").strip()
        self.assertNotEqual(title, "title")
        self.assertNotIn("Welcome", terminal.text())
        terminal.type("q")


if __name__ == "__main__":
    unittest.main()
