# SPDX-License-Identifier: MIT
"""Reads of a program's file what decides whether a library can be preloaded into it."""
import mmap
import os
import re
import shlex
import stat
import struct
import subprocess

from common import Failure

PT_LOAD, PT_DYNAMIC, PT_INTERP = 1, 2, 3
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ = 1, 4, 5, 6, 10
DT_GNU_HASH, DT_FLAGS_1 = 0x6ffffef5, 0x6ffffffb
DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM = range(0x6ffffffc, 0x70000000)
STT_OBJECT = 1
DF_1_PIE = 0x08000000
ET_EXEC, ET_DYN = 2, 3
MACHINES = {3: "x86", 40: "arm", 62: "x86-64", 183: "aarch64", 21: "ppc64", 243: "riscv"}
# How the names of their dynamic linkers begin.
OTHER_C_LIBRARIES = {"ld-musl": "musl", "ld64-uClibc": "uClibc", "linker64": "Bionic"}


# The shared runtime of the address sanitizer: gcc's, clang's. The option by which it checks no order.
ASAN = re.compile(r"lib(asan|clang_rt\.asan)\b.*\.so")
UNCHECKED = re.compile(r"verify_asan_link_order=(0|no|false)\b")


class Elf:
    """A program or library: bits, machine, interpreter, needed (names), strings (of its dynamic
    symbols). Raises Failure for what is none."""

    def __init__(self, path):
        self.path = path
        self.interpreter, self.needed, self.strings, self.flags = None, [], b"", 0
        self.segments, self.tags = [], {}
        try:
            with open(path, "rb") as file:
                self.data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise Failure(f"{path}: is empty") from None
        except OSError as e:
            raise Failure(f"{path}: {e.strerror}") from None
        if self.data[:4] != b"\x7fELF":
            raise Failure(f"{path}: is neither an ELF program nor a script that begins with #!")
        try:
            self._read()
        except (struct.error, IndexError, ValueError, OverflowError):
            raise Failure(f"{path}: is a damaged ELF file") from None

    def _read(self):
        self.bits = {1: 32, 2: 64}[self.data[4]] if self.data[4] in (1, 2) else 0
        self.order = {1: "<", 2: ">"}.get(self.data[5])
        if not self.bits or not self.order:
            raise ValueError
        self.type, number = self._get("HH", 16)
        self.machine = MACHINES.get(number, f"machine {number}")
        if self.bits == 32:
            return  # cannot take the library anyway
        offset, = self._get("Q", 32)
        size, n = self._get("HH", 54)
        self.segments = [self._get("IIQQQQ", offset + i * size) for i in range(n)]
        for kind, _, at, _, _, length in self.segments:
            if kind == PT_INTERP:
                self.interpreter = os.fsdecode(self._bytes(at, length).split(b"\0")[0])
            elif kind == PT_DYNAMIC:
                self._dynamic(at, length)

    def _dynamic(self, at, length):
        entries = [self._get("qQ", at + i) for i in range(0, length, 16)]
        for tag, value in entries:
            if tag == 0:
                break
            self.tags.setdefault(tag, value)
        self.flags = self.tags.get(DT_FLAGS_1, 0)
        strings = self._offset(DT_STRTAB)
        if strings is not None:
            self.strings = self._bytes(strings, self.tags.get(DT_STRSZ, 0))
        self.needed = [self._string(value) for tag, value in entries if tag == DT_NEEDED]

    def _offset(self, tag):
        """Where in the file the thing is that a dynamic tag names; None if there is none."""
        address = self.tags.get(tag, -1)
        for kind, _, offset, start, _, size in self.segments:
            if kind == PT_LOAD and start <= address < start + size:
                return address - start + offset
        return None

    def _symbol_count(self):
        """Of the dynamic symbols, which no tag tells: the hash tables do."""
        at = self._offset(DT_HASH)
        if at is not None:
            return self._get("II", at)[1]
        at = self._offset(DT_GNU_HASH)
        if at is None:
            return 0
        buckets, first, words, _ = self._get("IIII", at)
        at += 16 + 8 * words
        last = max(self._get(f"{buckets}I", at), default=0)
        if last < first:
            return first
        while not self._get("I", at + 4 * (buckets + last - first))[0] & 1:
            last += 1
        return last + 1

    def variables(self):
        """Names of the variables that are defined here for others. Raises Failure for a damaged file."""
        try:
            return set(self._symbols(STT_OBJECT))
        except (struct.error, IndexError, ValueError, OverflowError, TypeError):
            raise Failure(f"{self.path}: is a damaged ELF file") from None

    def _symbols(self, kind):
        at = self._offset(DT_SYMTAB)
        for i in range(self._symbol_count() if at is not None else 0):
            name, info, _, section = self._get("IBBH", at + 24 * i)
            if section != 0 and info & 15 == kind and info >> 4 in (1, 2):  # global, weak
                yield self._string(name)

    def versions_needed(self):
        """{file: names of the symbol versions that it must have}."""
        needed, at = {}, self._offset(DT_VERNEED)
        for _ in range(self.tags.get(DT_VERNEEDNUM, 0) if at is not None else 0):
            _, count, file, first, after = self._get("HHIII", at)
            names, place = needed.setdefault(self._string(file), set()), at + first
            for _ in range(count):
                _, _, _, name, step = self._get("IHHII", place)
                names.add(self._string(name))
                place += step
            at += after
        return needed

    def versions_defined(self):
        """Names of the symbol versions that this library has."""
        names, at = set(), self._offset(DT_VERDEF)
        for _ in range(self.tags.get(DT_VERDEFNUM, 0) if at is not None else 0):
            _, _, _, _, _, first, after = self._get("HHHHIII", at)
            names.add(self._string(self._get("I", at + first)[0]))
            at += after
        return names

    def _string(self, at):
        return os.fsdecode(self.strings[at:self.strings.index(b"\0", at)])

    def _get(self, layout, at):
        return struct.unpack_from(self.order + layout, self.data, at)

    def _bytes(self, at, length):
        if at + length > len(self.data):
            raise ValueError
        return self.data[at:at + length]

    @property
    def dynamic(self):
        """Whether the dynamic linker starts it, and with it what is preloaded."""
        return self.interpreter is not None

    @property
    def is_program(self):
        return self.dynamic or self.type == ET_EXEC or bool(self.flags & DF_1_PIE)

    def mentions(self, *names):
        """Whether one of these dynamic symbols is there. (Names share tails in the table.)"""
        return any(name.encode() + b"\0" in self.strings for name in names)

    def contains(self, text):
        return self.data.find(text) >= 0


