# Metrics of a TPU runtime: the process that holds the chips serves them on a local port. Decodes its messages and assigns
# its devices to chips.
TPU_SERVICE = '/tpu.monitoring.runtime.RuntimeMetricService/'
TPU_FAST = {'memory_used': 'tpu.runtime.hbm.memory.usage.bytes', 'util': 'tpu.runtime.tensorcore.dutycycle.percent',
            'hbm_util': 'tpu.runtime.hbm.utilization.percent', 'idle': 'tpu.runtime.tensorcore.idle_duration.seconds',
            'queue': 'hlo.queue.size.gauge'}
TPU_SLOW = {'memory_total': 'tpu.runtime.hbm.memory.total.bytes', 'uptime': 'tpu.runtime.uptime.seconds.gauge',
            'slice_error': 'slice.error.detected.gauge', 'megascale_error': 'megascale.error.detected.gauge'}
TPU_PROCESS_KEYS = ('uptime', 'framework', 'slice_error', 'megascale_error')  # values of a process, not of a device
TPU_ANSWER_TIMEOUT = 1.0  # seconds for a round of calls
TPU_CLOSED_RETRY = 1.0  # seconds between attempts on a closed port
TPU_RETRY = 10.0  # seconds until the next attempt after an error


def tpu_attribute(data, out, depth=0):
    """Adds an attribute's key and value to `out`, with nested ones."""
    key, value = '', None
    for number, part in pb_fields(data):
        if number == 1 and part.__class__ is bytes:
            key = part[:64].decode('utf-8', 'replace')
        elif number == 2 and part.__class__ is bytes:
            value = 0
            for kind, inner in pb_fields(part):
                if kind == 1 and inner.__class__ is bytes:
                    value = inner[:200].decode('utf-8', 'replace')
                elif kind == 3 and inner.__class__ is int:
                    value = pb_signed(inner)
                elif kind == 6 and inner.__class__ is bytes and depth < 4:
                    for field, nested in pb_fields(inner):
                        if field == 1 and nested.__class__ is bytes:
                            tpu_attribute(nested, out, depth + 1)
    if key:
        out[key] = value


def tpu_reading(data):
    """Returns (attributes, number or None) of one metric."""
    attributes, number = {}, None
    for kind, part in pb_fields(data):
        if kind == 1 and part.__class__ is bytes:
            tpu_attribute(part, attributes)
        elif kind in (3, 4) and part.__class__ is bytes:
            for field, value in pb_fields(part):
                if field == 1 and value.__class__ is bytes:
                    number = pb_double(value)
                elif field == 2 and value.__class__ is int:
                    number = pb_signed(value) if kind == 3 else value
                elif field == 4 and kind == 3 and value.__class__ is int:
                    number = value
    return attributes, number


def tpu_readings(reply):
    """Returns the readings of a MetricResponse; raises ValueError if malformed."""
    nested = [value for number, value in pb_fields(reply) if number == 1 and value.__class__ is bytes]
    parts = [part for metric in nested for number, part in pb_fields(metric) if number == 3 and part.__class__ is bytes]
    return [tpu_reading(part) for part in parts[:1024]]


def tpu_devices(readings):
    """Returns {device: number}; readings of the same device, such as the queues of its cores, are added."""
    out = {}
    for attributes, number in readings:
        device = attributes.get('device-id', attributes.get('device_ordinal'))
        if device.__class__ is str and device.isdigit() and len(device) < 10:
            device = int(device)
        if device.__class__ is int and number is not None:
            out[device] = out.get(device, 0) + number
    return out


def tpu_process_values(key, readings):
    """Returns the values of the process by key."""
    if key == 'uptime':
        attributes, seconds = readings[0] if readings else ({}, None)
        words = [str(attributes.get(word) or '') for word in ('ml_framework_name', 'ml_framework_version')]
        return {'uptime': seconds, 'framework': ' '.join(words).strip()[:96] or Unavailable('not available')}
    for attributes, number in readings:
        if number:
            words = [attributes.get(word) for word in ('error_message', 'error_type', 'type')]
            return {key: next((word for word in words if word.__class__ is str and word), 'error %g' % number)}
    return {key: 'none'}


