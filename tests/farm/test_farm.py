"""gtop from end to end, as an ordinary user: eight real sshd on loopback, found through ssh_config.

Run with GTOP set to the binary; without it the debug build of this checkout is taken.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
GTOP = os.environ.get("GTOP") or os.path.join(TOP, os.environ.get("CARGO_TARGET_DIR", "target"), "debug", "gtop")
NODES = [f"gpu{number:02}" for number in range(1, 9)]


class Farm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="gtop-farm.")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.servers = subprocess.Popen(
            [sys.executable, f"{HERE}/farm", "run", f"{cls.directory}/farm", str(len(NODES))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        cls.addClassCleanup(cls.end)
        if cls.servers.stdout.readline() != "ready\n":
            raise RuntimeError("the farm did not come up")

    @classmethod
    def end(cls):
        cls.servers.stdin.close()
        cls.servers.wait()
        cls.servers.stdout.close()

    def gtop(self, *arguments, stdin=""):
        farm = f"{self.directory}/farm"
        environment = {"HOME": f"{farm}/home", "PATH": f"{farm}/bin:{os.environ['PATH']}", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        return subprocess.run([GTOP, *arguments], env=environment, input=stdin, capture_output=True, text=True, timeout=60, check=False)

    def snapshot(self, *arguments, **options):
        done = self.gtop("--json", *arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def test_a_node_set_of_aliases_is_watched(self):
        nodes = self.snapshot("gpu[01-08]")["nodes"]
        self.assertEqual([node["name"] for node in nodes], NODES)
        for number, node in enumerate(nodes, 1):
            self.assertEqual((node["link"], node["fault"]), ("up", None), node["name"])
            uuids = [f"GPU-{number:08x}-0000-4000-8000-{gpu:012x}" for gpu in range(2)]
            self.assertEqual([device["uuid"] for device in node["devices"]], uuids)
            used = [(1000 * number + gpu) << 20 for gpu in range(2)]
            self.assertEqual([device["memory_used_bytes"] for device in node["devices"]], used)

    def test_one_machine_under_eight_names_counts_once(self):
        snapshot = self.snapshot("gpu[01-08]")
        self.assertEqual([node["same_as"] for node in snapshot["nodes"]], [None] + ["gpu01"] * 7)
        self.assertEqual(snapshot["totals"]["devices"], 2)

    def test_hosts_come_from_a_file_too(self):
        path = f"{self.directory}/hosts"
        with open(path, "w", encoding="utf-8") as file:
            file.write("# the quiet ones\ngpu[01-02]   # and a comment\n\ngpu05\n")
        names = [node["name"] for node in self.snapshot("--hosts-file", path)["nodes"]]
        self.assertEqual(names, ["gpu01", "gpu02", "gpu05"])
        names = [node["name"] for node in self.snapshot("-f", "-", stdin="gpu03\n")["nodes"]]
        self.assertEqual(names, ["gpu03"])

    def test_hosts_come_from_an_mpi_host_file_and_the_ssh_configuration(self):
        path = f"{self.directory}/hostfile"
        with open(path, "w", encoding="utf-8") as file:
            file.write("# mpirun\ngpu01 slots=8 max_slots=8\ngpu02:8\ngpu01 slots=2\n")
        names = [node["name"] for node in self.snapshot("--mpi-hostfile", path)["nodes"]]
        self.assertEqual(names, ["gpu01", "gpu02"])
        names = [node["name"] for node in self.snapshot("--ssh-config-hosts=gpu*", "--exclude", "gpu[03-07]")["nodes"]]
        self.assertEqual(names, ["gpu01", "gpu02", "gpu08"])
        done = self.gtop("--json", "gpu01", "--exclude", "gpu01")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("no node is left", done.stderr)

    def test_groups_and_operations_name_nodes(self):
        folder = f"{self.directory}/farm/home/.config/clustershell/groups.d"
        os.makedirs(folder)
        with open(f"{folder}/farm.yaml", "w", encoding="utf-8") as file:
            file.write("farm:\n  left: gpu[01-04]\n  odd: [gpu01, gpu03, gpu05]\n")
        names = [node["name"] for node in self.snapshot("@left&@odd,gpu08!gpu01")["nodes"]]
        self.assertEqual(names, ["gpu03", "gpu08"])

    def test_a_pipe_gets_a_table(self):
        done = self.gtop("gpu03", "gpu04")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("gpu03", "gpu04", "same machine as gpu03"):
            self.assertIn(word, done.stdout)
        self.assertNotIn("\x1b", done.stdout)

    def test_local_needs_no_ssh(self):
        snapshot = self.snapshot("--local")
        self.assertEqual([node["link"] for node in snapshot["nodes"]], ["up"])

    def test_a_node_whose_server_is_gone_is_down_and_the_others_are_not(self):
        with open(f"{self.directory}/farm/home/.ssh/config", "a", encoding="utf-8") as file:
            file.write("Host gone\n  HostName 127.0.77.200\n  Port 1\n")
        nodes = {node["name"]: node for node in self.snapshot("gpu01", "gone")["nodes"]}
        self.assertEqual(nodes["gpu01"]["link"], "up")
        self.assertEqual(nodes["gone"]["fault"]["kind"], "connection refused")


if __name__ == "__main__":
    unittest.main()