def find(command):
    """The file that a shell would run. Failure with a shell's status: 127 not there, 126 not to be
    executed."""
    if not command:
        raise Failure("the program's name is empty", 127)
    names = [command]
    if "/" not in command:
        names = [os.path.join(d or ".", command)
                 for d in os.environ.get("PATH", os.defpath).split(":")]
    found = None
    for name in names:
        if os.path.isfile(name):
            if os.access(name, os.X_OK):
                return name
            found = found or name
        elif os.path.isdir(name) and ("/" in command or command in (".", "..")):
            raise Failure(f"{command}: is a directory", 126)
    if found:
        raise Failure(f"{found}: may not be executed; chmod +x it?", 126)
    raise Failure(f"{command}: there is no such program", 127)


def interpreter_of(path):
    """The file named after #!, or None if `path` is no script."""
    with open(path, "rb") as file:
        head = file.read(256)
    match = re.match(rb"#![ \t]*([^\s\0]+)", head)
    return os.fsdecode(match.group(1)) if match else None


def program_of(path):
    """(Elf, [scripts on the way to it]): what the kernel will start for this file."""
    scripts = []
    while len(scripts) < 5:
        try:
            interpreter = interpreter_of(path)
        except OSError as e:
            raise Failure(f"{path}: {e.strerror}") from None
        if interpreter is None:
            return Elf(path), scripts
        if not os.path.exists(interpreter):
            raise Failure(f"{path}: its interpreter {interpreter} is not there")
        scripts.append(path)
        path = interpreter
    raise Failure(f"{scripts[0]}: scripts that name scripts, too many of them")


