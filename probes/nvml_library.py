# NVML's C interface: loading the library, recording each call, and the struct layouts (NVIDIA's nvml.h).
# Nothing here sleeps in the driver: nvmlDeviceGetPcieThroughput, which samples for 20 ms, is never called.
# Return codes (nvmlReturn_t).
OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, TOO_SMALL = 0, 1, 2, 3, 4, 6, 7
NO_DRIVER, NO_FUNCTION, GPU_IS_LOST, NEEDS_RESET, BLOCKED, MISMATCH, DEPRECATED = 9, 13, 15, 16, 17, 18, 26

# Refusals: the value is asked for again after a while, each time after twice as long. Any other error may be gone soon.
REFUSALS = {INVALID: 'not supported', NOT_SUPPORTED: 'not supported', NO_FUNCTION: 'not offered',
            25: 'not offered', DEPRECATED: 'not offered', NO_PERMISSION: 'no permission', BLOCKED: 'no permission'}
# Errors of the whole device, with the fault that is reported.
DEVICE_FAULTS = {GPU_IS_LOST: 'lost', NEEDS_RESET: 'reset', NO_PERMISSION: 'perm',
                 BLOCKED: 'perm', 8: 'a power cable is not connected'}
# Why the library cannot be used at all.
NVML_ABSENT = {NO_DRIVER: 'NVML: the driver is not running', 12: 'NVML: libnvidia-ml.so.1 found, but not the driver library',
               MISMATCH: 'NVML: driver and library versions differ', NO_PERMISSION: 'NVML: no permission',
               BLOCKED: 'NVML: blocked by a control group', 28: 'NVML: no device'}

# The error code that is reported if the library refuses to start, and the words for codes that have none above.
START_ERRORS = {NO_DRIVER: 'nodriver', MISMATCH: 'mismatch', NO_PERMISSION: 'perm', BLOCKED: 'perm', GPU_IS_LOST: 'lost'}
START_WORDS = {GPU_IS_LOST: 'NVML: a device is lost', 999: 'NVML: unknown error'}

INITIAL_ENTRIES = 256  # initial length of a process list


def ctypes_subset():
    """Builds the parts of ctypes needed here from _ctypes: the package itself takes a megabyte more memory."""
    import _ctypes as c
    simple = c._SimpleCData
    names = {name: type(simple)(name, (simple,), {'_type_': letter}) for name, letter in
             (('c_char', 'c'), ('c_int', 'i'), ('c_uint', 'I'), ('c_ulonglong', 'Q'), ('c_void_p', 'P'))}

    class Function(c.CFuncPtr):
        _flags_ = c.FUNCFLAG_CDECL
        _restype_ = names['c_int']

    class SharedLibrary:
        def __init__(self, path):
            self._handle = c.dlopen(path, 0)

        def __getattr__(self, name):
            return Function((name, self))

    def create_string_buffer(value, size=None):
        buffer = (names['c_char'] * (size or value))()
        if size:
            buffer.raw = value
        return buffer

    return type('ctypes_subset', (), dict(names, byref=c.byref, CDLL=SharedLibrary,
                                    create_string_buffer=staticmethod(create_string_buffer)))


