# Changes of files of runs, which the user asks for: a variable of the control file, and the deletion of a run.
DELETE_LIMIT = 1000000
PLAN_ENTRIES = 200


class Refused(Exception):
    """A request that is not carried out: (kind, reason)."""


def kind_of(value):
    names = {bool: 'bool', int: 'int', float: 'float', str: 'str', list: 'list', dict: 'object', type(None): 'null'}
    return names[type(value)]


def unique_object(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError('duplicate keys')
    return found


def refuse_constant(text):
    raise ValueError(text + ' is no number')


def parse_json(text):
    """Parses JSON with unique keys and finite numbers. Raises ValueError."""
    return json.loads(text, object_pairs_hook=unique_object, parse_constant=refuse_constant)


def known_run(folder, name):
    run = folder.runs.get(name) if isinstance(name, str) else None
    if run is None or folder.handle is None:
        raise Refused('gone', 'the run is no longer there')
    return run


def set_variable(folder, request, _):
    """Changes one variable, if the control file is still as the user saw it."""
    run = known_run(folder, request.get('run'))
    base, name = request.get('base'), request.get('name')
    handle, closes = folder.folder_of(run)
    try:
        text, status = read_regular(run.control, handle, MAX_CONTROL)
        if text != base:
            raise Refused('conflict', 'the control file was changed meanwhile')
        if '\ufffd' in text:
            raise Refused('broken', 'the control file is not UTF-8; written back, it would lose characters')
        if status.st_uid != os.geteuid() and os.geteuid() != 0:
            raise Refused('owner', 'the control file belongs to %s' % (user_name(status.st_uid) or status.st_uid))
        try:
            values = parse_json(text)
        except ValueError as error:
            raise Refused('broken', 'the control file is not valid: %s' % error)
        if not isinstance(values, dict) or name not in values:
            raise Refused('missing', 'the control file has no variable of this name')
        try:
            value = parse_json(request.get('value'))
        except (TypeError, ValueError):
            raise Refused('type', 'the value is not valid JSON')
        old = values[name]
        if isinstance(old, float) and type(value) is int:
            value = float(value)
        if old is not None and kind_of(value) != kind_of(old):
            raise Refused('type', 'the variable is of type %s' % kind_of(old))
        values[name] = value
        changed = json.dumps(values, indent=2)
        replace(run.control, handle, changed, status, text)
        return {'text': changed, 'mtime': time.time()}
    finally:
        if closes:
            os.close(handle)


def replace(name, folder, text, status, before):
    """Replaces a file of a folder as a whole; nothing is left of it on an error."""
    temporary = '.%s.%d.tmp' % (name, os.getpid())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        try:
            if os.geteuid() == 0:
                os.fchown(handle, status.st_uid, status.st_gid)
            os.fchmod(handle, stat.S_IMODE(status.st_mode))
            data = text.encode()
            while data:
                data = data[os.write(handle, data):]
            os.fsync(handle)
        finally:
            os.close(handle)
        if read_regular(name, folder, MAX_CONTROL)[0] != before:
            raise Refused('conflict', 'the control file was changed meanwhile')
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise


def identity_of(status):
    return '%d:%d:%d' % (status.st_dev, status.st_ino, status.st_mtime_ns)


class Pulse:
    """Shows that long work goes on: calls `tick` each second."""

    def __init__(self, tick):
        self.tick, self.at = tick, time.monotonic()

    def beat(self):
        if time.monotonic() - self.at >= 1.0:
            self.tick()
            self.at = time.monotonic()


def run_entries(folder, run, pulse):
    """Returns what deleting a run removes, as (path, status), and what tells that it is still the same.

    A folder stands before what is in it, and the progress file behind its folder: deleted backwards, the run remains
    one until the rest of it is gone. Of a link to a folder, the link goes.
    """
    if run.name == '.':
        raise Refused('folder', 'the folder itself is the run; it is not deleted')
    refuse_foreign(folder, run)
    found = []
    if run.flat:
        for name in (run.progress, run.control, 'checkpoint_' + run.name + '.pth'):
            try:
                found.append((name, os.lstat(name, dir_fd=folder.handle)))
            except FileNotFoundError:
                pass
        return found, identity_of(found[0][1]) if found else ''
    top = os.lstat(run.name, dir_fd=folder.handle)
    if stat.S_ISLNK(top.st_mode):
        return [(run.name, top)], identity_of(top)
    progress = run.name + '/progress.json'
    walk(folder.handle, run.name, top, top.st_dev, found, pulse)
    status = os.lstat(progress, dir_fd=folder.handle)
    found = found[:1] + [(progress, status)] + [entry for entry in found[1:] if entry[0] != progress]
    return found, identity_of(top) + ' ' + identity_of(status)


def walk(parent, name, status, device, found, pulse, prefix=''):
    path = prefix + name
    found.append((path, status))
    pulse.beat()
    if len(found) > DELETE_LIMIT:
        raise Refused('size', 'the run has more than %d files' % DELETE_LIMIT)
    if status.st_dev != device:
        raise Refused('mount', '%s is on another file system' % path)
    if not stat.S_ISDIR(status.st_mode):
        return
    handle = os.open(name, OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    try:
        for entry in sorted(os.listdir(handle)):
            walk(handle, entry, os.lstat(entry, dir_fd=handle), device, found, pulse, path + '/')
    finally:
        os.close(handle)


def plan(folder, request, tick):
    run = known_run(folder, request.get('run'))
    found, identity = run_entries(folder, run, Pulse(tick))
    size = sum(status.st_size for _, status in found if stat.S_ISREG(status.st_mode))
    entries = [[path, status.st_size if stat.S_ISREG(status.st_mode) else 0] for path, status in found]
    return {'folder': folder.path, 'entries': entries[:PLAN_ENTRIES], 'count': len(entries), 'bytes': size,
            'identity': identity}


def progress_text(folder, run):
    handle, closes = folder.folder_of(run)
    try:
        return read_regular(run.progress, handle, MAX_PROGRESS)[0]
    finally:
        if closes:
            os.close(handle)


def refuse_foreign(folder, run):
    """Raises if the file is not that of a run: another program may have written it, and all that is beside it."""
    if not is_progress(progress_text(folder, run)):
        raise Refused('foreign', '%s is not the progress file of a run' % run.progress)


def refuse_running(folder, run):
    """Raises if the run's file tells of a process of this host that is alive."""
    try:
        progress = json.loads(progress_text(folder, run))
        about = progress['metadata']
        status = progress.get('status') or about.get('status')
        if status != 'RUNNING' or about['hostname'] != socket.gethostname():
            return
        fields = read_stat(int(about['pid']))
        started = float(about['start_time'])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    if fields is not None and fields[1] not in 'ZX' and started_at(fields) <= started + 5.0:
        raise Refused('running', 'its process %d is running' % int(about['pid']))


def delete(folder, request, tick):
    run, pulse = known_run(folder, request.get('run')), Pulse(tick)
    found, identity = run_entries(folder, run, pulse)
    if identity != request.get('identity'):
        raise Refused('changed', 'its files have changed meanwhile; look again')
    refuse_running(folder, run)
    for path, status in reversed(found):
        remove(folder.handle, path.split('/'), stat.S_ISDIR(status.st_mode))
        pulse.beat()
    return {'count': len(found)}


def remove(folder, names, is_folder):
    """Removes an entry below a folder; no name on the way may be a link."""
    opened = []
    try:
        for name in names[:-1]:
            folder = os.open(name, OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            opened.append(folder)
        if is_folder:
            os.rmdir(names[-1], dir_fd=folder)
        else:
            os.unlink(names[-1], dir_fd=folder)
    finally:
        for handle in opened:
            os.close(handle)
