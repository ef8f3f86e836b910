# The AMD backend: the cards, and the processes that use them: compute processes of all users (/sys/class/kfd), graphics
# processes of this user only (fdinfo). sdma_* is never read, because the kernel then borrows the process's memory.
# Written from the driver's source and not tested on a device, so it is marked experimental.
AMD_MAX_CARDS = 64
AMD_MAX_PROCESSES = 1024
AMD_MAX_FILES = 512  # maximum open device files of this user's processes
AMD_MAX_USES = 4096
AMD_WHOLE = -1  # in place of the number of a partition: the card itself
# Values that a partition does not have.
AMD_CARD_ONLY = ('util', 'memory_util', 'temperature', 'power', 'power_limit', 'clock_sm')


class Kfd:
    """Compute processes of all users, from the kernel's compute driver (KFD)."""

    root = '/sys/class/kfd/kfd/'

    def __init__(self):
        self.gpus = {}  # gpu_id -> (PCI id, number of the partition, compute units)
        self.partitions = {}  # (PCI id, number) -> (bytes of memory, unique id)
        self.known = {}  # folder of a process -> ({queue: gpu_id}, the gpu_ids it uses)

    def find_devices(self, cards):
        """Reads the devices: cards, or the partitions of a card, which have their number in place of the PCI function."""
        nodes, by_address = ROOT + self.root + 'topology/nodes/', {}
        for node in list_folder(nodes)[:256]:
            gpu = read_number(nodes + node + '/gpu_id')
            if gpu:
                facts = read_properties(nodes + node + '/properties')
                location = facts.get(b'location_id', 0)
                address = '%04x:%02x:%02x.' % (facts.get(b'domain', 0), location >> 8 & 255, location >> 3 & 31)
                by_address.setdefault(address, []).append((location & 7, gpu, nodes + node, facts))
        self.gpus, self.partitions = {}, {}
        for address, found in by_address.items():
            own = [card for card in cards if card.pci[:len(address)] == address]
            is_whole = all(address + '%x' % function in [card.pci for card in own] for function, _, _, _ in found)
            is_cut = len(own) == 1 and not (is_whole and own[0].is_undivided())
            for function, gpu, folder, facts in found:
                units = facts.get(b'simd_count', 0) // (facts.get(b'simd_per_cu') or 1)
                if not is_cut:
                    self.gpus[gpu] = address + '%x' % function, AMD_WHOLE, units
                    continue
                self.gpus[gpu] = own[0].pci, function, units
                banks = folder + '/mem_banks/'
                sizes = [read_properties(banks + bank + '/properties').get(b'size_in_bytes', 0) for bank in list_folder(banks)[:16]]
                self.partitions[own[0].pci, function] = sum(sizes), facts.get(b'unique_id', 0)

    def uses(self, awake, is_slow):
        """Returns {(PCI id, partition, pid): [bytes, busy compute units]} of each process with memory or a queue on a device."""
        found, known = {}, {}
        folder = ROOT + self.root + 'proc/'
        for name in [name for name in list_folder(folder) if name.isdigit() and len(name) < 10][:AMD_MAX_PROCESSES]:
            process_folder = folder + name + '/'
            contexts = [context for context in list_folder(process_folder) if context.startswith('context_')]
            for path in [process_folder] + [process_folder + context + '/' for context in contexts[:16]]:
                # A queue's device never changes; devices that the process does not use are checked with the slow group only.
                queues, used = self.known.get(path, ({}, None))
                queues = {queue: queues.get(queue) or read_number(path + 'queues/' + queue + '/gpuid')
                          for queue in list_folder(path + 'queues')[:64]}
                busy = set(queues.values())
                checked = self.gpus if is_slow or used is None else busy | used
                known[path] = queues, set()
                for gpu in checked:
                    pci, number, _ = self.gpus.get(gpu, (None, AMD_WHOLE, 0))
                    vram = parse_int(try_read(path + 'vram_%d' % gpu)) if pci else None
                    if vram.__class__ is not int or not (vram or gpu in busy):
                        continue
                    known[path][1].add(gpu)
                    use = found.setdefault((pci, number, int(name)), [0, None])
                    use[0] += max(0, vram)
                    units = read_number(path + 'stats_%d/cu_occupancy' % gpu) if pci in awake else None
                    if units is not None:
                        use[1] = (use[1] or 0) + units
        self.known = known
        return found

    def units(self, pci, number):
        return sum(units for *where, units in self.gpus.values() if where == [pci, number])


def read_properties(path):
    """Returns the numbers of a file of names and numbers."""
    pairs = [line.split() for line in read(path).split(b'\n')]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit() and len(pair[1]) <= 20}


