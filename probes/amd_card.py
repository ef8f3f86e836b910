# One AMD card as the amdgpu driver shows it in sysfs: its own files and those of its hwmon. Names, units and layouts
# are those of the kernel (Documentation/gpu/amdgpu, drivers/gpu/drm/amd). Nothing here wakes a card that sleeps, nor
# keeps one awake that would fall asleep; pcie_bw, which sleeps for a second in the driver, is never opened.
AMD_REST = 10.0             # an idle card is left alone for this long, or twice what it takes to fall asleep
BYTES, CELSIUS, MICROWATTS, HERTZ = (0, 1 << 53), (-100000, 300000), (0, 10 ** 11), (0, 10 ** 11)

# What reading a file may fail with, by the reason that becomes of it. During a reset it is EPERM or EBUSY.
AMD_REFUSALS = {1: 'not available', 11: 'not available', 16: 'not available', 19: 'not available',
                13: 'no permission', 2: 'not supported', 22: 'not supported', 38: 'not supported',
                61: 'not supported', 95: 'not supported'}

# (key, files of which the first that answers counts, divisor, least and most before the division); @ is the hwmon.
# Below the least stands what the driver does not know.
AMD_FAST = (
    ('util', ('gpu_busy_percent',), 1, (0, 100)), ('memory_util', ('mem_busy_percent',), 1, (0, 100)),
    ('video', ('vcn_busy_percent',), 1, (0, 100)),
    ('memory_used', ('mem_info_vram_used',), 1, BYTES), ('gtt_used', ('mem_info_gtt_used',), 1, BYTES),
    # Of the accelerators without an edge sensor the junction is all there is.
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
# What a card that sleeps does not forget.
AMD_STILL = (
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
AMD_WORDS = (('performance_level', 'power_dpm_force_performance_level'),
             ('compute_partition', 'current_compute_partition'), ('memory_partition', 'current_memory_partition'))

# gpu_metrics (kgd_pp_interface.h), by format and content revision: where the bits of what holds clocks down lie that
# mean the same on every device; where those of the MI300 lie; the counters that followed them; and the energy.
METRICS_BITS = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
METRICS_MI300 = {(1, 4): 40, (1, 5): 104}
METRICS_HELD = {(1, 6): 32, (1, 7): 40, (1, 8): 40}
METRICS_ENERGY = {(1, 4): 24, (1, 5): 88, (1, 6): 16, (1, 7): 24, (1, 8): 24}
# NVML's bits of what holds clocks down: the power limit, the hardware, the driver for heat, the hardware for heat.
CAPPED, SLOWED, HOT, HARDWARE_HOT = 0x4, 0x8, 0x20, 0x40
# SMU_THROTTLER_*_BIT: below 32 power and current, up to 43 temperatures, up to 47 overheating told by wire.
SMU_MASKS = ((CAPPED, 0xffffffff), (HOT, 0xfff << 32), (HARDWARE_HOT, 0xf << 44), (SLOWED, 0x3 << 56))
MI300_MASKS = ((HARDWARE_HOT, 1), (CAPPED, 2), (HOT, 28))


def fetch(path, most=4096):
    """What a file holds, or why that is not known."""
    try:
        fd = os.open(path, os.O_RDONLY)
        try:
            return os.read(fd, most)
        finally:
            os.close(fd)
    except OSError as trouble:
        return Lack(AMD_REFUSALS.get(trouble.errno, 'driver error'))


def whole(data):
    """The number a file holds, or why there is none."""
    digits = data.strip()
    if not digits:
        return Lack('not available')
    if digits[digits[:1] == b'-':].isdigit() and len(digits) <= 20:
        return int(digits)
    return Lack('malformed')


def levels(data):
    """The present and the highest clock, in MHz, of a list of levels such as `1: 2100Mhz *`."""
    present, highest = None, None
    for line in data.split(b'\n')[:64]:
        line = line.strip()
        words = line.rstrip(b'*').split()
        digits = words[1][:-3] if len(words) == 2 and words[1][-3:].lower() == b'mhz' else b''
        if digits.isdigit() and len(digits) < 6:
            highest = max(highest or 0, int(digits))
            if line.endswith(b'*'):
                present = int(digits)
    return present, highest


def generation(data):
    """The PCIe generation of a speed such as `16.0 GT/s PCIe`."""
    try:
        return AMD_SPEEDS.get(float(data.split(b' ')[0]), Lack('not available'))
    except ValueError:
        return Lack('not available')


class AmdCard(Part):
    """One card, as far as it is awake."""

    def __init__(self, folder, pci, index, memory, driver):
        self.folder, self.pci, self.index, self.memory = folder, pci, index, memory
        self.sent = {}
        self.values = {'name': self.name(), 'pci': pci, 'driver': driver}
        unique = read(folder + 'unique_id', 64).strip()
        is_unique = len(unique) == 16 and not unique.strip(b'0123456789abcdef') and unique.strip(b'0')
        self.uuid = 'GPU-' + unique.decode('ascii') if is_unique else pci      # as rocminfo calls it
        node = whole(fetch(folder + 'numa_node'))
        self.values['numa_node'] = node if node.__class__ is int and node >= 0 else Lack('not available')
        self.hwmon = folder
        self.plan = ()
        self.is_awake = self.is_used = self.has_metrics = False
        self.delay, self.rest_until, self.held = 0.0, 0.0, None
        self.residency, self.spent = None, [0, 0, 0]
        self.open = {}

    def name(self):
        """What the board calls itself, where it does; else the numbers of the device."""
        name = printable(text(self.folder + 'product_name'))[:80].strip()
        number = text(self.folder + 'device')[:8]
        return name or 'AMD ' + (number if number.isalnum() else 'device')

    def path(self, name):
        return self.hwmon + name[1:] if name[:1] == '@' else self.folder + name

    def announce(self, name):
        """Says what is about to be read, so that it can be named if it never answers."""
        self.memory[:96] = STAMP.pack(time.monotonic(), ('%s of %s' % (name, self.pci)).encode('ascii'))

    def fetch(self, name, most=4096):
        """A file of the card."""
        self.announce(name)
        return fetch(self.path(name), most)

    def again(self, name):
        """A file that is read at each sample, and therefore stays open; sysfs fills it anew from its beginning."""
        try:
            if name not in self.open:
                self.announce(name)
                label = ('%s of %s' % (name, self.pci)).encode('ascii')
                self.open[name] = os.open(self.path(name), os.O_RDONLY), label
            fd, label = self.open[name]
            self.memory[:96] = STAMP.pack(time.monotonic(), label)
            return os.pread(fd, 4096, 0)
        except OSError as trouble:
            self.close(name)
            return Lack(AMD_REFUSALS.get(trouble.errno, 'driver error'))

    def close(self, *names):
        for name in names or list(self.open):
            if name in self.open:
                os.close(self.open.pop(name)[0])

    # -- whether it may be asked

    def sleeps(self):
        """Whether it sleeps, or is about to: most files would wake it."""
        return text(self.folder + 'power/runtime_status') in ('suspended', 'suspending', 'resuming')

    def doze(self):
        """It sleeps: what changes is not known, what does not is as it was."""
        self.is_awake = False
        asleep = Lack('asleep')
        for key in [row[0] for row in AMD_FAST + AMD_SLOW] + [word[0] for word in AMD_WORDS] + [
                'memory_free', 'pcie_generation', 'throttle', 'ecc_corrected', 'ecc_uncorrected']:
            self.values[key] = asleep
        for key in [row[0] for row in AMD_STILL] + ['pcie_generation_max', 'clock_sm_max', 'clock_memory_max']:
            if self.values.get(key, asleep).__class__ is Lack:
                self.values[key] = asleep

    def rests(self, now):
        """Whether to leave it alone: each question begins anew the time after which an idle card falls asleep."""
        if now >= self.rest_until or self.is_used:
            return False
        return number(self.folder + 'mem_info_vram_used') == self.held      # this the driver knows by heart

    # -- what is asked

    def sample(self, now, is_slow):
        if self.sleeps():
            return self.doze()
        is_slow = is_slow or not self.is_awake
        if self.is_awake and self.rests(now):
            return None
        self.is_awake = True
        seen = {}
        if is_slow:
            self.look(seen)
        kept = []
        for row in self.plan:
            value = self.values[row[0]] = self.value(row, seen, self.again)
            if value.__class__ is not Lack or value == 'not available':
                kept.append(row)
        self.plan = kept            # what it refuses is not asked for again before the next look
        total, used = self.values['memory_total'], self.values['memory_used']
        is_known = total.__class__ is used.__class__ is int
        self.values['memory_free'] = max(0, total - used) if is_known else Lack('not available')
        if self.has_metrics:
            self.values['throttle'] = self.metrics(time.monotonic(), self.again('gpu_metrics'))
        if self.delay and self.values['util'] == 0 and not self.is_used:
            self.rest_until, self.held = now + max(AMD_REST, 2 * self.delay), self.values['memory_used']

    def value(self, row, seen, ask):
        """The value of the first of its files that is there."""
        _, names, divisor, (least, most) = row
        for name in names:
            found = seen.get(name)
            if found is None:
                found = seen[name] = ask(name)
            if found != 'not supported':
                break
        if found.__class__ is Lack:
            return found
        if name[:6] == 'pp_dpm':
            present = levels(found)[0]
            found = -1 if present is None else present * 10 ** 6
        else:
            found = whole(found)
        if found.__class__ is Lack:
            return found
        if not least <= found <= most:
            return Lack('malformed' if found > most else 'not available')
        return found / divisor if divisor.__class__ is float else found // divisor

    def look(self, seen):
        """What changes rarely, and anew what may be asked often."""
        self.hwmon = self.folder + 'hwmon/' + (listing(self.folder + 'hwmon') + ['none'])[0] + '/'
        self.plan = list(AMD_FAST)
        for row in AMD_SLOW + AMD_STILL:
            self.values[row[0]] = self.value(row, seen, self.fetch)
        for key, name in (('pcie_generation', 'current_link_speed'), ('pcie_generation_max', 'max_link_speed')):
            data = self.fetch(name)
            self.values[key] = data if data.__class__ is Lack else generation(data)
        for key, name in (('clock_sm_max', 'pp_dpm_sclk'), ('clock_memory_max', 'pp_dpm_mclk')):
            data = self.fetch(name)
            highest = data if data.__class__ is Lack else levels(data)[1]
            self.values[key] = Lack('not available') if highest is None else highest
        for key, name in AMD_WORDS:
            data = self.fetch(name)
            if data.__class__ is not Lack:
                word = data.strip()[:32].decode('ascii', 'replace')
                data = word if word.isprintable() and word else Lack('not available')
            self.values[key] = data
        self.errors()
        data = self.values['throttle'] = self.fetch('gpu_metrics')
        self.has_metrics = data.__class__ is not Lack or data == 'not available'
        auto = text(self.folder + 'power/control') == 'auto'
        self.delay = (number(self.folder + 'power/autosuspend_delay_ms') or 5000) / 1000 if auto else 0.0

    def errors(self):
        """Errors of the memory and what became of them (RAS), where the card counts them."""
        data = self.fetch('ras/umc_err_count')
        if data.__class__ is Lack:
            data = self.fetch('ras/aca_umc')
        for key, label in (('ecc_uncorrected', b'ue:'), ('ecc_corrected', b'ce:')):
            found = data
            if data.__class__ is not Lack:
                rows = [line[3:] for line in data.split(b'\n') if line.startswith(label)]
                found = whole(rows[0]) if rows else Lack('malformed')
            self.values[key] = found
        data = self.fetch('ras/gpu_vram_bad_pages', 65536)
        if data.__class__ is not Lack:      # `page : size : R`, P for one that waits
            data = any(line.rstrip().endswith(b': P') for line in data.split(b'\n'))
        self.values['retired_pending'] = data

    def metrics(self, now, data):
        """What holds clocks down, from the table of all sensors, which also tells for how long, and the energy."""
        if data.__class__ is Lack:
            return data
        size, form, content = struct.unpack_from('<HBB', data) if len(data) >= 4 else (0, 0, 0)
        version, data = (form, content), data[:size]

        def field(places, kind, most):
            """The numbers at a place of this version's layout; None where there are none, or nobody filled them in."""
            place = places.get(version)
            if place is None or place + struct.calcsize(kind) > len(data):
                return None
            found = struct.unpack_from(kind, data, place)
            return None if max(found) == most else found
        energy = field(METRICS_ENERGY, '<Q', (1 << 64) - 1)
        if energy:
            self.values['energy'] = energy[0] * 1000 >> 16      # in 2^-16 J
        residency = field(METRICS_HELD, '<6I', (1 << 32) - 1)
        if residency:
            return self.residencies(now, residency)
        for places, kind, masks in ((METRICS_BITS, '<Q', SMU_MASKS), (METRICS_MI300, '<I', MI300_MASKS)):
            bits = field(places, kind, (1 << (8 * struct.calcsize(kind))) - 1)
            if bits:
                return sum(reason for reason, mask in masks if bits[0] & mask)
        return Lack('not supported')

    def residencies(self, now, counts):
        """Cycles in which each reason held, of so many cycles: summed up as nanoseconds; the reasons since the last."""
        before, self.residency = self.residency, (now, counts)
        keys = ('held_power', 'held_thermal', 'held_hw_thermal')
        reasons = Lack('not available')
        if before:
            cycles, hot, power, socket, regulators, memory = [
                (new - old) & 0xffffffff for new, old in zip(counts, before[1])]
            reasons, elapsed = 0, (now - before[0]) * 1e9
            for place, (reason, part) in enumerate(((CAPPED, power), (HOT, max(socket, regulators, memory)),
                                                    (HARDWARE_HOT, hot))):
                if part and cycles:
                    reasons |= reason
                    self.spent[place] += int(elapsed * min(1.0, part / cycles))
        self.values.update(zip(keys, self.spent))
        return reasons
