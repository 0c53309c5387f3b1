# SPDX-License-Identifier: MIT
"""The built libautograph.so as a file: what it needs, what it exports, what it runs at load."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import commands
import helpers


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
    assert {"__register_atfork", "backtrace", "dlvsym"} <= weak
    musl = {"__ctype_b_loc", "__cxa_atexit", "__environ", "__errno_location", "__sched_cpucount", "__stack_chk_fail"}
    assert set(re.findall(r" (__\w+)@GLIBC", undefined)) - weak <= musl, "musl has these"
    assert "FORTIFY" not in helpers.config()["hardening"] or "__snprintf_chk" in weak


@helpers.unsanitized
def test_the_only_constructors(library):
    """They remember what the process began with, and look at what it has loaded; frame_dummy is the compiler's, and
    does nothing."""
    tags = dict(dynamic(library))
    assert "PREINIT_ARRAY" not in tags
    array, size = int(tags["INIT_ARRAY"], 16), int(tags["INIT_ARRAYSZ"].split()[0])
    relocations = dict(re.findall(r"^([0-9a-f]+)\s+\S+\s+R_\S+RELATIVE\s+([0-9a-f]+)",
                                  helpers.tool("readelf", "-rW", library), flags=re.M))
    places = {int(at, 16): int(address, 16) for at, address in relocations.items()}
    symbols = {int(s.split()[0], 16): s.split()[-1]
               for s in helpers.tool("nm", library).splitlines() if " t " in s}
    assert {symbols[places[at]] for at in range(array, array + size, 8)} == {"frame_dummy", "keep_initial", "look_first"}


def test_only_doors_and_the_public_api_are_exported(library):
    names = exported(library)
    assert [n for n in names if "@" in n] == [], "a versioned definition would not interpose"
    assert {n for n in names if not n.startswith("autograph_")} == {
        "dladdr", "dladdr1", "dlsym", "dlmopen", "__gmon_start__"}


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


def mark(library):
    return "SHSTK" if "SHSTK" in helpers.tool("readelf", "-nW", library) else None


@helpers.unsanitized
def test_hardening_by_the_compiler(library):
    flags = helpers.config()["hardening"]
    if not flags.strip():
        pytest.skip("configured without hardening")
    assert "-fstack-clash-protection" in flags and "-fstack-protector" in flags
    assert "-D_FORTIFY_SOURCE=2" in flags or "-O2" not in helpers.config()["cflags"]
    assert "__stack_chk_fail" in helpers.tool("nm", "-D", "--undefined-only", library)
    # A program with a shadow stack keeps it only if all its libraries have this mark.
    assert os.uname().machine != "x86_64" or mark(library) == "SHSTK"


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


def configured(where, *arguments, **environment):
    """Runs configure there. It is told what the build's own configure has found out about tools, headers and libtool:
    that is most of its time, and does not depend on these arguments."""
    found = re.findall(r"^((?:ac_cv_(?:prog|path|header)|am_cv|lt_cv)_\w+=.*)$",
                       (helpers.build_dir() / "config.log").read_text(errors="replace"), flags=re.M)
    (where / "cache").write_text("".join(f"{line}\n" for line in found))
    return subprocess.run([helpers.SOURCE / "configure", f"--cache-file={where}/cache", *arguments], cwd=where,
                          text=True, capture_output=True, timeout=300, check=False, env={**os.environ, **environment})


def test_configure_says_what_to_do_without_cuda(tmp_path):
    done = configured(tmp_path, f"--with-cuda={tmp_path}")
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert str(tmp_path) in errors[0] and "--with-cuda=DIR" in errors[0]


def test_configure_says_what_to_do_without_inih(tmp_path):
    done = configured(tmp_path, f"--with-inih={tmp_path}", f"--with-cuda={helpers.config()['cuda']}")
    assert done.returncode != 0
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert "libinih-dev" in errors[0] and "--with-inih=DIR" in errors[0]


@pytest.mark.parametrize("option,odd", [
    ("--prefix=/none/a b", " "), ("--exec-prefix=/none/a:b", ":"), ("--libdir=/none/a$b", "$"),
    ("--bindir=/none/a'b", "'"), ('--sysconfdir=/none/a"b', '"'), ("--datadir=${prefix}/a&b", "&"),
    ("--includedir=/none/a\\b", "\\"), ("--mandir=/none/a\tb", "\t"), ("--docdir=/none/a|b", "|"),
    ("--with-cuda=/none/a b", " "), ("--with-inih=/none/a;b", ";")])
def test_configure_rejects_paths_that_break_the_build(tmp_path, option, odd):
    done = subprocess.run([helpers.SOURCE / "configure", option], cwd=tmp_path, text=True,
                          capture_output=True, timeout=300, check=False)
    errors = [line for line in done.stderr.splitlines() if "error:" in line]
    assert done.returncode != 0 and errors == [
        f'configure: error: {option}: choose a path without blanks, quotes and other special '
        f'characters; "{odd}" is in it']


def test_configure_rejects_a_build_directory_with_a_blank(tmp_path):
    (tmp_path / "a b").mkdir()
    done = subprocess.run([helpers.SOURCE / "configure"], cwd=tmp_path / "a b", text=True,
                          capture_output=True, timeout=300, check=False)
    assert done.returncode != 0 and f"error: the build directory, {tmp_path}/a b: " in done.stderr


def test_configure_leaves_out_what_one_does_not_want(tmp_path):
    configured = configure(tmp_path, "--disable-hardening", "--disable-old-glibc",
                           SOURCE_DATE_EPOCH="86400")
    assert configured["GLIBC_LIBS"] == ""
    assert [configured[f"AG_{name}"] for name in ("HARDENING", "HARDENING_LDFLAGS", "PROTECTOR")] == ["", "", ""]
    assert configured["RELEASE_DATE"] == "1970-01-02"


def test_configure_takes_the_fortification_that_one_gives(tmp_path):
    flags = configure(tmp_path, "CPPFLAGS=-D_FORTIFY_SOURCE=3")["AG_HARDENING"]
    assert "FORTIFY" not in flags and "-fstack-clash-protection" in flags


def configure(where, *arguments, **environment):
    """Configures the sources, and gives the variables of the Makefile."""
    done = configured(where, f"--with-cuda={helpers.config()['cuda']}", *arguments, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return dict(re.findall(r"^(\w+) = *(.*?) *$", (where / "Makefile").read_text(), flags=re.M))


# -- Installing -----------------------------------------------------------------

def make(*arguments, path=None):
    """Output of make in the build directory."""
    environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}
    if path:
        environment["PATH"] = f"{path}:{environment['PATH']}"
    done = subprocess.run(["make", "-s", "-C", helpers.build_dir(), *arguments], env=environment,
                          check=False, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files_below(top):
    return {str(pathlib.Path(d, f).relative_to(top)) for d, _, fs in os.walk(top) for f in fs}


def test_install(tmp_path):
    assert "Usage:" not in make("install", f"DESTDIR={tmp_path}")
    files = files_below(tmp_path)
    modules = {f"share/autograph/{p.name}" for p in (helpers.SOURCE / "src/cmd").glob("*.py")}
    pages = {f"share/doc/libautograph/docs/{p.name}" for p in (helpers.SOURCE / "docs").glob("*.md")}
    top = next(f for f in files if f.endswith("bin/autograph"))[:-len("bin/autograph")]
    assert {f[len(top):] if f.startswith(top) else f for f in files} - modules == pages | {
        *(f"share/doc/libautograph/{p}" for p in ("README.md", "CHANGELOG.md", "SECURITY.md", "docs/bench.svg",
                                                  "docs/figures.tsv")),
        "lib/pkgconfig/autograph.pc", f"share/modulefiles/autograph/{helpers.config()['version']}",
        "share/bash-completion/completions/autograph",
        "share/zsh/site-functions/_autograph", "share/fish/vendor_completions.d/autograph.fish",
        "bin/autograph", "share/autograph/options.def", "share/autograph/cuda.def", "share/autograph/reasons.def",
        "share/autograph/kinds.def",
        "share/autograph/autograph.ini", "share/doc/libautograph/LICENSE",
        "share/doc/libautograph/LICENSES/inih.txt", "share/man/man1/autograph.1",
        "share/man/man5/autograph.ini.5", "lib/autograph/libautograph.so", "lib/libautograph.so",
        "include/autograph.h", "etc/autograph.ini"}
    top = tmp_path / top
    assert os.readlink(top / "lib/libautograph.so") == "autograph/libautograph.so"
    assert "Copyright (c) 2009, Ben Hoyt" in (top / "share/doc/libautograph/LICENSES/inih.txt").read_text()
    # The installed command finds the installed library, wherever the tree was put.
    done = helpers.run([top / "bin/autograph", "sh", "-c", "echo $LD_PRELOAD"], preload=False)
    assert str(top / "lib/autograph/libautograph.so") in done.stdout
    # The command alone is of no use, and says so.
    shutil.copy(top / "bin/autograph", tmp_path / "autograph")
    done = helpers.run([tmp_path / "autograph", "true"], preload=False, status=2)
    assert "install again" in done.stderr and len(done.stderr.splitlines()) == 1
    make("uninstall", f"DESTDIR={tmp_path}")
    assert files_below(tmp_path) == {"autograph"}
    assert [path for path in top.rglob("*autograph*") if path.is_dir()] == [], "folders of its own"


def test_pages_that_the_readme_links_are_installed(tmp_path):
    make("install", f"DESTDIR={tmp_path}")
    [readme] = tmp_path.rglob("libautograph/README.md")
    links = re.findall(r"\]\((docs/[\w.]+)", readme.read_text())
    assert len(links) > 5 and [link for link in links if not (readme.parent / link).exists()] == []


def test_a_program_finds_the_header_by_pkg_config(tmp_path):
    if not shutil.which("pkg-config"):
        pytest.skip("there is no pkg-config")
    make("install", f"prefix={tmp_path}", f"sysconfdir={tmp_path}/etc")
    environment = {**os.environ, "PKG_CONFIG_PATH": str(tmp_path / "lib/pkgconfig")}

    def ask(*what):
        return subprocess.run(["pkg-config", f"--define-variable=prefix={tmp_path}", *what, "autograph"], text=True,
                              capture_output=True, check=True, env=environment).stdout.split()

    assert ask("--modversion") == [helpers.config()["version"]]
    assert ask("--variable=library") == [str(tmp_path / "lib/autograph/libautograph.so")]
    (tmp_path / "p.c").write_text("#include <autograph.h>\nint main(void) { return autograph_version(); }\n")
    helpers.tool(*helpers.config()["cc"].split(), "-o", tmp_path / "p", tmp_path / "p.c", *ask("--cflags", "--libs"))
    helpers.run([tmp_path / "p"], preload=False)


def test_what_is_installed_is_tried(tmp_path):
    """Up to the first report, in the installation's place and in a folder for a package."""
    for settings in ([f"prefix={tmp_path}/a", f"sysconfdir={tmp_path}/a/etc"], [f"DESTDIR={tmp_path}/b"]):
        make("install", *settings)
        assert "tried on the simulated driver" in make("installcheck", *settings)
    # Where nothing but the library was built.
    done = helpers.run([helpers.SOURCE / "scripts/installcheck", tmp_path / "a/bin/autograph",
                        helpers.config()["version"], tmp_path], preload=False, sim=False)
    assert "installcheck: doctor says: " in done.stdout and "tried on this machine" in done.stdout
    (tmp_path / "a/lib/autograph/libautograph.so").unlink()
    with pytest.raises(AssertionError, match="installcheck: .* starts no program"):
        make("installcheck", f"prefix={tmp_path}/a")


