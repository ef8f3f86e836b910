"""Who may read what `gtop serve` has: tokens, names of this machine, the Unix socket, TLS, and other users.

    GTOP=path/to/gtop python3 -m unittest -v test_serve_access

Tests that need openssl, curl or root are skipped without them, and fail if GTOP_CI=1.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import rig
import serving
from serving import (ENDED, OPEN_METRICS, Case, Connection, Exposition, Served, Server, authority, demo_recording, give_up,
                     message, mode_of, needs, read, secrets_of, told, until, write)


class Tokens(Served):
    words = ("--processes", "--compat", "dcgm", "--compat", "dcgm-canonical", "--compat", "nvitop")

    def test_names_are_told_to_those_with_the_token_only(self):
        secrets = secrets_of(self.snapshot)
        self.assertLessEqual({"katherine", "gpt-20b"}, secrets)
        for accept in ("text/plain", OPEN_METRICS):
            answer = self.server.get("/metrics", "Accept: " + accept)
            self.assertEqual(answer.status, 200)
            self.assertEqual(told(secrets, answer.text), set())
            found = Exposition(answer.body, accept == OPEN_METRICS)
            self.assertEqual({name for name in found.names() if "process" in name}, {"gtop_device_hidden_processes"})
            self.assertEqual(found.of("gtop_job_info"), [])
            self.assertTrue(found.of("gtop_job_device_info"))
            for labels in (dict(pairs) for _, pairs in found.series):
                self.assertEqual(set(labels) & {"user", "username", "name", "account", "command", "pid"}, set())
            with_token = self.server.get("/metrics", "Accept: " + accept, token=self.server.token)
            names = {job[key] for job in self.snapshot["jobs"] if job["allocations"] for key in ("user", "name")}
            self.assertGreater(len(names), 5)
            self.assertEqual(names - told(names, with_token.text), set())
            commands = {process["command"] for node in self.nodes.values() for one in node["devices"] if one["fresh"]
                        for process in one["processes"] or []}
            self.assertEqual(commands - told(commands, with_token.text), set())

    def test_the_snapshot_needs_the_token(self):
        for path in ("/api/v1/snapshot", "/api/v1/snapshot?token=" + self.server.token, "/api/v1/snapshot?" + self.server.token):
            for method in ("GET", "HEAD"):
                answer = self.server.get(path, method=method)
                self.assertEqual(answer.status, 401, path)
                self.assert_tells_nothing(answer)
        self.assertEqual(self.server.get("/api/v1/snapshot", token=self.server.token).status, 200)

    def assert_tells_nothing(self, answer):
        said = answer.text + str(answer.headers)
        secrets = secrets_of(self.snapshot) | set(self.nodes) | {self.server.token, self.server.token_path}
        self.assertEqual(told(secrets, said), set())
        self.assertLess(len(answer.body), 300)

    def test_a_wrong_token_is_refused_everywhere(self):
        token = self.server.token
        for path in ("/metrics", "/api/v1/snapshot", "/healthz", "/nothing"):
            for value in ("Bearer wrong", "Bearer " + token[:-1], "Bearer " + token + "x", "Bearer " + token.swapcase() + "_",
                          "Bearer ", "Bearer", "Basic dXNlcjpwYXNz", "Basic " + token, token, f"Bearer {token} {token}",
                          f"Bearer {token},", f'Bearer "{token}"', "Bearer " + "x" * 5000, "Bearer \x80\xff", "Bearer \t"):
                with self.subTest(path=path, value=value):
                    answer = self.server.get(path, "Authorization: " + value)
                    self.assertIn(answer.status, (401,))
                    self.assert_tells_nothing(answer)
        self.assertIn("bearer", self.server.get("/metrics", token="wrong").headers.get("WWW-Authenticate", "").lower())

    def test_two_tokens_are_not_one(self):
        answer = self.server.get("/api/v1/snapshot", "Authorization: Bearer wrong", token=self.server.token)
        self.assertIn(answer.status, (400, 401))

    def test_the_scheme_is_written_as_one_likes(self):
        for scheme in ("bearer", "BEARER"):
            self.assertEqual(self.server.get("/api/v1/snapshot", f"Authorization: {scheme} {self.server.token}").status, 200)

    def test_head_has_no_body(self):
        for path in ("/metrics", "/api/v1/snapshot", "/healthz", "/nothing"):
            get = self.server.get(path, token=self.server.token)
            with self.server.connect() as connection:
                connection.send(message(path, f"Authorization: Bearer {self.server.token}", method="HEAD"))
                head = connection.receive("HEAD")
                self.assertEqual((head.status, head.headers["Content-Type"]), (get.status, get.headers["Content-Type"]), path)
                if head.headers.get("Connection", "").lower() != "close":
                    connection.send(message("/healthz"))
                    self.assertEqual(connection.receive().status, 200, path)

    def test_names_are_not_cached_for_those_without(self):
        """A request with the token is followed by one without, on the same connection."""
        with self.server.connect() as connection:
            connection.send(message("/metrics", f"Authorization: Bearer {self.server.token}") + message("/metrics"))
            first, second = connection.receive(), connection.receive()
            self.assertTrue(told({"katherine"}, first.text))
            self.assertEqual(told(secrets_of(self.snapshot), second.text), set())

    def test_login_names_are_names_of_users(self):
        server = Server(self, f"katherine@127.0.0.1:{serving.free_port()}", "--compat", "nvitop")
        found = until("a fault", lambda: server.metrics() if server.metrics().of("gtop_node_fault_info") else None)
        self.assertNotIn("katherine", found.text)

    def test_a_log_has_no_token(self):
        path = os.path.join(rig.folder(), "log")
        server = Server(self, "--demo=1", "--log", path)
        server.until_known(1, server.token)
        server.get("/metrics", token="some-wrong-token")
        server.get("/metrics", "X: y", token=server.token, method="POST")
        server.stop()
        self.assertGreater(os.path.getsize(path), 0)
        self.assertNotIn(server.token, read(path))
        self.assertNotIn("some-wrong-token", read(path))

    def test_the_token_is_a_secret(self):
        self.assertEqual(mode_of(self.server.token_path), 0o600)
        self.assertGreaterEqual(len(set(self.server.token)), 8)
        self.assertGreaterEqual(len(self.server.token), 32)
        process = f"/proc/{self.server.process.pid}/"
        for name in ("cmdline", "environ"):
            self.assertNotIn(self.server.token, read(process + name))
        self.assertNotIn(self.server.token, "\n".join(self.server.lines))


class TokenFiles(Case):
    def test_it_is_made_once(self):
        home = rig.folder()
        first = Server(self, demo_recording(), home=home, umask=0)
        token = first.token
        self.assertEqual(mode_of(first.token_path), 0o600)
        first.stop()
        second = Server(self, demo_recording(), home=home)
        self.assertEqual(second.token, token)
        self.assertEqual(second.snapshot()["schema"], 2)
        self.assertNotEqual(Server(self, demo_recording()).token, token)

    def test_servers_that_start_together_have_one(self):
        home = rig.folder()
        servers = [Server(self, demo_recording(), home=home, waits=False) for _ in range(6)]
        for server in servers:
            self.assertEqual(server.wait().get("/api/v1/snapshot", token=server.token).status, 200)
        self.assertEqual(os.listdir(os.path.dirname(servers[0].token_path)), ["serve-token"])

    def test_a_home_of_ones_own_without_the_variable(self):
        home = rig.folder()
        environment = {**os.environ, "HOME": home}
        environment.pop("XDG_STATE_HOME", None)
        server = Server(self, demo_recording(), home=home, environment=environment, program=self.without_variable())
        path = os.path.join(home, ".local", "state", "gtop", "serve-token")
        self.assertEqual(server.get("/api/v1/snapshot", token=read(path).strip()).status, 200)

    def without_variable(self):
        """Returns a program that runs gtop without XDG_STATE_HOME, which the rig sets."""
        path = write(os.path.join(rig.folder(), "gtop"), f'#!/bin/sh\nunset XDG_STATE_HOME\nexec {rig.GTOP} "$@"\n')
        os.chmod(path, 0o755)
        return path

    def token_file(self, text, mode=0o600):
        return write(os.path.join(rig.folder(), "token"), text, mode)

    def test_the_first_line_of_a_file(self):
        token = "abcDEF0123456789abcDEF0123456789"
        for text in (token + "\n", token, token + "\nmore\n"):
            path = self.token_file(text)
            server = Server(self, demo_recording(), "--token-file", path)
            self.assertEqual(server.get("/api/v1/snapshot", token=token).status, 200)
            self.assertFalse(os.path.exists(server.token_path))
            self.assertEqual(read(path), text)

    def test_a_file_that_others_can_read_is_refused(self):
        for mode in (0o644, 0o640, 0o604, 0o666):
            path = self.token_file("a" * 40 + "\n", mode)
            self.refused(demo_recording(), "--token-file", path, says=[path, "chmod 600"])
            self.assertEqual(mode_of(path), mode)

    def test_the_default_file_that_others_can_read_is_refused(self):
        home = rig.folder()
        os.makedirs(os.path.join(home, "state", "gtop"))
        path = write(os.path.join(home, "state", "gtop", "serve-token"), "a" * 40 + "\n", 0o644)
        self.refused(demo_recording(), home=home, says=[path, "chmod 600"])

    def test_no_token_is_no_protection(self):
        for text in ("", "\n", "   \n", "\nabcDEF0123456789abcDEF0123456789\n"):
            path = self.token_file(text)
            self.refused(demo_recording(), "--token-file", path, says=[path])
            home = rig.folder()
            os.makedirs(os.path.join(home, "state", "gtop"))
            path = write(os.path.join(home, "state", "gtop", "serve-token"), text, 0o600)
            self.refused(demo_recording(), home=home, says=[path])

    def test_what_is_no_file_is_refused(self):
        folder = rig.folder()
        pipe = os.path.join(folder, "pipe")
        os.mkfifo(pipe, 0o600)
        binary = os.path.join(folder, "binary")
        with open(os.open(binary, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(b"\xff\x00" * 40)
        for path in (os.path.join(folder, "missing"), folder, pipe, binary):
            self.refused(demo_recording(), "--token-file", path, says=[path])

    def test_a_state_folder_that_cannot_be_written_is_named(self):
        home = rig.folder()
        write(os.path.join(home, "state"), "a file")
        self.refused(demo_recording(), home=home, says=[os.path.join(home, "state")])

    def test_a_link_of_somebody_else_is_not_followed_for_writing(self):
        home, elsewhere = rig.folder(), os.path.join(rig.folder(), "elsewhere")
        os.makedirs(os.path.join(home, "state", "gtop"))
        os.symlink(elsewhere, os.path.join(home, "state", "gtop", "serve-token"))
        server = Server(self, demo_recording(), home=home, waits=False)
        until("a decision", lambda: server.process.poll() is not None or str(server.port) in "\n".join(server.lines))
        self.assertFalse(os.path.exists(elsewhere))


class Hosts(Served):
    words = ("--allow-host", "gtop.example.org", "--allow-host", "other")

    def status(self, host, *headers, target="/metrics", version="1.1"):
        found = self.server.exchange(message(target, *headers, "Connection: close", host=host, version=version))
        return found[0].status if found else None

    def test_names_of_this_machine_are_served(self):
        port, machine = self.server.port, socket.gethostname()
        for host in ("127.0.0.1", f"127.0.0.1:{port}", "localhost", f"localhost:{port}", "LocalHost", "[::1]", f"[::1]:{port}",
                     "10.1.2.3", "10.1.2.3:80", "[2001:db8::1]:9835", machine, f"{machine}:{port}", machine.upper(),
                     "gtop.example.org", f"gtop.example.org:{port}", "GTOP.Example.org", "other"):
            with self.subTest(host):
                self.assertEqual(self.status(host), 200)

    def test_other_names_are_refused(self):
        evil = "evil.example.org"
        for host in (evil, f"{evil}:{self.server.port}", "127.0.0.1." + evil, "localhost." + evil, "xgtop.example.org", "example.org",
                     "gtop.example.org." + evil, evil + ":127.0.0.1", "localhost@" + evil, evil + "#localhost", "127.0.0.1," + evil,
                     "[::1]." + evil, f"[{evil}]", "[::1", "localhost:" + evil, "*", "-", "..", "127.0.0.1 " + evil,
                     "localhost/" + evil):
            for path in ("/metrics", "/api/v1/snapshot", "/healthz", "/nothing"):
                with self.subTest(host=host, path=path):
                    answer = self.server.get(path, host=host, token=self.server.token)
                    # A server may also say that this is no host at all.
                    self.assertIn(answer.status, (421,) if re.fullmatch(r"[a-z0-9.]+(:\d+)?", host) else (400, 421))
                    self.assertEqual(told(set(self.nodes), answer.text), set())

    def test_a_host_must_be_named_once(self):
        self.assertEqual(self.status(None), 400)
        self.assertEqual(self.status(""), 400)
        self.assertEqual(self.status("localhost", "Host: evil.example.org"), 400)
        self.assertEqual(self.status("evil.example.org", "Host: localhost"), 400)
        self.assertIn(self.status("localhost", "Host: localhost"), (200, 400))
        self.assertIn(self.status("evil.example.org", version="1.0"), (400, 421))

    def test_targets_with_a_host_of_their_own(self):
        for host in ("localhost", "evil.example.org"):
            for target in ("http://evil.example.org/metrics", "HTTP://evil.example.org:80/metrics",
                           "http://localhost@evil.example.org/metrics"):
                self.assertIn(self.status(host, target=target), (400, 404, 421), (host, target))
        # The host of the target is what counts (RFC 9112, 3.2.2); one that is refused in the header may be refused here too.
        self.assertIn(self.status("localhost", target="http://localhost/metrics"), (200, 400, 404))
        self.assertIn(self.status("evil.example.org", target="http://localhost/metrics"), (200, 400, 404, 421))

    def test_forwarded_hosts_count_for_nothing(self):
        self.assertEqual(self.status("evil.example.org", "X-Forwarded-Host: localhost", "Forwarded: host=localhost"), 421)


class UnixSocket(Case):
    def test_its_owner_needs_no_token(self):
        path = self.socket_path()
        server = Server(self, demo_recording(), "--processes", "--socket", path, umask=0)
        self.assertEqual(mode_of(path), 0o600)
        found = server.metrics()
        self.assertTrue(found.of("gtop_job_info") and found.of("gtop_process_info"))
        self.assertEqual(server.snapshot(unix=True)["schema"], 2)
        self.assertEqual(server.get("/healthz").text.strip(), "ok")
        self.assertEqual(server.get("/metrics", method="POST").status, 405)
        self.assertEqual(server.stop(), ENDED[signal.SIGTERM])
        self.assertFalse(os.path.lexists(path))

    def test_nobody_else_can_open_it_at_any_time(self):
        for _ in range(5):
            path = self.socket_path()
            server = Server(self, demo_recording(), "--socket", path, umask=0, waits=False)
            deadline = time.monotonic() + serving.PATIENCE
            while not os.path.lexists(path) and time.monotonic() < deadline:
                pass
            self.assertEqual(mode_of(path), 0o600)
            server.wait().stop()

    def test_beside_a_port(self):
        path = self.socket_path()
        server = Server(self, demo_recording(), "--listen", f"127.0.0.1:{serving.free_port()}", "--socket", path)
        self.assertEqual(server.metrics().of("gtop_job_info"), [])
        self.assertTrue(server.metrics(unix=True).of("gtop_job_info"))
        self.assertEqual(server.get("/api/v1/snapshot").status, 401)
        self.assertEqual(server.get("/api/v1/snapshot", unix=True).status, 200)

    def test_curl_finds_it(self):
        needs("curl")
        path = self.socket_path()
        Server(self, demo_recording(), "--socket", path)
        command = ["curl", "-sS", "--unix-socket", path, "http://localhost/api/v1/snapshot"]
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True)
        self.assertEqual(json.loads(done.stdout)["schema"], 2)

    def test_the_file_of_a_dead_server_is_replaced(self):
        path = self.socket_path()
        Server(self, demo_recording(), "--socket", path).stop(signal.SIGKILL)
        self.assertTrue(os.path.lexists(path))
        server = Server(self, demo_recording(), "--socket", path)
        self.assertEqual(mode_of(path), 0o600)
        self.assertEqual(server.get("/healthz").status, 200)

    def test_the_socket_of_the_living_is_not(self):
        path = self.socket_path()
        server = Server(self, demo_recording(), "--socket", path)
        self.refused(demo_recording(), "--socket", path, says=[path])
        self.assertEqual(server.get("/healthz").status, 200)
        other = self.socket_path("other.sock")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(other)
            listener.listen()
            self.refused(demo_recording(), "--socket", other, says=[other])
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(other)

    def test_what_is_no_socket_is_not_touched(self):
        folder = rig.folder()
        file = write(os.path.join(folder, "file"), "mine", 0o644)
        empty = write(os.path.join(folder, "empty"), "", 0o644)
        dead, link, dangling, pipe, inner = (os.path.join(folder, name) for name in ("dead", "link", "dangling", "pipe", "inner"))
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(dead)
        os.symlink(dead, link)
        os.symlink(os.path.join(folder, "nothing"), dangling)
        os.mkfifo(pipe)
        os.mkdir(inner)

        def state():
            stats = [(name, os.lstat(os.path.join(folder, name))) for name in sorted(os.listdir(folder))]
            return [(name, one.st_mode, one.st_ino, one.st_size) for name, one in stats]
        before = state()
        for path in (file, empty, link, dangling, pipe, inner):
            with self.subTest(path):
                self.refused(demo_recording(), "--socket", path, says=[path])
        self.assertEqual(state(), before)
        self.assertEqual(read(file), "mine")

    def test_places_that_cannot_be(self):
        for path in (os.path.join(rig.folder(), "missing", "gtop.sock"), os.path.join(rig.folder(), "a" * 120)):
            self.refused(demo_recording(), "--socket", path, says=[path])

    def test_at_the_end_only_its_own_file_is_removed(self):
        path = self.socket_path()
        server = Server(self, demo_recording(), "--socket", path)
        os.unlink(path)
        write(path, "of somebody else")
        self.assertEqual(server.stop(), ENDED[signal.SIGTERM])
        self.assertEqual(read(path), "of somebody else")

    def test_a_port_that_is_taken_leaves_no_file(self):
        path = self.socket_path()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.refused(demo_recording(), "--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--socket", path, says=[])
        self.assertFalse(os.path.lexists(path))


class Tls(Case):
    def serve(self, *words, address="0.0.0.0", certificate=None, **options):
        files = certificate or authority().sign("good")
        family, any_address = (socket.AF_INET6, "::") if ":" in address else (socket.AF_INET, "0.0.0.0")
        place = f"{address}:{serving.free_port(family, any_address)}"
        return Server(self, demo_recording(), *words, "--listen", place, "--tls-cert", files[0], "--tls-key", files[1],
                      context=authority().context, **options)

    def test_everything_but_health_needs_the_token(self):
        server = self.serve("--compat", "dcgm")
        for path in ("/metrics", "/api/v1/snapshot", "/nothing", "/"):
            answer = server.get(path)
            self.assertEqual(answer.status, 401, path)
            self.assertLess(len(answer.body), 300)
            self.assertEqual(server.get(path, token="wrong").status, 401)
        self.assertEqual(server.get("/healthz").text.strip(), "ok")
        self.assertEqual(server.get("/healthz", token="wrong").status, 401)
        self.assertTrue(server.metrics(server.token).of("gtop_job_info"))
        self.assertEqual(server.snapshot()["schema"], 2)
        self.assertEqual(server.get("/nothing", token=server.token).status, 404)
        self.assertEqual(server.get("/metrics", token=server.token, host="evil.example.org").status, 421)

    def test_loopback_may_have_tls_too(self):
        server = self.serve(address="127.0.0.1")
        self.assertEqual(server.get("/api/v1/snapshot").status, 401)
        self.assertEqual(server.metrics().of("gtop_job_info"), [])
        self.assertTrue(server.metrics(server.token).of("gtop_job_info"))

    def test_clients_of_all_kinds(self):
        needs("curl")
        server = self.serve()
        url = f"https://localhost:{server.port}/metrics"
        curl = ["curl", "-sS", "-w", "\n%{http_code} %{http_version} %{ssl_verify_result}", url]
        trusting = [*curl, "--cacert", authority().certificate]
        good = [*trusting, "-H", "Authorization: Bearer " + server.token]
        for words, wanted in ((trusting, "401 1.1 0"), (good, "200 1.1 0"), ([*good, "--http2"], "200 1.1 0"),
                              ([*good, "--tlsv1.3"], "200 1.1 0"), ([*good, "--tls-max", "1.2"], "200 1.1 0"),
                              ([*trusting, "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0"], None), (curl, None)):
            with self.subTest(words):
                done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
                if wanted:
                    self.assertEqual(done.stdout.decode().rsplit("\n", 1)[1], wanted, done.stderr)
                else:
                    self.assertNotEqual(done.returncode, 0)

    def test_strangers_do_not_hurt(self):
        server = self.serve()
        for data in (message("/metrics", f"Authorization: Bearer {server.token}"), b"\x00" * 1000, os.urandom(5000),
                     b"\x16\x03\x01\xff\xff" + bytes(70000), b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\x03", b""):
            sock = socket.create_connection((server.address, server.port), timeout=serving.PATIENCE)
            with Connection(sock) as connection:
                connection.send(data)
                received = b""
                try:
                    sock.shutdown(socket.SHUT_WR)
                    while part := sock.recv(1 << 16):
                        received += part
                except OSError:
                    pass
                self.assertNotIn(b"gtop_", received)
                self.assertNotIn(b"200 OK", received)
        self.assertEqual(server.get("/healthz").status, 200)

    def test_handshakes_that_never_end_make_room(self):
        server = self.serve()
        sockets = []
        self.addCleanup(lambda: [sock.close() for sock in sockets])
        for _ in range(300):
            sockets.append(socket.create_connection((server.address, server.port), timeout=serving.PATIENCE))
        self.assertEqual(server.get("/healthz").status, 200)
        until("the end of the first connection", Connection(sockets[0]).is_closed)

    def test_errors_name_the_file(self):
        files, other = authority().sign("good"), authority().sign("other")
        folder = rig.folder()
        nonsense = write(os.path.join(folder, "nonsense.pem"), "nonsense\n", 0o600)
        empty = write(os.path.join(folder, "empty.pem"), "", 0o600)
        broken = write(os.path.join(folder, "broken.pem"), read(files[0])[:300], 0o600)
        damaged = write(os.path.join(folder, "damaged.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", 0o600)
        expired, future = authority().sign("expired", "-9", "-2"), authority().sign("future", "+5", "+9")
        locked = os.path.join(folder, "locked.key")
        serving.openssl("pkcs8", "-topk8", "-in", files[1], "-out", locked, "-passout", "pass:secret", "-v2", "aes-256-cbc")
        missing = os.path.join(folder, "missing.pem")
        for what, certificate, key, named in (
                ("no certificate", missing, files[1], missing), ("no key", files[0], missing, missing),
                ("nonsense", nonsense, files[1], nonsense), ("a key of nonsense", files[0], nonsense, nonsense),
                ("an empty certificate", empty, files[1], empty), ("an empty key", files[0], empty, empty),
                ("half a certificate", broken, files[1], broken), ("a damaged certificate", damaged, files[1], damaged),
                ("another key", files[0], other[1], other[1]), ("exchanged", files[1], files[0], files[1]),
                ("expired", *expired, expired[0]), ("a locked key", files[0], locked, locked), ("a folder", folder, files[1], folder),
                ("not valid yet", *future, future[0])):
            with self.subTest(what):
                place = f"0.0.0.0:{serving.free_port()}"
                words = ["--listen", place, "--tls-cert", certificate, "--tls-key", key]
                said = self.refused(demo_recording(), *words, says=[named] + [what] * (what == "expired"))
                self.assertNotIn("PRIVATE KEY-----\nM", said)
                self.assertGreater(len(said.replace(named, "")), 20, said)

    def test_a_file_that_cannot_be_read_is_named(self):
        if os.getuid() != 0:
            give_up("only root can run gtop as another user")
        files = authority().sign("closed")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            program = public_program(folder)
            recording = shutil.copy(demo_recording(), folder)
            os.chmod(recording, 0o644)
            home = os.path.join(folder, "home")
            os.mkdir(home, 0o700)
            os.chown(home, *NOBODY)
            paths = [shutil.copy(path, folder) for path in files]
            for closed in (0, 1):
                for number, path in enumerate(paths):
                    os.chown(path, *NOBODY)
                    os.chmod(path, 0o000 if number == closed else 0o400)
                words = ["--listen", f"0.0.0.0:{serving.free_port()}", "--tls-cert", paths[0], "--tls-key", paths[1]]
                self.refused(recording, *words, program=program, home=home, says=[paths[closed]], **as_user(NOBODY))

    def test_the_certificate_is_read_again(self):
        first, second = authority().sign("first"), authority().sign("second")
        folder = rig.folder()
        files = [shutil.copy(path, os.path.join(folder, name)) for path, name in zip(first, ("cert.pem", "key.pem"))]
        server = self.serve(certificate=files)

        def subject():
            with server.connect() as connection:
                return dict(pair[0] for pair in connection.sock.getpeercert()["subject"])["commonName"]
        self.assertEqual(subject(), "first")
        # One of the files is new, or one is broken: it goes on with what it has.
        write(files[0], "nonsense")
        self.assertEqual(server.get("/healthz").status, 200)
        shutil.copy(second[0], files[0])
        self.assertEqual(server.get("/healthz").status, 200)
        shutil.copy(second[1], files[1])
        until("the second certificate", lambda: subject() == "second")
        # As certbot and cert-manager do: a new file takes the place of the old one.
        for path, target in zip(first, files):
            shutil.copy(path, target + ".new")
            os.replace(target + ".new", target)
        until("the first certificate again", lambda: subject() == "first")
        for path in files:
            os.unlink(path)
        self.assertEqual(server.get("/healthz").status, 200)
        self.assertEqual(server.stop(), ENDED[signal.SIGTERM])


NOBODY = (64901, 64901)                # users that exist nowhere, so that no process is theirs
STRANGER = (64902, 64902)

SPY = r"""
import json, os, socket, sys
port, token, path = sys.argv[1:]
def tried(action):
    try:
        return action()
    except OSError as error:
        return type(error).__name__
