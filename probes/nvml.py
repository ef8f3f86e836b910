# The NVML backend: all devices of the machine, their MIG slices and the processes that use them.
LOST_RETRY = 30.0
NVML_MAX_DEVICES = 64
MAX_SLICES = 16
MAX_USES = 4096
MAX_RESTARTS = 3
USE_KEYS = ('memory', 'kind', 'sm', 'mem', 'enc', 'dec')
XID, ACTION = 8, 0x8000
# Event kinds by the bits of nvmlEventType*.
EVENT_KINDS = ((XID, 'xid'), (2, 'ecc'), (0xc00, 'retirement'), (0x3000, 'poison'), (0x4000, 'unavailable'),
               (ACTION, 'recovery'))
NO_INSTANCE = 0xffffffff  # the event concerns no slice


class Nvml:
    """Runs in its own child; `sample` reports what has changed since the last call."""

    kind = 'nvml'
    min_intervals = (0.5, 2.0, 10.0)  # seconds between samples of devices, of processes, of the slow group

    def __init__(self, child):
        self.child = child
        self.library = Library(child.page)
        self.due = self.list_due = self.slow_due = self.slow_at = 0.0
        self.samples_taken = self.restarts = 0
        self.gpus = []
        self.facts = {}
        self.lists = None
        self.events = self.why_no_events = None  # the event set, and why there is none
        self.events_retry, self.events_delay = 0.0, RETRY_FIRST  # when to ask for events again, and how long after a refusal
        self.recreate_due = 0.0
        self.uses = {}  # (device, pid) -> the values last sent
        self.uses_at = 0.0
        self.nameless = {}  # the number of processes without a pid by device, as last listed

    def absent(self):
        """Returns why this backend cannot be used here, or None if it can."""
        why = self.library.open() or self.library.initialize()
        if why:
            if self.library.refusal:
                self.child.report('refusal', *self.library.refusal)
            return why
        self.lists = ProcessList(self.library)
        self.samples = self.library.c.create_string_buffer(32 * INITIAL_ENTRIES)
        self.event = self.library.c.create_string_buffer(b'\xff' * 32, 32)
        self.facts = self.library.driver()
        if self.query_count() is None:
            why = 'error %d' % self.library.last_refusal
            self.child.report('error', 'failed', 'nvmlDeviceGetCount_v2', 0.0, why)
            return 'NVML: nvmlDeviceGetCount_v2 fails with ' + why
        self.find_devices()
        return None

    def on_exit(self):
        self.library.call('nvmlShutdown')

    # -- devices

    def count(self):
        """Returns the number of devices; the last one known if the library fails."""
        count = self.query_count()
        return len(self.gpus) if count is None else min(count, NVML_MAX_DEVICES)

    def query_count(self):
        count = self.library.unsigned('nvmlDeviceGetCount_v2')
        return self.library.unsigned('nvmlDeviceGetCount') if count is None else count

    def find_devices(self):
        """Opens all devices again and forgets which queries they refused."""
        before, count = self.gpus, self.count()
        # With a device less, the driver counts the others anew.
        by_index = {gpu.index: gpu for gpu in before} if count == len(before) else {}
        self.create_event_set()
        self.gpus = [self.open(index, by_index.get(index), before) for index in range(count)]
        for gpu in before:
            gpu.close()
        self.update_facts()

    def update_facts(self):
        self.facts['devices'] = len(self.gpus)
        self.facts['slices'] = sum([len(gpu.slices) for gpu in self.gpus])
        self.facts.pop('events', None)
        xid_counts = [gpu.values['xids'] for gpu in self.gpus if gpu.__class__ is Gpu]
        if xid_counts and all([count.__class__ is Unavailable for count in xid_counts]):
            self.facts['events'] = str(xid_counts[0])  # why events are unavailable

    def open(self, index, before, known=()):
        """Opens a device: the one that had this index `before`, or one of those `known`."""
        c = self.library.c
        handle = c.c_void_p()
        code = self.library.call('nvmlDeviceGetHandleByIndex_v2', c.c_uint(index), c.byref(handle))
        if code == NO_FUNCTION:
            code = self.library.call('nvmlDeviceGetHandleByIndex', c.c_uint(index), c.byref(handle))
        if code:
            return self.unreadable(index, code, before)
        try:
            gpu = Gpu(self.library, handle, index, self.facts.get('driver'))
            gpu.slices = self.slices(gpu)
        except NvmlError as error:
            return self.unreadable(index, error.code, before)
        for earlier in [before] * (before is not None) + list(known):
            if earlier.uuid == gpu.uuid:
                gpu.event_history = earlier.event_history
        if before is not None:
            before.close()
        self.register(gpu)
        return gpu

    def unreadable(self, index, code, before):
        fault = DEVICE_FAULTS.get(code, 'NVML error %d' % code)
        if before.__class__ is Gpu:
            before.close()
            if fault in ('lost', 'reset'):
                self.report_event(fault, before.uuid, -1)
        return UnreadableDevice(index, fault, time.monotonic() + LOST_RETRY, before)

    def slice_handles(self, gpu):
        """Yields (number, handle) of each slice of a device."""
        if gpu.values['mig'] != 1:
            return
        c = self.library.c
        for number in range(min(MAX_SLICES, self.library.unsigned('nvmlDeviceGetMaxMigDeviceCount', gpu.handle) or 0)):
            handle = c.c_void_p()
            if self.library.call('nvmlDeviceGetMigDeviceHandleByIndex', gpu.handle, c.c_uint(number),
                                 c.byref(handle)) == OK:
                yield number, handle

    def slices(self, gpu):
        return [Slice(self.library, handle, number, gpu) for number, handle in self.slice_handles(gpu)]

    def is_repartitioned(self, gpu):
        gpu.query(gpu.mig_query)
        now = [self.library.string('nvmlDeviceGetUUID', handle) for _, handle in self.slice_handles(gpu)]
        return now != [slice_.uuid for slice_ in gpu.slices]

    # -- a sample

    def sample(self, interval, floor, full):
        """Takes one sample; returns why the backend ends, or None if it goes on."""
        now = time.monotonic()
        slack = min(0.1 * interval, 0.05)  # ticks are never exactly on time
        # The second sample comes soon, to have rates early.
        if now < self.due - slack and not full and self.samples_taken != 1:
            return None
        self.samples_taken += 1
        self.due = next_due(self.due, now, floor)
        must_recreate = self.read_events()
        is_slow = now >= self.slow_due - slack
        if is_slow:
            self.slow_due, self.slow_at = now + self.min_intervals[2], now
        is_listing = now >= self.list_due - slack
        if is_listing:
            self.list_due = now + self.min_intervals[1]
            self.nameless = {}
        try:
            if is_slow and self.count() != len(self.gpus):
                self.publish()
            if self.why_no_events and now >= self.events_retry:
                self.why_no_events, must_recreate, self.recreate_due = None, True, 0.0
            rows = self.sample_all(now, is_slow, is_listing)
            if must_recreate and now >= self.recreate_due:
                self.recreate_due = now + LOST_RETRY
                self.recreate_event_set()
                if self.facts.get('events'):
                    self.publish(False)
        except NvmlError:
            return self.restart()
        self.restarts = 0
        self.report(now, full, is_slow, rows)
        return None

    def report(self, now, full, is_slow, rows):
        pids = None
        if rows is not None:
            rows = rows[:MAX_USES]
            self.uses_at, pids = now, sorted(set(row[1] for row in rows))
        part, texts = {'at': now}, {}
        if is_slow or full:
            part['slow'] = self.slow_at
        parts = [part for gpu in self.gpus for part in [gpu] + list(gpu.slices)]
        texts['devices'] = '[' + ','.join([one.to_json(full) for one in parts]) + ']'
        if rows is not None or (full and self.uses_at):
            texts['uses'] = self.uses_text(rows, full)
        self.child.report('part', part, pids, texts)

    def sample_all(self, now, is_slow, is_listing):
        """Samples each device; one that fails does not affect the others. Returns the uses if `is_listing`."""
        rows = []
        is_changed = False
        for index, gpu in enumerate(self.gpus):
            try:
                if gpu.__class__ is UnreadableDevice:
                    if now < gpu.retry_at:
                        continue
                    gpu = self.gpus[index] = self.open(gpu.index, gpu)
                    if gpu.__class__ is UnreadableDevice:
                        continue
                    is_changed = True
                util_before = gpu.values.get('util')
                gpu.sample(now, is_slow)
                if is_slow:
                    self.report_recovery(gpu)
                has_lost_util = util_before.__class__ is int and gpu.values['util'].__class__ is Unavailable
                if (is_slow or has_lost_util) and self.is_repartitioned(gpu):
                    gpu, is_changed = self.reopen(index), True
                rows += self.sample_slices(index, now, is_listing)
            except NvmlError as error:
                if error.code == UNINITIALIZED:
                    raise
                self.gpus[index] = self.unreadable(gpu.index, error.code, gpu)
                is_changed = True
        if is_changed:
            self.publish(False)
        return rows if is_listing else None

    def sample_slices(self, index, now, is_listing):
        """Samples the slices of a device; returns the uses of the slices or of the device."""
        gpu, rows = self.gpus[index], []
        if gpu.__class__ is UnreadableDevice:
            return rows
        try:
            for slice_ in gpu.slices:
                slice_.sample(now)
            if is_listing:
                for slice_ in gpu.slices or [gpu]:
                    rows += self.uses_of(slice_)
        except NvmlError as error:
            if not gpu.slices or error.code == UNINITIALIZED:
                raise
            self.reopen(index)
            self.publish(False)
        return rows

    def reopen(self, index):
        """Opens a device again because its slices have changed."""
        before = self.gpus[index]
        gpu = self.gpus[index] = self.open(before.index, before)
        if gpu.__class__ is Gpu:
            now = time.monotonic()
            gpu.sample(now, True)
            for slice_ in gpu.slices:
                slice_.sample(now)
        return gpu

    def publish(self, rediscover=True):
        """Reports the state again, after finding the devices again if `look`."""
        if rediscover:
            self.find_devices()
        self.update_facts()
        self.child.report('state', None, self.facts)

    def restart(self):
        """Initializes the library again after a reload of the driver; returns why the backend ends, or None."""
        self.library.call('nvmlShutdown')
        self.events = None  # freed by nvmlShutdown
        self.restarts += 1
        why = self.library.initialize() if self.restarts <= MAX_RESTARTS else 'NVML: repeatedly uninitialized'
        if why is None:
            self.publish()
        elif self.library.refusal:
            self.child.report('refusal', *self.library.refusal)
        return why

    # -- processes

    def uses_of(self, device):
        """Returns (device, pid, (memory, kind, SM, memory, encoder, decoder)) of each process that uses the part."""
        found, nameless = {}, 0
        for kind, letter, quiet_flag in (('Compute', 'C', None), ('Graphics', 'G', 'has_quiet_graphics'),
                                    ('MPSCompute', 'C', 'has_quiet_mps')):
            # The graphics list takes milliseconds, and is mostly empty without a display: after an empty one
            # it is read with the slow group only.
            if quiet_flag and getattr(device, quiet_flag):
                continue
            code, rows = self.lists.read(kind, device.handle, device.label)
            if code in device.fatal_codes:
                raise NvmlError(code)
            if kind == 'Compute':
                device.values['users'] = Unavailable(REFUSALS.get(code, 'driver error')) if code else True
            if quiet_flag and not rows and device.values.get('display') != 1:
                setattr(device, quiet_flag, True)
            nameless += len([pid for pid, _ in rows if not 0 < pid <= MAX_PID])
            for pid, memory in rows:
                if 0 < pid <= MAX_PID:
                    known_memory, letters = found.get(pid, (None, ()))
                    known_memory = memory if known_memory is None else known_memory if memory is None else max(known_memory, memory)
                    found[pid] = known_memory, letters if letter in letters else letters + (letter,)
        if nameless:
            self.nameless[device.uuid] = nameless
        utilization = self.process_utilization(device, found)
        return [(device.uuid, pid, (memory, '+'.join(sorted(letters))) + (
            (utilization,) * 4 if utilization.__class__ is Unavailable else utilization.get(pid, (0, 0, 0, 0))))
                for pid, (memory, letters) in found.items()]

    def uses_text(self, rows, full):
        """Returns the uses as JSON: only changed values, and the device only where it differs from the row before."""
        if rows is None:
            rows = [key + (values,) for key, values in self.uses.items()]
        sent, out, device = {}, [], None
        for uuid, pid, values in rows:
            before = None if full else self.uses.get((uuid, pid))
            sent[uuid, pid] = values
            text = '{"pid":%d' % pid if uuid == device else '{"device":%s,"pid":%d' % (quote(uuid), pid)
            device = uuid
            lacks = {}
            for i, key in enumerate(USE_KEYS):
                if before is None or before[i] != values[i]:
                    if values[i].__class__ is Unavailable:
                        lacks[key] = str(values[i])
                    text += ',"%s":%s' % (key, 'null' if key in lacks else encode(values[i]))
            out.append(text + (',"lacks":%s}' % encode(lacks) if lacks else '}'))
        self.uses = sent
        nameless = ',"nameless":' + encode(self.nameless) if self.nameless else ''
        return '{"at":%.3f,"list":[%s]%s}' % (self.uses_at, ','.join(out), nameless)

    def process_utilization(self, device, found):
        """Returns {pid: (sm, memory, encoder, decoder)} of recent samples, or why there are none."""
        if device.__class__ is Slice or device.no_process_use:
            return device.no_process_use or Unavailable('not supported')
        now = time.time()
        offset = now - time.monotonic()
        has_jumped = abs(offset - device.clock_offset) > CLOCK_STEP
        device.clock_offset = offset
        if has_jumped:  # earlier samples have times of the clock before, so that none seems to be new
            device.last_seen = int((now - 2) * 1e6)
            return Unavailable('two samples')
        out, last = {}, device.last_seen
        rows = self.process_samples(device, found, last)
        if rows.__class__ is Unavailable:
            return rows
        for pid, stamp, shares in rows:
            if stamp > device.last_seen:
                if stamp >= last or pid not in out:
                    out[pid] = shares
                last = max(last, stamp)
        util = device.values.get('util')
        if not out and found and util.__class__ is int and util:
            # Somebody uses the device, so there are samples; if all are old, the driver's clock was set.
            rows = self.process_samples(device, found, 0)
            newest = max([stamp for _, stamp, _ in rows] + [0]) if rows.__class__ is list else 0
            if 0 < newest < last:
                device.last_seen = newest
                return Unavailable('two samples')
        device.last_seen = last
        return out

    def process_samples(self, device, found, since):
        """Returns [(pid, time, (sm, memory, encoder, decoder))] of the known processes, or why there are none."""
        library, c = self.library, self.library.c
        name = 'nvmlDeviceGetProcessUtilization'
        function = library.function(name)
        label = library.call_label(name, device.label)
        for _ in range(3):
            count = c.c_uint(len(self.samples) // 32)
            code = NO_FUNCTION
            if function is not None:
                library.record_call(label)
                code = function(device.handle, self.samples, c.byref(count), c.c_ulonglong(since))
            if code != TOO_SMALL:
                break
            self.samples = c.create_string_buffer(32 * min(65536, count.value * 2 + 5))
        if code in device.fatal_codes:
            raise NvmlError(code)
        if code in REFUSALS:
            device.no_process_use = Unavailable(REFUSALS[code])
            device.refuse('process use', setattr, device, 'no_process_use', None)
            return device.no_process_use
        if code != OK:
            return [] if code == NOT_FOUND else Unavailable('driver error')
        data = self.samples.raw[:32 * min(count.value, len(self.samples) // 32)]
        # Drivers return rows of processes that exited long ago, and percentages over 100.
        return [(pid, stamp, (sm, memory, encoder, decoder))
                for pid, stamp, sm, memory, encoder, decoder in struct.iter_unpack('=IxxxxQIIII', data)
                if pid in found and stamp < MAX_STAMP and max(sm, memory, encoder, decoder) <= 100]

    # -- events

    def report_event(self, kind, device, code, count=1):
        frame = {'t': 'event', 'at': time.monotonic(), 'source': self.kind, 'kind': kind, 'device': device,
                 'code': None if code < 0 else code}
        self.child.report('event', dict(frame, count=count) if count > 1 else frame)

    def report_recovery(self, gpu):
        """Reports an event if the recovery action of a device has changed."""
        action = gpu.values.get('recovery')
        if action.__class__ is int:
            if gpu.event_history.setdefault('recovery', action) != action:
                self.report_event('recovery', gpu.uuid, action)
            gpu.event_history['recovery'] = action

    def create_event_set(self):
        """Creates an empty event set."""
        if self.events is not None:
            self.library.call('nvmlEventSetFree', self.events)
        self.events = None
        if self.why_no_events is None:
            events = self.library.c.c_void_p()
            code = self.library.call('nvmlEventSetCreate', self.library.c.byref(events))
            if code == OK:
                self.events = events
            elif code in REFUSALS:
                self.refuse_events(REFUSALS[code])

    def refuse_events(self, why):
        """Uses no events for a while, because the driver refuses them."""
        self.why_no_events = why
        self.events_retry = time.monotonic() + self.events_delay
        self.events_delay = min(RETRY_MAX, 2 * self.events_delay)

    def recreate_event_set(self):
        """Creates the event set again: one with a lost device may report nothing else."""
        self.create_event_set()
        for gpu in self.gpus:
            if gpu.__class__ is Gpu:
                self.register(gpu)

    def register(self, gpu):
        """Registers a device for events; only later events are reported."""
        c, supported, code = self.library.c, self.library.c.c_ulonglong(), NOT_SUPPORTED
        if self.events is not None:
            code = self.library.call('nvmlDeviceGetSupportedEventTypes', gpu.handle, c.byref(supported))
            wanted = supported.value & EVENTS
            if code == OK:
                code = NOT_SUPPORTED
            if wanted & XID:
                code = self.library.call('nvmlDeviceRegisterEvents', gpu.handle, c.c_ulonglong(wanted), self.events)
        if code == OK:
            self.count_xids(gpu)
        else:
            gpu.values['xids'] = gpu.values['xid'] = Unavailable(self.why_no_events or REFUSALS.get(code, 'driver error'))
            if self.events is not None:
                gpu.refuse('events', self.register_again, gpu)

    def register_again(self, gpu):
        self.register(gpu)
        self.publish(False)

    def count_xids(self, gpu):
        gpu.values['xids'] = gpu.event_history.setdefault('xids', 0)
        gpu.values['xid'] = gpu.event_history.get('xid', Unavailable('not available'))

    def disable_events(self, why):
        """Stops using events, because the driver refuses them."""
        self.refuse_events(why)
        self.recreate_event_set()
        self.publish(False)

    def read_events(self):
        """Reports the events that have arrived, without waiting; returns true if the event set must be created again."""
        if self.events is None:
            return False
        library, found = self.library, []
        wait = library.function('nvmlEventSetWait_v2') or library.function('nvmlEventSetWait')
        for _ in range(MAX_EVENTS):
            library.record_call(b'nvmlEventSetWait_v2')
            code = NO_FUNCTION if wait is None else wait(self.events, self.event, library.c.c_uint(0))
            if code in (INVALID, GPU_IS_LOST):
                return True
            if code in REFUSALS:
                self.disable_events(REFUSALS[code])
            if code:
                break
            handle, bits, data, instance, part = struct.unpack_from('=QQQII', self.event)
            for gpu in self.gpus:
                if gpu.__class__ is Gpu and gpu.handle.value == handle:
                    found += self.decode_event(gpu, bits, data, instance, part)
                    self.slow_due = 0.0  # the slow group shows what else has changed
        for kind, device, code in sorted(set(found)):
            self.report_event(kind, device, code, found.count((kind, device, code)))
        return False

    def decode_event(self, gpu, bits, data, instance, part):
        """Returns the [(kind, device, number)] of an event; the device is a slice if the driver names one."""
        if bits & XID:
            gpu.event_history['xids'] += 1
            gpu.event_history['xid'] = data
            self.count_xids(gpu)
        elif bits & ACTION and gpu.values.get('recovery').__class__ is int:
            return []  # reported by report_recovery, with its number
        matches = [candidate for candidate in gpu.slices if candidate.values.get('gpu_instance') == instance
               and part in (NO_INSTANCE, candidate.values.get('compute_instance'))]
        device = matches[0].uuid if len(matches) == 1 else gpu.uuid
        kinds = [kind for mask, kind in EVENT_KINDS if bits & mask]
        return [(kind, device, data if bits & XID else -1) for kind in kinds]
