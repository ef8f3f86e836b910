# TPU chips in the kernel: PCI functions, device nodes, and the processes that have those open.
GIB = 1 << 30
# PCI device (and subsystem where shared) -> name, bytes of memory of a chip, cores that the runtime counts.
TPU_KINDS = {'0x0027 0x004e': ('v2', 16 * GIB, 2), '0x0027 0x004f': ('v3', 32 * GIB, 2), '0x005e': ('v4', 32 * GIB, 1),
             '0x0063': ('v5e', 16 * GIB, 1), '0x0062': ('v5p', 95 * GIB, 1), '0x006f': ('v6e', 32 * GIB, 1),
             '0x0076': ('v7x', 192 * GIB, 2)}
TPU_LINKS_PER_SCAN = 1024  # links of /proc read in one round; a machine has tens of thousands
TPU_NEW_PROCESS_AGE = 60.0  # seconds that a new process is scanned each round: it opens its chips some time after its start
TPU_ENVIRONMENT = '/home/tpu-runtime/tpu-env'
TPU_PORTS = b'TPU_RUNTIME_METRICS_PORTS'
TPU_DEFAULT_PORTS = list(range(8431, 8439))
TPU_MAX_CHIPS = 64


def tpu_list(path):
    try:
        return sorted(os.listdir(ROOT + path))
    except OSError:
        return []


def tpu_read_word(path):
    return read(ROOT + path, 64).strip().decode('ascii', 'replace')


def tpu_link_name(path):
    """Returns the last component of a link's target."""
    try:
        return os.path.basename(os.readlink(ROOT + path))
    except OSError:
        return ''


def tpu_read_all(path):
    """Returns the first 64 KiB of a file that the kernel returns page by page."""
    try:
        fd = os.open(ROOT + path, os.O_RDONLY)
    except OSError:
        return b''
    out, data = b'', b' '
    try:
        while data and len(out) < 65536:
            data = os.read(fd, 65536)
            out += data
    except OSError:
        pass
    os.close(fd)
    return out


class Chip:
    """One chip: a PCI function, or all functions of a slot."""

    def __init__(self, address, kind):
        self.address = address
        self.name, self.capacity, self.cores = kind
        self.nodes = []
        self.values, self.sent, self.pids = {}, {}, []

    def sort_key(self):
        """Returns the number of the first device node, compared as a number, and the PCI address."""
        digits = [''.join(filter(str.isdigit, node)) for node in self.nodes]
        return int(digits[0]) if digits else 1 << 30, self.address


def tpu_chips():
    """Returns all chips in the order in which runtimes count them."""
    found, folder = {}, '/sys/bus/pci/devices/'
    accels = {tpu_link_name('/sys/class/accel/%s/device' % name): '/dev/' + name for name in tpu_list('/sys/class/accel')}
    for address in tpu_list(folder):
        path = folder + address
        words = [tpu_read_word(path + '/' + word) for word in ('vendor', 'device', 'subsystem_device', 'class')]
        if not is_tpu(*words):
            continue
        device = words[1]
        kind = TPU_KINDS.get(device) or TPU_KINDS.get(device + ' ' + words[2]) or ('(%s)' % device[:8], None, None)
        # The two cores of a v7x are functions of the same slot.
        slot = address.rpartition('.')[0] if kind[0] == 'v7x' else address
        chip = found.setdefault(slot, Chip(address, kind))
        group = tpu_link_name(path + '/iommu_group')
        for node in ('/dev/vfio/' + group if group.isdigit() else '', accels.get(address, '')):
            if node and os.path.exists(ROOT + node):
                chip.nodes.append(node)
                break
        chip.numa = tpu_read_word(path + '/numa_node')
    chips = sorted(found.values(), key=Chip.sort_key)[:TPU_MAX_CHIPS]
    unlinked = sorted((name for name in tpu_list('/dev') if name[:5] == 'accel' and name[5:].isdigit()),
                   key=lambda name: int(name[5:]))
    if len(unlinked) == len(chips) and not any(chip.nodes for chip in chips):
        # An older driver has no links between them; both are in the order of the bus.
        for chip, name in zip(chips, unlinked):
            chip.nodes.append('/dev/' + name)
    return chips


def tpu_ports(text):
    """Returns the ports of a list such as b'8431,8432', with or without quotes."""
    words = text.decode('ascii', 'replace').strip('\'" \t\r').split(',')
    numbers = [int(word) for word in words if word.isdigit() and len(word) < 6]
    return [number for number in numbers if 0 < number < 65536][:16]


