# SPDX-License-Identifier: MIT
"""The built libautograph.so as a file: what it needs, what it exports, what it runs at load."""
import os
import pathlib
import re
import subprocess

import commands
import helpers

RUNTIME_DOORS = {name + suffix for suffix in ("", "_ptsz") for name in (
    "cudaLaunchKernel", "__cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel")} | \
    {"__cudaPushCallConfiguration", "__cudaPopCallConfiguration"}


def exported(path):
    """Names with versions, as nm prints them."""
    return {line.split()[-1] for line in helpers.tool("nm", "-D", "--defined-only",
                                                      "--with-symbol-versions", path).splitlines()}


def dynamic(path):
    """The dynamic section as (tag, value) pairs."""
    return re.findall(r"^ 0x[0-9a-f]+ \((\w+)\)\s+(.*)$", helpers.tool("readelf", "-dW", path),
                      flags=re.M)


@helpers.unsanitized
def test_it_needs_nothing_but_libc(library):
    needed = {re.search(r"\[(.*)\]", value).group(1)
              for tag, value in dynamic(library) if tag == "NEEDED"}
    # libdl and libpthread are of libc; they are empty since glibc 2.34.
    assert needed - {"libdl.so.2", "libpthread.so.0"} - \
        {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"} == {"libc.so.6"}


@helpers.unsanitized
def test_it_needs_no_newer_glibc_than_2_28(library):
    """A library that was built on a new system can be taken to an older one."""
    needed = commands.module("elf").Elf(library).versions_needed()
    versions = {(file, version) for file, versions in needed.items() for version in versions}
    assert ("libc.so.6", {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}[os.uname().machine]) in versions
    newer = {(file, version) for file, version in versions
             if [int(n) for n in re.findall(r"\d+", version)] > [2, 28]}
    assert newer == set(), "src/glibc.h names the older versions"


@helpers.unsanitized
def test_what_musl_lacks_is_weak(library):
    """Else it starts no program with this library: a script's children may be for musl."""
    undefined = helpers.tool("nm", "-D", "--undefined-only", library)
    weak = {name for kind, name in re.findall(r"(\w) (\w+)@GLIBC", undefined) if kind == "w"}
    assert {"__register_atfork", "backtrace", "dladdr1", "dlvsym"} <= weak


@helpers.unsanitized
def test_the_only_constructor(library):
    """One remembers what the process began with; frame_dummy is the compiler's, and does nothing."""
    tags = dict(dynamic(library))
    assert "PREINIT_ARRAY" not in tags
    array, size = int(tags["INIT_ARRAY"], 16), int(tags["INIT_ARRAYSZ"].split()[0])
    relocations = dict(re.findall(r"^([0-9a-f]+)\s+\S+\s+R_\S+RELATIVE\s+([0-9a-f]+)",
                                  helpers.tool("readelf", "-rW", library), flags=re.M))
    places = {int(at, 16): int(address, 16) for at, address in relocations.items()}
    symbols = {int(s.split()[0], 16): s.split()[-1]
               for s in helpers.tool("nm", library).splitlines() if " t " in s}
    assert [symbols[places[at]] for at in range(array, array + size, 8)] == \
        ["frame_dummy", "keep_initial"]


def test_only_doors_and_the_public_api_are_exported(library):
    names = exported(library)
    assert [n for n in names if "@" in n] == [], "a versioned definition would not interpose"
    others = {n for n in names if not re.match(r"cu[A-Z]|autograph_", n)}
    assert others - RUNTIME_DOORS - {"dlsym", "dlopen", "dlmopen", "__gmon_start__"} == set()


def test_the_public_api_is_that_of_the_header(library):
    header = (helpers.SOURCE / "include/autograph.h").read_text()
    declared = set(re.findall(r"\b(autograph_\w*[a-z])\s*\(", header))
    defined = re.findall(r"^AUTOGRAPH_(?:FUNCTION|PROCEDURE)\(.*?(autograph_\w+), ", header, flags=re.M)
    assert sorted(defined) == sorted(declared), "each has its description"
    assert {n for n in exported(library) if n.startswith("autograph_")} == declared


def test_hardening(library):
    tags = dynamic(library)
    names = [tag for tag, _ in tags]
    flags = " ".join(value for tag, value in tags if tag in ("FLAGS", "FLAGS_1"))
    assert "TEXTREL" not in names and "TEXTREL" not in flags
    assert "NOW" in flags.split() and "NODELETE" in flags
    headers = helpers.tool("readelf", "-lW", library)
    stack = re.search(r"GNU_STACK.*", headers).group()
    assert "RWE" not in stack, "assembly must say that it needs no executable stack"
    assert "GNU_RELRO" in headers


def test_thread_locals_are_static(library):
    """Initial-exec: the hot path calls no __tls_get_addr."""
    undefined = helpers.tool("nm", "-D", "--undefined-only", library)
    assert "__tls_get_addr" not in undefined
    assert "TLSDESC" not in helpers.tool("readelf", "-rW", library)


def test_no_stdio_of_the_host(library):
    """Nothing goes through the program's own stdout and stderr buffers."""
    undefined = {line.split()[-1].split("@")[0]
                 for line in helpers.tool("nm", "-D", "--undefined-only", library).splitlines()}
    assert undefined & {"printf", "puts", "fprintf", "fputs", "stderr", "stdout", "abort",
                        "setlocale", "perror"} == set()


def test_a_program_without_cuda_is_left_alone():
    plain = helpers.run(["/bin/sh", "-c", "echo text; exit 3"], preload=False, sim=False, status=3)
    ours = helpers.run(["/bin/sh", "-c", "echo text; exit 3"], sim=False, status=3,
                       env={"AUTOGRAPH_REPORT": "stderr", "AUTOGRAPH_TRACE_HOT": "bad"})
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr)


