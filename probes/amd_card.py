# One AMD card in sysfs (amdgpu driver): its own files and those of its hwmon. Names, units and layouts are the kernel's
# (Documentation/gpu/amdgpu, drivers/gpu/drm/amd). Reading never wakes a suspended card and never prevents one from
# suspending; pcie_bw, which sleeps for a second in the driver, is never opened.
AMD_MIN_PAUSE = 10.0  # seconds an idle card is not read, or twice its autosuspend delay
BYTES, CELSIUS, MICROWATTS, HERTZ = (0, 1 << 53), (-100000, 300000), (0, 10 ** 11), (0, 10 ** 11)

# errno of a failed read and the reason that is reported. During a reset it is EPERM or EBUSY.
AMD_REFUSALS = {1: 'not available', 11: 'not available', 16: 'not available', 19: 'not available',
                13: 'no permission', 2: 'not supported', 22: 'not supported', 38: 'not supported',
                61: 'not supported', 95: 'not supported'}

# (key, files of which the first readable one counts, divisor, minimum and maximum before division); @ is the hwmon.
# A value below the minimum means unknown.
AMD_FAST = (
    ('util', ('gpu_busy_percent',), 1, (0, 100)), ('memory_util', ('mem_busy_percent',), 1, (0, 100)),
    ('video', ('vcn_busy_percent',), 1, (0, 100)),
    ('memory_used', ('mem_info_vram_used',), 1, BYTES), ('gtt_used', ('mem_info_gtt_used',), 1, BYTES),
    # Accelerators without an edge sensor have the junction sensor only.
    ('temperature', ('@temp1_input', '@temp2_input'), 1000.0, CELSIUS),
    ('temperature_junction', ('@temp2_input',), 1000.0, CELSIUS),
    ('temperature_memory', ('@temp3_input',), 1000.0, CELSIUS),
    ('power', ('@power1_average', '@power1_input'), 1000, MICROWATTS),
    ('power_average', ('@power1_average',), 1000, MICROWATTS), ('power_instant', ('@power1_input',), 1000, MICROWATTS),
    ('clock_sm', ('@freq1_input', 'pp_dpm_sclk'), 10 ** 6, HERTZ),
    ('clock_memory', ('@freq2_input', 'pp_dpm_mclk'), 10 ** 6, HERTZ))
AMD_SLOW = (
    ('fan', ('@pwm1',), 2.55, (0, 255)), ('fan_rpm', ('@fan1_input',), 1, (0, 100000)),
    ('power_limit', ('@power1_cap',), 1000, MICROWATTS), ('pcie_lanes', ('current_link_width',), 1, (1, 32)),
    ('pcie_replays', ('pcie_replay_count',), 1, (0, 1 << 63)))
# Values that stay valid while the card is suspended.
AMD_STATIC = (
    ('memory_total', ('mem_info_vram_total',), 1, BYTES), ('gtt_total', ('mem_info_gtt_total',), 1, BYTES),
    ('power_limit_max', ('@power1_cap_max',), 1000, MICROWATTS),
    ('power_limit_min', ('@power1_cap_min',), 1000, MICROWATTS),
    ('power_limit_default', ('@power1_cap_default',), 1000, MICROWATTS),
    ('temperature_slowdown', ('@temp1_crit', '@temp2_crit'), 1000.0, (1, 300000)),
    ('temperature_shutdown', ('@temp1_emergency', '@temp2_emergency'), 1000.0, (1, 300000)),
    ('junction_slowdown', ('@temp2_crit',), 1000.0, (1, 300000)),
    ('memory_slowdown', ('@temp3_crit',), 1000.0, (1, 300000)),
    ('pcie_lanes_max', ('max_link_width',), 1, (1, 32)))
AMD_SPEEDS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
AMD_TEXTS = (('performance_level', 'power_dpm_force_performance_level'),
             ('compute_partition', 'current_compute_partition'), ('memory_partition', 'current_memory_partition'))

