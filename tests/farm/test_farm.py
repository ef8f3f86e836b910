"""gtop end to end, as an ordinary user: eight real sshd on loopback, found through ssh_config.

GTOP is the binary; default: the debug build of this checkout.
"""

import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
GTOP = os.environ.get("GTOP") or os.path.join(TOP, os.environ.get("CARGO_TARGET_DIR", "target"), "debug", "gtop")
NODES = [f"gpu{number:02}" for number in range(1, 9)]


class Metadata(http.server.BaseHTTPRequestHandler):
    """A metadata server of worker 1 of a pod; the workers are nodes of the farm."""

    protocol_version = "HTTP/1.1"
    values = {
        "worker-network-endpoints": ",".join(f"unknown:unknown:127.0.77.{number}" for number in (3, 1, 2, 4)),
        "agent-worker-number": "1",
        "accelerator-type": "v4-32",
    }

    def do_GET(self):
        path, _, name = self.path.rpartition("/")
        is_valid = path == "/computeMetadata/v1/instance/attributes" and self.headers["Metadata-Flavor"] == "Google"
        text = self.values.get(name) if is_valid else None
        self.send_response(200 if text else 404)
        self.send_header("Metadata-Flavor", "Google")
        self.send_header("Content-Length", str(len(text or "")))
        self.end_headers()
        self.wfile.write((text or "").encode())

    def log_message(self, *_):
        pass


