"""The question of an unknown host on the screen, in a real terminal: one host, many, a gateway, a changed key."""

import re
import unittest

from harness import LabCase, wait_for

# This many nodes keep a small machine busy.
ALONE = True

GATEWAY = "gpu01"
CONNECT_TIMEOUT = 90


class HostKeys(LabCase):
    NODES, GPUS = 65, 1

    def known(self, path):
        """Returns {name: key} of a known_hosts file."""
        with open(path, encoding="utf-8") as file:
            return {line.split()[0]: line.split()[2] for line in file}

    def key(self, node):
        with open(f"{self.lab.root}/run/lab/nodes/{node}/hostkey.pub", encoding="utf-8") as file:
            return file.read().split()[1]

    def open(self, home, *arguments, down=1, size=(80, 24)):
        """Starts gtop where it cannot reach some nodes for an unknown host; returns the terminal."""
        terminal = self.lab.terminal(size, home=home)
        terminal.gtop(*arguments)
        terminal.until("the fault and the key", rf"{down} down[\s\S]*host key unknown[\s\S]*A host keys", CONNECT_TIMEOUT)
        terminal.type("A")
        return terminal

    def answer(self, terminal, text):
        terminal.command(text)

    def close(self, terminal):
        terminal.type("q")
        terminal.until("the prompt again", r"ready> *$")

    def test_one_host_with_a_wrong_fingerprint_and_the_right_one(self):
        path = self.lab.forget("one", "gpu02")
        before = self.known(path)
        terminal = self.open("one", "gpu[02-03]")
        shown = terminal.until("the question", "yes, no or the fingerprint:")
        self.assertIn("gpu02 is not known: is it the right machine?", shown)
        self.assertIn(f"{self.lab.script.address('gpu02')} port 22", shown)
        self.assertRegex(shown, f"ssh-ed25519 +{re.escape(self.lab.fingerprint('gpu02'))}")
        for answer, note in (
            ("y", "please type yes, no or a fingerprint"),
            (self.lab.fingerprint("gpu03"), "no key of this host has that fingerprint; nothing was accepted"),
            (self.lab.fingerprint("gpu02")[:-1], "nothing was accepted"),
        ):
            self.answer(terminal, answer)
            terminal.until("what is wrong", note)
        self.answer(terminal, "no")
        terminal.until("the list again", "A host keys")
        self.assertEqual(self.known(path), before)
        terminal.type("A")
        terminal.until("the question", "yes, no or the fingerprint:")
        terminal.paste(self.lab.fingerprint("gpu02") + "\n")
        terminal.until("the pasted text", re.escape(self.lab.fingerprint("gpu02")[-20:]))
        self.assertEqual(self.known(path), before, "a paste alone answers nothing")
        terminal.type("Enter")
        terminal.until("the key is stored", "1 host key stored; connecting")
        wait_for(terminal.text, lambda: "host key unknown" not in terminal.text())
        self.close(terminal)
        self.assertEqual(self.known(path), {**before, "gpu02": self.key("gpu02")})
        # ssh accepts it.
        self.assertEqual(self.lab.run("ssh", "-o", "BatchMode=yes", "gpu02", "hostname", home="one").stdout, "gpu02\n")

    def test_sixty_four_hosts_in_one_list(self):
        nodes = [node for node in self.lab.nodes if node != GATEWAY]
        path = self.lab.forget("many", *nodes)
        terminal = self.open("many", "--interval", "5", "gpu[02-65]", down=64, size=(200, 50))
        terminal.until("the question", "64 hosts are not known: are they the right machines?")
        seen = ""
        for _ in range(20):
            seen += terminal.text()
            terminal.type("PPage" if f"gpu65  {self.lab.script.address('gpu65')}" in seen else "NPage")
        for node in nodes:
            self.assertIn(self.lab.fingerprint(node), seen)
        # Some by fingerprint, with one of another host among them; the others stay.
        pasted = "".join(f"256 {self.lab.fingerprint(node)} root@{node} (ED25519)\n" for node in ("gpu02", GATEWAY, "gpu03"))
        terminal.paste(pasted)
        terminal.until("the pasted text", r"fingerprints: .*\(ED25519\)")
        terminal.type("Enter")
        terminal.until("the rest of the question", "2 host keys stored; 62 hosts left", CONNECT_TIMEOUT)
        self.answer(terminal, "yes")
        terminal.until("the keys are stored", "64 host keys stored; connecting", CONNECT_TIMEOUT)
        terminal.until("all nodes are up", "64 of 64 nodes fresh", CONNECT_TIMEOUT)
        self.close(terminal)
        self.assertEqual(self.known(path), {node: self.key(node) for node in self.lab.nodes})

    def test_a_changed_key_is_never_accepted(self):
        path = self.lab.forget("changed", "gpu02")
        known = self.known(path)
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{node} ssh-ed25519 {self.key(GATEWAY) if node == 'gpu03' else key}\n" for node, key in known.items())
        before = self.known(path)
        terminal = self.open("changed", "gpu[02-03]", down=2)
        shown = terminal.until("the question", "yes, no or the fingerprint:")
        self.assertNotIn("gpu03 is not known", shown)
        self.answer(terminal, "yes")
        terminal.until("the key is stored", "1 host key stored; connecting")
        terminal.until("the changed key is still a fault", "host key changed")
        wait_for(terminal.text, lambda: "host key unknown" not in terminal.text())
        for keys in (["A"], ["Down", "A"]):
            terminal.type(*keys)
            terminal.until("no question", "no host here has an unknown key|gtop never accepts such a key here")
        self.close(terminal)
        self.assertEqual(self.known(path), {**before, "gpu02": self.key("gpu02")})

    def test_a_key_that_changes_while_it_is_asked_about_is_refused(self):
        path = self.lab.forget("late", "gpu04", "gpu05")
        terminal = self.lab.terminal((80, 24), home="late")
        terminal.gtop("gpu[04-05]")
        terminal.until("the fault", r"2 down[\s\S]*A host keys")
        # Another program has stored a key of gpu04 meanwhile, which is not the node's.
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"gpu04 ssh-ed25519 {self.key(GATEWAY)}\n")
        terminal.type("A")
        shown = terminal.until("the question", "gpu05 is not known")
        self.assertRegex(shown, r"gpu04\n +host key of gpu04 has changed")
        self.answer(terminal, "yes")
        terminal.until("the key is stored", "1 host key stored; connecting")
        self.close(terminal)
        known = self.known(path)
        self.assertEqual((known["gpu04"], known["gpu05"]), (self.key(GATEWAY), self.key("gpu05")))

    def test_a_gateway_comes_before_the_nodes_behind_it(self):
        path = self.lab.forget("behind", GATEWAY, "gpu02", "gpu03")
        with open(f"{self.lab.home('behind')}/.ssh/config", "w", encoding="utf-8") as file:
            file.write(f"Host gpu* !{GATEWAY}\n  ProxyJump {GATEWAY}\n")
        terminal = self.open("behind", "gpu[02-03]", down=2)
        shown = terminal.until("the question", f"the gateway {GATEWAY} is not known: is it the right machine?")
        self.assertIn("the gateway of 2 nodes", shown)
        self.assertNotIn(self.lab.fingerprint("gpu02"), shown)
        self.answer(terminal, self.lab.fingerprint(GATEWAY))
        shown = terminal.until("the nodes behind it", "2 hosts are not known", CONNECT_TIMEOUT)
        self.assertIn(f"port 22, through {GATEWAY}", shown)
        self.answer(terminal, "yes")
        terminal.until("the keys are stored", "3 host keys stored; connecting", CONNECT_TIMEOUT)
        wait_for(terminal.text, lambda: "host key unknown" not in terminal.text())
        self.close(terminal)
        known = self.known(path)
        self.assertEqual({node: known[node] for node in (GATEWAY, "gpu02", "gpu03")}, {node: self.key(node) for node in (GATEWAY, "gpu02", "gpu03")})

    def test_of_two_hosts_under_one_name_one_is_accepted(self):
        """As with ssh: the second shows another key than the first, whose key is known by then."""
        path = self.lab.forget("shared", *self.lab.nodes)
        with open(f"{self.lab.home('shared')}/.ssh/config", "w", encoding="utf-8") as file:
            file.write("Host gpu02 gpu03\n  HostKeyAlias cluster\n")
        terminal = self.open("shared", "gpu[02-03]", down=2)
        shown = terminal.until("the question", "gpu02 is not known: is it the right machine?")
        self.assertRegex(shown, r"gpu03\n +its key differs from that of gpu02, and known_hosts has both as cluster")
        self.answer(terminal, "yes")
        terminal.until("the key is stored", "1 host key stored; connecting")
        terminal.until("the other one", "host key changed")
        self.close(terminal)
        self.assertEqual(self.known(path), {"cluster": self.key("gpu02")})
        for node, status in ("gpu02", 0), ("gpu03", 255):
            done = self.lab.run("ssh", "-o", "BatchMode=yes", "-o", "UpdateHostKeys=no", node, "true", home="shared")
            self.assertEqual(done.returncode, status, done.stderr)

    def test_trust_walks_from_the_gateway_to_the_nodes(self):
        path = self.lab.forget("walk", GATEWAY, "gpu02", "gpu03")
        with open(f"{self.lab.home('walk')}/.ssh/config", "w", encoding="utf-8") as file:
            file.write(f"Host gpu* !{GATEWAY}\n  ProxyJump {GATEWAY}\n")
        # Each question has an answer of its own, also by fingerprint.
        answers = f"{self.lab.fingerprint(GATEWAY)}\nyes\n"
        done = self.lab.run("gtop", "trust", "gpu[02-03]", home="walk", stdin=answers)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"{GATEWAY} \(.* port 22, the gateway of 2 nodes\):\n  ssh-ed25519 SHA256")
        self.assertEqual(self.known(path), {node: self.key(node) for node in self.lab.nodes})
        self.assertEqual(self.lab.snapshot("gpu[02-03]", home="walk").up(), ["gpu02", "gpu03"])


if __name__ == "__main__":
    unittest.main()
