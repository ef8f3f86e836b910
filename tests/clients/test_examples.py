"""The examples for Prometheus and Grafana: what promtool says, and which metrics they name.

    python3 -m unittest -v test_examples

promtool is in Debian's package prometheus. Without it, the tests that need it are skipped, and fail if GTOP_CI=1.
"""

import json
import os
import re
import shutil
import subprocess
import unittest

import rig

PROMETHEUS = os.path.join(rig.ROOT, "examples", "prometheus")
DASHBOARD = os.path.join(rig.ROOT, "examples", "grafana", "gtop.json")
KEYWORDS = {"and", "or", "unless", "bool", "offset"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def expressions(rules):
    """Returns the expressions of a file of rules; those of several lines are indented deeper than their key."""
    return [found[1] for found in re.findall(r"^( +)expr: (?:\|\n)?(.*(?:\n\1 .*)*)", rules, re.M)]


def metrics(expression):
    """Returns the names of metrics in an expression: what is no text, label, range, function or keyword."""
    for pattern in (r'"[^"]*"', r"\{[^}]*\}", r"\[[^\]]*\]", r"\b(by|on|without|ignoring|group_\w+) *\([^)]*\)"):
        expression = re.sub(pattern, "", expression)
    return set(re.findall(r"\b[a-zA-Z_:][\w:]*\b(?! *\()", expression)) - KEYWORDS


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rules = read(os.path.join(PROMETHEUS, "gtop-alerts.yml"))
        cls.alerts = set(re.findall(r"^ +- alert: (\w+)$", cls.rules, re.M))

    def promtool(self, *words, folder=PROMETHEUS):
        if not shutil.which("promtool"):
            self.assertNotEqual(os.environ.get("GTOP_CI"), "1", "promtool is not installed")
            self.skipTest("promtool is not installed")
        done = subprocess.run(["promtool", *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout.decode())

    def test_promtool_accepts_the_configuration(self):
        """As it is, and with TLS; promtool wants the files that it names."""
        folder = rig.folder()
        shutil.copy(os.path.join(PROMETHEUS, "gtop-alerts.yml"), folder)
        secret = os.path.join(folder, "secret")
        with open(secret, "w") as file:
            file.write("secret\n")
        text = read(os.path.join(PROMETHEUS, "prometheus.yml"))
        text = re.sub(r"(_file: )\S+", lambda found: found[1] + secret, text)
        plain, tls = text.split("  # - job_name:")
        for name, config in [("plain", text), ("tls", plain + "  - job_name:" + tls.replace("\n  # ", "\n  "))]:
            with self.subTest(name):
                with open(os.path.join(folder, name + ".yml"), "w") as file:
                    file.write(config)
                self.assertEqual(config.count("\n  - job_name:"), 1 + (name == "tls"))
                self.promtool("check", "config", name + ".yml", folder=folder)

    def test_promtool_accepts_the_rules(self):
        self.promtool("check", "rules", "gtop-alerts.yml")

    def test_promtool_runs_the_tests_of_the_rules(self):
        self.promtool("test", "rules", "gtop-alerts-test.yml")

    def test_each_alert_is_tested_firing_and_not(self):
        text = read(os.path.join(PROMETHEUS, "gtop-alerts-test.yml"))
        quiet = re.findall(r"\{alertname: (\w+), eval_time: \w+\}", text)
        firing = re.findall(r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:", text)
        self.assertTrue(self.alerts)
        self.assertEqual(set(quiet), self.alerts)
        self.assertEqual(set(firing), self.alerts)

    def test_rules_name_metrics_of_gtop(self):
        records = set(re.findall(r"^ +- record: (\S+)$", self.rules, re.M))
        found = expressions(self.rules)
        self.assertEqual(len(found), len(self.alerts) + len(records))
        for expression in found:
            with self.subTest(expression):
                self.assertTrue(metrics(expression))
                self.assertEqual([name for name in metrics(expression) - records if not name.startswith("gtop_")], [])


class Dashboard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = read(DASHBOARD)
        cls.dashboard = json.loads(cls.text)
        cls.panels = cls.dashboard["panels"]

    def test_it_is_written_so_that_changes_can_be_read(self):
        self.assertEqual(self.text, json.dumps(self.dashboard, indent=1, ensure_ascii=False) + "\n")

    def test_each_panel_has_an_id_and_queries_of_gtop(self):
        ids = [panel["id"] for panel in self.panels]
        self.assertEqual(len(set(ids)), len(ids))
        for panel in self.panels:
            if panel["type"] == "row":
                continue
            with self.subTest(panel["title"]):
                self.assertTrue(panel["description"].endswith("."))
                self.assertTrue(panel["targets"])
                for target in panel["targets"]:
                    self.assertEqual(target["datasource"], {"type": "prometheus", "uid": "${datasource}"})
                    self.assertTrue(metrics(target["expr"]))
                    self.assertEqual([name for name in metrics(target["expr"]) if not name.startswith("gtop_")], [])

    def test_panels_fill_the_page(self):
        places = [panel["gridPos"] for panel in self.panels]
        cells = [(at["x"] + x, at["y"] + y) for at in places for x in range(at["w"]) for y in range(at["h"])]
        height = max(at["y"] + at["h"] for at in places)
        self.assertEqual(sorted(cells), [(x, y) for x in range(24) for y in range(height)])


if __name__ == "__main__":
    unittest.main()