def connect():
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
    return "connected"
def scrape(target, *headers):
    with socket.create_connection(("127.0.0.1", int(port)), timeout=60) as one:
        lines = [f"GET {target} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
        one.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return b"".join(iter(lambda: one.recv(1 << 16), b"")).decode()
print(json.dumps({
    "uid": os.getuid(), "token": tried(lambda: open(token).read()), "socket": tried(connect),
    "metrics": scrape("/metrics"), "open": scrape("/metrics", "Accept: application/openmetrics-text"),
    "snapshot": scrape("/api/v1/snapshot"), "wrong": scrape("/metrics", "Authorization: Bearer x"), "health": scrape("/healthz")}))
"""


def as_user(ids):
    """Returns the options of subprocess that run a program as another user."""
    return {"user": ids[0], "group": ids[1], "extra_groups": [], "cwd": "/"}


def public_program(folder):
    """Puts gtop where all users can run it: the build may be in a folder of root."""
    path = os.path.join(folder, "gtop")
    try:
        os.link(rig.GTOP, path)
    except OSError:
        shutil.copy(rig.GTOP, path)
    if not os.stat(path).st_mode & 0o001:
        os.unlink(path)
        shutil.copy(rig.GTOP, path)
        os.chmod(path, 0o755)
    return path


def public_python():
    """Returns a Python that all users can run."""
    for path in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable):
        try:
            command = [path, "-I", "-c", "import json"]
            subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60, check=True, **as_user(STRANGER))
            return path
        except (OSError, subprocess.CalledProcessError):
            continue
    return give_up("no Python that all users can run")


class Users(Case):
    def test_one_user_serves_and_another_looks(self):
        if os.getuid() != 0:
            give_up("only root can be two other users")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            program, python = public_program(folder), public_python()
            # The socket is in a folder that all can reach: its own mode must be enough.
            path = os.path.join(folder, "shared", "gtop.sock")
            home = os.path.join(folder, "home")
            os.mkdir(os.path.dirname(path))
            os.chmod(os.path.dirname(path), 0o777)
            os.mkdir(home, 0o700)
            os.chown(home, *NOBODY)
            recording = os.path.join(folder, "demo.gtop")
            shutil.copy(demo_recording(), recording)
            os.chmod(recording, 0o644)
            words = ["--processes", "--compat", "nvitop", "--listen", f"127.0.0.1:{serving.free_port()}", "--socket", path]
            server = Server(self, recording, *words, program=program, home=home, umask=0, **as_user(NOBODY))
            snapshot = server.snapshot(unix=True)
            self.assertEqual((mode_of(path), os.lstat(path).st_uid), (0o600, NOBODY[0]))
            self.assertEqual((mode_of(server.token_path), os.lstat(server.token_path).st_uid), (0o600, NOBODY[0]))
            # Even if the home folder is open to all.
            for mode in (0o700, 0o755):
                os.chmod(home, mode)
                command = [python, "-I", "-c", SPY, str(server.port), server.token_path, path]
                done = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=True, **as_user(STRANGER))
                found = json.loads(done.stdout)
                refused = [found[what] for what in ("token", "socket")]
                self.assertEqual((found["uid"], refused), (STRANGER[0], ["PermissionError"] * 2))
                self.assertEqual([found[what].split(" ", 2)[1] for what in ("metrics", "open", "snapshot", "wrong", "health")],
                                 ["200", "200", "401", "401", "200"])
                for what in ("metrics", "open", "snapshot", "wrong", "health"):
                    self.assertEqual(told(secrets_of(snapshot), found[what]), set(), what)
                    self.assertNotIn(server.token, found[what])
            self.assertIn("gtop_node_up", found["metrics"])
            self.assertEqual(server.stop(), ENDED[signal.SIGTERM])

    def test_a_token_of_another_user_is_refused(self):
        if os.getuid() != 0:
            give_up("only root can give files to others")
        path = write(os.path.join(rig.folder(), "token"), "a" * 40 + "\n", 0o600)
        os.chown(path, *STRANGER)
        self.refused(demo_recording(), "--token-file", path, says=[path])


if __name__ == "__main__":
    unittest.main()