# Offsets in gpu_metrics (kgd_pp_interface.h) by format and content revision: the device-independent throttle bits,
# those of the MI300, the residency counters that replaced them, the energy, and the values of the partitions (xcp_stats),
# which begin with the load of each compute die in percent.
METRICS_BITS = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
METRICS_MI300 = {(1, 4): 40, (1, 5): 104}
METRICS_RESIDENCIES = {(1, 6): 32, (1, 7): 40, (1, 8): 40}
METRICS_ENERGY = {(1, 4): 24, (1, 5): 88, (1, 6): 16, (1, 7): 24, (1, 8): 24}
METRICS_PARTITIONS = {(1, 6): 312, (1, 7): 344, (1, 8): 344}
METRICS_MAX_PARTITIONS, METRICS_MAX_DIES = 8, 8
# Device ids of processors with graphics, which have no memory of their own. The content of gpu_metrics tells, too: formats 2
# and 3 are theirs; but older kernels, and processors without it, do not.
INTEGRATED_FORMATS = (2, 3)
INTEGRATED_DEVICES = frozenset(
    ['0x%04x' % number for number in list(range(0x1304, 0x131e)) + list(range(0x9830, 0x9840)) + list(range(0x9850, 0x9860))] +
    '0x9870 0x9874 0x9875 0x9876 0x9877 0x98e4 0x15dd 0x15d8 0x15e7 0x1636 0x1638 0x164c 0x163f 0x1435 0x13fe 0x143f '
    '0x164d 0x1681 0x164e 0x1506 0x15bf 0x15c8 0x1900 0x1901 0x1902 0x150e 0x1586 0x1114 0x13c0'.split())
# NVML's throttle reasons: power cap, hardware slowdown, software thermal, hardware thermal.
POWER_CAP, HW_SLOWDOWN, SW_THERMAL, HW_THERMAL = 0x4, 0x8, 0x20, 0x40
# SMU_THROTTLER_*_BIT: below 32 power and current, up to 43 temperatures, up to 47 overheating signalled by pins.
SMU_MASKS = ((POWER_CAP, 0xffffffff), (SW_THERMAL, 0xfff << 32), (HW_THERMAL, 0xf << 44), (HW_SLOWDOWN, 0x3 << 56))
MI300_MASKS = ((HW_THERMAL, 1), (POWER_CAP, 2), (SW_THERMAL, 28))


