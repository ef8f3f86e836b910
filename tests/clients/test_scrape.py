"""Nodes read from the pages of real exporters: nvitop-exporter over the NVML stub, and node_exporter of Debian. What gtop shows is
compared with the stub's scenario and with /proc.

    GTOP=path/to/gtop GTOP_NVITOP_EXPORTER=path/to/python python3 -m unittest -v test_scrape

GTOP_NVITOP_EXPORTER is a Python with nvitop-exporter, from PyPI.
"""

import getpass
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest
import urllib.request

import rig
from rig import MIB, Machine
from serving import free_port, give_up, needs, read, until

NODE_EXPORTER = "prometheus-node-exporter"
NOT_OFFERED = "not offered by this source"
WIDTH, HEIGHT = 150, 40

SCENARIO = ("driver 570.133.20 12080\n"
            "gpu 0 util=93 memutil=51 temp=63 power_mw=383250 total_mib=81920 used_mib=70003 clk_sm=1405 clk_mem=1593 enc=7 dec=9 "
            "name=NVIDIA A100-SXM4-80GB\n"
            "proc 0 {pid} 9000 sm=40 mem=3 enc=1 dec=2\n"
            "gpu 1 power_mw=~ util=~ fan=31 temp=41 total_mib=81559 used_mib=0\n")


def running(command, environment=None):
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def page_has(url, family):
    try:
        with urllib.request.urlopen(url, timeout=10) as page:
            return family in page.read().decode()
    except OSError:
        return False


