"""Nodes that take their time: slow login shells of four kinds, directly and through a gateway, and servers that are slow
to show their banner."""

import os
import unittest

from harness import TIMEOUT, LabCase, wait_for

# Many sessions start on a small machine.
ALONE = True

GATEWAY = "gpu01"
# Seconds that a shell sleeps: around the reports of a slow shell at 10, 20 and 40 seconds.
DURATIONS = [0, 5, 9, 10, 11, 12, 13, 19, 20, 21, 22, 23, 39, 40, 41, 42, 43, 60]
SHELLS = {
    "/bin/bash": ".bashrc",
    "/usr/bin/zsh": ".zshenv",
    "/usr/bin/fish": ".config/fish/config.fish",
    "/usr/bin/tcsh": ".cshrc",
}
CASES = [(shell, seconds) for seconds in DURATIONS for shell in SHELLS]

# Passes bytes on between a client and the sshd of a node, but starts with that only after some seconds.
RELAY = """
import socket, sys, threading, time
port, node, delay = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
def serve(client):
    time.sleep(delay)
    server = socket.create_connection((node, 22))
    threading.Thread(target=copy, args=(server, client), daemon=True).start()
    copy(client, server)
with socket.create_server(("127.0.0.1", port)) as listener:
    open(sys.argv[4], "w").close()
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""
# Seconds until the banner, by the port of the relay.
RELAYS = {2214: 14, 2225: 25}

CONFIG = """
Host via-*
  ProxyJump {gateway}
Host slow-* behind-*
  HostKeyAlias {relayed}
Host slow-2214
  Port 2214
Host slow-2225
  Port 2225
Host slow-*
  HostName 127.0.0.1
Host behind-*
  HostName {relayed}
Host behind-2214
  ProxyJump slow-2214
Host behind-2225
  ProxyJump slow-2225
"""


class Slow(LabCase):
    NODES, GPUS = len(CASES) + 3, 1

    @classmethod
    def prepare(cls):
        lab = cls.lab
        lab("sshd", GATEWAY, "MaxStartups 300:30:300")
        cls.relayed, cls.reading = lab.nodes[1:3]
        cls.shells = dict(zip(lab.nodes[3:], CASES))
        config = CONFIG.format(gateway=GATEWAY, relayed=cls.relayed)
        for node, (shell, seconds) in cls.shells.items():
            lab("shell", node, shell)
            lab.write_file(node, SHELLS[shell], f"sleep {seconds}\n")
            config += f"Host via-{node}\n  HostName {node}\n  HostKeyAlias {node}\n"
        lab.write_file(cls.reading, ".bashrc", "read -r answer\n")
        home = lab.home("slow")
        with open(f"{home}/.ssh/config", "w", encoding="utf-8") as file:
            file.write(config)
        for port, seconds in RELAYS.items():
            sign = f"/run/lab/homes/slow/listens-{port}"
            lab.background("python3", "-c", RELAY, str(port), cls.relayed, str(seconds), sign)
            wait_for(f"the relay at {port}", lambda path=lab.root + sign: os.path.exists(path))
        # All at once, because each takes minutes.
        cls.names = {name: case for node, case in cls.shells.items() for name in (node, f"via-{node}")}
        cls.servers = [f"{kind}-{port}" for kind in ("slow", "behind") for port in RELAYS]
        cls.slowest = [node for node, case in cls.shells.items() if case[1] in (43, 60)]
        cls.shells_watch = cls.start_watch(*cls.names)
        cls.reading_watch = cls.start_watch(cls.reading)
        cls.servers_watch = cls.start_watch(*cls.servers)
        cls.program_watch = cls.start_watch("--transport", "ssh", *cls.slowest)

    @classmethod
    def start_watch(cls, *nodes):
        """Watches without the short connect timeout of other tests."""
        return cls.lab.watch("--connect-timeout", "10", "--interval", "5", *nodes, home="slow")

    def faults(self, watch, name):
        """Returns all faults that were shown of a node, in order and each once."""
        return list(dict.fromkeys(filter(None, (snapshot.node(name).fault for snapshot in watch.snapshots))))

    def until_live(self, watch, names):
        watch.until("all live", lambda seen: all(seen.node(name).live for name in names), 8 * TIMEOUT)

    def test_a_slow_login_shell_comes_up_and_is_said_to_be_slow_until_then(self):
        self.until_live(self.shells_watch, self.names)
        for name, case in self.names.items():
            for fault in self.faults(self.shells_watch, name):
                # A busy machine may have other faults.
                self.assertNotIn("its input", fault, f"{name} {case}")

    def test_the_ssh_program_is_waited_for(self):
        self.until_live(self.program_watch, self.slowest)
        for node in self.slowest:
            for fault in self.faults(self.program_watch, node):
                self.assertNotIn("its input", fault, node)

    def test_a_login_shell_that_reads_its_input_is_told_in_the_end(self):
        watch = self.reading_watch
        watch.until_down(self.reading, "a login file reads its input", 8 * TIMEOUT)
        self.assertIn("only when interactive", watch.latest().node(self.reading).remedy)
        first, *_, before, last = self.faults(watch, self.reading)
        self.assertRegex(first, "^timed out: the login shell did not start it within")
        self.assertIn("a login file may read its input", before)
        self.assertIn("a login file reads its input", last)

    def test_a_server_that_is_slow_to_show_its_banner_gets_more_time_also_as_a_gateway(self):
        self.until_live(self.servers_watch, self.servers)
        for name in self.servers:
            for fault in self.faults(self.servers_watch, name):
                self.assertRegex(fault, "timed out: .*waiting for the SSH banner", name)

    def test_gtop_login_waits_for_a_slow_server(self):
        done = self.lab.gtop("login", "slow-2214", home="slow", timeout=8 * TIMEOUT)
        self.assertEqual(done.stdout, "slow-2214: no login needed\n", done.stderr)

    def test_the_doctor_waits_for_a_slow_shell(self):
        node = next(node for node, case in self.shells.items() if case == ("/bin/bash", 22))
        report = self.lab.gtop("doctor", node, f"via-{node}", home="slow", timeout=8 * TIMEOUT).stdout
        self.assertEqual(report.count("it started the probe only after 2"), 2, report)
        self.assertNotIn("FAILED", report)


if __name__ == "__main__":
    unittest.main()
