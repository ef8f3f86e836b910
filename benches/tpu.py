#!/usr/bin/env python3
"""Cost of the TPU backend: CPU and memory over many ticks, with a real gRPC server; and the rate over a whole pod.

    benches/tpu.py [--ticks 200] [--chips 8] [--ports 1] [--interval 1] [--python PYTHON] [--server PYTHON]
    benches/tpu.py --pod 16 [--gtop PROGRAM] [--seconds 20] [--interval 0.05] [--chips 4] [--server PYTHON]

Needs Linux, a `cargo build`, and grpcio for the server. Prints figures and checks nothing. CPU is that of the probe and its
children, with chips and on a machine without any; memory as in benches/probe.py.

With --pod, `gtop record --tpu-pod -i INTERVAL` watches this many hosts, which a stub of the metadata server lists. All run on
this machine: each with a probe, files and a metrics server of its own. The figures are the samples that gtop has received and
recorded of each host, from the recording. The probes of 16 hosts at 20 samples a second need two cores
for themselves, so on a smaller or busy machine the rates tell of that machine.
"""
import argparse
import csv
import datetime
import http.server
import io
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import probe

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def write_file(root, path, text=''):
    os.makedirs(os.path.dirname(root + path), exist_ok=True)
    with open(root + path, 'w') as out:
        out.write(text)


