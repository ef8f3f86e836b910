# A folder of training runs: lists them, reads their files, and tells what has changed. Nothing here writes.
import errno
import json
import os
import re
import stat
import struct
import sys
import time

MAX_RUNS = 5000
MAX_PROGRESS = 1 << 20
MAX_CONTROL = 1 << 20
MAX_NAME = 200
MAX_CANDIDATES = 100
RELIST_SECONDS = 15.0
LOCAL_FILE_SYSTEMS = ('ext2', 'ext3', 'ext4', 'xfs', 'btrfs', 'tmpfs', 'zfs', 'f2fs', 'overlay', 'ramfs')
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# modify, close after writing, moves, creations and deletions of entries, and the end of the folder itself
EVENTS = 0x2 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
OVERFLOW, IGNORED = 0x4000, 0x8000
NATURAL = re.compile('([0-9]+)')


def natural_key(name):
    """Returns a key that puts run_2 before run_10."""
    # Every second part is a number.
    return [(int(part), part) if at % 2 else (0, part) for at, part in enumerate(NATURAL.split(name))]


def message_of(error):
    """Returns why a file operation failed."""
    return error.strerror or str(error)


def file_system(path):
    """Returns the type of the file system that holds a path; None if it is not known."""
    device = os.stat(path).st_dev
    wanted = '%d:%d' % (os.major(device), os.minor(device))
    found = None
    with open('/proc/self/mountinfo', errors='replace') as mounts:
        for line in mounts:
            words = line.split()
            if len(words) > 6 and words[2] == wanted and '-' in words:
                found = words[words.index('-') + 1]
    return found


def user_name(uid, names={}):
    if uid not in names:
        names[uid] = None
        try:
            import pwd
            names[uid] = pwd.getpwuid(uid).pw_name
        except (ImportError, KeyError, OSError):
            pass
    return names[uid]


def read_regular(name, folder, limit):
    """Reads a file of a folder: its text and its status. Raises OSError for what is no regular file, or too large."""
    try:
        handle = os.open(name, OPEN_FILE, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EMLINK):
            raise OSError(error.errno, 'not a regular file')
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, 'not a regular file')
        if status.st_size > limit:
            raise OSError(errno.EFBIG, 'larger than %d MiB (%d bytes)' % (limit >> 20, status.st_size))
        parts, size = [], 0
        while size <= limit:
            part = os.read(handle, 1 << 16)
            if not part:
                break
            parts.append(part)
            size += len(part)
        if size > limit:
            raise OSError(errno.EFBIG, 'larger than %d MiB' % (limit >> 20))
        return b''.join(parts).decode('utf-8', 'replace'), status
    finally:
        os.close(handle)


def is_progress(text):
    """Returns true for the progress file of a run, of which a half-written one has at least the beginning."""
    try:
        value = json.loads(text)
    except ValueError:
        return text.startswith('{') and '"metadata"' in text and '"pid"' in text
    about = value.get('metadata') if isinstance(value, dict) else None
    return isinstance(about, dict) and ('pid' in about or 'status' in about)


class Watch:
    """Which entries of folders have changed, by inotify; `handle` is None where it does not work."""

    def __init__(self):
        self.handle, self.names = None, {}
        try:
            import ctypes
            self.library = ctypes.CDLL(None, use_errno=True)
            handle = self.library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            self.handle = handle if handle >= 0 else None
        except (ImportError, OSError, AttributeError):
            pass

    def add(self, path, name):
        """Watches a folder, whose changes are told as `name`. Returns false if that fails."""
        if self.handle is None:
            return False
        number = self.library.inotify_add_watch(self.handle, os.fsencode(path), EVENTS)
        if number < 0:
            return False
        self.names[number] = name
        return True

    def changes(self):
        """Returns the names of what has changed, each with its entry; None if changes were lost."""
        found = set()
        while True:
            try:
                data = os.read(self.handle, 1 << 16)
            except BlockingIOError:
                return found
            at = 0
            while at + 16 <= len(data):
                number, mask, _, length = struct.unpack_from('iIII', data, at)
                entry = os.fsdecode(data[at + 16:at + 16 + length].rstrip(b'\0'))
                at += 16 + length
                if mask & OVERFLOW:
                    return None
                if mask & IGNORED:
                    self.names.pop(number, None)
                elif number in self.names:
                    found.add((self.names[number], entry))

    def close(self):
        if self.handle is not None:
            os.close(self.handle)
        self.handle = None


