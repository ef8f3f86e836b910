# What control groups give to jobs, and to a container that the probe runs in, and what these use of it. Compiled only in
# the child for slow lookups; it reads files of cgroup v1 and v2 only, which do not block.
CGROUPS = ROOT + '/sys/fs/cgroup'
CONTROLLERS = ('cpu', 'cpuacct', 'cpuset', 'memory')
MAX_JOBS = 256
MAX_FOLDERS = 256
MAX_CPUS = 65536
UNLIMITED = 1 << 60  # bytes from which a limit is none


def job_parents(top, node_names):
    """Returns the folders of cgroup v1 below which the groups of users' jobs are; none if several daemons have some."""
    names = [name for name in list_folder(top) if '.' not in name][:MAX_FOLDERS]
    groups = [('', name) for name in names if name.startswith('slurm')]
    # In a container, the groups of the daemon are in one of the container.
    groups = groups or [(name, inner) for name in names for inner in list_folder(top + '/' + name) if inner.startswith('slurm')]
    if len(groups) > 1:
        # They belong to several daemons of this machine.
        groups = [(outer, name) for outer, name in groups
                  if any(name == 'slurm_' + node or outer == node or outer.endswith('-' + node) for node in node_names)]
    if len(groups) != 1:
        return []
    folder = '%s/%s/%s' % ((top,) + groups[0])
    return [folder + '/' + user for user in list_folder(folder)[:MAX_FOLDERS] if user.startswith('uid_')]


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


def share_of_group(folders, is_unified):
    """Returns what a group has and uses, of its folders by controller, each with its parents. A limit is the lowest of
    them; pages of files that nobody has used for long do not count as used."""
    def first(controller, name):
        return read(folders[controller][0] + '/' + name, 16384) if controller in folders else b''

    cpu, memory = folders.get('cpu', []), folders.get('memory', [])
    if is_unified:
        quotas = [quota(read(folder + '/cpu.max', 64).split()) for folder in cpu]
        cpus = count_cpus(first('cpuset', 'cpuset.cpus.effective'))
        spent = value_of(b'usage_usec', first('cpu', 'cpu.stat'))
        limits = [number(read(folder + '/memory.max', 64)) for folder in memory]
        used, inactive = number(first('memory', 'memory.current')), b'inactive_file'
    else:
        quotas = [quota([read(folder + '/cpu.cfs_%s_us' % name, 64).strip() for name in ('quota', 'period')]) for folder in cpu]
        cpus = count_cpus(first('cpuset', 'cpuset.cpus'))
        spent = number(first('cpuacct', 'cpuacct.usage'))
        spent = None if spent is None else spent // 1000
        limits = [number(read(folder + '/memory.limit_in_bytes', 64)) for folder in memory]
        used, inactive = number(first('memory', 'memory.usage_in_bytes')), b'total_inactive_file'
    files = value_of(inactive, first('memory', 'memory.stat'))
    used = None if used is None or files is None else max(0, used - files)
    memory_limit = lowest(limits)
    if memory_limit is not None and memory_limit >= UNLIMITED:
        memory_limit = None
    share = {'cpus': lowest(quotas + [cpus]), 'cpu': spent, 'memory_limit': memory_limit, 'memory': used}
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


def is_limit(share):
    """Returns true if a share is less than /proc shows of the host; in some containers that shows the limit itself."""
    total = value_of(b'MemTotal:', read('/proc/meminfo', 4096).replace(b' kB', b'')) or 0
    return share.get('cpus', MAX_CPUS) < (os.cpu_count() or 1) or share.get('memory_limit', UNLIMITED) < total * 1024


class Shares:
    """The shares of the node's jobs and, in a container with a limit, of the probe's own group."""

    def __init__(self):
        self.is_unified = os.path.exists(CGROUPS + '/cgroup.controllers')
        self.parents = {}  # the folders above those of jobs, by the top of their hierarchy
        self.own = None  # the folders of the probe's own group, by controller; empty without a limit
        self.was_reported = False

    def tops(self):
        """Returns the controllers of each hierarchy, by its top."""
        if self.is_unified:
            return {CGROUPS: CONTROLLERS}
        return dict([(CGROUPS + '/' + name, (name,)) for name in CONTROLLERS])

    def find(self, node_names):
        """Searches for the groups of jobs, and the first time for a limit of the probe's own group."""
        find_parents = job_scopes if self.is_unified else job_parents
        self.parents = dict([(top, find_parents(top, node_names)) for top in self.tops()])
        if self.own is None:
            own = {}
            for top, controllers in self.tops().items():
                own.update(dict.fromkeys(controllers, own_folders(top, controllers)))
            self.own = own if is_limit(share_of_group(own, self.is_unified)) else {}

    def read(self):
        """Returns (time, own share, shares by job); None if there are none, nor were the last time."""
        now, jobs = time.monotonic(), {}
        for top, controllers in self.tops().items():
            for job, folder in jobs_below(self.parents.get(top, [])).items():
                jobs.setdefault(job, {}).update(dict.fromkeys(controllers, with_parents(folder, top)))
        shares = [(job, share_of_group(folders, self.is_unified)) for job, folders in sorted(jobs.items())[:MAX_JOBS]]
        shares = dict([(job, share) for job, share in shares if share])
        own = share_of_group(self.own, self.is_unified) if self.own else {}
        was_reported, self.was_reported = self.was_reported, bool(shares or own)
        return (now, own, shares) if self.was_reported or was_reported else None
