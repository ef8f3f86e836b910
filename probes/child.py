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

LOOK_INTERVAL = 2.0  # seconds between two looks at a call that takes longer than usual
SLOW_AFTER = 3.0  # seconds beyond one and a half times its habit after which a call is looked at, and reported
SILENT_AFTER = 10.0  # the same beyond its habit for a call of a driver that is loaded: it may be stuck
BLOCKED_AFTER = 10.0  # seconds for which a call waits in the kernel, uninterruptible at every look, until it is stuck
BLOCKED_START = 15.0  # the same for a call that loads a driver
STUCK_AFTER = 60.0  # seconds beyond its habit after which a call without an answer is stuck
HABIT_LIFETIME = 900.0
MAX_HABITS = 64
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


class Habits:
    """How long calls of each kind take: the longest time of late, by name."""

    def __init__(self):
        self.known = {}  # name -> (seconds, when)

    def add(self, name, seconds, now):
        if name in self.known or len(self.known) < MAX_HABITS:
            self.known[name] = max(min(seconds, STUCK_AFTER), 0.8 * self.of(name, now)), now

    def of(self, name, now):
        """Returns the seconds of such a call; zero if it is usually too short to be seen."""
        seconds, at = self.known.get(name, (0.0, now))
        return seconds if now - at < HABIT_LIFETIME else 0.0

    def like(self, name, now):
        """Returns the same where all calls load the same driver: of a new kind, the seconds of the longest."""
        return max([self.of(known, now) for known in ([name] if name in self.known else self.known)] or [0.0])


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
        self.habits = Habits()
        self.looked_at = 0.0  # when the current call was last looked at, because it takes longer than usual
        self.blocked_since = None  # since when it was uninterruptible at every look
        self.is_stuck = False  # nothing was answered since a call was stuck
        self.unanswered = None  # the call that nothing has answered and since when, as a child that waits is ended in the end
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
        self.begin_call('start', now)
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
        self.begin_call(self.source, now)
        self.send(*value)
        return True

    def begin_call(self, name, now):
        self.call, self.since, self.looked_at, self.blocked_since = name, now, 0.0, None

    def end_call(self, now):
        """Learns how long the current call has taken, unless it was given up."""
        if self.busy and not self.is_stuck:
            self.habits.add(self.call, now - self.since, now)

    def on_answer(self):
        self.is_stuck, self.unanswered = False, None

    def on_lost(self, now):
        """Returns what the call is that the child has not survived, and for how long; None if it took no longer than usual."""
        if not self.busy or not self.looked_at:
            return None
        if self.unanswered is None or self.unanswered[0] != self.call:
            self.unanswered = self.call, self.since
        return self.look(now, False)

    def habit(self, now):
        """Returns how long the current call usually takes; unknown ones of a program that loads the driver as the others."""
        return self.habits.of(self.call, now) if self.page is not None else self.habits.like(self.call, now)

    def is_due(self, now):
        """Returns true if the current call is to be looked at."""
        self.refresh_call()
        return self.link is not None and self.busy and now >= self.look_at(now)

    def look(self, now, is_blocked):
        """Returns what the current call is and for how long: slow, silent (it may be stuck), starting or stuck."""
        self.looked_at = now
        if not is_blocked:
            self.blocked_since = None
        elif self.blocked_since is None:
            self.blocked_since = now
        since, is_repeated = self.since, False
        if self.unanswered is not None and self.unanswered[0] == self.call:
            since, is_repeated = self.unanswered[1], True
        seconds = now - since
        beyond = seconds - self.habit(now)
        blocked = 0.0 if self.blocked_since is None else now - self.blocked_since
        is_starting = self.is_starting or not self.is_ready
        # A program that loads a driver initializes all its devices, one call of a library only one.
        limit = BLOCKED_AFTER if not is_starting else BLOCKED_START if self.page is not None else STUCK_AFTER
        self.is_stuck = self.is_stuck or beyond >= STUCK_AFTER or blocked >= limit
        if self.is_stuck:
            return 'stuck', seconds
        if is_starting and not is_repeated:
            return 'starting', seconds
        return 'silent' if self.page is not None and beyond >= SILENT_AFTER else 'slow', seconds

    def refresh_call(self):
        """Updates the current call from the child's page."""
        if self.page is None or not self.busy:
            return
        since, call = self.page.read()
        if call and since >= self.since:
            if not self.is_ready or since == self.since:
                self.call = call
                return
            if self.looked_at:  # it was slow, and has ended
                self.is_stuck = False
                self.end_call(since)
            self.begin_call(call, since)

    def look_at(self, now):
        return self.looked_at + LOOK_INTERVAL if self.looked_at else self.since + 1.5 * self.habit(now) + SLOW_AFTER

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
