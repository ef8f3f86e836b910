"""The log of `gtop --output` in PapaParse, the parser of rntop-board, with the options that the board gives it.

    GTOP=path/to/gtop python3 -m unittest -v test_board

The parser comes from npm; without npm or a network, the test is skipped with a message.
"""

import json
import os
import shutil
import subprocess
import time
import unittest

import rig

PARSER = "papaparse@5.4.1"
FOLDER = os.path.join(os.path.dirname(rig.CLIENTS), "papaparse")

# Node.js and gtop know other time zones only where their data is installed.
ENVIRONMENT = {**os.environ, "NODE_PATH": os.path.join(FOLDER, "node_modules"), "TZ": "UTC"}

# Prints what the board computes: the rows without errors, the mean over all of them, and the time of the last one.
BOARD = """
const Papa = require('papaparse');
const text = require('fs').readFileSync(0, 'utf8');
const { data, errors, meta } = Papa.parse(text, { header: true, dynamicTyping: true, skipEmptyLines: true });
const mean = data.reduce((sum, row) => sum + row.utilization, 0) / data.length;
const last = new Date(data[data.length - 1].timestamp).getTime();
console.log(JSON.stringify({ data, errors, fields: meta.fields, mean: mean.toFixed(2), last }));
"""


class Board(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("npm"):
            raise unittest.SkipTest("npm is not installed")
        if not os.path.exists(os.path.join(FOLDER, "node_modules", "papaparse")):
            os.makedirs(FOLDER, exist_ok=True)
            npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", FOLDER, PARSER]
            if subprocess.run(npm, timeout=120, check=False).returncode:
                raise unittest.SkipTest(f"no {PARSER}: npm failed")

    def parse(self, text):
        done = subprocess.run(["node", "-e", BOARD], input=text.encode(), env=ENVIRONMENT, stdout=subprocess.PIPE,
                              timeout=60, check=True)
        return json.loads(done.stdout.decode())

    def test_the_board_reads_every_row(self):
        log = os.path.join(rig.folder(), "log.csv")
        command = ["timeout", "-s", "INT", "5", rig.GTOP, "--demo=6", "--json", "--watch", "-i", "0.5", "--output", log,
                   "--output-every", "2"]
        done = subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.PIPE, timeout=60, check=False)
        with open(log) as file:
            text = file.read()
        board = self.parse(text)
        self.assertEqual(board["errors"], [])
        self.assertEqual(board["fields"], ["timestamp", "node", "index", "utilization", "memory_used", "memory_total"])
        rows = [line.split(",") for line in text.splitlines()[1:]]
        self.assertEqual(len(board["data"]), len(rows))
        self.assertEqual(board["mean"], f"{sum(int(row[3]) for row in rows) / len(rows):.2f}")
        # The mean over the rows is the utilization of the cluster.
        shown = json.loads(done.stdout.decode().splitlines()[-1])["totals"]["utilization_percent"]
        self.assertLess(abs(float(board["mean"]) - shown), 10)
        for row in board["data"]:
            self.assertIsInstance(row["node"], str)
            for key in ["index", "utilization", "memory_used", "memory_total"]:
                self.assertIsInstance(row[key], int, row)
            self.assertLessEqual(row["memory_used"], row["memory_total"])
        # The time is local.
        self.assertLess(abs(board["last"] / 1000 - time.time()), 60)


if __name__ == "__main__":
    unittest.main()