def tpu_assign(rows, chips, cores, chips_by_port):
    """Returns {chip: ({core: number}, port)} from {port: {device: number}}. Devices are numbered through the whole slice,
    so only their order tells the chip; `chips_by_port` has the chips of a port's process, if known."""
    out = {}

    def is_multiple(count, chip_count):
        return count and count in (chip_count, chip_count * cores)

    def assign(entries, chip_list):
        per_chip = len(entries) // len(chip_list)
        for rank, (port, number) in enumerate(entries):
            out.setdefault(chip_list[rank // per_chip], ({}, port))[0].setdefault(rank % per_chip, number)
    if rows and all(is_multiple(len(rows[port]), len(chips_by_port.get(port, ()))) for port in rows):
        for port in sorted(rows):
            assign([(port, rows[port][device]) for device in sorted(rows[port])], sorted(chips_by_port[port]))
        return out
    merged = {}
    for port in sorted(rows):
        for device, number in rows[port].items():
            merged.setdefault(device, (port, number))
    all_entries = [(port, rows[port][device]) for port in sorted(rows) for device in sorted(rows[port])]
    held_chips = sorted(set(chip for chip_list in chips_by_port.values() for chip in chip_list))
    for entries, chip_list in (([merged[device] for device in sorted(merged)], list(range(chips))),
                            ([merged[device] for device in sorted(merged)], held_chips), (all_entries, list(range(chips)))):
        if is_multiple(len(entries), len(chip_list)):
            assign(entries, chip_list)
            break
    return out


class Runtime:
    """The metrics service on one port."""

    def __init__(self, port):
        self.port = port
        self.server = Grpc(port)
        self.retry = self.slow_due = 0.0
        self.supported = None  # metric names; None until known
        self.skip_until = {}  # {key: time} of metrics that timed out
        self.process_values = {}  # values of the process
        self.rows = {}  # {key: {device: number} or Unavailable}

    def connect(self, now):
        """Connects if necessary; returns true if the service can be queried."""
        if self.server.socket is not None:
            return True
        if now < self.retry:
            return False
        self.process_values, self.rows, self.skip_until, self.supported, self.slow_due = {}, {}, {}, None, 0.0
        error = self.server.open()
        refused = error is not None and error.errno == 111
        self.retry = now + (TPU_CLOSED_RETRY if error is None or refused else TPU_RETRY)
        if error is not None:
            self.server.why = None if refused else error.strerror or 'does not accept'
        return self.server.socket is not None

    def supports(self, name):
        return self.supported is None or name in self.supported

    def requests(self, now):
        metrics = dict(TPU_FAST)
        if now >= self.slow_due:
            metrics.update(TPU_SLOW)
        calls = [(key, TPU_SERVICE + 'GetRuntimeMetric', b'\x0a' + h2_text(name))
                 for key, name in metrics.items() if self.supports(name) and now >= self.skip_until.get(key, 0.0)]
        return ([('names', TPU_SERVICE + 'ListSupportedMetrics', b'')] if now >= self.slow_due else []) + calls

    def on_replies(self, replies, now, slack):
        """Stores the replies of one round."""
        if now >= self.slow_due:
            self.slow_due = now + TPU_RETRY - slack
        self.rows = {key: row for key, row in self.rows.items() if key in TPU_SLOW}
        self.rows.update((key, Unavailable('not available')) for key, until in self.skip_until.items() if now < until)
        for key, reply in replies.items():
            try:
                if key == 'names':
                    self.set_supported(reply)
                    continue
                if reply.__class__ is Refusal:
                    result = Unavailable('not supported' if reply.is_unknown else 'driver error')
                    if reply.message.startswith('no answer'):
                        result, self.skip_until[key] = Unavailable('not available'), now + TPU_RETRY
                else:
                    result = tpu_readings(reply)
            except ValueError:
                result = Unavailable('malformed')
            if key not in TPU_PROCESS_KEYS:
                self.rows[key] = result if result.__class__ is Unavailable else tpu_devices(result)
            elif result.__class__ is Unavailable:
                self.process_values.update({key: result, 'framework': result} if key == 'uptime' else {key: result})
            else:
                self.process_values.update(tpu_process_values(key, result))
        if self.server.socket is None:
            self.rows, self.process_values = {}, {}
            self.retry = now + (TPU_CLOSED_RETRY if 'closed' in self.server.why or 'away' in self.server.why else TPU_RETRY)

    def set_supported(self, reply):
        """Stores the names of the supported metrics; an old service that does not list them is asked for all."""
        if reply.__class__ is not Refusal:
            names = [dict(pb_fields(value)).get(1) for number, value in pb_fields(reply) if number == 1]
            found = set(name.decode('ascii', 'replace') for name in names if name.__class__ is bytes)
            self.supported = found or None
