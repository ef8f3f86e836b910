"""`gtop serve` as its users meet it: how it starts and ends, and what it serves. docs/serve.md is what it must do.

    GTOP=path/to/gtop python3 -m unittest -v test_serve

test_serve_access has who may read it, test_serve_attacks those who want to hurt it, and test_serve_prometheus a real Prometheus.
"""

import gzip
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import threading
import unittest

import rig
import serving
from serving import ENDED, OPEN_METRICS, Case, Exposition, Served, Server, demo_recording, message, until
from tape import GIB, START, Tape, device

NASTY = {
    "quotes": 'quo"te', "backslash": "back\\slash\\", "newline": "new\nline\r", "letters": "\u00fc\u2028\u202e\U0001f600",
    "escape": "\x1b[31m\x07\x00\x7f", "series": 'x"} 1\n# EOF\ngtop_node_up{node="evil"} 0', "equals": "a=b,c{}", "empty": " ",
}


class Start(Case):
    def test_it_serves_until_a_signal_and_leaves_nothing(self):
        for number in ENDED:
            with self.subTest(number):
                server = Server(self, "--demo=4")
                found = server.until_known(4)
                self.assertEqual(len(found.of("gtop_build_info")), 1)
                self.assertIn(f"127.0.0.1:{server.port}", "\n".join(server.lines))
                self.assertIn(server.token_path, "\n".join(server.lines))
                self.assertEqual(server.stop(number), ENDED[number], server.lines)
                self.assertEqual(serving.in_session(server.process.pid), [])
                kept = [os.path.join(folder, name) for folder, _, names in os.walk(server.home) for name in names]
                self.assertEqual(kept, [server.token_path])
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", server.port), timeout=5)

    def test_it_ends_at_once_while_clients_are_connected(self):
        server = Server(self, demo_recording())
        with server.connect() as idle, server.connect() as half:
            half.send(b"GET /metrics HTTP/1.1\r\nHo")
            idle.send(message("/healthz"))
            self.assertEqual(idle.receive().status, 200)
            self.assertEqual(server.stop(), ENDED[signal.SIGTERM])

    def test_programs_of_nodes_end_with_it(self):
        machine = rig.Machine("driver 570.133.20 12080\ngpu 0 util=37 used_mib=1024\n")
        server = Server(self, "--local", environment=machine.environment)
        found = server.until_known(1)
        self.assertEqual([labels["device"] for labels in found.of("gtop_device_info")], ["0"])
        self.assertAlmostEqual(found.value("gtop_device_utilization_ratio"), 0.37)
        self.assertGreater(len(serving.in_session(server.process.pid)), 1)
        self.assertEqual(server.stop(), ENDED[signal.SIGTERM])
        until("the end of the probe", lambda: serving.in_session(server.process.pid) == [])

    def test_without_a_place_it_listens_on_the_documented_port(self):
        environment = {**os.environ, "HOME": rig.folder()}
        environment.pop("XDG_STATE_HOME", None)
        process = subprocess.Popen([rig.GTOP, "serve", demo_recording()], env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        timer = threading.Timer(serving.PATIENCE, process.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        # A port that is in use is reported.
        self.assertTrue(any(b"127.0.0.1:9835" in line for line in process.stdout))

    def test_a_server_of_a_socket_opens_no_port(self):
        path = self.socket_path()
        server = Server(self, demo_recording(), "--socket", path)
        with open("/proc/net/tcp", encoding="ascii") as four, open("/proc/net/tcp6", encoding="ascii") as six:
            rows = [line.split() for line in four.readlines()[1:] + six.readlines()[1:]]
        listening = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}
        folder = f"/proc/{server.process.pid}/fd"
        self.assertEqual({os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)} & listening, set())

    def test_a_taken_port_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            said = self.refused("--demo=1", "--listen", "127.0.0.1:" + port, says=[port])
            self.assertNotIn("os error", said.replace("(os error 98)", ""))

    def test_wrong_usage_is_told(self):
        for words in (["--listen", "nonsense"], ["--listen", "127.0.0.1"], ["--listen", "127.0.0.1:99999"], ["--compat", "other"],
                      ["--tls-cert", "cert.pem", "--listen", "127.0.0.1:1"], ["--tls-key", "key.pem", "--listen", "127.0.0.1:1"]):
            with self.subTest(words):
                environment = {**os.environ, "HOME": rig.folder()}
                done = subprocess.run([rig.GTOP, "serve", "--demo=1", *words], env=environment, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=serving.PATIENCE, check=False)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertTrue(done.stderr)

    def test_other_addresses_need_tls(self):
        for address in ("0.0.0.0", "[::]", "192.0.2.1", "[::ffff:0.0.0.0]"):
            with self.subTest(address):
                self.refused_somehow("--demo=1", "--listen", f"{address}:{serving.free_port()}", says=["--tls-cert"])

    def refused_somehow(self, *words, says):
        server = Server(self, *words, waits=False)
        status, said = server.ended()
        self.assertIn(status, (1, 2), said)
        for word in says:
            self.assertIn(word, said)

    def test_chosen_metrics_are_served_and_a_wrong_name_has_near_ones(self):
        everything = Server(self, demo_recording()).metrics()
        some = Server(self, demo_recording(), "--metrics", "gtop_node_up,gtop_device_power_watts", "--compat", "dcgm").metrics()
        own = {name for name in some.families if name.startswith("gtop_")}
        self.assertEqual(own, {"gtop_node_up", "gtop_device_power_watts"})
        self.assertIn("DCGM_FI_DEV_GPU_UTIL", some.families)
        self.assertEqual(len(some.of("gtop_device_power_watts")), len(everything.of("gtop_device_power_watts")))
        core = Server(self, demo_recording(), "--metrics", "core").metrics()
        self.assertLess(set(core.families), set(everything.families))
        self.assertLess(10, len(core.families))
        self.refused_somehow("--demo=1", "--metrics", "gtop_device_power_wats", says=["no metric is called", "gtop_device_power_watts"])

    def test_a_missing_recording_is_named(self):
        self.refused("/nonexistent/a.gtop", says=["/nonexistent/a.gtop"])

    def test_what_is_watched_is_selected_as_always(self):
        hosts = [f"127.0.0.1:{port}" for port in (serving.free_port(), serving.free_port(), serving.free_port())]
        path = serving.write(os.path.join(rig.folder(), "hosts"), "\n".join(hosts) + "\n")
        found = Server(self, "-f", path, "--exclude", hosts[1]).until_known(2)
        self.assertEqual([labels["node"] for labels in found.of("gtop_node_up")], [hosts[0], hosts[2]])

    def test_nodes_that_do_not_answer(self):
        port = serving.free_port()
        server = Server(self, f"127.0.0.1:{port}")
        found = server.until_known(1)
        self.assertEqual(found.value("gtop_node_up"), 0)
        self.assertEqual([labels["kind"] for labels in found.of("gtop_node_fault_info")], ["connection refused"])
        self.assertEqual(server.get("/healthz").text.strip(), "ok")

    def test_it_lives_through_a_lack_of_files(self):
        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
        server = Server(self, demo_recording(), preexec_fn=few)
        connections = [server.connect() for _ in range(100)]
        for connection in connections:
            connection.send(b"GET")
        for connection in connections:
            connection.close()
        until("an answer", lambda: server.exchange(message("/healthz", "Connection: close")))
        self.assert_serves(server)

    def test_ipv6(self):
        try:
            port = serving.free_port(socket.AF_INET6, "::1")
        except OSError as error:
            self.skipTest(f"no IPv6: {error}")
        server = Server(self, demo_recording(), "--listen", f"[::1]:{port}")
        self.assert_serves(server, host=f"[::1]:{port}")


