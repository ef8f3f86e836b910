#!/usr/bin/env python3
"""Cost of a probe: CPU, memory, forks and bytes over many ticks, with stubs of the driver.

    benches/probe.py [--ticks 1000] [--devices 8] [--processes 5] [--interval 0.5] [--python PYTHON]
    benches/probe.py --amd ...
    benches/probe.py --focus ...      also in focus: the rate of each group, and what the probe says that it costs
    benches/probe.py --sh [SHELL] [--interval 1] ...

Needs Linux, a C compiler and a `cargo build`. Prints figures and checks nothing. The Python probe runs with the NVML
stub, whose CPU time is included; the sh probe runs with an nvidia-smi that prints recorded output, whose CPU time is
measured and subtracted. CPU is that of the probe and its child processes; memory is what would be in use if nothing else
ran; forks are those of the whole machine in that time, or those counted by strace.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TICK = os.sysconf('SC_CLK_TCK')

# An nvidia-smi that prints recorded output for each query.
REPLAY = r'''
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>
int main(int count, char **words) {
    const char *query = count > 1 ? words[1] : "";
    int from = open(strstr(query, "display_active") ? FOLDER "/more" : strstr(query, "query-gpu") ? FOLDER "/query" :
                    strstr(query, "apps") ? FOLDER "/apps" : FOLDER "/none", O_RDONLY);
    char data[65536];
    for (ssize_t got; (got = read(from, data, sizeof data)) > 0;)
        if (write(1, data, (size_t)got) != got)
            return 1;
    return 0;
}
'''


def build(folder):
    library = os.path.join(folder, 'libnvidia-ml.so.1')
    subprocess.check_call(['cc', '-shared', '-fPIC', '-O2', '-fvisibility=hidden', '-Wl,-soname,libnvidia-ml.so.1',
                           '-o', library, os.path.join(ROOT, 'tests/stubs/nvml.c')])


def scenario(devices, pids):
    """Returns a scenario of busy devices whose values and counters all change."""
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
    for number, pid in enumerate(pids):
        lines.append('proc %d %d 13800 sm=%d%%30 mem=%d' % (number % devices, pid, 10 + number, number))
    return '\n'.join(lines) + '\n'


def built_probe(name):
    """Returns the newest probe script that `cargo build` has packed."""
    target = os.environ.get('CARGO_TARGET_DIR') or os.path.join(ROOT, 'target')
    found = glob.glob(os.path.join(target, '*/build/gtop-*/out', name))
    if not found:
        sys.exit('no %s below %s; cargo build first' % (name, target))
    return open(max(found, key=os.path.getmtime), 'rb').read()


def process_tree(pid):
    """Returns the pids of a process and its descendants."""
    out, children = [], {}
    for path in glob.glob('/proc/[0-9]*/stat'):
        try:
            words = open(path).read().rsplit(')', 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(path.split('/')[2]))
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        out.append(one)
        waiting += children.get(one, [])
    return out


def cpu_seconds(pids):
    """Returns the CPU seconds of these processes."""
    nanoseconds = 0
    for pid in pids:
        nanoseconds += int(open('/proc/%d/schedstat' % pid).read().split()[0])
    return nanoseconds / 1e9


def cpu_with_children(pids):
    """Returns the CPU seconds of these processes and their ended children, in clock ticks."""
    ticks = 0
    for pid in pids:
        try:
            ticks += sum(int(word) for word in open('/proc/%d/stat' % pid).read().rsplit(')', 1)[1].split()[11:15])
        except OSError:
            pass
    return ticks / TICK


def memory(pids):
    """Returns KiB in use as if nothing else ran: private memory by process, and mapped files, each page once."""
    private, files = {}, {}
    for pid in pids:
        try:
            for line in open('/proc/%d/smaps_rollup' % pid):
                if line.startswith('Pss_Anon:'):
                    private[pid] = int(line.split()[1])
            mapping = None
            for line in open('/proc/%d/smaps' % pid):
                words = line.split()
                if '-' in words[0] and ':' not in words[0]:
                    mapping = (words[5], words[2]) if len(words) > 5 else None
                elif words[0] == 'Rss:':
                    resident = int(words[1])
                elif words[0] == 'Anonymous:' and mapping is not None and mapping[0][0] == '/':
                    files[mapping] = max(files.get(mapping, 0), resident - int(words[1]))
        except OSError:
            pass        # the process has exited
    return private, sum(files.values())


class Session:
    """A running probe, kept alive by heartbeats."""

    def __init__(self, command, environment, interval):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
                                        start_new_session=True)
        self.process.stdin.write(b'bench %r 30 0 - -\n' % interval)
        self.process.stdin.flush()

    def sample(self):
        """Returns the length of the next sample's line, and the parsed sample."""
        while True:
            line = self.process.stdout.readline()
            frame = json.loads(line.split(b'gtop1 ', 1)[1].decode())
            if frame['t'] == 'sample':
                return len(line), frame

    def samples(self, count):
        for number in range(count):
            yield self.sample()
            if number % 10 == 0:
                self.process.stdin.write(b'{"id":%d,"node":"bench","verb":"heartbeat"}\n' % number)
                self.process.stdin.flush()

    def process_tree(self):
        return process_tree(self.process.pid)

    def end(self):
        """Closes its input; returns the seconds until it has exited."""
        began = time.monotonic()
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait()
        return time.monotonic() - began


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
    parser.add_argument('--amd', action='store_true', help='AMD devices instead of NVIDIA ones')
    parser.add_argument('--focus', action='store_true', help='also measure what `w` does')
    parser.add_argument('--strace', action='store_true', help='count the forks by strace; CPU then means nothing')
    parser.add_argument('--sh', nargs='?', const='dash', metavar='SHELL', help='the sh probe; "busybox sh" is one word')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not options.amd:
            build(folder)
        users = [subprocess.Popen(['sleep', '100000']) for _ in range(options.devices * options.processes)]
        try:
            prepare(options, folder, [user.pid for user in users])
        finally:
            for user in users:
                user.kill()


