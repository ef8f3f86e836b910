"""Every reason for which a device is not sound: from the first sample, later, a near miss, and what each output says.

    GTOP=path/to/gtop python3 -m unittest -v test_health
"""

import csv
import io
import json
import os
import unittest

import serving
from rig import GTOP, Machine, source
from scenarios import DRIVER
from serving import until

# A driver that reports everything about each device.
CARD = "pcie_gen=5 recovery=0 remap_failed=0 remap_pending=0 retired_pending=0 sram_threshold=0 fan=30 nvlinks=18 used_mib=3"


class Reason:
    """A reason, the lines of a device that has it, and those of one that nearly has it; `#` is the index of the device."""

    def __init__(self, name, health, flag, lines, near):
        self.name, self.health, self.flag, self.lines, self.near = name, health, flag, lines, near


REASONS = (
    Reason("lost", "faulty", "LOST", "gpu # lost", "gpu # util=~"),
    Reason("needs_reset", "faulty", "NEEDS A RESET", "fault nvml@# 16", "fault nvmlDeviceGetFanSpeed@# 3"),
    Reason("no_permission", "unknown", "NO PERMISSION", "fault nvml@# 4", "fault nvmlDeviceGetFanSpeed@# 4"),
    Reason("driver", "faulty", "NVML ERROR 999", "fault nvml@# 999", "fault nvmlDeviceGetPowerUsage@# 999"),
    Reason("recovery_action", "faulty", "!RESET", "gpu # recovery=1", "gpu # recovery=~"),
    Reason("recovery_action", "faulty", "!REBOOT", "gpu # recovery=2", "gpu # recovery=~"),
    Reason("not_read", "unknown", "HEALTH?", "gpu # recovery=!999", "gpu # recovery=!3"),
    Reason("recovery_action", "degraded", "!DRAIN", "gpu # recovery=3", "gpu # recovery=0"),
    Reason("recovery_action", "faulty", "!RESET", "gpu # recovery=4", "gpu # recovery=0"),
    # A newer driver may have more actions; each is one all the same.
    Reason("recovery_action", "faulty", "!RECOVER", "gpu # recovery=17", "gpu # recovery=4294967295"),
    Reason("recovery_action", "faulty", "!RECOVER", "gpu # recovery=99", "gpu # recovery=0"),
    Reason("remap_failed", "faulty", "!REMAP", "gpu # remap_failed=2", "gpu # remap_failed=4294967295"),
    Reason("sram_threshold", "faulty", "!SRAM", "gpu # sram_threshold=2", "gpu # sram_threshold=4294967295"),
    Reason("remap_failed", "faulty", "!REMAP", "gpu # remap_failed=1", "gpu # remap_corrected=9"),
    Reason("remap_pending", "degraded", "REMAP", "gpu # remap_pending=1", "gpu # remap_uncorrected=1"),
    Reason("retirement_pending", "degraded", "RETIRE", "gpu # retired_pending=1", "gpu # retired_sbe=9 retired_dbe=1"),
    Reason("sram_threshold", "faulty", "!SRAM", "gpu # sram_threshold=1", "gpu # sram_threshold=~"),
    Reason("ecc_uncorrected", "degraded", "ECC:3", "gpu # ecc_uv=3", "gpu # ecc_cv=5000"),
    Reason("ecc_uncorrected_total", "degraded", "OLD-ECC:7", "gpu # ecc_ua=7", "gpu # ecc_ua=7 remap_uncorrected=1"),
    Reason("pcie_below_max", "degraded", "PCIE:1x16", "gpu # util=97 pcie_gen=1", "gpu # util=0 pcie_gen=1 pstate=8"),
    Reason("pcie_below_max", "degraded", "PCIE:5x4", "gpu # util=97 pcie_width=4", "gpu # util=97 pcie_width=8 name=NVIDIA L40S"),
    Reason("fan_failed", "degraded", "!FAN", "gpu # fan=!999", "gpu # fan=0"),
    Reason("nvlinks_down", "degraded", "NVLINK:17", "gpu # nvlinks_down=1",
           "gpu # nvlinks_down=18 name=NVIDIA H100 PCIe"),
    Reason("xid", "faulty", "XID:79", "xid # 79", "xid # 13"),
    Reason("xid", "degraded", "XID:94", "xid # 94", "xid # 43"),
)
# Those that are one only once they have lasted.
LASTING = (
    Reason("throttled_thermal", "degraded", "!THERM:", "gpu # util=90 throttle=0x20", "gpu # util=90 throttle=0x4"),
    Reason("throttled_power_brake", "degraded", "!PWR:", "gpu # util=90 throttle=0x80", "gpu # util=90 throttle=0x2"),
    Reason("throttled_hardware", "degraded", "!SLOW:", "gpu # util=90 throttle=0x8", "gpu # util=90 throttle=0x100"),
    Reason("load_without_process", "degraded", "!LOAD", "gpu # util=100 memutil=0 used_mib=5",
           "gpu # util=100 used_mib=900"),
)
HEALTHY = 3


