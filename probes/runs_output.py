# Outputs of runs: opened once, read by windows, searched, and followed. Only regular files of the run's user.
MAX_OUTPUTS = 4
MAX_READ = 1 << 18
TAIL = 1 << 16
BLOCK = 1 << 20
FIND_SECONDS = 0.5


class OutputFile:
    """An open output."""

    def __init__(self, handle, path, size):
        self.handle, self.path, self.size = handle, path, size
        self.identity, self.is_rotated = self.own_identity(), False

    def own_identity(self):
        status = os.fstat(self.handle)
        return status.st_dev, status.st_ino


class Outputs:
    """The open outputs, by number."""

    def __init__(self):
        self.files, self.count, self.followed = {}, 0, []

    def open(self, request):
        path, stream = request.get('path'), request.get('stream')
        if not isinstance(path, str) or stream not in ('stdout', 'stderr'):
            raise Refused('error', 'no path')
        own = self.process_output(request, '1' if stream == 'stdout' else '2')
        if path.startswith('pipe:') or path.startswith('socket:'):
            raise Refused('pipe', 'a pipe, of which nothing is kept; redirect the output to a file')
        if path.startswith(('/dev/pts', '/dev/tty')):
            raise Refused('terminal', 'a terminal, of which nothing is kept; redirect the output to a file')
        if path == '/dev/null':
            raise Refused('null', '/dev/null: the output is thrown away')
        deleted = path.endswith(' (deleted)')
        if not path.startswith('/'):
            raise Refused('error', 'not an absolute path')
        try:
            handle = os.open(path[:-10] if deleted else path, OPEN_FILE)
        except OSError as error:
            if error.errno != errno.ENOENT:
                is_link = error.errno in (errno.ELOOP, errno.EMLINK)
                raise Refused('link' if is_link else 'error', 'a link' if is_link else message_of(error))
            if own is None:
                raise Refused('deleted', 'the file has been deleted or moved')
            handle, deleted = self.reopen(own), True
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise Refused('error', 'not a regular file')
            is_own = own is not None and self.is_same(own, status)
            uid = request.get('uid')
            if not is_own and (not isinstance(uid, int) or status.st_uid != uid):
                raise Refused('foreign', 'the file does not belong to the user of the run; it is not read')
            if len(self.files) >= MAX_OUTPUTS:
                self.close(min(self.files))
        except BaseException:
            os.close(handle)
            raise
        self.count += 1
        self.files[self.count] = OutputFile(handle, path, status.st_size)
        return {'handle': self.count, 'size': status.st_size, 'ino': '%d:%d' % (status.st_dev, status.st_ino),
                'mtime': status.st_mtime, 'deleted': deleted}

    @staticmethod
    def process_output(request, number):
        """Returns the path in /proc of the output of the run's process, if it still is that process."""
        pid, start = request.get('pid'), request.get('start')
        if not isinstance(pid, int) or not isinstance(start, int):
            return None
        fields = read_stat(pid)
        return '/proc/%d/fd/%s' % (pid, number) if fields is not None and int(fields[20]) == start else None

    @staticmethod
    def is_same(own, status):
        try:
            other = os.stat(own)
        except OSError:
            return False
        return (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino)

    @staticmethod
    def reopen(own):
        """Opens what the process still writes to."""
        try:
            if not stat.S_ISREG(os.stat(own).st_mode):
                raise Refused('deleted', 'the file has been deleted')
            return os.open(own, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            raise Refused('deleted', 'the file has been deleted: ' + message_of(error))

    def close(self, number):
        found = self.files.pop(number, None)
        if found is not None:
            os.close(found.handle)

    def file(self, request):
        found = self.files.get(request.get('handle'))
        if found is None:
            raise Refused('closed', 'the output is no longer open')
        return found

    def read(self, request):
        found, offset = self.file(request), max(0, int(request.get('offset', 0)))
        data = os.pread(found.handle, min(MAX_READ, max(0, int(request.get('length', 0)))), offset)
        return {'offset': offset, 'data': base64.b64encode(data).decode(), 'size': os.fstat(found.handle).st_size}

    def find(self, request):
        """Searches block by block, for a while; `searched` says where to go on."""
        found, at = self.file(request), max(0, int(request.get('offset', 0)))
        pattern, folds = str(request.get('pattern', '')).encode(), bool(request.get('fold'))
        size, until = os.fstat(found.handle).st_size, time.monotonic() + FIND_SECONDS
        if not pattern:
            raise Refused('error', 'nothing to search for')
        pattern = pattern.lower() if folds else pattern
        overlap = len(pattern) - 1
        while time.monotonic() < until:
            begin = max(0, at - BLOCK) if request.get('backwards') else at
            length = (at - begin if request.get('backwards') else BLOCK) + overlap
            data = os.pread(found.handle, length, begin)
            data = data.lower() if folds else data
            where = data.rfind(pattern) if request.get('backwards') else data.find(pattern)
            if where >= 0:
                return {'found': begin + where, 'searched': begin + where, 'size': size}
            at = begin if request.get('backwards') else min(begin + BLOCK, size)
            if at <= 0 or at >= size:
                break
        return {'found': None, 'searched': at, 'size': size}

    def follow(self, request):
        handles = request.get('handles')
        handles = handles if isinstance(handles, list) else []
        self.followed = [number for number in handles if isinstance(number, int) and number in self.files]

    def growth(self):
        """Returns messages about followed outputs that have changed."""
        for number in self.followed:
            found = self.files.get(number)
            if found is None:
                continue
            size = os.fstat(found.handle).st_size
            rotated = self.rotation(found)
            if size == found.size and not rotated:
                continue
            begin = max(0, size - TAIL, min(found.size, size))
            data = os.pread(found.handle, size - begin, begin)
            yield {'t': 'output', 'handle': number, 'size': size, 'from': begin, 'rotated': rotated,
                   'truncated': size < found.size, 'data': base64.b64encode(data).decode()}
            found.size = size

    @staticmethod
    def rotation(found):
        """Returns true once when the path names another file."""
        if found.is_rotated:
            return False
        try:
            status = os.stat(found.path)
            found.is_rotated = (status.st_dev, status.st_ino) != found.identity
        except OSError:
            return False
        return found.is_rotated
