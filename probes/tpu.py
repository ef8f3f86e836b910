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
        self.chips, self.runtimes, self.held = [], {}, {}
        self.owners = ChipHolders()
        self.library = TpuLibrary(child)
        self.library_rows, self.library_why = None, None
        self.last_servers, self.serving = None, set()

    def absent(self):
        self.find_chips()
        return None if self.chips else 'no TPU'

    def on_exit(self):
        pass

    def find_chips(self):
        """Finds the chips."""
        self.chips = tpu_chips()
        self.owners.places = {node: place for place, chip in enumerate(self.chips) for node in chip.nodes}
        self.facts = {'devices': len(self.chips), 'experimental': True}

    def sample(self, interval, floor, full):
        now = time.monotonic()
        slack = min(0.1 * interval, 0.05)  # ticks are never exactly on time
        if now < self.due - slack and not full:
            return None
        self.due = now + floor
        is_slow = now >= self.slow_due - slack
        if is_slow:
            self.slow_due, self.slow_at = now + 10.0, now
            if not self.recheck_chips():
                return 'no TPU'
        is_listing = now >= self.list_due - slack
        if is_listing:
            self.list_due, self.uses_at = now + 2.0, now
            self.owners.scan(now)
            ports = self.owners.all_ports()
            self.runtimes = {port: self.runtimes.get(port) or Runtime(port) for port in ports}
        self.query_runtimes(now, slack, is_listing)
        # The library may hang, so it is called last.
        if self.wants_library(now, slack) and self.library.open():
            self.read_library(now)
        self.fill()
        self.report(now, full, is_slow, is_listing)
        return None

    def recheck_chips(self):
        """Finds the chips again if one has gone; returns them."""
        if any(not os.path.exists(ROOT + '/sys/bus/pci/devices/' + chip.address) for chip in self.chips):
            self.find_chips()
            self.owners.held, self.last_servers, self.list_due = {}, None, 0.0
            if self.chips:
                self.child.report('state', None, self.facts)
        return self.chips

    def query_runtimes(self, now, slack, is_listing):
        """Queries each runtime that can be reached."""
        open_ones = [runtime for runtime in self.runtimes.values() if runtime.connect(now)]
        rounds = [(runtime.server, runtime.requests(now)) for runtime in open_ones]
        replies = grpc_round(self.child, rounds, TPU_ANSWER_TIMEOUT) if rounds else {}
        for runtime in open_ones:
            runtime.on_replies(replies[runtime.server], now, slack)
        alive = sorted(runtime.port for runtime in open_ones if runtime.server.socket is not None)
        if any(port not in self.held and port not in (self.last_servers or ((),))[0] for port in alive):
            # A new runtime whose process has not been seen yet.
            self.owners.is_urgent, self.list_due = True, 0.0
        listened = alive, {pid: sorted(chips) for pid, chips in self.owners.held.items()}
        if listened != self.last_servers or is_listing and any(port not in self.held for port in alive):
            # The process that serves a port tells which chips its devices are. Its socket may appear later.
            self.last_servers = listened
            servers = self.owners.servers() if alive and self.owners.held else {}
            self.held = {port: set().union(*[self.owners.held[pid] for pid in pids]) for port, pids in servers.items()}
            self.serving = set().union(*servers.values())

    # -- values of the chips

    def fill(self):
        """Sets the values of the chips from the replies."""
        cores = max([chip.cores or 1 for chip in self.chips])
        spread, asked = {}, [runtime for runtime in self.runtimes.values() if runtime.rows]
        for key in list(TPU_FAST) + ['memory_total']:
            rows = {runtime.port: runtime.rows[key] for runtime in asked
                    if runtime.rows.get(key).__class__ is dict and runtime.rows[key]}
            spread[key] = tpu_assign(rows, len(self.chips), cores, self.held)
        source = {}
        for key in ('memory_used', 'util'):
            for place, (_, port) in spread[key].items():
                source.setdefault(place, 'port %d' % port)
        if self.library_rows and not source:
            for place, key in enumerate(('memory_used', 'memory_total', 'util')):
                rows = {0: {rank: row[place] for rank, row in self.library_rows.items()}}
                spread[key] = tpu_assign(rows, len(self.chips), cores, {})
                source.update({chip: 'libtpuinfo' for chip in spread[key]})
        # A running runtime whose devices cannot be assigned to chips: then no chip is known to be free.
        is_lost = not source and any(row for runtime in asked for row in runtime.rows.values() if row.__class__ is dict)
        for place, chip in enumerate(self.chips):
            self.fill_chip(place, chip, {key: spread[key].get(place) for key in spread}, source.get(place), is_lost)

    def fill_chip(self, place, chip, found, source, is_lost):
        pids = self.owners.of(place)
        held = True if pids or source else None if self.owners.denied or is_lost else False
        trouble = self.describe_problem(held) if source is None and held is not False else None
        reason = Unavailable('no workload' if held is False else 'not available')
        unknown = Unavailable('no permission' if self.owners.denied else 'not available')
        values = {'held': unknown if held is None else held, 'trouble': trouble or 'none', 'source': source or reason}
        for key, entry in found.items():
            numbers = list(entry[0].values()) if entry else []
            if not numbers:
                values[key] = reason if source is None else Unavailable('not supported')
                if source and source != 'libtpuinfo':
                    values[key] = self.why_missing(key)
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
            said = runtime.process_values.get(key) if runtime else None
            values[key] = (Unavailable('not supported') if source else reason) if said is None else said
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

    def why_missing(self, key):
        """Returns why runtimes that answer do not report this metric."""
        name = TPU_FAST.get(key) or TPU_SLOW[key]
        for runtime in self.runtimes.values():
            if runtime.rows:
                said = runtime.rows.get(key)
                if not runtime.has(name):
                    return Unavailable('not supported')
                if said.__class__ is Unavailable:
                    return said
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
        return (self.library_why or TPU_NO_RUNTIME) if held else None

    # -- libtpuinfo

    def wants_library(self, now, slack):
        """Returns true if the library is needed, because the runtime's service does not report the chips."""
        sources = [chip.values.get('source') for chip in self.chips]
        is_told = any(source.__class__ is str and source != 'libtpuinfo' for source in sources)
        is_missed = 'libtpuinfo' in sources or any(chip.values.get('trouble', 'none') != 'none' for chip in self.chips)
        if is_told or not is_missed:
            self.library_rows = self.library_why = None
            return False
        return now >= self.library_due - slack

    def read_library(self, now):
        counts = len(self.chips), sum([chip.cores or 1 for chip in self.chips])
        self.library_rows, self.library_why = self.library.read(min(self.runtimes), counts)
        self.library_due = now + (TPU_RETRY if self.library_why else 1.0)

    # -- reports

    def report(self, now, full, is_slow, is_listing):
        part, pids = {'at': now}, None
        if is_slow or full:
            part['slow'] = self.slow_at
        texts = {'devices': encode([self.device(place, chip, full) for place, chip in enumerate(self.chips)])}
        if is_listing:
            pids = sorted(self.owners.held)
        if is_listing or full:
            texts['uses'] = encode({'at': self.uses_at, 'list': self.uses()})
        self.child.report('part', part, pids, texts)

    def device(self, place, chip, full):
        """Returns the changed values of a chip, or all of them if `full`."""
        out, own, lacks = {'uuid': 'tpu-' + chip.address, 'index': place}, {}, {}
        for key, value in chip.values.items():
            if not full and key in chip.sent and chip.sent[key] == value and chip.sent[key].__class__ is value.__class__:
                continue
            chip.sent[key] = value
            if value.__class__ is Unavailable:
                lacks[key] = str(value)
                value = None
            (own if key in TPU_KEYS else out)[key] = value
        for key, more in (('tpu', own), ('lacks', lacks)):
            if more:
                out[key] = more
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
