"""The page of `gtop report` in a real Chromium: what it shows, how it reacts, and that it opens no connection.

    GTOP=path/to/gtop GTOP_SELENIUM=path/to/python python3 -m unittest -v test_report_page

GTOP_SELENIUM is an interpreter that has selenium, and the machine has chromium and chromium-driver; without them, the tests are
skipped with a message. Most reports are made here, so that they have all that a page can show, and `page_of` puts them into the
page; `Program` has pages of the program.
"""

import base64
import gzip
import hashlib
import html
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import rig
import test_report

if "GTOP_SELENIUM" in os.environ:
    asked = [os.environ["GTOP_SELENIUM"], "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    sys.path.append(subprocess.run(asked, stdout=subprocess.PIPE, universal_newlines=True, timeout=60, check=True).stdout.strip())
try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait
except ImportError:
    webdriver = None

PARTS = os.path.join(rig.ROOT, "page")
BEGIN = 1763990000.0
PATIENCE = float(os.environ.get("PATIENCE", "120"))      # seconds; for a stuck browser, not a demand on its speed
HOSTILE = ["</script><script>injected=1</script>", "<img src=x onerror=injected=1>", "\"'&<b>{{data}}{{script}}</b>",
           "🦀 emoji 👩‍🔬",
           "\u202eاسم عربي\u202e", "n" * 300, "a b/c#d?e%f", "line\u2028break\u2029\x07", "__proto__", "toString"]


def part(name):
    with open(os.path.join(PARTS, name), encoding="utf-8", newline="") as file:
        return file.read()


def page_of(report):
    """Puts the report into the page, as `gtop report` does, and returns the path of the file."""
    data = json.dumps(report, ensure_ascii=False, separators=(",", ":"))
    data_type = "application/gzip" if len(data) > 1 << 20 else "application/json"
    if data_type == "application/gzip":
        data = base64.b64encode(gzip.compress(data.encode(), 6)).decode()
    for char in "<>&\u2028\u2029":
        data = data.replace(char, f"\\u{ord(char):04x}")
    parts = {"chart_style": part("uplot.min.css"), "style": part("page.css"), "chart_script": part("uplot.min.js"),
             "chart_licence": part("uplot.LICENSE.txt"),
             "script": part("page.js"), "data_type": data_type, "data": data, "title": html.escape(report["title"])}

    def hashes(*names):
        return " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(parts[name].encode()).digest()).decode()}'" for name in names)

    parts["policy"] = (f"default-src 'none'; style-src {hashes('chart_style', 'style')}; "
                       f"script-src {hashes('chart_script', 'script')}; base-uri 'none'; form-action 'none'")
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], part("page.html"))
    handle, path = tempfile.mkstemp(".html", dir=rig.SCRATCH)
    with open(handle, "w", encoding="utf-8", newline="") as file:
        file.write(page)
    return path


# ---- reports ----

def usage(hours, mean, **states):
    """Numbers of one row: `states` are shares of its hours, the rest is active."""
    held = {"idle_held": 0.0, "free": 0.0, "faulty": 0.0, "unknown": 0.0, "not_seen": 0.0, **states}
    shares = {"active": 1 - sum(held.values()), **held}
    samples = round(hours * 3600 / 2)
    return {"watched_hours": hours, "device_hours": {state: hours * share for state, share in shares.items()},
            "utilization_percent": {"mean": mean, "p50": round(mean), "p95": min(100, round(mean * 1.3))},
            "memory_percent": {"mean": mean * 0.8, "max": min(100.0, mean * 1.2)}, "memory_used_bytes": mean * 0.8e-2 * (80 << 30),
            "power_watts": {"mean": 80 + mean * 5.5, "max": 700.0}, "energy_kwh": hours * (0.08 + mean * 0.0055),
            "temperature_celsius": {"max": 71.0}, "coverage_percent": 100 * (1 - held["not_seen"]),
            "samples_seen": round(samples * (1 - held["not_seen"])), "samples_expected": samples}


NO_USAGE = {"watched_hours": None, "device_hours": dict.fromkeys(["active", "idle_held", "free", "faulty", "unknown", "not_seen"]),
            "utilization_percent": {"mean": None, "p50": None, "p95": None}, "memory_percent": {"mean": None, "max": None},
            "memory_used_bytes": None, "power_watts": {"mean": None, "max": None}, "energy_kwh": None,
            "temperature_celsius": {"max": None}, "coverage_percent": None, "samples_seen": None, "samples_expected": None}


WORDS = ["not judged", "held back", "unused", "partly used", "low load", "fair", "good"]


def verdict(number, sentence):
    """Each word once, one after the other."""
    enough = {"devices": 4, "parts": 1, "certainty": "likely", "text": "likely 4 devices"}
    return {"word": WORDS[number % len(WORDS)], "sentence": sentence or "mean load 8.0 % on 8 devices",
            "efficiency_percent": None if number % len(WORDS) == 0 else 8.0, "enough": enough if number % 7 == 4 else None,
            "remedy": "ask for fewer devices", "certainty": "certain"}


