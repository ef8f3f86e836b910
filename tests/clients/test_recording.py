"""A recording read by zstd and Python alone: the log of `gtop --output` has what the nodes sent, and the means are equal.

    GTOP=path/to/gtop python3 -m unittest -v test_recording
"""

import json
import os
import subprocess
import time
import unittest
from datetime import datetime, timezone

import rig

ENVIRONMENT = {**os.environ, "TZ": "UTC"}


def read(path):
    """Returns the objects of a recording, those of checkpoints left out."""
    text = subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, timeout=60, check=True).stdout.decode()
    return [line for line in map(json.loads, text.splitlines()) if not line.get("checkpoint")]


class Node:
    """The devices of a node: a value that a sample leaves out is as it was."""

    def __init__(self):
        self.offset = None
        self.devices = {}

    def take(self, arrived_at, sample):
        """Returns rows of time in milliseconds, index, utilization, used and total MiB."""
        # A sample is made when the fastest one so far would have been.
        offset = arrived_at - sample["at"]
        self.offset = offset if self.offset is None else min(offset, self.offset)
        for backend in sample.get("backends", []):
            listed = backend.get("devices")
            if listed is None:
                continue
            for device in listed:
                self.devices.setdefault(device["uuid"], {}).update(device)
            known = [self.devices[device["uuid"]] for device in listed]
            whole = [device for device in known if "parent" not in device]
            for index, device in enumerate(sorted(whole, key=lambda device: device["index"])):
                values = [device.get(key) for key in ["util", "memory_used", "memory_total"]]
                if None not in values and "fault" not in device:
                    util, used, total = values
                    yield backend["at"] + self.offset, index, round(util), used >> 20, total >> 20


class Recording(unittest.TestCase):
    def test_the_log_has_the_values_that_the_nodes_sent(self):
        folder = rig.folder()
        log, recording = os.path.join(folder, "log.csv"), os.path.join(folder, "recording.gtop")
        command = ["timeout", "-s", "INT", "12", rig.GTOP, "--demo=12", "--json", "--watch", "--output", log,
                   "--output-every", "1", "--record", recording]
        subprocess.run(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, timeout=60, check=False)
        sent, nodes = {}, {}
        for line in read(recording):
            if line.get("body", {}).get("t") != "sample":
                continue
            node = nodes.setdefault(line["node"], Node())
            for at, index, *values in node.take(line["at"], line["body"]):
                sent.setdefault((line["node"], index), []).append((at, values))
        with open(log) as file:
            rows = [line.split(",") for line in file.read().splitlines()[1:]]
        self.assertGreater(len(rows), 300)
        logged, recorded = 0, 0
        for stamp, node, index, *values in rows:
            at = datetime.strptime(stamp, "%Y/%m/%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()
            nearest, expected = min(sent[node, int(index)], key=lambda one: abs(one[0] - at))
            self.assertLess(abs(nearest - at), 0.02, stamp)
            self.assertEqual([int(value) for value in values], expected, (stamp, node, index))
            logged, recorded = logged + int(values[0]), recorded + expected[0]
        self.assertEqual(logged / len(rows), recorded / len(rows))

    def test_every_line_is_json_and_no_answer_is_in_it(self):
        recording = os.path.join(rig.folder(), "recording.gtop")
        command = ["timeout", "-s", "TERM", "6", rig.GTOP, "record", "--demo=3", "-w", recording]
        subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60, check=False)
        lines = read(recording)
        self.assertEqual(lines[0]["start"]["gtop"], 1)
        self.assertTrue(lines[-1]["end"])
        kinds = {line["body"]["t"] for line in lines if "body" in line}
        self.assertIn("hello", kinds)
        self.assertNotIn("answer", kinds)
        self.assertLess(abs(lines[-1]["at"] - time.time()), 60)


if __name__ == "__main__":
    unittest.main()
