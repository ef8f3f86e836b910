"""TrainingMonitor of `gtop python`: its file is that of ttop, it is right about times, and it never fails a training.

    GTOP=path/to/gtop python3 -m unittest -v test_training
"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

import rig
from test_python import BEGIN, module_folder, pythons

FIXTURES = os.path.join(rig.ROOT, "tests", "fixtures", "ttop")


def fixture(name):
    with open(os.path.join(FIXTURES, name)) as file:
        return json.load(file)


def keys(value):
    """Returns the keys of an object and those of the objects in it, in order."""
    return [(key, keys(one)) for key, one in value.items()] if isinstance(value, dict) else None


class Training(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = module_folder()

    def setUp(self):
        self.run = os.path.join(rig.folder(), "run_1")

    def environment(self):
        return dict(os.environ, PYTHONPATH=self.folder, RUN=self.run)

    def run_on(self, code, python=sys.executable, status=0, under=()):
        done = subprocess.run([*under, python, "-c", BEGIN + "RUN = os.environ['RUN']\n" + code], env=self.environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, check=False)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done.stdout.decode()

    def start(self, code):
        program = subprocess.Popen([sys.executable, "-c", BEGIN + "RUN = os.environ['RUN']\n" + code],
                                   env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   # Ignored where the tests run in the background.
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stderr.close)
        return program

    def progress(self, name="progress.json"):
        with open(os.path.join(self.run, name)) as file:
            return json.load(file)

    TRAIN = """
monitor = TrainingMonitor(RUN + ".json", wandb_run_name="run_001", wandb_url="wandb.ai/x/y/runs/1")
monitor.set_dataset_sizes(100, 20)
monitor.start_epoch(0, 5, 2)
monitor.start_phase("Training")
for i in range(3):
    monitor.start_batch()
    monitor.update_tqdm_stats(5.0, 0.6, 0.4)
    monitor.update_metrics(loss=0.5, learning_rate=0.001, samples_processed=32)
"""

    def test_the_file_is_that_of_ttop(self):
        self.run_on(self.TRAIN + "monitor.shutdown()")
        ours, theirs = self.progress(), fixture("ttop-progress-running.json")
        added = [("pid_namespace", None)]
        self.assertEqual(sorted(keys(ours["metadata"])), sorted(keys(theirs["metadata"]) + added))
        for part in ("status", "end_time", "error_message", "state", "estimates", "metrics"):
            self.assertEqual(keys({part: ours[part]}), keys({part: theirs[part]}), part)
        self.assertEqual(list(ours)[:8], list(theirs)[:8])
        self.assertEqual(ours["state"], theirs["state"])
        self.assertEqual(ours["metrics"], theirs["metrics"])
        self.assertEqual(ours["status"], "RUNNING")
        self.assertEqual(set(ours["timing"]), {"epoch_start", "training_start", "validation_start"})

    def test_all_ends(self):
        for end, name in (("set_finished()", "finished-with-resources"), ("set_failed('no memory')", "failed"),
                          ("set_canceled()", "canceled")):
            with self.subTest(end):
                self.run_on(self.TRAIN + f"monitor.{end}")
                ours, theirs = self.progress(), fixture(f"ttop-progress-{name}.json")
                self.assertEqual(ours["status"], theirs["status"])
                self.assertEqual(type(ours["end_time"]), type(theirs["end_time"]))
                self.assertEqual(ours["error_message"], "no memory" if "failed" in end else None)

    def test_a_block_sets_the_end(self):
        for body, wanted in (("pass", ("FINISHED", None)), ("raise ValueError('bad')", ("FAILED", "ValueError: bad")),
                             ("raise KeyboardInterrupt", ("CANCELED", None)), ("monitor.set_failed('mine')", ("FAILED", "mine"))):
            with self.subTest(body):
                self.run_on(f"""
try:
    with TrainingMonitor(RUN) as monitor:
        {body}
except BaseException:
    pass
""")
                self.assertEqual((self.progress()["status"], self.progress()["error_message"]), wanted)

    def test_times_are_right(self):
        out = self.run_on("""
import json
monitor = TrainingMonitor(RUN)
now = [1000.0]
time.monotonic = lambda: now[0]
monitor._begun = now[0]
def estimates():
    monitor._estimate()
    return json.loads(json.dumps(monitor.progress_data["estimates"]))
for epoch in range(2):
    monitor.start_epoch(epoch, 10, 4)
    monitor.start_phase("training")
    for batch in range(10):
        monitor.start_batch()
        now[0] += 2
        if batch == 4:
            print(json.dumps(estimates()))
    monitor.end_phase()
    monitor.start_phase("validation")
    now[0] += 5
    monitor.end_phase()
    monitor.end_epoch()
