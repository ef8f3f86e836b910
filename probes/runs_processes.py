# Processes of runs: whether they live, and what they and all below them use. One pass over /proc per look.
MAX_TREE = 512
MAX_TASKS = 512
TICKS = os.sysconf('SC_CLK_TCK')
PAGE = os.sysconf('SC_PAGE_SIZE')
# PF_KTHREAD, include/linux/sched.h
KERNEL_THREAD = 0x200000


def read_stat(pid):
    """Returns the fields of /proc/PID/stat: the name, the state, the parent and so on; None if there is none."""
    try:
        with open('/proc/%d/stat' % pid, 'rb') as file:
            return stat_fields(file.read())
    except OSError:
        return None


def stat_fields(data):
    """Returns the name and the fields behind it, by their numbers in proc(5) less 2."""
    head, _, rest = data.rpartition(b') ')
    return [head.partition(b'(')[2].decode('utf-8', 'replace')] + rest.decode().split()


def boot_time():
    with open('/proc/uptime') as file:
        return time.time() - float(file.read().split()[0])


def started_at(fields):
    return boot_time() + int(fields[20]) / TICKS


def link(path):
    try:
        return os.readlink(path)
    except OSError:
        return None


def memory_total():
    with open('/proc/meminfo') as file:
        for line in file:
            if line.startswith('MemTotal:'):
                return int(line.split()[1]) << 10
    return None


class Processes:
    """The watched processes and the CPU times of the last look."""

    def __init__(self):
        self.pids, self.expanded, self.last, self.last_at, self.last_tasks = [], (), {}, None, {}

    def watch(self, request):
        pids, expanded = request.get('pids'), request.get('expanded')
        self.pids = [pid for pid in pids if isinstance(pid, int)][:2000] if isinstance(pids, list) else []
        self.expanded = set(pid for pid in expanded if isinstance(pid, int)) if isinstance(expanded, list) else ()

    def look(self):
        """Returns a message about the watched processes."""
        now, own, user_cpu, user_rss = time.monotonic(), os.geteuid(), 0.0, 0
        table, children, cpu = {}, {}, {}
        for entry in os.listdir('/proc'):
            if not entry.isdigit():
                continue
            pid = int(entry)
            fields = read_stat(pid)
            if fields is None:
                continue
            table[pid] = fields
            children.setdefault(int(fields[2]), []).append(pid)
            cpu[pid] = (int(fields[20]), int(fields[12]) + int(fields[13]))
        passed = None if self.last_at is None else now - self.last_at
        percent = {}
        for pid, (start, ticks) in cpu.items():
            before = self.last.get(pid)
            if passed and before is not None and before[0] == start:
                percent[pid] = max(0, ticks - before[1]) / TICKS / passed * 100.0
            try:
                if os.stat('/proc/%d' % pid).st_uid == own:
                    user_cpu += percent.get(pid, 0.0)
                    user_rss += int(table[pid][22]) * PAGE
            except OSError:
                pass
        self.last, self.last_at = cpu, now
        boot = boot_time()
        tasks = {}
        items = [self.item(pid, table, children, percent, boot, passed, tasks) for pid in self.pids]
        self.last_tasks = tasks
        return {'t': 'processes', 'now': time.time(), 'list': items, 'cores': os.cpu_count(), 'ram': memory_total(),
                'user': {'cpu': None if passed is None else round(user_cpu, 1), 'rss': user_rss}}

    def item(self, pid, table, children, percent, boot, passed, tasks):
        fields = table.get(pid)
        if fields is None:
            # hidepid may hide it.
            return {'pid': pid, 'gone': True} if self.is_gone(pid) else {'pid': pid, 'state': None, 'kernel': True}
        try:
            uid = os.stat('/proc/%d' % pid).st_uid
        except OSError:
            return {'pid': pid, 'gone': True}
        found, at = [pid], 0
        while at < len(found) and len(found) < MAX_TREE:
            found.extend(children.get(found[at], ())[:MAX_TREE - len(found)])
            at += 1
        tree, threads, count = [], {}, 0
        for one in found:
            values = table[one]
            share = percent.get(one)
            tree.append([one, int(values[2]), int(values[20]), values[0], share if share is None else round(share, 1),
                         int(values[22]) * PAGE, int(values[18])])
            if pid in self.expanded and count < MAX_TASKS:
                threads[one] = self.tasks(one, passed, tasks, MAX_TASKS - count)
                count += len(threads[one])
        known = [row[4] for row in tree if row[4] is not None]
        return {'pid': pid, 'state': fields[1], 'start': int(fields[20]), 'created': boot + int(fields[20]) / TICKS,
                'uid': uid, 'comm': fields[0], 'kernel': bool(int(fields[7]) & KERNEL_THREAD),
                'pidns': link('/proc/%d/ns/pid' % pid), 'cpu': round(sum(known), 1) if known else None,
                'rss': sum(row[5] for row in tree), 'threads': sum(row[6] for row in tree), 'tree': tree,
                'stdout': link('/proc/%d/fd/1' % pid), 'stderr': link('/proc/%d/fd/2' % pid), 'tasks': threads}

    @staticmethod
    def is_gone(pid):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False

    def tasks(self, pid, passed, seen, limit):
        """Returns the threads of a process: id, name and CPU use."""
        rows = []
        try:
            entries = os.listdir('/proc/%d/task' % pid)[:limit]
        except OSError:
            return rows
        for entry in entries:
            try:
                with open('/proc/%d/task/%s/stat' % (pid, entry), 'rb') as file:
                    fields = stat_fields(file.read())
            except OSError:
                continue
            tid, ticks = int(entry), int(fields[12]) + int(fields[13])
            before, seen[tid] = self.last_tasks.get(tid), ticks
            share = None if before is None or not passed else round(max(0, ticks - before) / TICKS / passed * 100.0, 1)
            rows.append([tid, fields[0], share])
        return rows
