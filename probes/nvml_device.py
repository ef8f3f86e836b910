# A device or a MIG slice in NVML: which values are read, how often, and which ones it refuses.

ALL_LINKS = 0xffffffff
KIB = 1024
# (key, field id, scope id, factor, first driver version): older drivers use the ids for other fields.
FAST_FIELDS = (
    ('temperature_memory', 82, 0, 1, 418), ('power_instant', 186, 0, 1, 525),
    ('held_power', 74, 0, 1, 418), ('held_sync_boost', 76, 0, 1, 418),
    ('held_thermal', 269, 0, 1, 570), ('held_hw_thermal', 270, 0, 1, 580), ('held_power_brake', 271, 0, 1, 580),
    ('pcie_tx', 197, 0, 1, 560), ('pcie_rx', 198, 0, 1, 560),
    ('nvlink_tx', 138, ALL_LINKS, KIB, 450), ('nvlink_rx', 139, ALL_LINKS, KIB, 450))
# Fields to use if the driver refuses or lacks the first choice.
FALLBACK_FIELDS = {'held_thermal': ('held_thermal', 75, 0, 1, 418), 'nvlink_tx': ('nvlink_tx', 202, ALL_LINKS, 1, 560),
           'nvlink_rx': ('nvlink_rx', 204, ALL_LINKS, 1, 560)}
SLOW_FIELDS = (
    ('energy', 83, 0, 1, 418), ('power_average', 185, 0, 1, 525), ('nvlinks', 91, 0, 1, 418), ('pcie_replays', 94, 0, 1, 418), ('remapped_corrected', 142, 0, 1, 450),
    ('remapped_uncorrected', 143, 0, 1, 450), ('remap_pending', 144, 0, 1, 450), ('remap_failed', 145, 0, 1, 450),
    ('retired_single', 29, 0, 1, 418), ('retired_double', 30, 0, 1, 418), ('retired_pending', 31, 0, 1, 418),
    ('recovery', 230, 0, 1, 560))
# Values that a slice does not have.
DEVICE_ONLY = ('util', 'memory_util', 'temperature', 'power', 'power_limit', 'clock_sm', 'encoder', 'decoder')
MAX_LINKS = 64
RETRY_FIRST, RETRY_MAX = 10.0, 640.0  # seconds until a refused value is asked for again: twice as long each time
MAX_PID = 1 << 22  # the kernel's maximum
MAX_STAMP = 1 << 62  # microseconds; a sample with a later one is garbage
CLOCK_STEP = 0.5  # seconds by which the clock must jump to count as set
# nvmlEventType*: Xid, uncorrected memory error, page retirement, poison, device unavailable, recovery action.
EVENTS = 0xfc0a


def major_version(text):
    """Returns the major version, a large number if there is none."""
    digits = (text or '').split('.')[0]
    return int(digits) if digits.isdigit() else 10000


