# Answers to what is asked about processes: compiled only in the child that gives them, and gone with it. What is
# named by pid and start time is checked to be that process, before anything of it is told or done.
SIGNALS = range(1, 32)      # all but those of real time
KTHREAD = 0x200000
MOST_ROWS = 1024
MOST_TEXT = 600000      # bytes of one answer, well below what a frame may hold
DETAIL = 4096
PIDFD_OPEN, PIDFD_SEND = 434, 424


class Refused(Exception):
    """Why there is no answer: (result, words)."""


def answer_text(verb, values, pids, ours, names):
    """One answer as JSON without its braces."""
    try:
        if verb == 'tree':
            return tree(values, pids, names)
        pid, start = values.get('pid'), values.get('start')
        if pid.__class__ is not int or start.__class__ is not int or not 0 < pid < 1 << 22:
            raise Refused('bad', 'no pid and start time')
        if verb == 'signal':
            return send(pid, start, values.get('signal'), ours)
        f = same(pid, start)
        return environ(pid, f, start) if verb == 'environ' else detail(pid, f, start, names)
    except Refused as refused:
        return refusal(*refused.args)
    except OSError as error:
        return failure(error)
    except Exception as error:
        # Its words may hold what was read.
        return refusal('failed', 'the probe made a mistake: ' + error.__class__.__name__)


def failure(error):
    return '%s,"errno":%d' % (refusal('failed', os.strerror(error.errno or 0)), error.errno or 0)


def same(pid, start):
    """The fields of the process, which must be the one meant."""
    seen = stat(pid)
    if seen is None:
        if absence(pid, False) == 'gone':
            raise Refused('gone', 'no such process')
        raise Refused('refused', 'the node hides this process')
    if int(seen[1][19]) != start:
        raise Refused('reused', 'another process has this pid now')
    return seen[1]


def may(pid):
    """Whether it is ours to deal with; what the kernel thinks of it is seen later."""
    us = os.geteuid()
    for line in read('/proc/%d/status' % pid, 8192).split(b'\n'):
        if line.startswith(b'Uid:'):
            return us == 0 or b'%d' % us in line.split()[1:4:2]
    return False


# -- signals

def send(pid, start, number, ours):
    if number.__class__ is not int or number not in SIGNALS:
        raise Refused('bad', 'not a signal that may be sent')
    if pid <= 1:
        raise Refused('refused', 'that is the process the node stands on')
    if os.readlink('/proc/self') != str(os.getpid()):
        raise Refused('refused', 'what /proc shows is about other processes')
    fd = pidfd(pid)
    try:
        f = same(pid, start)
        if f[0] in (b'Z', b'X'):
            raise Refused('zombie', 'it has ended already, and its parent has not looked')
        if int(f[6]) & KTHREAD:
            raise Refused('refused', 'it is a part of the kernel')
        if int(f[2]) in ours or pid == os.getpid():
            raise Refused('refused', 'it is the probe itself')
        if not may(pid):
            raise Refused('refused', 'it belongs to another user')
        if fd is None:
            os.kill(pid, number)
        else:
            deliver(fd, number)
    except ProcessLookupError:
        raise Refused('gone', 'no such process')
    except PermissionError:
        raise Refused('refused', 'it belongs to another user')
    finally:
        if fd is not None:
            os.close(fd)
    return '"result":"sent"'


def call(*arguments):
    """A system call that this Python has no name for; its result, or None where there is no way to make it."""
    try:
        import ctypes
        library = ctypes.CDLL(None, use_errno=True)
        result = library.syscall(*[ctypes.c_long(one) for one in arguments])
    except (ImportError, OSError, AttributeError):
        return None
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def pidfd(pid):
    """A handle on the process that has this pid now: it never becomes another's. None where there is no such thing."""
    try:
        if hasattr(os, 'pidfd_open'):
            return os.pidfd_open(pid)
        return call(PIDFD_OPEN, pid, 0)
    except ProcessLookupError:
        raise Refused('gone', 'no such process')
    except OSError:
        return None


def deliver(fd, number):
    if hasattr(signal, 'pidfd_send_signal'):
        signal.pidfd_send_signal(fd, number)
    else:
        call(PIDFD_SEND, fd, number, 0, 0)


# -- what only the owner may know

def environ(pid, f, start):
    fd = open_own('/proc/%d/environ' % pid)
    try:
        data = os.read(fd, ENVIRON + 1)
    finally:
        os.close(fd)
    same(pid, start)
    is_cut = len(data) > ENVIRON
    list_ = [words(one) for one in data[:ENVIRON].split(b'\0') if one]
    return '"result":"ok"%s,"environ":%s' % (',"cut":true' if is_cut else '', encode(list_))


