# The script of `gtop runs`: tells what the runs of a folder and their processes do, and carries out requests. Its settings
# are the first line of its input. It ends with its input, without a command for `deadman` seconds, or when nobody reads
# what it tells.
import base64
import select
import signal
import socket

MAX_LINE = 1 << 21
PART = 500000
LOG_TAIL = 8192
FOLLOW_SECONDS = 0.2
MIN_INTERVAL = 0.2


class Log:
    """A log that the user has named."""

    def __init__(self, number, path):
        self.number, self.path, self.seen = number, os.path.abspath(os.path.expanduser(path)), None

    def look(self):
        """Returns its end if it has changed; None otherwise."""
        record = {'log': self.number, 'path': self.path, 'error': None}
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                status = os.fstat(handle)
                if not stat.S_ISREG(status.st_mode):
                    raise OSError(errno.EINVAL, 'not a regular file')
                seen = (status.st_ino, status.st_size, status.st_mtime_ns)
                if seen == self.seen:
                    return None
                begin = max(0, status.st_size - LOG_TAIL)
                record['tail'] = os.pread(handle, LOG_TAIL, begin).decode('utf-8', 'replace')
                record.update(mtime=status.st_mtime, size=status.st_size, uid=status.st_uid)
            finally:
                os.close(handle)
        except OSError as error:
            seen = record['error'] = message_of(error)
            if seen == self.seen:
                return None
        self.seen = seen
        return record


class Runs:
    """The main loop, and what it tells."""

    def __init__(self, settings):
        folder = settings['folder']
        self.folder = None if folder is None else Folder(folder, settings.get('watch'))
        self.logs = [Log(number, path) for number, path in enumerate(settings['logs'])]
        self.processes, self.outputs = Processes(), Outputs()
        self.interval, self.deadman = settings['interval'], settings['deadman']
        self.input, self.heard_at = b'', time.monotonic()
        self.verbs = {'open': self.outputs.open, 'read': self.outputs.read, 'find': self.outputs.find}
        self.changes = {'set': set_variable, 'plan': plan, 'delete': delete}

    @staticmethod
    def emit(message):
        data = b'\x1eruns1 ' + json.dumps(message, separators=(',', ':')).encode() + b'\n'
        while data:
            data = data[os.write(1, data):]

    def emit_runs(self, total, changed, gone):
        """Tells which runs have changed, in several messages if they are many."""
        part, size = [], 0
        for record in changed:
            length = sum(len(one['text'] or '') for one in record.values() if isinstance(one, dict))
            if part and size + length > PART:
                self.emit({'t': 'runs', 'now': time.time(), 'total': total, 'runs': part, 'gone': []})
                part, size = [], 0
            part.append(record)
            size += length
        self.emit({'t': 'runs', 'now': time.time(), 'total': total, 'runs': part, 'gone': gone})

    def hello(self):
        error = None
        if self.folder is not None:
            try:
                self.folder.open()
            except OSError as failure:
                error = message_of(failure)
        user, folder = user_name(os.geteuid()), self.folder
        self.emit({'t': 'hello', 'v': 1, 'host': socket.gethostname(), 'uid': os.geteuid(), 'user': user,
                   'pidns': link('/proc/self/ns/pid'), 'now': time.time(), 'ticks': TICKS, 'error': error,
                   'folder': folder and folder.path, 'watch': folder and folder.label(), 'fs': folder and folder.kind})

    def look(self):
        error = None
        if self.folder is not None:
            try:
                self.folder.look(time.monotonic(), self.emit_runs)
            except OSError as failure:
                error = message_of(failure)
            except Exception as failure:
                error = 'internal error of the script: %s' % failure.__class__.__name__
        logs = [record for record in [log.look() for log in self.logs] if record is not None]
        if logs:
            self.emit({'t': 'logs', 'now': time.time(), 'logs': logs})
        if self.processes.pids:
            self.emit(self.processes.look())
        self.tick(error)

    def tick(self, error=None):
        self.emit({'t': 'tick', 'now': time.time(), 'error': error})

    def run(self):
        self.hello()
        look_at = follow_at = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= look_at:
                self.look()
                look_at = max(look_at + self.interval, time.monotonic())
            if self.outputs.followed and now >= follow_at:
                for message in self.outputs.growth():
                    self.emit(message)
                follow_at = time.monotonic() + FOLLOW_SECONDS
            wake = min(look_at, follow_at) if self.outputs.followed else look_at
            wake = max(0.0, min(wake, self.heard_at + self.deadman) - time.monotonic())
            if select.select([0], [], [], wake)[0]:
                data = os.read(0, 1 << 16)
                if not data:
                    return
                self.heard_at = time.monotonic()
                self.on_input(data)
            elif time.monotonic() - self.heard_at >= self.deadman:
                return

    def on_input(self, data):
        *lines, self.input = (self.input + data).split(b'\n')
        if len(self.input) > MAX_LINE:
            self.input = b''
        for line in lines:
            try:
                request = json.loads(line.decode())
            except ValueError:
                continue
            if isinstance(request, dict):
                self.on_request(request)

    def on_request(self, request):
        verb = request.get('verb')
        if verb == 'heartbeat':
            return
        if verb == 'interval':
            seconds = request.get('seconds')
            if isinstance(seconds, (int, float)):
                self.interval = max(MIN_INTERVAL, min(3600.0, seconds))
        elif verb == 'processes':
            self.processes.watch(request)
            if self.processes.pids:
                self.emit(self.processes.look())
        elif verb == 'follow':
            self.outputs.follow(request)
        elif verb == 'close':
            self.outputs.close(request.get('handle'))
            self.answer(request, {'ok': True})
        else:
            self.answer(request, self.result(verb, request))

    def result(self, verb, request):
        try:
            if verb in self.verbs:
                result = self.verbs[verb](request)
            elif verb in self.changes and self.folder is not None:
                result = self.changes[verb](self.folder, request, self.tick)
            else:
                return {'ok': False, 'kind': 'verb', 'why': 'no such request'}
        except Refused as refused:
            kind, why = refused.args
            return {'ok': False, 'kind': kind, 'why': why}
        except OSError as error:
            return {'ok': False, 'kind': 'error', 'why': message_of(error)}
        except Exception as error:
            return {'ok': False, 'kind': 'error', 'why': 'internal error of the script: %s' % error.__class__.__name__}
        result['ok'] = True
        return result

    def answer(self, request, result):
        result.update(t='answer', id=request.get('id'))
        self.emit(result)


def read_settings():
    """Returns the settings; nothing behind their line is read."""
    line = b''
    while line[-1:] != b'\n':
        byte = os.read(0, 1)
        if not byte or len(line) > MAX_LINE:
            sys.exit('gtop: no settings')
        line += byte
    return json.loads(line.decode())


def main():
    settings = read_settings()
    signal.alarm(0)
    # A reader that is gone ends the script by the error of the write.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.umask(0o077)
    try:
        Runs(settings).run()
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    os._exit(0)


if __name__ == '__main__':
    main()
