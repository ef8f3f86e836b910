# Metrics of the host: its identity once, counters at each tick, and (in a child) values that may be slow to read.
SECTOR_BYTES = 512
MAX_HOST_DEVICES = 16  # interfaces, ports, disks
LOCAL_FILE_SYSTEMS = ('ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'zfs', 'f2fs', 'jfs', 'reiserfs', 'bcachefs')


def read(path, max_bytes=65536):
    """Returns the beginning of a small file, or b'' if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return b''
    try:
        return os.read(fd, max_bytes)
    except OSError:
        return b''
    finally:
        os.close(fd)


def read_text(path):
    return read(path).decode('utf-8', 'replace').strip()


def list_folder(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def read_number(path):
    data = read(path, 64).strip()
    return int(data) if data.isdigit() else None


def parse_counter(word):
    """Parses an unsigned 64-bit integer; raises ValueError otherwise."""
    value = int(word)
    if value >> 64:
        raise ValueError
    return value


def parse_amount(word, maximum):
    """Parses a number from 0 to `most`; raises ValueError otherwise."""
    value = float(word)
    if not 0 <= value <= maximum:
        raise ValueError
    return value


def mounts():
    """Returns (type, device, path, options) of each mount, oldest first."""
    rows = []
    for line in read('/proc/self/mounts', 1 << 20).split(b'\n'):
        parts = line.split(b' ')
        if len(parts) < 4:
            continue
        path = parts[1]
        for code, byte in ((b'\\040', b' '), (b'\\011', b'\t'), (b'\\012', b'\n'), (b'\\134', b'\\')):
            path = path.replace(code, byte)
        rows.append((parts[2].decode('ascii', 'replace'), parts[0], path, parts[3]))
    return rows


def hidepid():
    names = {b'off': 0, b'noaccess': 1, b'invisible': 2, b'ptraceable': 4}
    mode = 0
    for kind, _, path, options in mounts():
        if kind == 'proc' and path == b'/proc':
            mode = 0
            for option in options.split(b','):
                if option.startswith(b'hidepid='):
                    value = option[8:]
                    mode = names.get(value, int(value) if value.isdigit() else 0)
    return mode


def identity():
    """Returns the keys of hello that never change."""
    name = os.uname()
    return {'host': name.nodename, 'boot': read_text('/proc/sys/kernel/random/boot_id')[:64], 'kernel': name.release,
            'arch': name.machine, 'cpus': os.cpu_count() or 1, 'tick': os.sysconf('SC_CLK_TCK'),
            'page': os.sysconf('SC_PAGE_SIZE'), 'uid': CALLER[0], 'hidepid': hidepid(),
            'version': '%d.%d.%d' % sys.version_info[:3], 'path': (sys.executable or '')[:255]}


class Host:
    """Counters and gauges that are cheap enough for every tick; the lists of devices are refreshed every 10 s."""

    def __init__(self):
        self.found_at = None
        self.nets = []
        self.ports = []
        self.disks = []

    def find_devices(self):
        self.nets = [n for n in list_folder('/sys/class/net') if os.path.exists('/sys/class/net/%s/device' % n)][:MAX_HOST_DEVICES]
        self.disks = [n for n in list_folder('/sys/block') if os.path.exists('/sys/block/%s/device' % n)
                      and not n.startswith(('sr', 'fd', 'mtd'))][:MAX_HOST_DEVICES]
        self.ports = [(d, p) for d in list_folder('/sys/class/infiniband')
                      for p in list_folder('/sys/class/infiniband/%s/ports' % d)][:MAX_HOST_DEVICES]

    def sample(self, now):
        if self.found_at is None or now - self.found_at >= 10.0:
            self.find_devices()
            self.found_at = now
        out = {'at': now}
        for name in ('cpu', 'load', 'uptime', 'pressure', 'net', 'infiniband', 'disk'):
            try:
                value = getattr(self, name)()
            except (ValueError, IndexError):
                continue  # /proc of a container may be malformed
            if value or name in ('net', 'disk'):
                out[name] = value
        self.memory(out)
        return out

    def cpu(self):
        ticks = read('/proc/stat', 512).split(b'\n', 1)[0].split()[1:9]
        return [parse_counter(t) for t in ticks] if len(ticks) == 8 else None

    def load(self):
        return [parse_amount(x, 1e6) for x in read('/proc/loadavg', 128).split()[:3]]

    def uptime(self):
        return parse_amount(read('/proc/uptime', 64).split()[0], 1e10)

    def memory(self, out):
        names = {b'MemTotal': 'memory_total', b'MemAvailable': 'memory_available', b'Buffers': 'memory_buffers',
                 b'SwapTotal': 'swap_total', b'SwapFree': 'swap_free'}
        found = {}
        for line in read('/proc/meminfo', 4096).split(b'\n'):
            key, _, value = line.partition(b':')
            if key in names or key in (b'Cached', b'SReclaimable', b'Shmem'):
                try:
                    found[key] = int(parse_amount(value.split()[0], 1 << 43)) * 1024
                except (ValueError, IndexError):
                    continue
        out.update((names[key], value) for key, value in found.items() if key in names)
        if b'Cached' in found:
            out['memory_cached'] = max(0, found[b'Cached'] + found.get(b'SReclaimable', 0) - found.get(b'Shmem', 0))

    def pressure(self):
        out = {}
        for name in ('cpu', 'memory', 'io'):
            words = read('/proc/pressure/' + name, 256).split()
            if len(words) > 1 and words[0] == b'some' and words[1].startswith(b'avg10='):
                out[name] = parse_amount(words[1][6:], 100)
        return out

    def net(self):
        out = []
        for line in read('/proc/net/dev').split(b'\n')[2:]:
            name, _, rest = line.decode('ascii', 'replace').rpartition(':')
            words = rest.split()
            if name.strip() in self.nets and len(words) > 8:
                out.append({'name': name.strip(), 'rx': parse_counter(words[0]), 'tx': parse_counter(words[8])})
        return out

    def infiniband(self):
        out = []
        for device, port in self.ports:
            folder = '/sys/class/infiniband/%s/ports/%s/counters/port_' % (device, port)
            received, sent = read_number(folder + 'rcv_data'), read_number(folder + 'xmit_data')
            if received is not None and sent is not None:
                out.append({'name': device + '/' + port, 'rx': received * 4, 'tx': sent * 4})
        return out

    def disk(self):
        out = []
        for line in read('/proc/diskstats').decode('ascii', 'replace').split('\n'):
            words = line.split()
            if len(words) > 9 and words[2] in self.disks:
                out.append({'name': words[2], 'read': parse_counter(words[5]) * SECTOR_BYTES, 'write': parse_counter(words[9]) * SECTOR_BYTES})
        return out


def temperature():
    """Returns the temperature of the hottest processor package in °C, or None without a sensor."""
    temperatures = []
    for name in list_folder('/sys/class/hwmon'):
        folder = '/sys/class/hwmon/' + name
        if read_text(folder + '/name') in ('coretemp', 'k10temp', 'zenpower'):
            value = read_number(folder + '/temp1_input')
            if value is not None:
                temperatures.append(value / 1000.0)
    return max(temperatures) if temperatures else None


def mount_points():
    """Returns up to 8 mount points of local file systems, the usual ones first."""
    preferred = [b'/', b'/tmp', b'/dev/shm', b'/scratch', b'/local', b'/var/tmp', b'/home', b'/data']
    by_path = {}
    for kind, device, path, _ in mounts():
        if kind in LOCAL_FILE_SYSTEMS or (kind == 'tmpfs' and path in (b'/tmp', b'/dev/shm')) or path == b'/':
            # A later mount on the same path hides the earlier one.
            by_path[path] = (kind, device)
        else:
            by_path.pop(path, None)
    devices = {}
    for path in sorted(by_path, key=lambda p: (p not in preferred, preferred.index(p) if p in preferred else len(p), p)):
        kind, device = by_path[path]
        if kind in LOCAL_FILE_SYSTEMS + ('tmpfs', 'overlay') and not path.startswith((b'/boot', b'/snap', b'/var/lib/')):
            devices.setdefault(path if kind == 'tmpfs' else device, path)
    return list(devices.values())[:8]


def slow_facts(child):
    """Reads the values that may wait for a disk or a sensor bus."""
    space = []
    for path in mount_points():
        child.report_call('statvfs ' + path.decode('utf-8', 'replace'))
        try:
            stats = os.statvfs(path)
        except OSError:
            continue
        space.append({'path': path.decode('utf-8', 'replace')[:256], 'total': stats.f_blocks * stats.f_frsize,
                      'free': stats.f_bavail * stats.f_frsize})
    child.report_call('hwmon')
    return {'at': time.monotonic(), 'temperature': temperature(), 'space': space}
