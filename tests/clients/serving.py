"""Shared by the tests of `gtop serve`: servers that run, requests to them, a strict parser of what they answer, and recordings."""

import collections
import functools
import glob
import http.client
import json
import math
import os
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import threading
import time
import unittest

import rig

PATIENCE = 60                          # seconds until a condition that never comes true is a failure
OPEN_METRICS = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")           # the header of Prometheus 2.42
FIXTURES = os.path.join(rig.ROOT, "tests", "fixtures", "exporters")


def until(what, condition, patience=PATIENCE):
    """Waits until the condition is true, and returns what it is."""
    deadline = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} never came: {found!r}")
        time.sleep(0.05)


def needs(*programs):
    """Skips the test if a program is missing; in CI it fails."""
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        give_up("not installed: " + ", ".join(missing))


def give_up(why):
    if os.environ.get("GTOP_CI") == "1":
        raise AssertionError(why)
    raise unittest.SkipTest(why)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text, mode=None):
    with open(path, "w", encoding="utf-8") as file:
        if mode is not None:
            os.fchmod(file.fileno(), mode)
        file.write(text)
    return path


def free_port(family=socket.AF_INET, address="127.0.0.1"):
    with socket.socket(family) as one:
        one.bind((address, 0))
        return one.getsockname()[1]


# Servers.

class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {dict(self.headers)} {self.body[:200]!r}"


class Connection:
    """A connection on which bytes are sent and answers read; a closed one answers None."""

    def __init__(self, sock):
        self.sock = sock
        self.file = sock.makefile("rb")

    def send(self, data):
        """Sends bytes; returns False if the server has closed the connection."""
        try:
            self.sock.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            return False

    def receive(self, method="GET"):
        try:
            return self.parse(method)
        except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
            return None

    def parse(self, method):
        line = self.file.readline()
        if not line:
            return None
        version, status, *_ = line.decode("latin-1").split()
        if not version.startswith("HTTP/1."):
            raise AssertionError(f"no HTTP: {line!r}")
        headers = http.client.parse_headers(self.file)
        if method == "HEAD" or status in ("204", "304"):
            body = b""
        elif headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b"".join(iter(self.chunk, b""))
        elif "Content-Length" in headers:
            body = self.file.read(int(headers["Content-Length"]))
        else:
            body = self.file.read()
        return Response(int(status), headers, body)

    def chunk(self):
        size = int(self.file.readline().split(b";")[0], 16)
        data = self.file.read(size)
        self.file.readline()
        return data

    def is_closed(self):
        """Reads until the end; returns False if the server still waits after a moment."""
        self.sock.settimeout(0.05)
        try:
            while self.sock.recv(1 << 16):
                pass
            return True
        except (TimeoutError, ssl.SSLWantReadError):
            return False
        except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
            return True
        finally:
            self.sock.settimeout(PATIENCE)

    def close(self):
        self.file.close()
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def message(target, *headers, method="GET", host="127.0.0.1", version="1.1", body=b""):
    """Returns the bytes of a request."""
    lines = [f"{method} {target} HTTP/{version}"] + ([f"Host: {host}"] if host is not None else []) + list(headers)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


