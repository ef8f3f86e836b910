"""`gtop serve` scraped by a real Prometheus: what it stores, what dashboards and rules get from it, and what its tools say.

    GTOP=path/to/gtop python3 -m unittest -v test_serve_prometheus

`prometheus` and `promtool` are those of Debian (package prometheus) or newer; without them these tests are skipped, and fail
if GTOP_CI=1.
"""

import glob
import json
import os
import re
import subprocess
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import rig
import serving
from serving import FIXTURES, Exposition, Server, authority, demo_recording, needs, read, until, write

EXAMPLES = os.path.join(rig.ROOT, "examples")
COMPAT = ("--compat", "dcgm", "--compat", "dcgm-canonical", "--compat", "nvitop")


class Prometheus:
    """A Prometheus that scrapes each second."""

    def __init__(self, case, jobs, rules=()):
        needs("prometheus", "promtool")
        self.folder, self.port = rig.folder(), serving.free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        lines = ["global: {scrape_interval: 1s, evaluation_interval: 1s}", "rule_files: " + json.dumps(list(rules)),
                 "scrape_configs:"]
        for name, server, options in jobs:
            lines.append("  - " + json.dumps({"job_name": name, "honor_labels": True, "static_configs": [
                {"targets": [f"127.0.0.1:{server.port}"]}], **options}))
        config = write(os.path.join(self.folder, "prometheus.yml"), "\n".join(lines) + "\n")
        self.log = os.path.join(self.folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["prometheus", "--config.file=" + config, f"--web.listen-address=127.0.0.1:{self.port}",
                                             "--storage.tsdb.path=" + os.path.join(self.folder, "data")],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        add = case.addClassCleanup if isinstance(case, type) else case.addCleanup
        add(self.process.wait)
        add(self.process.kill)
        until("Prometheus", self.is_ready)

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"Prometheus has ended: {read(self.log)[-1000:]}")
        try:
            with urllib.request.urlopen(self.url + "/-/ready", timeout=10):
                return True
        except OSError:
            return False

    def ask(self, path, **words):
        data = urllib.parse.urlencode(words, doseq=True)
        request = f"{self.url}/api/v1/{path}" + ("?" + data if data else "")
        try:
            with urllib.request.urlopen(request, timeout=serving.PATIENCE) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{words or path}: {error.read().decode(errors='replace')[:500]}") from error
        if found["status"] != "success" or found.get("warnings"):
            raise AssertionError((words or path, found.get("warnings"), found))
        return found["data"]

    def query(self, expression):
        """Returns the series that an expression has now."""
        found = self.ask("query", query=expression)
        assert found["resultType"] in ("vector", "scalar"), (expression, found)
        return found["result"]

    def number(self, expression):
        """Returns the value of an expression with one series, None if it has none."""
        found = self.query(expression)
        assert len(found) <= 1, (expression, found)
        return float(found[0]["value"][1]) if found else None

    def until(self, expression, condition=bool):
        """Waits until the series of an expression satisfy a condition, and returns them."""
        def satisfied():
            found = self.query(expression)
            return found if condition(found) else None
        return until(expression, satisfied)

    def values(self, label, metric=None):
        return self.ask(f"label/{label}/values", **({"match[]": metric} if metric else {}))

    def complaints(self):
        """Returns the warnings and errors of its log."""
        return [line for line in read(self.log).split("\n") if re.search(r"level=(warn|error)", line)]


def with_token(server):
    return {"authorization": {"credentials_file": server.token_path}}