def packed(values):
    return base64.b64encode(bytes(255 if value is None else value for value in values)).decode()


def ranges(rows):
    """Means over devices, and the lowest and highest mean within each step."""
    steps = [[value for value in step if value is not None] for step in zip(*rows)]
    means = [sum(step) / len(step) if step else None for step in steps]
    return {"mean": means, "min": [None if mean is None else max(0, mean - 3) for mean in means],
            "max": [None if mean is None else min(100, mean + 4) for mean in means]}


def watts(rows):
    """The sum of the power of devices."""
    steps = [[80 + value * 5.5 for value in step if value is not None] for step in zip(*rows)]
    return {"mean": [sum(step) if step else None for step in steps]}


def empty_report(**changed):
    nothing = {"mean": [], "min": [], "max": []}
    return {"schema": 1, "gtop": "0.1.0", "title": "nothing", "made_at": BEGIN, "from": BEGIN, "to": BEGIN, "spans": [],
            "source": {"kind": "recording", "files": ["a.gtop"], "notes": []},
            "totals": {**NO_USAGE, **dict.fromkeys(["nodes", "nodes_seen", "devices", "users", "jobs"], 0), "row_mean_percent": None},
            "headline": "Nothing is known: no device was seen.", "held": NO_USAGE, "unheld": NO_USAGE,
            "criteria": {"low_percent": 15.0, "prices": [], "text": "low load below 15 %",
                         "words": [{"word": word, "meaning": f"what {word} means"} for word in WORDS]},
            "nodes": [], "devices": [], "users": [], "jobs": [], "findings": [], "events": [], "events_left_out": 0,
            "commands": None,
            "series": {"from": BEGIN, "step": 1.0, "count": 0, "nodes": [], "devices": [],
                       "cluster": {"utilization_percent": nothing, "memory_percent": nothing, "power_watts": {"mean": []},
                                   "devices": {"active": [], "idle_held": [], "free": [], "seen": []}}}, **changed}


