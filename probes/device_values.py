# Values of a device, common to all kinds: present or unavailable, sent only when they have changed.
BOOLEANS = ('users', 'integrated', 'sram_threshold', 'mig', 'display', 'display_mode', 'persistence', 'ecc_mode', 'remap_pending', 'remap_failed', 'retired_pending')
# Those of them that tell of a fault: any number but 0 is a yes, as in C. With all bits set, there is no value.
ALARMS = ('sram_threshold', 'remap_pending', 'remap_failed', 'retired_pending')


# Values that mean something only together are sent together.
TOGETHER = (('pcie_generation', 'pcie_lanes'), ('pcie_generation_max', 'pcie_lanes_max'))


class Unavailable(str):
    """The reason why a value is missing."""


class DeviceValues:
    """A device or a slice of one: its `values` by key, and those last `sent`."""

    def to_json(self, full):
        """Returns the changed values as JSON, or all of them if `full`."""
        out, lacks, sent, values = [self.header(full)], [], self.sent, self.values
        changed = [key for key, value in values.items() if full or sent.get(key) != value]
        for pair in TOGETHER:
            missing = [key for key in pair if key not in changed]
            if len(missing) == 1 and missing[0] in values:
                changed += missing
        for key in changed:
            value = sent[key] = values[key]
            kind = value.__class__
            if kind is Unavailable:
                out.append('"%s":null' % key)
                lacks.append('"%s":%s' % (key, quote(value)))
            elif key in ALARMS and kind is int and 1 < value < 0xffffffff:
                out.append('"%s":true' % key)
            elif key in BOOLEANS:
                # A number that is neither is sent as it is, and refused.
                out.append('"%s":%s' % (key, ('false', 'true')[value] if value in (0, 1) else encode(value)))
            else:
                out.append('"%s":%s' % (key, value if kind is int else encode(value)))
        if lacks:
            out.append('"lacks":{' + ','.join(lacks) + '}')
        return '{' + ','.join(out) + '}'

    def header(self, full):
        """Returns the JSON keys that identify the device."""
        text = '"uuid":' + quote(self.uuid)
        return text + ',"index":%d' % self.index if full or not self.sent else text