class Server:
    """A running `gtop serve`; it listens on a free port of the loopback if the words name no place."""

    def __init__(self, case, *words, home=None, environment=None, program=None, context=None, client=None, waits=True, **options):
        self.case, self.context, self.home = case, context, home or rig.folder()
        self.socket_path = words[words.index("--socket") + 1] if "--socket" in words else None
        if "--listen" in words:
            host, self.port = words[words.index("--listen") + 1].rsplit(":", 1)
            self.port = int(self.port)
        else:
            host, self.port = "127.0.0.1", None if self.socket_path else free_port()
            words += () if self.socket_path else ("--listen", f"{host}:{self.port}")
        self.host = host
        wildcards = {"0.0.0.0": "127.0.0.1", "::": "::1"}
        self.address = client or wildcards.get(host.strip("[]"), host.strip("[]"))
        state = os.path.join(self.home, "state")
        self.environment = {**(environment or os.environ), "HOME": self.home, "XDG_STATE_HOME": state, "TZ": "UTC"}
        self.token_path = os.path.join(state, "gtop", "serve-token")
        self.lines = []
        self.process = subprocess.Popen([program or rig.GTOP, "serve", *words], env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **options)
        (case.addClassCleanup if isinstance(case, type) else case.addCleanup)(self.stop, signal.SIGKILL)
        self.reader = threading.Thread(target=self.listen, daemon=True)
        self.reader.start()
        if waits:
            self.wait()

    def listen(self):
        for line in self.process.stdout:
            self.lines.append(line.decode(errors="replace").rstrip("\n"))

    def wait(self):
        """Waits until it says where it listens."""
        places = ([f":{self.port}"] if self.port else []) + ([self.socket_path] if self.socket_path else [])

        def listens():
            said = "\n".join(self.lines)
            return all(place in said for place in places) or self.process.poll() is not None
        until("the address", listens)
        if self.process.poll() is not None:
            self.reader.join(PATIENCE)
            raise AssertionError(f"gtop serve ended with {self.process.returncode}: {self.lines}")
        return self

    def ended(self):
        """Waits for its end; returns the exit status and what it printed."""
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        return status, "\n".join(self.lines)

    def stop(self, number=signal.SIGTERM):
        """Sends a signal, and returns the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        return status

    @property
    def token(self):
        return read(self.token_path).split("\n")[0]

    def resident(self):
        """Returns its resident memory in bytes."""
        return int(re.search(r"VmRSS:\s+(\d+) kB", read(f"/proc/{self.process.pid}/status")).group(1)) << 10

    def connect(self, unix=False, context=None):
        if unix or not self.port:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(PATIENCE)
            sock.connect(self.socket_path)
        else:
            sock = socket.create_connection((self.address, self.port), timeout=PATIENCE)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            context = context or self.context
            if context:
                try:
                    sock = context.wrap_socket(sock, server_hostname="localhost")
                except BaseException:
                    sock.close()
                    raise
        return Connection(sock)

    def exchange(self, data, answers=1, method="GET", **place):
        """Sends bytes on a connection of their own; returns the answers up to the first one that does not come."""
        with self.connect(**place) as connection:
            connection.send(data)
            found = []
            while len(found) < answers:
                answer = connection.receive(method)
                if answer is None:
                    break
                found.append(answer)
            return found

    def get(self, path, *headers, token=None, method="GET", host="127.0.0.1", unix=False):
        headers += ("Connection: close",) + ((f"Authorization: Bearer {token}",) if token is not None else ())
        found = self.exchange(message(path, *headers, method=method, host=host), method=method, unix=unix)
        if not found:
            raise AssertionError(f"no answer to {method} {path}")
        return found[0]

    def metrics(self, token=None, **options):
        answer = self.get("/metrics", token=token, **options)
        if answer.status != 200:
            raise AssertionError(answer)
        return Exposition(answer.body)

    def snapshot(self, unix=False):
        answer = self.get("/api/v1/snapshot", token=None if unix or not self.port else self.token, unix=unix)
        if answer.status != 200:
            raise AssertionError(answer)
        return answer.json()

    def until_known(self, nodes, token=None):
        """Waits until /metrics has all nodes, each with its devices or the reason of its absence; returns that text."""
        def known():
            found = self.metrics(token)
            names = {labels["node"] for labels in found.of("gtop_node_up")}
            told_of = found.of("gtop_device_utilization_ratio") + found.of("gtop_node_fault_info")
            return found if len(names) == nodes and names == {labels["node"] for labels in told_of} else None
        return until(f"metrics of {nodes} nodes", known)


def in_session(session):
    """Returns the pids of the processes of a session that still run."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = read(path).rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(path.split("/")[2]))
    return found


# Test cases.

ENDED = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}


class Case(unittest.TestCase):
    maxDiff = None

    def refused(self, *words, status=1, says=(), **options):
        """gtop serve ends with this status, a message with these words, and without having served."""
        server = Server(self, *words, waits=False, **options)
        try:
            found, said = server.ended()
        except subprocess.TimeoutExpired:
            self.fail(f"gtop serve {words} goes on: {server.lines}")
        self.assertEqual(found, status, (words, said))
        for word in says:
            self.assertIn(word, said, words)
        self.assertNotIn("panicked", said)
        return said

    def socket_path(self, name="gtop.sock"):
        return os.path.join(rig.folder(), name)

    def assert_serves(self, server, **options):
        """The next good request is answered."""
        self.assertIsNone(server.process.poll(), server.lines)
        self.assertEqual(server.get("/healthz", **options).status, 200)
        self.assertTrue(server.metrics(**options).of("gtop_node_up"))


class Served(Case):
    """Tests of one server of the recording of the demo."""

    words = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server(cls, demo_recording(), *cls.words)
        cls.snapshot = cls.server.snapshot()
        cls.nodes = {node["name"]: node for node in cls.snapshot["nodes"]}


# What /metrics answers.

METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
KINDS = {False: {"gauge", "counter", "untyped"}, True: {"gauge", "counter", "info", "unknown"}}
BLANKS = 9223372036854775000            # DCGM's blanks: 0x7ffffffffffffff0 and up

Family = collections.namedtuple("Family", "name kind help samples")


