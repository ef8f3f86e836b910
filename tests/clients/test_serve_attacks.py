"""Requests and connections that are there to hurt `gtop serve`: after each, and meanwhile, a good client is answered.

    GTOP=path/to/gtop python3 -m unittest -v test_serve_attacks
"""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import unittest

import serving
from serving import ENDED, Case, Exposition, Served, Server, give_up, message, secrets_of, told, until


class Requests(Served):
    """Requests that no good client sends; after each of them, a good one is answered."""

    def tearDown(self):
        self.assert_serves(self.server)

    def answers(self, data, answers=1, method="GET"):
        return self.server.exchange(data, answers, method)

    def assert_refused_or_closed(self, data, statuses=(400, 404, 405, 408, 413, 414, 417, 421, 431, 501, 505)):
        for answer in self.answers(data):
            self.assertIn(answer.status, statuses, answer)
            self.assertEqual(told(set(self.nodes), answer.text), set())

    def test_nothing_can_be_changed(self):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get", "GETX"):
            for path in ("/metrics", "/api/v1/snapshot", "/healthz"):
                with self.subTest(method=method, path=path):
                    answer = self.server.get(path, "Content-Length: 0", method=method, token=self.server.token)
                    self.assertEqual(answer.status, 405)
                    self.assertEqual({word.strip() for word in answer.headers["Allow"].split(",")}, {"GET", "HEAD"})
        found = self.answers(message("127.0.0.1:80", method="CONNECT"))
        self.assertIn([answer.status for answer in found], ([], [400], [404], [405]))

    def test_health(self):
        answer = self.server.get("/healthz")
        self.assertEqual((answer.status, answer.text.strip()), (200, "ok"))

    def test_queries_are_allowed(self):
        for path in ("/metrics?", "/metrics?collect[]=cpu", "/healthz?now=1"):
            self.assertEqual(self.server.get(path).status, 200, path)

    def test_other_paths(self):
        for path in ("/nothing", "/metrics/", "//metrics", "/metrics//", "/./metrics", "/metrics/..", "/../metrics",
                     "/api/../metrics", "/api/v1/../v1/snapshot", "/api/v1/snapshot/", "/api/v1/snapshot/../../../metrics",
                     "/../../../../etc/passwd", "/metricsx", "/Metrics", "/metrics%00", "/metrics%0a", "/%2e%2e/metrics",
                     "/%2e%2e%2fetc%2fpasswd", "/..%5cmetrics", "/%zz", "/%", "/%2", "/metrics%", "/metrics%2f", "/metrics;a=b",
                     "/metrics\\", "/api/v1", "/api/v2/snapshot", "/" + "a" * 7000):
            with self.subTest(path):
                answer = self.server.get(path, token=self.server.token)
                self.assertEqual(answer.status, 404)
                self.assertNotIn(b"<", answer.body)
                self.assertLess(len(answer.body), 300)

    def test_the_root_tells_nothing(self):
        answer = self.server.get("/")
        self.assertIn(answer.status, (200, 404))
        self.assertEqual(told(set(self.nodes) | secrets_of(self.snapshot), answer.text), set())

    def test_targets_that_are_none(self):
        for line in (b"GET  HTTP/1.1", b"GET metrics HTTP/1.1", b"GET /met rics HTTP/1.1", b"GET /\xff\xfe HTTP/1.1",
                     b"GET /metrics", b"GET", b"GET /metrics HTTP/9.9", b"GET /metrics HTTP/1.1 HTTP/1.1",
                     b"GET /metrics\x00 HTTP/1.1", b"\x00", b"* /metrics HTTP/1.1", b"GET * HTTP/1.1", b"GET ?x HTTP/1.1",
                     b"/metrics", b" GET /metrics HTTP/1.1"):
            with self.subTest(line), self.server.connect() as connection:
                connection.send(line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                answer = connection.receive()
                if answer:
                    self.assertIn(answer.status, (400, 404, 405, 421, 501, 505), answer)

    def test_other_protocols(self):
        hello = (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(32) + b"\x20" + bytes(32)
                 + b"\x00\x02\x13\x01\x01\x00\x00\x56" + bytes(86))
        sent = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", hello,
                b"SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n", b"\x00" * 100000, b"\xff" * 100000, os.urandom(1 << 16), b"\r\n" * 50000,
                b"\n" * 100000, b"A" * (1 << 20), b"\x05\x01\x00", b"*1\r\n$4\r\nPING\r\n\r\n", b"EHLO localhost\r\n\r\n"]
        connections = []
        self.addCleanup(lambda: [connection.close() for connection in connections])
        for data in sent:
            connections.append(self.server.connect())
            connections[-1].send(data)
        self.assert_serves(self.server)
        for data, connection in zip(sent, connections):
            with self.subTest(data[:20]):
                received = b""
                try:
                    while part := connection.sock.recv(1 << 16):
                        received += part
                except ConnectionResetError:
                    pass
                self.assertNotIn(b" 200 ", received[:30])
                self.assertLess(len(received), 10000)

    def test_an_upgrade_is_not_made(self):
        for headers in (("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"),
                        ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
                         "Sec-WebSocket-Version: 13")):
            found = self.answers(message("/healthz", *headers))
            self.assertNotIn(101, [answer.status for answer in found])

    def test_large_heads(self):
        lines = {"one header of 1 MiB": message("/metrics", "X: " + "a" * (1 << 20)),
                 "a name of 1 MiB": message("/metrics", "a" * (1 << 20) + ": x"),
                 "a target of 1 MiB": message("/" + "a" * (1 << 20)),
                 "a host of 1 MiB": message("/metrics", host="a" * (1 << 20)),
                 "a method of 1 MiB": message("/metrics", method="A" * (1 << 20)),
                 "10,000 lines": message("/metrics", *(f"X-{number}: y" for number in range(10000))),
                 "10,000 lines of one name": message("/metrics", *("X: y" for _ in range(10000))),
                 "100 MiB without an end": b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * (100 << 18)}
        before = self.server.resident()
        for what, data in lines.items():
            with self.subTest(what):
                self.assert_refused_or_closed(data)
        self.assertLess(self.server.resident() - before, 100 << 20)

    def test_broken_heads(self):
        for line in ("X y", ": y", "X : y", " X: y", "X: a\x00b", "X: a\rb", "\x00: y", "Content-Length: -1",
                     "Content-Length: 1e3", "Content-Length: x", "Content-Length: 99999999999999999999999",
                     "Transfer-Encoding: nonsense", "Content-Length: 5\r\nContent-Length: 6", "Expect: nonsense"):
            with self.subTest(line):
                found = self.answers(message("/metrics", line, "Connection: close"))
                if found and line not in ("Expect: nonsense", " X: y"):
                    self.assertIn(found[0].status, (400, 417, 431, 501), (line, found[0]))

    def test_pipelined_requests_are_answered_in_order(self):
        targets = ["/healthz", "/metrics", "/nothing", "/api/v1/snapshot"] * 16
        with self.server.connect() as connection:
            writer = threading.Thread(target=connection.send, args=(b"".join(message(target) for target in targets),))
            writer.start()
            found = [connection.receive() for _ in targets]
            writer.join()
        self.assertEqual([answer and answer.status for answer in found], [200, 200, 404, 401] * 16)
        self.assertEqual({answer.text.strip() for answer in found[::4]}, {"ok"})
        for answer in found[1::4]:
            Exposition(answer.body)

    def test_a_request_in_pieces(self):
        with self.server.connect() as connection:
            for byte in message("/healthz"):
                connection.send(bytes([byte]))
            self.assertEqual(connection.receive().status, 200)

    def test_old_clients(self):
        found = self.answers(message("/metrics", version="1.0"))
        self.assertEqual(found[0].status, 200)
        Exposition(found[0].body)

    def test_bodies_are_not_waited_for_and_not_requests(self):
        hidden = message("/api/v1/snapshot", f"Authorization: Bearer {self.server.token}")
        for what, data in {
                "1 GiB announced": message("/healthz", f"Content-Length: {1 << 30}"),
                "expected": message("/healthz", "Content-Length: 10", "Expect: 100-continue"),
                "in chunks": message("/healthz", "Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n"),
                "in broken chunks": message("/healthz", "Transfer-Encoding: chunked", body=b"zz\r\nhello\r\n"),
                "in huge chunks": message("/healthz", "Transfer-Encoding: chunked", body=b"fffffffffffffffff\r\nhello\r\n"),
                "a request": message("/healthz", f"Content-Length: {len(hidden)}", body=hidden)}.items():
            with self.subTest(what), self.server.connect() as connection:
                connection.send(data)
                answer = connection.receive()
                while answer and answer.status == 100:
                    answer = connection.receive()
                if answer:
                    self.assertIn(answer.status, (200, 400, 413, 417), answer)
                connection.sock.settimeout(1)
                try:
                    following = connection.receive()
                except TimeoutError:
                    following = None
                self.assertIn(following and following.status, (None, 400, 408), what)

    def test_lengths_that_contradict_each_other(self):
        """The bytes after such a head are never taken for a request."""
        hidden = message("/healthz")
        for headers in (("Content-Length: 4", "Transfer-Encoding: chunked"), ("Transfer-Encoding: chunked", "Content-Length: 4"),
                        ("Content-Length: 0", f"Content-Length: {len(hidden)}"), ("Transfer-Encoding: chunked, identity",),
                        ("Transfer-Encoding: identity", "Content-Length: 4")):
            with self.subTest(headers):
                found = self.answers(message("/healthz", *headers, body=b"0\r\n\r\n"), 2)
                self.assertIn(found[0].status if found else 400, (200, 400, 501))

    def test_bodies_are_not_kept(self):
        before = self.server.resident()
        with self.server.connect() as connection:
            connection.send(message("/healthz", "Transfer-Encoding: chunked"))
            for _ in range(200):
                if not connection.send(b"100000\r\n" + bytes(1 << 20) + b"\r\n"):
                    break
        self.assertLess(self.server.resident() - before, 60 << 20)

    def test_many_ranges_and_conditions_change_nothing(self):
        for header in ("Range: bytes=0-0," + ",".join(f"{n}-" for n in range(1000)), "If-None-Match: *",
                       "If-Modified-Since: Mon, 01 Jan 2035 00:00:00 GMT", "Accept-Encoding: " + "gzip," * 1000,
                       "Accept: " + "a/b;q=0.1," * 1000):
            answer = self.server.get("/metrics", header)
            self.assertIn(answer.status, (200, 431), header)

    def test_a_connection_without_a_complete_request_is_closed(self):
        starts = {"nothing": b"", "a part": b"GET /metrics HTTP/1.1\r\nHost: loc", "after a request": message("/healthz")}
        for what, data in starts.items():
            with self.subTest(what), self.server.connect() as connection:
                connection.send(data)
                until("the end of the connection", connection.is_closed)

    def test_a_connection_that_dribbles_is_closed(self):
        with self.server.connect() as connection:
            text = iter(message("/metrics", *(f"X-{number}: {'y' * 50}" for number in range(50))))

            def dribble():
                connection.send(bytes([next(text)]))
                time.sleep(0.2)
                return connection.is_closed()
            until("the end of the connection", dribble)

    def test_the_one_that_has_been_idle_longest_makes_room(self):
        connections = []
        self.addCleanup(lambda: [connection.close() for connection in connections])
        for _ in range(300):
            connection = self.server.connect()
            connections.append(connection)
            connection.send(message("/healthz"))
            self.assertEqual(connection.receive().status, 200)
        until("the end of the first connection", connections[0].is_closed)
        connection.send(message("/healthz"))
        answer = connection.receive()
        # On a slow machine, the time of an idle connection may be over.
        self.assertIn(answer and answer.status, (200, None))


