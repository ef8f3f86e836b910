"""Prints the lines of a recording, and of its journal, as docs/recordings.md describes them; needs pcodec and the zstd program.

    python3 recorded_lines.py FILE
    python3 recorded_lines.py --sums FILE      the lines of the sums that the recorder has written
"""

import struct
import subprocess
import sys

import pcodec.standalone

FRAME, BLOCK, JOURNAL, SUMS = 0xFD2FB528, 0x184D2A58, 0x184D2A59, 0x184D2A5A


def decompressed(frame):
    """Returns the content of a zstd frame; raises if it is damaged."""
    return subprocess.run(["zstd", "-dcq"], input=frame, stdout=subprocess.PIPE, timeout=120, check=True).stdout


def frame_end(data, at):
    """Returns where the zstd frame that begins at `at` ends (RFC 8878); None if it is not whole."""
    descriptor = data[at + 4]
    is_single = descriptor >> 5 & 1
    end = at + 5 + (1 - is_single) + [0, 1, 2, 4][descriptor & 3] + [is_single, 2, 4, 8][descriptor >> 6]
    is_last = False
    while not is_last:
        block = int.from_bytes(data[end:end + 3], "little")
        is_last, kind, length = block & 1, block >> 1 & 3, block >> 3
        end += 3 + (1 if kind == 1 else length)
        if end > len(data):
            return None
    end += 4 * (descriptor >> 2 & 1)
    return end if end <= len(data) else None


def frames(data):
    """Yields where each whole frame begins, its magic number and its content."""
    at = 0
    while at + 8 <= len(data):
        magic, length = struct.unpack_from("<II", data, at)
        is_skippable = magic >> 4 == 0x184D2A5
        end = at + 8 + length if is_skippable else frame_end(data, at) if magic == FRAME else None
        if end is None or end > len(data):
            return
        yield at, magic, data[at + 8 if is_skippable else at:end]
        at = end


class Bytes:
    """Bytes that are read one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count:self.at]

    def size(self):
        size, shift = 0, 0
        while True:
            byte, = self.take(1)
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return size

    def text(self):
        return self.take(self.size())

    def numbers(self):
        count = self.size()
        if count >= 48:
            return [int(number) for number in pcodec.standalone.simple_decompress(self.text())]
        numbers, before = [], 0
        for _ in range(count):
            change = self.size()
            before += change >> 1 if change & 1 == 0 else -(change >> 1) - 1
            before = (before + (1 << 63)) % (1 << 64) - (1 << 63)
            numbers.append(before)
        return numbers


class Column:
    def __init__(self, data, columns):
        columns.append(self)
        count, has_element = data.size(), data.take(1) == b"\x01"
        self.keys = []
        for _ in range(count):
            key = data.text()
            self.keys.append((key, Column(data, columns)))
        self.element = Column(data, columns) if has_element else None

    def read_kinds(self, data):
        self.decimals, self.kinds = data.size(), iter(data.text())

    def read_numbers(self, data):
        self.numbers = iter(data.numbers())


def has_number(kind):
    return kind >= 4 and kind != 8


def decimal(number, decimals, kept):
    """Returns a number divided by a power of ten, with `kept` decimals, or as few as it needs."""
    sign, digits = "-" if number < 0 else "", str(abs(number)).rjust(decimals + 1, "0")
    whole, rest = digits[:len(digits) - decimals], digits[len(digits) - decimals:]
    rest = rest[:kept] if kept else rest[:1] + rest[1:].rstrip("0")
    return f"{sign}{whole}.{rest}".encode()


class Place:
    """The values of a column that belong together."""

    def __init__(self, column, count):
        self.column = column
        self.values = []
        for _ in range(count):
            kind = next(column.kinds)
            self.values.append((kind, next(column.numbers) if has_number(kind) else None))
        objects = sum(kind == 8 for kind, _ in self.values)
        lists = [number for kind, number in self.values if kind == 9]
        self.keys = [(key, Place(child, objects)) for key, child in column.keys] if objects else []
        self.elements = []
        while any(length > len(self.elements) for length in lists):
            count = sum(length > len(self.elements) for length in lists)
            self.elements.append(Place(column.element, count))
        self.rest = iter(self.values)
        self.next = next(self.rest, None)

    def write(self, texts):
        """Returns the next value as text; None if it is absent."""
        (kind, number), self.next = self.next, next(self.rest, None)
        if kind <= 3:
            return [None, b"null", b"false", b"true"][kind]
        if kind == 4:
            return str(number).encode()
        if kind == 5:
            return decimal(number, self.column.decimals, None)
        if kind == 6:
            return b'"' + texts[number] + b'"'
        if kind == 7:
            return texts[number]
        if kind == 8:
            pairs = [(key, place.write(texts)) for key, place in self.keys]
            return b"{" + b",".join(b'"' + key + b'":' + value for key, value in pairs if value is not None) + b"}"
        if kind == 9:
            return b"[" + b",".join(self.elements[position].write(texts) for position in range(number)) + b"]"
        return decimal(number, self.column.decimals, kind - 16)


def lines_of_block(content):
    data, columns = Bytes(decompressed(content)), []
    nodes = data.numbers()
    texts = [data.text() for _ in range(data.size())]
    root = Column(data, columns)
    for column in columns:
        column.read_kinds(data)
    for column in columns:
        column.read_numbers(data)
    places = [Place(root, nodes.count(number)) for number in range(max(nodes) + 1)]
    return b"".join(places[number].write(texts) + b"\n" for number in nodes)


def journal_of(path):
    """Returns where in the file the block of the journal begins, and its lines; None if there is no journal."""
    try:
        with open(path + ".journal", "rb") as file:
            found = list(frames(file.read()))
    except FileNotFoundError:
        return None
    if not found or found[0][1] != JOURNAL:
        return None
    begins, = struct.unpack("<Q", decompressed(found[0][2]))
    return begins, b"".join(decompressed(content) for _, _, content in found[1:])


def recorded(path):
    """Returns the lines of a recording."""
    # What is cut from the journal meanwhile is in the file then.
    journal = journal_of(path)
    with open(path, "rb") as file:
        data = file.read()
    found, last = b"", -1
    for at, magic, content in frames(data):
        if magic in (FRAME, BLOCK):
            last = at
            found += lines_of_block(content) if magic == BLOCK else decompressed(content)
    return found + journal[1] if journal and journal[0] > last else found


def sums(path):
    """Returns the lines of the sums of a recording."""
    with open(path, "rb") as file:
        return b"".join(lines_of_block(content) for _, magic, content in frames(file.read()) if magic == SUMS)


if __name__ == "__main__":
    sys.stdout.buffer.write((sums if sys.argv[1] == "--sums" else recorded)(sys.argv[-1]))