class Exposition:
    """The text of /metrics, parsed strictly: raises ValueError for what a scraper could refuse or misread.

    `series` has a value by name and labels, the labels as sorted pairs.
    """

    def __init__(self, body, open_metrics=False):
        self.body, self.text, self.open_metrics = body, body.decode("utf-8", "strict"), open_metrics
        self.families, self.series = {}, {}
        lines = self.text.split("\n")
        if lines.pop() != "":
            raise ValueError("the last line does not end")
        if open_metrics and (not lines or lines.pop() != "# EOF"):
            raise ValueError("no # EOF at the end")
        self.help, self.kind, self.current = {}, {}, None
        for line in lines:
            if line.startswith("#"):
                self.take_comment(line)
            else:
                self.take_sample(line)
        self.close()
        empty = (set(self.help) | set(self.kind)) - set(self.families)
        if empty:
            raise ValueError(f"families without samples: {empty}")
        self.check_names()

    def take_comment(self, line):
        match = re.fullmatch(r"# (HELP|TYPE) (\S+) (.+)", line)
        if not match:
            raise ValueError(f"neither HELP nor TYPE: {line!r}")
        word, name, rest = match.groups()
        if not METRIC.fullmatch(name):
            raise ValueError(f"no name of a metric: {line!r}")
        store = self.help if word == "HELP" else self.kind
        if name in store or name in self.families:
            raise ValueError(f"twice, or after samples: {line!r}")
        if word == "TYPE" and rest not in KINDS[self.open_metrics]:
            raise ValueError(f"no type of this format: {line!r}")
        escapes = r'\\[^\\n"]|\\$' if self.open_metrics else r"\\[^\\n]|\\$"
        if word == "HELP" and re.search(escapes, rest.replace("\\\\", "")):
            raise ValueError(f"no escape: {line!r}")
        store[name] = rest
        if self.current and self.current.name != name:
            self.close()

    def take_sample(self, line):
        match = METRIC.match(line)
        if not match:
            raise ValueError(f"no sample: {line!r}")
        name, rest, labels = match.group(), line[match.end():], {}
        if rest.startswith("{"):
            at = 1
            while rest[at:at + 1] != "}":
                label = LABEL.match(rest, at)
                if not label or label.group(1) in labels or label.group(1).startswith("__"):
                    raise ValueError(f"no label, or twice: {line!r}")
                labels[label.group(1)] = unescape(label.group(2))
                at = label.end()
                if rest[at:at + 1] not in (",", "}") or rest[at:at + 2] == ",}":
                    raise ValueError(f"no end of labels: {line!r}")
                at += rest[at] == ","
            if at == 1:
                raise ValueError(f"no labels in braces: {line!r}")
            rest = rest[at + 1:]
        if not rest.startswith(" ") or not NUMBER.fullmatch(rest[1:]):
            raise ValueError(f"not a finite number: {line!r}")
        value = float(rest[1:])
        if not math.isfinite(value) or BLANKS <= value < 2 ** 63:
            raise ValueError(f"infinite, or a blank: {line!r}")
        family = self.family_of(name, line)
        kind = self.kind[family]
        if kind == "counter" and value < 0 or kind == "info" and value != 1:
            raise ValueError(f"not a value of a {kind}: {line!r}")
        key = (name, tuple(sorted(labels.items())))
        if key in self.series:
            raise ValueError(f"a series twice: {line!r}")
        self.series[key] = value
        self.current.samples.append((labels, value))

    def family_of(self, name, line):
        """Returns the name of the family of a sample, which is the current one or begins here."""
        family = name
        if self.open_metrics:
            for ending, kind in (("_total", "counter"), ("_info", "info")):
                if name.endswith(ending) and self.kind.get(name[:-len(ending)]) == kind:
                    family = name[:-len(ending)]
            if family == name and self.kind.get(name) in ("counter", "info"):
                raise ValueError(f"a sample without the ending of its type: {line!r}")
        if not self.current or self.current.name != family:
            self.close()
            if family in self.families or family not in self.help or family not in self.kind:
                raise ValueError(f"no HELP and TYPE before it, or a family in two places: {line!r}")
            self.current = Family(family, self.kind[family], self.help[family], [])
        return family

    def close(self):
        if self.current:
            self.families[self.current.name] = self.current
            self.current = None

    def check_names(self):
        """No family claims the name of another one's samples."""
        claimed = {}
        for family in self.families.values():
            names = {family.name}
            if self.open_metrics:
                endings = {"counter": ["_total", "_created"], "info": ["_info"]}.get(family.kind, [])
                names |= {family.name + ending for ending in endings}
            for name in names:
                if name in claimed:
                    raise ValueError(f"{name} is of {family.name} and of {claimed[name]}")
                claimed[name] = family.name

    def of(self, name, **labels):
        """Returns the labels of all series of a name that have these labels."""
        found = [dict(pairs) for found, pairs in self.series if found == name]
        return [one for one in found if labels.items() <= one.items()]

    def value(self, name, **labels):
        """Returns the value of the one series with these labels, or None."""
        found = [value for (one, pairs), value in self.series.items() if one == name and labels.items() <= dict(pairs).items()]
        if len(found) > 1:
            raise AssertionError(f"{len(found)} series {name} {labels}")
        return found[0] if found else None

    def names(self):
        return {name for name, _ in self.series}


