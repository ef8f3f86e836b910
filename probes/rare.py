# Backends travel packed, and are compiled only in the child of a node that has need of them. What tells that a device
# of a rare kind is here is a look into sysfs, cheap and waking nothing.
# PACKED comes from the assembly: source by kind.
ROOT = os.environ.get('GTOP_ROOT', '')      # where a container sees its host's file systems
NVML_PLACES = ('libnvidia-ml.so.1', '/usr/lib64/libnvidia-ml.so.1', '/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1',
               '/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1', '/usr/lib/wsl/lib/libnvidia-ml.so.1',
               '/run/opengl-driver/lib/libnvidia-ml.so.1', '/usr/local/nvidia/lib64/libnvidia-ml.so.1',
               '/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1')
MAKERS = ('0x1002', '0x1ae0')               # AMD, Google


def pci():
    """(vendor, device, subsystem device, class) of the makers' PCI functions, as sysfs writes them."""
    place = ROOT + '/sys/bus/pci/devices/'
    try:
        names = sorted(os.listdir(place))
    except OSError:
        return []

    def words(name, *which):
        return tuple(read(place + name + '/' + word, 64).strip().decode('ascii', 'replace') for word in which)

    return [words(name, 'vendor', 'device', 'subsystem_device', 'class')
            for name in names[:4096] if words(name, 'vendor')[0] in MAKERS]


def unpack(kind):
    """Compiles what only a few nodes need, or only now and then."""
    import binascii
    import zlib
    load(zlib.decompress(binascii.a2b_base64(PACKED[kind])).split(b'\f'))


def no_nvml():
    """Why NVML cannot be loaded, None when it can."""
    import _ctypes
    said = ''
    for place in NVML_PLACES:
        try:
            _ctypes.dlopen(place, 0)
            return None
        except OSError as trouble:
            if 'cannot open shared object' not in str(trouble):
                said = str(trouble)[:120]
        except AttributeError:      # a Python that is made differently
            return None
    return 'NVML: ' + (said or 'libnvidia-ml.so.1 not found')


class Rare:
    """A backend that is not compiled yet; calling it makes one."""

    def __init__(self, kind, name, here, floors, focused=None, tells_all=False, lacks=None):
        self.kind = kind
        self.name = name        # of the class in its source
        self.here = here        # whether a PCI function is such a device
        self.floors = floors            # seconds between samples of devices, of processes, of the slow group
        self.focused = focused          # the first of them when somebody looks closely
        self.tells_all = tells_all      # a full sample is asked of the child, not put together from what it said before
        self.lacks = lacks or (lambda: None)    # why it need not even be compiled, asked in the child

    def __call__(self, duty):
        unpack(self.kind)
        return globals()[self.name](duty)


def rare(kinds):
    """Those of the kinds that this node has; the source of the others is forgotten."""
    functions = pci() if kinds else []
    found = tuple(kind for kind in kinds if any(kind.here(*function) for function in functions))
    for kind in kinds:
        if kind not in found:
            PACKED.pop(kind.kind, None)
    return found


def is_tpu(vendor, device, subsystem, kind):
    """A TPU that is known, or what else of Google's is a processing accelerator; its network cards are none."""
    known = device in ('0x005e', '0x0062', '0x0063', '0x006f', '0x0076') or (
        device == '0x0027' and subsystem in ('0x004e', '0x004f'))
    return vendor == '0x1ae0' and (known or kind.startswith('0x12'))


# One line for each kind.
RARE = (
    Rare('amdgpu', 'Amd', lambda vendor, _device, _subsystem, kind: vendor == '0x1002' and kind[:4] in ('0x03', '0x12'),
         (0.5, 2.0, 10.0), 0.05, True),
    Rare('tpu', 'Tpu', is_tpu, (0.05, 2.0, 10.0), None, True),
)