class Library:
    """libnvidia-ml.so.1; each call is recorded on the page before it is made."""

    def __init__(self, page):
        try:
            self.c = ctypes_subset()
        except Exception:  # another Python implementation
            import ctypes
            self.c = ctypes
        self.memory = page.memory
        self.lib = None
        self.functions = {}
        self.refusal = None  # the error of the start: its kind, call, message and number
        self.last_refusal = NO_FUNCTION  # the last error of `unsigned`

    def open(self):
        """Loads the library; returns why that failed, or None."""
        for path in LIBRARY_PATHS:
            try:
                self.lib = self.c.CDLL(path)
                return None
            except OSError:
                pass
        return 'NVML: libnvidia-ml.so.1 not found'

    def initialize(self):
        """Initializes the library; returns why that failed, or None."""
        code = self.call('nvmlInit_v2')
        if code == NO_FUNCTION:
            code = self.call('nvmlInit')
        self.refusal = None
        if not code:
            return None
        why = NVML_ABSENT.get(code, 'NVML: error %d at the start' % code)
        words = START_WORDS.get(code, why)[len('NVML: '):]
        self.refusal = START_ERRORS.get(code, 'start'), 'nvmlInit_v2', 'error %d: %s' % (code, words), code
        return why

    def function(self, name):
        """Returns the function, or None if this version does not have it."""
        if name not in self.functions:
            try:
                self.functions[name] = getattr(self.lib, name)
            except AttributeError:
                self.functions[name] = None
        return self.functions[name]

    def call_label(self, name, device):
        return (name if device is None else '%s of device %s' % (name, device)).encode('ascii')

    def record_call(self, label):
        self.memory[:96] = CALL_RECORD.pack(time.monotonic(), label)

    def call(self, name, *arguments):
        function = self.function(name)
        if function is None:
            return NO_FUNCTION
        self.record_call(self.call_label(name, None))
        return function(*arguments)

    def unsigned(self, name, *before):
        """Returns an unsigned integer, or None."""
        out = self.c.c_uint()
        code = self.call(name, *(before + (self.c.byref(out),)))
        if code not in (OK, NO_FUNCTION):
            self.last_refusal = code
        return out.value if code == OK else None

    def string(self, name, *before):
        """Returns a short string, or None."""
        out = self.c.create_string_buffer(96)
        if self.call(name, *(before + (out, self.c.c_uint(96)))) != OK:
            return None
        return printable_bytes(out.value)

    def driver(self):
        """Returns the facts about the driver for hello."""
        out, cuda = {}, self.c.c_int()
        for key, name in (('driver', 'nvmlSystemGetDriverVersion'), ('library', 'nvmlSystemGetNVMLVersion')):
            value = self.string(name)
            if value:
                out[key] = value
        if self.call('nvmlSystemGetCudaDriverVersion_v2', self.c.byref(cuda)) == OK:
            out['cuda'] = '%d.%d' % (cuda.value // 1000, cuda.value % 1000 // 10)
        return out


def printable_bytes(data):
    return printable(data.decode('utf-8', 'replace'))[:96]


class Query:
    """A call that returns one value of a device, or several at once."""

    def __init__(self, library, device, keys, name, out, arguments, fallback=None, struct_version=0):
        self.keys = keys  # the key of each number of `out`, None to skip it
        self.function = library.function(name)
        self.label = library.call_label(name, device)
        self.out = out
        self.arguments = arguments
        self.fallback = fallback  # the query to use if this one is refused
        self.struct_version = struct_version  # the struct's version, which some drivers overwrite
        self.single_key = keys[0] if len(keys) == 1 else None


class FieldBatch:
    """Reads many values of a device in one call (nvmlDeviceGetFieldValues)."""

    entry = struct.Struct('=IIqqIIQ')
    function_name = 'nvmlDeviceGetFieldValues'

    def __init__(self, library, device, fields):
        self.fields = fields        # (key, field id, scope id, factor)
        self.function = library.function(self.function_name)
        self.call_label = library.call_label(self.function_name, device)
        self.buffer = library.c.create_string_buffer(40 * max(1, len(fields)))
        for i, (_, number, scope, _) in enumerate(fields):
            self.entry.pack_into(self.buffer, 40 * i, number, scope, 0, 0, 0, 0, 0)

    def read(self, handle, library):
        """Returns the code of the call, and the code and value of each field."""
        if self.function is None:
            return NO_FUNCTION, []
        library.record_call(self.call_label)
        code = self.function(handle, len(self.fields), self.buffer)
        if code != OK:
            return code, []
        return OK, [(field_code, None if field_code else field_value(kind, bits)) for _, _, _, _, kind, field_code, bits
                    in self.entry.iter_unpack(self.buffer.raw[:40 * len(self.fields)])]


def field_value(kind, bits):
    """Decodes nvmlValue_t: double, u32, ulong, u64, i64, i32, u16."""
    if kind == 0:
        return struct.unpack('=d', struct.pack('=Q', bits))[0]
    if kind in (2, 3):
        return bits
    if kind == 4:
        return bits - (bits >> 63 << 64)
    if kind == 5:
        bits &= 0xffffffff
        return bits - (bits >> 31 << 32)
    return bits & (0xffff if kind == 6 else 0xffffffff)


class ProcessList:
    """Reads process lists. An entry has 16, 24 or 32 bytes, and drivers of 2023 disagree under the same symbol:
    the size is found from the bytes of a patterned buffer that the driver leaves untouched."""

    pattern = b'\xa5' * 32

    def __init__(self, library):
        self.library = library
        self.allocate(INITIAL_ENTRIES)

    def allocate(self, entries):
        self.entries = entries
        self.buffer = self.library.c.create_string_buffer(32 * entries)
        self.count = self.library.c.c_uint()

    def read(self, kind, handle, device):
        """Returns (code, [(pid, bytes or None)]) for the kind Compute, Graphics or MPSCompute."""
        library = self.library
        for version in ('_v3', '_v2', ''):
            name = 'nvmlDeviceGet%sRunningProcesses%s' % (kind, version)
            function = library.function(name)
            if function is not None:
                break
        else:
            return NO_FUNCTION, []
        label = library.call_label(name, device)
        for _ in range(4):
            self.count.value = self.entries
            self.buffer.raw = self.pattern * self.entries
            library.record_call(label)
            code = function(handle, library.c.byref(self.count), self.buffer)
            if code != TOO_SMALL:
                break
            self.allocate(min(65536, self.count.value * 2 + 5))
        count = min(self.count.value, self.entries)
        if code != OK or not count:
            return (OK if code == NOT_FOUND else code), []
        return OK, self.parse(count)

    def parse(self, count):
        data = self.buffer.raw
        size = 16
        for candidate in (24, 32):
            if data[count * candidate - 4:count * candidate] != self.pattern[:4]:
                size = candidate
        found = []
        for i in range(count):
            pid, memory = struct.unpack_from('=IxxxxQ', data, i * size)
            found.append((pid, memory if memory < 1 << 60 else None))
        return found


class Gpm:
    """Activity counters (GPM) of Hopper and newer: computed from two snapshots."""

    # In the order in which they are sent: graphics, SM, occupancy, any tensor, DRAM, FP64, FP32, FP16; MiB/s sent and
    # received over PCIe, received and sent over NVLink.
    metrics = (1, 2, 3, 5, 10, 11, 12, 13, 20, 21, 60, 61)
    head = struct.Struct('=IIQQ')
    entry = struct.Struct('=IId')

    def __init__(self, library, handle, device, instance=None):
        c = library.c
        self.library, self.handle, self.device, self.instance = library, handle, device, instance
        self.samples = [c.c_void_p(), c.c_void_p()]
        self.sampled_at = None
        self.is_first = False  # there is one snapshot so far
        self.buffer = None

    def start(self):
        """Returns why the device has no such counters, or None if it has."""
        c = self.library.c
        support = (c.c_uint * 2)(1, 0)
        if self.instance is None:
            code = self.library.call('nvmlGpmQueryDeviceSupport', self.handle, support)
            if code or not support[1]:
                return REFUSALS.get(code, 'not supported')
        for sample in self.samples:
            code = self.library.call('nvmlGpmSampleAlloc', c.byref(sample))
            if code:
                return REFUSALS.get(code, 'not available')
        # The struct in nvml.h has room for all future metrics.
        self.buffer = c.create_string_buffer(24 + 40 * 480)
        return None

    def read(self, now):
        """Returns (code, [value or None]); an empty list until two snapshots are more than 0.1 s apart."""
        if self.sampled_at is not None and now - self.sampled_at < 0.11:
            return OK, []
        library, (before, last) = self.library, self.samples
        if self.instance is None:
            name, arguments = 'nvmlGpmSampleGet', (self.handle, before)
        else:
            name, arguments = 'nvmlGpmMigSampleGet', (self.handle, library.c.c_uint(self.instance), before)
        function = library.function(name)
        if function is None:
            return NO_FUNCTION, []
        library.record_call(library.call_label(name, self.device))
        code = function(*arguments)
        if code:
            return code, []
        self.samples = [last, before]
        self.is_first, self.sampled_at = self.sampled_at is None, now
        return (OK, []) if self.is_first else self.compute(last, before)

    def compute(self, first, second):
        library = self.library
        self.head.pack_into(self.buffer, 0, 1, len(self.metrics), first.value, second.value)
        for i, number in enumerate(self.metrics):
            self.entry.pack_into(self.buffer, 24 + 40 * i, number, 0, 0.0)
        library.record_call(library.call_label('nvmlGpmMetricsGet', self.device))
        code = library.function('nvmlGpmMetricsGet')(self.buffer)
        if code:
            return code, []
        found = [self.entry.unpack_from(self.buffer, 24 + 40 * i) for i in range(len(self.metrics))]
        return OK, [None if field_code else round(value, 1) for _, field_code, value in found]

    def free(self):
        for sample in self.samples:
            if sample.value:
                self.library.call('nvmlGpmSampleFree', sample)
                sample.value = None
