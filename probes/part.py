# What the kinds of device have in common: values that are there or lacking, told again only when they are new.
FLAGS = ('users', 'sram_threshold', 'mig', 'display', 'persistence', 'ecc_mode', 'remap_pending', 'remap_failed', 'retired_pending')


class Lack(str):
    """Why a value is not there."""


class Part:
    """A device, or a part of one: `values` by key, and what of them was `sent`."""

    def text(self, full):
        """What is new, as JSON; a value that stands still is not sent again before all of them are."""
        out, lacks, sent = [self.head(full)], [], self.sent
        for key, value in self.values.items():
            if not full and sent.get(key) == value:
                continue
            sent[key] = value
            kind = value.__class__
            if kind is Lack:
                out.append('"%s":null' % key)
                lacks.append('"%s":%s' % (key, quote(value)))
            elif key in FLAGS:
                out.append('"%s":%s' % (key, 'true' if value else 'false'))
            else:
                out.append('"%s":%s' % (key, value if kind is int else encode(value)))
        if lacks:
            out.append('"lacks":{' + ','.join(lacks) + '}')
        return '{' + ','.join(out) + '}'

    def head(self, full):
        """Who it is; a sample that is not full names it and no more."""
        text = '"uuid":' + quote(self.uuid)
        return text + ',"index":%d' % self.index if full or not self.sent else text