class Formats(Served):
    words = ("--processes", "--compat", "dcgm", "--compat", "dcgm-canonical", "--compat", "nvitop")

    def test_the_format_is_what_was_asked_for(self):
        newer = ("application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
                 "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
                 "text/plain;version=0.0.4;q=0.3,*/*;q=0.2")
        text = r"text/plain; ?version=0\.0\.4(; ?charset=utf-8)?"
        other = r"application/openmetrics-text; ?version=1\.0\.0; ?charset=utf-8"
        for accept, wanted in ((None, text), ("*/*", text), ("text/plain", text), ("text/html,*/*;q=0.8", text),
                               ("nonsense;;q=x", text), ("text/plain;version=0.0.4", text),
                               ("application/openmetrics-text;q=0,text/plain", text), (OPEN_METRICS, other), (newer, other),
                               ("application/openmetrics-text; version=1.0.0", other)):
            with self.subTest(accept):
                answer = self.server.get("/metrics", *([f"Accept: {accept}"] if accept else []))
                self.assertEqual(answer.status, 200)
                self.assertRegex(answer.headers["Content-Type"], f"^{wanted}$")
                Exposition(answer.body, "openmetrics" in wanted)

    def test_both_formats_have_the_same_series(self):
        for token in (None, self.server.token):
            plain = self.server.metrics(token)
            answer = self.server.get("/metrics", "Accept: " + OPEN_METRICS, token=token)
            other = Exposition(answer.body, True)
            self.assertGreater(len(plain.series), 2000)
            self.assertEqual(set(plain.series) ^ set(other.series), set())
            self.assertEqual(plain.series, other.series)
            for family in plain.families.values():
                self.assertEqual(family.kind == "counter", family.name.endswith("_total") or
                                 not family.name.startswith("gtop_") and family.kind == "counter", family.name)
                self.assertGreater(len(family.help), 2, family.name)

    def test_a_counter_of_others_keeps_its_name_in_openmetrics(self):
        answer = self.server.get("/metrics", "Accept: " + OPEN_METRICS)
        self.assertIn(b"DCGM_FI_DEV_GPU_UTIL{", answer.body)
        self.assertNotRegex(answer.text, r"(?m)^DCGM_FI_\w+_total_total")

    def test_each_family_has_one_set_of_labels(self):
        found = self.server.metrics(self.server.token)
        for family in found.families.values():
            if family.name.startswith("gtop_"):
                self.assertEqual(len({tuple(labels) for labels, _ in family.samples}), 1, family.name)

    def test_names_are_those_of_the_documentation(self):
        found = self.server.metrics(self.server.token)
        for name, labels in (
                ("gtop_build_info", "version"), ("gtop_node_up", "node"), ("gtop_node_fault_info", "node kind"),
                ("gtop_node_info", "node host_name kernel transport probe"), ("gtop_sample_age_seconds", "node source"),
                ("gtop_source_fault_info", "node source kind"), ("gtop_node_cpu_ratio", "node"),
                ("gtop_node_memory_available_bytes", "node"), ("gtop_node_network_receive_bytes_per_second", "node interface"),
                ("gtop_node_network_transmit_bytes_per_second", "node interface"),
                ("gtop_node_infiniband_receive_bytes_per_second", "node port"),
                ("gtop_node_infiniband_transmit_bytes_per_second", "node port"),
                ("gtop_node_disk_read_bytes_per_second", "node disk"), ("gtop_node_disk_write_bytes_per_second", "node disk"),
                ("gtop_node_filesystem_size_bytes", "node path"), ("gtop_node_filesystem_free_bytes", "node path"),
                ("gtop_device_info", "node device uuid parent vendor model pci_bus driver_version"),
                ("gtop_node_note_info", "node note remedy severity"),
                ("gtop_device_state", "node device state"), ("gtop_device_state_reason_info", "node device reason"),
                ("gtop_device_fault_info", "node device kind"),
                ("gtop_device_utilization_ratio", "node device"), ("gtop_device_memory_used_bytes", "node device"),
                ("gtop_job_device_info", "node device job job_id certainty"),
                ("gtop_job_info", "job job_id user name partition account"),
                ("gtop_process_info", "node device pid user command"), ("gtop_process_memory_used_bytes", "node device pid")):
            with self.subTest(name):
                self.assertTrue(found.of(name))
                self.assertEqual(set(found.of(name)[0]), set(labels.split()))

    def test_only_jobs_and_processes_make_series_of_their_own(self):
        found = self.server.metrics(self.server.token)
        for name in found.names():
            labels = set(found.of(name)[0])
            if name.startswith("gtop_"):
                self.assertEqual("job" in labels, name in ("gtop_job_device_info", "gtop_job_info"), name)
                self.assertEqual("pid" in labels, name.startswith("gtop_process_"), name)

    def test_the_snapshot_is_json_and_like_that_of_the_program(self):
        answer = self.server.get("/api/v1/snapshot", token=self.server.token)
        self.assertTrue(answer.headers["Content-Type"].startswith("application/json"), answer.headers["Content-Type"])
        other = serving.picture(demo_recording())
        self.assertEqual(list(answer.json()), list(other))
        for mine, theirs in zip(answer.json()["nodes"], other["nodes"]):
            with self.subTest(mine["name"]):
                self.assertEqual([list(mine), list(mine["host"] or ())], [list(theirs), list(theirs["host"] or ())])
                self.assertEqual(mine["devices"], theirs["devices"])
                self.assertEqual(mine["host"], theirs["host"])

    def test_a_filter_leaves_the_devices_that_match(self):
        server = Server(self, "--filter", "util>90 user=ada", demo_recording())
        snapshot = server.get("/api/v1/snapshot", token=server.token).json()

        def devices(found, keeps):
            return {one["uuid"] for node in found["nodes"] for one in node["devices"] if keeps(one)}

        def is_adas(one):
            return (one["utilization_percent"] or 0) > 90 and any(process["user"] == "ada" for process in one["processes"] or ())

        whole = serving.picture(demo_recording())
        expected = devices(whole, is_adas)
        self.assertTrue(expected)
        # The device of a slice that matches is there, too.
        expected |= {one["parent"] for node in whole["nodes"] for one in node["devices"] if one["uuid"] in expected and one["parent"]}
        self.assertEqual(devices(snapshot, lambda one: True), expected)
        users = {process["user"] for node in snapshot["nodes"] for one in node["devices"] for process in one["processes"]}
        self.assertEqual(users, {"ada"})
        found = server.metrics(server.token)
        self.assertEqual({labels["uuid"] for labels in found.of("gtop_device_info")}, expected)

    def test_no_answer_lets_pages_of_browsers_read_it(self):
        for path in ("/metrics", "/api/v1/snapshot", "/healthz", "/nothing"):
            answer = self.server.get(path, "Origin: http://example.org", token=self.server.token)
            self.assertEqual([name for name in answer.headers if name.lower().startswith("access-control-")], [], path)

    def test_the_clients_own_encoding_is_respected(self):
        answer = self.server.get("/metrics", "Accept-Encoding: identity")
        self.assertIn(answer.headers.get("Content-Encoding", "identity"), ("identity",))
        self.assertEqual(self.server.get("/metrics").headers.get("Content-Encoding"), None)

    def test_gzip_is_the_same_text_for_those_who_accept_it(self):
        for path in ("/metrics", "/api/v1/snapshot"):
            with self.subTest(path):
                plain = self.server.get(path, token=self.server.token)
                zipped = self.server.get(path, "Accept-Encoding: deflate, gzip", token=self.server.token)
                self.assertEqual((zipped.status, zipped.headers["Content-Encoding"]), (200, "gzip"))
                self.assertIn("Accept-Encoding", zipped.headers["Vary"])
                self.assertEqual(gzip.decompress(zipped.body), plain.body)
                self.assertLess(5 * len(zipped.body), len(plain.body))
        self.assertIsNone(self.server.get("/healthz", "Accept-Encoding: gzip").headers.get("Content-Encoding"))


