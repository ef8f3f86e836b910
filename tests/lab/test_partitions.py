"""Nodes of a real Slurm by partition: a node in two of them, a drained one, and nodes without a job of the user."""

import re
import unittest

from harness import wait_for
from test_slurm import INTERVAL, SlurmCase, replace

REASON = 'bad "cable", see |ticket; 7'


class Partitions(SlurmCase):
    NODES, GPUS = 4, 4

    @classmethod
    def prepare(cls):
        super().prepare()
        conf = f"{cls.lab.root}/run/lab/slurm/etc/slurm.conf"
        text = re.sub(r"(?m)^(PartitionName=gpu Nodes)=\S+", r"\1=gpu[01-03]", cls.lab.script.read(conf))
        text = re.sub(r"(?m)^(PartitionName=debug Nodes)=\S+", r"\1=gpu[01-02]", text)
        replace(conf, f"{text}PartitionName=spare Nodes=gpu04 MaxTime=1:00:00 State=UP\n")
        cls.lab.run("scontrol", "reconfigure", user="root")
        wait_for("the partitions", lambda: "gpu04" == cls.lab.run("sinfo", "-h", "-p", "spare", "-o", "%N").stdout.strip())
        cls.lab.run("scontrol", "update", "NodeName=gpu03", "State=DRAIN", f"Reason={REASON}", user="root")
        cls.mine = cls.sbatch("--gres=gpu:1", "-w", "gpu01")
        cls.other = cls.sbatch("--gres=gpu:3", "-w", "gpu02", user="bob")
        cls.wait_until_running(cls.mine, cls.other)
        for node in ("gpu01", "gpu03"):
            cls.lab.set_gpus(node, re.sub(r"\butil=\d+", "util=0", cls.lab.gpu_file(node)))
        # Only who has a job there may log in.
        cls.lab("sshd", "gpu02", "AllowUsers root bob")

    def by_name(self, snapshot):
        return {node["name"]: node for node in snapshot.value["nodes"]}

    def all_nodes(self, *arguments):
        watch = self.lab.watch("--slurm", "--partition", "gpu", "--all-nodes", *INTERVAL, *arguments)
        self.addCleanup(watch.close)
        return watch.until(
            "every node of the partition",
            # A device is known to be free only once its users are.
            lambda seen: len(seen.up()) == 2
            and [seen.value["totals"][key] for key in ("reported", "devices", "devices_unavailable", "devices_free")] == [1, 12, 4, 4],
        )

    def test_nodes_of_jobs_have_their_partitions(self):
        watch = self.lab.watch("--slurm", *INTERVAL)
        self.addCleanup(watch.close)
        seen = watch.until("its partitions", lambda seen: all(node["scheduler"] for node in seen.value["nodes"]) and seen.up())
        self.assertEqual(seen.up(), ["gpu01"])
        scheduler = self.by_name(seen)["gpu01"]["scheduler"]
        self.assertEqual((sorted(scheduler["partitions"]), scheduler["state"], scheduler["devices"]), (["debug", "gpu"], "mixed", 4))

    def test_all_nodes_of_a_partition_are_watched_also_without_a_job(self):
        nodes = self.by_name(self.all_nodes())
        self.assertEqual(sorted(nodes), ["gpu01", "gpu02", "gpu03"])
        self.assertEqual([len(nodes[name]["devices"]) for name in sorted(nodes)], [4, 0, 4])

    def test_the_free_devices_of_a_drained_node_are_not_free_to_use(self):
        seen = self.all_nodes()
        drained = self.by_name(seen)["gpu03"]["scheduler"]
        self.assertEqual((drained["state"], drained["takes_jobs"], drained["reason"]), ("drained", False, REASON))
        totals = seen.value["totals"]
        self.assertEqual((totals["devices_unavailable"], totals["devices_free"]), (4, 4))

    def test_of_a_node_that_refuses_the_login_slurm_says_what_is_free(self):
        seen = self.all_nodes()
        scheduler = self.by_name(seen)["gpu02"]["scheduler"]
        self.assertEqual((scheduler["devices"], scheduler["devices_allocated"]), (4, 3))
        self.assertLess(scheduler["age_seconds"], 60)
        self.assertEqual((seen.value["totals"]["down"], seen.value["totals"]["devices_in_use"]), (0, 3))

    def test_the_screen_groups_by_partition_and_counts_a_shared_node_once(self):
        terminal = self.lab.terminal()
        self.addCleanup(terminal.close)
        terminal.gtop("--slurm", "--partition", "gpu", "--all-nodes", *INTERVAL)
        terminal.until("what Slurm says of a closed node", r"gpu02 .*Slurm \d+s ago: mixed · 1 of 4 devices free")
        terminal.until("why a node is drained", r"gpu03 .*Slurm: drained")
        terminal.type("gg")
        terminal.until("the shared nodes", r"2 nodes counted in several")
        terminal.until("one partition", r"debug .*\b2\b")
        terminal.type("q")
        terminal.until("the prompt", r"ready> *$")

    def test_an_unknown_partition_is_named_with_similar_ones(self):
        out = self.lab.run("gtop", "--once", "--deadline", "10", "--slurm", "--partition", "gpux", "--all-nodes").stdout
        self.assertRegex(out, r'Slurm has no partition "gpux"; use one of gpu, ')


if __name__ == "__main__":
    unittest.main()
