# The nvidia-smi backend: asks, bounds and forwards; never interprets. One nvidia-smi at a time, ever.
SMI_FIELDS = (
    'index,uuid,name,pci.bus_id,driver_version,persistence_mode,pstate,temperature.gpu,temperature.memory,'
    'utilization.gpu,utilization.memory,memory.total,memory.used,memory.free,power.draw,power.limit,'
    'enforced.power.limit,clocks.current.sm,clocks.current.memory,clocks.max.sm,clocks.max.memory,fan.speed,'
    'clocks_throttle_reasons.active,ecc.mode.current,ecc.errors.corrected.volatile.total,'
    'ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.aggregate.total,'
    'ecc.errors.uncorrected.aggregate.total,retired_pages.pending,compute_mode,mig.mode.current,'
    'pcie.link.gen.current,pcie.link.width.current,pcie.link.gen.max,pcie.link.width.max').split(',')
SMI_APPS = 'gpu_uuid,pid,used_memory,process_name'
SMI_PLACES = ('/usr/bin', '/usr/local/bin', '/usr/local/nvidia/bin', '/usr/lib/wsl/lib', '/run/current-system/sw/bin',
              '/opt/bin', '/home/kubernetes/bin/nvidia/bin')
SMI_OUTPUT = 1 << 20
SMI_LINE = 1024
SMI_ROWS = 64
SMI_APP_ROWS = 1024
SMI_APP_BYTES = 256 << 10
SMI_NOISE = 8
SMI_NOISE_LINE = 200
SMI_AGAIN = 5.0     # wait after a failure

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
    floors = (1.0, 2.0)     # seconds between device queries, between process queries
    focused = None
    tells_all = False
    facts = None

    def __init__(self, duty):
        self.duty = duty
        self.path = None
        self.fields = list(SMI_FIELDS)
        self.worked = False
        self.every = self.floors[0]
        self.due = self.apps_due = 0.0

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
        if now >= self.apps_due - slack:
            self.apps_due = now + self.floors[1]
            self.apps()

    def devices(self):
        """Asks for the devices, leaving out what this version does not know; true when any answered."""
        for _ in range(9):
            status, lines, ended = self.ask('--query-gpu=', ','.join(self.fields))
            if ended:
                return False
            refused = [f for f in self.fields if any('Field "%s" is not a valid' % f in line for line in lines)]
            if not refused or len(self.fields) == len(refused):
                break
            self.fields = [f for f in self.fields if f not in refused]
        rows = [line for line in lines if line.count(',') >= len(self.fields) - 1]
        noise = [line[:SMI_NOISE_LINE] for line in lines if line not in rows][:SMI_NOISE]
        rows = [cut(line, SMI_LINE) for line in rows if not line.startswith('index,')][:SMI_ROWS]
        if not rows:
            code = smi_error(status, lines)
            said = noise[0] if noise else 'exited with %d and printed nothing' % status
            self.duty.report('error', code, 'nvidia-smi --query-gpu', 0.0, said)
            return False
        self.worked = True
        self.pace(rows)
        part = {'at': time.monotonic(), 'csv': {'columns': self.fields, 'rows': rows, 'noise': noise}}
        self.duty.report('part', part, None, {})
        return True

    def pace(self, rows):
        """Without persistence each query wakes the driver up: then it is asked less often."""
        every = self.floors[0]
        if 'persistence_mode' in self.fields:
            column = self.fields.index('persistence_mode')
            if any(row.split(',')[column].strip() == 'Disabled' for row in rows):
                every = 5.0
        if every != self.every:
            self.every = every
            self.due += every - self.floors[0]
            self.duty.report('floors', every, max(every, self.floors[1]))

    def apps(self):
        status, lines, ended = self.ask('--query-compute-apps=', SMI_APPS)
        if ended:
            return
        if status:
            said = lines[0][:SMI_NOISE_LINE] if lines else 'exited with %d and printed nothing' % status
            self.duty.report('error', smi_error(status, lines), 'nvidia-smi --query-compute-apps', 0.0, said)
            return
        rows = [line for line in lines if line.count(',') >= 3 and not line.startswith('gpu_uuid,')][:SMI_APP_ROWS]
        longest = min(SMI_LINE, SMI_APP_BYTES // max(1, len(rows)))
        rows = [cut(line, longest) for line in rows]
        pids = [word for word in (row.split(',')[1].strip() for row in rows) if word.isdigit() and len(word) < 10]
        at = time.monotonic()
        pids = sorted(set(int(pid) for pid in pids) - {0})
        self.duty.report('part', {'at': at, 'apps': {'at': at, 'rows': rows}}, pids, {})

    def ask(self, query, what):
        """(exit status, lines, whether it had to be ended); what made us end it is reported."""
        name = 'nvidia-smi ' + query.rstrip('=')
        self.duty.call(name)
        begun = time.monotonic()
        limit = 10.0 if self.worked else 30.0
        status, data, ended = self.run([self.path, query + what, '--format=csv,noheader,nounits'], begun + limit)
        if ended == 'flood':
            self.duty.report('error', 'parse', name, 0.0, 'printed more than %d bytes' % SMI_OUTPUT)
        elif ended:
            took = time.monotonic() - begun
            self.duty.report('error', 'stuck', name, took, 'killed after %.0f s' % took)
        lines = [''.join(filter(str.isprintable, line)).strip() for line in data.decode('utf-8', 'replace').split('\n')]
        return status, [line for line in lines if line], ended

    def run(self, argv, deadline):
        """Runs one program to its end: (status, output, None | 'flood' | 'late')."""
        source, sink = os.pipe()
        # With something of ours running, the alarm must take it along.
        signal.signal(signal.SIGALRM, lambda number, frame: end_group(0))
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