class FarmCase(unittest.TestCase):
    """Tests that share one farm."""

    COUNT = len(NODES)

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="gtop-farm.")
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        # Processes of other users read their files in there.
        os.chmod(cls.directory, 0o755)
        cls.servers = subprocess.Popen(
            [sys.executable, f"{HERE}/farm", "run", f"{cls.directory}/farm", str(cls.COUNT)],
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

    def environment(self, **variables):
        farm = f"{self.directory}/farm"
        return {**variables, "HOME": f"{farm}/home", "PATH": f"{farm}/bin:{os.environ['PATH']}", "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}

    def at_home(self):
        """Returns the prefix of a command that runs with the home of the farm."""
        return [f"{HERE}/../at_home", f"{self.directory}/farm/home"]

    def gtop(self, *arguments, stdin="", **variables):
        environment = self.environment(**variables)
        return subprocess.run([*self.at_home(), GTOP, *arguments], env=environment, input=stdin, capture_output=True, text=True, timeout=60, check=False)

    def snapshot(self, *arguments, **options):
        done = self.gtop("--json", *arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def metadata(self):
        """Starts a metadata server that runs until the test ends; returns its address."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"127.0.0.1:{server.server_address[1]}"


class Farm(FarmCase):
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

    def test_hosts_are_read_from_a_file(self):
        path = f"{self.directory}/hosts"
        with open(path, "w", encoding="utf-8") as file:
            file.write("# the quiet ones\ngpu[01-02]   # and a comment\n\ngpu05\n")
        names = [node["name"] for node in self.snapshot("--hosts-file", path)["nodes"]]
        self.assertEqual(names, ["gpu01", "gpu02", "gpu05"])
        names = [node["name"] for node in self.snapshot("-f", "-", stdin="gpu03\n")["nodes"]]
        self.assertEqual(names, ["gpu03"])

    def test_hosts_are_read_from_an_mpi_host_file_and_the_ssh_configuration(self):
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

    def test_groups_and_set_operations_select_nodes(self):
        folder = f"{self.directory}/farm/home/.config/clustershell/groups.d"
        os.makedirs(folder)
        with open(f"{folder}/farm.yaml", "w", encoding="utf-8") as file:
            file.write("farm:\n  left: gpu[01-04]\n  odd: [gpu01, gpu03, gpu05]\n")
        names = [node["name"] for node in self.snapshot("@left&@odd,gpu08!gpu01")["nodes"]]
        self.assertEqual(names, ["gpu03", "gpu08"])

    def test_the_workers_of_a_pod_are_watched_in_order(self):
        address = self.metadata()
        nodes = self.snapshot("--tpu-pod", GCE_METADATA_HOST=address)["nodes"]
        names = ["w0 127.0.77.3", "w1 127.0.77.1", "w2 127.0.77.2", "w3 127.0.77.4"]
        self.assertEqual([node["name"] for node in nodes], names)
        self.assertEqual([(node["link"], node["fault"]) for node in nodes], [("up", None)] * 4)
        self.assertEqual([node["transport"] for node in nodes], ["native", "local", "native", "native"])
        for node, number in ((nodes[0], 3), (nodes[2], 2), (nodes[3], 4)):
            self.assertEqual(node["devices"][0]["uuid"], f"GPU-{number:08x}-0000-4000-8000-{0:012x}")
        nodes = self.snapshot("--tpu-pod", "--exclude", "w[2-3]", GCE_METADATA_HOST=address)["nodes"]
        self.assertEqual([node["name"] for node in nodes], names[:2])

    def test_workers_are_read_from_the_environment_as_on_kubernetes(self):
        variables = {"TPU_WORKER_HOSTNAMES": "gpu03,gpu01,gpu02", "TPU_WORKER_ID": "1", "TPU_ACCELERATOR_TYPE": "v5litepod-12"}
        nodes = self.snapshot("--tpu-pod", **variables)["nodes"]
        self.assertEqual([node["name"] for node in nodes], ["w0 gpu03", "w1 gpu01", "w2 gpu02"])
        self.assertEqual([node["transport"] for node in nodes], ["native", "local", "native"])
        variables["TPU_WORKER_HOSTNAMES"] = "gpu03,-oProxyCommand=x"
        done = self.gtop("--tpu-pod", "--once", **variables)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("entry 1 of TPU_WORKER_HOSTNAMES", done.stderr)

    def test_the_doctor_examines_the_pod(self):
        done = self.gtop("doctor", "--tpu-pod", GCE_METADATA_HOST=self.metadata())
        for text in ("tpu-pod", "v4-32", "4, this machine is w1", "w3 127.0.77.4, by SSH", "w2 127.0.77.2\n", "known by"):
            self.assertIn(text, done.stdout)
        done = self.gtop("doctor", "--tpu-pod", "--json", GCE_METADATA_HOST=self.metadata())
        names = [node["name"] for node in json.loads(done.stdout)["nodes"]]
        self.assertEqual(names, ["tpu-pod", "w0 127.0.77.3", "w1 127.0.77.1", "w2 127.0.77.2", "w3 127.0.77.4"])

    def test_the_addresses_of_a_pod_are_read_from_a_file(self):
        home = f"{self.directory}/farm/home"
        for name in ("podips", "mine"):
            with open(f"{home}/{name}.txt", "w", encoding="utf-8") as file:
                file.write("# pod\r\n127.0.77.2\r\n127.0.77.1 # the second\r\n")
        for options in (["--pod-ips"], ["--pod-ips=mine"], [f"--pod-ips={home}/mine.txt"], ["--podips=mine.txt"]):
            nodes = self.snapshot(*options)["nodes"]
            self.assertEqual([node["name"] for node in nodes], ["w0 127.0.77.2", "w1 127.0.77.1"])
            self.assertEqual([node["link"] for node in nodes], ["up", "up"])

    def test_piped_output_is_a_table(self):
        done = self.gtop("gpu03", "gpu04")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("gpu03", "gpu04", "same machine as gpu03"):
            self.assertIn(word, done.stdout)
        self.assertNotIn("\x1b", done.stdout)

    def test_local_needs_no_ssh(self):
        snapshot = self.snapshot("--local")
        self.assertEqual([node["link"] for node in snapshot["nodes"]], ["up"])

    def test_a_node_without_a_server_is_down_and_the_others_are_up(self):
        with open(f"{self.directory}/farm/home/.ssh/config", "a", encoding="utf-8") as file:
            file.write("Host gone\n  HostName 127.0.77.200\n  Port 1\n")
        nodes = {node["name"]: node for node in self.snapshot("gpu01", "gone")["nodes"]}
        self.assertEqual(nodes["gpu01"]["link"], "up")
        self.assertEqual(nodes["gone"]["fault"]["kind"], "connection refused")


if __name__ == "__main__":
    unittest.main()