def python_source():
    text = open(os.path.join(ROOT, 'crates/collect/src/probe/script.rs')).read()
    load = re.search(r'BOOTSTRAP: &str = r#"(.*?)"#', text, re.S).group(1)
    return load.encode() + b'\0' + built_probe('probe.py.z')


def python_command(python, path):
    """Returns a command that loads the probe as on a node, with the source in a file."""
    return [python, '-ISu', '-c', 'import sys;b=open(sys.argv[1],"rb").read();exec(b[:b.index(0)]);b=0;load(_p)', path]


def loader_environment(**more):
    """Returns the environment that the loader sets up."""
    text = open(os.path.join(ROOT, 'crates/collect/src/probe.rs')).read()
    words = re.search(r'MALLOC_SETTINGS: &str =\s*"(.*?)"', text).group(1).split()
    return dict(os.environ, **dict([word.split('=') for word in words], **more))


def shell_source():
    return built_probe('probe.sh').decode()


def make_amd_files(folder, devices, pids):
    """Creates the files of the amdgpu driver for this many MI300X and their processes."""
    def file(path, contents):
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as out:
            out.write(contents if isinstance(contents, bytes) else contents.encode() + b'\n')
    for i in range(devices):
        pci = '0000:%02x:00.0' % (5 + 16 * i)
        card = 'sys/devices/pci0000:00/%s/' % pci
        for name, contents in (
                ('vendor', '0x1002'), ('class', '0x120000'), ('device', '0x74a1'), ('unique_id', '%016x' % (i + 1)),
                ('power/runtime_status', 'active'), ('power/control', 'on'), ('gpu_busy_percent', '97'),
                ('mem_busy_percent', '41'), ('mem_info_vram_total', '206141652992'), ('mem_info_vram_used', '1374389534'),
                ('mem_info_gtt_total', '1081837019136'), ('mem_info_gtt_used', '27262976'), ('pp_dpm_sclk', '0: 132Mhz *'),
                ('pp_dpm_mclk', '0: 900Mhz *'), ('current_link_speed', '32.0 GT/s PCIe'), ('current_link_width', '16'),
                ('max_link_speed', '32.0 GT/s PCIe'), ('max_link_width', '16'), ('ras/umc_err_count', 'ue: 0\nce: 0'),
                ('hwmon/hwmon3/temp2_input', '71000'), ('hwmon/hwmon3/temp3_input', '63000'),
                ('hwmon/hwmon3/power1_input', '702000000'), ('hwmon/hwmon3/power1_cap', '750000000'),
                ('hwmon/hwmon3/freq1_input', '2098000000'), ('hwmon/hwmon3/freq2_input', '1300000000'),
                ('gpu_metrics', b'\xe8\x03\x01\x06' + bytes(996))):
            file(card + name, contents)
        for link in ('sys/bus/pci/devices/' + pci, 'sys/class/drm/card%d/device' % i):
            os.makedirs(os.path.dirname(os.path.join(folder, link)), exist_ok=True)
            os.symlink(os.path.join(folder, card), os.path.join(folder, link))
        node = 'sys/class/kfd/kfd/topology/nodes/%d/' % i
        file(node + 'gpu_id', str(4000 + i))
        file(node + 'properties', 'simd_count 1216\nsimd_per_cu 4\nlocation_id %d\ndomain 0' % ((5 + 16 * i) << 8))
    for number, pid in enumerate(pids):
        for i in range(devices):
            process = 'sys/class/kfd/kfd/proc/%d/' % pid
            file(process + 'vram_%d' % (4000 + i), '13800000' if number % devices == i else '0')
            file(process + 'stats_%d/cu_occupancy' % (4000 + i), '30')
        for queue in range(4):
            file(process + 'queues/%d/gpuid' % queue, str(4000 + number % devices))


