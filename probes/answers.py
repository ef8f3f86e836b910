# Answers to requests about processes; compiled only in the child that answers them. A process is identified by pid and
# start time, which are checked before anything is read or sent.
SIGNALS = range(1, 32)  # without the real-time signals
MAX_ROWS = 1024
MAX_ANSWER = 600000  # bytes of one answer, well below what a frame may hold
MAX_DETAIL_COMMAND = 4096
PIDFD_OPEN, PIDFD_SEND = 434, 424


class Refused(Exception):
    """There is no answer: (result, reason)."""


def answer_text(verb, values, pids, own_groups, names, ambiguous):
    """Returns one answer as JSON without its braces."""
    try:
        if verb == 'tree':
            return tree(values, pids, names)
        pid, start = values.get('pid'), values.get('start')
        if pid.__class__ is not int or start.__class__ is not int or not 0 < pid < 1 << 22:
            raise Refused('bad', 'no pid and start time')
        if pid in ambiguous:
            raise Refused('refused', 'another process may have this pid here: the driver counts in another PID namespace')
        if verb == 'signal':
            return answer_signal(pid, start, values.get('signal'), own_groups)
        f = check_same(pid, start)
        return environ(pid, f, start) if verb == 'environ' else detail(pid, f, start, names)
    except Refused as refused:
        return refusal(*refused.args)
    except OSError as error:
        return failure(error)
    except Exception as error:
        # Its message may contain what was read.
        return refusal('failed', 'internal error in the probe: ' + error.__class__.__name__)


def failure(error):
    return '%s,"errno":%d' % (refusal('failed', os.strerror(error.errno or 0)), error.errno or 0)


def check_same(pid, start):
    """Returns the stat fields of a process, after checking its start time."""
    found = read_stat(pid)
    if found is None:
        if unseen_reason(pid, False) == 'gone':
            raise Refused('gone', 'no such process')
        raise Refused('refused', 'the node hides this process (hidepid)')
    if int(found[1][19]) != start:
        raise Refused('reused', 'another process has this pid now')
    return found[1]


def is_ours(pid):
    """Returns true if the process belongs to this user or this user is root; the kernel has the last word."""
    own_uid = os.geteuid()
    for line in read('/proc/%d/status' % pid, 8192).split(b'\n'):
        if line.startswith(b'Uid:'):
            return own_uid == 0 or b'%d' % own_uid in line.split()[1:4:2]
    return False


# -- signals

def answer_signal(pid, start, number, own_groups):
    if number.__class__ is not int or number not in SIGNALS:
        raise Refused('bad', 'not a signal that may be sent')
    if pid <= 1:
        raise Refused('refused', 'pid 1 is never signalled')
    if os.readlink('/proc/self') != str(os.getpid()):
        raise Refused('refused', '/proc belongs to another PID namespace')
    fd = open_pidfd(pid)
    try:
        f = check_same(pid, start)
        if f[0] in (b'Z', b'X'):
            raise Refused('zombie', 'it is a zombie: it has exited and waits to be reaped')
        if int(f[6]) & PF_KTHREAD:
            raise Refused('refused', 'it is a kernel thread')
        if int(f[2]) in own_groups or pid == os.getpid():
            raise Refused('refused', 'it is the probe itself')
        if not is_ours(pid):
            raise Refused('refused', 'it belongs to another user')
        if fd is None:
            os.kill(pid, number)
        else:
            send_signal(fd, number)
    except ProcessLookupError:
        raise Refused('gone', 'no such process')
    except PermissionError:
        raise Refused('refused', 'it belongs to another user')
    finally:
        if fd is not None:
            os.close(fd)
    return '"result":"sent"'


def system_call(*arguments):
    """Makes a system call that this Python does not wrap; returns None if ctypes cannot make it."""
    try:
        import ctypes
        library = ctypes.CDLL(None, use_errno=True)
        result = library.syscall(*[ctypes.c_long(argument) for argument in arguments])
    except (ImportError, OSError, AttributeError):
        return None
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def open_pidfd(pid):
    """Returns a pidfd, which never refers to a later process with the same pid, or None on old kernels."""
    try:
        if hasattr(os, 'pidfd_open'):
            return os.pidfd_open(pid)
        return system_call(PIDFD_OPEN, pid, 0)
    except ProcessLookupError:
        raise Refused('gone', 'no such process')
    except OSError:
        return None


def send_signal(fd, number):
    if hasattr(signal, 'pidfd_send_signal'):
        signal.pidfd_send_signal(fd, number)
    else:
        system_call(PIDFD_SEND, fd, number, 0, 0)


# -- what only the owner may read

def environ(pid, f, start):
    fd = open_owned('/proc/%d/environ' % pid)
    try:
        data = os.read(fd, MAX_ENVIRON + 1)
    finally:
        os.close(fd)
    check_same(pid, start)
    is_cut = len(data) > MAX_ENVIRON
    variables = [decode(variable) for variable in data[:MAX_ENVIRON].split(b'\0') if variable]
    return '"result":"ok"%s,"environ":%s' % (',"cut":true' if is_cut else '', encode(variables))


