# The nvidia-smi backend: runs queries, limits their output and forwards it without interpreting it. Never runs two
# nvidia-smi at once. Compiled only in the child of a node whose NVML cannot be used.
SMI_FIELDS = (
    'index,uuid,name,pci.bus_id,driver_version,persistence_mode,pstate,temperature.gpu,temperature.memory,'
    'utilization.gpu,utilization.memory,memory.total,memory.used,memory.free,power.draw,power.limit,'
    'enforced.power.limit,clocks.current.sm,clocks.current.memory,clocks.max.sm,clocks.max.memory,fan.speed,'
    'clocks_throttle_reasons.active,ecc.mode.current,ecc.errors.corrected.volatile.total,'
    'ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.aggregate.total,'
    'ecc.errors.uncorrected.aggregate.total,retired_pages.pending,compute_mode,mig.mode.current,'
    'pcie.link.gen.current,pcie.link.width.current,pcie.link.gen.max,pcie.link.width.max').split(',')
SMI_APPS = 'gpu_uuid,pid,used_memory,process_name'
# Queried with the slow group: the fields of all versions, and those added after 465.
SMI_MORE = (
    'uuid,display_active,clocks.current.graphics,clocks.current.video,clocks.max.graphics,power.default_limit,'
    'power.min_limit,power.max_limit,retired_pages.single_bit_ecc.count,retired_pages.double_bit.count').split(',')
SMI_NEWER = (
    'utilization.encoder,utilization.decoder,utilization.jpeg,utilization.ofa,compute_cap,power.draw.average,'
    'power.draw.instant,memory.reserved,remapped_rows.correctable,remapped_rows.uncorrectable,remapped_rows.pending,'
    'remapped_rows.failure,gpu_recovery_action,fabric.state,fabric.health.summary,temperature.gpu.tlimit,'
    'ecc.errors.uncorrected.aggregate.sram.thresholdExceeded').split(',')
SMI_FOLDERS = ('/usr/bin', '/usr/local/bin', '/usr/local/nvidia/bin', '/usr/lib/wsl/lib', '/run/current-system/sw/bin',
              '/opt/bin', '/home/kubernetes/bin/nvidia/bin')
SMI_FILES = '/proc/driver/nvidia/gpus/'
SMI_GOOD_EXITS = (0, 14)  # 14 only warns of a corrupted infoROM
SMI_OUTPUT = 1 << 20
SMI_LINE = 1024
SMI_ROWS = 64
SMI_APP_ROWS = 1024
SMI_APP_BYTES = 256 << 10
SMI_NOISE = 64
SMI_NOISE_LINE = 200
SMI_RETRY = 5.0  # seconds to wait after a failure
SMI_QUERY = 'nvidia-smi --query-gpu'
SMI_INTERVALS = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 80.0, 120.0)  # for a slow nvidia-smi: it is idle for at least as long as it runs
SMI_SLICES = 1024  # maximum lines about slices

SMI_NO_HANDLE = 'unable to determine the device handle'
SMI_NO_DEVICES = 'no devices were found'
# Messages and exit codes (NVML's numbers) and the error code that is reported for them.
SMI_MESSAGES = (('mismatch', 'version mismatch'), ('nodriver', "couldn't communicate with the nvidia driver"),
            ('nolib', "couldn't find libnvidia-ml"), ('nolib', 'error while loading shared libraries'),
            ('perm', 'insufficient permissions'), ('perm', 'permission denied'), ('lost', 'gpu is lost'),
            ('failed', 'requires reset'), ('nodriver', 'driver not loaded'), ('lost', SMI_NO_HANDLE))
SMI_EXITS = {4: 'perm', 9: 'nodriver', 12: 'nolib', 15: 'lost', 18: 'mismatch', 126: 'perm'}


def smi_error_code(status, lines):
    text = ' '.join(lines).lower()
    for code, words in SMI_MESSAGES:
        if words in text:
            return code
    return SMI_EXITS.get(status, 'failed' if status else 'parse')


