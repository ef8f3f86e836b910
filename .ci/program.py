#!/usr/bin/env python3
"""Checks which libraries and symbols a program needs, by reading its ELF file.

    program.py [--floor VERSION] [--limit BYTES] [--absent PATH…] [--debug] PROGRAM…

Prints libraries and symbol versions. Exits with 1 if the program needs something that glibc of version --floor lacks.
--debug skips the checks that apply to a release only: size, stripped symbols, no paths of the build machine.
"""

import argparse
import struct
import sys

MACHINES = {62: "x86_64", 183: "aarch64"}
LIBRARIES = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2"}
LINKERS = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
# These load modules (NSS) that must match the C library of the machine, and that can hang.
UNWANTED = ("getpw", "getgr", "getspnam", "dlopen")
# The crate `dirs` calls it for a user without HOME. gtop asks it for no folder then, and a test in tests/homes.rs follows
# its system calls: no module is loaded.
NEVER_REACHED = {"getpwuid_r"}
SYMTAB, NEEDED, SHARED = 2, 1, 3


class Refused(Exception):
    """A program is refused; the message gives the reasons."""


class Program:
    """The parts of an ELF file that list what the program needs."""

    def __init__(self, blob):
        self.blob = blob
        if blob[:6] != b"\x7fELF\x02\x01":
            raise Refused("is not a 64-bit little-endian ELF file")
        self.type, self.machine = self.unpack("<HH", 16)
        sections_at, size, count, names = *self.unpack("<Q", 40), *self.unpack("<HHH", 58)
        raw = [self.unpack("<IIQQQQIIQQ", sections_at + size * n) for n in range(count)]
        named = raw[names]
        self.sections = {self.text(named, s[0]): s for s in raw}
        self.raw = raw

    def unpack(self, layout, offset):
        return struct.unpack_from(layout, self.blob, offset)

    def text(self, strings, offset):
        start = strings[4] + offset
        return self.blob[start : self.blob.index(b"\0", start)].decode()

    def entries(self, name, layout):
        section = self.sections.get(name)
        if section is None:
            raise Refused("has no section " + name)
        step = struct.calcsize(layout)
        return [self.unpack(layout, section[4] + at) for at in range(0, section[5], step)]

    def needed(self):
        strings = self.sections[".dynstr"]
        return sorted(self.text(strings, value) for tag, value in self.entries(".dynamic", "<qQ") if tag == NEEDED)

    def undefined(self):
        """Returns the names of undefined symbols."""
        strings = self.sections[".dynstr"]
        symbols = self.entries(".dynsym", "<IBBHQQ")
        return sorted(self.text(strings, s[0]) for s in symbols if s[3] == 0 and s[0])

    def versions(self):
        """Returns (library, version) pairs of the symbols it needs."""
        strings, section = self.sections[".dynstr"], self.sections[".gnu.version_r"]
        found, at = set(), section[4]
        for _ in range(section[7]):
            _, count, file, first, step = self.unpack("<HHIII", at)
            entry = at + first
            for _ in range(count):
                _, _, _, name, following = self.unpack("<IHHII", entry)
                found.add((self.text(strings, file), self.text(strings, name)))
                entry += following
            at += step
        return sorted(found)

    def is_stripped(self):
        return not any(section[1] == SYMTAB for section in self.raw)


def number(version):
    return tuple(int(part) for part in version.split("."))


def check(blob, options):
    """Returns a summary of the program; raises Refused if it is refused."""
    program = Program(blob)
    problems = []
    if program.machine not in MACHINES:
        problems.append("is for machine %d" % program.machine)
    if program.type != SHARED:
        problems.append("is not position-independent")
    needed = program.needed()
    unexpected = sorted(set(needed) - LIBRARIES - LINKERS)
    if unexpected:
        problems.append("needs " + ", ".join(unexpected))
    versions = program.versions()
    for library, version in versions:
        kind, _, digits = version.partition("_")
        if kind != "GLIBC" or number(digits) > number(options.floor):
            problems.append("needs %s of %s" % (version, library))
    for symbol in program.undefined():
        if symbol.startswith(UNWANTED) and symbol not in NEVER_REACHED:
            problems.append("calls " + symbol)
    if not options.debug:
        if len(blob) > options.limit:
            problems.append("has %d bytes, more than %d" % (len(blob), options.limit))
        if not program.is_stripped():
            problems.append("is not stripped")
        problems += ["contains the path " + path for path in options.absent if path.encode() in blob]
    if problems:
        raise Refused("; ".join(problems))
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
    parser.add_argument("--limit", type=int, default=20_000_000)
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
        except Refused as refused:
            print("%s: %s" % (path, refused))
            failed = 1
    sys.exit(failed)


if __name__ == "__main__":
    main()
