#!/usr/bin/env python3
"""What the NVML probe costs: CPU, memory, forks and bytes over many ticks against the stand-in library.

    benches/probe.py [--ticks 1000] [--devices 8] [--processes 5] [--interval 0.5] [--python PYTHON]

Needs a C compiler and Linux. Prints figures, judges nothing. CPU is that of the probe and its children, the stand-in's
own work included; memory is the proportional set size of all of them; forks are those of the whole machine while the
probe ticks, less those of an equally long time without it, and by strace where there is one.
"""
import argparse
import base64
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TICK = os.sysconf('SC_CLK_TCK')


def build(folder):
    library = os.path.join(folder, 'libnvidia-ml.so.1')
    subprocess.check_call(['cc', '-shared', '-fPIC', '-O2', '-fvisibility=hidden', '-Wl,-soname,libnvidia-ml.so.1',
                           '-o', library, os.path.join(ROOT, 'tests/stubs/nvml.c')])


def scenario(devices, pids):
    """Busy devices of which every fast number and counter moves."""
    lines = ['driver 570.133.20 12080']
    for i in range(devices):
        lines.append(
            'gpu %d util=90%%10 memutil=50%%20 temp=60%%3 memtemp=70%%3 power_mw=638250%%40000 power_avg_mw=638000%%40000 '
            'power_now_mw=639123%%40000 limit_default_mw=700000 limit_min_mw=200000 limit_max_mw=700000 '
            'energy_mj=912345670+638250 used_mib=70000 bar1_total_mib=131072 bar1_used_mib=1 clk_sm=1900%%80 clk_gr=1900%%80 '
            'clk_video=1275 throttle=4 t_shutdown=92 t_slowdown=89 pcie_tx=9123456789+1234567 pcie_rx=8123456789+2345678 '
            'pcie_replays=0 nvlinks=18 nvlink_tx_kib=8123456789+90000000 nvlink_rx_kib=7123456789+80000000 '
            'held_power=55123456789+400000000 held_sync_boost=0 held_thermal=0 remap_corrected=0 remap_uncorrected=0 '
            'remap_pending=0 remap_failed=0 recovery=0 fabric=3 gpm_graphics=90%%10 gpm_sm=70%%20 gpm_occupancy=30%%20 '
            'gpm_tensor=40%%20 gpm_dram=50%%20 gpm_fp64=0 gpm_fp32=9%%5 gpm_fp16=1%%2' % i)
    for place, pid in enumerate(pids):
        lines.append('proc %d %d 13800 sm=%d%%30 mem=%d' % (place % devices, pid, 10 + place, place))
    return '\n'.join(lines) + '\n'


def assembly():
    """The parts of the Python probe in their order, and the sources compiled when needed by kind, as src/probe.rs lists them."""
    text = open(os.path.join(ROOT, 'src/probe.rs')).read()
    included = r'include_str!\("../probes/(\w+)\.py"\)'
    parts = re.findall(included, text.split('const PYTHON', 1)[1].split('];', 1)[0])
    rare = re.findall(r'\("([\w-]+)", ' + included, text.split('const RARE', 1)[1].split('];', 1)[0])
    return parts, dict(rare)


def bare(part):
    lines = open(os.path.join(ROOT, 'probes', part + '.py')).read().split('\n')
    lines = [line + '\n' for line in lines if line and not line.lstrip().startswith('#')]
    return ''.join('\f' + line if line.startswith('class ') else line for line in lines)


def pack(text):
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def family(pid):
    """The process and all below it."""
    out, parents = [], {}
    for path in glob.glob('/proc/[0-9]*/stat'):
        try:
            words = open(path).read().rsplit(')', 1)[1].split()
        except OSError:
            continue
        parents.setdefault(int(words[1]), []).append(int(path.split('/')[2]))
    wanted = [pid]
    while wanted:
        one = wanted.pop()
        out.append(one)
        wanted += parents.get(one, [])
    return out


def spent(pids):
    """CPU seconds of these processes."""
    nanoseconds = 0
    for pid in pids:
        nanoseconds += int(open('/proc/%d/schedstat' % pid).read().split()[0])
    return nanoseconds / 1e9


