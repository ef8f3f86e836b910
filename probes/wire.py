# The wire: JSON by hand (importing json costs more than a whole start), whole frames out, command lines in.
# Knows nothing of what is measured. NODE, INTERVAL, DEADMAN and SHORT come from the settings header: SHORT is the
# longest piece of a frame where long lines would be cut, else 0.
import os
import select
import sys
import time

CHUNK = 4096        # a pipe or socket that polls writable takes this much without blocking
LINE = 4096         # longest command
FRAME = 1 << 20     # longest frame


def quote(text):
    """A JSON string: controls are spaces, everything else ASCII."""
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
    """What nobody can see becomes spaces, so that what it parts stays apart."""
    return text if text.isprintable() else ''.join([c if c.isprintable() else ' ' for c in text])


class Raw(str):
    """What is JSON already."""


def encode(value):
    """JSON of None, bool, int, finite float, str, list and dict; a float that is no number is null."""
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
    if kind is Raw:
        return value
    if kind is dict:
        return '{' + ','.join([quote(k) + ':' + encode(v) for k, v in value.items()]) + '}'
    return '[' + ','.join([encode(v) for v in value]) + ']'


class Unheard(Exception):
    """Nobody reads our frames any more."""


class Output:
    """Frames to one descriptor, whole and never blocking.

    The descriptor stays in blocking mode (its file description is shared with sshd); instead it is
    polled before every piece, and a piece is never longer than what a writable pipe must take.
    """

    def __init__(self, fd):
        self.fd = fd
        self.rest = b''
        self.sent = 0
        self.frames = 0
        self.poll = select.poll()
        self.poll.register(fd, select.POLLOUT)

    def writable(self):
        for _, event in self.poll.poll(0):
            if event & (select.POLLERR | select.POLLNVAL):
                raise Unheard
            return bool(event & select.POLLOUT)
        return False

    def flush(self):
        """Goes on with the frame that is under way; true when none is."""
        while self.sent < len(self.rest):
            if not self.writable():
                return False
            try:
                self.sent += os.write(self.fd, self.rest[self.sent:self.sent + CHUNK])
            except BlockingIOError:
                return False
            except OSError:
                raise Unheard
        self.rest = b''
        self.sent = 0
        return True

    def ready(self):
        """Whether a new frame may begin now."""
        return self.flush() and self.writable()

    def send(self, frame):
        """Begins a frame; call only when `ready`."""
        self.frames += 1
        starts = range(0, len(frame), SHORT or len(frame))
        form = '\x1egtop1+ %s %d %d/%d %d %s %s\n' if SHORT else '\x1egtop1 %.0s%.0s%.0s%.0s%.0s%s%.0s\n'
        self.rest = ''.join([form % (NODE, self.frames, n + 1, len(starts), min(len(frame) - i, starts.step),
                                     frame[i:i + starts.step], NODE) for n, i in enumerate(starts)]).encode('ascii')
        self.flush()


class Commands:
    """Command lines for one node, from bytes as they arrive."""

    def __init__(self, node):
        self.node = ',"node":"' + node + '","verb":"'
        self.text = b''
        self.skipping = False

    def feed(self, data):
        """The (id, verb, numbers by name) of each whole line meant for this node; without verb if it makes no sense."""
        found = []
        lines = (self.text + data).split(b'\n')
        self.text = lines.pop()
        for line in lines:
            if self.skipping or len(line) > LINE:
                self.skipping = False
                continue
            command = self.parse(line.decode('ascii', 'replace').rstrip('\r'))
            if command:
                found.append(command)
        if self.skipping or len(self.text) > LINE:
            self.skipping = True
            self.text = b''
        return found

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
