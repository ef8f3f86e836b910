# A small gRPC client for servers on this machine, over cleartext HTTP/2: one connection carries many calls at once. All
# input is bounded, and errors become texts, never exceptions. Response headers are not decoded: a message needs none, and
# the status of an error is searched for as plain text, which it nearly always is.
import _socket  # importing `socket` takes a hundred times as long

H2_MAX_MESSAGE = 256 << 10  # maximum bytes of a reply
H2_MAX_FRAME = 16384  # maximum bytes of a frame: HTTP/2's default
H2_MAX_FRAMES = 4096  # maximum frames of one round
H2_HEADERS, H2_RESET, H2_SETTINGS, H2_PING, H2_GOAWAY, H2_WINDOW, H2_CONTINUATION = 1, 3, 4, 6, 7, 8, 9
H2_END, H2_END_HEADERS, H2_PADDED, H2_PRIORITY = 1, 4, 8, 32
# Settings: no header table, no push, a window of H2_MAX_MESSAGE.
H2_PREFACE = (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00'
            b'\x00\x02\x00\x00\x00\x00\x00\x04\x00\x04\x00\x00')
GRPC_STATUSES = {1: 'cancelled', 4: 'too slow', 5: 'not found', 7: 'permission denied', 8: 'exhausted',
              12: 'not implemented', 13: 'internal error', 14: 'unavailable', 16: 'unauthenticated'}
GRPC_UNKNOWN = (5, 12)  # the server does not have the metric or the method


def h2_frame(kind, flags, stream, body):
    return (len(body).to_bytes(3, 'big') + bytes((kind, flags)) + stream.to_bytes(4, 'big')) + body


def h2_text(text):
    return bytes((len(text),)) + text.encode('ascii')


def h2_status(block):
    """Returns the gRPC status in a block of headers, or None if it is not found."""
    at = block.find(b'grpc-status') + 11
    if 11 <= at < len(block) and block[at] < 3:
        digits = block[at + 1:at + 1 + block[at]]
        return int(digits) if digits.isdigit() else None
    return None


class Refusal:
    """Why a call has no reply; `is_unknown` if the server does not have the metric or the method."""

    def __init__(self, message, is_unknown=False):
        self.message, self.is_unknown = message, is_unknown


class H2Error(Exception):
    """The reason why a connection is closed."""


class GrpcCall:
    def __init__(self, key):
        self.key = key
        self.body = b''
        self.header_block = b''

    def reply(self):
        """Returns the message, or a Refusal."""
        status = h2_status(self.header_block)
        if status:
            return Refusal(GRPC_STATUSES.get(status, 'status %d' % status), status in GRPC_UNKNOWN)
        body = self.body
        if len(body) < 5 or len(body) - 5 != int.from_bytes(body[1:5], 'big') or body[0]:
            return Refusal('incomplete message')
        return body[5:]


