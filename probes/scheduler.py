# Finds the scheduler's daemon on this node, and reads which devices its control groups let jobs open. Compiled only in the
# child for slow lookups, so nothing here may block: it reads /proc and control groups only.
MAX_MINOR = 253  # of the device file of a GPU; 254 and 255 are those of the driver
SCAN_INTERVAL = 120.0  # seconds between searches for a daemon, unless it has ended
DAEMON_OPTIONS_WITH_VALUE = 'dfLnN'
DAEMON_WORDS_WITH_VALUE = ('conf', 'conf-server', 'instance-id', 'instance-type', 'extra', 'authinfo', 'ca-cert-file')
STARTS = {}  # the start of the last daemon found, by pid and start in ticks
DAEMON_QUERIES = frozenset('GCVh')  # options that make it print something and exit


def daemon_options(words):
    """Returns the values of the options of a command line of slurmd, by letter or word."""
    found, words = {}, list(words)
    while words:
        word = words.pop(0)
        if word[:2] == '--':
            name, has_value, value = word[2:].partition('=')
            if not has_value and name in DAEMON_WORDS_WITH_VALUE and words:
                value = words.pop(0)
            found[name] = value
        elif word[:1] == '-':
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter == 'F':  # its value is optional, and attached
                    letters = ''
                if letter in DAEMON_OPTIONS_WITH_VALUE:
                    found[letter] = letters or (words.pop(0) if words else '')
                    break
                found[letter] = ''
    return found


def node_names(options):
    """Returns the names that the scheduler may have for this node: that of its daemon, ours, and the host's."""
    ours = NODE.rpartition('@')[2].partition(':')[0].partition('.')[0]
    return [name for name in (options.get('N', ''), ours, os.uname().nodename.partition('.')[0]) if name]


class Scheduler:
    """What was last found."""

    def __init__(self):
        self.daemon = None
        self.scan_at = 0.0
        self.reported = None
        self.shares = Shares()

    def read(self):
        """Returns ({'jobs': minor numbers by job}, daemon) if something has changed since the last time, else None. The
        numbers of a job that has a group for its devices are None if the group does not tell them.

        A daemon is [pid, start in ticks, start in seconds since 1970, words of its command line]; `[]` if there is none,
        and `[0]` if there are several and it is not known which is that of this node.
        """
        now = time.monotonic()
        is_scan = self.daemon is None or now >= self.scan_at or self.has_ended()
        if is_scan:
            self.scan_at = now + SCAN_INTERVAL
            # The list of a daemon that has ended holds until another one starts.
            self.daemon = find_daemon() or self.daemon or []
        options = daemon_options(self.daemon[3][1:]) if self.daemon[3:] else {}
        # A daemon makes groups when jobs start. Without one there are seldom some: it may be hidden.
        if is_scan or self.daemon:
            self.shares.find(node_names(options))
        found = {'jobs': job_devices(options)}, self.daemon
        if found == self.reported:
            return None
        self.reported = found
        return found

    def has_ended(self):
        return self.daemon[:1] > [0] and daemon_start(self.daemon[0]) != self.daemon[1]


def daemon_stat(pid):
    """Returns the fields of /proc/PID/stat after the name if the process is called slurmd, else None."""
    data = read('%s/proc/%s/stat' % (ROOT, pid), 2048)
    fields = data[data.rfind(b')') + 2:].split()
    return fields if b'(slurmd)' in data and len(fields) > 19 else None


def daemon_start(pid):
    fields = daemon_stat(pid)
    return int(fields[19]) if fields else None


def owner_of_all_ids(pid):
    """Returns the uid of a process if all its uids are the same: anybody may start a setuid program under any name."""
    for line in read('%s/proc/%s/status' % (ROOT, pid), 8192).split(b'\n'):
        uids = line.split()[1:] if line.startswith(b'Uid:') else []
        if uids and uids == uids[:1] * 4:
            return int(uids[0])
    return None


def find_daemon():
    """Returns the daemon of this node; `[]` if there is none, and `[0]` if several may be."""
    found = {}
    for name in list_folder(ROOT + '/proc'):
        fields = daemon_stat(name) if name.isdigit() else None
        if fields is None:
            continue
        words = decode(read('%s/proc/%s/cmdline' % (ROOT, name), 4096).rstrip(b'\0')).split('\0')
        # Anybody may call a program slurmd, and what is run later is taken from its command line.
        if owner_of_all_ids(name) in (0, os.getuid()) and words[0] and not DAEMON_QUERIES.intersection(daemon_options(words[1:])):
            found[int(name)] = int(fields[1]), [int(name), int(fields[19]), 0, words]
    # Its children are called slurmd, too, until they execute something.
    daemons = [daemon for parent, daemon in found.values() if parent not in found]
    if len(daemons) > 1:
        names = [daemon_options(daemon[3][1:]).get('N') for daemon in daemons]
        for wanted in node_names({}):
            if names.count(wanted) == 1:
                daemons = [daemons[names.index(wanted)]]
                break
    if not daemons:
        return []
    if len(daemons) > 1:
        return [0]
    daemon = daemons[0]
    # Exact to some hundredths of a second; the boot time that the kernel tells is rounded. It is computed once, so that the
    # same start is always the same.
    uptime = read(ROOT + '/proc/uptime').split()
    if uptime and tuple(daemon[:2]) not in STARTS:
        STARTS.clear()
        running = float(uptime[0]) - daemon[1] / float(os.sysconf('SC_CLK_TCK'))
        STARTS[tuple(daemon[:2])] = round(time.time() - running, 2)
    daemon[2] = STARTS.get(tuple(daemon[:2]), 0)
    return daemon


def job_devices(options):
    """Returns the minor numbers of the devices that jobs may open, by job, as cgroup v1 lists them.

    A job has such a group only where the scheduler confines jobs to their devices.
    """
    folders = jobs_below(job_parents(CGROUPS + '/devices', node_names(options)))
    return dict([(job, allowed_minors(read(folder + '/devices.list'))) for job, folder in folders.items() if job.isdigit()])


def allowed_minors(data):
    """Returns the minor numbers of NVIDIA's devices in a devices.list; None if it is empty or allows all of them."""
    minors = set()
    for words in [line.split() for line in data.split(b'\n')]:
        if len(words) != 3 or not set(b'rw').intersection(words[2]):
            continue
        major, _, minor = words[1].partition(b':')
        if words[0] in (b'a', b'c') and major in (b'*', b'195'):
            if b'*' in (major, minor):
                return None
            if minor.isdigit() and len(minor) < 4 and int(minor) <= MAX_MINOR:
                minors.add(int(minor))
    return sorted(minors) if data else None