def drm_files():
    """Returns (pid, fdinfo path) of open device files of this user's processes; the kernel hides those of others."""
    own_uid, proc, found = os.geteuid(), ROOT + '/proc/', []
    for name in [name for name in list_folder(proc) if name.isdigit()]:
        try:
            if own_uid and os.stat(proc + name).st_uid != own_uid:
                continue
            for fd in os.listdir(proc + name + '/fd')[:256]:
                if os.readlink(proc + name + '/fd/' + fd).startswith('/dev/dri/'):
                    found.append((int(name), proc + name + '/fdinfo/' + fd))
        except OSError:
            continue
        if len(found) >= AMD_MAX_FILES:
            break
    return found[:AMD_MAX_FILES]


def drm_use(data):
    """Parses fdinfo (Documentation/gpu/drm-usage-stats.rst) into (PCI id, client, bytes of the device's memory, bytes of the host's, kinds).

    Returns None for other drivers."""
    facts = {}
    for line in data.split(b'\n')[:128]:
        key, _, value = line.partition(b':')
        facts[key] = value.split()
    if facts.get(b'drm-driver') != [b'amdgpu'] or len(facts.get(b'drm-pdev', ())) != 1:
        return None

    def amount(key):
        words = facts.get(key, ())
        unit = {b'KiB': 1024, b'MiB': 1 << 20}.get(words[1], 1) if len(words) == 2 else 1
        return int(words[0]) * unit if words and words[0].isdigit() and len(words[0]) < 20 else 0
    kinds = [kind for kind, key in (('C', b'drm-engine-compute'), ('G', b'drm-engine-gfx')) if amount(key)]
    vram, gtt = [amount(b'drm-resident-' + part) or amount(b'drm-memory-' + part) for part in (b'vram', b'gtt')]
    client = facts.get(b'drm-client-id') or [None]
    return facts[b'drm-pdev'][0].decode('ascii', 'replace'), client[0], vram, gtt, kinds


class AmdPartition(DeviceValues):
    """A partition of a card. It has its own memory and processes; the rest belongs to its card."""

    def __init__(self, card, number, memory, unique):
        self.card, self.index, self.facts = card, number, (memory, unique)
        # As in rocminfo, if the driver gives partitions ids of their own.
        own_id = 'GPU-%016x' % unique
        self.uuid = own_id if unique and own_id != card.uuid else '%s/%d' % (card.uuid, number)
        self.sent = {}
        word = card.values.get('compute_partition')
        word = 'partition' if word is None or word.__class__ is Unavailable else word
        self.values = {key: Unavailable('not supported') for key in AMD_CARD_ONLY}
        self.values.update(name='%s %s' % (card.values['name'], word), pci=card.pci, driver=card.values['driver'],
                           memory_total=memory if 0 < memory <= BYTES[1] else Unavailable('not available'))

    def header(self, full):
        return DeviceValues.header(self, full) + ',"parent":' + quote(self.card.uuid)

    def set_load(self, number):
        loads = self.card.partition_loads
        self.values['util'] = loads[number] if number < len(loads) else Unavailable('not supported')

    def set_memory_used(self, used):
        """Sets the memory that the compute processes of all users have."""
        total = self.values['memory_total']
        self.values['memory_used'] = min(used, BYTES[1])
        self.values['memory_free'] = max(0, total - used) if total.__class__ is int else Unavailable('not available')


