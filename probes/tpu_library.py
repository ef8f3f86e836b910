# libtpuinfo.so, if installed: the second source of a chip's memory and load. Its lists of processes are not used: they
# come from the same /proc, sorted by the nodes' names as text.
TPU_LIBRARY = 'libtpuinfo.so'
TPU_CODES = {1: 'wrong device count, or no client', 2: 'the runtime did not answer', 3: 'lists of unequal length'}


class TpuLibrary:
    def __init__(self, child):
        self.child = child
        self.c = self.library = None
        self.is_searched = False

    def open(self):
        """Loads the library once; returns true if it is installed."""
        if not self.is_searched:
            self.is_searched = True
            import ctypes
            self.c = ctypes
            for path in (TPU_LIBRARY, trusted('/usr/local/lib/' + TPU_LIBRARY)):
                try:
                    library = ctypes.CDLL(path or TPU_LIBRARY)
                    library.tpu_chip_count, library.tpu_metrics
                except (OSError, AttributeError):
                    continue
                self.library = library
                break
        return self.library is not None

    def read(self, port, counts):
        """Returns ({rank: (used, total, load)}, None), or (None, why not)."""
        c = self.c
        self.child.report_call('libtpuinfo tpu_chip_count')
        count = self.library.tpu_chip_count()
        if count not in counts:
            return None, 'libtpuinfo counts %d devices' % count
        ids, used, total = [(c.c_longlong * count)() for _ in range(3)]
        load = (c.c_double * count)()
        self.child.report_call('libtpuinfo tpu_metrics')
        code = self.library.tpu_metrics(c.c_int(port), ids, used, total, load, c.c_int(count))
        if code:
            return None, 'libtpuinfo: tpu_metrics returned %d, %s' % (code, TPU_CODES.get(code, 'an error'))
        return dict(enumerate(row[1:] for row in sorted(zip(ids, used, total, load)))), None