class NvmlDevice(DeviceValues):
    """The queries common to a device and a slice."""

    fatal_codes = (GPU_IS_LOST, NEEDS_RESET, UNINITIALIZED)

    def __init__(self, library, handle, index, label):
        self.library, self.handle, self.index, self.label = library, handle, index, label
        self.uuid = library.string('nvmlDeviceGetUUID', handle) or 'index-%s' % label
        self.values = {}
        self.sent = {}
        self.gpm = None
        self.refused, self.delays = {}, {}  # by key: when and how to ask again, and the last delay
        self.clock_offset = time.time() - time.monotonic()
        self.last_seen = int((time.time() - 2) * 1e6)  # of process utilization samples, which have the time of the day
        self.no_process_use = None  # why there are no such samples
        self.has_quiet_graphics = self.has_quiet_mps = False

    def make_query(self, keys, name, out, *before, **more):
        """Builds a query; `out` is a number, or an array for several keys."""
        keys = (keys,) if keys.__class__ is str else keys
        c = self.library.c
        arguments = (self.handle,) + before + (c.byref(out),) + more.get('after', ())
        return Query(self.library, self.label, keys, name, out, arguments, more.get('fallback'), more.get('struct_version', 0))

    def memory_query(self):
        c = self.library.c
        # nvmlMemory_v2_t: version, total, reserved, free, used; before it total, free, used with the reserved in it.
        old = self.make_query(('memory_total', 'memory_free', 'memory_used'), 'nvmlDeviceGetMemoryInfo', (c.c_ulonglong * 3)())
        return self.make_query((None, 'memory_total', 'memory_reserved', 'memory_free', 'memory_used'),
                        'nvmlDeviceGetMemoryInfo_v2', (c.c_ulonglong * 5)(), fallback=old, struct_version=0x02000028)

    def query(self, query):
        """Runs a query; returns the query for the next time: the same, its fallback, or None."""
        values = self.values
        while query is not None:
            out, code = query.out, NO_FUNCTION
            if query.function is not None:
                if query.struct_version:
                    out[0] = query.struct_version
                self.library.record_call(query.label)
                code = query.function(*query.arguments)
            if code == OK:
                if query.single_key:
                    values[query.single_key] = out.value
                else:
                    for key, value in zip(query.keys, out):
                        if key:
                            values[key] = value
                return query
            if code in self.fatal_codes:
                raise NvmlError(code)
            refused = REFUSALS.get(code)
            for key in query.keys:
                if key:
                    values[key] = Unavailable(refused or 'driver error')
            if not refused:
                return query
            query = query.fallback
        return None

    def query_all(self, plan):
        """Runs all queries of a plan and removes the refused ones for a while."""
        kept = [self.query(query) for query in plan]
        if kept != plan:
            for query, again in zip(plan, kept):
                if again is None:
                    self.refuse(query.keys, self.ask_again, query, plan)
            plan[:] = [query for query in kept if query is not None]

    def query_once(self, query):
        """Runs a query for values that never change, until it answers."""
        self.query(query)
        if any(self.values.get(key).__class__ is Unavailable for key in query.keys if key):
            self.refuse(query.keys, self.query_once, query)

    def ask_again(self, query, plan):
        again = self.query(query)
        if again is None:
            self.refuse(query.keys, self.ask_again, query, plan)
        else:
            plan.append(again)

    def refuse(self, key, ask, *arguments):
        """Plans to ask again for what was refused."""
        delay = self.delays[key] = min(RETRY_MAX, 2 * self.delays.get(key, RETRY_FIRST / 2))
        self.refused[key] = time.monotonic() + delay, ask, arguments

    def retry_refused(self, now):
        """Asks again for what was refused long enough ago."""
        for key in [key for key, entry in self.refused.items() if entry[0] <= now]:
            _, ask, arguments = self.refused.pop(key)
            ask(*arguments)

    def read_activity(self, now):
        """Reads the activity counters."""
        if self.gpm is None:
            return
        code, found = self.gpm.read(now)
        if code in self.fatal_codes:
            raise NvmlError(code)
        if code:
            self.values['activity'] = Unavailable(REFUSALS.get(code, 'driver error'))
            if code in REFUSALS:
                self.refuse('gpm', self.start_gpm, self.gpm.device, self.gpm.handle, self.gpm.instance)
                self.gpm.free()
                self.gpm = None
        elif found:
            self.values['activity'] = found[:8]
            # The driver's own byte counters are better, if there are any.
            if self.values.get('pcie_tx').__class__ is not int and found[8:] != [None] * 4:
                self.values['flow'] = found[8:]
        elif self.gpm.is_first:
            self.values['activity'] = Unavailable('two samples')

    def start_gpm(self, label, handle, instance=None):
        gpm = Gpm(self.library, handle, label, instance)
        why = gpm.start()
        if why is None:
            self.gpm = gpm
        else:
            self.values['activity'] = Unavailable(why)
            self.refuse('gpm', self.start_gpm, label, handle, instance)


class NvmlError(Exception):
    """The device or the library has failed."""

    def __init__(self, code):
        Exception.__init__(self, code)
        self.code = code


class UnreadableDevice:
    """A device without values: lost, or not accessible."""

    slices = ()

    def __init__(self, index, fault, retry_at, before):
        self.index, self.fault, self.retry_at = index, fault, retry_at
        self.uuid = before.uuid if before else 'index-%d' % index
        self.event_history = before.event_history if before else {}
        self.values = {key: before.values[key] for key in ('name', 'pci', 'minor', 'driver')
                       if before and key in before.values}

    def close(self):
        pass

    def to_json(self, full):
        out = ['"uuid":%s,"index":%d,"fault":%s' % (quote(self.uuid), self.index, quote(self.fault))]
        return '{' + ','.join(out + ['"%s":%s' % (k, encode(v)) for k, v in self.values.items()]) + '}'


