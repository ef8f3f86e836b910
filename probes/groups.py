# What control groups give to jobs, and to a container that the probe runs in, and what these use of it. Compiled only in
# the child for slow lookups; it reads files of cgroup v1 and v2 only, which do not block.
CGROUPS = ROOT + '/sys/fs/cgroup'
CONTROLLERS = ('cpu', 'cpuacct', 'cpuset', 'memory')
MAX_JOBS = 256
MAX_FOLDERS = 256
MAX_CPUS = 65536
UNLIMITED = 1 << 60  # bytes from which a limit is none


def job_parents(top, node_names):
    """Returns the folders of cgroup v1 below which the groups of users' jobs are; none if several daemons have some, and it
    is not known which is that of this node."""
    names = [name for name in list_folder(top) if '.' not in name][:MAX_FOLDERS]
    groups = [('', name) for name in names if name.startswith('slurm')]
    # In a container, the groups of the daemon are in one of the container.
    groups = groups or [(name, inner) for name in names for inner in list_folder(top + '/' + name) if inner.startswith('slurm')]
    users = {}
    for outer, name in groups[:MAX_FOLDERS]:
        folder = '%s/%s/%s' % (top, outer, name)
        users[outer, name] = [folder + '/' + user for user in list_folder(folder)[:MAX_FOLDERS] if user.startswith('uid_')]
    # Those without users may be left over of a daemon that has ended or had another name.
    groups = [group for group in sorted(users) if users[group]]
    if len(groups) > 1:
        # They belong to several daemons of this machine.
        groups = [(outer, name) for outer, name in groups
                  if any(name == 'slurm_' + node or outer == node or outer.endswith('-' + node) for node in node_names)]
    return users[groups[0]] if len(groups) == 1 else []


def job_scopes(top, node_names):
    """Returns the same of cgroup v2."""
    top += '/system.slice'
    scopes = [name for name in list_folder(top) if name.endswith('slurmstepd.scope')]
    if len(scopes) > 1:
        scopes = [name for name in scopes if name[:-len('_slurmstepd.scope')] in node_names]
    return [top + '/' + scopes[0]] if len(scopes) == 1 else []


def jobs_below(parents):
    """Returns the folder of each job, by its number or the id that newer versions give it."""
    found = {}
    for parent in parents:
        for name in list_folder(parent):
            job = name[4:] if name.startswith('job_') else name
            is_job = job.isdigit() if job != name else name[:1] == 's' and len(name) == 14 and name[1:].isalnum()
            if is_job and len(job) < 20 and len(found) < MAX_JOBS:
                found[job] = parent + '/' + name
    return found


def with_parents(folder, top):
    """Returns a folder and those above it, up to the top of its hierarchy."""
    found = [folder]
    while len(folder) > len(top):
        folder = folder.rpartition('/')[0]
        found.append(folder)
    return found


def quota(words):
    """Returns the CPUs of a quota and its period; None if it is not limited."""
    if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
        return int(words[0]) / float(int(words[1])) or None
    return None


def count_cpus(data):
    """Returns the number of CPUs in a list such as 0-3,8; None if it is empty or none."""
    count = 0
    for span in data.strip().split(b','):
        first, _, last = span.partition(b'-')
        last = last or first
        if not (first.isdigit() and last.isdigit() and len(span) < 16 and int(first) <= int(last)):
            return None
        count += int(last) - int(first) + 1
    return count if count <= MAX_CPUS else None


def lowest(values):
    known = [value for value in values if value is not None]
    return min(known) if known else None


def value_of(key, data):
    """Returns the number behind a key in lines of keys and numbers; None if there is none."""
    for line in data.split(b'\n'):
        words = line.split()
        if words[:1] == [key] and len(words) == 2:
            return number(words[1])
    return None


def number(data):
    """Returns a number of at most 64 bits; None if it is none."""
    data = data.strip()
    return int(data) if data.isdigit() and len(data) < 20 else None


def host_limits():
    """Returns the CPUs of the host and its memory in bytes; in some containers, what a container may use is shown as these."""
    cpus = count_cpus(read(ROOT + '/sys/devices/system/cpu/online', 16384)) or os.cpu_count() or MAX_CPUS
    total = value_of(b'MemTotal:', read(ROOT + '/proc/meminfo', 4096).replace(b' kB', b''))
    return cpus, min(total * 1024, UNLIMITED) if total else UNLIMITED