def try_read(path, max_bytes=4096):
    """Returns the content of a file, or why it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            return os.read(fd, max_bytes)
        finally:
            os.close(fd)
    except OSError as error:
        return Unavailable(AMD_REFUSALS.get(error.errno, 'driver error'))


def parse_int(data):
    """Parses an integer; returns why there is none."""
    digits = data.strip()
    if not digits:
        return Unavailable('not available')
    if digits[digits[:1] == b'-':].isdigit() and len(digits) <= 20:
        return int(digits)
    return Unavailable('malformed')


def parse_levels(data):
    """Returns the current and the highest clock, in MHz, of a list of levels such as `1: 2100Mhz *`."""
    current, highest = None, None
    for line in data.split(b'\n')[:64]:
        line = line.strip()
        words = line.rstrip(b'*').split()
        digits = words[1][:-3] if len(words) == 2 and words[1][-3:].lower() == b'mhz' else b''
        if digits.isdigit() and len(digits) < 6:
            highest = max(highest or 0, int(digits))
            if line.endswith(b'*'):
                current = int(digits)
    return current, highest


def parse_generation(data):
    """Returns the PCIe generation of a speed such as `16.0 GT/s PCIe`."""
    try:
        return AMD_SPEEDS.get(float(data.split(b' ')[0]), Unavailable('not available'))
    except ValueError:
        return Unavailable('not available')


def partition_loads(version, data):
    """Returns the mean load of the compute dies of each partition, as gpu_metrics has it."""
    start = METRICS_PARTITIONS.get(version)
    # After the partitions comes one number, padded to 8 bytes; what each has grew without a new version.
    size = (len(data) - start - 8) // METRICS_MAX_PARTITIONS if start else 0
    if size < 4 * METRICS_MAX_DIES:
        return []
    count = min(struct.unpack_from('<H', data, start - 6)[0], METRICS_MAX_PARTITIONS)
    loads = []
    for number in range(count):
        dies = struct.unpack_from('<%dI' % METRICS_MAX_DIES, data, start + number * size)
        dies = [load for load in dies if load != 0xffffffff]
        if dies and max(dies) <= 100:
            loads.append(sum(dies) / len(dies))
        else:
            loads.append(Unavailable('malformed' if dies else 'not available'))
    return loads


class AmdCard(DeviceValues):
    """One card."""

    def __init__(self, folder, pci, index, memory, driver):
        self.folder, self.pci, self.index, self.memory = folder, pci, index, memory
        self.sent = {}
        self.values = {'name': self.product_name(), 'pci': pci, 'driver': driver}
        unique = read(folder + 'unique_id', 64).strip()
        is_unique = len(unique) == 16 and not unique.strip(b'0123456789abcdef') and unique.strip(b'0')
        self.uuid = 'GPU-' + unique.decode('ascii') if is_unique else pci  # as in rocminfo
        node = parse_int(try_read(folder + 'numa_node'))
        self.values['numa_node'] = node if node.__class__ is int and node >= 0 else Unavailable('not available')
        self.hwmon = folder
        self.plan = ()
        self.is_awake = self.is_used = self.has_metrics = False
        self.autosuspend_delay, self.paused_until, self.idle_vram = 0.0, 0.0, None
        self.is_integrated, self.carve_out = read_text(folder + 'device') in INTEGRATED_DEVICES, None
        self.residency, self.throttle_times, self.partition_loads = None, [0, 0, 0], []
        self.open = {}

    def product_name(self):
        """Returns the product name, or else the PCI device id."""
        name = printable(read_text(self.folder + 'product_name'))[:80].strip()
        device_id = read_text(self.folder + 'device')[:8]
        return name or 'AMD ' + (device_id if device_id.isalnum() else 'device')

    def path(self, name):
        return self.hwmon + name[1:] if name[:1] == '@' else self.folder + name

    def record_call(self, name):
        """Records the file to be read, so that the probe can name it if the read hangs."""
        self.memory[:96] = CALL_RECORD.pack(time.monotonic(), ('%s of %s' % (name, self.pci)).encode('ascii'))

    def try_read(self, name, max_bytes=4096):
        """Reads a file of the card once."""
        self.record_call(name)
        return try_read(self.path(name), max_bytes)

    def read_open(self, name):
        """Reads a file that stays open, because it is read at each sample; sysfs regenerates it at offset 0."""
        try:
            if name not in self.open:
                self.record_call(name)
                label = ('%s of %s' % (name, self.pci)).encode('ascii')
                self.open[name] = os.open(self.path(name), os.O_RDONLY), label
            fd, label = self.open[name]
            self.memory[:96] = CALL_RECORD.pack(time.monotonic(), label)
            return os.pread(fd, 4096, 0)
        except OSError as error:
            self.close(name)
            return Unavailable(AMD_REFUSALS.get(error.errno, 'driver error'))

    def close(self, *names):
        for name in names or list(self.open):
            if name in self.open:
                os.close(self.open.pop(name)[0])

    # -- suspension

    def is_asleep(self):
        """Returns true if the card is suspended or changing state: reading most files would wake it."""
        return read_text(self.folder + 'power/runtime_status') in ('suspended', 'suspending', 'resuming')

    def mark_asleep(self):
        """Marks the changing values as unavailable; the static ones stay."""
        self.is_awake = False
        asleep = Unavailable('asleep')
        for key in [row[0] for row in AMD_FAST + AMD_SLOW] + [word[0] for word in AMD_TEXTS] + [
                'memory_free', 'pcie_generation', 'throttle', 'ecc_corrected', 'ecc_uncorrected']:
            self.values[key] = asleep
        for key in [row[0] for row in AMD_STATIC] + ['pcie_generation_max', 'clock_sm_max', 'clock_memory_max']:
            if self.values.get(key, asleep).__class__ is Unavailable:
                self.values[key] = asleep

    def is_undivided(self):
        """Returns true if the driver does not say that the card is partitioned."""
        word = self.values.get('compute_partition')
        return word is None or word.__class__ is Unavailable or word == 'SPX'

    def is_paused(self, now):
        """Returns true if an idle card must not be read: each read restarts its autosuspend delay."""
        if now >= self.paused_until or self.is_used:
            return False
        # The driver answers this without waking the card.
        return read_number(self.folder + 'mem_info_vram_used') == self.idle_vram

    # -- values

    def sample(self, now, is_slow):
        if self.is_asleep():
            return self.mark_asleep()
        is_slow = is_slow or not self.is_awake
        if self.is_awake and self.is_paused(now):
            return None
        self.is_awake = True
        contents = {}
        if is_slow:
            self.read_slow(contents)
        kept = []
        for row in self.plan:
            value = self.values[row[0]] = self.value(row, contents, self.read_open)
            if value.__class__ is not Unavailable or value == 'not available':
                kept.append(row)
        self.plan = kept  # refused values are not read again before the next slow sample
        vram_used = self.values['memory_used']
        if self.is_integrated:
            self.add_host_memory()
        total, used = self.values['memory_total'], self.values['memory_used']
        is_known = total.__class__ is used.__class__ is int
        self.values['memory_free'] = max(0, total - used) if is_known else Unavailable('not available')
        self.partition_loads = []
        if self.has_metrics:
            self.values['throttle'] = self.metrics(time.monotonic(), self.read_open('gpu_metrics'))
        if self.autosuspend_delay and self.values['util'] == 0 and not self.is_used:
            self.paused_until = now + max(AMD_MIN_PAUSE, 2 * self.autosuspend_delay)
            self.idle_vram = vram_used

    def value(self, row, contents, read_file):
        """Returns the value of the first file that exists."""
        _, names, divisor, (minimum, maximum) = row
        for name in names:
            found = contents.get(name)
            if found is None:
                found = contents[name] = read_file(name)
            if found != 'not supported':
                break
        if found.__class__ is Unavailable:
            return found
        if name[:6] == 'pp_dpm':
            current = parse_levels(found)[0]
            found = -1 if current is None else current * 10 ** 6
        else:
            found = parse_int(found)
        if found.__class__ is Unavailable:
            return found
        if not minimum <= found <= maximum:
            return Unavailable('malformed' if found > maximum else 'not available')
        return found / divisor if divisor.__class__ is float else found // divisor

    def read_slow(self, contents):
        """Reads the values that change rarely, and resets the plan of fast values."""
        self.hwmon = self.folder + 'hwmon/' + (list_folder(self.folder + 'hwmon') + ['none'])[0] + '/'
        self.plan = list(AMD_FAST)
        for row in AMD_SLOW + AMD_STATIC:
            self.values[row[0]] = self.value(row, contents, self.try_read)
        for key, name in (('pcie_generation', 'current_link_speed'), ('pcie_generation_max', 'max_link_speed')):
            data = self.try_read(name)
            self.values[key] = data if data.__class__ is Unavailable else parse_generation(data)
        for key, name in (('clock_sm_max', 'pp_dpm_sclk'), ('clock_memory_max', 'pp_dpm_mclk')):
            data = self.try_read(name)
            highest = data if data.__class__ is Unavailable else parse_levels(data)[1]
            self.values[key] = Unavailable('not available') if highest is None else highest
        for key, name in AMD_TEXTS:
            data = self.try_read(name)
            if data.__class__ is not Unavailable:
                word = data.strip()[:32].decode('ascii', 'replace')
                data = word if word.isprintable() and word else Unavailable('not available')
            self.values[key] = data
        self.read_errors()
        data = self.values['throttle'] = self.try_read('gpu_metrics')
        self.has_metrics = data.__class__ is not Unavailable or data == 'not available'
        if data.__class__ is bytes and data[2:3] and data[2] in INTEGRATED_FORMATS:
            self.is_integrated = True
        self.carve_out = self.values['memory_total']
        auto = read_text(self.folder + 'power/control') == 'auto'
        self.autosuspend_delay = (read_number(self.folder + 'power/autosuspend_delay_ms') or 5000) / 1000 if auto else 0.0

    def add_host_memory(self):
        """Adds the host's memory that the card may use to the part that the firmware has set aside for it."""
        self.values['integrated'] = True
        shared, used, shared_used = [self.values[key] for key in ('gtt_total', 'memory_used', 'gtt_used')]
        if self.carve_out.__class__ is shared.__class__ is int:
            # The driver may allow more than there is.
            host = [line.split()[1] for line in read(ROOT + '/proc/meminfo', 4096).split(b'\n') if line.startswith(b'MemTotal:')]
            limit = int(host[0]) * 1024 if host and host[0].isdigit() else shared
            self.values['memory_total'] = self.carve_out + min(shared, limit)
        if used.__class__ is shared_used.__class__ is int:
            self.values['memory_used'] = used + shared_used

    def read_errors(self):
        """Reads memory errors and retired pages (RAS)."""
        data = self.try_read('ras/umc_err_count')
        if data.__class__ is Unavailable:
            data = self.try_read('ras/aca_umc')
        for key, label in (('ecc_uncorrected', b'ue:'), ('ecc_corrected', b'ce:')):
            found = data
            if data.__class__ is not Unavailable:
                rows = [line[3:] for line in data.split(b'\n') if line.startswith(label)]
                found = parse_int(rows[0]) if rows else Unavailable('malformed')
            self.values[key] = found
        data = self.try_read('ras/gpu_vram_bad_pages', 65536)
        if data.__class__ is not Unavailable:  # `page : size : R`, with P for a pending page
            data = any(line.rstrip().endswith(b': P') for line in data.split(b'\n'))
        self.values['retired_pending'] = data

    def metrics(self, now, data):
        """Returns the throttle reasons in gpu_metrics; also sets the energy and the throttle times."""
        if data.__class__ is Unavailable:
            return data
        size, form, content = struct.unpack_from('<HBB', data) if len(data) >= 4 else (0, 0, 0)
        version, data = (form, content), data[:size]

        def field(offsets, kind, unset):
            """Returns the numbers at an offset of this version's layout, or None if absent or not set."""
            offset = offsets.get(version)
            if offset is None or offset + struct.calcsize(kind) > len(data):
                return None
            found = struct.unpack_from(kind, data, offset)
            return None if max(found) == unset else found
        energy = field(METRICS_ENERGY, '<Q', (1 << 64) - 1)
        if energy:
            self.values['energy'] = energy[0] * 1000 >> 16      # in 2^-16 J
        self.partition_loads = partition_loads(version, data)
        residency = field(METRICS_RESIDENCIES, '<6I', (1 << 32) - 1)
        if residency:
            return self.update_throttle_times(now, residency)
        for offsets, kind, masks in ((METRICS_BITS, '<Q', SMU_MASKS), (METRICS_MI300, '<I', MI300_MASKS)):
            bits = field(offsets, kind, (1 << (8 * struct.calcsize(kind))) - 1)
            if bits:
                return sum(reason for reason, mask in masks if bits[0] & mask)
        return Unavailable('not supported')

    def update_throttle_times(self, now, counts):
        """Adds the throttle residencies up as nanoseconds; returns the reasons since the last call."""
        before, self.residency = self.residency, (now, counts)
        keys = ('held_power', 'held_thermal', 'held_hw_thermal')
        reasons = Unavailable('not available')
        if before:
            cycles, hot, power, socket, regulators, memory = [
                (new - old) & 0xffffffff for new, old in zip(counts, before[1])]
            reasons, elapsed = 0, (now - before[0]) * 1e9
            for i, (reason, count) in enumerate(((POWER_CAP, power), (SW_THERMAL, max(socket, regulators, memory)),
                                                    (HW_THERMAL, hot))):
                if count and cycles:
                    reasons |= reason
                    self.throttle_times[i] += int(elapsed * min(1.0, count / cycles))
        self.values.update(zip(keys, self.throttle_times))
        return reasons