FLOOD = """
import socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
kept, failed = [], 0
for number in range(count):
    try:
        one = socket.create_connection(("127.0.0.1", port), timeout=60)
        one.setblocking(False)
        one.send(b"GET /metrics HTTP/1.1\\r\\nHost: x\\r\\n" if number % 2 else b"\\x00")
        kept.append(one)
    except OSError:
        failed += 1
print(len(kept), failed, flush=True)
sys.stdin.read()
"""
SLOW = """
import socket, sys, time
port, count = int(sys.argv[1]), int(sys.argv[2])
text = b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nX: " + b"y" * 100000
places = [[None, 0] for _ in range(count)]
def beat():
    for place in places:
        try:
            if place[0] is None:
                place[:] = [socket.create_connection(("127.0.0.1", port), timeout=60), 0]
            place[0].send(text[place[1]:place[1] + 1])
            place[1] += 1
        except OSError:
            place[0] = None
beat()
print("begun", flush=True)
while True:
    time.sleep(1)
    beat()
"""
DEAF = """
import socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
request = b"GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n" * 3000
kept = []
for number in range(count):
    try:
        one = socket.create_connection(("127.0.0.1", port), timeout=60)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.setblocking(False)
        one.send(request)
        kept.append(one)
    except OSError:
        pass
print(len(kept), flush=True)
sys.stdin.read()
"""