def proportional(pids):
    """KiB of memory, what is shared divided among those who share it."""
    sizes = {}
    for pid in pids:
        for line in open('/proc/%d/smaps_rollup' % pid):
            if line.startswith('Pss:'):
                sizes[pid] = int(line.split()[1])
    return sizes


def forks():
    for line in open('/proc/stat'):
        if line.startswith('processes '):
            return int(line.split()[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--ticks', type=int, default=1000)
    parser.add_argument('--devices', type=int, default=8)
    parser.add_argument('--processes', type=int, default=5, help='on each device')
    parser.add_argument('--interval', type=float, default=0.5, help='seconds between two ticks')
    parser.add_argument('--python', default='/usr/bin/python3')
    parser.add_argument('--strace', action='store_true', help='count the forks by strace; CPU then means nothing')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build(folder)
        users = [subprocess.Popen(['sleep', '100000']) for _ in range(options.devices * options.processes)]
        try:
            run(options, folder, [user.pid for user in users])
        finally:
            for user in users:
                user.kill()


def run(options, folder, pids):
    parts, rare = assembly()
    rare = {kind: pack(bare(part)) for kind, part in rare.items()}
    packed = pack('PACKED=%r\n' % rare + ''.join(bare(part) for part in parts))
    source = ('NODE="bench"\nINTERVAL=%r\nDEADMAN=30\nSHORT=0\nimport binascii,zlib\n'
              '_p=zlib.decompress(binascii.a2b_base64("%s")).split(b"\\f")\n'
              'while _p:exec(compile(_p.pop(0),"gtop","exec",0,False,2))\n' % (options.interval, packed))
    path, state, trace = [os.path.join(folder, name) for name in ('probe.py', 'state', 'trace')]
    open(path, 'w').write(source)
    open(state, 'w').write(scenario(options.devices, pids))
    command = [options.python, '-ISu', '-c', 'import sys;b=open(sys.argv[1]).read();exec(b)', path]
    if options.strace:
        command = [shutil.which('strace'), '-f', '-qq', '-e', 'trace=fork,vfork,clone,clone3', '-o', trace] + command
    environment = dict(os.environ, LD_LIBRARY_PATH=folder, NVML_STUB_STATE=state)
    probe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def beat(number):
        probe.stdin.write(b'{"id":%d,"node":"bench","verb":"heartbeat"}\n' % number)
        probe.stdin.flush()

    def sample():
        while True:
            line = probe.stdout.readline()
            frame = json.loads(line.split(b'gtop1 ', 1)[1].decode())
            if frame['t'] == 'sample':
                return len(line), frame

    for _ in range(5):
        sample()
    own = family(probe.pid)
    began, before, forked, sizes, took = time.monotonic(), spent(own), forks(), [], []
    traced = os.path.getsize(trace) if options.strace else 0
    for number in range(options.ticks):
        length, frame = sample()
        sizes.append(length)
        took.append(frame['took'])
        if number % 10 == 0:
            beat(number)
    lasted, cpu, forked = time.monotonic() - began, spent(own) - before, forks() - forked
    memory = proportional(own)
    sizes.sort()
    took.sort()
    print('%s, %d devices, %d processes each, %d ticks of %g s' % (
        subprocess.check_output([options.python, '-V']).decode().strip(), options.devices, options.processes,
        options.ticks, options.interval))
    print('CPU       %.2f ms a tick, %.2f %% of a processor' % (1000 * cpu / options.ticks, 100 * cpu / lasted))
    print('took      %.1f ms in the middle, %.1f ms at most' % (took[len(took) // 2], took[-1]))
    print('memory    %.1f MiB in %d processes (%s)' % (
        sum(memory.values()) / 1024, len(memory), ', '.join('%.1f' % (size / 1024) for size in memory.values())))
    print('samples   %d B on average, %d B in the middle, %d B at most' % (
        sum(sizes) / len(sizes), sizes[len(sizes) // 2], sizes[-1]))
    if options.strace:
        print('forks     %d lines of strace' % open(trace).read()[traced:].count('\n'))
    else:
        print('forks     %d on the whole machine in that time' % forked)
    probe.stdin.close()
    ended = time.monotonic()
    probe.stdout.read()
    probe.wait()
    print('end       %.0f ms after stdin was closed' % (1000 * (time.monotonic() - ended)))
    sys.stdout.flush()


if __name__ == '__main__':
    main()