def device_label(node, one):
    """Returns what `device` is for a device of a snapshot: its index, for a slice after that of its device."""
    if one["parent"] is None:
        return str(one["index"])
    parent = next(other for other in node["devices"] if other["uuid"] == one["parent"])
    return f"{parent['index']}.{one['index']}"


# Names that Prometheus would misunderstand; docs/serve.md has them.
RENAMED = {"ecc_corrected_total_errors": "ecc_corrected_lifetime_errors", "load_1_minute": "load1", "load_5_minutes": "load5",
           "ecc_uncorrected_total_errors": "ecc_uncorrected_lifetime_errors", "load_15_minutes": "load15",
           "throttle_bits": "throttle_mask", "device_minor": "minor"}
NO_VALUES = {"index", "fresh"}


def numbers(values, subject):
    """Returns name and value in base units of all keys of an object that are numbers or yes or no."""
    found = {}
    for key, value in values.items():
        if isinstance(value, (bool, int, float)) and key not in NO_VALUES:
            name, number = serving.base_unit(RENAMED.get(key, key), value)
            found[f"gtop_{subject}_{name}"] = number
    return found


class Agreement(Served):
    """The two pictures of the same recording are the same picture."""

    words = ("--processes",)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.found = cls.server.metrics(cls.server.token)

    def values_of(self, prefix, skip="_info", **labels):
        """Returns the values of all series of a subject with exactly these labels, without the ending of counters."""
        wanted = tuple(sorted(labels.items()))
        return {re.sub("_total$", "", name): value for (name, pairs), value in self.found.series.items()
                if name.startswith(prefix) and pairs == wanted and not name.endswith(skip)}

    def assert_equal_values(self, found, expected, where):
        self.assertEqual(set(found), set(expected), where)
        for name, value in expected.items():
            self.assertAlmostEqual(found[name], value, delta=2e-6 * abs(value) + 2e-6, msg=(where, name))

    def test_the_recording_has_all_that_can_happen(self):
        states = [serving.source_of(node, "nvml") or {} for node in self.nodes.values()]
        self.assertIn(False, [state.get("fresh") for state in states])
        self.assertEqual({node["link"] for node in self.nodes.values()}, {"up", "down"})
        devices = [one for node in self.nodes.values() for one in node["devices"]]
        self.assertTrue([one for one in devices if one["fault"]] and [one for one in devices if one["parent"]])

    def test_nodes_and_their_faults(self):
        up = {labels["node"]: self.found.value("gtop_node_up", **labels) for labels in self.found.of("gtop_node_up")}
        self.assertEqual(up, {name: float(node["link"] == "up") for name, node in self.nodes.items()})
        faults = [{"node": name, "kind": node["fault"]["kind"]} for name, node in self.nodes.items() if node["fault"]]
        self.assertEqual(sorted_labels(self.found.of("gtop_node_fault_info")), sorted_labels(faults))
        self.assertTrue(faults)
        known = {name: node for name, node in self.nodes.items() if (node["host"] or {}).get("probe")}
        infos = [{"node": name, "host_name": node["host"]["host_name"], "kernel": node["host"]["kernel"],
                  "transport": node["transport"], "probe": node["host"]["probe"].split()[0]} for name, node in known.items()]
        self.assertGreater(len(infos), 8)
        found = self.found.of("gtop_node_info")
        for one in found:
            one["probe"] = one["probe"].split()[0]
        self.assertEqual(sorted_labels(found), sorted_labels(infos))

    def test_ages_and_faults_of_sources(self):
        known = {}
        for name, node in self.nodes.items():
            known.update({(name, one["id"]): one["age_seconds"] for one in node["sources"] if one["age_seconds"] is not None})
        found = {(labels["node"], labels["source"]): self.found.value("gtop_sample_age_seconds", **labels)
                 for labels in self.found.of("gtop_sample_age_seconds")}
        self.assertEqual(set(found), set(known))
        for key, age in known.items():
            self.assertAlmostEqual(found[key], age, delta=0.002, msg=key)
        faults = [{"node": name, "source": one["id"], "kind": one["fault"]["kind"]} for name, node in self.nodes.items()
                  for one in node["sources"] if one["fault"]]
        self.assertEqual(sorted_labels(self.found.of("gtop_source_fault_info")), sorted_labels(faults))
        self.assertIn("stuck", [fault["kind"] for fault in faults])

    def test_values_of_hosts(self):
        for name, node in self.nodes.items():
            found = self.values_of("gtop_node_", node=name)
            found.pop("gtop_node_up")
            host = serving.source_of(node, "host")
            facts = ("cpus", "hidepid", "contained", "kernel_log")
            expected = numbers({key: value for key, value in (node["host"] or {}).items() if key not in facts}, "node")
            self.assert_equal_values(found, expected if host and host["fresh"] else {}, name)
            if not (host and host["fresh"]):
                continue
            self.assertIn("gtop_node_memory_available_bytes", found)
            for kind, label, inward, outward in (("network", "interface", "network_receive", "network_transmit"),
                                                 ("infiniband", "port", "infiniband_receive", "infiniband_transmit"),
                                                 ("disks", "disk", "disk_read", "disk_write")):
                keys = [key for key in (node["host"][kind] or [{}])[0] if key != "name"]
                for metric, key in zip((inward, outward), keys):
                    for one in node["host"][kind]:
                        value = self.found.value(f"gtop_node_{metric}_bytes_per_second", node=name, **{label: one["name"]})
                        self.assertEqual(value, one[key], (name, metric, one))
            for one in node["host"]["space"]:
                sizes = [self.found.value(f"gtop_node_filesystem_{which}_bytes", node=name, path=one["path"])
                         for which in ("size", "free")]
                self.assertEqual(sizes, [one["total_bytes"], one["free_bytes"]])

    def test_values_of_devices(self):
        known = 0
        for name, node in self.nodes.items():
            for one in node["devices"]:
                labels = {"node": name, "device": device_label(node, one)}
                found = self.values_of("gtop_device_", **labels)
                self.assert_equal_values(found, numbers(one, "device") if one["fresh"] else {}, labels)
                known += len(found)
                info = self.found.of("gtop_device_info", **labels)
                if one["fresh"]:
                    keys = {"uuid": "uuid", "parent": "parent", "vendor": "vendor", "model": "name", "pci_bus": "pci_bus",
                            "driver_version": "driver_version"}
                    self.assertEqual(info, [{**labels, **{label: one[key] or "" for label, key in keys.items()}}])
                faults = [fault["kind"] for fault in self.found.of("gtop_device_fault_info", **labels)]
                self.assertEqual(faults, [one["fault"]] if one["fault"] and one["fresh"] else [], labels)
                if one["utilization_percent"] is None or not one["fresh"]:
                    self.assertIsNone(self.found.value("gtop_device_utilization_ratio", **labels))
        self.assertGreater(known, 1000)
        whole = sum(len(node["devices"]) for node in self.nodes.values() if all(one["fresh"] for one in node["devices"]))
        self.assertGreaterEqual(len(self.found.of("gtop_device_info")), whole)

    def test_stale_devices_have_no_values_and_their_reason(self):
        stale = [name for name, node in self.nodes.items() if node["link"] == "up" and not node["devices"][0]["fresh"]]
        self.assertTrue(stale)
        for name in stale:
            left = {found for found, pairs in self.found.series if ("node", name) in pairs}
            left = {found for found in left if found.startswith(("gtop_device", "gtop_process"))}
            self.assertLessEqual(left, {"gtop_device_info"}, name)
            self.assertEqual(self.found.value("gtop_node_up", node=name), 1)
            self.assertIsNotNone(self.found.value("gtop_sample_age_seconds", node=name, source="nvml"))
            self.assertIsNotNone(self.found.value("gtop_node_cpu_ratio", node=name))

    def test_each_device_is_in_one_state(self):
        states = {}
        for labels in self.found.of("gtop_device_state"):
            key = labels["node"], labels["device"]
            self.assertEqual(self.found.value("gtop_device_state", **labels), 1)
            self.assertNotIn(key, states)
            states[key] = labels["state"]
        # The slices of a device count instead of it.
        counted = {(name, device_label(node, one)): one["state"] for name, node in self.nodes.items() for one in node["devices"]
                   if one["fresh"] and one["state"] is not None}
        self.assertEqual(set(states), set(counted))
        totals = self.snapshot["totals"]
        count = list(states.values()).count
        self.assertEqual(count("faulty"), totals["devices_faulty"])
        self.assertEqual(count("idle_held"), totals["devices_held"])
        self.assertLessEqual(set(states.values()), {"busy", "idle_held", "free", "faulty", "unavailable", "unknown"})
        reasons = {(labels["node"], labels["device"]): labels["reason"] for labels in self.found.of("gtop_device_state_reason_info")}
        self.assertTrue(reasons)
        self.assertEqual(reasons, {(name, device_label(node, one)): one["state_reason"] for name, node in self.nodes.items()
                                   for one in node["devices"] if one["fresh"] and one["state_reason"]})

    def test_notes_on_nodes_have_their_ids(self):
        notes = self.found.of("gtop_node_note_info")
        # Another attempt may begin between the two answers.
        found = {(labels["node"], labels["note"], labels["severity"]) for labels in notes if labels["note"] != "next_attempt"}
        told = {(name, note["id"], note["severity"]) for name, node in self.nodes.items() for note in node["notes"]}
        self.assertEqual(found, {note for note in told if note[1] != "next_attempt"})
        self.assertIn("down", {note for _, note, _ in found})
        self.assertTrue(all(labels["remedy"] for labels in notes if labels["note"] == "down"))

    def test_jobs_and_their_devices(self):
        names = {one["uuid"]: (name, device_label(node, one)) for name, node in self.nodes.items() for one in node["devices"]}
        expected = {(*names[uuid], job["shown_id"]) for job in self.snapshot["jobs"] for allocation in job["allocations"]
                    for uuid in allocation["devices"] or [] if uuid in names}
        found = {(labels["node"], labels["device"], labels["job"]) for labels in self.found.of("gtop_job_device_info")}
        self.assertLessEqual(expected, found)
        listed = {job["shown_id"] for job in self.snapshot["jobs"]}
        self.assertEqual({one for one in found - expected if one[2] in listed}, set())
        self.assertGreater(len(found), 20)
        jobs = [{"job_id": job["id"], "job": job["shown_id"], **{key: job[key] or "" for key in ("user", "name", "partition", "account")}}
                for job in self.snapshot["jobs"] if job["allocations"]]
        self.assertEqual(sorted_labels(self.found.of("gtop_job_info")), sorted_labels(jobs))

    def test_processes(self):
        expected = []
        for name, node in self.nodes.items():
            for one in node["devices"]:
                processes = (one["processes"] or []) if one["fresh"] else []
                for process in processes:
                    labels = {"node": name, "device": device_label(node, one), "pid": str(process["pid"])}
                    expected.append({**labels, "user": process["user"] or "", "command": process["command"] or ""})
                    found = self.values_of("gtop_process_", **labels)
                    wanted = numbers({key: value for key, value in process.items() if key in PROCESS_NUMBERS}, "process")
                    self.assert_equal_values({key: value for key, value in found.items() if key in wanted}, wanted, labels)
        self.assertEqual(sorted_labels(self.found.of("gtop_process_info")), sorted_labels(expected))
        self.assertGreater(len(expected), 20)


