# Child processes for whatever can hang: forked from the probe, joined to it by two pipes and nothing else.
#
# Lifelines. The probe itself ends on stdin EOF, on the default SIGALRM re-armed by heartbeats, and on any
# signal. Each child leads a process group of its own, with whatever it starts; it ends that group when its
# pipe closes, and an alarm of its own, re-armed by the probe's beat, ends it when it is stuck in a call.
import marshal
import struct

try:
    import _signal as signal    # the module `signal` costs as much as the rest of the start
except ImportError:
    import signal

GRACE = 3           # a child outlives its parent's alarm by this much, so that one clears up for the other
STAMP = struct.Struct('d88s')


def end_group(leader):
    """Ends a child of ours with its group; where it leads none, the child alone."""
    for end in (os.killpg, os.kill):
        try:
            if leader > 1:
                end(leader, signal.SIGKILL)
            return
        except OSError:
            pass


def end_ourselves():
    """Ends this child, and the group if it is ours."""
    if os.getpgid(0) == os.getpid() > 1:
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


class Page:
    """What a child is calling and since when, where its parent reads it even while the call does not return."""

    def __init__(self):
        try:
            import mmap
            self.memory = mmap.mmap(-1, 4096)
        except ImportError:     # a Python of few modules: what hangs has no name then
            self.memory = bytearray(4096)

    def read(self):
        since, call = STAMP.unpack_from(self.memory)
        return since, call.rstrip(b'\0').decode('ascii', 'replace')


class Link:
    """Python values over a pair of pipes."""

    def __init__(self, source, sink):
        self.source = source
        self.sink = sink
        self.data = b''

    def send(self, value):
        body = marshal.dumps(value)
        data = len(body).to_bytes(4, 'little') + body
        while data:
            data = data[os.write(self.sink, data):]

    def receive(self):
        """What has arrived, whole values only; EOFError when the other side is gone."""
        data = os.read(self.source, 65536)
        if not data:
            raise EOFError
        self.data += data
        values = []
        while len(self.data) >= 4:
            end = 4 + int.from_bytes(self.data[:4], 'little')
            if len(self.data) < end:
                break
            values.append(marshal.loads(self.data[4:end]))
            self.data = self.data[end:]
        return values

    def close(self):
        os.close(self.source)
        os.close(self.sink)


class Duty:
    """The child's side: requests in, reports out, and a watch on the probe while it waits for anything."""

    def __init__(self, link, page):
        self.link = link
        self.page = page
        self.farewell = None    # what to do before the end, if there is time for it
        self.requests = []
        self.poll = select.poll()
        self.poll.register(link.source, select.POLLIN)

    def wait(self, seconds, other=None):
        """Waits for a request, for `other` to be readable, or for the time to pass; true if `other` is."""
        if other is not None:
            self.poll.register(other, select.POLLIN)
        try:
            ready = self.poll.poll(None if seconds is None else max(0, int(seconds * 1000)))
        finally:
            if other is not None:
                self.poll.unregister(other)
        seen = [fd for fd, _ in ready]
        if self.link.source in seen:
            try:
                for request in self.link.receive():
                    if request[0] == 'beat':
                        signal.alarm(DEADMAN + GRACE)
                    else:
                        self.requests.append(request)
            except EOFError:
                self.end()
        return other in seen

    def end(self):
        if self.farewell is not None:
            self.farewell()
        end_ourselves()

    def next(self):
        while not self.requests:
            self.wait(None)
        return self.requests.pop(0)

    def report(self, *value):
        try:
            self.link.send(value)
        except OSError:
            self.end()

    def call(self, name, *starting):
        """Says what is about to be tried, so that the probe can name it if it never comes back."""
        self.report('call', name, *starting)


class Worker:
    """The probe's side of one child."""

    def __init__(self, source, serve, page=None):
        self.source = source
        self.serve = serve
        self.page = page
        self.is_ready = False   # it has said what it is
        self.is_starting = False    # the present call may take long, because it is the first
        self.pid = 0
        self.link = None
        self.busy = False
        self.call = ''
        self.since = 0.0
        self.told = 0.0         # when a stuck call was last reported
        self.retry = 0.0        # when to start it (again)

    def start(self, now):
        """Forks the child; the child never returns from here."""
        self.retry = now + 10.0
        down, up = os.pipe(), os.pipe()
        try:
            self.pid = os.fork()
        except OSError:
            for fd in down + up:
                os.close(fd)
            return False
        if self.pid == 0:
            self.live(down[0], up[1])
        try:
            os.setpgid(self.pid, self.pid)
        except OSError:
            pass
        os.close(down[0])
        os.close(up[1])
        os.set_blocking(down[1], False)
        self.link = Link(up[0], down[1])
        self.busy = True        # until it has said what it is
        self.is_ready = False
        self.call = 'start'
        self.since = now
        self.told = 0.0
        return True

    def live(self, source, sink):
        try:
            try:
                os.setpgid(0, 0)
            except OSError:
                pass
            signal.alarm(DEADMAN + GRACE)
            null = os.open('/dev/null', os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            for fd in range(3, 256):
                if fd != source and fd != sink:
                    try:
                        os.close(fd)
                    except OSError:
                        pass
            duty = Duty(Link(source, sink), self.page)
            try:
                self.serve(duty)
            except Exception as trouble:
                duty.report('error', 'failed', self.source, 0.0, repr(trouble)[:200])
        finally:
            os._exit(0)

    def send(self, *value):
        """Never blocks: a child that does not read for that long is stuck anyway."""
        if self.link is None:
            return
        try:
            self.link.send(value)
        except OSError:
            pass

    def ask(self, now, *value):
        """A request, unless the child is still at the last one."""
        if self.link is None or self.busy:
            return False
        self.busy = True
        self.call = self.source
        self.since = now
        self.told = 0.0
        self.send(*value)
        return True

    def stuck(self, now):
        """For how long the present call has lasted, once that is worth an error (after 3 s, then every 2 s)."""
        self.look()
        if self.link is None or not self.busy or now < self.stuck_at():
            return None
        self.told = now
        return now - self.since

    def look(self):
        """Learns the present call from the child's page: one that follows another is a new one."""
        if self.page is None or not self.busy:
            return
        since, call = self.page.read()
        if call and since >= self.since:
            self.call = call
            if self.is_ready and since > self.since:
                self.since, self.told = since, 0.0

    def stuck_at(self):
        return self.told + 2.0 if self.told else self.since + 3.0

    def kill(self):
        """Kills the child with all it started."""
        if self.pid:
            end_group(self.pid)

    def end(self, gently=False):
        """Ends the child; gently, it may still take its leave of a driver."""
        if self.link is None:
            return
        if not gently:
            self.kill()
        self.link.close()
        self.link = None
        self.busy = False

    def reap(self):
        """Whether the child has gone, as far as the kernel can tell."""
        if self.pid:
            try:
                if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                    return False
            except OSError:
                pass
            self.pid = 0
        return True