def name_of(path):
    """The name by which options are for a program: that of the file which is executed at last."""
    return os.path.basename(os.path.realpath(program_of(path)[0].path))


def loaded_libraries(binary):
    """({name: path or None if not found}) as the dynamic linker would load them; no code of the
    program runs."""
    try:
        done = subprocess.run([binary.interpreter, "--list", binary.path], capture_output=True,
                              text=True, timeout=60, check=False, errors="replace")
    except (OSError, subprocess.SubprocessError):
        return dict.fromkeys(binary.needed)
    found = {}
    for name, path in re.findall(r"^\s+(\S+) => (.+?)(?: \(0x[0-9a-f]+\))?$", done.stdout, re.M):
        found[name] = None if path == "not found" else path
    return found or dict.fromkeys(binary.needed)


def obstacle(elf, library):
    """Why `library` cannot be preloaded into a program, in a sentence with what to do; or None."""
    ours = Elf(library)
    if (elf.bits, elf.machine) != (ours.bits, ours.machine):
        return (f"it is a program for {elf.machine} ({elf.bits} bit)\n"
                f"  the library is for {ours.machine} ({ours.bits} bit)")
    if not elf.is_program:
        return "it is a shared library; name the program that loads it"
    if not elf.dynamic:
        return ("it is static, so nothing can be preloaded into it\n"
                "  link it dynamically; cudart may stay static")
    other = next((library for start, library in OTHER_C_LIBRARIES.items()
                  if os.path.basename(elf.interpreter).startswith(start)), None)
    if other:
        return (f"it is for the C library {other}, and this library needs glibc\n"
                f"  build the program for glibc, or start it without autograph")
    missing = missing_version(elf, ours)
    if missing:
        return f"its C library is too old: this library needs {missing}\n  build the library on this system"
    if raises_privileges(elf.path):
        return ("it is setuid, setgid or has capabilities: LD_PRELOAD is ignored\n"
                + f"  {way_around(elf.path)}")
    return sanitizer_obstacle(elf, library)


def sanitizer_obstacle(elf, library):
    """A program with the shared runtime of the address sanitizer ends at once if another library is
    preloaded before that runtime. (One with the static runtime must not have another one.)"""
    name = next(filter(ASAN.match, elf.needed), None)
    first = os.environ.get("LD_PRELOAD", "").replace(":", " ").split()[:1]
    if not name or any(ASAN.match(os.path.basename(path)) for path in first) or \
            UNCHECKED.search(os.environ.get("ASAN_OPTIONS", "")):
        return None
    runtime = loaded_libraries(elf).get(name) or name
    return (f"the address sanitizer is in it, whose runtime must be preloaded first\n"
            f'  LD_PRELOAD="{runtime} {library}" {shlex.quote(elf.path)}')


def missing_version(elf, ours):
    """The newest symbol version that `ours` needs, and the program's C library does not have; or None."""
    libc = os.path.join(os.path.dirname(os.path.realpath(elf.interpreter)), "libc.so.6")
    try:
        missing = ours.versions_needed().get("libc.so.6", set()) - Elf(libc).versions_defined()
    except (Failure, struct.error, ValueError):
        return None  # the dynamic linker finds it elsewhere, and says it
    return max(missing, key=lambda name: [int(n) for n in re.findall(r"\d+", name)], default=None)


def way_around(path):
    """What to do instead of preloading a library into a program with other rights than its user's."""
    name = os.path.basename(path)
    if name in ("sudo", "su", "doas", "pkexec", "runuser"):
        return f"let it start autograph: {name} autograph COMMAND"
    copy = shlex.quote(name if not os.path.exists(name) else f"{name}.copy")
    return f"start a copy, which has no such rights: cp {shlex.quote(path)} {copy} && autograph ./{copy}"


def raises_privileges(path):
    mode = os.stat(path).st_mode
    if mode & stat.S_ISUID or (mode & stat.S_ISGID and mode & stat.S_IXGRP):
        return True
    try:
        return bool(os.getxattr(path, "security.capability"))
    except OSError:
        return False
