# The Xids in the kernel's log, which only root may read: those since the boot, also of devices that the driver lists no more.
# A record begins with a number that tells who wrote it: below 8 it was the kernel, which no program can write.
KERNEL_LOG = '/dev/kmsg'
MAX_RECORD = 8192  # the kernel's own limit
MAX_READ_SECONDS = 0.05  # for each sample
MAX_LINES = 64  # that wait to be sent
MAX_DEVICE_LINES = 8  # the same of one device


def parse_xid(text):
    """Returns what the text of a record tells of an Xid, or None."""
    place, is_place, rest = text.partition('): ')
    code, _, words = rest.partition(', ')
    address, _, instance = place.partition(' ')
    address = address[4:] if address.startswith('PCI:') else address
    if not is_place or not code.isdigit() or len(code) > 5 or not 7 <= len(address) <= 16 or address.strip('0123456789abcdef:'):
        return None
    line = {'pci': address, 'code': int(code)}
    if instance[:6] == 'GPU-I:' and instance[6:8].isdigit():
        line['instance'] = int(instance[6:8])
    for key in ('pid', 'name'):
        if words.startswith(key + '='):
            value, _, words = words[len(key) + 1:].partition(', ')
            value = value.strip("'")
            if key == 'name' and value != '<unknown>':
                line['process'] = value[:32]
            elif key == 'pid' and value.isdigit() and len(value) < 10:
                line['pid'] = int(value)
    line['message'] = words[:160]
    return line


class KernelLog:
    def __init__(self):
        self.lines = []  # those not sent yet, oldest first
        self.driver_loaded = None  # when NVIDIA's driver was loaded last, if the log goes back so far
        self.fd = None
        try:
            # Containers may have a link to their console there.
            self.fd = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
        except OSError:
            return
        if os.isatty(self.fd):
            self.close()

    def close(self):
        os.close(self.fd)
        self.fd = None

    def read(self):
        """Reads what was logged, for a short time: the rest comes with the next sample."""
        end = time.monotonic() + MAX_READ_SECONDS
        while self.fd is not None and time.monotonic() < end:
            try:
                record = os.read(self.fd, MAX_RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:  # the next records were overwritten
                continue
            except OSError:
                record = b''
            if record:
                self.add(record)
            else:
                self.close()

    def add(self, record):
        head, _, text = record.partition(b'\n')[0].partition(b';')
        numbers = head.split(b',')[:3]
        is_record = len(numbers) == 3 and all([word.isdigit() and len(word) < 20 for word in numbers])
        if text[:6] != b'NVRM: ' or not is_record or int(numbers[0]) > 7:
            return
        # The kernel's stamps are not adjusted to other clocks, and neither this clock nor they run while the node sleeps.
        age = time.clock_gettime(time.CLOCK_MONOTONIC_RAW) - int(numbers[2]) / 1e6
        at = time.monotonic() - max(0.0, age)
        if text[6:26] == b'loading NVIDIA UNIX ':
            self.driver_loaded = at
        line = parse_xid(text[11:].decode('ascii', 'replace')) if text[6:11] == b'Xid (' else None
        if line:
            self.keep(dict(line, seq=int(numbers[1]), logged=at))

    def keep(self, line):
        """Keeps a line until it is sent; of too many of a device, the oldest is counted with the next one like it."""
        self.lines.append(line)
        own = [known for known in self.lines if known['pci'] == line['pci']]
        if len(own) > MAX_DEVICE_LINES:
            oldest = own.pop(0)
            self.lines.remove(oldest)
            alike = [known for known in own if (known['code'], known.get('instance')) == (oldest['code'], oldest.get('instance'))]
            for known in alike[:1]:
                known['count'] = known.get('count', 1) + oldest.get('count', 1)
                known['first'] = oldest.get('first', oldest['seq'])
                known['since'] = oldest.get('since', oldest['logged'])
        del self.lines[:-MAX_LINES]