def device_values(nodes, per_node, steps):
    """Utilization and memory of each (node, device): waves, idle devices, idle hours, gaps, and a last node without values."""
    rng = random.Random(7)
    utilization, memory = {}, {}
    for n in range(nodes):
        for d in range(per_node):
            phase, fill = rng.random() * 6, rng.randint(20, 95)
            gap = range(steps // 3, steps // 3 + steps // 12) if n % 9 == 4 else range(0)
            late = steps // 2 if n == 3 else 0
            row = []
            for i in range(steps):
                value = base_load(n) + 18 * math.sin(i / 40 + phase) + rng.uniform(-8, 8)
                if n % 7 == 5 or d == 7 and n % 5 == 2:
                    value = rng.choice([0, 0, 0, 1])
                if (i // max(1, steps // 6)) % 6 == 4 and n % 3 == 0:
                    value = 0
                missing = i in gap or i < late or n == nodes - 1 > 0
                row.append(None if missing else max(0, min(100, round(value))))
            utilization[n, d] = row
            memory[n, d] = [None if value is None else fill for value in row]
    return utilization, memory


def base_load(n):
    return 20 + 7 * (n * 37 % 11)


def state_counts(rows):
    steps = [[value for value in step if value is not None] for step in zip(*rows)]
    seen = [len(step) for step in steps]
    active = [sum(value >= 5 for value in step) for step in steps]
    free = [round((all_of - busy) / 3) for all_of, busy in zip(seen, active)]
    return {"active": active, "idle_held": [a - b - c for a, b, c in zip(seen, active, free)], "free": free, "seen": seen}


def fleet_report(nodes=64, per_node=8, steps=720, jobs=200, step=20.0, label=lambda kind, number: None, **changed):
    """A fleet of which each kind of row has some. `label(kind, number)` may give other names."""
    utilization, memory = device_values(nodes, per_node, steps)
    hours, end = steps * step / 3600, BEGIN + steps * step
    users = min(8, jobs)

    def node(n):
        return label("node", n) or f"gpu{n + 1:02}"

    def user(n):
        return label("user", n) or ["ada", "grace", "edsger", "barbara", "unknown", "hidden", "ken", "radia"][n]

    def job(j):
        first = j * 13 % max(1, steps - steps // 4)
        last = min(steps, first + steps // 4 + j * 7 % max(1, steps // 3))
        own = [(j + k) % nodes for k in range(1 + j % 3 * (nodes > 3))]
        series = {"start": first, "utilization_percent": ranges([utilization[n, 0][first:last] for n in own])["mean"],
                  "memory_percent": ranges([memory[n, 0][first:last] for n in own])["mean"]}
        return {**usage((last - first) * step / 3600 * per_node * len(own), 10 + j * 31 % 85, idle_held=j % 5 / 10),
                "job": label("job", j) or str(8421 + j),
                "name": label("name", j) or ["gpt-20b", "mixtral-ft", "relax", "serve-mistral", "vit-sweep"][j % 5],
                "user": user(j % users), "partition": "gpu" if j % 4 else None, "nodes": [node(n) for n in own],
                "devices": per_node * len(own), "from": BEGIN + first * step, "to": BEGIN + last * step,
                "each_device": None if j % 10 == 9 else [
                    {"node": node(n), "index": d, "utilization_percent": 8.0 if d else None, "active_hours": 0.5, "known_hours": 1.0}
                    for n in own for d in range(per_node)],
                "verdict": verdict(j, label("sentence", j)), "cost": 12.5 * j, "series": None if j % 10 == 9 else series,
                "host": {"text": "1.0 of 8 CPUs (12 %)" if j % 2 == 0 else None, "cpu_percent": 12.5 if j % 2 == 0 else None}}

    def node_row(n):
        numbers = usage(hours * per_node, base_load(n), idle_held=0.1, free=0.05, not_seen=1 / 12 if n % 9 == 4 else 0)
        silent = n == nodes - 1 > 0
        return {**(NO_USAGE if silent else numbers), "node": node(n), "devices": per_node, "down_hours": hours * silent}

    def device_row(n, d):
        return {**usage(hours, max(1, base_load(n) - d), idle_held=0.1 * (d == 7)), "node": node(n), "index": d,
                "uuid": f"GPU-{n:08x}-{d:04x}", "model": label("model", n) or "H100 80GB HBM3"}

    def event(i):
        kind, text = [("down", "connection refused"), ("back", "answers again"), ("faulty", "#4 XID 79")][i % 3]
        return {"at": BEGIN + i * (end - BEGIN) / 60, "kind": kind, "text": label("event", i) or f"{node(i % nodes)}: {text}"}

    def node_series(n):
        own = [utilization[n, d] for d in range(per_node)]
        return {"node": node(n), "utilization_percent": ranges(own), "power_watts": watts(own),
                "memory_percent": ranges([memory[n, d] for d in range(per_node)])}

    job_rows = [job(j) for j in range(jobs)]
    totals = usage(hours * per_node * nodes, 63.4, idle_held=0.12, free=0.1, faulty=0.02, unknown=0.01, not_seen=0.03)
    return {**empty_report(), "title": label("title", 0) or f"demo, {nodes} simulated nodes", "made_at": end + 60,
            "source": {"kind": "recording", "files": [label("file", 0) or "night.gtop", "day.gtop"],
                       "notes": [label("note", 0) or "night.gtop: the last 17 bytes are incomplete: up to 2 s are missing"]},
            "from": BEGIN, "to": end, "spans": [[BEGIN, end]],
            "totals": {**totals, "nodes": nodes, "nodes_seen": max(1, nodes - 1), "devices": nodes * per_node, "users": users,
                       "jobs": jobs, "row_mean_percent": None},
            "nodes": [node_row(n) for n in range(nodes)],
            "devices": [device_row(n, d) for n, d in utilization],
            "users": [{**usage(hours * per_node * (users - u), 85 - u * 9, idle_held=0.08 * u), "user": user(u),
                       "jobs": (jobs + users - 1 - u) // users, "cost": 100.0 * u} for u in range(users)],
            "headline": label("headline", 0) or "Broken: gpu04 #7 was lost.",
            "held": usage(hours * per_node * nodes * 0.9, 70.0, idle_held=0.12), "unheld": usage(hours * per_node * nodes * 0.1, 0.0, free=1.0),
            "jobs": job_rows,
            "findings": [{"kind": kind, "severity": severity, "text": label("text", i) or text, "node": None, "device": None,
                          "job": job_rows[i % jobs]["job"] if i % 2 == 0 else None, "user": None, "hours": span,
                          "remedy": label("remedy", i) or remedy} for i, (kind, severity, text, span, remedy) in enumerate(FINDINGS)],
            "events": [event(i) for i in range(60)], "events_left_out": 12,
            "series": {"from": BEGIN, "step": step, "count": steps,
                       "cluster": {"utilization_percent": ranges(utilization.values()), "memory_percent": ranges(memory.values()),
                                   "power_watts": watts(utilization.values()),
                                   "devices": state_counts(utilization.values())},
                       "nodes": [node_series(n) for n in range(nodes)],
                       "devices": [{"node": node(n), "index": d, "utilization_percent": packed(utilization[n, d]),
                                    "memory_percent": packed(memory[n, d])} for n, d in utilization]},
            **changed}


FINDINGS = [
    ("idle-held", "high", "job 8421 held 8 devices below 5 % for 3.2 h", 25.6, "ask ada whether the job still runs; scancel 8421 frees the devices"),
    ("down", "high", "gpu05, gpu14, gpu23 were not reachable: connection refused", 2.4, "check that sshd runs there and that the port is right"),
    ("faulty", "high", "gpu04 #7 fell off the bus", 4.0, "drain the node and reset the device"),
    ("throttled", "medium", "gpu02 #4 was slowed down by heat for 38 % of its active time", 1.5, "check fans and airflow of the rack"),
    ("uneven", "medium", "job 8423: gpu03 #2 works 31 points less than the other 15 devices", 4.0, "look for a slow device or an uneven split of the data"),
    ("errors", "medium", "gpu04 #2: 14 uncorrectable ECC errors", None, "drain the node and reset the device"),
    ("not-seen", "low", "gpu64 never answered", 4.0, "remove it from the list, or repair its login"),
    ("idle-held", "low", "job 8430 held 2 devices below 5 % for 20 min", 0.7, "use gtop pick to take fewer devices"),
    ("idle-held", "low", "job 8431 held 1 device below 5 % for 12 min", 0.2, "use gtop pick to take fewer devices"),
    ("uneven", "low", "job 8440: memory differs by 22 points between its devices", 0.2, "look for an uneven split of the data"),
]


# ---- the browser ----

LISTENER = """
window.violations = [];
addEventListener('securitypolicyviolation', event => violations.push(event.violatedDirective + ' ' + event.blockedURI));
"""
FLAGS = ["headless=new", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
         "disable-component-update", "disable-sync", "disable-dev-shm-usage", "hide-scrollbars", "window-size=1400,1000"]


def open_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    for flag in [*FLAGS, "user-data-dir=" + tempfile.mkdtemp(dir=rig.SCRATCH)]:
        options.add_argument("--" + flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"), env={**os.environ, "TZ": "Europe/Berlin"})
    browser = webdriver.Chrome(options=options, service=service)
    browser.set_page_load_timeout(PATIENCE)
    browser.set_script_timeout(PATIENCE)
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.emulateNetworkConditions",
                            {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1})
    browser.execute_cdp_cmd("Page.enable", {})
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LISTENER})
    return browser


class InBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if webdriver is None:
            raise unittest.SkipTest("selenium is not installed: GTOP_SELENIUM")
        if not shutil.which("chromedriver"):
            raise unittest.SkipTest("chromium-driver is not installed")
        cls.browser = open_browser()
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        self.media()
        self.size(1400, 1000)
        self.browser.get("about:blank")
        for log in ("browser", "performance"):
            self.browser.get_log(log)
        self.opened = {"about:blank"}

    def tearDown(self):
        """No page reports an error, breaks the policy, or asks for anything but itself."""
        self.assertEqual([entry for entry in self.browser.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")], [])
        self.assertEqual(self.js("return violations"), [])
        messages = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        requests = {message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"}
        self.assertLessEqual({url.split("#")[0] for url in requests}, self.opened)
        self.assertIsNone(self.js("return window.injected ?? null"))

    def size(self, width, height):
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def media(self, *features):
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                     {"media": "", "features": [{"name": name, "value": value} for name, value in features]})

    def open(self, path, fragment=""):
        self.browser.get("about:blank")
        self.opened.add("file://" + path)
        started = time.monotonic()
        self.browser.get("file://" + path + fragment)
        # What is compressed is drawn after the browser calls the page loaded.
        self.wait("return document.querySelector('#overview > :is(header, .nothing)') !== null")
        return time.monotonic() - started

    def js(self, script, *values):
        return self.browser.execute_script(script, *values)

    def wait(self, script, *values):
        """Waits until the script returns something true, and returns it."""
        return WebDriverWait(self.browser, PATIENCE, 0.05).until(lambda _: self.js(script, *values), script)

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def see(self, selector):
        """Scrolls to the element and waits until its canvas is drawn."""
        for _ in range(2):
            self.js("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
            self.wait(PAINTED, selector)
        return self.find(selector)

    def point(self, target, x, y):
        """Moves to a place of the element, given as shares of its size from its middle."""
        offset = round(target.rect["width"] * x), round(target.rect["height"] * y)
        ActionChains(self.browser, duration=20).move_to_element_with_offset(target, *offset).perform()

    def drag(self, target, x_from, x_to):
        width = target.rect["width"]
        half = round(width * (x_to - x_from) / 2)
        moves = ActionChains(self.browser, duration=20).move_to_element_with_offset(target, round(width * x_from), 0)
        moves.click_and_hold().move_by_offset(half, 0).move_by_offset(half, 0).release().perform()

    def ranges(self):
        return self.js("return [...document.querySelectorAll('[data-from]')].map(box => [+box.dataset.from, +box.dataset.to])")

    def rows(self, section, cell=0):
        return self.js("return [...document.querySelectorAll(arguments[0] + ' tbody tr')]"
                       ".map(row => row.cells[arguments[1]].textContent)", section, cell)

    def wait_for_span(self, condition):
        """Waits until the time that each drawing shows, in seconds, meets the condition."""
        self.wait("return [...document.querySelectorAll('[data-from]')]"
                  f".every(box => box.dataset.to - box.dataset.from {condition})")


class Program(InBrowser):
    """Pages that the program writes."""

    def page(self, *words):
        path = os.path.join(rig.folder(), "report.html")
        code, _, err = test_report.run(*words, "-w", path)
        self.assertEqual(code, 0, err)
        return path

    def test_the_demo(self):
        path = self.page("--demo=6", "--for", "8s")
        with open(path, encoding="utf-8") as file:
            self.assertIn('<meta name="generator" content="gtop report">', file.read(200))
        self.open(path)
        for target in ["#charts .charts:nth-of-type(1) .card:nth-child(1) .chart", NODES, "#heat .heat"]:
            self.see(target)
        self.assertEqual(len(self.rows("#nodes")), 6)
        # An error has no duration, which is not a duration of 0.
        self.assertNotIn("0 h", self.js("return [...document.querySelectorAll('.hours')].map(hours => hours.textContent)"))
        self.point(self.see("#charts .chart .u-over"), 0.1, 0)
        self.wait("return /\\d/.test(document.querySelector('#charts .legend b').textContent)")
        self.assertNotRegex(self.find("#overview").text, r"NaN|undefined|null|Infinity|Invalid")

    def test_all_columns_fit_on_a_small_laptop(self):
        self.size(1280, 800)
        self.open(self.page("--demo=6", "--for", "8s", "--price", "2.50"))
        widths = "const area = document.querySelector(arguments[0] + ' .scroll'); return [area.scrollWidth, area.clientWidth]"
        for table in ["#jobs", "#users", "#nodes", "#devices"]:
            needed, there = self.js(widths, table)
            self.assertLessEqual(needed, there, table)

    def test_names_of_others_stay_text(self):
        self.open(self.page(test_report.hours_long(), "--commands"))
        self.see("#heat .heat")
        hostile = test_report.HOSTILE
        self.assertIn(hostile["user"], self.rows("#users"))
        self.assertIn(hostile["job"], self.rows("#jobs", 2))
        self.assertEqual(self.js("return [document.querySelectorAll('img, b b').length, document.scripts.length]"), [0, 3])
        # The page of the job has charts, too.
        self.js("location.hash = document.querySelector('#jobs tbody td:nth-child(2) a').hash")
        self.see("#job .chart")


class ReportPage(InBrowser):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.fleet = page_of(fleet_report(nodes=12, steps=240, jobs=60, commands=[
            {"job": "8421", "user": "ada", "node": "gpu01", "command": "python train.py --lr 3e-4", "device_hours": 1.2},
            {"job": None, "user": "ken", "node": "gpu02", "command": "python -m http.server", "device_hours": 0.1}]))

    def test_a_big_fleet_opens_and_everything_is_drawn(self):
        path = page_of(fleet_report())
        took = self.open(path)
        paint = self.js("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null")
        print(f"\n64 nodes x 8 devices x 720 steps, 200 jobs: {os.path.getsize(path) >> 10} KiB, loaded in {took:.2f} s, "
              f"first paint after {paint} ms")
        for chart in range(1, 5):
            self.see(f"#charts .charts:nth-of-type(1) .card:nth-child({chart}) .chart")
        self.see("#heat .heat")
        self.assertEqual(len(self.rows("#jobs")), 20)
        self.find("#jobs .more").click()
        self.assertEqual(len(self.rows("#jobs")), 200)
        self.assertFalse(self.find("#jobs .more").is_displayed())
        self.assertEqual(self.js("return document.documentElement.scrollWidth"), 1400)

    def test_the_page_of_a_thousand_nodes_is_small_and_opens(self):
        path = page_of(fleet_report(nodes=1000, steps=145, step=600.0, jobs=2000))
        self.assertLess(os.path.getsize(path), 5_000_000)
        took = self.open(path)
        print(f"\n1,000 nodes x 8 devices x 145 steps, 2,000 jobs: {os.path.getsize(path) >> 10} KiB, loaded in {took:.2f} s")
        self.assertIn("8,000", self.find(".tiles").text)
        self.see("#heat .heat")
        self.assertIn("2,048 of 8,000 devices", self.find("#heat").text)

    def test_the_head_names_span_zone_files_and_notes(self):
        self.open(self.fleet)
        head = self.find("header").text
        for words in ["demo, 12 simulated nodes", "24 Nov 2025, 14:13:20 – 15:33:20", "Europe/Berlin, GMT+1", "1 h 20 min",
                      "night.gtop, day.gtop", "17 bytes"]:
            self.assertIn(words, head)
        self.assertIn("63.4 %", self.find(".tiles").text)
        self.assertIn("→ ask ada", self.find("#findings").text)
        self.assertEqual(self.find(".headline").text, "Broken: gpu04 #7 was lost.")

    def test_the_first_screen_has_the_verdicts_and_each_word_is_a_click_away(self):
        self.open(self.fleet)
        order = self.js("return [...document.querySelectorAll('#overview > section')].map(section => section.id)")
        self.assertEqual(order[:4], ["jobs", "users", "findings", "numbers"])
        badges = self.js("return [...document.querySelectorAll('#jobs .badge')].map(one => [one.textContent, getComputedStyle(one).borderColor])")
        self.assertEqual({word for word, _ in badges}, set(WORDS))
        self.assertEqual(len({colour for _, colour in badges}), 5)
        self.assertEqual(self.js("return document.querySelector('#words').open"), False)
        self.js("[...document.querySelectorAll('#jobs .badge')].find(one => one.textContent === 'low load').click()")
        self.wait("return document.querySelector('#words').open")
        definition = self.find("#word-low-load")
        self.assertTrue(definition.is_displayed())
        self.assertIn("what low load means", definition.text)
        self.assertIn("low load below 15 %", self.find("#words").text)
        # From the page of a job, too.
        self.open(self.fleet, "#job/8425")
        self.assertIn("likely 4 devices", self.find("#job").text)
        self.assertIn("1.0 of 8 CPUs", self.find("#job").text)
        self.assertEqual(self.rows("#job-devices", 1)[:2], ["–", "8"])
        self.js("document.querySelector('#job .badge').click()")
        self.wait("return document.querySelector('#job').hidden && document.querySelector('#words').open")

    def test_the_rows_that_sum_up_stay_at_the_end(self):
        self.open(self.fleet)
        for _ in range(2):
            sums = self.js("return [...document.querySelectorAll('#users tfoot tr')].map(row => row.cells[0].textContent)")
            self.assertEqual(sums, ["all users", "nobody", "all devices"])
            self.find("#users th button").click()
        costs = self.js("return [...document.querySelectorAll('#users tr')].map(row => row.cells[row.cells.length - 1].textContent)")
        self.assertEqual(costs[-3:], ["2,800.00", "–", "–"])

    def test_no_column_is_out_of_reach(self):
        for width in [390, 1200]:
            self.size(width, 1000)
            self.open(self.fleet)
            for table in ["jobs", "users", "nodes", "devices"]:
                reached = self.js("""
                    const box = document.querySelector(arguments[0] + ' .scroll');
                    box.scrollLeft = box.scrollWidth;
                    const last = [...box.querySelectorAll('tbody tr:first-child td')].at(-1).getBoundingClientRect();
                    return [last.right <= box.getBoundingClientRect().right + 1, document.documentElement.scrollWidth];
                """, "#" + table)
                self.assertEqual(reached, [True, width], table)
        # Paper does not scroll.
        self.size(703, 1000)
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        self.open(self.fleet)
        self.js("dispatchEvent(new Event('beforeprint'))")
        wide = self.js("return ['jobs', 'users', 'nodes', 'devices'].filter(id => { const box = document.querySelector(`#${id} .scroll`);"
                       " return box.firstChild.scrollWidth > box.clientWidth })")
        self.js("dispatchEvent(new Event('afterprint'))")
        self.assertEqual(wide, [])

    def test_pointing_at_a_chart_shows_values_in_all_charts(self):
        self.open(self.fleet)
        self.see("#charts .card:nth-child(2) .chart")
        self.point(self.see("#charts .chart .u-over"), 0.1, 0)
        self.wait("return [...document.querySelectorAll('#charts .legend b')].slice(0, 3)"
                  ".every(value => /\\d/.test(value.textContent))")
        self.assertRegex(self.find("#charts .at").text, r"24 Nov 2025, \d\d:\d\d")

    def test_pointing_at_a_line_names_its_node_in_all_charts_of_nodes(self):
        self.open(self.fleet)
        for card in range(1, 4):
            self.see(f"#charts .charts:nth-of-type(2) .card:nth-child({card}) .chart")
        self.point(self.see(NODES + " .u-over"), 0.1, -0.1)
        names = self.wait("const found = [...document.querySelectorAll('#charts .charts:nth-of-type(2) .near-line')]"
                          ".map(line => line.textContent); return found.every(text => text) && found")
        self.assertEqual(len({name.split()[0] for name in names}), 1, names)
        self.assertRegex(" ".join(names), r"gpu\d\d\S* .*\s% \(\d+ – \d+\) .*\s% .*\sW$")

    def test_dragging_zooms_all_drawings_and_a_double_click_shows_the_whole_time(self):
        self.open(self.fleet)
        self.see("#heat .heat")
        whole = self.ranges()
        for target in ["#charts .chart .u-over", "#heat .u-over"]:
            self.drag(self.see(target), -0.1, 0.2)
            self.wait_for_span("< 3000")
            zoomed = self.ranges()
            self.assertEqual(len({(round(a), round(b)) for a, b in zoomed}), 1, zoomed)
            self.assertGreater(zoomed[0][0], whole[0][0])
            self.see(target)
            ActionChains(self.browser).double_click(self.find(target)).perform()
            self.wait_for_span("> 4700")
        self.drag(self.see("#charts .chart .u-over"), -0.1, 0.2)
        self.wait("return !document.querySelector('.reset').hidden")
        self.find(".reset").click()
        self.wait_for_span("> 4700")

    def test_a_node_can_be_hidden(self):
        self.open(self.fleet)
        self.see(NODES)
        every = self.js(INK + "return count", NODES)
        self.find(".picker label").click()
        self.wait(INK + "return count < arguments[1]", NODES, every)
        self.js("[...document.querySelectorAll('.picker button')].at(-1).click()")
        self.wait("return !document.querySelector('.picker input:checked')")
        self.wait(INK + "return count === 0", NODES)
        self.find(".picker input[type=search]").send_keys("gpu03")
        self.js("document.querySelector('.picker button').click()")
        self.assertEqual(self.js("return document.querySelectorAll('.picker input:checked').length"), 1)
        self.wait(INK + "return count > 0", NODES)

    def test_the_heat_map_names_device_time_and_value(self):
        self.open(self.fleet)
        heat = self.see("#heat .heat")
        self.point(heat, 0.05, -0.45)
        self.wait("return !document.querySelector('.tip').hidden")
        self.assertRegex(self.find(".tip").text, r"gpu01 #\d +\d+ %\n24 Nov 2025, \d\d:\d\d:\d\d\nH100 80GB HBM3")
        self.point(heat, 0.05, 0.42)       # the last node has no value
        self.wait("return /gpu12 #\\d +no sample/.test(document.querySelector('.tip').textContent)")
        before = self.js(CANVAS + "return drawn", "#heat")
        self.js("document.querySelectorAll('#heat input[type=radio]')[1].click()")
        self.wait(CANVAS + "return drawn !== arguments[1]", "#heat", before)
        self.find("#heat input[type=search]").send_keys("gpu02")
        self.wait("return document.querySelector('#heat canvas').clientHeight < 200")

    def test_tables_sort_and_filter_with_the_keyboard(self):
        self.open(self.fleet)
        self.assertEqual(self.find("#nodes [aria-sort]").text, "Node")
        heading = self.find("#nodes th:nth-child(11) button")
        heading.send_keys(Keys.ENTER)
        self.assertEqual(self.find("#nodes th:nth-child(11)").get_attribute("aria-sort"), "descending")
        values = self.rows("#nodes", 10)
        self.assertEqual(values[-1], "–")
        self.assertEqual(values[:-1], sorted(values[:-1], key=float, reverse=True))
        self.find("#nodes th:nth-child(11) button").send_keys(Keys.SPACE)
        values = self.rows("#nodes", 10)
        self.assertEqual(values[-1], "–")
        self.assertEqual(values[:-1], sorted(values[:-1], key=float))
        self.find("#jobs input").send_keys("MIXTRAL")
        self.assertEqual(set(self.rows("#jobs", 2)), {"mixtral-ft"})
        self.assertIn("python train.py --lr 3e-4", self.rows("#commands", 4))

    def test_a_job_has_a_page_and_back_returns_to_the_same_place(self):
        self.open(self.fleet)
        self.js("document.querySelector('#jobs').scrollIntoView()")
        self.wait("return scrollY > 0")
        place = self.wait("return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(scrollY))))")
        link = self.find("#jobs tbody td:nth-child(2) a")
        job = link.text
        self.js("arguments[0].click()", link)
        self.wait("return document.querySelector('#job h1')?.textContent.includes(arguments[0])", job)
        self.assertFalse(self.find("#overview").is_displayed())
        self.see("#job .chart")
        self.see("#job .heat")
        self.assertIn(job, self.browser.title)
        self.browser.back()
        self.wait("return document.querySelector('#job').hidden && scrollY === arguments[0]", place)
        self.open(self.fleet, "#job/8430")      # without a series
        self.wait("return document.querySelector('#job').textContent.includes('No series')")
        self.find("#job .back a").click()
        self.wait("return !document.querySelector('#overview').hidden")
        self.see("#charts .chart")
        self.open(self.fleet, "#job/%E0%A4%A")
        self.assertTrue(self.find("#overview").is_displayed())

    def test_names_stay_text(self):
        def label(kind, number):
            return HOSTILE[number % len(HOSTILE)] + (f" {number}" if number >= len(HOSTILE) else "")
        self.open(page_of(fleet_report(nodes=11, steps=40, jobs=10, label=label, commands=[
            {"job": name, "user": name, "node": name, "command": name, "device_hours": None} for name in HOSTILE])))
        self.see("#heat .heat")
        self.point(self.find("#heat .heat"), 0, -0.4)
        self.point(self.see(NODES + " .u-over"), 0, 0)
        for hostile in HOSTILE:
            self.assertIn(hostile, self.rows("#jobs", 1))
            self.js("location.hash = [...document.querySelectorAll('#jobs tbody td:nth-child(2) a')]"
                    ".find(link => link.textContent === arguments[0]).hash", hostile)
            self.wait("return document.querySelector('#job h1')?.textContent.includes(arguments[0])", hostile)
            self.see("#job .heat")
        self.assertEqual(self.js("return [document.querySelectorAll('img, b b').length, document.scripts.length,"
                                 " document.styleSheets.length]"), [0, 3, 2])
        self.assertEqual(self.js("return document.documentElement.scrollWidth"), 1400)

    def test_little_or_nothing_is_shown_as_such(self):
        nothing = fleet_report(nodes=2, steps=10, jobs=2)
        for key in ["nodes", "devices", "users", "jobs"]:
            nothing[key] = [{**row, **NO_USAGE} for row in nothing[key]]
        nothing["totals"].update(NO_USAGE)
        gaps = {"mean": [None] * 10, "min": [None] * 10, "max": [None] * 10}
        nothing["series"].update(
            cluster={"utilization_percent": gaps, "memory_percent": None, "power_watts": {"mean": None},
                     "devices": {"active": None, "idle_held": None, "free": None, "seen": None}},
            devices=[{"node": "gpu01", "index": 0, "utilization_percent": None, "memory_percent": packed([None] * 10)}])
        cases = {"empty": empty_report(), "one sample": fleet_report(nodes=1, per_node=1, steps=1, jobs=1),
                 "one node": fleet_report(nodes=1, steps=30, jobs=1),
                 "no value": nothing, "no time": fleet_report(nodes=2, steps=1, jobs=1, step=0.0)}
        for case, report in cases.items():
            with self.subTest(case):
                self.open(page_of(report))
                text = self.find("#overview").text
                self.assertNotRegex(text, r"NaN|undefined|null|Infinity|Invalid")
                if report["series"]["count"] and case != "no value":
                    self.see("#charts .chart")
                    self.see("#heat .heat")
                else:
                    self.assertIn("No value in this time.", text)
                if report["jobs"]:
                    self.js("location.hash = '#job/8421'")
                    self.wait("return !document.querySelector('#job').hidden")
                    self.assertNotRegex(self.find("#job").text, r"NaN|undefined|null|Infinity|Invalid")
                self.assertEqual(self.js("return violations"), [])

    def test_a_damaged_page_says_so(self):
        large = fleet_report(nodes=1, steps=8, jobs=1, headline="x" * (1 << 20))
        for report, found, changed in [(empty_report(), '"schema":1', '"schema":'), (large, 'id="report">H4sI', 'id="report">AAAA')]:
            path = page_of(report)
            with open(path, encoding="utf-8") as file:
                page = file.read()
            self.assertIn(found, page)
            with open(path, "w", encoding="utf-8") as file:
                file.write(page.replace(found, changed))
            self.open(path)
            self.assertIn("damaged", self.find("#overview").text)

    def test_it_is_dark_where_the_browser_wants_it_and_narrow_where_it_must_be(self):
        self.open(self.fleet)
        self.see("#charts .chart")
        light = self.js(CANVAS + "return drawn", "#charts")
        self.media(("prefers-color-scheme", "dark"))
        self.wait(CANVAS + "return drawn !== arguments[1]", "#charts", light)
        self.assertEqual(self.js("return getComputedStyle(document.body).backgroundColor"), "rgb(17, 19, 22)")
        for width in [400, 800, 1600]:
            self.size(width, 1000)
            self.wait("return document.querySelector('#charts canvas').clientWidth <= arguments[0]", width)
            self.assertEqual(self.js("return document.documentElement.scrollWidth"), width)

    def test_it_prints_all_rows_in_light_colours(self):
        self.media(("prefers-color-scheme", "dark"))
        self.open(self.fleet)
        self.js("addEventListener('beforeprint', () => { window.printed = [document.querySelectorAll('#jobs tbody tr').length,"
                " getComputedStyle(document.body).color, document.querySelectorAll('.chart canvas').length] })")
        printed = self.browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
        self.assertTrue(base64.b64decode(printed["data"]).startswith(b"%PDF"))
        self.assertEqual(self.js("return printed"), [60, "rgb(27, 31, 36)", 7])
        self.wait("return document.querySelectorAll('#jobs tbody tr').length === 20")


NODES = "#charts .charts:nth-of-type(2) .card:nth-child(1)"
# A copy is read, because Chromium warns of reading from a canvas of a page more than once.
PIXELS = """
const place = document.querySelector(arguments[0]);
const canvas = place?.querySelector('canvas') ?? place?.closest('.uplot')?.querySelector('canvas');
if (!canvas?.width || !canvas.height) return null;
const { width, height } = canvas;
const copy = Object.assign(document.createElement('canvas'), { width, height }).getContext('2d', { willReadFrequently: true });
copy.drawImage(canvas, 0, 0);
const pixels = copy.getImageData(0, 0, width, height).data;
"""
PAINTED = PIXELS + "return new Uint32Array(pixels.buffer).some((pixel, i, all) => pixel !== all[0]);"
# The number of pixels with colour: of lines, not of the grid or the axes.
INK = PIXELS + """
let count = 0;
for (let i = 0; i < pixels.length; i += 4) {
  const rgb = pixels.slice(i, i + 3);
  if (pixels[i + 3] > 99 && Math.max(...rgb) - Math.min(...rgb) > 50) count++;
}
"""
CANVAS = "const drawn = document.querySelector(arguments[0] + ' canvas').toDataURL(); "


if __name__ == "__main__":
    unittest.main()