def tpu_ports_in(lines):
    """Returns the ports in the lines `KEY=value` or `KEY: value`."""
    for line in lines:
        if line.startswith(TPU_PORTS) and line[len(TPU_PORTS):len(TPU_PORTS) + 1] in (b'=', b':'):
            return tpu_ports(line[len(TPU_PORTS) + 1:])
    return []


class ChipHolders:
    """The processes that have the chips' device nodes open, as far as /proc shows them."""

    def __init__(self):
        self.chip_by_node = {}  # {device node: chip}
        self.chips_by_pid = {}  # {pid: {chip}}
        self.sockets = {}  # {pid: {inode as text}} of these processes
        self.ports = {}  # {pid: [port]} from their environment
        self.denied = set()  # pids whose files cannot be read
        self.first_seen = None  # {pid: when it was first seen}
        self.next_pid = 0
        self.is_urgent = True  # scan more in the next round

    def scan(self, now):
        """Scans the known holders, new processes, and some of the others in turn."""
        pids = sorted(int(name) for name in tpu_list('/proc') if name.isdigit())
        links_left, self.is_urgent = 32 * TPU_LINKS_PER_SCAN if self.is_urgent else TPU_LINKS_PER_SCAN, False
        # Processes older than the probe are not new.
        unknown_at = now - TPU_NEW_PROCESS_AGE if self.first_seen is None else now
        self.first_seen = {pid: (self.first_seen or {}).get(pid, unknown_at) for pid in pids}
        urgent = set(pid for pid in pids if pid in self.chips_by_pid or now - self.first_seen[pid] < TPU_NEW_PROCESS_AGE)
        rotation = [pid for pid in pids if pid > self.next_pid] + [pid for pid in pids if pid <= self.next_pid]
        for by_pid in (self.chips_by_pid, self.sockets, self.ports):
            for pid in [pid for pid in by_pid if pid not in self.first_seen]:
                del by_pid[pid]
        self.denied.intersection_update(pids)
        for pid in sorted(urgent, key=lambda pid: (pid not in self.chips_by_pid, pid)):
            if links_left > 0 or pid in self.chips_by_pid:
                links_left -= self.read(pid)
        for pid in rotation:
            if links_left <= 0:
                break
            if pid not in urgent:
                links_left -= self.read(pid)
            self.next_pid = pid

    def read(self, pid):
        """Reads the open files of one process; returns how many links were read."""
        path = '/proc/%d/fd/' % pid
        try:
            names = os.listdir(ROOT + path)
        except OSError as error:
            (self.denied.add if error.errno in (1, 13) else self.denied.discard)(pid)
            self.chips_by_pid.pop(pid, None)
            return 1
        self.denied.discard(pid)
        chips, sockets = set(), set()
        for name in names[:65536]:
            try:
                target = os.readlink(ROOT + path + name)
            except OSError:
                continue
            if target in self.chip_by_node:
                chips.add(self.chip_by_node[target])
            elif target.startswith('socket:['):
                sockets.add(target[8:-1])
        if chips:
            self.chips_by_pid[pid], self.sockets[pid] = chips, sockets
            if pid not in self.ports:
                self.ports[pid] = tpu_ports_in(tpu_read_all('/proc/%d/environ' % pid).split(b'\0'))
        else:
            self.chips_by_pid.pop(pid, None)
        return 1 + len(names)

    def holders_of(self, chip):
        return sorted(pid for pid, chips in self.chips_by_pid.items() if chip in chips)

    def all_ports(self):
        """Returns the ports on which runtimes may serve metrics."""
        port_lists = [self.ports.get(pid, []) for pid in self.chips_by_pid]
        found = set(port for ports in port_lists for port in ports)
        if not all(port_lists) or not port_lists or self.denied:
            own_ports = tpu_ports(os.environ.get(TPU_PORTS.decode(), '').encode('ascii', 'replace'))
            found.update(own_ports or tpu_ports_in(read(ROOT + TPU_ENVIRONMENT, 65536).split(b'\n')) or TPU_DEFAULT_PORTS)
        return sorted(found)[:32]

    def servers(self):
        """Returns {port: pids} of the holders that listen on a port."""
        out = {}
        for pid in self.chips_by_pid:
            for name in ('tcp', 'tcp6'):
                # Listening sockets come first.
                for line in tpu_read_all('/proc/%d/net/%s' % (pid, name)).split(b'\n')[1:]:
                    words = line.split()
                    if len(words) > 9 and words[3] == b'0A' and words[9].decode('ascii', 'replace') in self.sockets[pid]:
                        out.setdefault(int(words[1].rpartition(b':')[2], 16), set()).add(pid)
        return out
