# Child processes for every call that can hang. A child is forked from the probe and connected to it by two pipes only.
#
# How everything ends: the probe ends on stdin EOF, on SIGALRM (re-armed by heartbeats) and on any signal. Each child
# leads its own process group, which includes the programs that it starts. It kills that group when its pipe closes;
# its own alarm, re-armed by the probe's beat, kills it when it is stuck in a call.
import marshal
import struct

try:
    import _signal as signal    # the module `signal` costs as much as the rest of the start
except ImportError:
    import signal

GRACE = 3  # seconds that a child outlives its parent's alarm, so that the parent can clean up first
CALL_RECORD = struct.Struct('d88s')


def kill_group(leader):
    """Kills a child's process group, or the child alone if it does not lead a group."""
    for kill in (os.killpg, os.kill):
        try:
            if leader > 1:
                kill(leader, signal.SIGKILL)
            return
        except OSError:
            pass


def kill_own_group():
    """Ends this child, and its process group if this child leads it."""
    if os.getpgid(0) == os.getpid() > 1:
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def next_due(due, now, interval):
    """Returns when the next sample is due: on the grid of the last one, so that one late tick does not cost the next."""
    return (due if 0 <= now - due < interval else now) + interval


class CallPage:
    """Shared memory with the name and the start of a child's current call; the parent can read it while the call hangs."""

    def __init__(self):
        try:
            import mmap
            self.memory = mmap.mmap(-1, 4096)
        except ImportError:  # a minimal Python without mmap: a hanging call has no name then
            self.memory = bytearray(4096)

    def read(self):
        since, call = CALL_RECORD.unpack_from(self.memory)
        return since, call.rstrip(b'\0').decode('ascii', 'replace')


class Link:
    """Exchanges Python values over a pair of pipes."""

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
        """Returns the complete values that have arrived; raises EOFError if the other end is closed."""
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


class ChildEnd:
    """The child's end: takes requests, sends reports, and notices the end of the probe while it waits."""

    def __init__(self, link, page):
        self.link = link
        self.page = page
        self.on_exit = None  # called before the child ends, if there is time
        self.requests = []
        self.poll = select.poll()
        self.poll.register(link.source, select.POLLIN)

    def wait(self, seconds, other=None):
        """Waits for a request, for `other` to become readable, or for a timeout; returns true if `other` is readable."""
        if other is not None:
            self.poll.register(other, select.POLLIN)
        try:
            ready = self.poll.poll(None if seconds is None else max(0, int(seconds * 1000)))
        finally:
            if other is not None:
                self.poll.unregister(other)
        readable = [fd for fd, _ in ready]
        if self.link.source in readable:
            try:
                for request in self.link.receive():
                    if request[0] == 'heartbeat':
                        signal.alarm(DEADMAN + GRACE)
                    else:
                        self.requests.append(request)
            except EOFError:
                self.end()
        return other in readable

    def end(self):
        if self.on_exit is not None:
            self.on_exit()
        kill_own_group()

    def next_request(self):
        while not self.requests:
            self.wait(None)
        return self.requests.pop(0)

    def report(self, *value):
        try:
            self.link.send(value)
        except OSError:
            self.end()

    def report_call(self, name, *starting):
        """Reports the next call, so that the probe can name it if it hangs."""
        self.report('call', name, *starting)


class Worker:
    """The probe's end of one child."""

    def __init__(self, source, serve, page=None):
        self.source = source
        self.serve = serve
        self.page = page
        self.is_ready = False  # it has reported its state
        self.is_starting = False  # the current call is the first one and may take long
        self.pid = 0
        self.link = None
        self.busy = False
        self.call = ''
        self.since = 0.0
        self.reported_at = 0.0  # when a stuck call was last reported
        self.retry = 0.0  # when to start or restart it

    def start(self, now):
        """Forks the child, which never returns from here; returns false if fork fails."""
        self.retry = now + 10.0
        down, up = os.pipe(), os.pipe()
        try:
            self.pid = os.fork()
        except OSError:
            for fd in down + up:
                os.close(fd)
            return False
        if self.pid == 0:
            self.run_child(down[0], up[1])
        try:
            os.setpgid(self.pid, self.pid)
        except OSError:
            pass
        os.close(down[0])
        os.close(up[1])
        os.set_blocking(down[1], False)
        self.link = Link(up[0], down[1])
        self.busy = True  # until it has reported its state
        self.is_ready = False
        self.call = 'start'
        self.since = now
        self.reported_at = 0.0
        return True

    def run_child(self, source, sink):
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
            child = ChildEnd(Link(source, sink), self.page)
            try:
                self.serve(child)
            except Exception as error:
                child.report('error', 'failed', self.source, 0.0, repr(error)[:200])
        finally:
            os._exit(0)

    def send(self, *value):
        """Sends without blocking; a child whose pipe is full is stuck anyway."""
        if self.link is None:
            return
        try:
            self.link.send(value)
        except OSError:
            pass

    def request(self, now, *value):
        """Sends a request; returns false if the child is still busy."""
        if self.link is None or self.busy:
            return False
        self.busy = True
        self.call = self.source
        self.since = now
        self.reported_at = 0.0
        self.send(*value)
        return True

    def stuck_for(self, now):
        """Returns the duration of the current call when an error is due (after 3 s, then every 2 s), else None."""
        self.refresh_call()
        if self.link is None or not self.busy or now < self.stuck_at():
            return None
        self.reported_at = now
        return now - self.since

    def refresh_call(self):
        """Updates the current call from the child's page."""
        if self.page is None or not self.busy:
            return
        since, call = self.page.read()
        if call and since >= self.since:
            self.call = call
            if self.is_ready and since > self.since:
                self.since, self.reported_at = since, 0.0

    def stuck_at(self):
        return self.reported_at + 2.0 if self.reported_at else self.since + 3.0

    def kill(self):
        """Kills the child's process group."""
        if self.pid:
            kill_group(self.pid)

    def end(self, graceful=False):
        """Ends the child; with `gently` its exit handler may still close the driver."""
        if self.link is None:
            return
        if not graceful:
            self.kill()
        self.link.close()
        self.link = None
        self.busy = False

    def reap(self):
        """Returns true if the child has been reaped or never existed."""
        if self.pid:
            try:
                if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
                    return False
            except OSError:
                pass
            self.pid = 0
        return True
