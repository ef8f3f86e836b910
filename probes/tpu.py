# The TPU backend: chips from the PCI bus, their users from /proc, metrics from the gRPC service of the runtime that holds
# the chips. That service ends with its process, so an unused chip has no metrics, which is no error.
# Written from the messages of Google's client and not tested on a chip, so it is marked experimental.
# Keys that only TPUs have, and keys that no TPU has.
TPU_KEYS = ('nodes', 'cores', 'held', 'hbm_util', 'idle', 'queue', 'source', 'trouble', 'by_core') + TPU_PROCESS_KEYS
TPU_UNSUPPORTED = ('temperature', 'power', 'power_limit', 'clock_sm', 'clock_memory', 'fan')
TPU_NO_RUNTIME = 'no runtime serves metrics on the default ports'


class Tpu:
    """Runs in its own child; `sample` reports what has changed since the last call."""

    def __init__(self, child):
        self.child = child
        self.facts = None
        self.due = self.list_due = self.slow_due = self.slow_at = self.uses_at = self.library_due = 0.0
        self.chips, self.runtimes, self.chips_by_port = [], {}, {}
        self.holders = ChipHolders()
        self.library = TpuLibrary(child)
        self.library_rows, self.library_error = None, None
        self.last_servers, self.serving = None, set()

    def absent(self):
        self.find_chips()
        return None if self.chips else 'no TPU'

    def on_exit(self):
        pass

    def find_chips(self):
        """Finds the chips."""
        self.chips = tpu_chips()
        self.holders.chip_by_node = {node: index for index, chip in enumerate(self.chips) for node in chip.nodes}
        self.facts = {'devices': len(self.chips), 'experimental': True}

    def sample(self, interval, floor, full):
        now = time.monotonic()
        slack = min(0.1 * interval, 0.05)  # ticks are never exactly on time
        if now < self.due - slack and not full:
            return None
        self.due = next_due(self.due, now, floor)
        is_slow = now >= self.slow_due - slack
        if is_slow:
            self.slow_due, self.slow_at = now + 10.0, now
            if not self.recheck_chips():
                return 'no TPU'
        is_listing = now >= self.list_due - slack
        if is_listing:
            self.list_due, self.uses_at = now + 2.0, now
            self.holders.scan(now)
            ports = self.holders.all_ports()
            self.runtimes = {port: self.runtimes.get(port) or Runtime(port) for port in ports}
        self.query_runtimes(now, slack, is_listing)
        # The library may hang, so it is called last.
        if self.wants_library(now, slack) and self.library.open():
            self.read_library(now)
        self.fill_chips()
        self.report(now, full, is_slow, is_listing)
        return None

    def recheck_chips(self):
        """Finds the chips again if one has gone; returns them."""
        if any(not os.path.exists(ROOT + '/sys/bus/pci/devices/' + chip.address) for chip in self.chips):
            self.find_chips()
            self.holders.chips_by_pid, self.last_servers, self.list_due = {}, None, 0.0
            if self.chips:
                self.child.report('state', None, self.facts)
        return self.chips

    def query_runtimes(self, now, slack, is_listing):
        """Queries each runtime that can be reached."""
        connected = [runtime for runtime in self.runtimes.values() if runtime.connect(now)]
        rounds = [(runtime.server, runtime.requests(now)) for runtime in connected]
        replies = grpc_round(self.child, rounds, TPU_ANSWER_TIMEOUT) if rounds else {}
        for runtime in connected:
            runtime.on_replies(replies[runtime.server], now, slack)
        alive = sorted(runtime.port for runtime in connected if runtime.server.socket is not None)
        if any(port not in self.chips_by_port and port not in (self.last_servers or ((),))[0] for port in alive):
            # A new runtime whose process has not been seen yet.
            self.holders.is_urgent, self.list_due = True, 0.0
        servers_now = alive, {pid: sorted(chips) for pid, chips in self.holders.chips_by_pid.items()}
        if servers_now != self.last_servers or is_listing and any(port not in self.chips_by_port for port in alive):
            # The process that serves a port tells which chips its devices are. Its socket may appear later.
            self.last_servers = servers_now
            servers = self.holders.servers() if alive and self.holders.chips_by_pid else {}
            self.chips_by_port = {port: set().union(*[self.holders.chips_by_pid[pid] for pid in pids])
                                  for port, pids in servers.items()}
            self.serving = set().union(*servers.values())

    # -- values of the chips

    def fill_chips(self):
        """Sets the values of the chips from the replies."""
        cores = max([chip.cores or 1 for chip in self.chips])
        assigned, reporting = {}, [runtime for runtime in self.runtimes.values() if runtime.rows]
        for key in list(TPU_FAST) + ['memory_total']:
            rows = {runtime.port: runtime.rows[key] for runtime in reporting
                    if runtime.rows.get(key).__class__ is dict and runtime.rows[key]}
            assigned[key] = tpu_assign(rows, len(self.chips), cores, self.chips_by_port)
        sources = {}
        for key in ('memory_used', 'util'):
            for index, (_, port) in assigned[key].items():
                sources.setdefault(index, 'port %d' % port)
        if self.library_rows and not sources:
            for index, key in enumerate(('memory_used', 'memory_total', 'util')):
                rows = {0: {rank: row[index] for rank, row in self.library_rows.items()}}
                assigned[key] = tpu_assign(rows, len(self.chips), cores, {})
                sources.update({chip: 'libtpuinfo' for chip in assigned[key]})
        # A running runtime whose devices cannot be assigned to chips: then no chip is known to be free.
        rows = [row for runtime in reporting for row in runtime.rows.values()]
        is_unassigned = not sources and any(row for row in rows if row.__class__ is dict)
        for index, chip in enumerate(self.chips):
            found = {key: assigned[key].get(index) for key in assigned}
            self.fill_chip(index, chip, found, sources.get(index), is_unassigned)

    def fill_chip(self, index, chip, found, source, is_unassigned):
        pids = self.holders.holders_of(index)
        held = True if pids or source else None if self.holders.denied or is_unassigned else False
        trouble = self.describe_problem(held) if source is None and held is not False else None
        reason = Unavailable('no workload' if held is False else 'not available')
        unknown = Unavailable('no permission' if self.holders.denied else 'not available')
        values = {'held': unknown if held is None else held, 'trouble': trouble or 'none', 'source': source or reason}
        for key, entry in found.items():
            numbers = list(entry[0].values()) if entry else []
            if not numbers:
                values[key] = reason if source is None else Unavailable('not supported')
                if source and source != 'libtpuinfo':
                    values[key] = self.missing_reason(key)
            elif key in ('util', 'hbm_util'):
                values[key] = sum(numbers) / len(numbers)
            else:
                values[key] = min(numbers) if key == 'idle' else sum(numbers)
        if values['memory_total'].__class__ is Unavailable:
            values['memory_total'] = chip.capacity or Unavailable('not available')
        total, used = values['memory_total'], values['memory_used']
        lacking = [value for value in (used, total) if value.__class__ is Unavailable]
        values['memory_free'] = lacking[0] if lacking else max(0, total - used)
        values['by_core'] = self.by_core(chip, found)
        runtime = self.runtimes.get(int(source[5:])) if source and source[:5] == 'port ' else None
        for key in TPU_PROCESS_KEYS:
            value = runtime.process_values.get(key) if runtime else None
            values[key] = (Unavailable('not supported') if source else reason) if value is None else value
        values.update({'name': 'TPU ' + chip.name, 'pci': chip.address,
                       'nodes': ' '.join(chip.nodes) or Unavailable('not available'),
                       'cores': chip.cores or Unavailable('not available'),
                       'numa_node': int(chip.numa) if chip.numa.isdigit() else Unavailable('not available')})
        values.update(dict.fromkeys(TPU_UNSUPPORTED, Unavailable('not supported')))
        chip.values, chip.pids = values, pids

    def by_core(self, chip, found):
        """Returns the values of each core, if the chip has several."""
        if not chip.cores or chip.cores < 2:
            return []
        rows = {name: found[key][0] for name, key in (('used', 'memory_used'), ('total', 'memory_total'), ('util', 'util'))
                if found[key] and len(found[key][0]) == chip.cores}
        return [{name: row.get(core) for name, row in rows.items()} for core in range(chip.cores)] if rows else []

    def missing_reason(self, key):
        """Returns why runtimes that answer do not report this metric."""
        name = TPU_FAST.get(key) or TPU_SLOW[key]
        for runtime in self.runtimes.values():
            if runtime.rows:
                row = runtime.rows.get(key)
                if not runtime.supports(name):
                    return Unavailable('not supported')
                if row.__class__ is Unavailable:
                    return row
        return Unavailable('not available')

    def describe_problem(self, held):
        """Returns why a chip has no metrics, or None if nothing is wrong."""
        for port, runtime in sorted(self.runtimes.items()):
            if runtime.server.why is not None:
                return 'port %d: %s' % (port, runtime.server.why)
        for port, runtime in sorted(self.runtimes.items()):
            rows = [runtime.rows.get(key) for key in ('memory_used', 'util')]
            counts = [len(row) for row in rows if row.__class__ is dict and row]
            if counts:
                return 'port %d: reports %d devices, but this machine has %d chips' % (port, counts[0], len(self.chips))
            if runtime.rows and not counts:
                return 'port %d: reports no devices' % port
        return (self.library_error or TPU_NO_RUNTIME) if held else None

    # -- libtpuinfo

    def wants_library(self, now, slack):
        """Returns true if the library is needed, because the runtime's service does not report the chips."""
        sources = [chip.values.get('source') for chip in self.chips]
        is_reported = any(source.__class__ is str and source != 'libtpuinfo' for source in sources)
        is_missing = 'libtpuinfo' in sources or any(chip.values.get('trouble', 'none') != 'none' for chip in self.chips)
        if is_reported or not is_missing:
            self.library_rows = self.library_error = None
            return False
        return now >= self.library_due - slack

    def read_library(self, now):
        counts = len(self.chips), sum([chip.cores or 1 for chip in self.chips])
        self.library_rows, self.library_error = self.library.read(min(self.runtimes), counts)
        self.library_due = now + (TPU_RETRY if self.library_error else 1.0)

    # -- reports

    def report(self, now, full, is_slow, is_listing):
        part, pids = {'at': now}, None
        if is_slow or full:
            part['slow'] = self.slow_at
        texts = {'devices': encode([self.device(index, chip, full) for index, chip in enumerate(self.chips)])}
        if is_listing:
            pids = sorted(self.holders.chips_by_pid)
        if is_listing or full:
            texts['uses'] = encode({'at': self.uses_at, 'list': self.uses()})
        self.child.report('part', part, pids, texts)

    def device(self, index, chip, full):
        """Returns the changed values of a chip, or all of them if `full`."""
        out, tpu_values, lacks = {'uuid': 'tpu-' + chip.address, 'index': index}, {}, {}
        for key, value in chip.values.items():
            if not full and key in chip.sent and chip.sent[key] == value and chip.sent[key].__class__ is value.__class__:
                continue
            chip.sent[key] = value
            if value.__class__ is Unavailable:
                lacks[key] = str(value)
                value = None
            (tpu_values if key in TPU_KEYS else out)[key] = value
        for key, values in (('tpu', tpu_values), ('lacks', lacks)):
            if values:
                out[key] = values
        return out

    def uses(self):
        """Returns the uses. A chip's memory counts for its only process, or for the one that serves its metrics."""
        out = []
        for chip in self.chips:
            used = chip.values['memory_used']
            likely = [pid for pid in chip.pids if len(chip.pids) == 1 or pid in self.serving]
            for pid in chip.pids:
                is_known = likely == [pid] and used.__class__ is not Unavailable
                out.append({'device': 'tpu-' + chip.address, 'pid': pid, 'memory': used if is_known else None, 'kind': 'C'})
        return out