print(json.dumps(estimates()))
""")
        first, second, last = map(json.loads, out.split("\n")[:3])
        self.assertEqual(first["training"], {"rate": 0.5, "elapsed": 10, "remaining": 10, "total": 20, "durations": []})
        # Nothing is known of the validation yet.
        self.assertEqual(first["epoch"], {"rate": 0.5, "elapsed": 10, "remaining": 10, "total": 20, "durations": []})
        self.assertEqual(first["run"], {"rate": 0.125, "elapsed": 10, "remaining": 70, "total": 80})
        self.assertEqual(second["epoch"], {"rate": 0.4, "elapsed": 10, "remaining": 15, "total": 25, "durations": [25]})
        self.assertEqual(second["run"], {"rate": 0.35, "elapsed": 35, "remaining": 65, "total": 100})
        self.assertEqual(last["run"], {"rate": 0.5, "elapsed": 50, "remaining": 50, "total": 100})

    def test_batches_of_a_validation_are_counted_by_themselves(self):
        out = self.run_on("""
import json
monitor = TrainingMonitor(RUN)
now = [1000.0]
time.monotonic = lambda: now[0]
def show():
    monitor._estimate()
    state = monitor.progress_data["state"]
    part = monitor.progress_data["estimates"]["validation"]
    print(json.dumps([state["batch"], state.get("validation_batch"), state.get("total_validation_batches"), part["remaining"]]))
monitor.start_epoch(0, 5, 2)
monitor.start_phase("training")
for batch in range(5):
    monitor.start_batch()
    now[0] += 1
show()
monitor.start_phase("Validation", total_batches=4)
# As programs of ttop do, which has no total.
monitor.start_validation()
for batch in range(3):
    monitor.start_batch()
    now[0] += 2
show()
monitor.end_validation()
monitor.start_batch()
monitor.start_epoch(1, 5, 2)
monitor.start_training()
monitor.start_batch()
now[0] += 1
monitor.end_training()
monitor.start_validation(7)
monitor.start_batch()
now[0] += 1
show()
# An epoch that begins amid a validation.
monitor.start_epoch(2, 5, 2)
monitor.start_batch()
show()
""")
        rows = [json.loads(line) for line in out.splitlines()]
        # Of one batch it is not known whether it has begun or ended.
        self.assertEqual(rows, [[5, None, None, 0], [5, 3, 4, 2], [1, 1, 7, None], [0, 1, None, None]])

    def test_what_the_process_and_all_below_it_use_is_told(self):
        self.run_on("""
import subprocess, threading, types
cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 2, memory_reserved=lambda device: (device + 1) << 20)
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
child = subprocess.Popen([sys.executable, "-c", "x = 'x' * 50000000\\nprint(flush=True)\\nwhile True: pass"],
                         stdout=subprocess.PIPE)
child.stdout.readline()
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
monitor = TrainingMonitor(RUN)
def is_told():
    resources = monitor.progress_data.get("resources")
    return resources is not None and resources["cpu_percent"] is not None and resources["cpu_percent"] > 0
wait_until(is_told)
monitor.set_finished()
monitor.shutdown()
with open("/proc/%d/status" % child.pid) as file:
    kib = int(file.read().split("VmRSS:")[1].split()[0])
child.kill()
child.wait()
print(os.getpid(), child.pid, kib / 1024)
""")
        resources = self.progress()["resources"]
        known = fixture("ttop-progress-finished-with-resources.json")["resources"]
        self.assertEqual([name for name in resources if name in known], [name for name in known])
        self.assertEqual((resources["processes"], resources["gpu_mem_mib"]), (2, 3))
        own, child = resources["process_list"]
        # The main thread, that of the monitor, and the sleeper.
        self.assertEqual((own["pid"], own["threads"], child["threads"]), (self.progress()["metadata"]["pid"], 3, 1))
        self.assertGreater(child["ram_mb"], 45)
        self.assertGreater(child["cpu_percent"], 0)
        self.assertEqual(resources["threads"], 4)

    def test_without_torch_on_a_device_its_memory_is_unknown(self):
        self.run_on("""
monitor = TrainingMonitor(RUN)
wait_until(lambda: "resources" in monitor.progress_data)
monitor.shutdown()
""")
        self.assertEqual(self.progress()["resources"]["gpu_mem_mib"], None)

    def test_the_calls_of_ttops_tutorial(self):
        self.run_on("""
run_name, value1, value2 = "my_run", 0.25, 7
monitor = TrainingMonitor(
    output_file=f"{RUN}/progress/{run_name}.json"
)
monitor.track_variables({
    'param1': value1,
    'param2': value2
})
monitor.start_monitoring()
monitor.start_phase("phase_name")
for iteration in range(3):
    monitor.start_batch()
    monitor.update_metrics(metric1=value1, metric2=value2)
