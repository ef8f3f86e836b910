#!/usr/bin/env python3
"""Cost of the TPU backend: CPU and memory over many ticks, with a real gRPC server.

    benches/tpu.py [--ticks 200] [--chips 8] [--ports 1] [--interval 1] [--python PYTHON] [--server PYTHON]

Needs Linux, a `cargo build`, and grpcio for the server. Prints figures and checks nothing. CPU is that of the probe and its
children, with chips and on a machine without any; memory as in benches/probe.py.
"""
import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile

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
    open(path, 'wb').write(probe.python_source(options.interval))
    session = probe.Session(probe.python_command(options.python, path),
                            probe.loader_environment(GTOP_ROOT=root, LD_LIBRARY_PATH=root))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--ticks', type=int, default=200)
    parser.add_argument('--chips', type=int, default=8)
    parser.add_argument('--ports', type=int, default=1, help='one process per port')
    parser.add_argument('--interval', type=float, default=1.0, help='seconds between two ticks')
    parser.add_argument('--python', default='/usr/bin/python3' if os.path.exists('/usr/bin/python3') else 'python3')
    parser.add_argument('--server', default=sys.executable, help='a Python with grpcio')
    options = parser.parse_args()
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
