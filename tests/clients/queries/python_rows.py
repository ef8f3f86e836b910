"""Evaluates expressions in a module, nvitop or gtop_monitor; prints a JSON list of what they return, as text.

    python_rows.py MODULE PID    with a JSON list of expressions on standard input

PID is a process on the first device. The names below are what the expressions may use beside those of the module.
"""

import contextlib
import importlib
import json
import os
import pickle  # noqa: F401, used by expressions
import subprocess
import sys
import threading
import time

module = importlib.import_module(sys.argv[1])
# Expressions run in this namespace, with all names of the module.
globals().update((name, getattr(module, name)) for name in module.__all__)

device = Device(0)
device_keys = ["memory_used (MiB)", "memory_free (MiB)", "memory_total (MiB)", "memory_percent (%)", "gpu_utilization (%)",
               "memory_utilization (%)", "temperature (C)", "power_usage (W)", "power_limit (W)"]
process = device.processes()[int(sys.argv[2])]
cuda_devices = Device.cuda.all()
cuda_device = cuda_devices[-1]
slices = Device(1)
slice = slices.mig_devices()[0] if slices.mig_devices() else None


def started(*words):
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


child = HostProcess(started("sleep", "1000").pid)
ended = started("true")
ended.wait()
gone = GpuProcess(ended.pid, device)


def fails(function, *words):
    try:
        return function(*words)
    except Exception as error:
        return type(error).__name__


def failsafe(function):
    with GpuProcess.failsafe():
        return function()


def collect(devices=None, **options):
    collector = ResourceMetricCollector(devices, interval=0.1, **options)
    with collector(tag="train"):
        time.sleep(0.3)
        return collector.collect()


def nested():
    """Returns the tags of metrics, and what refuses a tag."""
    collector = ResourceMetricCollector()
    with collector(tag="train"):
        with collector(tag="batch"):
            inner = sorted(set(key.split("/host/")[0] for key in collector.collect() if "/host/" in key))
        outer = sorted(set(key.split("/host/")[0] for key in collector.collect() if "/host/" in key and "pid" not in key))
        return inner, outer, fails(collector.activate, "train"), fails(collector.deactivate, "test")


def daemonized():
    """Returns how often a daemon calls back until it is stopped."""
    calls, ended = [], threading.Event()

    def on_collect(metrics):
        calls.append("metrics-daemon/host/memory_percent (%)/mean" in metrics)
        return len(calls) < 3

    ResourceMetricCollector(interval=0.1).daemonize(on_collect, interval=0.1, on_stop=lambda _: ended.set())
    ended.wait(60)
    return calls


def cached():
    """Returns what a function with a cache is called for, and how the cache counts."""
    now, calls = [0.0], []

    @ttl_cache(maxsize=2, ttl=10.0, timer=lambda: now[0])
    def double(number, *, factor=2):
        calls.append(number)
        return number * factor

    def at(time, *numbers):
        now[0] = time
        return [double(number) for number in numbers]

    found = [at(0, 1, 1, 2), at(5, 3, 2), at(9, 1), at(16, 3), tuple(double.cache_info()), double.__name__]
    double.cache_clear()
    typed = ttl_cache(typed=True)(lambda number: calls.append(number) or number)
    typed(1), typed(1.0), typed(1)
    return found, calls, tuple(double.cache_info()), tuple(typed.cache_info())[:2], [
        fails(ttl_cache, "x"), fails(lambda: ttl_cache(ttl=-1.0))], ttl_cache(len)("four"), ttl_cache(maxsize=0)(len)("two")


def evaluate(expression):
    try:
        return repr(eval(expression))
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


print(json.dumps([evaluate(expression) for expression in json.load(sys.stdin)]))
sys.stdout.flush()
with contextlib.suppress(ProcessLookupError):
    os.kill(child.pid, 9)
