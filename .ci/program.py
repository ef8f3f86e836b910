#!/usr/bin/env python3
"""Checks what a program of gtop's needs of the machine it runs on, by reading the file itself.

    program.py [--floor VERSION] [--limit BYTES] [--absent PATH…] [--debug] PROGRAM…

Prints libraries and symbol versions; ends with 1 when something is wanted that an old machine does not have.
--debug leaves out what only a release must be: small, stripped, without paths.
"""

import argparse
import struct
import sys

MACHINES = {62: "x86_64", 183: "aarch64"}
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"}
LINKERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# These ask directory services through modules that a static or foreign C library must not load.
UNWANTED = ("getpw", "getgr", "getspnam", "dlopen")
SYMTAB, NEEDED, SHARED = 2, 1, 3


class Wrong(Exception):
    """What is the matter with a program."""


class Program:
    """The parts of an ELF file that tell what it needs."""

    def __init__(self, blob):
        self.blob = blob
        if blob[:6] != b"\x7fELF\x02\x01":
            raise Wrong("is no 64-bit little-endian ELF file")
        self.type, self.machine = self.at("<HH", 16)
        sections_at, size, count, names = *self.at("<Q", 40), *self.at("<HHH", 58)
        raw = [self.at("<IIQQQQIIQQ", sections_at + size * n) for n in range(count)]
        named = raw[names]
        self.sections = {self.text(named, s[0]): s for s in raw}
        self.raw = raw

    def at(self, layout, offset):
        return struct.unpack_from(layout, self.blob, offset)

    def text(self, strings, offset):
        start = strings[4] + offset
        return self.blob[start : self.blob.index(b"\0", start)].decode()

    def entries(self, name, layout):
        section = self.sections.get(name)
        if section is None:
            raise Wrong("has no section " + name)
        step = struct.calcsize(layout)
        return [self.at(layout, section[4] + at) for at in range(0, section[5], step)]

    def needed(self):
        strings = self.sections[".dynstr"]
        return sorted(self.text(strings, value) for tag, value in self.entries(".dynamic", "<qQ") if tag == NEEDED)

    def undefined(self):
        """Names of symbols that others must bring."""
        strings = self.sections[".dynstr"]
        symbols = self.entries(".dynsym", "<IBBHQQ")
        return sorted(self.text(strings, s[0]) for s in symbols if s[3] == 0 and s[0])

    def versions(self):
        """(library, version) pairs of the symbols it needs."""
        strings, section = self.sections[".dynstr"], self.sections[".gnu.version_r"]
        found, at = set(), section[4]
        for _ in range(section[7]):
            _, count, file, first, step = self.at("<HHIII", at)
            entry = at + first
            for _ in range(count):
                _, _, _, name, following = self.at("<IHHII", entry)
                found.add((self.text(strings, file), self.text(strings, name)))
                entry += following
            at += step
        return sorted(found)

    def is_stripped(self):
        return not any(section[1] == SYMTAB for section in self.raw)


def number(version):
    return tuple(int(part) for part in version.split("."))


def check(blob, options):
    """Returns what is to be told of a program; raises Wrong."""
    program = Program(blob)
    wrong = []
    if program.machine not in MACHINES:
        wrong.append("is for machine %d" % program.machine)
    if program.type != SHARED:
        wrong.append("is not position-independent")
    needed = program.needed()
    strange = sorted(set(needed) - LIBRARIES - LINKERS)
    if strange:
        wrong.append("needs " + ", ".join(strange))
    versions = program.versions()
    for library, version in versions:
        kind, _, digits = version.partition("_")
        if kind != "GLIBC" or number(digits) > number(options.floor):
            wrong.append("needs %s of %s" % (version, library))
    for symbol in program.undefined():
        if symbol.startswith(UNWANTED):
            wrong.append("calls " + symbol)
    if not options.debug:
        if len(blob) > options.limit:
            wrong.append("has %d bytes, more than %d" % (len(blob), options.limit))
        if not program.is_stripped():
            wrong.append("is not stripped")
        wrong += ["tells of " + path for path in options.absent if path.encode() in blob]
    if wrong:
        raise Wrong("; ".join(wrong))
    highest = max((version for _, version in versions), key=lambda version: number(version.split("_")[1]))
    return "%s, %d bytes, needs %s, symbols up to %s" % (
        MACHINES[program.machine],
        len(blob),
        " ".join(needed),
        highest,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--floor", default="2.17")
    parser.add_argument("--limit", type=int, default=8_000_000)
    parser.add_argument("--absent", action="append", default=[])
    parser.add_argument("--debug", action="store_true")
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    failed = 0
    for path in options.programs:
        with open(path, "rb") as file:
            blob = file.read()
        try:
            print("%s: %s" % (path, check(blob, options)))
        except Wrong as wrong:
            print("%s: %s" % (path, wrong))
            failed = 1
    sys.exit(failed)


if __name__ == "__main__":
    main()