class Slice(NvmlDevice):
    """A MIG slice. It has its own memory, processes and activity counters; the rest belongs to its device."""

    # Its handle becomes invalid when the device is repartitioned.
    fatal_codes = NvmlDevice.fatal_codes + (INVALID, NOT_FOUND)

    def __init__(self, library, handle, index, device):
        NvmlDevice.__init__(self, library, handle, index, '%d.%d' % (device.index, index))
        self.parent = device.uuid
        self.fast_queries = [self.memory_query()]
        self.values.update((key, Unavailable('not supported')) for key in DEVICE_ONLY)
        name = library.string('nvmlDeviceGetName', handle)
        self.values['name'] = name if name and 'MIG' in name else self.describe(name or 'GPU')
        instance = library.unsigned('nvmlDeviceGetGpuInstanceId', handle)
        if instance is not None:
            self.values['gpu_instance'] = instance
        compute = library.unsigned('nvmlDeviceGetComputeInstanceId', handle)
        if compute is not None:
            self.values['compute_instance'] = compute
        if device.has_gpm and instance is not None:
            self.start_gpm(self.label, device.handle, instance)

    def describe(self, name):
        """Returns a name such as `MIG 3g.40gb`, as nvidia-smi does."""
        out = (self.library.c.c_uint * 10)()
        if self.library.call('nvmlDeviceGetAttributes_v2', self.handle, out):
            return name + ' MIG'
        part = '%dc.' % out[7] if out[7] < out[6] else ''
        return '%s MIG %s%dg.%dgb' % (name, part, out[6], (out[8] + 512) // 1024)

    def header(self, full):
        return NvmlDevice.header(self, full) + ',"parent":' + quote(self.parent)

    def sample(self, now):
        self.retry_refused(now)
        self.query_all(self.fast_queries)
        self.read_activity(now)


class Gpu(NvmlDevice):
    """A whole device."""

    def __init__(self, library, handle, index, driver):
        NvmlDevice.__init__(self, library, handle, index, index)
        self.driver = major_version(driver)
        if driver:
            self.values['driver'] = driver
        self.has_gpm = False
        self.slices = []
        self.links = None
        self.event_history = {}  # the recovery action and the Xids reported so far
        spare = library.c.c_uint()
        self.mig_query = self.make_query('mig', 'nvmlDeviceGetMigMode', library.c.c_uint(), after=(library.c.byref(spare),))
        self.query(self.mig_query)
        self.query_static()
        self.fast_queries = self.make_fast_queries()
        self.slow_queries = self.make_slow_queries()
        self.batches = {'fast': self.make_batch(FAST_FIELDS), 'slow': self.make_batch(SLOW_FIELDS)}

    def close(self):
        for part in [self] + self.slices:
            if part.gpm is not None:
                part.gpm.free()

    def query_static(self):
        """Reads the values that never change."""
        library, c, values = self.library, self.library.c, self.values
        self.read_identity()
        pci = c.create_string_buffer(68)
        if library.call('nvmlDeviceGetPciInfo_v3', self.handle, pci) == OK:
            pci_id = printable_bytes(pci.raw[36:68].split(b'\0')[0])
            values['pci'] = pci_id
            node = read_number('/sys/bus/pci/devices/%s/numa_node' % pci_id[-12:].lower())
            if node is not None:
                values['numa_node'] = node
        queries = [self.make_query('clock_%s_max' % key, 'nvmlDeviceGetMaxClockInfo', c.c_uint(), c.c_uint(number))
                for number, key in enumerate(('graphics', 'sm', 'memory', 'video'))]
        queries += [
            self.make_query('pcie_generation_max', 'nvmlDeviceGetMaxPcieLinkGeneration', c.c_uint()),
            self.make_query('pcie_lanes_max', 'nvmlDeviceGetMaxPcieLinkWidth', c.c_uint()),
            self.make_query('temperature_shutdown', 'nvmlDeviceGetTemperatureThreshold', c.c_uint(), c.c_uint(0)),
            self.make_query('temperature_slowdown', 'nvmlDeviceGetTemperatureThreshold', c.c_uint(), c.c_uint(1)),
            self.make_query('power_limit_default', 'nvmlDeviceGetPowerManagementDefaultLimit', c.c_uint()),
        ]
        limits = (c.c_uint * 2)()
        queries.append(self.make_query(('power_limit_min', 'power_limit_max'), 'nvmlDeviceGetPowerManagementLimitConstraints',
                                       limits, after=(c.byref(limits, 4),)))
        for query in queries:
            self.query_once(query)
        # The library answers at once if the chip has no such counters.
        self.start_gpm(self.label, self.handle)
        self.has_gpm = self.gpm is not None

    def read_identity(self):
        """Reads the name, the minor number and the compute capability, again after a while if one is refused."""
        library, c, values = self.library, self.library.c, self.values
        name = library.string('nvmlDeviceGetName', self.handle)
        if name:
            values['name'] = name
        minor_number = library.unsigned('nvmlDeviceGetMinorNumber', self.handle)
        if minor_number is not None:
            values['minor'] = minor_number
        major, minor = c.c_int(), c.c_int()
        code = library.call('nvmlDeviceGetCudaComputeCapability', self.handle, c.byref(major), c.byref(minor))
        if code == OK:
            values['capability'] = '%d.%d' % (major.value, minor.value)
        if code or not name or minor_number is None:
            self.refuse('identity', self.read_identity)

    def make_fast_queries(self):
        c = self.library.c
        spare = c.c_uint()
        return [
            self.make_query(('util', 'memory_util'), 'nvmlDeviceGetUtilizationRates', (c.c_uint * 2)()),
            self.memory_query(),
            self.make_query('temperature', 'nvmlDeviceGetTemperature', c.c_uint(), c.c_uint(0), fallback=self.make_query(
                (None, None, 'temperature'), 'nvmlDeviceGetTemperatureV', (c.c_int * 3)(), struct_version=0x0100000c)),
            self.make_query('power', 'nvmlDeviceGetPowerUsage', c.c_uint()),
            self.make_query('clock_sm', 'nvmlDeviceGetClockInfo', c.c_uint(), c.c_uint(1)),
            self.make_query('clock_memory', 'nvmlDeviceGetClockInfo', c.c_uint(), c.c_uint(2)),
            self.make_query('pstate', 'nvmlDeviceGetPerformanceState', c.c_uint()),
            self.make_query('throttle', 'nvmlDeviceGetCurrentClocksThrottleReasons', c.c_ulonglong(), fallback=self.make_query(
                'throttle', 'nvmlDeviceGetCurrentClocksEventReasons', c.c_ulonglong())),
            self.make_query('encoder', 'nvmlDeviceGetEncoderUtilization', c.c_uint(), after=(c.byref(spare),)),
            self.make_query('decoder', 'nvmlDeviceGetDecoderUtilization', c.c_uint(), after=(c.byref(spare),)),
        ]

    def make_slow_queries(self):
        c = self.library.c
        spare = c.c_uint()
        fabric = self.make_query((None,) * 6 + ('fabric',), 'nvmlDeviceGetGpuFabricInfo', (c.c_uint * 7)())
        fabric = self.make_query((None,) * 7 + ('fabric', 'fabric_health'), 'nvmlDeviceGetGpuFabricInfoV', (c.c_uint * 9)(),
                          struct_version=0x02000024, fallback=fabric)
        errors = [self.make_query(key, 'nvmlDeviceGetTotalEccErrors', c.c_ulonglong(), c.c_uint(kind), c.c_uint(since))
                  for key, kind, since in (('ecc_corrected', 0, 0), ('ecc_uncorrected', 1, 0),
                                           ('ecc_corrected_total', 0, 1), ('ecc_uncorrected_total', 1, 1))]
        return errors + [
            self.make_query('clock_graphics', 'nvmlDeviceGetClockInfo', c.c_uint(), c.c_uint(0)),
            self.make_query('clock_video', 'nvmlDeviceGetClockInfo', c.c_uint(), c.c_uint(3)),
            self.make_query('fan', 'nvmlDeviceGetFanSpeed', c.c_uint()),
            self.make_query('power_limit', 'nvmlDeviceGetEnforcedPowerLimit', c.c_uint(), fallback=self.make_query(
                'power_limit', 'nvmlDeviceGetPowerManagementLimit', c.c_uint())),
            self.make_query('power_limit_requested', 'nvmlDeviceGetPowerManagementLimit', c.c_uint()),
            self.make_query((None, 'temperature_margin'), 'nvmlDeviceGetMarginTemperature', (c.c_int * 2)(), struct_version=0x01000008),
            self.make_query('jpeg', 'nvmlDeviceGetJpgUtilization', c.c_uint(), after=(c.byref(spare),)),
            self.make_query('ofa', 'nvmlDeviceGetOfaUtilization', c.c_uint(), after=(c.byref(spare),)),
            self.make_query((None,) * 24 + ('sram_threshold',), 'nvmlDeviceGetSramEccErrorStatus', (c.c_uint * 26)(),
                     struct_version=0x01000068),
            self.make_query('display', 'nvmlDeviceGetDisplayActive', c.c_uint()),
            self.make_query('display_mode', 'nvmlDeviceGetDisplayMode', c.c_uint()),
            self.make_query('persistence', 'nvmlDeviceGetPersistenceMode', c.c_uint()),
            self.make_query('compute_mode', 'nvmlDeviceGetComputeMode', c.c_uint()),
            self.make_query('ecc_mode', 'nvmlDeviceGetEccMode', c.c_uint(), after=(c.byref(spare),)),
            self.mig_query,
            self.make_query(('bar1_total', 'bar1_free', 'bar1_used'), 'nvmlDeviceGetBAR1MemoryInfo', (c.c_ulonglong * 3)()),
            self.make_query('pcie_generation', 'nvmlDeviceGetCurrPcieLinkGeneration', c.c_uint()),
            self.make_query('pcie_lanes', 'nvmlDeviceGetCurrPcieLinkWidth', c.c_uint()),
            fabric,
        ]

    def make_batch(self, fields):
        """Returns a batch of the fields that this driver version has; the others become unavailable."""
        known = []
        for field in fields:
            fallback = FALLBACK_FIELDS.get(field[0])
            if field[4] <= self.driver:
                known.append(field[:4])
            elif fallback and fallback[4] <= self.driver:
                known.append(fallback[:4])
            else:
                self.values[field[0]] = Unavailable('not offered')
        return FieldBatch(self.library, self.label, known)

    def read_fields(self, name):
        """Reads a batch and removes the refused fields from it."""
        batch = self.batches[name]
        if not batch.fields:
            return
        code, found = batch.read(self.handle, self.library)
        if code in self.fatal_codes:
            raise NvmlError(code)
        if code:
            found = [(code, None)] * len(batch.fields)
        kept = []
        for field, (field_code, value) in zip(batch.fields, found):
            key, refused = field[0], REFUSALS.get(field_code)
            if field_code in self.fatal_codes:
                raise NvmlError(field_code)
            fallback = FALLBACK_FIELDS.get(key)
            if refused and fallback and fallback[:4] != field and fallback[4] <= self.driver:
                kept.append(fallback[:4])
                continue
            self.values[key] = Unavailable(refused or 'driver error') if field_code else value * field[3]
            if refused:
                self.refuse(key, self.add_field, name, field)
            else:
                kept.append(field)
        if kept != batch.fields:
            self.batches[name] = FieldBatch(self.library, self.label, kept)
            if any(field not in batch.fields for field in kept):
                self.read_fields(name)  # reads the fallbacks at once

    def add_field(self, name, field):
        """Adds a field to a batch again."""
        self.batches[name] = FieldBatch(self.library, self.label, self.batches[name].fields + [field])

    def read_links(self):
        """Reads the counters of each NVLink."""
        count = self.values.get('nvlinks')
        if count.__class__ is not int or not count:
            return
        if self.links is None:
            ids = [field[1:] for field in self.batches['fast'].fields if field[0] in ('nvlink_tx', 'nvlink_rx')]
            self.links = FieldBatch(self.library, self.label, [
                (None, number, link, factor) for link in range(min(MAX_LINKS, count)) for number, _, factor in ids[:2]])
        found = self.links.read(self.handle, self.library)[1]
        counts = [None if field_code else value * field[3] for field, (field_code, value) in zip(self.links.fields, found)]
        if counts:
            self.values['links'] = [counts[i:i + 2] for i in range(0, len(counts), 2)]
        self.values['nvlinks_active'] = self.count_active_links(min(MAX_LINKS, count))

    def count_active_links(self, count):
        state, active = self.library.c.c_uint(), 0
        for link in range(count):
            code = self.library.call('nvmlDeviceGetNvLinkState', self.handle, self.library.c.c_uint(link), self.library.c.byref(state))
            if code:
                return Unavailable(REFUSALS.get(code) or 'driver error')
            active += state.value
        return active

    def sample(self, now, is_slow):
        if is_slow:
            self.retry_refused(now)
            self.query_all(self.slow_queries)
            self.read_fields('slow')
            if self.values['fabric'].__class__ is int:
                self.values['fabric'] &= 0xff  # the field is one byte; the bytes after it are not set
        self.query_all(self.fast_queries)
        if self.values['pstate'] == 32:
            self.values['pstate'] = Unavailable('not available')
        if self.values['memory_total'] == 0:  # as of one that uses the host's memory, but a driver in trouble says so too
            for key in ('memory_total', 'memory_used', 'memory_free', 'memory_reserved'):
                self.values[key] = Unavailable('not available')
        self.read_fields('fast')
        if is_slow:
            self.read_links()
            self.has_quiet_graphics = self.has_quiet_mps = False
        self.read_activity(now)