def lint(body):
    """Returns the exit status of `promtool check metrics`, and its complaints: 0 is clean, 3 has complaints, 1 is not parsed."""
    command = ["promtool", "check", "metrics"]
    done = subprocess.run(command, input=body, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    return done.returncode, [line for line in done.stdout.decode(errors="replace").split("\n") if line]


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        needs("prometheus", "promtool", "openssl")


class ThreeWays(Case):
    """The same recording is scraped without a token, with it, and over TLS: all get the numbers of the snapshot."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.plain = Server(cls, demo_recording(), "--processes", *COMPAT)
        certificate, key = authority().sign("prometheus")
        words = ["--listen", f"0.0.0.0:{serving.free_port()}", "--tls-cert", certificate, "--tls-key", key]
        cls.secure = Server(cls, demo_recording(), "--processes", *words, context=authority().context)
        cls.snapshot = cls.plain.snapshot()
        tls = {"scheme": "https", "tls_config": {"ca_file": authority().certificate}}
        cls.prometheus = Prometheus(cls, [
            ("plain", cls.plain, {}), ("token", cls.plain, with_token(cls.plain)),
            ("tls", cls.secure, {**tls, **with_token(cls.secure)}), ("tls-without", cls.secure, tls),
            ("wrong", cls.plain, {"authorization": {"credentials": "wrong"}})])
        for job, least in (("plain", 3), ("token", 3), ("tls", 3), ("tls-without", 1), ("wrong", 1)):
            cls.prometheus.until(f'count_over_time(up{{job="{job}"}}[10m]) >= {least}')

    def test_all_scrapes_succeed_and_have_the_same_samples(self):
        for job, up in (("plain", 1), ("token", 1), ("tls", 1), ("tls-without", 0), ("wrong", 0)):
            with self.subTest(job):
                self.assertEqual(self.prometheus.number(f'min_over_time(up{{job="{job}"}}[10m])'), up)
                self.assertEqual(self.prometheus.number(f'max_over_time(up{{job="{job}"}}[10m])'), up)
                samples = f'(scrape_samples_scraped{{job="{job}"}}[10m])'
                least, most = (self.prometheus.number(which + samples) for which in ("min_over_time", "max_over_time"))
                self.assertEqual(least, most)
                self.assertEqual(least > 1000, bool(up))
        self.assertEqual(self.prometheus.complaints(), [])

    def test_sums_are_those_of_the_snapshot(self):
        devices = [one for node in self.snapshot["nodes"] for one in node["devices"] if one["fresh"] and one["parent"] is None]
        for job in ("plain", "token", "tls"):
            for key in ("utilization_percent", "memory_used_bytes", "power_watts"):
                known = [serving.base_unit(key, one[key]) for one in devices if one[key] is not None]
                expected = sum(value for _, value in known)
                whole = f'gtop_device_{known[0][0]}{{job="{job}"}} unless on (node, device) gtop_device_info{{parent!=""}}'
                self.assertAlmostEqual(self.prometheus.number(f"sum({whole})"), expected, delta=expected * 1e-5)
            self.assertEqual(self.prometheus.number(f'sum(gtop_node_up{{job="{job}"}})'),
                             sum(node["link"] == "up" for node in self.snapshot["nodes"]))

    def test_names_come_with_the_token_only(self):
        for expression in ("gtop_job_info", "gtop_process_info", "gtop_job_device_info"):
            found = {int(one["metric"]["instance"].rsplit(":", 1)[1]) for one in self.prometheus.query(expression)}
            self.assertEqual(found, {self.plain.port, self.secure.port}, expression)
        self.assertEqual({one["metric"]["job"] for one in self.prometheus.query("gtop_process_info")}, {"token", "tls"})

    def test_jobs_of_the_scheduler_keep_their_label(self):
        jobs = {job["shown_id"] for job in self.snapshot["jobs"]}
        found = {one["metric"]["job"] for one in self.prometheus.query("gtop_job_device_info")}
        self.assertTrue(found)
        self.assertLessEqual({job for job in found if job.isdigit()} - jobs, set())
        self.assertEqual(found & {"plain", "token", "tls"}, set())

    def test_promtool_finds_nothing_to_improve(self):
        self.assertEqual(lint(self.secure.get("/metrics", token=self.secure.token).body), (0, []))
        for token in (None, self.plain.token):
            code, found = lint(self.plain.get("/metrics", token=token).body)
            self.assertIn(code, (0, 3), found[:10])
            self.assertEqual([line for line in found if line.startswith("gtop_")], [])


class Live(Case):
    """The demo, while its nodes go up and down, and what dashboards and rules get from it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls, "--demo=12", "-i", "1", "--processes", *COMPAT)
        cls.server.until_known(12)
        machine = everything()
        cls.other = Server(cls, "--local", "-i", "1", "--processes", *COMPAT, environment=machine.environment)
        until("all of a device", lambda: complete(cls.other))
        cls.rules = sorted(path for path in glob.glob(os.path.join(EXAMPLES, "prometheus", "*.yml")) if "\ngroups:" in read(path))
        jobs = [("gtop", cls.server, with_token(cls.server)), ("other", cls.other, with_token(cls.other))]
        cls.prometheus = Prometheus(cls, jobs, cls.rules)
        cls.prometheus.until('count_over_time(up{job="gtop"}[10m]) >= 5')

    def test_nodes_go_and_come_back(self):
        ask = self.prometheus
        # gpu08 hangs for good, and after a minute gpu09 (AMD) is silent for 12 s; gpu12 is never there.
        ask.until('gtop_source_fault_info{node="gpu08", source="nvml", kind="stuck"}')
        ask.until('absent(gtop_device_utilization_ratio{node="gpu08"})')
        ask.until('max_over_time(gtop_sample_age_seconds{node="gpu09", source="amdgpu"}[30m]) > 6')
        ask.until('gtop_sample_age_seconds{node="gpu09", source="amdgpu"} < 4 '
                  'and on (node) count by (node) (gtop_device_utilization_ratio) >= 6')
        self.assertEqual(ask.number('min_over_time(up{job="gtop"}[30m])'), 1)
        self.assertEqual(ask.number('max_over_time(gtop_node_up{node="gpu12"}[30m])'), 0)
        self.assertEqual(ask.number('min_over_time(gtop_node_up{node="gpu01"}[30m])'), 1)
        least, most = (ask.number(which + '_over_time(scrape_samples_scraped{job="gtop"}[30m])') for which in ("min", "max"))
        self.assertGreater(least, most * 0.7)
        self.assertGreater(ask.number('count_over_time(up{job="gtop"}[30m])'), 20)
        self.assertEqual(ask.complaints(), [])

    def test_the_joins_of_the_documentation(self):
        text = read(os.path.join(rig.ROOT, "docs", "serve.md")).split("## Names")[1].split("\n## ")[0]
        examples = re.findall(r"^    (\S.*)$", text, re.M)
        self.assertEqual(len(examples), 3)
        for expression in examples:
            with self.subTest(expression):
                found = self.prometheus.until(expression)
                self.assertTrue(all(0 <= float(one["value"][1]) <= 128 for one in found))
        users = {one["metric"]["user"] for one in self.prometheus.query(examples[1])}
        self.assertLessEqual({"katherine", "ada"}, users)

    def dashboard(self, name, nothing):
        """Each query of a dashboard has data, but for those of which it is known why."""
        lines = [line for line in read(os.path.join(FIXTURES, name)).split("\n") if line and not line.startswith("#")]
        self.assertGreater(len(lines), 10)
        unknown = set(nothing) - set(lines)
        self.assertEqual(unknown, set())
        for line in lines:
            with self.subTest(line):
                values = re.fullmatch(r"label_values\((?:(\w+), )?(\w+)\)", line)
                expression = re.sub(r"\$(instance|gpu|hostname|username)\b", ".*", line).replace("$__rate_interval", "30s")
                if line == "prometheus":                # a data source
                    continue
                if values:
                    until(line, lambda: self.prometheus.values(values.group(2), values.group(1)))
                elif line in nothing:
                    self.assertEqual(self.prometheus.query(expression), [], nothing[line])
                else:
                    self.prometheus.until(expression)

    def test_the_dashboard_of_dcgm_exporter(self):
        self.dashboard("dcgm-4.8-dashboard-queries.txt", NOTHING_FOR_DCGM)
        # Its dashboards tell nodes apart by their instance.
        found = self.prometheus.query('last_over_time(gtop_device_info{vendor="nvidia"}[30m])')
        nodes = {one["metric"]["node"] for one in found}
        instances = self.prometheus.values("instance", "DCGM_FI_DEV_GPU_TEMP")
        self.assertEqual(len(instances), len(nodes))
        for node, instance in zip(sorted(nodes), sorted(instances)):
            self.assertTrue(instance.startswith(node), (node, instance))

    def test_the_dashboard_of_nvitop_exporter(self):
        self.dashboard("nvitop-dashboard-queries.txt", NOTHING_FOR_NVITOP)

    def test_counters_of_dcgm_exporter(self):
        """What its counters file names is there, with its types and texts, or stands in the documentation as missing."""
        lines = read(os.path.join(FIXTURES, "dcgm-4.8-counters.csv")).split("\n")
        shipped = [[cell.strip() for cell in line.split(",", 2)] for line in lines if line and not line.startswith("#")]
        found, demo = self.other.metrics(), self.server.metrics()
        missing = read(os.path.join(rig.ROOT, "docs", "serve.md")).split("## Dashboards of other exporters")[1].split("\n## ")[0]
        there = 0
        for name, kind, _ in shipped:
            if kind == "label":
                self.assertIn(name, set(found.of("DCGM_FI_DEV_GPU_TEMP")[0]))
            elif name in found.families or name in demo.families:
                there += 1
                of = found if name in found.families else demo
                self.assertEqual(of.families[name].kind, kind, name)
                labels = {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION"}
                self.assertLessEqual(labels, set(of.of(name)[0]))
            else:
                self.assertIn(name, missing, "neither served nor said to be missing")
        self.assertGreater(there, 20)

    def test_values_of_dcgm_exporter(self):
        """The units are those of the counters file: MiB, MHz, percent, watts."""
        found = self.server.metrics()
        compared = 0
        for labels in found.of("DCGM_FI_DEV_GPU_UTIL"):
            info = found.of("gtop_device_info", uuid=labels["UUID"])[0]
            place = {"node": info["node"], "device": info["device"]}
            expected = info["node"], info["device"].split(".")[0], info["model"]
            self.assertEqual((labels["Hostname"], labels["gpu"], labels["modelName"]), expected)
            for theirs, mine, factor in (("GPU_UTIL", "utilization_ratio", 0.01), ("FB_USED", "memory_used_bytes", 1 << 20),
                                         ("SM_CLOCK", "sm_clock_hertz", 1e6), ("POWER_USAGE", "power_watts", 1),
                                         ("GPU_TEMP", "temperature_celsius", 1)):
                one, other = found.value("DCGM_FI_DEV_" + theirs, UUID=labels["UUID"]), found.value("gtop_device_" + mine, **place)
                self.assertEqual(one is None, other is None, (labels, theirs))
                if one is not None:
                    self.assertAlmostEqual(one * factor, other, delta=factor * 1.01, msg=(labels, theirs))
                    compared += 1
        self.assertGreater(compared, 200)

    def rule_states(self):
        groups = self.prometheus.ask("rules")["groups"]
        found = [rule for group in groups for rule in group["rules"]]
        return found if found and all(rule["health"] != "unknown" for rule in found) else None

    def test_the_example_rules(self):
        self.assertTrue(self.rules, "no rules in examples/prometheus")
        for path in glob.glob(os.path.join(EXAMPLES, "prometheus", "*.yml")):
            text = read(path)
            command = (["check", "rules"] if "\ngroups:" in text else ["test", "rules"] if "\ntests:" in text else
                       ["check", "config", "--syntax-only"])
            done = subprocess.run(["promtool", *command, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stdout.decode())
        found = until("rules", self.rule_states)
        self.assertEqual([(rule["name"], rule.get("lastError")) for rule in found if rule["health"] != "ok"], [])
        for rule in found:
            self.prometheus.query(rule["query"])
            self.assert_known(rule["query"])

    def test_alerts_of_the_demo(self):
        """What is wrong in the demo has an alert, pending or firing; what is right has none."""
        def alerts():
            found = {(one["labels"]["alertname"], one["labels"].get("node")) for one in self.prometheus.ask("alerts")["alerts"]}
            return found if {name for name, _ in found} >= {"GtopNodeDown", "GtopSourceStale", "GtopDeviceFaulty"} else None
        found = until("alerts", alerts)
        self.assertIn(("GtopNodeDown", "gpu12"), found)
        self.assertIn(("GtopDeviceFaulty", "gpu04"), found)
        self.assertIn(("GtopSourceStale", "gpu08"), found)
        self.assertNotIn("GtopAbsent", {name for name, _ in found})

    def test_the_example_dashboard(self):
        dashboard = json.loads(read(os.path.join(EXAMPLES, "grafana", "gtop.json")))
        variables = dashboard["templating"]["list"]
        targets = list(targets_of(dashboard))
        self.assertGreater(len(targets), 5)
        for target in targets:
            with self.subTest(target["expr"]):
                expression = substitute(target["expr"], variables)
                found = self.prometheus.query(expression)
                self.assert_known(expression)
                wanted = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", target.get("legendFormat") or ""))
                if found and isinstance(found[0], dict):
                    self.assertEqual(wanted - set().union(*(one["metric"] for one in found)) - {"__name__"}, set())
        for variable in variables:
            if variable["type"] == "query":
                text = variable["query"] if isinstance(variable["query"], str) else variable["query"]["query"]
                with self.subTest(text):
                    self.assert_variable(substitute(text, variables), variable)

    def assert_variable(self, text, variable):
        values = re.fullmatch(r"label_values\((?:(.+), *)?(\w+)\)", text)
        results = re.fullmatch(r"query_result\((.+)\)", text)
        if values:
            self.assertTrue(self.prometheus.values(values.group(2), values.group(1)), text)
            self.assert_known(values.group(1) or "")
        else:
            self.assertTrue(results, f"{variable['name']}: {text}")
            self.assertTrue(self.prometheus.query(results.group(1)))
            self.assert_known(results.group(1))

    def assert_known(self, expression):
        """All metrics that an expression names are in the scrapes of the tests, or are known to be of other devices."""
        bare = re.sub(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])*'", '""', expression)
        named = {name for name in re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*", bare) if re.match(r"gtop_|DCGM_", name)}
        self.assertEqual(named - known_names() - set(OF_OTHER_DEVICES), set(), expression)


# Why a query has no data from the demo and a device that reports everything; all others have some.
NOTHING_FOR_DCGM = {
}
NOTHING_FOR_NVITOP = {
    'gpu_memory_total_MiB{hostname!~"$hostname"}': "all hosts are chosen",
}

# Metrics that are in examples, and in no scrape of these tests.
OF_OTHER_DEVICES = {
    "gtop_device_junction_temperature_celsius": "AMD", "gtop_device_junction_slowdown_temperature_celsius": "AMD",
}

_known = set()


def known_names():
    """Returns the names in scrapes of the demo and of a device that reports all that NVML has."""
    if not _known:
        case = unittest.TestCase()
        try:
            server = Server(case, demo_recording(), "--processes", *COMPAT)
            _known.update(server.metrics(server.token).names())
            server.stop()
            server = Server(case, "--local", "-i", "1", "--processes", *COMPAT, environment=everything().environment)
            _known.update(until("all of a device", lambda: complete(server)).names())
        finally:
            case.doCleanups()
    return _known


EVERYTHING = ("driver 580.95.05 13000\n"
              "gpu 0 util=37 memutil=20 temp=60 used_mib=1024 energy_mj=1000+1000 retired_sbe=0 retired_dbe=0 retired_pending=0 "
              "remap_corrected=0 remap_uncorrected=0 remap_pending=0 remap_failed=0 recovery=0 margin=30 t_shutdown=95 "
              "t_slowdown=90 fan=30 bar1_total_mib=100 bar1_used_mib=1 held_power=9+250000000 held_thermal=0+1000000 "
              "held_sync_boost=0+1000000 held_hw_thermal=0+1000000 held_power_brake=0+1000000 pcie_replays=0 pcie_tx=1 pcie_rx=1 "
              "nvlinks=4 nvlink_tx_kib=0+1000 nvlink_rx_kib=0+1000 gpm_graphics=1 gpm_sm=1 gpm_occupancy=1 gpm_tensor=1 "
              "gpm_dram=1 gpm_fp64=1 gpm_fp32=1 gpm_fp16=1 jpg=1 ofa=1 sram_threshold=0 numa=0 minor=0 power_avg_mw=70000 "
              "power_now_mw=70000 limit_default_mw=700000 limit_min_mw=100000 limit_max_mw=700000 clk_video=1000 "
              "clk_video_max=1000\n"
              "at 3 xid 0 63\n")


def everything():
    """Returns a machine with a device that reports all that NVML has, and a process on it."""
    return rig.Machine(EVERYTHING + f"proc 0 {rig.Machine.pids(1)[0]} 512 sm=20 mem=10 enc=1 dec=2\n")


def complete(server):
    """Returns the metrics of that machine when all of its values are there."""
    found = server.metrics(server.token)
    late = {"xid_events_total", "energy_joules_total", "tensor_active_ratio", "throttled_thermal_ratio",
            "nvlink_receive_bytes_per_second"}
    return found if {"gtop_device_" + name for name in late} <= found.names() else None


def targets_of(value):
    """Returns all queries of panels of a dashboard."""
    if isinstance(value, dict):
        if isinstance(value.get("expr"), str):
            yield value
        for one in value.values():
            yield from targets_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from targets_of(one)


def substitute(text, variables):
    """Puts values in the place of a dashboard's variables: all of a label, or what is chosen at first."""
    text = re.sub(r"\$\{?__(rate_interval|interval|range)\}?", "30s", text)
    for variable in variables:
        if variable["type"] == "query":
            value = ".*"
        else:
            options = [variable.get("current") or {}, *(variable.get("options") or [])]
            chosen = [option["value"] for option in options if option.get("value")] or [variable.get("query", "")]
            value = chosen[0][0] if isinstance(chosen[0], list) else str(chosen[0])
        text = re.sub(r"\$%s\b|\$\{%s(:\w+)?\}|\[\[%s\]\]" % ((variable["name"],) * 3), lambda _, value=value: value, text)
    return text


class Bodies(Case):
    def test_the_configuration_of_the_documentation(self):
        text = read(os.path.join(rig.ROOT, "docs", "serve.md"))
        block = re.search(r"(?m)^    scrape_configs:\n(?:    .*\n)+", text).group()
        path = write(os.path.join(rig.folder(), "prometheus.yml"), re.sub("(?m)^    ", "", block))
        command = ["promtool", "check", "config", "--syntax-only", path]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout.decode())

    def test_promtool_parses_every_combination(self):
        """Names that others have given may displease promtool; gtop's own never do."""
        displeasing = {}
        for compat in ("dcgm", "dcgm-canonical", "nvitop"):
            server = Server(self, demo_recording(), "--processes", "--compat", compat)
            for token in (None, server.token):
                body = server.get("/metrics", token=token).body
                Exposition(body)
                code, found = lint(body)
                self.assertIn(code, (0, 3), found[:10])
                self.assertEqual([line for line in found if line.startswith("gtop_")], [])
                displeasing[compat] = found
        # As in dcgm-exporter and nvitop-exporter: counters without _total, and units in MiB.
        self.assertGreaterEqual(len(displeasing["nvitop"]), 1)

    def test_promtool_on_a_device_that_reports_everything(self):
        server = Server(self, "--local", "-i", "1", "--processes", environment=everything().environment)
        found = until("all of a device", lambda: complete(server))
        self.assertGreater(len([name for name in found.names() if name.startswith("gtop_device_")]), 60)
        self.assertEqual(lint(found.body), (0, []))

    def test_counters_grow_in_prometheus(self):
        server = Server(self, "--local", "-i", "1", environment=everything().environment)
        prometheus = Prometheus(self, [("gtop", server, {})])
        # The stub consumes 1000 mJ each second.
        prometheus.until("rate(gtop_device_energy_joules_total[30s]) > 0.7 < 1.3")
        self.assertLess(abs(prometheus.number("timestamp(gtop_node_up)") - time.time()), 60)
        self.assertEqual(prometheus.complaints(), [])


if __name__ == "__main__":
    unittest.main()