class Grpc:
    """A connection to one server: a round of calls is sent together, replies come in any order."""

    def __init__(self, port):
        self.port = port
        self.socket = None
        self.why = None  # why the last connection was closed
        self.headers = {}  # encoded request headers by path

    def open(self):
        """Connects; returns the OSError if that fails, else None."""
        why = None
        for family, host in ((_socket.AF_INET, '127.0.0.1'), (_socket.AF_INET6, '::1')):
            candidate = None
            try:
                candidate = _socket.socket(family, _socket.SOCK_STREAM)
                candidate.settimeout(0.2)
                candidate.connect((host, self.port))
                candidate.settimeout(0)
                candidate.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            except OSError as error:
                why = why or error
                if candidate is not None:
                    candidate.close()
                continue
            self.socket, self.why = candidate, None
            self.data, self.stream, self.calls, self.replies = b'', -1, {}, {}
            self.send_window, self.max_calls, self.has_settings, self.is_going_away = 65535, 100, False, False
            self.write(H2_PREFACE)
            return None
        return why

    def close(self, why):
        """Closes the connection; waiting calls are refused with the reason."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.why = None, why
        for call in self.calls.values():
            self.replies[call.key] = Refusal(why)
        self.calls = {}

    def time_out(self, why):
        """Cancels unanswered calls; closes the connection if no call was answered."""
        if not self.replies:
            self.close(why)
        for stream in list(self.calls):
            self.write(h2_frame(H2_RESET, 0, stream, b'\0\0\0\x08'))
            self.finish_call(stream, Refusal(why))

    def write(self, data):
        try:
            if self.socket is not None and self.socket.send(data) != len(data):
                self.close('does not read')
        except BlockingIOError:
            self.close('does not read')
        except OSError:
            self.close('closed the connection')

    def headers_for(self, path):
        if path not in self.headers:
            # Indices of HPACK's static table: method POST, scheme http, then path, authority, content-type and
            # user-agent.
            self.headers[path] = (
                b'\x83\x86\x04' + h2_text(path) + b'\x01' + h2_text('localhost:%d' % self.port) +
                b'\x0f\x10' + h2_text('application/grpc') + b'\x00' + h2_text('te') + h2_text('trailers') +
                b'\x00' + h2_text('grpc-timeout') + h2_text('1S') + b'\x0f\x2b' + h2_text('gtop'))
        return self.headers[path]

    def start_calls(self, requests):
        """Sends a round of calls (key, path, message)."""
        self.calls, self.replies, self.frames, out = {}, {}, 0, []
        for key, path, message in requests[:self.max_calls]:
            self.stream += 2
            body = b'\0' + len(message).to_bytes(4, 'big') + message
            self.send_window -= len(body)
            self.calls[self.stream] = GrpcCall(key)
            out.append(h2_frame(H2_HEADERS, H2_END_HEADERS, self.stream, self.headers_for(path)))
            out.append(h2_frame(0, H2_END, self.stream, body))
        if self.send_window < 0 or self.stream >= 1 << 30:
            self.close('has closed its flow-control window')
        elif out:
            self.write(b''.join(out))

    def receive(self):
        """Reads from the socket and handles the frames."""
        try:
            data = self.socket.recv(65536)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b''
        try:
            if not data:
                raise H2Error('closed the connection')
            self.data += data
            self.parse_frames()
        except H2Error as error:
            self.close(str(error))

    def parse_frames(self):
        """Handles each complete frame."""
        data, at = self.data, 0
        while len(data) - at >= 9 and self.socket is not None:
            size, kind, flags = int.from_bytes(data[at:at + 3], 'big'), data[at + 3], data[at + 4]
            if not self.has_settings and (kind != H2_SETTINGS or size > H2_MAX_FRAME):
                raise H2Error('does not speak gRPC')
            if size > H2_MAX_FRAME:
                raise H2Error('sent a frame of %d bytes' % size)
            if len(data) - at - 9 < size:
                break
            self.frames += 1
            if self.frames > H2_MAX_FRAMES:
                raise H2Error('never stops sending')
            self.has_settings = True
            stream = int.from_bytes(data[at + 5:at + 9], 'big') & 0x7fffffff
            body = data[at + 9:at + 9 + size]
            at += 9 + size
            if stream:
                self.on_call_frame(kind, flags, stream, body)
            else:
                self.on_connection_frame(kind, flags, body)
        self.data = data[at:]

    def on_connection_frame(self, kind, flags, body):
        """Handles a frame about the connection."""
        if kind == H2_SETTINGS and not flags & 1:
            for at in range(0, len(body) - 5, 6):
                if body[at:at + 2] == b'\0\3':
                    self.max_calls = min(100, int.from_bytes(body[at + 2:at + 6], 'big'))
            self.write(h2_frame(H2_SETTINGS, 1, 0, b''))
        elif kind == H2_PING and not flags & 1:
            self.write(h2_frame(H2_PING, 1, 0, body[:8]))
        elif kind == H2_WINDOW:
            self.send_window += int.from_bytes(body[:4], 'big') & 0x7fffffff
        elif kind == H2_GOAWAY:
            last = int.from_bytes(body[:4], 'big') & 0x7fffffff
            self.is_going_away = True
            for stream in [number for number in self.calls if number > last]:
                self.finish_call(stream, Refusal('the server is going away'))

    def on_call_frame(self, kind, flags, stream, body):
        """Handles a frame of one call."""
        if kind == 0 and body:
            # Keeps the connection's window open, for cancelled calls too.
            self.write(h2_frame(H2_WINDOW, 0, 0, len(body).to_bytes(4, 'big')))
        call = self.calls.get(stream)
        if call is None:
            return
        if kind in (0, H2_HEADERS) and flags & H2_PADDED and body:
            body = body[1:max(1, len(body) - body[0])]
        if kind == H2_HEADERS and flags & H2_PRIORITY:
            body = body[5:]
        if kind == 0:
            call.body += body
            if max(len(call.body), int.from_bytes(call.body[1:5], 'big')) >= H2_MAX_MESSAGE:
                self.write(h2_frame(H2_RESET, 0, stream, b'\0\0\0\x08'))
                self.finish_call(stream, Refusal('a reply of %d bytes or more' % H2_MAX_MESSAGE))
                return
        elif kind in (H2_HEADERS, H2_CONTINUATION):
            call.header_block = (call.header_block + body)[-H2_MAX_FRAME:]
        elif kind == H2_RESET:
            self.finish_call(stream, Refusal('the server reset the call'))
            return
        if kind in (0, H2_HEADERS) and flags & H2_END:
            self.finish_call(stream, call.reply())

    def finish_call(self, stream, reply):
        call = self.calls.pop(stream, None)
        if call is None:
            return  # the connection was closed meanwhile
        self.replies[call.key] = reply
        if not self.calls and self.is_going_away:
            self.close('the server is going away')


def grpc_round(child, rounds, seconds):
    """Sends each server its calls and waits for replies until a timeout; returns {server: {key: message or Refusal}}."""
    poll, waiting = select.poll(), {}
    for server, requests in rounds:
        server.start_calls(requests)
        if server.calls:
            waiting[server.socket.fileno()] = server
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    poll.register(child.link.source, select.POLLIN)
    deadline = time.monotonic() + seconds
    while waiting:
        left = deadline - time.monotonic()
        if left <= 0:
            for server in waiting.values():
                server.time_out('no answer within %g s' % seconds)
            break
        for fd, _ in poll.poll(int(left * 1000) + 1):
            if fd not in waiting:
                child.wait(0)  # a message of the probe
                continue
            server = waiting[fd]
            server.receive()
            if not server.calls:
                poll.unregister(fd)
                del waiting[fd]
    return {server: server.replies for server, _ in rounds}


def pb_varint(data, at):
    out = shift = 0
    while True:
        byte = data[at]
        at += 1
        out |= (byte & 127) << shift
        if byte < 128:
            return out & 0xffffffffffffffff, at
        shift += 7
        if shift > 63:
            raise ValueError


def pb_fields(data):
    """Returns (number, int or bytes) of each field of a protobuf message; raises ValueError if malformed."""
    at, out = 0, []
    try:
        while at < len(data):
            tag, at = pb_varint(data, at)
            kind = tag & 7
            if kind == 0:
                value, at = pb_varint(data, at)
            elif kind in (1, 2, 5):
                size, at = (8 if kind == 1 else 4, at) if kind != 2 else pb_varint(data, at)
                value = data[at:at + size]
                at += size
                if at > len(data):
                    raise ValueError
            else:
                raise ValueError
            out.append((tag >> 3, value))
    except IndexError:
        raise ValueError
    return out


def pb_signed(value):
    return value - (1 << 64) if value >> 63 else value


def pb_double(value):
    return struct.unpack('<d', value)[0] if len(value) == 8 else None