def truncate_line(line, max_bytes):
    """Shortens a line until its JSON fits into `most` bytes; a character may take twelve."""
    while len(quote(line)) > max_bytes:
        line = line[:len(line) // 2]
    return line


class NvidiaSmi:
    """Runs in its own child; `sample` reports parts and errors."""

    kind = 'nvidia-smi'
    min_intervals = (1.0, 2.0, 10.0)  # seconds between device queries, process queries, those of the slow group
    facts = None

    def __init__(self, child):
        self.child = child
        self.path = None
        self.fields = list(SMI_FIELDS)
        self.more = SMI_MORE + SMI_NEWER
        self.known = None  # the fields that its help lists, read after a refusal
        self.minors = None  # device file numbers by PCI id
        self.has_worked = False
        self.habits = Habits()  # how long each kind of call takes
        self.last_duration = 0.0
        self.interval = self.announced = self.min_intervals[0]  # between queries, and as the probe announces it
        self.due = self.apps_due = self.slow_due = 0.0
        self.part = {}  # the last reported part of the devices

    def absent(self):
        """Returns why this backend cannot be used here, or None if it can."""
        for folder in os.environ.get('PATH', '').split(':') + list(SMI_FOLDERS):
            path = trusted(folder + '/nvidia-smi')
            if folder.startswith('/') and path and os.path.isfile(path) and os.access(path, os.X_OK):
                self.path = path
                return None
        self.facts = NOT_INSTALLED
        return 'nvidia-smi not found'

    def on_exit(self):
        pass

    def sample(self, interval, _floor, _full):
        now = time.monotonic()
        slack = min(0.1 * interval, 0.05)  # ticks are never exactly on time
        if now < self.due - slack:
            return None
        self.due = now + self.interval
        if not self.devices():
            self.due = time.monotonic() + SMI_RETRY
            return None
        self.due = max(self.due, time.monotonic() + min(self.last_duration, STUCK_AFTER))
        if not self.part['csv']['rows']:
            return None  # the other queries end at the same device
        if now >= self.slow_due - slack:
            self.slow_due = now + self.min_intervals[2]
            self.slow()
        # After the slow group, which tells the slice of a process.
        if now >= self.apps_due - slack:
            self.apps_due = now + self.min_intervals[1]
            self.apps()

    def query(self, fields):
        """Returns (exit status, lines, supported fields) of a device query, or None if it was killed."""
        while True:
            status, lines, ended = self.run_smi('--query-gpu=' + ','.join(fields))
            if ended:
                return None
            refused = [f for f in fields if any('Field "%s" is not a valid' % f in line for line in lines)]
            if not refused or len(fields) == len(refused):
                return status, lines, fields
            # It names one unknown field at a time; its help lists all known ones.
            if self.known is None:
                self.known = self.help()
            fields = [f for f in fields if f not in refused and (f in self.known or not self.known)]

    def help(self):
        """Returns the fields that the help of this version lists."""
        lines = self.run_smi('--help-query-gpu')[1]
        return set(word for line in lines if line[:1] == '"' for word in line.split('"')[1::2])

    def rows(self, lines, fields):
        return [truncate_line(line, SMI_LINE) for line in lines if line.count(',') >= len(fields) - 1
                and not line.startswith(fields[0] + ',')][:SMI_ROWS]

    def devices(self):
        """Queries the devices; returns true if it listed any."""
        began = time.monotonic()
        result = self.query(self.fields)
        if result is None:
            return False
        status, lines, self.fields = result
        rows = self.rows(lines, self.fields)
        noise = [line[:SMI_NOISE_LINE] for line in lines if line.count(',') < len(self.fields) - 1][:SMI_NOISE]
        # A device without a handle has a message in place of its row, and it may be the last line. None is a list, too.
        text = ' '.join(lines).lower()
        if not rows and SMI_NO_HANDLE not in text and SMI_NO_DEVICES not in text:
            self.report_failure(status, lines, '--query-gpu', '')
            return False
        self.has_worked = True
        self.last_duration = time.monotonic() - began
        self.part = {'at': time.monotonic(), 'csv': {'columns': self.fields, 'rows': rows, 'noise': noise}}
        self.child.report('part', self.part, None, {})
        self.adapt_interval(rows)
        return True

    def report_failure(self, status, lines, option, suffix):
        message = lines[0][:SMI_NOISE_LINE] if lines else 'exited with %d and printed nothing' % status
        self.child.report('error', smi_error_code(status, lines), ('nvidia-smi ' + option).strip(), 0.0, message, suffix)

    def column(self, rows, field):
        column = self.fields.index(field) if field in self.fields else -1
        return set(row.split(',')[column].strip() for row in rows if column >= 0)

    def adapt_interval(self, rows):
        """Queries less often without devices or persistence mode, where each query loads the driver, or if a query is slow."""
        is_costly = not rows or 'Disabled' in self.column(rows, 'persistence_mode')
        floor = SMI_INTERVALS[0] if is_costly else self.min_intervals[0]

        def interval_of(seconds):
            choices = [choice for choice in SMI_INTERVALS if choice >= 2 * seconds] or SMI_INTERVALS[-1:]
            return choices[0] if seconds > 2.0 else floor
        interval = interval_of(self.last_duration)
        self.due += interval - self.interval
        self.interval = interval
        # How old values may be follows the longest query of late: the next one may take as long.
        announced = max(interval, interval_of(self.habits.of(SMI_QUERY, time.monotonic())))
        if announced != self.announced:
            self.announced = announced
            self.child.report('intervals', *[max(announced, floor) for floor in self.min_intervals])

    def apps(self):
        status, lines, ended = self.run_smi('--query-compute-apps=' + SMI_APPS, PROCESSES_SUFFIX)
        if ended:
            return
        rows = [line for line in lines if line.count(',') >= 3 and not line.startswith('gpu_uuid,')][:SMI_APP_ROWS]
        if status not in SMI_GOOD_EXITS and not rows:
            self.report_failure(status, lines, '--query-compute-apps', PROCESSES_SUFFIX)
            return
        max_length = min(SMI_LINE, SMI_APP_BYTES // max(1, len(rows)))
        rows = [truncate_line(line, max_length) for line in rows]
        pids = [word for word in (row.split(',')[1].strip() for row in rows) if word.isdigit() and len(word) < 10]
        at = time.monotonic()
        pids = sorted(set(int(pid) for pid in pids) - {0})
        self.child.report('part', {'at': at, 'apps': {'at': at, 'rows': rows}}, pids, {})

    def slow(self):
        """Queries the slow group and reports it with the devices; a part that fails is left out."""
        part = {'slow': time.monotonic()}
        if self.minors is None:
            self.minors = self.device_files()
        if self.minors:
            part['minors'] = self.minors
        more, has_failed = self.details()
        if more:
            part['more'] = more
        if has_failed:
            del part['slow']
        if 'Enabled' in self.column(self.part['csv']['rows'], 'mig.mode.current'):
            mig = self.slices()
            if mig:
                part['mig'] = mig
        part['at'] = self.part['at']
        if 'minors' in part or 'more' in part or 'mig' in part:
            part['csv'] = self.part['csv']
        self.child.report('part', part, None, {})

    def device_files(self):
        """Returns device file numbers by PCI id from /proc, or else from nvidia-smi -q."""
        minors = {}
        for folder in list_folder(SMI_FILES)[:SMI_ROWS]:
            pairs = [line.partition(b':')[::2] for line in read(SMI_FILES + folder + '/information').split(b'\n')]
            minor = dict(pairs).get(b'Device Minor', b'').strip()
            if minor.isdigit():
                minors[folder] = int(minor)
        if minors:
            return minors
        pci = ''
        for line in self.run_smi('-q', '.slow')[1]:
            key, _, value = [word.strip() for word in line.partition(' : ')]
            if line.startswith('GPU ') and set(line[4:]) <= set('0123456789abcdefABCDEF:.'):
                pci = line[4:]
            elif key == 'Minor Number' and value.isdigit() and pci and len(minors) < SMI_ROWS:
                minors[truncate_line(pci, 32)] = int(value[:9])
        return minors

    def details(self):
        """Queries the values that change slowly; returns them, None if there are none, and whether the query failed."""
        while self.more:
            result = self.query(self.more)
            if result is None:
                return None, True
            status, lines, known = result
            rows = self.rows(lines, known)
            if rows and len(known) > 1:
                self.more = known
                return {'columns': known, 'rows': rows}, False
            if not any('is not a valid' in line for line in lines):
                self.report_failure(status, lines, '--query-gpu', '.slow')
                return None, True
            # This version is too old for most of them.
            self.more = SMI_MORE if len(self.more) > len(SMI_MORE) else None
        return None, False

    def slices(self):
        """Returns the lines about slices: from -L their names, from the table for people their memory.

        Returns None without names, which would mean that the slices are gone."""
        def name_lines(lines):
            return [line[:SMI_NOISE_LINE] for line in lines if line.startswith(('GPU ', 'MIG '))]

        def memory_lines(lines):
            start = min([i for i, line in enumerate(lines) if 'MIG devices:' in line] or [len(lines)])
            return [line[:SMI_NOISE_LINE] for line in lines[start:]
                    if line[:1] == '|' and (line.split() + ['', ''])[1].isdigit()]

        part = {}
        for key, option, pick in ('list', '-L', name_lines), ('table', '', memory_lines):
            status, lines, ended = self.run_smi(option, '.slow')
            part[key] = pick(lines)[:SMI_SLICES]
            # A non-zero status may be a warning only.
            if not ended and status and not part[key]:
                self.report_failure(status, lines, option, '.slow')
            if not part['list']:
                return None
        return part

    def run_smi(self, option, suffix=''):
        """Returns (exit status, lines, why it was killed or None), and reports a kill as an error."""
        name = ('nvidia-smi ' + option.split('=')[0]).strip()
        began = time.monotonic()
        self.child.report_call(name, *['starting'] * (not self.has_worked))
        limit = self.habits.like(name, began) + STUCK_AFTER
        argv = [self.path] + [option] * bool(option) + ['--format=csv,noheader,nounits'] * ('=' in option)
        status, data, ended = run_program(self.child, argv, None, began + limit, SMI_OUTPUT)
        now = time.monotonic()
        if not ended:
            self.habits.add(name, now - began, now)
        if ended == 'overflow':
            self.child.report('error', 'parse', name, 0.0, 'printed more than %d bytes' % SMI_OUTPUT, suffix)
        elif ended:
            self.child.report('error', 'stuck', name, now - began, 'killed after %.0f s' % (now - began), suffix)
        lines = [printable(line).strip() for line in data.decode('utf-8', 'replace').split('\n')]
        return status, [line for line in lines if line], ended
