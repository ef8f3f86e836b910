# The NVML backend: every device of the machine, its slices and who uses them, for as long as the child lives.
LOST_AGAIN = 30.0
MOST_DEVICES = 64
MOST_SLICES = 16
MOST_USES = 4096
RESTARTS = 3
USE_KEYS = ('memory', 'kind', 'sm', 'mem', 'enc', 'dec')
XID, ACTION = 8, 0x8000
# By the bits of nvmlEventType*: what the driver tells of when it happens.
EVENT_KINDS = ((XID, 'xid'), (2, 'ecc'), (0xc00, 'retirement'), (0x3000, 'poison'), (0x4000, 'unavailable'),
               (ACTION, 'recovery'))
NOWHERE = 0xffffffff    # an event that is of no slice


class Nvml:
    """Runs in a child of its own; `sample` reports what is new since the last time."""

    kind = 'nvml'
    floors = (0.5, 2.0, 10.0)       # seconds between samples of devices, of processes, of the slow group

    def __init__(self, duty):
        self.duty = duty
        self.library = Library(duty.page)
        self.due = self.list_due = self.slow_due = self.slow_at = 0.0
        self.samples_taken = self.restarts = 0
        self.gpus = []
        self.facts = {}
        self.lists = None
        self.events = self.deaf = None  # the set of events, and why there is none for good
        self.listen_due = 0.0
        self.uses = {}                  # (device, pid) -> what was told of it
        self.uses_at = 0.0

    def absent(self):
        """Why this backend cannot be used here, None when it can."""
        why = self.library.open() or self.library.initialize()
        if why:
            return why
        self.lists = ProcessList(self.library)
        self.samples = self.library.c.create_string_buffer(32 * ENTRIES)
        self.event = self.library.c.create_string_buffer(b'\xff' * 32, 32)
        self.facts = self.library.driver()
        if self.counted() is None:
            why = 'error %d' % self.library.refusal
            self.duty.report('error', 'failed', 'nvmlDeviceGetCount_v2', 0.0, why)
            return 'NVML: nvmlDeviceGetCount_v2 fails with ' + why
        self.look()
        return None

    def farewell(self):
        self.library.call('nvmlShutdown')

    # -- which devices there are

    def count(self):
        """How many there are; as many as before where the library does not say."""
        count = self.counted()
        return len(self.gpus) if count is None else min(count, MOST_DEVICES)

    def counted(self):
        count = self.library.number('nvmlDeviceGetCount_v2')
        return self.library.number('nvmlDeviceGetCount') if count is None else count

    def look(self):
        """Finds the devices anew, and forgets what the ones before refused."""
        before = {gpu.index: gpu for gpu in self.gpus}
        self.listen()
        self.gpus = [self.open(index, before.get(index)) for index in range(self.count())]
        self.tell()

    def tell(self):
        self.facts['devices'] = len(self.gpus)
        self.facts['slices'] = sum([len(gpu.slices) for gpu in self.gpus])
        self.facts.pop('events', None)
        told = [gpu.values['xids'] for gpu in self.gpus if gpu.__class__ is Gpu]
        if told and all([count.__class__ is Lack for count in told]):
            self.facts['events'] = str(told[0])     # why there are none

    def open(self, index, before):
        c = self.library.c
        handle = c.c_void_p()
        code = self.library.call('nvmlDeviceGetHandleByIndex_v2', c.c_uint(index), c.byref(handle))
        if code == NO_FUNCTION:
            code = self.library.call('nvmlDeviceGetHandleByIndex', c.c_uint(index), c.byref(handle))
        if code:
            return self.closed(index, code, before)
        try:
            gpu = Gpu(self.library, handle, index, self.facts.get('driver'))
            gpu.slices = self.slices(gpu)
        except Trouble as trouble:
            return self.closed(index, trouble.code, before)
        if before is not None:
            if before.uuid == gpu.uuid:
                gpu.past = before.past
            before.close()
        self.register(gpu)
        return gpu

    def closed(self, index, code, before):
        fault = DEVICE_FAULTS.get(code, 'NVML error %d' % code)
        if before.__class__ is Gpu:
            before.close()
            if fault in ('lost', 'reset'):
                self.happened(fault, before.uuid, -1)
        return Closed(index, fault, time.monotonic() + LOST_AGAIN, before)

    def handles(self, gpu):
        """The handles of a device's slices, by number."""
        if gpu.values['mig'] != 1:
            return
        c = self.library.c
        for number in range(min(MOST_SLICES, self.library.number('nvmlDeviceGetMaxMigDeviceCount', gpu.handle) or 0)):
            handle = c.c_void_p()
            if self.library.call('nvmlDeviceGetMigDeviceHandleByIndex', gpu.handle, c.c_uint(number),
                                 c.byref(handle)) == OK:
                yield number, handle

    def slices(self, gpu):
        return [Slice(self.library, handle, number, gpu) for number, handle in self.handles(gpu)]

    def is_split_anew(self, gpu):
        gpu.take(gpu.mode)
        now = [self.library.words('nvmlDeviceGetUUID', handle) for _, handle in self.handles(gpu)]
        return now != [part.uuid for part in gpu.slices]

    # -- a sample

    def sample(self, interval, floor, full):
        """One round; why there will be no more, None when there will."""
        now = time.monotonic()
        slack = min(0.1 * interval, 0.05)       # the tick that asks is never exactly on time
        # The second one comes soon, so that there are rates.
        if now < self.due - slack and not full and self.samples_taken != 1:
            return None
        self.samples_taken += 1
        self.due = now + floor
        is_torn = self.hear()
        is_slow = now >= self.slow_due - slack
        if is_slow:
            self.slow_due, self.slow_at = now + self.floors[2], now
        is_listing = now >= self.list_due - slack
        if is_listing:
            self.list_due = now + self.floors[1]
        try:
            if is_slow and self.count() != len(self.gpus):
                self.again()
            rows = self.round(now, is_slow, is_listing)
            if is_torn and now >= self.listen_due:
                self.listen_due = now + LOST_AGAIN
                self.listen_anew()
        except Trouble:
            return self.restart()
        self.restarts = 0
        self.report(now, full, is_slow, rows)
        return None

    def report(self, now, full, is_slow, rows):
        pids = None
        if rows is not None:
            rows = rows[:MOST_USES]
            self.uses_at, pids = now, sorted(set(row[1] for row in rows))
        part, texts = {'at': now}, {}
        if is_slow or full:
            part['slow'] = self.slow_at
        parts = [part for gpu in self.gpus for part in [gpu] + list(gpu.slices)]
        texts['devices'] = '[' + ','.join([one.text(full) for one in parts]) + ']'
        if rows is not None or (full and self.uses_at):
            texts['uses'] = self.uses_text(rows, full)
        self.duty.report('part', part, pids, texts)

    def round(self, now, is_slow, is_listing):
        """Everything of every device; what becomes of one is no other's trouble. Returns the uses when listing."""
        rows = []
        is_changed = False
        for place, gpu in enumerate(self.gpus):
            try:
                if gpu.__class__ is Closed:
                    if now < gpu.again:
                        continue
                    gpu = self.gpus[place] = self.open(gpu.index, gpu)
                    if gpu.__class__ is Closed:
                        continue
                    is_changed = True
                had = gpu.values.get('util')
                gpu.sample(now, is_slow)
                if is_slow:
                    self.compare(gpu)
                lost_util = had.__class__ is int and gpu.values['util'].__class__ is Lack
                if (is_slow or lost_util) and self.is_split_anew(gpu):
                    gpu, is_changed = self.reopen(place), True
                rows += self.split(place, now, is_listing)
            except Trouble as trouble:
                if trouble.code == UNINITIALIZED:
                    raise
                self.gpus[place] = self.closed(gpu.index, trouble.code, gpu)
                is_changed = True
        if is_changed:
            self.again(False)
        return rows if is_listing else None

    def split(self, place, now, is_listing):
        """The slices of a device, and the uses of whatever of it can be used."""
        gpu, rows = self.gpus[place], []
        if gpu.__class__ is Closed:
            return rows
        try:
            for part in gpu.slices:
                part.sample(now)
            if is_listing:
                for part in gpu.slices or [gpu]:
                    rows += self.uses_of(part)
        except Trouble as trouble:
            if not gpu.slices or trouble.code == UNINITIALIZED:
                raise
            self.reopen(place)
            self.again(False)
        return rows

    def reopen(self, place):
        """The device as if it were new, because it has become another."""
        before = self.gpus[place]
        gpu = self.gpus[place] = self.open(before.index, before)
        if gpu.__class__ is Gpu:
            now = time.monotonic()
            gpu.sample(now, True)
            for part in gpu.slices:
                part.sample(now)
        return gpu

    def again(self, look=True):
        """Says anew what there is."""
        if look:
            self.look()
        self.tell()
        self.duty.report('state', None, self.facts)

    def restart(self):
        """The library was shut down under us, by a reloaded driver: begins anew, or ends."""
        self.library.call('nvmlShutdown')
        self.events = None              # went with it
        self.restarts += 1
        why = self.library.initialize() if self.restarts <= RESTARTS else 'NVML: uninitialized again and again'
        if why is None:
            self.again()
        return why

    # -- processes

    def uses_of(self, part):
        """(device, pid, (memory, kind, SM, memory, encoder, decoder)) of every process that uses it."""
        found = {}
        for kind, letter, quiet in (('Compute', 'C', None), ('Graphics', 'G', 'has_quiet_graphics'),
                                    ('MPSCompute', 'C', 'has_quiet_mps')):
            # The graphics list takes milliseconds, and a device without display mostly has none: where it was
            # empty, it is asked for with the slow group only.
            if quiet and getattr(part, quiet):
                continue
            code, rows = self.lists.read(kind, part.handle, part.place)
            if code in part.troubles:
                raise Trouble(code)
            if kind == 'Compute':
                part.values['users'] = Lack(REFUSALS.get(code, 'driver error')) if code else True
            if quiet and not rows and part.values.get('display') != 1:
                setattr(part, quiet, True)
            for pid, memory in rows:
                if pid:
                    held, letters = found.get(pid, (None, ()))
                    held = memory if held is None else held if memory is None else max(held, memory)
                    found[pid] = held, letters if letter in letters else letters + (letter,)
        shares = self.shares(part, found)
        return [(part.uuid, pid, (memory, '+'.join(sorted(letters))) + (
            (None,) * 4 if shares is None else shares.get(pid, (0, 0, 0, 0))))
                for pid, (memory, letters) in found.items()]

    def uses_text(self, rows, full):
        """The uses as JSON; of one that was told before only what has changed, of its device only the first time."""
        if rows is None:
            rows = [key + (values,) for key, values in self.uses.items()]
        told, out, device = {}, [], None
        for uuid, pid, values in rows:
            before = None if full else self.uses.get((uuid, pid))
            told[uuid, pid] = values
            text = '{"pid":%d' % pid if uuid == device else '{"device":%s,"pid":%d' % (quote(uuid), pid)
            device = uuid
            for place, key in enumerate(USE_KEYS):
                if before is None or before[place] != values[place]:
                    text += ',"%s":%s' % (key, encode(values[place]))
            out.append(text + '}')
        self.uses = told
        return '{"at":%.3f,"list":[%s]}' % (self.uses_at, ','.join(out))

    def shares(self, part, found):
        """{pid: (sm, memory, encoder, decoder)} of what ran lately; None where nobody can tell."""
        if not part.has_process_use or part.__class__ is Slice:
            return None
        library, c = self.library, self.library.c
        name = 'nvmlDeviceGetProcessUtilization'
        function = library.function(name)
        label = library.label(name, part.place)
        for _ in range(3):
            count = c.c_uint(len(self.samples) // 32)
            code = NO_FUNCTION
            if function is not None:
                library.announce(label)
                code = function(part.handle, self.samples, c.byref(count), c.c_ulonglong(part.last_seen))
            if code != TOO_SMALL:
                break
            self.samples = c.create_string_buffer(32 * min(65536, count.value * 2 + 5))
        if code in part.troubles:
            raise Trouble(code)
        if code in REFUSALS:
            part.has_process_use = False
            return None
        out, last = {}, part.last_seen
        if code != OK:
            return out if code == NOT_FOUND else None
        data = self.samples.raw[:32 * min(count.value, len(self.samples) // 32)]
        for pid, stamp, sm, memory, encoder, decoder in struct.iter_unpack('=IxxxxQIIII', data):
            # Drivers fill in rows of processes long gone, and shares beyond all measure.
            if pid in found and stamp > part.last_seen and max(sm, memory, encoder, decoder) <= 100:
                if stamp >= last or pid not in out:
                    out[pid] = sm, memory, encoder, decoder
                last = max(last, stamp)
        part.last_seen = last
        return out

    # -- events

    def happened(self, kind, device, code):
        self.duty.report('event', {'t': 'event', 'at': time.monotonic(), 'source': self.kind, 'kind': kind,
                                   'device': device, 'code': None if code < 0 else code})

    def compare(self, gpu):
        """Tells when what would bring a device back to health is something else than before."""
        action = gpu.values.get('recovery')
        if action.__class__ is int:
            if gpu.past.setdefault('recovery', action) != action:
                self.happened('recovery', gpu.uuid, action)
            gpu.past['recovery'] = action

    def listen(self):
        """Makes a set of events with nothing in it."""
        if self.events is not None:
            self.library.call('nvmlEventSetFree', self.events)
        self.events = None
        if self.deaf is None:
            events = self.library.c.c_void_p()
            code = self.library.call('nvmlEventSetCreate', self.library.c.byref(events))
            if code == OK:
                self.events = events
            else:
                self.deaf = REFUSALS.get(code)

    def listen_anew(self):
        """A set with a lost device in it may tell of nothing but the loss."""
        self.listen()
        for gpu in self.gpus:
            if gpu.__class__ is Gpu:
                self.register(gpu)

    def register(self, gpu):
        """Asks to be told of Xids and their like; only what happens from now on is."""
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
            gpu.values['xids'] = gpu.values['xid'] = Lack(self.deaf or REFUSALS.get(code, 'driver error'))

    def count_xids(self, gpu):
        gpu.values['xids'] = gpu.past.setdefault('xids', 0)
        gpu.values['xid'] = gpu.past.get('xid', Lack('not available'))

    def silence(self, why):
        """The driver tells of no events, and is not asked again."""
        self.deaf = why
        self.listen_anew()
        self.again(False)

    def hear(self):
        """Tells of the events that have come, and never waits for one; true if the set is of no use any more."""
        if self.events is None:
            return False
        library, told = self.library, set()
        wait = library.function('nvmlEventSetWait_v2') or library.function('nvmlEventSetWait')
        for _ in range(MOST_EVENTS):
            library.announce(b'nvmlEventSetWait_v2')
            code = NO_FUNCTION if wait is None else wait(self.events, self.event, library.c.c_uint(0))
            if code in (INVALID, GPU_IS_LOST):
                return True
            if code in REFUSALS:
                self.silence(REFUSALS[code])
            if code:
                break
            handle, bits, data, instance, part = struct.unpack_from('=QQQII', self.event)
            for gpu in self.gpus:
                if gpu.__class__ is Gpu and gpu.handle.value == handle:
                    told.update(self.sort(gpu, bits, data, instance, part))
                    self.slow_due = 0.0         # what else it changed stands in the slow group
        for kind, device, code in sorted(told):
            self.happened(kind, device, code)
        return False

    def sort(self, gpu, bits, data, instance, part):
        """What an event is: (kind, device, number) each; a slice is named where the driver knows it."""
        if bits & XID:
            gpu.past['xids'] += 1
            gpu.past['xid'] = data
            self.count_xids(gpu)
        elif bits & ACTION and gpu.values.get('recovery').__class__ is int:
            return []           # told once its number is known
        hit = [one for one in gpu.slices if one.values.get('gpu_instance') == instance
               and part in (NOWHERE, one.values.get('compute_instance'))]
        device = hit[0].uuid if len(hit) == 1 else gpu.uuid
        kinds = [kind for mask, kind in EVENT_KINDS if bits & mask]
        return [(kind, device, data if bits & XID else -1) for kind in kinds]