def test_an_edited_configuration_file_is_kept(tmp_path):
    prefix = [f"prefix={tmp_path}", f"sysconfdir={tmp_path}/etc"]
    ini, ours = tmp_path / "etc/autograph.ini", (helpers.SOURCE / "conf/autograph.ini").read_text()
    make("install", *prefix)
    assert ini.read_text() == ours
    # That of an earlier release, which nobody has edited.
    for path in (ini, tmp_path / "share/autograph/autograph.ini"):
        path.write_text("of an earlier release")
    assert "has been edited" not in make("install", *prefix)
    assert ini.read_text() == ours
    ini.write_text("mine")
    assert f"{ini} has been edited and stays as it is; the new one is " in make("install", *prefix)
    assert ini.read_text() == "mine"
    assert f"{ini} has been edited and stays" in make("uninstall", *prefix)
    assert files_below(tmp_path) == {"etc/autograph.ini"} and ini.read_text() == "mine"
    assert "has been edited" in make("install", *prefix)
    ini.write_text(ours)
    assert "has been edited" not in make("uninstall", *prefix)
    assert files_below(tmp_path) == set()


@pytest.mark.parametrize("user,cached,staged", [(0, True, False), (1000, True, False), (0, False, False),
                                                (0, True, True)])
def test_the_linker_s_cache_is_written_where_it_helps(tmp_path, user, cached, staged):
    """By root, for a directory that ldconfig reads, and not for a package that is being made."""
    prefix, tools, calls = tmp_path / "prefix", tmp_path / "tools", tmp_path / "calls"
    tools.mkdir()
    commands.script(tools / "id", f"echo {user}")
    commands.script(tools / "ldconfig", f"""echo $# >>{calls}
        test $# = 0 || echo '{prefix if cached else "/elsewhere"}/lib: (from somewhere)'""")
    where = [f"DESTDIR={tmp_path}/stage"] if staged else []
    settings = [f"prefix={prefix}", f"sysconfdir={prefix}/etc", *where]
    said = make("install", *settings, path=tools)
    written = calls.exists() and "0" in calls.read_text().split()
    assert written == (user == 0 and cached and not staged)
    name = "libautograph.so" if written else f"{prefix}/lib/libautograph.so"
    assert (f"Usage: {prefix}/bin/autograph ./app, or LD_PRELOAD={name} ./app" in said) == (not staged)
    calls.unlink(missing_ok=True)
    make("uninstall", *settings, path=tools)
    assert written == (calls.exists() and "0" in calls.read_text().split())


