# Facts about processes that use a device. Counters come from /proc/PID/stat, which never waits; the command
# line, the environment and the user's name may wait (for a stuck process's memory lock, for LDAP), so a child
# reads those. Of a process that /proc does not show we say why, and whose it is where that can be told.
COMMAND = 512
MOST_PROCESSES = 1024
MOST_PARENTS = 16
NEW_NAMES = 5
AGAIN_SOON = 0.25
STATICS = 300000    # bytes of static facts in one frame
ENVIRON = 131072
CONTAINERS = ('docker', 'libpod', 'kubepods', 'containerd', 'crio-', 'lxc', 'machine.slice')


def stat(pid):
    """(comm, fields after it) of /proc/PID/stat, or None when the process is gone or hidden."""
    data = read('/proc/%d/stat' % pid, 2048)
    end = data.rfind(b')')
    fields = data[end + 2:].split(None, 22)
    if end < 0 or len(fields) < 22:
        return None
    return data[data.find(b'(') + 1:end], fields


def owner(pid):
    try:
        return os.stat('/proc/%d' % pid).st_uid
    except OSError:
        return None


def absence(pid, contained):
    """Why /proc does not show a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return 'elsewhere' if contained else 'gone'
    except (OSError, OverflowError):
        pass
    return 'hidden'


def is_contained():
    """Whether we are in a PID namespace of our own, and processes outside it are none to us."""
    try:
        return os.readlink('/proc/self/ns/pid') != 'pid:[4026531836]'
    except OSError:
        return False


def words(data):
    return data.decode('utf-8', 'replace')


def cgroup(pid):
    """The process's place in the hierarchy that tells most: a job's, a container's, the one of its memory, any."""
    best, most = '/', 0
    for line in words(read('/proc/%d/cgroup' % pid, 16384)).split('\n'):
        parts = line.split(':', 2)
        if len(parts) < 3 or parts[2] == '/':
            continue
        path = parts[2]
        worth = 1 + (parts[1] in ('', 'memory')) + 2 * any(name in path for name in CONTAINERS)
        if 'slurm' in path:
            worth = 5 + ('/job_' in path or 'slurmstepd.scope/' in path)
        if worth > most:
            best, most = path, worth
    return best[:COMMAND]


def folder(pid):
    try:
        return os.readlink('/proc/%d/cwd' % pid)[:COMMAND]
    except OSError:
        return None


def parents(pid):
    """[pid, start, comm] of those above a process, the nearest first; init is left out."""
    out = []
    while pid > 1 and len(out) < MOST_PARENTS:
        seen = stat(pid)
        if seen is None:
            break
        out.append([pid, int(seen[1][19]), words(seen[0])])
        pid = int(seen[1][1])
    return out


def facts_of(pid, ppid, is_ours):
    """The static facts of a process; what only its owner may know is None for others."""
    out = {'command': words(read('/proc/%d/cmdline' % pid, 4096).rstrip(b'\0').replace(b'\0', b' '))[:COMMAND],
           'cgroup': cgroup(pid), 'cwd': folder(pid) if is_ours else None, 'parents': parents(ppid)}
    if is_ours and '/job_' not in out['cgroup']:
        for line in read('/proc/%d/environ' % pid, ENVIRON).split(b'\0'):
            for name, key in ((b'SLURM_JOB_ID=', 'job'), (b'SLURM_STEP_ID=', 'step')):
                if line.startswith(name):
                    out[key] = words(line[len(name):])[:32]
    return out


def look_up(duty):
    """The child that answers what may take long: slow host facts, command lines, names that this machine knows."""
    duty.report('state', None)
    us = os.getuid()
    while True:
        request = duty.next()
        if request[0] == 'slow':
            duty.report('slow', slow(duty))
        elif request[0] == 'who':
            for pid, start, uid, ppid in request[1]:
                duty.call('cmdline of %d' % pid)
                duty.report('who', pid, start, facts_of(pid, ppid, uid == us))
            known = local_names() if request[2] else {}
            for uid in request[2]:
                duty.report('name', uid, known.get(uid))
            if request[3]:
                duty.call('cgroups')
                unpack('hidden')
                duty.report('hidden', find_hidden(request[3]))
        duty.report('idle')


def local_names():
    """Names by uid as far as this machine knows them by itself."""
    names = {}
    for line in read('/etc/passwd', 1 << 20).split(b'\n'):
        parts = line.split(b':')
        if len(parts) > 2 and parts[2].isdigit():
            names.setdefault(int(parts[2]), words(parts[0])[:255])
    return names


def look_up_names(duty):
    """The child that asks the name service, which may take its time and holds up nobody else."""
    import pwd
    duty.report('state', None)
    while True:
        for uid in duty.next()[1]:
            try:
                name = pwd.getpwuid(uid).pw_name[:255]
            except (KeyError, OverflowError):
                name = str(uid)
            duty.report('name', uid, name)
        duty.report('idle')