def build_replay(folder):
    """Builds a cheap nvidia-smi that replays recorded output; returns the CPU time of a call in milliseconds."""
    stub = os.path.join(ROOT, 'tests/stubs/nvidia-smi')
    environment = dict(os.environ, NVML_STUB_STATE=os.path.join(folder, 'state'))
    text = open(os.path.join(ROOT, 'probes/nvidia_smi.py')).read().split('SMI_FOLDERS')[0]
    names = {}
    exec(text, names)
    for name, query in (('query', '--query-gpu=' + ','.join(names['SMI_FIELDS'])),
                        ('more', '--query-gpu=' + ','.join(names['SMI_MORE'] + names['SMI_NEWER'])),
                        ('apps', '--query-compute-apps=' + names['SMI_APPS'])):
        with open(os.path.join(folder, name), 'wb') as out:
            subprocess.check_call([stub, query, '--format=csv,noheader,nounits'], stdout=out, env=environment)
    source, program = os.path.join(folder, 'replay.c'), os.path.join(folder, 'nvidia-smi')
    open(source, 'w').write(REPLAY)
    subprocess.check_call(['cc', '-O2', '-static', '-DFOLDER="%s"' % folder, '-o', program, source])
    before = os.times()
    for _ in range(200):
        subprocess.call([program, '--query-gpu=index'], stdout=subprocess.DEVNULL)
    after = os.times()
    return (after.children_user + after.children_system - before.children_user - before.children_system) / 200 * 1000


