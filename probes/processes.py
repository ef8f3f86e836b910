# Metrics and facts of the processes that use a device. Counters come from /proc/PID/stat, which never blocks. The
# command line, the environment and the user's name may block (on a stuck process's memory lock, on LDAP), so a child
# reads them. For a process that /proc does not show, the reason is sent, and its owner if known.
MAX_COMMAND = 512
MAX_PROCESSES = 1024
MAX_PARENTS = 16
NAMES_PER_QUERY = 5
RESAMPLE_DELAY = 0.25
MAX_STATICS = 300000  # maximum bytes of static facts in one frame
MAX_ENVIRON = 131072
MAX_VISIBLE = 64
VISIBLE_DEVICES = (b'CUDA_VISIBLE_DEVICES=', b'NVIDIA_VISIBLE_DEVICES=', b'ROCR_VISIBLE_DEVICES=')
INITIAL_NAMESPACE = 'pid:[4026531836]'
PF_KTHREAD = 0x200000
DEVICE_FILES = ('/dev/nvidia', '/dev/kfd', '/dev/dri/', '/dev/accel', '/dev/vfio/')
CONTAINERS = ('docker', 'libpod', 'kubepods', 'containerd', 'crio-', 'lxc', 'machine.slice')


def read_stat(pid):
    """Returns (comm, fields after it) of /proc/PID/stat, or None if the process is gone or hidden."""
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