def make_tpu_files(root, chips, pid, ports, device=('0x0063', '0x0000')):
    """Creates the files of a machine with this many chips (default: v5e), all held by one process."""
    for chip in range(chips):
        folder = '/sys/bus/pci/devices/0000:00:%02x.0/' % (4 + chip)
        for key, value in (('vendor', '0x1ae0'), ('device', device[0]), ('subsystem_device', device[1]),
                           ('class', '0x120000'), ('numa_node', '0')):
            write_file(root, folder + key, value + '\n')
        os.symlink('../../../../kernel/iommu_groups/%d' % chip, root + folder + 'iommu_group')
        write_file(root, '/dev/vfio/%d' % chip)
        os.makedirs(root + '/proc/%d/fd' % pid, exist_ok=True)
        os.symlink('/dev/vfio/%d' % chip, root + '/proc/%d/fd/%d' % (pid, chip))
    write_file(root, '/proc/%d/environ' % pid, 'TPU_RUNTIME_METRICS_PORTS=%s\0' % ','.join(map(str, ports)))


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(('127.0.0.1', 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def measure(options, root, name):
    path = os.path.join(root, 'probe.py')
    open(path, 'wb').write(probe.python_source())
    session = probe.Session(probe.python_command(options.python, path),
                            probe.loader_environment(GTOP_ROOT=root, LD_LIBRARY_PATH=root), options.interval)
    for _ in range(5):
        session.sample()
    pids = session.process_tree()
    before, sizes, devices = probe.cpu_seconds(pids), [], 0
    for size, frame in session.samples(options.ticks):
        sizes.append(size)
        devices += sum(len(part['devices']) for part in frame.get('backends', []))
    cpu, (memory, files) = 1000 * (probe.cpu_seconds(pids) - before) / options.ticks, probe.memory(pids)
    print('%-12s CPU %.2f ms per tick; memory %.1f MiB, private %s; %d B per sample; %.1f devices per tick' % (
        name, cpu, (sum(memory.values()) + files) / 1024, ' '.join('%.1f' % (kib / 1024) for kib in memory.values()),
        sum(sizes) / len(sizes), devices / options.ticks))
    session.end()


class Metadata(http.server.BaseHTTPRequestHandler):
    """A stub of the metadata server of a pod of `hosts` workers."""
    hosts = 0

    def do_GET(self):
        values = {
            'worker-network-endpoints': ','.join('unknown:unknown:10.130.0.%d' % (i + 1) for i in range(self.hosts)),
            'agent-worker-number': str(self.hosts), 'accelerator-type': 'v4-%d' % (8 * self.hosts)}
        text = values.get(self.path.rsplit('/', 1)[1])
        body = (text or '').encode()
        self.send_response(404 if text is None else 200)
        self.send_header('Metadata-Flavor', 'Google')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve_metadata(hosts):
    """Serves the metadata in a thread; returns the address."""
    Metadata.hosts = hosts
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return '127.0.0.1:%d' % server.server_port


def measure_pod(options, folder):
    """Records a pod for some seconds and prints the samples per second of each host."""
    ports = free_ports(options.pod)
    servers = [subprocess.Popen([options.server, os.path.join(ROOT, 'tests/stubs/tpu_metrics.py'), '--chips',
                                 str(options.chips), '--ports', str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
               for port in ports]
    try:
        for worker, (server, port) in enumerate(zip(servers, ports)):
            if server.stdout.readline() != b'up\n':
                sys.exit('no server: --server must name a Python with grpcio')
            make_tpu_files('%s/10.130.0.%d' % (folder, worker + 1), options.chips, os.getpid(), [port], ('0x005e', '0x0000'))
        # Each host has its own root.
        run = os.path.join(folder, 'run')
        with open(run, 'w') as out:
            out.write('#!/bin/sh\nexport GTOP_ROOT=%s/$1 LD_LIBRARY_PATH=%s\nexec sh -c "$2"\n' % (
                folder, folder))
        os.chmod(run, 0o755)
        recording = os.path.join(folder, 'pod.gtop')
        environment = dict(os.environ, HOME=folder, GCE_METADATA_HOST=serve_metadata(options.pod))
        gtop = subprocess.Popen([options.gtop, 'record', '--tpu-pod', '-i', str(options.interval), '--exec',
                                 run + ' {node} {command}', '--write', recording], env=environment)
        time.sleep(options.seconds)
        gtop.terminate()
        gtop.wait()
        text = subprocess.check_output([options.gtop, 'export', recording, '--fields', 'util', '--format', 'csv'],
                                       env=environment).decode()
    finally:
        for server in servers:
            server.kill()
    print_pod(options, text)


def print_pod(options, text):
    times = {}
    for row in csv.DictReader(io.StringIO(text)):
        at = datetime.datetime.fromisoformat(row['time'].replace('Z', '+00:00')).timestamp()
        times.setdefault(row['node'], set()).add(at)
    rates = []
    for node in times.values():
        # The first seconds are those of the start.
        late = sorted(at for at in node if at > min(node) + 3)
        if len(late) > 1:
            rates.append((len(late) - 1) / (late[-1] - late[0]))
    rates.sort()
    print('%d of %d hosts with %d chips each, one sample per %g s, for %g s' % (
        len(rates), options.pod, options.chips, options.interval, options.seconds))
    if rates:
        print('samples   %.1f per second and host in the median, %.1f at least, %.1f at most' % (
            rates[len(rates) // 2], rates[0], rates[-1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--ticks', type=int, default=200)
    parser.add_argument('--chips', type=int, default=8)
    parser.add_argument('--ports', type=int, default=1, help='one process per port')
    parser.add_argument('--interval', type=float, default=1.0, help='seconds between two ticks')
    parser.add_argument('--python', default='/usr/bin/python3' if os.path.exists('/usr/bin/python3') else 'python3')
    parser.add_argument('--server', default=sys.executable, help='a Python with grpcio')
    parser.add_argument('--pod', type=int, metavar='HOSTS', help='measure the rate of gtop over a pod of this many hosts')
    parser.add_argument('--gtop', default=os.path.join(ROOT, os.environ.get('CARGO_TARGET_DIR', 'target'), 'dist/gtop'))
    parser.add_argument('--seconds', type=float, default=20)
    options = parser.parse_args()
    if options.pod:
        with tempfile.TemporaryDirectory() as folder:
            measure_pod(options, folder)
        return
    ports = free_ports(options.ports)
    server = subprocess.Popen([options.server, os.path.join(ROOT, 'tests/stubs/tpu_metrics.py'), '--chips', str(options.chips),
                               '--ports', ','.join(map(str, ports))], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print(subprocess.check_output([options.python, '-V']).decode().strip(), '%d chips, %d ports, %g s per tick' % (
        options.chips, options.ports, options.interval))
    folder = tempfile.mkdtemp()
    try:
        if server.stdout.readline() != b'up\n':
            sys.exit('no server: --server must name a Python with grpcio')
        os.makedirs(folder + '/none')
        measure(options, folder + '/none', 'without TPU')
        make_tpu_files(folder + '/some', options.chips, os.getpid(), ports)
        measure(options, folder + '/some', 'with TPU')
    finally:
        server.kill()
        shutil.rmtree(folder)


if __name__ == '__main__':
    main()