monitor.end_phase()
monitor.set_finished()
""")
        progress = self.progress("progress/my_run/progress.json")
        self.assertEqual((progress["status"], progress["state"]["batch"]), ("FINISHED", 3))
        self.assertEqual(progress["state"]["total_batches"], 0)
        self.assertEqual((progress["metrics"]["metric1"], progress["metrics"]["metric2"]), (0.25, 7))
        self.assertEqual(self.progress("progress/my_run/control.json"), {"param1": 0.25, "param2": 7})

    def test_what_is_not_known_is_null(self):
        self.run_on("""
monitor = TrainingMonitor(RUN)
monitor.start_epoch(3, 0)
monitor.start_phase("training")
monitor.update_tqdm_stats(None, -5, None)
class Tensor:
    def __float__(self):
        return float("nan")
monitor.update_metrics(loss=Tensor(), accuracy=0.5, note="ok", big=float("inf"), flag=True, shape=(1, 2), none=None)
monitor.end_validation()
monitor.end_epoch()
monitor.end_epoch()
monitor.shutdown()
""")
        progress = self.progress()
        self.assertEqual(progress["state"]["total_epochs"], None)
        self.assertEqual(progress["estimates"]["run"]["remaining"], None)
        self.assertGreaterEqual(progress["estimates"]["training"]["elapsed"], 0)
        self.assertEqual(progress["metrics"], {"loss": "NaN", "learning_rate": None, "samples_processed": 0, "accuracy": 0.5,
                                               "note": "ok", "big": "Infinity", "flag": True, "shape": [1, 2]})

    def test_readers_never_see_a_part(self):
        program = self.start("""
monitor = TrainingMonitor(RUN)
monitor.start_epoch(0, 1000000, 1)
print("ready", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end and not os.path.exists(RUN + "/stop"):
    monitor.start_batch()
    monitor.update_metrics(loss=1.5, text="x" * 20000)
monitor.set_finished()
""")
        self.assertEqual(program.stdout.readline(), b"ready\n")
        seen = set()
        while len(seen) < 5:
            seen.add(self.progress()["state"]["batch"])
        with open(os.path.join(self.run, "stop"), "w"):
            pass
        self.assertEqual(program.wait(60), 0, program.stderr.read())
        self.assertEqual(sorted(os.listdir(self.run)), ["control.json", "progress.json", "stop"])

    def test_signals_cancel_the_run(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                program = self.start(self.TRAIN + """
try:
    print("ready", flush=True)
    while True:
        monitor.update_metrics(loss=1.0)
except KeyboardInterrupt:
    print("interrupted")
""")
                self.assertEqual(program.stdout.readline(), b"ready\n")
                program.send_signal(number)
                self.assertEqual(program.stdout.readline(), b"interrupted\n", program.stderr.read())
                self.assertEqual(program.wait(60), 0)
                self.assertEqual(self.progress()["status"], "CANCELED")
                said = self.progress("signal.json")
                self.assertEqual(set(said), set(fixture("ttop-signal.json")))
                self.assertEqual((said["signal_name"], said["batch"]), (number.name, 3))

    def test_a_signal_at_any_moment_of_a_call_ends_the_training(self):
        self.run_on("""
import faulthandler
faulthandler.dump_traceback_later(240, exit=True)
CALLS = [lambda one: one.update_metrics(loss=1.0), lambda one: one.stop_monitoring(), lambda one: one.shutdown()]
for number, call in enumerate(CALLS):
    line, is_interrupted = 0, True
    while is_interrupted:
        line += 1
        monitor = TrainingMonitor(os.path.join(RUN, "%d-%d" % (number, line)))
        monitor.start_monitoring()
        left = [line]
        def interrupt(*_event):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGTERM)
                # The handler runs here at the latest.
                time.sleep(0)
            return interrupt
        sys.settrace(interrupt)
        try:
            call(monitor)
            is_interrupted = False
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        monitor.shutdown()
    assert line > 5, line
""")
        self.assertEqual(self.progress("0-3/progress.json")["status"], "CANCELED")

    def test_a_forked_worker_changes_nothing(self):
        self.run_on(self.TRAIN + """
for number in (signal.SIGTERM, None):
    child = os.fork()
    if child == 0:
        monitor.update_metrics(loss=7)
        monitor.start_batch()
        if number is None:
            monitor.set_failed("in a worker")
            monitor.shutdown()
            os._exit(0)
        time.sleep(1000)
    if number is not None:
        time.sleep(0.2)
        os.kill(child, number)
    ended = os.waitpid(child, 0)[1]
    assert (os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else None) == number, ended
monitor.shutdown()
""")
        self.assertEqual((self.progress()["status"], self.progress()["metrics"]["loss"]), ("RUNNING", 0.5))

    def test_variables_are_changed_and_acknowledged(self):
        program = self.start("""