def prepare(options, folder, pids):
    path, state, trace = [os.path.join(folder, name) for name in ('probe', 'state', 'trace')]
    open(state, 'w').write(scenario(options.devices, pids))
    environment = loader_environment(NVML_STUB_STATE=state)
    if options.amd:
        make_amd_files(folder, options.devices, pids)
        environment['GTOP_ROOT'] = folder
    if options.sh:
        options.call = build_replay(folder)
        open(path, 'w').write(shell_source())
        command = options.sh.split() + ['-c', 's=$(cat %s); eval "$s"' % path]
        environment['PATH'] = folder + ':' + environment['PATH']
        options.title = options.sh
    else:
        open(path, 'wb').write(python_source())
        command = python_command(options.python, path)
        environment['LD_LIBRARY_PATH'] = folder
        options.title = subprocess.check_output([options.python, '-V']).decode().strip()
    if options.strace:
        command = [shutil.which('strace'), '-f', '-qq', '-e', 'trace=fork,vfork,clone,clone3', '-o', trace] + command
    run(options, command, environment, trace)


def measure_focus(session, seconds=13.0):
    """Prints the samples per second of each group in focus, and the probe's CPU use: measured here, and as it says itself."""
    session.process.stdin.write(b'{"id":1,"node":"bench","verb":"focus","seconds":0.05}\n')
    session.process.stdin.flush()
    pids, counts, costs = session.process_tree(), {}, []
    began, before = time.monotonic(), cpu_seconds(pids)
    while time.monotonic() - began < seconds:
        frame = session.sample()[1]
        parts = [part for part in frame.get('backends', []) if 'devices' in part or 'csv' in part]
        groups = ['host'] + ['devices'] * bool(parts) + [key for key in ('processes', 'host_slow') if key in frame]
        for group in groups:
            counts[group] = counts.get(group, 0) + 1
        costs += [frame['cost']['cpu']] if 'cost' in frame else []
    lasted, cpu = time.monotonic() - began, cpu_seconds(pids) - before
    print('focus     %s per second; CPU %.2f %% of a core, by the probe itself %s' % (
        ', '.join('%s %.1f' % (group, count / lasted) for group, count in sorted(counts.items())), 100 * cpu / lasted,
        ' '.join('%.2f' % cost for cost in costs) or 'unknown'))


def run(options, command, environment, trace):
    session, cpu_of = Session(command, environment, options.interval), cpu_with_children if options.sh else cpu_seconds
    for _ in range(5):
        session.sample()
    pids = session.process_tree()
    began, before, forked, sizes, took = time.monotonic(), cpu_of(pids), forks(), [], []
    traced = os.path.getsize(trace) if options.strace else 0
    for length, frame in session.samples(options.ticks):
        sizes.append(length)
        took.append(frame['took'])
    lasted, cpu, forked = time.monotonic() - began, cpu_of(pids) - before, forks() - forked
    private, files = memory(pids)
    sizes.sort()
    took.sort()
    print('%s, %d devices, %d processes per device, %d ticks of %g s' % (
        options.title, options.devices, options.processes, options.ticks, options.interval))
    print('CPU       %.2f ms per tick, %.2f %% of a core' % (1000 * cpu / options.ticks, 100 * cpu / lasted))
    if options.sh:
        calls = lasted * (1 + 1 / 2 + 1 / 10)       # devices, processes, the slow group
        mine = 1000 * cpu - calls * options.call
        print('alone     %.2f ms per tick without nvidia-smi (%.2f ms per call)' % (mine / options.ticks, options.call))
    print('took      %.1f ms median, %.1f ms maximum' % (took[len(took) // 2], took[-1]))
    print('memory    %.1f MiB: files %.1f, private %s' % (
        (sum(private.values()) + files) / 1024, files / 1024, ' '.join('%.1f' % (size / 1024) for size in private.values())))
    print('samples   %d B mean, %d B median, %d B maximum' % (
        sum(sizes) / len(sizes), sizes[len(sizes) // 2], sizes[-1]))
    if options.strace:
        print('forks     %d lines of strace' % open(trace).read()[traced:].count('\n'))
    else:
        print('forks     %d on the whole machine in that time' % forked)
    if options.focus:
        measure_focus(session)
    print('end       %.0f ms after stdin was closed' % (1000 * session.end()))
    sys.stdout.flush()


if __name__ == '__main__':
    main()