def unseen_reason(pid, contained, has_driver_pids=True):
    """Returns why /proc does not show a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return 'elsewhere' if contained else 'gone'
    except (OSError, OverflowError):
        pass
    return 'hidden' if has_driver_pids else 'ambiguous'


def is_contained():
    """Returns true if the probe runs in a PID namespace other than the initial one."""
    try:
        return os.readlink('/proc/self/ns/pid') != INITIAL_NAMESPACE
    except OSError:
        return False


def has_driver_pids(contained):
    """Returns true if /proc numbers processes as drivers do. Only the initial PID namespace shows kernel threads."""
    if not contained or os.environ.get('GTOP_PIDS') == 'own':
        return True
    found = read_stat(2)
    return found is not None and int(found[1][6]) & PF_KTHREAD != 0


def holds_device(pid):
    """Returns true if a process is seen to have a device file open; those of other users are hidden."""
    folder = '/proc/%d/fd/' % pid
    try:
        return any(os.readlink(folder + fd).startswith(DEVICE_FILES) for fd in os.listdir(folder))
    except OSError:
        return False


def decode(data):
    return data.decode('utf-8', 'replace')


def is_of_scheduler(group):
    return any(mark in group for mark, _, _ in CLAIMS)


def cgroup(pid):
    """Returns the most telling control group of a process: of a job, a container, the memory controller, or any."""
    best, best_score = '/', 0
    for line in decode(read('/proc/%d/cgroup' % pid, 16384)).split('\n'):
        parts = line.split(':', 2)
        if len(parts) < 3 or parts[2] == '/':
            continue
        path = parts[2]
        score = 1 + (parts[1] in ('', 'memory')) + 2 * any(name in path for name in CONTAINERS)
        if is_of_scheduler(path):
            score = 5 + ('/job' in path or 'slurmstepd.scope/' in path)
        if score > best_score:
            best, best_score = path, score
    return best[:MAX_COMMAND]


def working_directory(pid):
    try:
        return os.readlink('/proc/%d/cwd' % pid)[:MAX_COMMAND]
    except OSError:
        return None


def parents(pid):
    """Returns [pid, start, comm] of the ancestors of a process, the nearest first, without init."""
    out = []
    while pid > 1 and len(out) < MAX_PARENTS:
        found = read_stat(pid)
        if found is None:
            break
        out.append([pid, int(found[1][19]), decode(found[0])])
        pid = int(found[1][1])
    return out


def static_facts(pid, ppid, is_ours):
    """Returns the static facts of a process; those that only its owner may read are None for other users."""
    out = {'command': decode(read('/proc/%d/cmdline' % pid, 4096).rstrip(b'\0').replace(b'\0', b' '))[:MAX_COMMAND],
           'cgroup': cgroup(pid), 'cwd': working_directory(pid) if is_ours else None, 'parents': parents(ppid)}
    variables = read('/proc/%d/environ' % pid, MAX_ENVIRON).split(b'\0') if is_ours else []
    if '/job_' not in out['cgroup']:
        out.update(claim(variables))
    visible = visible_uuids(variables)
    if visible:
        out['visible'] = visible
    return out


def claim(variables):
    """Returns the job, and its step if there is one, that an environment names, of the first scheduler whose job it names."""
    known = dict(decode(line).partition('=')[::2] for line in variables)
    for _, job, step in CLAIMS:
        if known.get(job):
            found = {'job': known[job][:64]}
            if known.get(step):
                found['step'] = known[step][:32]
            return found
    return {}


def visible_uuids(variables):
    """Returns the UUIDs by which an environment names the visible devices; the driver ignores those after anything else."""
    for name in VISIBLE_DEVICES:
        for variable in variables:
            uuids = []
            for word in decode(variable[len(name):]).split(',') if variable.startswith(name) else []:
                if not word.strip().startswith(('GPU-', 'MIG-')):
                    break
                uuids.append(word.strip()[:96])
            if uuids:
                return uuids[:MAX_VISIBLE]
    return None


def serve_lookup(child):
    """Main loop of the child for slow lookups: slow host values, command lines, local user names."""
    child.report('state', None)
    own_uid, scheduler = os.getuid(), None
    while True:
        request = child.next_request()
        if request[0] == 'slow':
            child.report('slow', slow_facts(child))
        elif request[0] == 'scheduler':
            child.report_call('slurmd and control groups')
            if scheduler is None:
                load_part('scheduler')
                scheduler = Scheduler()
            found = scheduler.read()
            if found is not None:
                child.report('evidence', *found)
            found = scheduler.shares.read()
            if found is not None:
                child.report('shares', *found)
        elif request[0] == 'facts':
            for pid, start, uid, ppid in request[1]:
                child.report_call('cmdline of %d' % pid)
                child.report('facts', pid, start, static_facts(pid, ppid, ROOT_MODE is not None or uid == own_uid))
            known = local_names() if request[2] else {}
            for uid in request[2]:
                child.report('name', uid, known.get(uid))
            if request[3]:
                child.report_call('cgroups')
                load_part('hidden')
                child.report('hidden', find_hidden(request[3]))
        child.report('idle')


def local_names():
    """Returns the user names of /etc/passwd by uid."""
    names = {}
    for line in read('/etc/passwd', 1 << 20).split(b'\n'):
        parts = line.split(b':')
        if len(parts) > 2 and parts[2].isdigit():
            names.setdefault(int(parts[2]), decode(parts[0])[:255])
    return names


def serve_names(child):
    """Main loop of the child that asks the name service, which may be slow."""
    import pwd
    child.report('state', None)
    while True:
        for uid in child.next_request()[1]:
            try:
                name = pwd.getpwuid(uid).pw_name[:255]
            except (KeyError, OverflowError):
                name = str(uid)
            child.report('name', uid, name)
        child.report('idle')


class Processes:
    """The processes section of a sample; static facts are sent once per session."""

    def __init__(self, lookup):
        self.lookup = lookup
        self.name_worker = Worker('names', serve_names)  # lives only while names are missing
        self.unnamed = []  # uids to ask the name service for, in order
        self.page = os.sysconf('SC_PAGE_SIZE')
        self.pids = {}          # pids by backend
        self.names = {}         # user names by uid
        self.rows = {}  # the state of each process, by pid
        self.gone = set()  # pids that have exited but are still listed
        self.unseen = {}  # why /proc does not show a listed process, by pid
        self.hidden = {}        # (cgroup, uid) of hidden processes, by pid
        self.contained = is_contained()
        self.has_driver_pids = has_driver_pids(self.contained)
        self.resample_at = 0.0  # when to read again, so that new processes get rates; 0 for never

    def read(self, full):
        """Reads the counters of each process; returns true if the child was asked for missing facts."""
        pids = sorted(set(p for backend_pids in self.pids.values() for p in backend_pids))[:MAX_PROCESSES]
        rows, self.unseen, new, users, hidden = {}, {}, [], [], []
        self.resample_at = 0.0
        for pid in pids:
            row = self.update_row(pid, full)
            if row is None:
                hidden += self.record_unseen(pid)
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
        return self.lookup.request(time.monotonic(), 'facts', new[:128], users[:NAMES_PER_QUERY], hidden)

    def is_new(self, uid):
        return uid is not None and uid not in self.names and uid not in self.unnamed

    def update_row(self, pid, full):
        found = read_stat(pid)
        if found is None:
            return None         # gone, or hidden from us
        comm, f = found
        start, ppid = int(f[19]), int(f[1])
        row = self.rows.get(pid)
        if row is None or row['start'] != start:
            # In another PID namespace, this may be another process than the one that the driver means.
            if not (self.has_driver_pids or holds_device(pid)):
                return None
            row = {'start': start, 'comm': None, 'uid': owner(pid), 'facts': {}, 'sent_state': None}
            self.resample_at = time.monotonic() + RESAMPLE_DELAY
        elif full:
            row['uid'] = owner(pid)
        if row['comm'] != comm or row['ppid'] != ppid:
            # exec, or a new parent.
            row.update(comm=comm, ppid=ppid, known=False, due=True)
        row.update(cpu=int(f[11]) + int(f[12]), rss=int(f[21]) * self.page, state=f[0], threads=f[17])
        return row

    def record_unseen(self, pid):
        """Records why /proc does not show a process; returns [pid] if control groups are to be searched for it."""
        if pid in self.rows:
            self.gone.add(pid)
        why = self.unseen[pid] = 'gone' if pid in self.gone else unseen_reason(pid, self.contained, self.has_driver_pids)
        if why != 'hidden' or pid in self.hidden:
            return []
        self.hidden[pid] = None, owner(pid)
        return [pid]

    def on_facts(self, pid, start, facts):
        """Stores the facts that the child read, if they are about the same process."""
        row = self.rows.get(pid)
        if row is not None and row['start'] == start:
            row.update(facts=facts, known=True, due=True)

    def on_name(self, uid, name):
        if name is None and uid not in self.unnamed:
            self.unnamed.append(uid)
        if name is None:
            return
        if uid in self.unnamed:
            self.unnamed.remove(uid)
        self.names[uid] = name
        for row in self.rows.values():
            row['due'] = row['due'] or row['uid'] == uid

    def resolve_names(self, now, probe):
        """Starts, uses or ends the child that asks the name service."""
        worker = self.name_worker
        is_gone = worker.reap()
        if worker.link is None:
            if self.unnamed and is_gone and now >= worker.retry:
                probe.start_worker(worker, now)
        elif not worker.busy and self.unnamed:
            worker.request(now, 'names', self.unnamed[:NAMES_PER_QUERY])
        elif not worker.busy:
            probe.poll.unregister(worker.link.source)
            worker.end()

    def on_name_worker_lost(self, now):
        """Ends the child, whose lookup crashed or hung, and moves the first name to the end of the queue."""
        self.name_worker.end()
        self.name_worker.retry = now + 10.0
        self.unnamed = self.unnamed[1:] + self.unnamed[:1]

    def on_hidden(self, found):
        """Stores (cgroup, uid) of hidden processes by pid, as found in control groups."""
        for pid, (group, uid) in found.items():
            if pid in self.hidden:
                self.hidden[pid] = group, uid if self.hidden[pid][1] is None else self.hidden[pid][1]

    def section(self, now, full):
        """Returns the section, with the static facts not sent yet, or with all of them if `full`."""
        out, size = [], 0
        for pid, row in self.rows.items():
            process = {'pid': pid, 'start': row['start'], 'cpu': row['cpu'], 'rss': row['rss']}
            out.append(process)
            state = row['state'], row['threads']
            if full or state != row['sent_state']:
                row['sent_state'] = state
                process['state'], process['threads'] = decode(state[0]), int(state[1])
            row['due'] = row['due'] or full  # facts that do not fit into this frame follow in the next
            if row['due'] and size < MAX_STATICS:
                row['due'] = False
                facts = row['facts']
                process.update(facts, ppid=row['ppid'], uid=row['uid'], user=self.user_name(row['uid']),
                           command=facts.get('command') or '[' + decode(row['comm']) + ']')
                size += len(encode(process))
        section = {'at': now, 'list': out}
        if self.unseen:
            section['unseen'] = [self.unseen_row(pid, why) for pid, why in self.unseen.items()]
        return section

    def unseen_row(self, pid, why):
        out = {'pid': pid, 'why': why}
        if why == 'hidden':
            group, uid = self.hidden.get(pid, (None, None))
            out.update(cgroup=group, uid=uid, user=self.user_name(uid))
        return out

    def ambiguous(self):
        """Returns the pids of drivers that may be those of other processes here."""
        return [pid for pid, why in self.unseen.items() if why == 'ambiguous']

    def user_name(self, uid):
        return None if uid is None else self.names.get(uid, str(uid))
