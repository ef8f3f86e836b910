# The functions on the PCI bus that are displays or accelerators, read from sysfs: cheap, and it wakes no device.
ROOT = os.environ.get('GTOP_ROOT', '')  # where a container mounts the file systems of its host
MAX_PCI_FUNCTIONS = 4096
MAX_ACCELERATORS = 128
# PCI classes of displays, co-processors and processing accelerators.
ACCELERATOR_CLASSES = ('0x03', '0x0b40', '0x12')
# Vendors whose accelerators have another class: Google, AWS, Graphcore.
ACCELERATOR_VENDORS = ('0x1ae0', '0x1d0f', '0x1d95')


def pci_devices():
    """Returns (address, vendor, device, class, driver) of such functions, as sysfs has them; the driver is '' if there is none.

    Virtual functions are left out where their device is on the same bus.
    """
    folder = ROOT + '/sys/bus/pci/devices/'
    found = []
    for address in list_folder(folder)[:MAX_PCI_FUNCTIONS]:
        path = folder + address + '/'
        vendor, kind = pci_word(path + 'vendor'), pci_word(path + 'class')
        if not kind.startswith(ACCELERATOR_CLASSES) and vendor not in ACCELERATOR_VENDORS:
            continue
        if os.path.lexists(path + 'physfn'):
            continue
        try:
            driver = os.path.basename(os.readlink(path + 'driver'))
        except OSError:
            driver = ''
        found.append((address, vendor, pci_word(path + 'device'), kind, driver))
    return found[:MAX_ACCELERATORS]


def pci_word(path):
    return read(path, 64).strip().decode('ascii', 'replace')