def test_a_release_is_complete(tmp_path):
    """The tarball has what autoreconf makes, and every tracked file."""
    make("distdir", f"distdir={tmp_path}/release")
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


@pytest.mark.parametrize("script", ["tests/fuzz/run", "tests/policy/record"])
def test_make_compiles_no_script(script):
    """Also if the C file beside it is newer: a checkout writes the two in any order."""
    source = helpers.SOURCE / f"{script}.c"
    assert source.exists()
    make("-q", "-W", source, script)


def test_two_tarballs_are_equal():
    """Whenever they are made, and by whom."""
    def made(mask):
        umask = os.umask(mask)
        try:
            make("dist", "distdir=libautograph-equal")
        finally:
            os.umask(umask)
        tarball = helpers.build_dir() / "libautograph-equal.tar.gz"
        content = tarball.read_bytes()
        tarball.unlink()
        return content

    first = made(0o077)
    assert first == made(0o002)


@helpers.unsanitized
def test_two_builds_are_equal(tmp_path):
    """The library, built in another folder from a tarball's files."""
    make("distdir", f"distdir={tmp_path}/sources")
    build = tmp_path / "sources/the/build"
    build.mkdir(parents=True)
    have = helpers.config()
    done = subprocess.run(["../../configure", f"--with-cuda={have['cuda']}", f"CC={have['cc']}",
                           f"CFLAGS={have['cflags']}"], cwd=build, text=True, capture_output=True, timeout=300,
                          check=False)
    assert done.returncode == 0, done.stderr
    # What ccache has kept of another folder would be no proof.
    subprocess.run(["make", "-C", build, "-j2", "libautograph.la"], env={**os.environ, "CCACHE_DISABLE": "1"},
                   capture_output=True, check=True, timeout=300)
    library = build / ".libs/libautograph.so"
    assert library.read_bytes() == helpers.library().read_bytes()
    assert str(tmp_path).encode() not in library.read_bytes()