def share_of_group(folders, is_unified, host):
    """Returns what a group has and uses, of its folders by controller, each with its parents. A limit is the lowest of
    them, if the host has more; pages of files that nobody has used for long do not count as used."""
    def first(controller, name):
        return read(folders[controller][0] + '/' + name, 16384) if controller in folders else b''

    cpu, cpuset, memory = [folders.get(name, []) for name in ('cpu', 'cpuset', 'memory')]
    stat = first('memory', 'memory.stat')
    if is_unified:
        quotas = [quota(read(folder + '/cpu.max', 64).split()) for folder in cpu]
        # A group without a set of its own has that of the nearest one above it that has one.
        counts = (count_cpus(read(folder + '/cpuset.cpus.effective', 16384)) for folder in cpuset)
        cpus = next((count for count in counts if count), None)
        spent = value_of(b'usage_usec', first('cpu', 'cpu.stat'))
        limits = [number(read(folder + '/memory.max', 64)) for folder in memory]
        used, inactive = number(first('memory', 'memory.current')), b'inactive_file'
    else:
        quotas = [quota([read(folder + '/cpu.cfs_%s_us' % name, 64).strip() for name in ('quota', 'period')]) for folder in cpu]
        cpus = count_cpus(first('cpuset', 'cpuset.cpus'))
        spent = number(first('cpuacct', 'cpuacct.usage'))
        spent = None if spent is None else spent // 1000
        limits = [number(read(folder + '/memory.limit_in_bytes', 64)) for folder in memory]
        limits.append(value_of(b'hierarchical_memory_limit', stat))  # some groups above it may not be seen
        used, inactive = number(first('memory', 'memory.usage_in_bytes')), b'total_inactive_file'
    files = value_of(inactive, stat)
    used = None if used is None or files is None else max(0, used - files)
    host_cpus, host_memory = host
    cpus = lowest(quotas + [cpus])
    cpus = None if cpus is None else min(cpus, host_cpus)
    memory_limit = lowest([limit for limit in limits if limit is not None and limit < host_memory])
    share = {'cpus': cpus, 'cpu': spent, 'memory_limit': memory_limit, 'memory': used}
    return dict([(key, value) for key, value in share.items() if value is not None])


def own_folders(top, controllers):
    """Returns the folders of the probe's own group in a hierarchy: outside of a container, and if its path is not seen
    there, the top only."""
    wanted = controllers[0] if len(controllers) == 1 else ''  # the hierarchy of cgroup v2 has no name
    for line in decode(read('/proc/self/cgroup', 16384)).split('\n') if is_contained() else []:
        names, _, path = line.partition(':')[2].partition(':')
        folder = top + path.rstrip('/')
        if wanted in names.split(',') and '..' not in path and os.path.isdir(folder):
            return with_parents(folder, top)
    return [top]


class Shares:
    """The shares of the node's jobs and, in a container with a limit, of the probe's own group."""

    def __init__(self):
        self.is_unified = os.path.exists(CGROUPS + '/cgroup.controllers')
        self.parents = {}  # the folders above those of jobs, by the top of their hierarchy
        self.host = host_limits()
        self.own = None  # the folders of the probe's own group, by controller; empty without a limit
        self.was_reported = False

    def tops(self):
        """Returns the controllers of each hierarchy, by its top."""
        if self.is_unified:
            return {CGROUPS: CONTROLLERS}
        return dict([(CGROUPS + '/' + name, (name,)) for name in CONTROLLERS])

    def share(self, folders):
        return share_of_group(folders, self.is_unified, self.host)

    def find(self, node_names):
        """Searches for the groups of jobs, and the first time for a limit of the probe's own group."""
        find_parents = job_scopes if self.is_unified else job_parents
        self.parents = dict([(top, find_parents(top, node_names)) for top in self.tops()])
        if self.own is None:
            own = {}
            for top, controllers in self.tops().items():
                own.update(dict.fromkeys(controllers, own_folders(top, controllers)))
            share = self.share(own)
            self.own = own if share.get('cpus', MAX_CPUS) < self.host[0] or 'memory_limit' in share else {}

    def read(self):
        """Returns (time, own share, shares by job); None if there are none, nor were the last time."""
        now, jobs = time.monotonic(), {}
        for top, controllers in self.tops().items():
            for job, folder in jobs_below(self.parents.get(top, [])).items():
                jobs.setdefault(job, {}).update(dict.fromkeys(controllers, with_parents(folder, top)))
        shares = [(job, self.share(folders)) for job, folders in sorted(jobs.items())[:MAX_JOBS]]
        shares = dict([(job, share) for job, share in shares if share])
        own = self.share(self.own) if self.own else {}
        was_reported, self.was_reported = self.was_reported, bool(shares or own)
        return (now, own, shares) if self.was_reported or was_reported else None
