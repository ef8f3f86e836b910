#!/usr/bin/env python3
"""Cost of `gtop serve`: time and size of a scrape, and processor time, beside nvitop-exporter on the same devices.

    cargo build --profile dist
    python3 benches/serve.py [--nodes 256] [--seconds 30] [--nvitop-exporter PATH]

The devices are those of the NVML stub, which answers at once; each program watches them once a second and is scraped every
5 s. The processor time of gtop includes that of its probe. Then `gtop serve --demo=NODES` is scraped; its simulated nodes
run in the same process, so there is no processor time of gtop alone. What counts is whether devices are still sampled while
many scrape at once.
"""

import argparse
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("GTOP", str(pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "dist" / "gtop"))
sys.path.insert(0, str(ROOT / "tests" / "clients"))

import rig  # noqa: E402
from probe import cpu_seconds, process_tree  # noqa: E402
import scenarios  # noqa: E402

PROCESSES = 8 * 5


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def scrape(url):
    """Returns the seconds and the bytes of a scrape."""
    started = time.monotonic()
    with urllib.request.urlopen(url, timeout=60) as answer:
        size = len(answer.read())
    return time.monotonic() - started, size


def wait_for(url, wanted=b""):
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                if wanted in answer.read():
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


def measure(name, process, url, seconds):
    pids = process_tree(process.pid)
    before, started, scrapes = cpu_seconds(pids), time.monotonic(), []
    while time.monotonic() - started < seconds:
        time.sleep(5)
        scrapes.append(scrape(url))
    cost = (cpu_seconds(pids) - before) / (time.monotonic() - started)
    times = sorted(one for one, _ in scrapes)
    print(f"{name:34} {1000 * cost:6.1f} ms/s of processor time, scrape {1000 * times[len(times) // 2]:6.1f} ms, {scrapes[-1][1] / 1000:8.1f} kB")


def devices(url):
    """Returns the number of devices with current values in a scrape."""
    with urllib.request.urlopen(url, timeout=120) as answer:
        return sum(line.startswith(b"gtop_device_utilization_ratio{") for line in answer)


def devices_under_load(url, options):
    """Returns the fewest devices of a scrape while others scrape as fast as they can."""
    end = time.monotonic() + options.seconds

    def hurry():
        while time.monotonic() < end:
            scrape(url)

    threads = [threading.Thread(target=hurry) for _ in range(options.scrapers)]
    for thread in threads:
        thread.start()
    fewest = devices(url)
    while time.monotonic() < end:
        time.sleep(1)
        fewest = min(fewest, devices(url))
    for thread in threads:
        thread.join()
    return fewest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--nvitop-exporter", default="")
    parser.add_argument("--scrapers", type=int, default=25)
    options = parser.parse_args()
    machine = rig.Machine(scenarios.busy(rig.Machine.pids(PROCESSES)))
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    gtop = machine.start(rig.GTOP, "serve", "--local", "-i", "1", "--listen", str(port), "--compat", "nvitop")
    wait_for(url, b"gtop_device_utilization_ratio")
    measure("gtop serve, 8 devices", gtop, url, options.seconds)
    gtop.terminate()
    if options.nvitop_exporter:
        port = free_port()
        url = f"http://127.0.0.1:{port}/metrics"
        other = machine.start(options.nvitop_exporter, "-p", str(port), "--interval", "1")
        wait_for(url, b"gpu_utilization_Percentage")
        measure("nvitop-exporter, 8 devices", other, url, options.seconds)
        other.terminate()
    port = free_port()
    url = f"http://127.0.0.1:{port}/metrics"
    fleet = machine.start(rig.GTOP, "serve", f"--demo={options.nodes}", "--listen", str(port))
    time.sleep(20)
    wait_for(url, b"gtop_device_utilization_ratio")
    scrapes = [scrape(url) for _ in range(5) if not time.sleep(1)]
    times = sorted(one for one, _ in scrapes)
    print(f"gtop serve, {options.nodes} nodes: scrape {1000 * times[2]:.0f} ms, {scrapes[-1][1] / 1e6:.1f} MB")
    print(f"  devices in a scrape {devices(url)}, with {options.scrapers} that scrape without a pause {devices_under_load(url, options)}")
    fleet.terminate()


if __name__ == "__main__":
    main()