def open_own(path):
    try:
        return os.open(path, os.O_RDONLY)
    except PermissionError:
        raise Refused('refused', 'it belongs to another user')


def detail(pid, f, start, names):
    base = '/proc/%d/' % pid

    def link(name):
        try:
            return os.readlink(base + name)[:DETAIL]
        except OSError:
            return None

    out = row(pid, (None, f), names, DETAIL)
    out.update(threads=int(f[17]), nice=int(f[16]), vsize=int(f[20]), cwd=link('cwd'), exe=link('exe'),
               cgroup=cgroup(pid), wchan=text(base + 'wchan')[:64] or None, io=None)
    status = pairs(base + 'status', b':')
    for key, name in (('swap', b'VmSwap'), ('peak', b'VmHWM'), ('voluntary', b'voluntary_ctxt_switches'),
                      ('involuntary', b'nonvoluntary_ctxt_switches')):
        words_of = status.get(name, b'').split()
        if words_of and words_of[0].isdigit():
            out[key] = int(words_of[0]) * (1024 if words_of[1:] == [b'kB'] else 1)
    counters = pairs(base + 'io', b':')
    if counters:
        out['io'] = [int(counters.get(name, b'0')) for name in (b'rchar', b'wchar', b'read_bytes', b'write_bytes')]
    out['limits'] = limits(read(base + 'limits', 8192))
    same(pid, start)
    return '"result":"ok","detail":' + encode(out)


def pairs(path, mark):
    rows = [line.partition(mark) for line in read(path, 8192).split(b'\n')]
    return {key: value.strip() for key, _, value in rows if key}


def limits(data):
    """[name, soft, hard] of each limit; its columns have fixed places under their titles."""
    lines = words(data).split('\n')
    soft, hard, unit = [lines[0].find(title) for title in ('Soft Limit', 'Hard Limit', 'Units')]
    if min(soft, hard, unit) < 0:
        return []
    return [[line[:soft].strip(), line[soft:hard].strip(), line[hard:unit].strip()] for line in lines[1:33] if line]


# -- the tree

def tree(values, pids, names):
    """The processes meant, all above and all below them: a parent stands before its children."""
    everyone = {}
    for name in os.listdir('/proc'):
        if name.isdigit():
            seen = stat(int(name))
            if seen is not None:
                everyone[int(name)] = seen
    if 'pid' in values:
        pid, start = values['pid'], values.get('start')
        if pid not in everyone:
            raise Refused('gone', 'no such process')
        if start is not None and int(everyone[pid][1][19]) != start:
            raise Refused('reused', 'another process has this pid now')
        pids = [pid]
    children = {}
    for pid, (_, f) in everyone.items():
        children.setdefault(int(f[1]), []).append(pid)
    # Those above come first, so that what is cut off is below.
    wanted, above = [], set()
    for pid in pids:
        chain = []
        while pid in everyone and pid not in above and len(chain) < 64:
            above.add(pid)
            chain.append(pid)
            pid = int(everyone[pid][1][1])
        wanted += reversed(chain)
    below = [pid for pid in pids if pid in everyone]
    done = set(wanted)
    while below and len(wanted) <= MOST_ROWS:
        fresh = [pid for pid in sorted(children.get(below.pop(0), ())) if pid not in done]
        done.update(fresh)
        wanted += fresh
        below += fresh
    out, size = [], 0
    for pid in wanted[:MOST_ROWS]:
        one = encode(row(pid, everyone[pid], names, COMMAND))
        size += len(one) + 1
        if size > MOST_TEXT:
            break
        out.append(one)
    return '"result":"ok"%s,"tree":[%s]' % (',"cut":true' if len(out) < len(wanted) else '', ','.join(out))


def row(pid, seen, names, longest):
    comm, f = seen
    uid = owner(pid)
    line = words(read('/proc/%d/cmdline' % pid, DETAIL).rstrip(b'\0').replace(b'\0', b' '))[:longest]
    if not line:
        line = '[' + words((stat(pid) or (b'',))[0] if comm is None else comm) + ']'
    return {'pid': pid, 'ppid': int(f[1]), 'start': int(f[19]), 'uid': uid, 'user': None if uid is None else name_of(uid, names),
            'state': words(f[0]), 'cpu': int(f[11]) + int(f[12]), 'rss': int(f[21]) * os.sysconf('SC_PAGE_SIZE'),
            'command': line}


def name_of(uid, names):
    """The user's name as far as this machine knows it by itself: a name service may take its time."""
    if uid not in names and '' not in names:
        names[''] = None
        for known, name in local_names().items():
            names.setdefault(known, name)
    return names.get(uid, str(uid))