def test_configure_says_what_to_do_without_cuda(tmp_path):
    configure = helpers.SOURCE / "configure"
    done = subprocess.run([configure, f"--with-cuda={tmp_path}"], cwd=tmp_path, text=True,
                          capture_output=True, timeout=300, check=False)
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert str(tmp_path) in errors[0] and "--with-cuda=DIR" in errors[0]


def test_configure_says_what_to_do_without_inih(tmp_path):
    configure = helpers.SOURCE / "configure"
    done = subprocess.run([configure, f"--with-inih={tmp_path}",
                           f"--with-cuda={helpers.config()['cuda']}"], cwd=tmp_path, text=True,
                          capture_output=True, timeout=300, check=False)
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert "libinih-dev" in errors[0] and "--with-inih=DIR" in errors[0]


def test_install(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
    subprocess.run(["make", "-s", "-C", helpers.build_dir(), "install", f"DESTDIR={tmp_path}"],
                   env=environment, check=True, capture_output=True, timeout=300)
    files = {str(pathlib.Path(d, f).relative_to(tmp_path)) for d, _, fs in os.walk(tmp_path)
             for f in fs}
    modules = {f"share/autograph/{p.name}" for p in (helpers.SOURCE / "src/cmd").glob("*.py")}
    top = next(f for f in files if f.endswith("bin/autograph"))[:-len("bin/autograph")]
    assert {f[len(top):] if f.startswith(top) else f for f in files} - modules == {
        "bin/autograph", "share/autograph/options.def", "share/autograph/cuda.def",
        "share/man/man1/autograph.1", "share/man/man5/autograph.ini.5", "lib/libautograph.so",
        "include/autograph.h", "etc/autograph.ini"}
    # The installed command finds the installed library, wherever the tree was put.
    done = helpers.run([tmp_path / top / "bin/autograph", "sh", "-c", "echo $LD_PRELOAD"],
                       preload=False)
    assert str(tmp_path / top / "lib/libautograph.so") in done.stdout


def test_a_release_is_complete(tmp_path):
    """The tarball has what autoreconf makes, and every tracked file."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
    subprocess.run(["make", "-s", "-C", helpers.build_dir(), "distdir", f"distdir={tmp_path}/release"],
                   env=environment, check=True, capture_output=True, timeout=300)
    release = tmp_path / "release"
    assert os.access(release / "configure", os.X_OK)
    assert (release / "build-aux/ltmain.sh").exists()
    if (helpers.SOURCE / ".git").exists():
        tracked = helpers.tool("git", "-C", helpers.SOURCE, "ls-files")
    else:
        tracked = (helpers.SOURCE / "MANIFEST").read_text()
    assert (release / "MANIFEST").read_text() == tracked
    assert "src/config/options.def" in tracked.splitlines()
    assert [f for f in tracked.splitlines() if not (release / f).exists()] == []
