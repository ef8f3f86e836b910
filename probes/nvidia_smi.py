# The nvidia-smi backend: asks, bounds and forwards; never interprets. One nvidia-smi at a time, ever.
# Travels packed, and is compiled only in the child of a node whose NVML cannot be used.
SMI_FIELDS = (
    'index,uuid,name,pci.bus_id,driver_version,persistence_mode,pstate,temperature.gpu,temperature.memory,'
    'utilization.gpu,utilization.memory,memory.total,memory.used,memory.free,power.draw,power.limit,'
    'enforced.power.limit,clocks.current.sm,clocks.current.memory,clocks.max.sm,clocks.max.memory,fan.speed,'
    'clocks_throttle_reasons.active,ecc.mode.current,ecc.errors.corrected.volatile.total,'
    'ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.aggregate.total,'
    'ecc.errors.uncorrected.aggregate.total,retired_pages.pending,compute_mode,mig.mode.current,'
    'pcie.link.gen.current,pcie.link.width.current,pcie.link.gen.max,pcie.link.width.max').split(',')
SMI_APPS = 'gpu_uuid,pid,used_memory,process_name'
# Asked for with the slow group: what every version knows, and what came after 465.
SMI_MORE = (
    'uuid,display_active,clocks.current.graphics,clocks.current.video,clocks.max.graphics,power.default_limit,'
    'power.min_limit,power.max_limit,retired_pages.single_bit_ecc.count,retired_pages.double_bit.count').split(',')
SMI_NEWER = (
    'utilization.encoder,utilization.decoder,utilization.jpeg,utilization.ofa,compute_cap,power.draw.average,'
    'power.draw.instant,memory.reserved,remapped_rows.correctable,remapped_rows.uncorrectable,remapped_rows.pending,'
    'remapped_rows.failure,gpu_recovery_action,fabric.state,fabric.health.summary,temperature.gpu.tlimit,'
    'ecc.errors.uncorrected.aggregate.sram.thresholdExceeded').split(',')
SMI_PLACES = ('/usr/bin', '/usr/local/bin', '/usr/local/nvidia/bin', '/usr/lib/wsl/lib', '/run/current-system/sw/bin',
              '/opt/bin', '/home/kubernetes/bin/nvidia/bin')
SMI_FILES = '/proc/driver/nvidia/gpus/'
SMI_WARNS = (0, 14)     # it has told all; by the latter it warns of a corrupted infoROM
SMI_OUTPUT = 1 << 20
SMI_LINE = 1024
SMI_ROWS = 64
SMI_APP_ROWS = 1024
SMI_APP_BYTES = 256 << 10
SMI_NOISE = 8
SMI_NOISE_LINE = 200
SMI_AGAIN = 5.0     # wait after a failure
SMI_FIRST = 60.0    # the first call may load the driver
SMI_LATER = 10.0    # limit of the others, or three times what the last one took
SMI_PACES = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)    # where it takes long: so that it rests as long as it works
SMI_SLICES = 1024   # lines on slices

# What it says, and what it exits with (NVML's numbers), by the code that becomes of it.
SMI_SAYS = (('mismatch', 'version mismatch'), ('nodriver', "couldn't communicate with the nvidia driver"),
            ('nolib', "couldn't find libnvidia-ml"), ('nolib', 'error while loading shared libraries'),
            ('perm', 'insufficient permissions'), ('perm', 'permission denied'), ('lost', 'gpu is lost'),
            ('lost', 'unable to determine the device handle'))
SMI_EXITS = {4: 'perm', 9: 'nodriver', 12: 'nolib', 15: 'lost', 18: 'mismatch', 126: 'perm'}


def smi_error(status, lines):
    said = ' '.join(lines).lower()
    for code, words in SMI_SAYS:
        if words in said:
            return code
    return SMI_EXITS.get(status, 'failed' if status else 'parse')