class Run:
    """Where the files of a run are, and what they were when they were last read."""
    __slots__ = ('name', 'flat', 'progress', 'control', 'uid', 'seen')

    def __init__(self, name, flat):
        self.name, self.flat = name, flat
        self.progress = name + '.json' if flat else 'progress.json'
        self.control = 'control_' + name + '.json' if flat else 'control.json'
        self.uid, self.seen = None, {}


class Folder:
    """A folder of runs."""

    def __init__(self, path, mode=None):
        self.path = os.path.abspath(os.path.expanduser(path))
        self.mode, self.handle, self.identity = mode, None, None
        self.runs, self.total, self.watch, self.listed_at = {}, 0, None, None
        self.gone, self.kind = [], None
        # Folders that may become runs, and what the JSON files were that are none.
        self.candidates, self.others = 0, {}
        # Runs behind links, which may be on a file system that tells no changes.
        self.linked = set()

    def label(self):
        return 'inotify' if self.watch is not None else 'polling'

    def open(self):
        """Opens the folder, again if another one has its name. Raises OSError."""
        status = os.stat(self.path)
        identity = (status.st_dev, status.st_ino)
        if self.handle is not None and identity == self.identity:
            return
        handle = os.open(self.path, OPEN_FOLDER)
        self.close()
        self.handle, self.identity, self.listed_at = handle, identity, None
        self.gone.extend(self.runs)
        self.runs = {}
        self.kind = file_system(self.path)
        if self.mode != 'polling' and self.kind in LOCAL_FILE_SYSTEMS:
            watch = Watch()
            self.watch = watch if watch.add(self.path, '') else None
            if self.watch is None:
                watch.close()

    def close(self):
        if self.handle is not None:
            os.close(self.handle)
        if self.watch is not None:
            self.watch.close()
        self.handle = self.watch = None

    def list(self):
        """Finds the runs that came and went. Raises OSError."""
        flat, folders, others = {}, {}, {}
        for entry in os.listdir(self.handle):
            if entry.startswith('.') or len(entry) > MAX_NAME or not entry.isprintable():
                continue
            if entry == 'progress.json':
                folders['.'] = False
            elif entry.endswith('.json'):
                name = entry[:-5]
                if name and self.is_flat_run(name, others):
                    flat[name] = True
            else:
                folders[entry] = False
        self.others = others
        found, self.candidates, links, seen = dict(flat), 0, {}, set()
        for name in folders:
            identity, is_link = self.run_folder(name)
            if identity is None:
                self.candidates += 1
            elif is_link:
                links[name] = identity
            else:
                found[name] = False
                seen.add(identity)
        # A link to a neighbour, such as `latest`, is no other run.
        for name, identity in sorted(links.items()):
            if identity not in seen:
                found[name] = False
                seen.add(identity)
        self.linked = set(name for name in links if name in found)
        names = sorted(found, key=natural_key)
        self.total = len(names)
        names = set(names[:MAX_RUNS])
        for name in [name for name, run in self.runs.items() if name not in names or run.flat != found[name]]:
            del self.runs[name]
            if name not in names:
                self.gone.append(name)
        for name in names:
            if name not in self.runs:
                self.add(Run(name, found[name]))

    def run_folder(self, name):
        """Returns which folder it is, None without a progress file, and whether it is named by a link."""
        try:
            status = os.stat(name, dir_fd=self.handle)
            if name != '.':
                os.lstat(name + '/progress.json', dir_fd=self.handle)
            is_link = stat.S_ISLNK(os.lstat(name, dir_fd=self.handle).st_mode)
            return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None, is_link
        except OSError:
            return None, False

    def is_flat_run(self, name, others):
        """Returns true for the progress file of a run; notes in `others` what is none, which is not read again."""
        if name in self.runs and self.runs[name].flat:
            return True
        try:
            status = os.lstat(name + '.json', dir_fd=self.handle)
            identity = (status.st_ino, status.st_size, status.st_mtime_ns)
            if self.others.get(name) != identity:
                text, _ = read_regular(name + '.json', self.handle, MAX_PROGRESS)
                if is_progress(text):
                    return True
        except OSError:
            return False
        others[name] = identity
        return False

    def add(self, run):
        self.runs[run.name] = run
        if self.watch is not None and not run.flat and run.name != '.':
            if not self.watch.add(self.path + '/' + run.name, run.name):
                # The limit of watches is reached.
                self.watch.close()
                self.watch = None

    def folder_of(self, run):
        """Returns a descriptor of the folder that has the run's files, and whether it must be closed."""
        if run.flat or run.name == '.':
            return self.handle, False
        return os.open(run.name, OPEN_FOLDER, dir_fd=self.handle), True

    def changed_names(self):
        """Returns the names of runs to look at, and true if the folder must be listed."""
        if self.watch is None:
            return list(self.runs), True
        changes = self.watch.changes()
        if changes is None:
            return list(self.runs), True
        names, lists = set(self.linked), False
        for name, entry in changes:
            if name:
                names.add(name)
                continue
            if entry in ('progress.json', 'control.json'):
                names.add('.')
            elif entry.endswith('.json'):
                names.add(entry[:-5])
                if entry.startswith('control_'):
                    names.add(entry[8:-5])
            lists = True
        return [name for name in names if name in self.runs], lists

    def look(self, now, emit):
        """Emits the runs that changed. Raises OSError if the folder cannot be listed."""
        self.open()
        first = self.listed_at is None
        is_due = first or now - self.listed_at >= RELIST_SECONDS
        names, lists = self.changed_names()
        if is_due or lists or 0 < self.candidates <= MAX_CANDIDATES:
            known = set(self.runs)
            self.list()
            names = set(names) | (set(self.runs) - known)
        if is_due:
            self.listed_at, names = now, set(self.runs)
        changed = []
        for name in sorted(names, key=natural_key):
            run = self.runs.get(name)
            if run is not None:
                record = self.read(run)
                if record is not None:
                    changed.append(record)
        if changed or self.gone or first:
            gone, self.gone = [name for name in self.gone if name not in self.runs], []
            emit(self.total, changed, gone)

    def read(self, run):
        """Returns what has changed in the files of a run; None if nothing has."""
        record = {'run': run.name, 'flat': run.flat}
        try:
            folder, closes = self.folder_of(run)
        except OSError as error:
            folder, closes = None, False
            self.note(run, record, 'progress', None, message_of(error))
        try:
            if folder is not None:
                self.read_file(run, record, 'progress', run.progress, folder, MAX_PROGRESS)
                self.read_file(run, record, 'control', run.control, folder, MAX_CONTROL)
        finally:
            if closes:
                os.close(folder)
        if len(record) == 2:
            return None
        record['uid'] = run.uid
        record['user'] = None if run.uid is None else user_name(run.uid)
        return record

    def note(self, run, record, key, identity, error):
        if run.seen.get(key) != (identity, error):
            run.seen[key] = (identity, error)
            record[key] = {'text': None, 'error': error, 'mtime': None, 'size': None}

    def read_file(self, run, record, key, name, folder, limit):
        try:
            if self.watch is not None or self.kind in LOCAL_FILE_SYSTEMS:
                status = os.lstat(name, dir_fd=folder)
                if run.seen.get(key, (None, ''))[0] == (status.st_ino, status.st_size, status.st_mtime_ns):
                    return
            text, status = read_regular(name, folder, limit)
        except OSError as error:
            reason = 'missing' if error.errno == errno.ENOENT else message_of(error)
            return self.note(run, record, key, None, reason)
        identity = (status.st_ino, status.st_size, status.st_mtime_ns)
        if run.seen.get(key) == (identity, None):
            return
        run.seen[key] = (identity, None)
        if key == 'progress':
            run.uid = status.st_uid
        record[key] = {'text': text, 'error': None, 'mtime': status.st_mtime, 'size': status.st_size}