def gtop(*words, status=0, environment=None):
    environment = environment or {**os.environ, "TZ": "UTC"}
    done = subprocess.run([rig.GTOP, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode == status, (words, done)
    return done.stdout.decode() or done.stderr.decode()


def nodes(*words, status=0):
    return json.loads(gtop("--json", "--deadline", "60", *words, status=status))["nodes"]


def proc(name):
    """Returns the values of a file of /proc by name, in bytes."""
    rows = (line.split() for line in read("/proc/" + name).splitlines())
    return {row[0].rstrip(":"): int(row[1]) * 1024 for row in rows}


def uptime():
    return float(read("/proc/uptime").split()[0])


class Case(unittest.TestCase):
    maxDiff = None

    def start(self, command, url, family, environment=None):
        """Starts an exporter, and returns it once its page has a family."""
        exporter = running(command, environment)
        self.addCleanup(exporter.wait)
        self.addCleanup(exporter.kill)
        until(f"{family} at {url}", lambda: page_has(url, family) or exporter.poll() is not None)
        self.assertIsNone(exporter.poll(), command)
        return exporter

    def start_nvitop(self):
        """Starts nvitop-exporter on a machine of the scenario; returns it with its address and the pid of its process."""
        python = os.environ.get("GTOP_NVITOP_EXPORTER")
        if not python:
            give_up("no nvitop-exporter: GTOP_NVITOP_EXPORTER is not set")
        pid, = Machine.pids(1)
        machine = Machine(SCENARIO.format(pid=pid))
        port = free_port()
        url = f"http://127.0.0.1:{port}/metrics"
        program = os.path.join(os.path.dirname(python), "nvitop-exporter")
        command = [program, "--port", str(port), "--interval", "0.5", "--hostname", "gpu07"]
        return self.start(command, url, 'process_gpu_memory_MiB{devicename="NVIDIA A100-SXM4-80GB"', machine.environment), url, pid

    def start_node_exporter(self):
        needs(NODE_EXPORTER)
        port = free_port()
        url = f"http://127.0.0.1:{port}/metrics"
        return self.start([NODE_EXPORTER, f"--web.listen-address=127.0.0.1:{port}"], url, "node_cpu_seconds_total"), url

    def screen(self, *words):
        """Opens the screen, and returns a function that types keys and returns what it shows."""
        needs("tmux")
        name = f"gtop-scrape-{os.getpid()}-{self.id().rsplit('.', 1)[1]}"

        def tmux(*words):
            done = subprocess.run(["tmux", "-L", name, "-f", "/dev/null", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**os.environ, "LC_ALL": "C.UTF-8", "HOME": rig.folder()}, timeout=60, check=False)
            return done.stdout.decode()
        self.addCleanup(tmux, "kill-server")
        tmux("new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), rig.GTOP, *words)

        def shown(*keys):
            if keys:
                tmux("send-keys", *keys)
            return tmux("capture-pane", "-p")
        return shown


class NvitopExporter(Case):
    def check_devices(self, node, pid):
        """Compares the devices with the scenario."""
        self.assertEqual((node["link"], node["transport"]), ("up", "http"))
        busy, partial = node["devices"]
        expected = {
            "index": 0, "name": "NVIDIA A100-SXM4-80GB", "vendor": "nvidia", "driver_version": "570.133.20", "utilization_percent": 93,
            "memory_utilization_percent": 51, "memory_total_bytes": 81920 * MIB, "memory_used_bytes": 70003 * MIB,
            "temperature_celsius": 63, "power_watts": 383.25, "sm_clock_megahertz": 1405, "memory_clock_megahertz": 1593,
            "encoder_percent": 7, "decoder_percent": 9,
        }
        self.assertEqual({key: busy[key] for key in expected}, expected)
        self.assertRegex(busy["uuid"], "^GPU-0abc0000-")
        expected = {"index": 1, "utilization_percent": None, "power_watts": None, "temperature_celsius": 41, "fan_percent": 31}
        self.assertEqual({key: partial[key] for key in expected}, expected)
        unknown = {key: partial["unknown"][key] for key in ("utilization_percent", "power_watts", "ecc_corrected_errors", "pci_bus")}
        self.assertEqual(unknown, {"utilization_percent": "not available", "power_watts": "not available",
                                   "ecc_corrected_errors": NOT_OFFERED, "pci_bus": NOT_OFFERED})
        process, = busy["processes"]
        expected = {"pid": pid, "user": getpass.getuser(), "memory_used_bytes": 9000 * MIB, "sm_percent": 40,
                    "memory_utilization_percent": 3, "encoder_percent": 1, "decoder_percent": 2, "state": "S", "uid": None,
                    "command": read(f"/proc/{pid}/cmdline").rstrip("\0").replace("\0", " ")}
        self.assertEqual({key: process[key] for key in expected}, expected)
        ticks = int(read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
        began = ticks / os.sysconf("SC_CLK_TCK")
        # The exporter serves its uptime some moments after the values of the host.
        self.assertLess(abs(process["start_ticks"] / 100 - began), 10)

    def test_json_has_what_the_driver_and_the_kernel_say(self):
        _, url, pid = self.start_nvitop()
        before = uptime()
        node, = nodes(url)
        self.check_devices(node, pid)
        host = node["host"]
        self.assertEqual((host["host_name"], host["probe"], host["cpus"], host["boot_id"]), ("gpu07", "nvitop-exporter", None, None))
        memory = proc("meminfo")
        self.assertEqual(host["memory_total_bytes"], memory["MemTotal"])
        self.assertEqual(host["swap_total_bytes"], memory["SwapTotal"])
        self.assertTrue(before - 10 < host["uptime_seconds"] < uptime() + 10, host)
        self.assertIsNotNone(host["cpu_percent"])
        self.assertEqual((host["pressure_io_percent"], host["unknown"]["pressure_io_percent"]), (None, NOT_OFFERED))
        root = os.statvfs("/")
        spaces = {space["path"]: space["total_bytes"] for space in host["space"]}
        self.assertEqual(spaces.get("/", root.f_blocks * root.f_frsize), root.f_blocks * root.f_frsize)
        interfaces = {line.split(":")[0].strip() for line in read("/proc/net/dev").splitlines()[2:]}
        self.assertLessEqual({flow["name"] for flow in host["network"]}, interfaces - {"lo"})
        self.assertIn("127.0.0.1", gtop("--once", url))

    def test_the_screen_shows_it_refuses_requests_and_keeps_old_values(self):
        exporter, url, pid = self.start_nvitop()
        shown = self.screen(url)
        until("the screen", lambda: "1 Fleet" in shown())
        until("the node", lambda: re.search(r"127\.0\.0\.1 .*\b93\b.*68/160", shown("1")))
        until("its way", lambda: "via http  nvitop-exporter" in shown())
        shown("4")
        until("the process", lambda: str(pid) in shown())
        until("a selected process", lambda: f"{pid} {getpass.getuser()} on 127.0.0.1" in shown("Down"))
        shown("e")
        until("the refusal", lambda: "read from a page of metrics, which takes no requests; name the host itself" in shown())
        shown("Escape")
        until("the list", lambda: f"{pid} {getpass.getuser()} on 127.0.0.1" in shown())
        shown("T")
        until("the question", lambda: "which takes no signals" in shown())
        shown("Enter")
        until("no signal", lambda: "not sent" in shown())
        os.kill(pid, 0)
        shown("Escape")
        until("the list again", lambda: "not sent" not in shown())
        shown("1")
        exporter.send_signal(signal.SIGKILL)
        exporter.wait()
        until("the fault", lambda: re.search(r"✗ 127\.0\.0\.1 .*page not reached: connection refused", shown()))
        until("old values", lambda: re.search(r"(values \d+s old|last seen \d+s ago)", shown()))
        for part in ("check that the exporter runs on the host", "68.4/80.0", "no fresh samples"):
            self.assertIn(part, shown())

    def test_a_recording_plays_the_same(self):
        _, url, pid = self.start_nvitop()
        path = os.path.join(rig.folder(), "a.gtop")
        recorder = running([rig.GTOP, "record", "-i", "0.5", "-w", path, url])
        self.addCleanup(recorder.kill)
        live, = nodes(url)

        def lines():
            rows = [json.loads(line) for line in rig.recorded_lines(path).splitlines()] if os.path.exists(path) else []
            return [line for line in rows if "scrape" in line and not line.get("checkpoint")]
        until("ten pages", lambda: len(lines()) >= 10)
        recorder.send_signal(signal.SIGINT)
        recorder.wait(60)
        recorded = lines()
        # Only what is read is kept.
        families = {re.split("[{ ]", row)[0] for line in recorded for row in line["scrape"].splitlines()}
        self.assertIn("gpu_utilization_Percentage", families)
        self.assertFalse({family for family in families if family.startswith(("python_", "#"))}, families)
        self.assertNotIn("process_open_fds", families)
        at = recorded[5]["at"]
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at + 1))
        changing = {"cpu_percent", "resident_bytes", "resident_percent", "running_seconds", "started_at", "start_ticks", "fresh"}

        def steady(node):
            devices = [dict(device) for device in node["devices"]]
            for device in devices:
                device["processes"] = [{key: row[key] for key in row if key not in changing} for row in device["processes"]]
            return devices
        for words in ([], ["--at", moment]):
            with self.subTest(words):
                node, = json.loads(gtop("replay", "--once", "--json", *words, path))["nodes"]
                self.check_devices(node, pid)
                self.assertEqual(steady(node), steady(live))
                self.assertIsNotNone(node["host"]["cpu_percent"])
        report = gtop("report", path)
        self.assertIn("| utilization | 93.00 % mean", report)

    def test_the_doctor_tells_of_the_page(self):
        _, url, _ = self.start_nvitop()
        found = "nvitop-exporter: 2 devices, 1 process on them, the host"
        end = time.monotonic() + 60
        # The exporter adds its devices to the page one by one.
        while found not in (text := gtop("doctor", url)) and time.monotonic() < end:
            time.sleep(0.2)
        self.assertRegex(text, rf"ok +page .*{re.escape(url)} is served")
        self.assertIn(found, text)


class NodeExporter(Case):
    def test_json_has_what_the_kernel_says(self):
        exporter, url = self.start_node_exporter()
        before = uptime()
        node, = nodes(url)
        self.assertEqual((node["link"], node["transport"], node["devices"]), ("up", "http", []))
        host, memory, name = node["host"], proc("meminfo"), os.uname()
        self.assertEqual((host["host_name"], host["kernel"], host["probe"]), (name.nodename, name.release, "node_exporter"))
        cpus = sum(line.startswith("cpu") and line[3].isdigit() for line in read("/proc/stat").splitlines())
        self.assertEqual(host["cpus"], cpus)
        self.assertEqual(host["memory_total_bytes"], memory["MemTotal"])
        self.assertEqual((host["swap_total_bytes"], host["swap_free_bytes"]), (memory["SwapTotal"], memory["SwapFree"]))
        self.assertTrue(before - 10 < host["uptime_seconds"] < uptime() + 10, host)
        self.assertTrue(0 <= host["cpu_percent"] <= 100, host)
        if os.path.exists("/proc/pressure/cpu"):
            self.assertTrue(0 <= host["pressure_cpu_percent"] <= 100, host)
        loads = until("the load", lambda: self.equal_loads(url))
        self.assertEqual(*loads)
        root = os.statvfs("/")
        spaces = {space["path"]: space["total_bytes"] for space in host["space"]}
        self.assertEqual(spaces.get("/", root.f_blocks * root.f_frsize), root.f_blocks * root.f_frsize)
        disks = {line.split()[2] for line in read("/proc/diskstats").splitlines()}
        self.assertLessEqual({disk["name"] for disk in host["disks"]}, disks)
        self.assertIn("no devices (none on its page of metrics)", gtop("--once", url, environment={**os.environ, "COLUMNS": "150"}))
        self.assertIn("node_exporter: the host", gtop("doctor", url))
        exporter.send_signal(signal.SIGKILL)
        exporter.wait()
        node, = nodes(url, status=1)
        self.assertEqual((node["link"], node["fault"]["kind"]), ("down", "page not reached"))

    @staticmethod
    def equal_loads(url):
        """Returns the load averages of gtop and of the kernel, once they are equal: they change every five seconds."""
        host = nodes(url)[0]["host"]
        shown = [round(host[f"load_{span}"], 2) for span in ("1_minute", "5_minutes", "15_minutes")]
        known = [float(word) for word in read("/proc/loadavg").split()[:3]]
        return (shown, known) if shown == known else None

    def test_the_screen_shows_it(self):
        _, url = self.start_node_exporter()
        shown = self.screen(url, url.replace("127.0.0.1", "localhost"))
        until("the nodes", lambda: re.search(r"127\.0\.0\.1 [\s\S]*localhost ", shown()))
        until("their kind", lambda: "via http  node_exporter" in shown())


def device_line(family, index, value, **labels):
    """Returns a line about a device as nvitop-exporter writes it."""
    labels = {"index": index, "uuid": f"GPU-{index}", "devicename": "NVIDIA H100", **labels}
    text = ",".join(f'{name}="{label}"' for name, label in labels.items())
    return f"{family}{{{text}}} {value}\n"


def device_page(count, uptime):
    """Returns a page of nvitop-exporter about free devices."""
    values = {"gpu_utilization_Percentage": 0, "gpu_memory_utilization_Percentage": 0, "gpu_memory_total_MiB": 80000,
              "gpu_memory_used_MiB": 0, "gpu_memory_free_MiB": 80000}
    devices = "".join(device_line(family, index, value) for index in range(count) for family, value in values.items())
    return f"host_uptime_Second {uptime}\n{devices}"


class Pages(Case):
    """Pages that a test makes, each by the path of its address with its query."""

    def setUp(self):
        pages = self.pages = {}

        class Maker(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                page = pages.get(self.path)
                self.send_response(200 if page else 404)
                self.end_headers()
                self.wfile.write(page().encode() if page else b"")

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Maker)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.authority = f"127.0.0.1:{server.server_address[1]}"
        self.url = f"http://{self.authority}"

    def test_one_value_that_is_not_a_number_leaves_the_others(self):
        def page():
            process = {"pid": 77, "username": "ada"}
            values = {"process_running_time_Second": "NaN", "process_rss_memory_MiB": 500, "process_gpu_memory_MiB": 900,
                      "process_cpu_percent_Percentage": 12.5}
            info = device_line("process_info_info", 0, 1, command="train", status="running", **process)
            lines = "".join(device_line(family, 0, value, **process) for family, value in values.items())
            return device_page(1, time.monotonic()) + info + lines
        self.pages["/metrics"] = page
        node, = nodes(f"{self.url}/metrics")
        process, = node["devices"][0]["processes"]
        expected = {"pid": 77, "resident_bytes": 500 * MIB, "memory_used_bytes": 900 * MIB, "cpu_percent": 12.5, "state": "R",
                    "command": "train", "user": "ada", "running_seconds": None, "start_ticks": None}
        self.assertEqual({key: process[key] for key in expected}, expected)
        self.assertEqual(process["unknown"]["running_seconds"], "not available")
        self.assertNotIn("no permission", json.dumps(node))

    def test_an_address_is_one_node_whatever_it_holds(self):
        query = "/metrics?collect[]=cpu,load&collect[]=gpu[1-2]&job=1!2"
        self.pages[query] = lambda: device_page(1, time.monotonic())
        self.pages["/metrics"] = lambda: device_page(2, time.monotonic())
        path = os.path.join(rig.folder(), "hosts")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"HTTP://{self.authority}{query} # one\nhttp://{self.authority}/metrics?slots=1\n")
        self.pages["/metrics?slots=1"] = self.pages["/metrics"]
        for words in ([f"HTTP://{self.authority}{query},http://{self.authority}/metrics"], ["-f", path]):
            with self.subTest(words):
                found = nodes(*words)
                self.assertEqual([(node["link"], len(node["devices"])) for node in found], [("up", 1), ("up", 2)])

    def test_a_page_of_more_devices_than_are_read_says_so(self):
        self.pages["/metrics"] = lambda: device_page(300, time.monotonic())
        node, = nodes(f"{self.url}/metrics")
        note, = [note for note in node["notes"] if note["id"] == "devices_left_out"]
        self.assertEqual((len(node["devices"]), note["text"]), (256, "only 256 of at least 300 devices are read"))

    def test_health_is_unknown_and_devices_are_picked_all_the_same(self):
        self.pages["/metrics"] = lambda: device_page(2, time.monotonic())
        node, = nodes(f"{self.url}/metrics")
        for device in node["devices"]:
            self.assertEqual((device["health"], device["health_reasons"][0]["text"]),
                             ("unknown", "health unknown: not offered by this source"))
        done = subprocess.run([rig.GTOP, "pick", "-n", "1", f"{self.url}/metrics"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=120, check=True)
        self.assertEqual(done.stdout.decode().strip(), "1")
        self.assertIn("gtop: picked: #1 health unknown: not offered by this source", done.stderr.decode())
        picked = json.loads(gtop("pick", "-n", "1", "--json", f"{self.url}/metrics"))
        self.assertIn('"health": "unknown"', json.dumps(picked))

    def test_a_page_that_stands_still_is_as_old_as_its_time(self):
        began = time.time()
        self.pages["/old"] = lambda: f"node_load1 1\nnode_time_seconds {began - 900}\n"
        self.pages["/new"] = lambda: f"node_load1 1\nnode_time_seconds {time.time()}\n"
        self.pages["/still"] = lambda: device_page(1, 7)
        old, = nodes(f"{self.url}/old")
        age = next(source["age_seconds"] for source in old["sources"])
        # The date of an answer is exact to a second.
        self.assertTrue(not old["fresh"] and 898 < age < time.time() - began + 902, old["sources"])
        note = next(note for note in old["notes"] if note["id"] == "old_page")
        self.assertIn("check the exporter on the host", note["remedy"])
        new, = nodes(f"{self.url}/new")
        self.assertTrue(new["fresh"], new["sources"])
        shown = self.screen("-i", "1", f"{self.url}/still")
        until("the page to be old", lambda: re.search(r"stale \d+s: old page", shown()))


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the path says."""

    def do_GET(self):
        status, headers, body = {
            "/broken": (503, {}, b""), "/secure": (400, {"Content-Type": "text/plain"}, b"Client sent an HTTP request to an HTTPS server.\n"), "/packed": (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b"),
            "/login": (401, {}, b""), "/missing": (404, {}, b""), "/moved": (302, {"Location": "http://127.0.0.1:1/metrics"}, b""),
            "/html": (200, {}, b"<html><a href=/metrics>metrics</a></html>"), "/binary": (200, {}, b"\x1f\x8b\x08\xff\xfe"),
            "/large": (200, {}, b"node_load1 1\n" * 700_000), "/cut": (200, {"Content-Length": "100"}, b"node_load1 1\n"),
            "/hostile": (200, {}, b'gpu_utilization_Percentage{uuid="GPU-\x1b[2J\\"}\\n1",index="0",devicename="\xe2\x80\xae'
                         + b"x" * 3000 + b'"} 5\nnode_load1{' + b"a" * 1_000_000 + b"\nhost_uptime_Second 60\n"),
        }[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            pass

    def log_message(self, *_):
        pass


class Faults(Case):
    def setUp(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.base = f"http://127.0.0.1:{server.server_address[1]}"

    def test_what_is_no_page_has_its_reason_and_a_remedy(self):
        for path, detail, remedy in [
            ("login", "HTTP status 401", "gtop sends no login"),
            ("missing", "HTTP status 404", "check the path"),
            ("moved", "HTTP status 302, which points to http://127.0.0.1:1/metrics", "give the address that it points to"),
            ("html", "none of the families looked for: gpu_utilization_Percentage and others of nvitop-exporter, "
                     "node_cpu_seconds_total and others of node_exporter", "give the page of nvitop-exporter or node_exporter"),
            ("broken", "HTTP status 503", "look at the logs of the exporter"),
            ("secure", "HTTP status 400: Client sent an HTTP request to an HTTPS server.", "if the port wants TLS (https://)"),
            ("packed", "compressed: gzip", "let the server send the page uncompressed"),
            ("cut", "the page breaks off", "look at the logs of the exporter"),
            ("binary", "not a text", "give the page of nvitop-exporter or node_exporter"),
            ("large", "larger than 8 MiB", "give the page of one exporter"),
        ]:
            with self.subTest(path):
                node, = nodes(f"{self.base}/{path}", status=1)
                fault = node["fault"]
                self.assertEqual((fault["kind"], fault["detail"]), ("page not readable", detail))
                self.assertIn(remedy, fault["remedy"])
                self.assertIn(detail, gtop("doctor", f"{self.base}/{path}", status=1))
        node, = nodes(f"http://127.0.0.1:{free_port()}/metrics", status=1)
        self.assertIn("connection refused", node["fault"]["detail"])

    def test_a_page_that_does_not_come_is_given_up(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/metrics"
            node, = nodes("--connect-timeout", "1", url, status=1)
            self.assertEqual((node["fault"]["kind"], node["fault"]["detail"]), ("page not reached", "not there within 1 s"))

    def test_a_hostile_page_is_shown_safely(self):
        text = gtop("--json", f"{self.base}/hostile")
        node, = json.loads(text)["nodes"]
        device, = node["devices"]
        self.assertEqual(device["uuid"], 'GPU- [2J"} 1')
        self.assertLessEqual(len(device["name"]), 96)
        for printed in (text, gtop("--once", f"{self.base}/hostile")):
            self.assertNotRegex(printed, "[\x00-\x09\x0b-\x1f\x7f\u202e]")

    def test_addresses_are_checked(self):
        self.assertIn("over http:// only; forward its port", gtop("https://gpu01:9100/metrics", "--once", status=2))
        self.assertIn("it has a login, which gtop does not send", gtop("http://ada:x@gpu01/metrics", "--once", status=2))


if __name__ == "__main__":
    unittest.main()
