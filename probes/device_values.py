# Values of a device, common to all kinds: present or unavailable, sent only when they have changed.
BOOLEANS = ('users', 'integrated', 'sram_threshold', 'mig', 'display', 'display_mode', 'persistence', 'ecc_mode', 'remap_pending', 'remap_failed', 'retired_pending')


class Unavailable(str):
    """The reason why a value is missing."""


class DeviceValues:
    """A device or a slice of one: its `values` by key, and those last `sent`."""

    def to_json(self, full):
        """Returns the changed values as JSON, or all of them if `full`."""
        out, lacks, sent = [self.header(full)], [], self.sent
        for key, value in self.values.items():
            if not full and sent.get(key) == value:
                continue
            sent[key] = value
            kind = value.__class__
            if kind is Unavailable:
                out.append('"%s":null' % key)
                lacks.append('"%s":%s' % (key, quote(value)))
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