def open_owned(path):
    try:
        return os.open(path, os.O_RDONLY)
    except PermissionError:
        raise Refused('refused', 'it belongs to another user')


def detail(pid, f, start, names):
    base = '/proc/%d/' % pid

    def link(name):
        try:
            return os.readlink(base + name)[:MAX_DETAIL_COMMAND]
        except OSError:
            return None

    out = process_row(pid, (None, f), names, MAX_DETAIL_COMMAND)
    out.update(threads=int(f[17]), nice=int(f[16]), vsize=int(f[20]), cwd=link('cwd'), exe=link('exe'),
               cgroup=cgroup(pid), wchan=read_text(base + 'wchan')[:64] or None, io=None)
    status = parse_pairs(base + 'status', b':')
    for key, name in (('swap', b'VmSwap'), ('peak', b'VmHWM'), ('voluntary', b'voluntary_ctxt_switches'),
                      ('involuntary', b'nonvoluntary_ctxt_switches')):
        words = status.get(name, b'').split()
        if words and words[0].isdigit():
            out[key] = int(words[0]) * (1024 if words[1:] == [b'kB'] else 1)
    counters = parse_pairs(base + 'io', b':')
    if counters:
        out['io'] = [int(counters.get(name, b'0')) for name in (b'rchar', b'wchar', b'read_bytes', b'write_bytes')]
    out['limits'] = limits(read(base + 'limits', 8192))
    check_same(pid, start)
    return '"result":"ok","detail":' + encode(out)


def parse_pairs(path, mark):
    rows = [line.partition(mark) for line in read(path, 8192).split(b'\n')]
    return {key: value.strip() for key, _, value in rows if key}


def limits(data):
    """Returns [name, soft, hard] of each limit; the columns are found by their titles."""
    lines = decode(data).split('\n')
    soft, hard, unit = [lines[0].find(title) for title in ('Soft Limit', 'Hard Limit', 'Units')]
    if min(soft, hard, unit) < 0:
        return []
    return [[line[:soft].strip(), line[soft:hard].strip(), line[hard:unit].strip()] for line in lines[1:33] if line]


# -- the tree

def tree(values, pids, names):
    """Returns the processes, their ancestors and their descendants, parents first."""
    processes = {}
    for name in os.listdir('/proc'):
        if name.isdigit():
            found = read_stat(int(name))
            if found is not None:
                processes[int(name)] = found
    if 'pid' in values:
        pid, start = values['pid'], values.get('start')
        if pid not in processes:
            raise Refused('gone', 'no such process')
        if start is not None and int(processes[pid][1][19]) != start:
            raise Refused('reused', 'another process has this pid now')
        pids = [pid]
    children = {}
    for pid, (_, f) in processes.items():
        children.setdefault(int(f[1]), []).append(pid)
    # Ancestors come first, so that only descendants are cut off.
    selected, ancestors = [], set()
    for pid in pids:
        chain = []
        while pid in processes and pid not in ancestors and len(chain) < 64:
            ancestors.add(pid)
            chain.append(pid)
            pid = int(processes[pid][1][1])
        selected += reversed(chain)
    unvisited = [pid for pid in pids if pid in processes]
    done = set(selected)
    while unvisited and len(selected) <= MAX_ROWS:
        new = [pid for pid in sorted(children.get(unvisited.pop(0), ())) if pid not in done]
        done.update(new)
        selected += new
        unvisited += new
    out, size = [], 0
    for pid in selected[:MAX_ROWS]:
        row = encode(process_row(pid, processes[pid], names, MAX_COMMAND))
        size += len(row) + 1
        if size > MAX_ANSWER:
            break
        out.append(row)
    return '"result":"ok"%s,"tree":[%s]' % (',"cut":true' if len(out) < len(selected) else '', ','.join(out))


def process_row(pid, found, names, max_length):
    comm, f = found
    uid = owner(pid)
    line = decode(read('/proc/%d/cmdline' % pid, MAX_DETAIL_COMMAND).rstrip(b'\0').replace(b'\0', b' '))[:max_length]
    if not line:
        line = '[' + decode((read_stat(pid) or (b'',))[0] if comm is None else comm) + ']'
    return {'pid': pid, 'ppid': int(f[1]), 'start': int(f[19]), 'uid': uid, 'user': None if uid is None else user_name(uid, names),
            'state': decode(f[0]), 'cpu': int(f[11]) + int(f[12]), 'rss': int(f[21]) * os.sysconf('SC_PAGE_SIZE'),
            'command': line}


def user_name(uid, names):
    """Returns the user's name from /etc/passwd; a name service might be slow."""
    if uid not in names and '' not in names:
        names[''] = None
        for known, name in local_names().items():
            names.setdefault(known, name)
    return names.get(uid, str(uid))