PROCESS_NUMBERS = ("memory_used_bytes", "sm_percent", "memory_utilization_percent", "encoder_percent", "decoder_percent",
                   "cu_occupancy_percent", "cpu_percent", "resident_bytes", "resident_percent", "threads", "running_seconds")


def sorted_labels(rows):
    return sorted(sorted(row.items()) for row in rows)


class HostileNames(Case):
    def tape(self):
        """A recording whose jobs, users, models, interfaces and file systems have hostile names."""
        tape = Tape()
        jobs = [(str(7 + number), name, name + " user", {"gpu01": [number]}) for number, name in enumerate(NASTY.values())]
        devices = {f"G{number}": device(10 + number, name=name, pci=name) for number, name in enumerate(NASTY.values())}
        tape.start(0)
        tape.list(0, ["gpu01"], jobs)
        tape.open(0, "gpu01", processes=True, host=NASTY["series"])
        for at in range(0, 40, 10):
            # They change, so that each sample has them: an old list is not served.
            uses = [(f"G{number}", 100 + number, GIB + at, name + " owner") for number, name in enumerate(NASTY.values())]
            tape.sample(at, "gpu01", devices, uses)
            probe = START + at - tape.node("gpu01").clock
            interfaces = [{"name": name, "rx": 1000 * at, "tx": 10 * at} for name in NASTY.values()]
            disks = [{"name": name, "read": 1000 * at, "write": 10 * at} for name in NASTY.values()]
            space = [{"path": "/" + name, "total": 100, "free": 50} for name in NASTY.values()]
            host = {"at": probe, "net": interfaces, "disk": disks, "infiniband": interfaces, "memory_total": 100}
            processes = {"at": probe, "list": [{"pid": 100 + number, "start": 1, "command": name, "user": name + " owner"}
                                               for number, name in enumerate(NASTY.values())]}
            tape.write({"body": {"t": "sample", "n": at + 1, "at": probe, "host": host, "host_slow": {"at": probe, "space": space},
                                 "processes": processes}}, node="gpu01")
        tape.end(31)
        return tape.save()

    def test_names_of_a_recording(self):
        server = Server(self, self.tape(), "--processes", "--compat", "dcgm", "--compat", "dcgm-canonical", "--compat", "nvitop")
        snapshot = server.snapshot()
        node = snapshot["nodes"][0]
        self.assertEqual(len(node["devices"]), len(NASTY))
        for accept in ("text/plain", OPEN_METRICS):
            answer = server.get("/metrics", "Accept: " + accept, token=server.token)
            found = Exposition(answer.body, accept == OPEN_METRICS)
            self.assertEqual([labels["node"] for labels in found.of("gtop_node_up")], ["gpu01"])
            self.assertEqual({labels["model"] for labels in found.of("gtop_device_info")}, {one["name"] for one in node["devices"]})
            self.assertEqual({(labels["name"], labels["user"]) for labels in found.of("gtop_job_info")},
                             {(job["name"], job["user"]) for job in snapshot["jobs"]})
            self.assertEqual({labels["command"] for labels in found.of("gtop_process_info")},
                             {process["command"] for one in node["devices"] for process in one["processes"]})
            self.assertEqual({labels["path"] for labels in found.of("gtop_node_filesystem_free_bytes")},
                             {one["path"] for one in node["host"]["space"]})
            self.assertEqual({labels["interface"] for labels in found.of("gtop_node_network_receive_bytes_per_second")},
                             {one["name"] for one in node["host"]["network"]})
            self.assertEqual(found.of("gtop_node_info")[0]["host_name"], node["host"]["host_name"])
        self.assertIn(NASTY["quotes"], {job["name"] for job in snapshot["jobs"]})
        self.assertIn(NASTY["backslash"], {job["name"] for job in snapshot["jobs"]})

    def test_processes_of_a_machine(self):
        names = [b'quo"te', b"back\\slash", b"new\nline", b"\xff\xfe invalid \xc3", b"\x1b[31m",
                 b'x"} 1\n# EOF\ngtop_node_up{node="evil"} 0']
        sleepers = [subprocess.Popen([name, "100000"], executable=shutil.which("sleep")) for name in names]
        for sleeper in sleepers:
            self.addCleanup(sleeper.wait)
            self.addCleanup(sleeper.kill)
        rows = "".join(f"proc 0 {sleeper.pid} {100 + number}\n" for number, sleeper in enumerate(sleepers))
        machine = rig.Machine('driver 570.133.20 12080\ngpu 0 util=37 used_mib=1024 name=A "GPU" \\ {x="y"} \u00fc\n' + rows)
        words = ["--processes", "--compat", "dcgm", "--compat", "nvitop"]
        server = Server(self, "--local", *words, environment=machine.environment)

        def all_known():
            found = server.metrics(server.token)
            return found if len(found.of("gtop_process_info")) == len(names) else None
        found = until("all processes", all_known)
        commands = {labels["command"] for labels in found.of("gtop_process_info")}
        self.assertIn('quo"te 100000', commands)
        self.assertIn("back\\slash 100000", commands)
        self.assertEqual(found.of("gtop_device_info")[0]["model"], 'A "GPU" \\ {x="y"} \u00fc')
        self.assertEqual(len(found.of("gtop_node_up")), 1)
        Exposition(server.get("/metrics", "Accept: " + OPEN_METRICS, token=server.token).body, True)
        self.assertEqual(server.snapshot()["nodes"][0]["devices"][0]["processes"] is None, False)

    def test_what_has_the_same_name_makes_no_series_twice(self):
        """Devices of two vendors with one index, jobs with one id, interfaces with one name, and a process in two lists."""
        tape = Tape()
        tape.start(0)
        jobs = [("7", "one", "ann", {"gpu01": [0]}), ("7", "two", "bea", {"gpu01": [0, 1]}), ("8", "", "", {"gpu01": [1]})]
        tape.list(0, ["gpu01"], jobs)
        tape.open(0, "gpu01", processes=True)
        for at in range(0, 40, 10):
            uses = [("A", 11, GIB, "ann"), ("A", 11, 2 * GIB, "ann"), ("B", 11, GIB, "ann")]
            tape.sample(at, "gpu01", {"A": device(60), "B": device(30, index=0, minor=0)}, uses)
            probe = START + at - tape.node("gpu01").clock
            twice = [{"name": "eth0", "rx": at, "tx": at}] * 2
            host = {"at": probe, "net": twice, "disk": [{"name": "sda", "read": at, "write": at}] * 2, "infiniband": twice}
            amd = {"kind": "amdgpu", "at": probe, "devices": [{"uuid": "C", "index": 0, "name": "AMD", "util": 9}]}
            tape.write({"body": {"t": "sample", "n": at + 1, "at": probe, "host": host, "backends": [amd],
                                 "host_slow": {"at": probe, "space": [{"path": "/", "total": 9, "free": 1}] * 2}}}, node="gpu01")
        tape.end(31)
        server = Server(self, tape.save(), "--processes", "--compat", "dcgm", "--compat", "dcgm-canonical", "--compat", "nvitop")
        for accept in ("text/plain", OPEN_METRICS):
            answer = server.get("/metrics", "Accept: " + accept, token=server.token)
            found = Exposition(answer.body, accept == OPEN_METRICS)
            uuids = {labels["uuid"] for labels in found.of("gtop_device_info")}
            self.assertEqual(uuids, {one["uuid"] for one in server.snapshot()["nodes"][0]["devices"]})

    def test_a_machine_with_two_names_is_served_once(self):
        tape = Tape()
        tape.start(0)
        tape.list(0, ["gpu01", "gpu01.cluster"])
        for name in ("gpu01", "gpu01.cluster"):
            tape.open(0, name, host="machine1")
        for at in range(0, 40, 10):
            for name in ("gpu01", "gpu01.cluster"):
                tape.sample(at, name, {"A": device(60)})
        tape.end(31)
        server = Server(self, tape.save(), "--compat", "dcgm", "--compat", "nvitop")
        found = server.metrics(server.token)
        self.assertEqual(len(found.of("gtop_device_utilization_ratio")), 1)
        self.assertEqual(len(found.of("gtop_node_up")), 1)
        self.assertEqual(len(found.of("DCGM_FI_DEV_GPU_UTIL")), 1)


if __name__ == "__main__":
    unittest.main()