monitor = TrainingMonitor(RUN)
monitor.track_variables({"lr": 0.1, "batch_size": 32, "amp": True, "opt": "adam", "steps": [1, 2], "none": None})
calls = []
monitor.register_general_callback(lambda *words: calls.append(words))
monitor.register_callback("lr", lambda *words: 1 / 0)
monitor.start_monitoring()
print("ready", flush=True)
changes = {}
def is_changed():
    changes.update(monitor.is_change() or {})
    return len(changes) == 3
with warnings.catch_warnings(record=True):
    wait_until(is_changed)
assert changes == {"lr": (0.1, 0.01), "batch_size": (32, 32.0), "amp": (True, 1)}, changes
assert sorted(calls) == [("amp", True, 1), ("batch_size", 32, 32.0), ("lr", 0.1, 0.01)], calls
assert type(monitor.tracked_variables["batch_size"]) is float
assert monitor.should_restart_dataloader(changes) and "lr: 0.1 -> 0.01" in monitor.get_change_summary(changes)
assert monitor.check_changes() == [] and monitor.is_change() is None
print("changed", flush=True)
sys.stdin.readline()
""")
        self.assertEqual(program.stdout.readline(), b"ready\n")
        path = os.path.join(self.run, "control.json")
        variables = self.progress("control.json")
        self.assertEqual(list(variables), ["lr", "batch_size", "amp", "opt", "steps", "none"])
        # Half-written, and no object: nothing to learn from.
        for text in ('{"lr": 0.0', "[1]", "", "\0\1"):
            with open(path, "w") as file:
                file.write(text)
            time.sleep(0.3)
        variables.update(lr=0.01, batch_size=32.0, amp=1, unknown="kept")
        with open(path, "w") as file:
            json.dump(variables, file)
        self.assertEqual(program.stdout.readline(), b"changed\n", program.stderr.read())
        acknowledged = self.progress()["acknowledged"]["variables"]
        del variables["unknown"]
        self.assertEqual(acknowledged, variables)
        self.assertEqual(self.progress("control.json")["unknown"], "kept")
        program.kill()
        program.wait()

    def test_a_file_that_cannot_be_written_does_not_end_the_training(self):
        self.run_on("""
import resource, shutil
monitor = TrainingMonitor(RUN)
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    while os.path.exists(RUN):  # a write may be under way
        shutil.rmtree(RUN, ignore_errors=True)
    for _ in range(5):
        monitor.start_batch()
        time.sleep(0.15)
    monitor.track_variables({"a": 1})
    monitor.set_canceled()
    assert 1 <= len(warned) <= 3, warned
    os.mkdir(RUN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, resource.RLIM_INFINITY))
    monitor.set_failed("the disk is full")
    assert os.listdir(RUN) == [], os.listdir(RUN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monitor.set_finished()
    monitor.shutdown()
""")
        self.assertEqual(self.progress()["status"], "FINISHED")

    def test_a_folder_that_cannot_be_made_does_not_end_the_training(self):
        self.run_on("""
for place in ("/proc/nope/run", "/dev/null/run", "/dev/null.json", RUN + "/" + 300 * "x", "a\\0b", "gone"):
    gone = os.path.join(os.path.dirname(RUN), "gone")
    os.makedirs(gone)
    os.chdir(gone)
    os.rmdir(gone)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with TrainingMonitor(place) as monitor:
            monitor.track_variables({"a": 1})
            monitor.start_epoch(0, total_batches=1)
            monitor.start_batch()
            time.sleep(0.15)
            assert monitor.check_changes() == []
        assert len(warned) == 1 and "is not written" in str(warned[0].message), (place, [str(one) for one in warned])
os.chdir("/")
# Once there can be a folder, there is one.
place = os.path.join(os.path.dirname(RUN), "late")
with open(place, "w"):
    monitor = TrainingMonitor(os.path.join(place, "run"))
os.unlink(place)
monitor.set_finished()
monitor.shutdown()
assert os.listdir(os.path.join(place, "run")) == ["progress.json"], os.listdir(place)
""")

    def test_variables_that_no_json_file_can_have_do_not_end_the_training(self):
        self.run_on("""
os.makedirs(RUN)
for text in ("{\\"a\\": NaN}", "[" * 100000, "\\udcff"):
    with open(os.path.join(RUN, "control.json"), "w", errors="surrogateescape") as file:
        file.write(text)
    monitor = TrainingMonitor(RUN)
    monitor.track_variables({"b": 1})
    monitor.check_changes()
    monitor.shutdown()
""")

    def test_all_pythons_that_are_installed(self):
        for version, python in pythons().items():
            with self.subTest(version):
                self.run_on(self.TRAIN + "monitor.end_phase()\nmonitor.end_epoch()\nmonitor.set_finished()", python=python)
                self.assertEqual(self.progress()["status"], "FINISHED")
