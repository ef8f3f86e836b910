# Backends that few nodes need: nvidia-smi, and kinds of device that are rare. What tells that one of those is here is
# a look into sysfs, cheap and waking nothing; the backend's own source travels packed and is compiled only in the
# child of a node that has need of it.
# PACKED comes from the assembly: source by kind.
ROOT = os.environ.get('GTOP_ROOT', '')      # where a container sees its host's file systems


def pci():
    """(vendor, device, subsystem device, class) of every PCI function, as sysfs writes them."""
    place = ROOT + '/sys/bus/pci/devices/'
    try:
        names = sorted(os.listdir(place))
    except OSError:
        return []
    words = ('vendor', 'device', 'subsystem_device', 'class')
    return [tuple(read(place + name + '/' + word, 64).strip().decode('ascii', 'replace') for word in words)
            for name in names[:4096]]


def unpack(kind):
    """Compiles what only a few nodes need, or only now and then."""
    import binascii
    import zlib
    exec(compile(zlib.decompress(binascii.a2b_base64(PACKED[kind])), kind, 'exec'), globals())


class Rare:
    """A backend that is not compiled yet; calling it makes one."""

    def __init__(self, kind, name, here, floors, focused=None, tells_all=False):
        self.kind = kind
        self.name = name        # of the class in its source
        self.here = here        # whether a PCI function is such a device
        self.floors = floors
        self.focused = focused
        self.tells_all = tells_all

    def __call__(self, duty):
        unpack(self.kind)
        return globals()[self.name](duty)


def rare(kinds):
    """Those of the kinds that this node has."""
    functions = pci() if kinds else []
    return tuple(kind for kind in kinds if any(kind.here(*function) for function in functions))


# One line for each kind.
RARE = (
    Rare('amdgpu', 'Amd', lambda vendor, _device, _subsystem, kind: vendor == '0x1002' and kind[:4] in ('0x03', '0x12'),
         (0.5, 2.0, 10.0), 0.05, True),
)
