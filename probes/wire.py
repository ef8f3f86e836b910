# The wire protocol: a small JSON encoder (importing json takes longer than the whole start), frames out, command lines in.
# Knows nothing about metrics. SHORT is the maximum fragment length for a connection that cuts long lines, else 0.
import select
import time

CHUNK = 4096  # a pipe or socket that polls writable accepts this much without blocking
MAX_LINE = 4096  # longest command
MAX_FRAME = 1 << 20  # longest frame


def quote(text):
    """Returns a JSON string in ASCII; control characters become spaces."""
    if text.isprintable():
        plain = text.replace('\\', '\\\\').replace('"', '\\"')
        try:
            plain.encode('ascii')
            return '"' + plain + '"'
        except UnicodeEncodeError:
            pass
    out = []
    for c in text:
        n = ord(c)
        if n < 32 or 127 <= n < 160:
            out.append(' ')
        elif c == '"' or c == '\\':
            out.append('\\' + c)
        elif n < 127:
            out.append(c)
        elif n > 0xffff:
            n -= 0x10000
            out.append('\\u%04x\\u%04x' % (0xd800 + (n >> 10), 0xdc00 + (n & 0x3ff)))
        elif 0xd800 <= n < 0xe000:
            out.append('\\ufffd')
        else:
            out.append('\\u%04x' % n)
    return '"' + ''.join(out) + '"'


def printable(text):
    """Replaces unprintable characters by spaces, so that words stay separated."""
    return text if text.isprintable() else ''.join([c if c.isprintable() else ' ' for c in text])


class RawJson(str):
    """Text that is JSON already."""


def encode(value):
    """Encodes None, bool, int, float, str, list and dict as JSON; NaN and infinity become null."""
    if value is None:
        return 'null'
    if value is True:
        return 'true'
    if value is False:
        return 'false'
    kind = type(value)
    if kind is str:
        return quote(value)
    if kind is int:
        return str(value)
    if kind is float:
        if value - value:
            return 'null'
        text = repr(round(value, 3))
        return text[:-2] if text[-2:] == '.0' else text
    if kind is RawJson:
        return value
    if kind is dict:
        return '{' + ','.join([quote(k) + ':' + encode(v) for k, v in value.items()]) + '}'
    return '[' + ','.join([encode(v) for v in value]) + ']'


class ReaderGone(Exception):
    """The other end of stdout is closed."""


class Output:
    """Writes whole frames to one descriptor without blocking.

    The descriptor stays in blocking mode, because its file description is shared with sshd. It is polled
    before each write, and a write is never longer than what a writable pipe accepts.
    """

    def __init__(self, fd):
        self.fd = fd
        self.pending = b''
        self.sent = 0
        self.frames = 0
        self.poll = select.poll()
        self.poll.register(fd, select.POLLOUT)

    def writable(self):
        for _, event in self.poll.poll(0):
            if event & (select.POLLERR | select.POLLNVAL):
                raise ReaderGone
            return bool(event & select.POLLOUT)
        return False

    def flush(self):
        """Continues the frame being written; returns true if none is left."""
        while self.sent < len(self.pending):
            if not self.writable():
                return False
            try:
                self.sent += os.write(self.fd, self.pending[self.sent:self.sent + CHUNK])
            except BlockingIOError:
                return False
            except OSError:
                raise ReaderGone
        self.pending = b''
        self.sent = 0
        return True

    def ready(self):
        """Returns true if a new frame can be started now."""
        return self.flush() and self.writable()

    def send(self, frame):
        """Starts a frame; call only if `ready` returned true."""
        self.frames += 1
        starts = range(0, len(frame), SHORT or len(frame))
        form = '\x1egtop1+ %s %d %d/%d %d %s %s\n' if SHORT else '\x1egtop1 %.0s%.0s%.0s%.0s%.0s%s%.0s\n'
        self.pending = ''.join([form % (NODE, self.frames, n + 1, len(starts), min(len(frame) - i, starts.step),
                                     frame[i:i + starts.step], NODE) for n, i in enumerate(starts)]).encode('ascii')
        self.flush()


class Commands:
    """Parses the command lines for one node from bytes as they arrive."""

    def __init__(self, node):
        self.node = ',"node":"' + node + '","verb":"'
        self.text = b''
        self.skipping = False

    def feed(self, data):
        """Returns (id, verb, numbers by name) of each complete line for this node; the verb is empty if it is malformed."""
        commands = []
        lines = (self.text + data).split(b'\n')
        self.text = lines.pop()
        for line in lines:
            if self.skipping or len(line) > MAX_LINE:
                self.skipping = False
                continue
            command = self.parse(line.decode('ascii', 'replace').rstrip('\r'))
            if command:
                commands.append(command)
        if self.skipping or len(self.text) > MAX_LINE:
            self.skipping = True
            self.text = b''
        return commands

    def parse(self, line):
        number, node, rest = line.partition(self.node)
        if not node or number[:6] != '{"id":' or not number[6:].isdigit() or len(number) > 26:
            return None
        number, values = int(number[6:]), {}
        verb, quoted, rest = rest[:-1].partition('"') if rest[-1:] == '}' else ('', '', '')
        for word in rest.split(',')[1:]:
            key, _, digits = word.partition(':')
            if len(digits) > 20 or digits.strip('0123456789.') or digits.count('.') > 1 or not digits.strip('.'):
                return number, '', values
            values[key.strip('"')] = float(digits) if '.' in digits else int(digits)
        return number, verb if quoted and rest[:1] in ('', ',') else '', values