HOLD = """
import socket, sys, time
port, count = int(sys.argv[1]), int(sys.argv[2])
places = [None] * count
def beat():
    for number, one in enumerate(places):
        try:
            if one is None:
                places[number] = one = socket.create_connection(("127.0.0.1", port), timeout=60)
            one.settimeout(60)
            one.sendall(b"GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
            one.settimeout(0)
            if one.recv(1 << 16) == b"":
                places[number] = None
        except BlockingIOError:
            pass
        except OSError:
            places[number] = None
beat()
print("begun", flush=True)
while True:
    time.sleep(2)
    beat()
"""


class Flood(Case):
    """Those who hold connections, and those who open very many, do not keep a good client from its answers."""

    def setUp(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        wanted = 12000 if hard == resource.RLIM_INFINITY else min(hard, 12000)
        if wanted < 2200:
            give_up(f"only {wanted} files can be open")
        self.connections = min(10000, wanted - 200)
        self.files = wanted
        places = ["--listen", f"127.0.0.1:{serving.free_port()}", "--socket", self.socket_path()]
        self.server = Server(self, "--demo=4", "-i", "1", *places)
        self.server.until_known(4)
        self.good()
        self.before = self.server.resident()

    def attack(self, script, count):
        """Starts an attacker; returns it when it has begun."""
        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (self.files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        command = [sys.executable, "-c", script, str(self.server.port), str(count)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=limit)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def good(self):
        """A good client: it is answered, the nodes are up, and their samples are new.

        On the port, a connection may have to make room before its request was read: the client asks again. The socket is
        its owner's: nobody else takes room there.
        """
        found = until("an answer", self.scrape)
        self.assertEqual([found.value("gtop_node_up", **labels) for labels in found.of("gtop_node_up")], [1] * 4)
        for node in self.server.snapshot(unix=True)["nodes"]:
            for one in node["sources"]:
                if one["id"] in ("host", "nvml"):
                    self.assertLess(one["age_seconds"], 5, (node["name"], one))

    def scrape(self):
        found = self.server.exchange(message("/metrics", "Connection: close"))
        if not found:
            return None
        self.assertEqual(found[0].status, 200)
        return Exposition(found[0].body)

    def assert_small(self):
        self.assertLess(self.server.resident() - self.before, 100 << 20)

    def until_begun(self, process):
        """Scrapes until the attacker reports that it is done, and a few times more."""
        line = []
        reader = threading.Thread(target=lambda: line.append(process.stdout.readline()), daemon=True)
        reader.start()

        def has_begun():
            self.good()
            self.assert_small()
            return bool(line)
        until("the attack", has_begun, 4 * serving.PATIENCE)
        for _ in range(10):
            self.good()
            self.assert_small()
        return line[0]

    def test_three_hundred_that_are_slow(self):
        slow = self.attack(SLOW, 300)
        self.assertEqual(self.until_begun(slow), b"begun\n")
        deadline = time.monotonic() + 15
        while time.monotonic() < deadline:
            self.good()
            self.assert_small()
            time.sleep(0.2)
        self.assertIsNone(slow.poll())

    def test_ten_thousand_connections(self):
        opened = self.until_begun(self.attack(FLOOD, self.connections))
        self.assertGreaterEqual(int(opened.split()[0]), 2000)
        self.assertLess(len(os.listdir(f"/proc/{self.server.process.pid}/fd")), 600)

    def test_two_hundred_that_never_read(self):
        opened = self.until_begun(self.attack(DEAF, 200))
        self.assertGreater(int(opened), 100)

    def test_ten_thousand_while_others_hold_the_room(self):
        """Those who hold connections ask for /healthz on each from time to time, so that none is idle for long."""
        hold = self.attack(HOLD, 300)
        self.until_begun(hold)
        self.until_begun(self.attack(FLOOD, self.connections))
        self.assertIsNone(hold.poll())

    def test_all_of_them(self):
        slow = self.attack(SLOW, 300)
        self.until_begun(self.attack(DEAF, 100))
        self.until_begun(self.attack(FLOOD, self.connections))
        self.assertIsNone(slow.poll())
        self.assertEqual(self.server.stop(), ENDED[signal.SIGTERM])


if __name__ == "__main__":
    unittest.main()