def unescape(text):
    return re.sub(r"\\(.)", lambda match: {"n": "\n"}.get(match.group(1), match.group(1)), text)


def base_unit(key, value):
    """Returns the name and the value in base units of a key of a snapshot."""
    for ending, unit, factor in (("_percent", "_ratio", 0.01), ("_megahertz", "_hertz", 1e6)):
        if key.endswith(ending):
            return key[:-len(ending)] + unit, value * factor
    return key, float(value)


# Recordings.

def picture(path):
    """Returns the last picture of a recording, None if there is none yet."""
    done = subprocess.run([rig.GTOP, "replay", "--once", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          timeout=PATIENCE, check=False)
    return json.loads(done.stdout) if done.stdout else None


def source_of(node, name):
    return next((one for one in node["sources"] if one["id"] == name), None)


@functools.cache
def demo_recording():
    """Records the demo until a driver hangs: then nodes are up, down and stale, and a device is lost."""
    path = os.path.join(rig.folder(), "demo.gtop")
    process = subprocess.Popen([rig.GTOP, "record", "--demo=12", "-i", "1", "-w", path], stderr=subprocess.DEVNULL)

    def is_stuck():
        found = picture(path) if os.path.exists(path) else None
        states = [(source_of(node, "nvml") or {}, node["devices"]) for node in found["nodes"]] if found else []
        return any(state.get("fault") and devices and not devices[0]["fresh"] for state, devices in states)
    try:
        until("a stuck driver in the demo", is_stuck)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    return path


def secrets_of(snapshot):
    """Returns all names of users and jobs, command lines and folders in a snapshot."""
    found = set()
    for job in snapshot["jobs"]:
        found |= {job["user"], job["name"]}
    for node in snapshot["nodes"]:
        for one in node["devices"]:
            for process in one["processes"] or []:
                found |= {process["user"], process["command"], process["working_directory"]}
        if node["fault"]:
            found |= {node["fault"]["what"], node["fault"]["detail"]}
    return found - {None, ""}


def told(secrets, text):
    """Returns those that a text has as a word."""
    return {secret for secret in secrets if re.search(rf"(?<!\w){re.escape(secret)}(?!\w)", text)}


# Certificates.

def openssl(*words):
    subprocess.run(["openssl", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=PATIENCE, check=True)


class Authority:
    """A certificate authority and the certificates that it signs."""

    def __init__(self):
        needs("openssl")
        self.folder = rig.folder()
        self.certificate, self.key = self.path("ca.pem"), self.path("ca.key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
                "-subj", "/CN=gtop test authority", "-addext", "basicConstraints=critical,CA:TRUE", "-keyout", self.key,
                "-out", self.certificate)
        self.context = ssl.create_default_context(cafile=self.certificate)

    def path(self, name):
        return os.path.join(self.folder, name)

    def sign(self, name, first="-1", last="+30"):
        """Returns the files of a certificate and its key, valid from and to these days from now."""
        request, certificate, key = self.path(name + ".csr"), self.path(name + ".pem"), self.path(name + ".key")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=" + name,
                "-keyout", key, "-out", request)
        names = write(self.path("names.cnf"), "[v3]\nbasicConstraints=CA:FALSE\n"
                      f"subjectAltName=DNS:localhost,DNS:{socket.gethostname()},IP:127.0.0.1,IP:::1\n")
        days = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + 86400 * int(day))) for day in (first, last)]
        index, serial, config = self.path("index"), self.path("serial"), self.path("ca.cnf")
        write(index, "")
        if not os.path.exists(serial):
            write(serial, "1000\n")
        write(config, f"[ca]\ndefault_ca=one\n[one]\ndatabase={index}\nserial={serial}\nnew_certs_dir={self.folder}\n"
              "default_md=sha256\npolicy=any\nunique_subject=no\n[any]\ncommonName=supplied\n")
        openssl("ca", "-batch", "-config", config, "-cert", self.certificate, "-keyfile", self.key, "-in", request,
                "-out", certificate, "-startdate", days[0], "-enddate", days[1], "-extfile", names, "-extensions", "v3", "-notext")
        os.chmod(key, 0o600)
        return certificate, key


@functools.cache
def authority():
    return Authority()


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)