class Amd:
    """Runs in its own child; `sample` reports what has changed since the last call."""

    def __init__(self, child):
        self.child = child
        self.kfd = Kfd()
        self.cards, self.files = [], []
        self.partitions = {}  # (PCI id, number) -> AmdPartition
        self.due = self.list_due = self.slow_due = self.slow_at = 0.0
        self.samples_taken = 0
        self.uses_text = None
        self.facts = None

    def absent(self):
        """Returns why this backend cannot be used here, or None if it can."""
        self.find_cards()
        return None if self.cards else 'amdgpu: no card under /sys/class/drm; the driver is not loaded'

    def on_exit(self):
        pass

    def find_cards(self):
        """Finds the cards in the order of the PCI bus, keeping the known ones; returns true if any changed."""
        known, found = {card.folder: card for card in self.cards}, {}
        folders = list(known)
        for name in list_folder(ROOT + '/sys/class/drm')[:4096]:
            folder = ROOT + '/sys/class/drm/' + name + '/device'
            if name[:4] != 'card' or not name[4:].isdigit() or read_text(folder + '/vendor') != '0x1002':
                continue
            pci = os.path.basename(os.path.realpath(folder))
            if len(pci) < 32 and pci.isprintable() and read_text(folder + '/class')[:4] in ('0x03', '0x12'):
                found[pci] = folder + '/'
        version = read_text(ROOT + '/sys/module/amdgpu/version')[:64]
        driver = version if version.isprintable() and version else os.uname().release
        self.cards = [known.get(found[pci]) or AmdCard(found[pci], pci, index, self.child.page.memory, driver)
                      for index, pci in enumerate(sorted(found)[:AMD_MAX_CARDS])]
        for index, card in enumerate(self.cards):
            card.index = index
            known.pop(card.folder, None)
        for card in known.values():
            card.close()
        self.facts = {'driver': driver, 'devices': len(self.cards), 'experimental': True}
        return [card.folder for card in self.cards] != folders

    def sample(self, interval, floor, full):
        """Takes one sample; returns why the backend ends, or None if it goes on."""
        now = time.monotonic()
        slack = min(0.1 * interval, 0.05)  # ticks are never exactly on time
        # The second sample comes soon, to have rates early.
        if now < self.due - slack and not full and self.samples_taken != 1:
            return None
        self.samples_taken += 1
        self.due = next_due(self.due, now, floor)
        is_slow, is_listing = now >= self.slow_due - slack, now >= self.list_due - slack
        if is_slow:
            self.slow_due, self.slow_at = now + 10.0, now
            if self.find_cards() and self.cards:
                self.child.report('state', None, self.facts)
            self.files = drm_files()
        if not self.cards:
            return 'amdgpu: the driver is gone'
        for card in self.cards:
            card.sample(now, is_slow)
        if is_slow:
            self.kfd.find_devices(self.cards)
            self.find_partitions()
        for (_, number), part in self.partitions.items():
            part.set_load(number)
        part, texts, pids = {'at': now}, {}, None
        if is_slow or full:
            part['slow'] = self.slow_at
        if is_listing:
            self.list_due = now + 2.0
            pids, self.uses_text = self.uses(now, is_slow)
        parts = self.cards + [self.partitions[key] for key in sorted(self.partitions)]
        texts['devices'] = '[' + ','.join([part.to_json(full) for part in parts]) + ']'
        if is_listing or full:
            texts['uses'] = self.uses_text
        self.child.report('part', part, pids, texts)
        return None

    def find_partitions(self):
        """Finds the partitions of the cards, keeping the known ones."""
        cards, known, self.partitions = {card.pci: card for card in self.cards}, self.partitions, {}
        for key, facts in self.kfd.partitions.items():
            pci, number = key
            before = known.get(key)
            is_known = before is not None and before.card is cards[pci] and before.facts == facts
            self.partitions[key] = before if is_known else AmdPartition(cards[pci], number, *facts)
        uuids = [part.uuid for part in self.partitions.values()]
        for (pci, number), part in self.partitions.items():
            if uuids.count(part.uuid) > 1:  # an id that several have is that of their card
                part.uuid = '%s/%d' % (cards[pci].uuid, number)

    def uses(self, now, is_slow):
        """Returns the pids, and the uses as JSON."""
        cards = {card.pci: card for card in self.cards}
        found = self.kfd.uses([pci for pci, card in cards.items() if card.is_awake], is_slow)
        rows = {key: [vram, units, 'C'] for key, (vram, units) in found.items()}
        compute = set((pci, pid) for pci, _, pid in found)
        clients, graphics = set(), {}
        for pid, path in self.files:
            use = drm_use(read(path, 8192))
            if use is None or use[:2] in clients:
                continue
            pci, client, vram, gtt, kinds = use
            is_integrated = pci in cards and cards[pci].is_integrated
            if is_integrated:
                vram += gtt
            graphics[pci, pid] = graphics.get((pci, pid), 0) + vram
            if client:  # the same client may have several files
                clients.add((pci, client))
            own = [row for key, row in rows.items() if key[0] == pci and key[2] == pid]
            if not own and (vram or kinds):
                # It does not tell on which partition.
                rows[pci, AMD_WHOLE, pid] = [vram, None, '+'.join(kinds) or 'G']
            for row in own:
                row[2] = '+'.join(sorted(set(row[2].split('+') + kinds)))
                if is_integrated or (pci, pid) not in compute:  # KFD counts the host's memory on newer kernels only
                    row[0] = max(row[0], graphics[pci, pid])
        out, used = [], {}
        for (pci, number, pid), (vram, units, kinds) in sorted(rows.items()):
            device = cards.get(pci) if number == AMD_WHOLE else self.partitions.get((pci, number))
            if device is None:
                continue
            use = {'device': device.uuid, 'pid': pid, 'memory': min(vram, BYTES[1]), 'kind': kinds}
            total_units = self.kfd.units(pci, number)
            if units is not None and total_units:
                use['occupancy'] = min(100.0, 100.0 * units / total_units)
            out.append(use)
            used[pci, number] = used.get((pci, number), 0) + vram
        for card in self.cards:
            card.is_used = any(pci == card.pci for pci, _ in used)
        for key, part in self.partitions.items():
            part.set_memory_used(used.get(key, 0))
        return sorted(set(use['pid'] for use in out)), encode({'at': now, 'list': out[:AMD_MAX_USES]})