def scenario(reasons, read):
    """Returns a machine with a device per reason, and healthy ones; `read` returns the line of a reason."""
    lines = [f"gpu {index} {CARD}" for index in range(len(reasons) + HEALTHY)]
    lines += [read(reason).replace("#", str(index)) for index, reason in enumerate(reasons) if read(reason)]
    return DRIVER + "\n".join(lines) + "\n"


def names(device):
    return [reason["id"] for reason in device["health_reasons"]]


class Watch:
    """`gtop --json --watch` on a machine."""

    def __init__(self, case, machine, *words):
        self.node = None    # the last one
        self.process = machine.start(GTOP, "--local", "--json", "--watch", "-i", "1", *words)
        case.addCleanup(self.process.wait)
        case.addCleanup(self.process.kill)

    def until(self, what, condition):
        for _ in range(300):
            node = self.node = json.loads(self.process.stdout.readline())["nodes"][0]
            if node["devices"] and condition(node["devices"]):
                return node["devices"]
        raise AssertionError(f"no {what}")


def found_on_devices(report):
    """Returns the text of each kind of finding about each device, by its index."""
    return {(int(name.split("#")[1]), finding["kind"]): finding["text"] for finding in report["findings"] for name in finding["devices"]}


class Health(serving.Case):
    maxDiff = None

    def check(self, reasons, devices, health="health"):
        """Checks that each device has its reason and no other, and that the healthy ones have none."""
        expected = [(index, [reason.name], reason.health) for index, reason in enumerate(reasons)]
        expected += [(len(reasons) + index, [], "ok") for index in range(HEALTHY)]
        self.assertEqual([(device["index"], names(device), device[health]) for device in devices], expected)

    def test_standing_reasons_are_there_from_the_first_sample_in_every_output(self):
        standing = [reason for reason in REASONS if reason.name != "xid"]
        machine = Machine(scenario(standing, lambda reason: reason.lines))
        document = machine.snapshot("--local")
        devices = document["nodes"][0]["devices"]
        self.check(standing, devices)
        counted = document["totals"]
        self.assertEqual(counted["devices_faulty"], sum(reason.health == "faulty" for reason in standing))
        kinds = ("busy", "held", "free", "faulty", "stale", "unknown", "unavailable")
        self.assertEqual(sum(counted[f"devices_{kind}"] for kind in kinds), len(devices))
        # CSV.
        code, out, err = machine.run(GTOP, "--local", "--csv", "--fields", "index,health,why")
        self.assertEqual(code, 0, err)
        rows = list(csv.DictReader(io.StringIO(out)))
        self.assertEqual([(int(row["index"]), row["health"], row["health_reasons"]) for row in rows],
                         [(device["index"], device["health"], " ".join(names(device))) for device in devices])
        # The screen, 79 columns wide.
        _, out, err = machine.run(GTOP, "--local", "--once")
        flat = " ".join(out.split())
        for reason in standing:
            self.assertIn(reason.flag, flat, f"{reason.name} {err}")
        # pick takes none of them; those that work only with the option.
        for words, allowed in (((), ("ok",)), (("--allow-degraded",), ("ok", "degraded", "unknown"))):
            code, out, err = machine.run(GTOP, "pick", "-n", str(len(devices)), *words)
            self.assertEqual(code, 4, err)
            picked = [int(index) for index in out.replace(",", " ").split()]
            usable = {device["index"] for device in devices if device["health"] in allowed}
            self.assertLessEqual(set(picked), usable)
            sound = {device["index"] for device in devices if device["health"] == "ok"}
            self.assertEqual(set(picked[:len(sound)]), sound, f"healthy ones come first: {err}")
        # The exporter.
        server = serving.Server(self, "--local", environment=machine.environment)

        def metrics():
            text = serving.Exposition(server.metrics().body)
            return text if "gtop_device_health" in text.names() else None
        text = until("the devices", metrics)
        for device in devices:
            label = str(device["index"])
            self.assertEqual(text.value("gtop_device_health", device=label, health=device["health"]), 1)
            for name in names(device):
                self.assertEqual(text.value("gtop_device_health_reason_info", device=label, reason=name), 1)

    def test_the_row_says_why_an_idle_device_does_not_count_as_free(self):
        machine = Machine(DRIVER + f"gpu 0 {CARD} util=0\nfault nvmlDeviceGetComputeRunningProcesses_v3@0 4\n"
                          f"gpu 1 {CARD} util=0 used_mib=!999\ngpu 2 {CARD} util=0\n")
        devices = machine.node()["devices"]
        self.assertEqual([device["state_reason"] for device in devices], ["users_unknown", "memory_unknown", None])
        _, out, err = machine.run(GTOP, "--local", "--once")
        self.assertEqual([word for word in out.split() if word in ("USERS?", "MEM?")], ["USERS?", "MEM?"], out + err)

    def test_near_misses_are_sound(self):
        # Each machine has one device in ten that nearly has a reason: devices are compared with others.
        machine = Machine(scenario(REASONS, lambda reason: reason.near if reason.name != "xid" else ""))
        devices = machine.node()["devices"]
        self.assertEqual([(device["index"], names(device)) for device in devices if device["health_reasons"]], [])

    def test_a_link_that_wakes_up_at_the_start_of_a_job_is_sound(self):
        machine = Machine(DRIVER + f"gpu 0 {CARD} util=0 pcie_gen=1 pstate=8\ngpu 1 {CARD} util=0\n")
        watch = Watch(self, machine)
        watch.until("a link asleep", lambda devices: devices[0]["pcie_generation"] == 1)
        machine.write(DRIVER + f"gpu 0 {CARD} util=97 used_mib=60000\ngpu 1 {CARD} util=0\n")

        def is_awake(devices):
            self.assertEqual(names(devices[0]), [])
            return devices[0]["pcie_generation"] == 5
        awake = watch.until("a link awake", is_awake)
        self.assertEqual(awake[0]["utilization_percent"], 97)

    def test_later_reasons_are_reported_and_end(self):
        machine = Machine(scenario(REASONS, lambda reason: ""))
        recording = os.path.join(machine.home, "later.gtoprec")
        watch = Watch(self, machine, "--record", recording)
        healthy = watch.until("healthy devices", lambda devices: devices[0]["utilization_percent"] is not None)
        self.assertEqual([names(device) for device in healthy if device["health_reasons"]], [])
        machine.write(scenario(REASONS, lambda reason: reason.lines))
        wanted = [[reason.name] for reason in REASONS]
        ill = watch.until("all reasons", lambda devices: [names(device) for device in devices][:len(wanted)] == wanted)
        self.check(REASONS, ill)
        machine.write(scenario(REASONS, lambda reason: ""))
        # An Xid tells of a device for a day.
        lasting = [["xid"] if reason.name == "xid" else [] for reason in REASONS]
        watch.until("their end", lambda devices: [names(device) for device in devices][:len(wanted)] == lasting)
        watch.process.terminate()
        watch.process.wait()
        code, out, err = machine.run(GTOP, "report", recording, "--format", "json")
        self.assertEqual(code, 0, err)
        report = json.loads(out)
        found = found_on_devices(report)
        for index, reason in enumerate(REASONS):
            if reason.health != "unknown":
                self.assertIn((index, reason.health), found, reason.name)
                text = found[(index, reason.health)]
                self.assertEqual(text.endswith("recovered"), reason.name != "xid", text)
        texts = [event["text"] for event in report["events"] if "recovery" in event["text"]]
        self.assertEqual([text for text in texts if "recovery 0" in text], [])
        ended = [event["kind"] for event in report["events"] if event["text"].endswith("no recovery action is needed any more")]
        self.assertEqual(ended, ["recovered"] * sum(reason.name == "recovery_action" for reason in REASONS), texts)

    def test_each_of_many_xids_at_once_counts_in_every_output(self):
        machine = Machine(DRIVER + f"gpu 0 {CARD}\n")
        recording = os.path.join(machine.home, "xids.gtoprec")
        watch = Watch(self, machine, "--record", recording)
        watch.until("a device", lambda devices: devices[0]["health"] == "ok")
        machine.write(DRIVER + f"gpu 0 {CARD}\n" + "xid 0 94\n" * 50)
        device = watch.until("all", lambda devices: devices[0]["xid_events"] == 50)[0]
        self.assertEqual([reason["text"] for reason in device["health_reasons"]], ["Xid 94, 50 times"])
        self.assertEqual([event["count"] for event in watch.node["events"]], [50])
        watch.process.terminate()
        watch.process.wait()
        code, out, err = machine.run(GTOP, "report", recording, "--format", "json")
        self.assertEqual(code, 0, err)
        self.assertIn("50 times", " ".join(finding["text"] for finding in json.loads(out)["findings"]))

    def test_xids_of_programs_and_those_that_inform_are_low_findings(self):
        machine = Machine(DRIVER + f"gpu 0 {CARD}\n")
        recording = os.path.join(machine.home, "xids.gtoprec")
        watch = Watch(self, machine, "--record", recording)
        watch.until("a device", lambda devices: devices[0]["health"] == "ok")
        machine.write(DRIVER + f"gpu 0 {CARD}\nxid 0 13\nxid 0 43\nxid 0 63\nxid 0 61\n")
        watch.until("all", lambda devices: devices[0]["xid_events"] == 4)
        self.assertEqual(watch.node["devices"][0]["health"], "ok")
        watch.process.terminate()
        watch.process.wait()
        code, out, err = machine.run(GTOP, "report", recording, "--format", "json")
        self.assertEqual(code, 0, err)
        found = {finding["text"].split()[4].strip(":"): finding for finding in json.loads(out)["findings"] if finding["kind"] == "errors"}
        self.assertEqual({code: finding["severity"] for code, finding in found.items()},
                         {"13": "low", "43": "low", "63": "low", "61": "medium"})
        for code in ("13", "43"):
            self.assertIn("usually an error of the program that ran there", found[code]["text"])

    def test_only_an_integrated_device_shows_the_memory_of_the_host(self):
        machine = Machine(DRIVER + "gpu 0 total_mib=0 used_mib=0 util=0\ngpu 1 total_mib=0 used_mib=0 util=0 name=NVIDIA GB10\n")
        devices = machine.node()["devices"]
        self.assertEqual([device["memory_is_host"] for device in devices], [None, True])
        self.assertEqual([device["memory_total_bytes"] is None for device in devices], [True, False])
        code, out, err = machine.run(GTOP, "pick", "-n", "1", "-O", "uuid")
        self.assertEqual((code, out.strip()), (0, devices[1]["uuid"]), err)

    def test_a_device_whose_health_is_not_read_is_not_picked(self):
        cards = f"gpu 0 {CARD}\ngpu 1 {CARD} recovery=2\n"
        # The query with the values that tell of it fails, or takes longer than the deadline.
        for fault, words in (("more 9", ()), ("more garbage", ()), ("more slow 90", ("--deadline", "8"))):
            with self.subTest(fault):
                machine = Machine.without_library(DRIVER + cards + f"fault {fault}\n")
                code, out, err = machine.run(GTOP, "pick", "-n", "1", *words)
                self.assertEqual((code, out.strip()), (4, ""), err)
                devices = machine.snapshot("--local", *words)["nodes"][0]["devices"]
                self.assertEqual([(names(device), device["health"]) for device in devices], [(["not_read"], "unknown")] * 2)
        # The driver refuses all of them at once.
        machine = Machine(DRIVER + cards + "fault nvmlDeviceGetFieldValues 999\n")
        code, out, err = machine.run(GTOP, "pick", "-n", "1")
        self.assertEqual((code, out.strip()), (4, ""), err)

    def test_devices_without_their_tools_are_named(self):
        machine = Machine(DRIVER, LD_LIBRARY_PATH="", PATH="/usr/bin:/bin")
        machine.add_bus("0000:18:00.0", "0000:3a:00.0")
        text = "2 × NVIDIA, without NVML and nvidia-smi"
        node = machine.snapshot("--local")["nodes"][0]
        if node["host"].get("is_contained") or os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
            self.skipTest("in a container, the bus may have devices of others")
        self.assertIn(("unreadable_devices", text), [(note["id"], note["text"]) for note in node["notes"]])
        code, _, err = machine.run(GTOP, "pick", "-n", "1")
        self.assertEqual(code, 1)
        self.assertIn(text, err)

    def test_doctor_says_which_driver_has_the_devices(self):
        if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
            self.skipTest("in a PID namespace, the bus may have devices of others")
        for driver, words in (("nouveau", "install and load the driver nvidia"), ("vfio-pci", "for use in a virtual machine"),
                              ("nvidia", "install the tools of their driver")):
            with self.subTest(driver):
                machine = Machine(DRIVER, LD_LIBRARY_PATH="", PATH="/usr/bin:/bin")
                machine.add_bus("0000:18:00.0", driver=driver)
                if "nvidia-smi not found" not in machine.run(GTOP, "doctor")[1]:
                    self.skipTest("this machine has nvidia-smi")
                code, out, err = machine.run(GTOP, "doctor")
                flat = " ".join(out.split())
                self.assertEqual(code, 0 if driver == "vfio-pci" else 1, flat + err)
                self.assertIn(words, flat)
                self.assertNotIn("needs none", flat)
                self.assertNotIn("the tools of its vendor", flat)
                # In a container, the bus has devices of others.
                code, out, err = machine.run("unshare", "--pid", "--fork", "--mount-proc", GTOP, "doctor")
                if "unshare" not in err:
                    self.assertEqual(code, 0, out + err)

    def test_what_lasts_is_a_reason_and_what_is_harmless_never_is(self):
        count = len(LASTING)
        machine = Machine(scenario(LASTING + LASTING, lambda reason: "")
                          + "".join(reason.lines.replace("#", str(index)) + "\n" for index, reason in enumerate(LASTING))
                          + "".join(reason.near.replace("#", str(count + index)) + "\n" for index, reason in enumerate(LASTING)))
        watch = Watch(self, machine)
        first = watch.until("devices", lambda devices: True)
        self.assertEqual([names(device) for device in first if device["health_reasons"]], [])
        wanted = [[reason.name] for reason in LASTING]
        ill = watch.until("all reasons", lambda devices: [names(device) for device in devices][:count] == wanted)
        self.assertEqual([names(device) for device in ill[count:] if device["health_reasons"]], [])

    def test_devices_that_nvidia_smi_does_not_list_are_gone_and_those_of_one_that_fails_are_stale(self):
        whole = DRIVER + "gpu 0\ngpu 1\ngpu 2\n"
        none, broken = Machine.without_library(whole), Machine.without_library(whole)
        recording = os.path.join(none.home, "gone.gtoprec")
        watches = [Watch(self, none, "--record", recording), Watch(self, broken)]
        for watch in watches:
            watch.until("devices", lambda devices: devices[0]["health"] == "ok")
        none.write(DRIVER)
        broken.write(whole + "fault nvidia-smi 9\n")
        gone = watches[0].until("gone devices", lambda devices: all(names(device) == ["gone"] for device in devices))
        self.assertEqual([(device["index"], device["health"]) for device in gone], [(0, "faulty"), (1, "faulty"), (2, "faulty")])
        node = watches[0].node
        self.assertEqual([(event["kind"], event["index"]) for event in node["events"]], [("gone", 0), ("gone", 1), ("gone", 2)])
        fault = source(node, "nvidia-smi")["fault"]
        self.assertEqual((fault["kind"], fault["message"]), ("no devices found", "No devices were found"))
        stale = watches[1].until("stale devices", lambda devices: source(watches[1].node, "nvidia-smi")["age_seconds"] > 18)
        self.assertEqual([names(device) for device in stale], [[], [], []])
        self.assertEqual(watches[1].node["events"], [])
        none.write(DRIVER + "gpu 0\n")
        watches[0].until("one that is back", lambda devices: devices[0]["health"] == "ok")
        watches[0].process.terminate()
        watches[0].process.wait()
        code, out, err = none.run(GTOP, "report", recording, "--format", "json")
        self.assertEqual(code, 0, err)
        report = json.loads(out)
        found = found_on_devices(report)
        self.assertEqual([found[(index, "faulty")].endswith("recovered") for index in range(3)], [True, False, False])
        told = [(event["kind"], event["text"].partition(": ")[2]) for event in report["events"]]
        self.assertEqual(told[0], ("source", "no devices found: nvidia-smi"))
        gone = ("device", "the driver no longer lists the device")
        self.assertEqual([event for event in told if event[0] == "device"], [gone] * 3)
        self.assertEqual(sorted(kind for kind, _ in told[4:]), ["over", "recovered"])

    def test_doctor_names_devices_that_the_driver_does_not_list(self):
        if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
            self.skipTest("in a PID namespace, the bus may have devices of others")
        machine = Machine(DRIVER + f"gpu 0 {CARD}\ngpu 1 {CARD}\n")
        addresses = ("0000:18:00.0", "0000:29:00.0")
        machine.add_bus(*addresses)
        self.assertEqual(machine.run(GTOP, "doctor")[0], 0)
        other = Machine(DRIVER + f"gpu 0 {CARD}\ngpu 1 {CARD}\n")
        other.add_bus(*addresses, "0000:3a:00.0")
        code, out, err = other.run(GTOP, "doctor")
        self.assertEqual(code, 1, err)
        self.assertIn("not listed: 0000:3a:00.0", out)

    def check_refusal(self, words, program, code, unlisted):
        machine = Machine(DRIVER + f"gpu 0\ngpu 1\nfault nvmlInit_v2 {code}\n")
        machine.set_program(program)
        machine.add_bus("0000:18:00.0", "0000:29:00.0")
        node = machine.node()
        texts = [note["text"] for note in node["notes"]]
        self.assertIn(f"{words} (error {code}): nvml", texts)
        self.assertEqual("not listed: 0000:18:00.0, 0000:29:00.0" in texts, unlisted, texts)
        fault = source(node, "nvml")["fault"]
        self.assertEqual((fault["kind"], fault["message"].split(":")[0]), (words, f"error {code}"))
        self.assertNotIn("nvidia-smi", fault["remedy"])
        _, out, _ = machine.run(GTOP, "--local", "--once")
        self.assertIn(f"{words} (error {code}): nvml", out)
        code, out, err = machine.run(GTOP, "doctor")
        self.assertEqual((code, "needs none" in out), (1, False), out)
        code, out, err = machine.run(GTOP, "pick")
        self.assertEqual((code, out), (2, ""), err)

    def test_a_driver_that_does_not_start_for_its_devices_says_its_error_everywhere(self):
        if os.readlink("/proc/self/ns/pid") != "pid:[4026531836]":
            self.skipTest("in a PID namespace, the devices of the bus may be hidden")
        for code, words in ((999, "driver does not start"), (18, "driver and library differ"), (15, "device lost"),
                            (9, "driver not running")):
            with self.subTest(code):
                self.check_refusal(words, "", code, False)
        self.check_refusal("driver does not start", "#!/bin/sh\necho No devices were found\nexit 6\n", 999, True)

    def test_devices_that_are_hidden_or_not_there_are_no_fault_of_a_driver_that_does_not_start(self):
        sandbox, without, inside = [Machine(DRIVER + "gpu 0\nfault nvmlInit_v2 999\n") for _ in range(3)]
        sandbox.add_bus("0000:18:00.0", has_kmsg=False)
        without.add_bus()
        inside.add_bus("0000:18:00.0")
        for machine in (sandbox, without):
            machine.set_program("")
            node = machine.node()
            self.assertEqual([(note["id"], note["severity"]) for note in node["notes"]], [("no_devices", "info")])
            self.assertEqual(machine.run(GTOP, "doctor")[0], 0)
        # A container without devices, in which nvidia-smi runs and lists none.
        inside.write(DRIVER + "fault nvmlInit_v2 9\n")
        inside.set_program(None)
        code, out, err = inside.run("unshare", "--pid", "--fork", "--mount-proc", GTOP, "--local", "--json")
        if code and "unshare" in err:
            self.skipTest(err)
        self.assertEqual([note["id"] for note in json.loads(out)["nodes"][0]["notes"]], ["no_devices"])

    def test_a_device_that_nvidia_smi_only_names_is_told_by_its_address(self):
        machine = Machine.without_library(DRIVER + "gpu 0\ngpu 1 lost\n")
        self.assertEqual([note["text"] for note in machine.node()["notes"]][-1:], ["#29:00.0 lost"])
        _, out, err = machine.run(GTOP, "--local", "--once")
        self.assertIn("29:00.0", out, err)
        _, _, err = machine.run(GTOP, "pick", "-n", "2")
        self.assertIn("#29:00.0 lost", err)


if __name__ == "__main__":
    unittest.main()