class Processes:
    """The processes section: who uses the devices, static facts once per session."""

    def __init__(self, lookup):
        self.lookup = lookup
        self.namer = Worker('names', look_up_names)     # lives while there is something for it to do
        self.unnamed = []       # users the name service is to name, in the order in which it is asked
        self.page = os.sysconf('SC_PAGE_SIZE')
        self.pids = {}          # pids by backend
        self.names = {}         # user names by uid
        self.rows = {}          # what is known of each process, by pid
        self.gone = set()       # pids of processes that were there and are still listed
        self.unseen = {}        # why a listed process is not there, by pid
        self.hidden = {}        # (cgroup, uid) of hidden processes, by pid
        self.contained = is_contained()
        self.again = 0.0        # when to read once more, so that new processes have rates; 0 for not at all

    def read(self, full):
        """Reads every process's counters; true when the child was asked for facts not known yet."""
        pids = sorted(set(p for some in self.pids.values() for p in some))[:MOST_PROCESSES]
        rows, self.unseen, new, users, hidden = {}, {}, [], [], []
        self.again = 0.0
        for pid in pids:
            row = self.row(pid, full)
            if row is None:
                hidden += self.miss(pid)
                continue
            rows[pid] = row
            if not row['known']:
                new.append((pid, row['start'], row['uid'], row['ppid']))
            if self.is_new(row['uid']) and row['uid'] not in users:
                users.append(row['uid'])
        self.rows = rows
        self.gone.intersection_update(self.unseen)
        self.hidden = {pid: self.hidden[pid] for pid in self.unseen if pid in self.hidden}
        users += [u for _, u in self.hidden.values() if self.is_new(u) and u not in users]
        if not new and not users and not hidden:
            return False
        return self.lookup.ask(time.monotonic(), 'who', new[:128], users[:NEW_NAMES], hidden)

    def is_new(self, uid):
        return uid is not None and uid not in self.names and uid not in self.unnamed

    def row(self, pid, full):
        seen = stat(pid)
        if seen is None:
            return None         # gone, or hidden from us
        comm, f = seen
        start, ppid = int(f[19]), int(f[1])
        row = self.rows.get(pid)
        if row is None or row['start'] != start:
            row = {'start': start, 'comm': None, 'uid': owner(pid), 'facts': {}, 'moment': None}
            self.again = time.monotonic() + AGAIN_SOON
        elif full:
            row['uid'] = owner(pid)
        if row['comm'] != comm or row['ppid'] != ppid:
            # It has become another program, or has lost its parent.
            row.update(comm=comm, ppid=ppid, known=False, due=True)
        row.update(cpu=int(f[11]) + int(f[12]), rss=int(f[21]) * self.page, state=f[0], threads=f[17])
        return row

    def miss(self, pid):
        """Takes note of a process that /proc does not show; [pid] when it is to be looked for elsewhere."""
        if pid in self.rows:
            self.gone.add(pid)
        why = self.unseen[pid] = 'gone' if pid in self.gone else absence(pid, self.contained)
        if why != 'hidden' or pid in self.hidden:
            return []
        self.hidden[pid] = None, owner(pid)
        return [pid]

    def heard(self, pid, start, facts):
        """What the child read; kept only if it is still about the same process."""
        row = self.rows.get(pid)
        if row is not None and row['start'] == start:
            row.update(facts=facts, known=True, due=True)

    def named(self, uid, name):
        if name is None and uid not in self.unnamed:
            self.unnamed.append(uid)
        if name is None:
            return
        if uid in self.unnamed:
            self.unnamed.remove(uid)
        self.names[uid] = name
        for row in self.rows.values():
            row['due'] = row['due'] or row['uid'] == uid

    def look(self, now, probe):
        """Has the name service asked for names that are missing."""
        worker = self.namer
        is_gone = worker.reap()
        if worker.link is None:
            if self.unnamed and is_gone and now >= worker.retry:
                probe.begin(worker, now)
        elif not worker.busy and self.unnamed:
            worker.ask(now, 'names', self.unnamed[:NEW_NAMES])
        elif not worker.busy:
            probe.poll.unregister(worker.link.source)
            worker.end()

    def unheard(self, now):
        """The name service has cost the child its life, or all the time it has: others come first."""
        self.namer.end()
        self.namer.retry = now + 10.0
        self.unnamed = self.unnamed[1:] + self.unnamed[:1]

    def found(self, places):
        """Where the hidden ones are, as far as control groups tell: (cgroup, uid) by pid."""
        for pid, (group, uid) in places.items():
            if pid in self.hidden:
                self.hidden[pid] = group, uid if self.hidden[pid][1] is None else self.hidden[pid][1]

    def section(self, now, full):
        """The section; static facts of processes not told yet, or of all of them in a full sample."""
        out, spent = [], 0
        for pid, row in self.rows.items():
            one = {'pid': pid, 'start': row['start'], 'cpu': row['cpu'], 'rss': row['rss']}
            out.append(one)
            moment = row['state'], row['threads']
            if full or moment != row['moment']:
                row['moment'] = moment
                one['state'], one['threads'] = words(moment[0]), int(moment[1])
            row['due'] = row['due'] or full     # those that do not fit into this frame follow
            if row['due'] and spent < STATICS:
                row['due'] = False
                facts = row['facts']
                one.update(facts, ppid=row['ppid'], uid=row['uid'], user=self.name(row['uid']),
                           command=facts.get('command') or '[' + words(row['comm']) + ']')
                spent += len(encode(one))
        section = {'at': now, 'list': out}
        if self.unseen:
            section['unseen'] = [self.absent(pid, why) for pid, why in self.unseen.items()]
        return section

    def absent(self, pid, why):
        out = {'pid': pid, 'why': why}
        if why == 'hidden':
            group, uid = self.hidden.get(pid, (None, None))
            out.update(cgroup=group, uid=uid, user=self.name(uid))
        return out

    def name(self, uid):
        return None if uid is None else self.names.get(uid, str(uid))