def cut(line, most):
    """The beginning of a line, short enough as JSON, where a character may take twelve bytes."""
    while len(quote(line)) > most:
        line = line[:len(line) // 2]
    return line


class NvidiaSmi:
    """Runs in a child of its own; `sample` reports parts and errors, and `floor` how often it wants to be asked."""

    kind = 'nvidia-smi'
    floors = (1.0, 2.0, 10.0)   # seconds between device queries, process queries, those of the slow group
    facts = None

    def __init__(self, duty):
        self.duty = duty
        self.path = None
        self.fields = list(SMI_FIELDS)
        self.more = SMI_MORE + SMI_NEWER
        self.known = None       # what its help lists, once something was refused
        self.minors = None      # the numbers of device files by PCI id
        self.worked = False
        self.took = 0.0
        self.every = self.floors[0]
        self.due = self.apps_due = self.slow_due = 0.0
        self.part = {}          # of the devices, as last reported

    def absent(self):
        """Why this backend cannot be used here, None when it can."""
        for folder in os.environ.get('PATH', '').split(':') + list(SMI_PLACES):
            path = folder + '/nvidia-smi'
            if folder.startswith('/') and os.path.isfile(path) and os.access(path, os.X_OK):
                self.path = path
                return None
        return 'nvidia-smi not found'

    def farewell(self):
        pass

    def sample(self, interval, _floor, _full):
        now = time.monotonic()
        slack = min(0.1 * interval, 0.05)       # the tick that asks is never exactly on time
        if now < self.due - slack:
            return None
        self.due = now + self.every
        if not self.devices():
            self.due = time.monotonic() + SMI_AGAIN
            return None
        self.due = max(self.due, time.monotonic() + min(self.took, SMI_FIRST))
        if now >= self.slow_due - slack:
            self.slow_due = now + self.floors[2]
            self.slow()
        # After the slow group, which tells whose a process of a slice is.
        if now >= self.apps_due - slack:
            self.apps_due = now + self.floors[1]
            self.apps()

    def query(self, fields):
        """(exit status, lines, the fields this version knows) of a query for devices; None when it was ended."""
        while True:
            status, lines, ended = self.ask('--query-gpu=' + ','.join(fields))
            if ended:
                return None
            refused = [f for f in fields if any('Field "%s" is not a valid' % f in line for line in lines)]
            if not refused or len(fields) == len(refused):
                return status, lines, fields
            # It names one at a time; its help names all it knows.
            if self.known is None:
                self.known = self.help()
            fields = [f for f in fields if f not in refused and (f in self.known or not self.known)]

    def help(self):
        """The fields this version knows by its own account, none where it gives none."""
        lines = self.ask('--help-query-gpu')[1]
        return set(word for line in lines if line[:1] == '"' for word in line.split('"')[1::2])

    def rows(self, lines, fields):
        return [cut(line, SMI_LINE) for line in lines if line.count(',') >= len(fields) - 1
                and not line.startswith(fields[0] + ',')][:SMI_ROWS]

    def devices(self):
        """Asks for the devices, leaving out what this version does not know; true when any answered."""
        begun = time.monotonic()
        found = self.query(self.fields)
        if found is None:
            return False
        status, lines, self.fields = found
        rows = self.rows(lines, self.fields)
        noise = [line[:SMI_NOISE_LINE] for line in lines if line.count(',') < len(self.fields) - 1][:SMI_NOISE]
        if not rows:
            self.failed(status, lines, '--query-gpu', '')
            return False
        self.worked = True
        self.took = time.monotonic() - begun
        self.pace(rows)
        self.part = {'at': time.monotonic(), 'csv': {'columns': self.fields, 'rows': rows, 'noise': noise}}
        self.duty.report('part', self.part, None, {})
        return True

    def failed(self, status, lines, option, of):
        said = lines[0][:SMI_NOISE_LINE] if lines else 'exited with %d and printed nothing' % status
        self.duty.report('error', smi_error(status, lines), ('nvidia-smi ' + option).strip(), 0.0, said, of)

    def column(self, rows, field):
        place = self.fields.index(field) if field in self.fields else -1
        return set(row.split(',')[place].strip() for row in rows if place >= 0)

    def pace(self, rows):
        """Without persistence each query wakes the driver up: then it is asked less often."""
        every = SMI_PACES[0] if 'Disabled' in self.column(rows, 'persistence_mode') else self.floors[0]
        if self.took > 2.0:
            every = min([pace for pace in SMI_PACES if pace >= 2 * self.took] or SMI_PACES[-1:])
        if every != self.every:
            self.due += every - self.every
            self.every = every
            self.duty.report('floors', *[max(every, floor) for floor in self.floors])

    def apps(self):
        status, lines, ended = self.ask('--query-compute-apps=' + SMI_APPS, USERS)
        if ended:
            return
        rows = [line for line in lines if line.count(',') >= 3 and not line.startswith('gpu_uuid,')][:SMI_APP_ROWS]
        if status not in SMI_WARNS and not rows:
            self.failed(status, lines, '--query-compute-apps', USERS)
            return
        longest = min(SMI_LINE, SMI_APP_BYTES // max(1, len(rows)))
        rows = [cut(line, longest) for line in rows]
        pids = [word for word in (row.split(',')[1].strip() for row in rows) if word.isdigit() and len(word) < 10]
        at = time.monotonic()
        pids = sorted(set(int(pid) for pid in pids) - {0})
        self.duty.report('part', {'at': at, 'apps': {'at': at, 'rows': rows}}, pids, {})

    def slow(self):
        """The slow group: it travels with the devices it is about. What of it fails leaves out itself only."""
        part = {'slow': time.monotonic()}
        if self.minors is None:
            self.minors = self.device_files()
        if self.minors:
            part['minors'] = self.minors
        more = self.details()
        if more:
            part['more'] = more
        if 'Enabled' in self.column(self.part['csv']['rows'], 'mig.mode.current'):
            mig = self.slices()
            if mig:
                part['mig'] = mig
        part['at'] = self.part['at']
        if len(part) > 2:
            part['csv'] = self.part['csv']
        self.duty.report('part', part, None, {})

    def device_files(self):
        """The numbers of device files by PCI id, as the driver tells them; where /proc does not, nvidia-smi does."""
        found = {}
        for folder in listing(SMI_FILES)[:SMI_ROWS]:
            pairs = [line.partition(b':')[::2] for line in read(SMI_FILES + folder + '/information').split(b'\n')]
            minor = dict(pairs).get(b'Device Minor', b'').strip()
            if minor.isdigit():
                found[folder] = int(minor)
        if found:
            return found
        place = ''
        for line in self.ask('-q', '.slow')[1]:
            key, _, value = [word.strip() for word in line.partition(' : ')]
            if line.startswith('GPU ') and set(line[4:]) <= set('0123456789abcdefABCDEF:.'):
                place = line[4:]
            elif key == 'Minor Number' and value.isdigit() and place and len(found) < SMI_ROWS:
                found[cut(place, 32)] = int(value[:9])
        return found

    def details(self):
        """What changes slowly, as far as this version knows it; None when it gives none of it."""
        while self.more:
            found = self.query(self.more)
            if found is None:
                return None
            status, lines, known = found
            rows = self.rows(lines, known)
            if rows and len(known) > 1:
                self.more = known
                return {'columns': known, 'rows': rows}
            if not any('is not a valid' in line for line in lines):
                self.failed(status, lines, '--query-gpu', '.slow')
                return None
            # Too old for most of them: never again.
            self.more = SMI_MORE if len(self.more) > len(SMI_MORE) else None
        return None

    def slices(self):
        """What it says of slices: who they are, and, in its table for people only, what they hold.

        None when it does not say who they are: that would mean that they are gone."""
        def named(lines):
            return [line[:SMI_NOISE_LINE] for line in lines if line.startswith(('GPU ', 'MIG '))]

        def held(lines):
            start = min([i for i, line in enumerate(lines) if 'MIG devices:' in line] or [len(lines)])
            return [line[:SMI_NOISE_LINE] for line in lines[start:]
                    if line[:1] == '|' and (line.split() + ['', ''])[1].isdigit()]

        part = {}
        for key, option, pick in ('list', '-L', named), ('table', '', held):
            status, lines, ended = self.ask(option, '.slow')
            part[key] = pick(lines)[:SMI_SLICES]
            # It warns by its status, too, and tells all the same.
            if not ended and status and not part[key]:
                self.failed(status, lines, option, '.slow')
            if not part['list']:
                return None
        return part

    def ask(self, option, of=''):
        """(exit status, lines, whether it had to be ended); what made us end it is reported."""
        name = ('nvidia-smi ' + option.split('=')[0]).strip()
        begun = time.monotonic()
        if self.worked:
            self.duty.call(name)
            limit = min(SMI_FIRST, max(SMI_LATER, 3 * self.took))
        else:
            self.duty.call(name, 'starting')
            limit = SMI_FIRST
        argv = [self.path] + [option] * bool(option) + ['--format=csv,noheader,nounits'] * ('=' in option)
        status, data, ended = self.run(argv, begun + limit)
        if ended == 'flood':
            self.duty.report('error', 'parse', name, 0.0, 'printed more than %d bytes' % SMI_OUTPUT, of)
        elif ended:
            took = time.monotonic() - begun
            self.duty.report('error', 'stuck', name, took, 'killed after %.0f s' % took, of)
        lines = [printable(line).strip() for line in data.decode('utf-8', 'replace').split('\n')]
        return status, [line for line in lines if line], ended

    def run(self, argv, deadline):
        """Runs one program to its end: (status, output, None | 'flood' | 'late')."""
        source, sink = os.pipe()
        # With something of ours running, the alarm must take it along.
        signal.signal(signal.SIGALRM, lambda number, frame: end_ourselves())
        pid = os.fork()
        if pid == 0:
            become(argv, sink)
        os.close(sink)
        output, ended = [], None
        size = 0
        while ended is None:
            left = deadline - time.monotonic()
            if left <= 0:
                ended = 'late'
            elif self.duty.wait(left, source):
                piece = os.read(source, 65536)
                if not piece:
                    break
                output.append(piece)
                size += len(piece)
                if size > SMI_OUTPUT:
                    ended = 'flood'
        os.close(source)
        status, late = self.leave(pid, ended, deadline)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        return status, b''.join(output)[:SMI_OUTPUT], ended or late

    def leave(self, pid, ended, deadline):
        """Waits until the program has gone, by force if need be; one that cannot be killed is waited for here."""
        late = None
        pause = 0.001
        while True:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status), late
            if ended or time.monotonic() >= deadline:
                late = 'late'
                os.kill(pid, signal.SIGKILL)
            self.duty.wait(pause)
            pause = min(pause * 2, 0.25)


def become(argv, sink):
    """In a fresh fork: the program, with nothing of ours but its output."""
    try:
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        for number in (signal.SIGPIPE, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        os.execv(argv[0], argv)
    finally:
        os._exit(127)
