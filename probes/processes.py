# Facts about processes that use a device. Counters come from /proc/PID/stat, which never waits; the command
# line and the user's name may wait (for a stuck process's memory lock, for LDAP), so a child reads those.
COMMAND = 512
MOST_PROCESSES = 1024
NEW_NAMES = 5
STATICS = 300000    # bytes of command lines and cgroups in one frame


def stat(pid):
    """(comm, fields after it) of /proc/PID/stat, or None when the process is gone or hidden."""
    data = read('/proc/%d/stat' % pid, 2048)
    end = data.rfind(b')')
    fields = data[end + 2:].split()
    if end < 0 or len(fields) < 22:
        return None
    return data[data.find(b'(') + 1:end].decode('utf-8', 'replace'), fields


def command(pid):
    words = read('/proc/%d/cmdline' % pid, 4096).rstrip(b'\0').replace(b'\0', b' ')
    return words[:COMMAND].decode('utf-8', 'replace')


def cgroup(pid):
    """The process's place in the hierarchy that job managers use."""
    best = ''
    for line in read('/proc/%d/cgroup' % pid, 16384).decode('utf-8', 'replace').split('\n'):
        parts = line.split(':', 2)
        if len(parts) < 3:
            continue
        names, path = parts[1].split(','), parts[2]
        if 'slurm' in path and '/step_' in path:
            return path[:COMMAND]
        if 'slurm' in path or not best or best == '/' or (parts[1] == '' and 'slurm' not in best and path != '/'):
            best = path
        if 'memory' in names and path != '/':
            return path[:COMMAND]
    return best[:COMMAND]


def look_up(duty):
    """The child that answers what may take long: slow host facts, command lines, user names."""
    import pwd
    duty.report('state', None)
    while True:
        request = duty.next()
        if request[0] == 'slow':
            duty.report('slow', slow(duty))
        elif request[0] == 'who':
            for pid, start, uid in request[1]:
                duty.call('cmdline of %d' % pid)
                duty.report('who', pid, start, command(pid), cgroup(pid))
            for uid in request[2]:
                duty.call('name of user %d' % uid)
                try:
                    name = pwd.getpwuid(uid).pw_name
                except (KeyError, OverflowError):
                    name = str(uid)
                duty.report('name', uid, name)
        duty.report('idle')


class Processes:
    """The processes section: who uses the devices, static facts once per session."""

    def __init__(self, lookup):
        self.lookup = lookup
        self.page = os.sysconf('SC_PAGE_SIZE')
        self.pids = {}          # pids by backend
        self.names = {}         # user names by uid
        self.statics = {}       # (pid, start) -> [comm, command, cgroup]
        self.told = {}          # (pid, start) -> static facts as last sent
        self.rows = []

    def read(self):
        """Reads every process's counters; true when the child was asked for facts not known yet."""
        pids = sorted(set(p for some in self.pids.values() for p in some))[:MOST_PROCESSES]
        self.rows, new, users = [], [], []
        for pid in pids:
            row = self.row(pid)
            if row is None:
                continue
            self.rows.append(row)
            key = (pid, row['start'])
            if self.statics.get(key, (None, None))[0] != row['comm']:
                new.append((pid, row['start'], row['uid']))
            if row['uid'] not in self.names and row['uid'] not in users and row['uid'] is not None:
                users.append(row['uid'])
        alive = set((row['pid'], row['start']) for row in self.rows)
        self.statics = {k: v for k, v in self.statics.items() if k in alive}
        self.told = {k: v for k, v in self.told.items() if k in alive}
        if not new and not users:
            return False
        return self.lookup.ask(time.monotonic(), 'who', new[:128], users[:NEW_NAMES])

    def row(self, pid):
        seen = stat(pid)
        if seen is None:
            return None         # gone, or hidden from us
        try:
            uid = os.stat('/proc/%d' % pid).st_uid
        except OSError:
            uid = None
        comm, f = seen
        return {'pid': pid, 'start': int(f[19]), 'cpu': int(f[11]) + int(f[12]), 'rss': int(f[21]) * self.page,
                'ppid': int(f[1]), 'uid': uid, 'comm': comm}

    def heard(self, pid, start, words, group):
        """What the child read; kept only if it is still about the same process."""
        for row in self.rows:
            if row['pid'] == pid and row['start'] == start:
                self.statics[(pid, start)] = [row['comm'], words, group]

    def section(self, now, full):
        """The section; static facts of processes not told yet, or of all of them in a full sample."""
        out, spent = [], 0
        for row in self.rows:
            one = {'pid': row['pid'], 'start': row['start'], 'cpu': row['cpu'], 'rss': row['rss']}
            out.append(one)
            key = (row['pid'], row['start'])
            facts = self.facts(row)
            if (full or self.told.get(key) != facts) and spent < STATICS:
                self.told[key] = facts
                one.update(facts)
                spent += len(facts['command']) + len(facts['cgroup'] or '') + 100
            elif full:
                self.told.pop(key, None)        # too many for one frame: the rest follows
        return {'at': now, 'list': out}

    def facts(self, row):
        uid, comm = row['uid'], row['comm']
        _, words, group = self.statics.get((row['pid'], row['start']), (None, '', None))
        return {'ppid': row['ppid'], 'uid': uid, 'user': None if uid is None else self.names.get(uid, str(uid)),
                'command': words or '[' + comm + ']', 'cgroup': group}
