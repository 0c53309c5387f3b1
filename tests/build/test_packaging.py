# SPDX-License-Identifier: MIT
"""The packages: each is made, unpacked into an empty folder, and its command goes up to a first report."""
import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

import commands
import helpers

pytestmark = pytest.mark.skipif(bool(helpers.config()["sanitize"]), reason="no package has a sanitizer")

PACKAGING = helpers.SOURCE / "packaging"
VERSION = helpers.config()["version"]
MACHINE = os.uname().machine


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"there is no {tool}")


def tool(*command, **options):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def first_report(command, scratch):
    """What a new user does. The library is that of the package."""
    root = command.parent.parent
    report = scratch / "report.json"
    env = {"AUTOGRAPH_CONFIG": "", "AGSIM_DELAY_US": "0", **helpers.HELD}
    doctor = helpers.run([command, "doctor"], preload=False, env=env).stdout
    assert re.search(rf"^library:\s+{re.escape(str(root.resolve()))}/lib\S*/autograph/libautograph.so$", doctor, re.M)
    helpers.run([command, f"--report={report}", *commands.LOOP], preload=False, env=env)
    assert json.loads(report.read_text())["ops"]["replayed"] > 0
    assert helpers.run([command, "report", report], preload=False).stdout
    assert helpers.run([command, "--version"], preload=False).stdout == f"autograph {VERSION}\n"


@pytest.fixture(scope="module")
def tarball(tmp_path_factory):
    need("objdump")
    return pathlib.Path(tool(PACKAGING / "build-tarball", helpers.build_dir(),
                             tmp_path_factory.mktemp("tarball") / "new/folder").strip())


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    place = tmp_path_factory.mktemp("release")
    name = f"libautograph-{VERSION}"
    tool("make", "-s", "-C", helpers.build_dir(), "distdir", f"distdir={place / name}")
    tool("tar", "-C", place, "-czf", place / f"{name}.tar.gz", name)
    return place / f"{name}.tar.gz"


def unpacked(tarball, where):
    tool("tar", "-C", where, "-xf", tarball)
    return where / tarball.name[:-len(".tar.gz")]


# -- What runs anywhere ------------------------------------------------------------

def test_tarball(tarball, tmp_path):
    assert tarball.name == f"autograph-{VERSION}-linux-{MACHINE}.tar.gz"
    root = unpacked(tarball, tmp_path)
    first_report(root / "bin/autograph", tmp_path)
    assert (root / "share/doc/libautograph/README.md").exists() and not (root / "etc").exists()
    everything = b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert str(helpers.build_dir()).encode() not in everything


def test_two_tarballs_of_a_build_are_equal(tarball, tmp_path):
    assert pathlib.Path(tool(PACKAGING / "build-tarball", helpers.build_dir(), tmp_path).strip()).read_bytes() == \
        tarball.read_bytes()


def test_a_library_that_needs_a_newer_glibc_is_refused(tmp_path):
    need("objdump")
    commands.script(tmp_path / "objdump", "echo '0000 DF *UND* 0000 (GLIBC_2.34) stat'")
    done = subprocess.run([PACKAGING / "build-tarball", helpers.build_dir(), tmp_path], text=True, capture_output=True,
                          env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=False)
    assert done.returncode == 1 and "build-tarball: the library needs glibc 2.34; " in done.stderr
    assert list(tmp_path.glob("*.tar.gz")) == []


@pytest.fixture(scope="module")
def wheel(tarball, tmp_path_factory):
    return pathlib.Path(tool(sys.executable, PACKAGING / "build-wheel", tarball,
                             tmp_path_factory.mktemp("wheel")).strip())


def test_wheel(wheel, tmp_path):
    """Installed by pip, without a network."""
    if subprocess.run([sys.executable, "-m", "pip", "--python", sys.executable, "--version"], capture_output=True,
                      check=False).returncode != 0:
        pytest.skip("there is no pip 22.3 or later")
    tool(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    tool(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-cache-dir", wheel)
    first_report(tmp_path / "venv/bin/autograph", tmp_path)
    tool(sys.executable, "-m", "pip", "--python", python, "uninstall", "-y", "libautograph")
    assert not (tmp_path / "venv/bin/autograph").exists() and not (tmp_path / "venv/lib/autograph").exists()


def test_the_wheel_is_well_formed(wheel):
    assert wheel.name == f"libautograph-{VERSION}-py3-none-manylinux_2_28_{MACHINE}.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        record = dict(line.rsplit(",", 2)[:2] for line in
                      archive.read(f"libautograph-{VERSION}.dist-info/RECORD").decode().splitlines())
        assert set(record) == set(archive.namelist())
        for path, digest in record.items():
            if digest:
                found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(path)).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={found}", path
        assert archive.read(f"libautograph-{VERSION}.data/scripts/autograph").startswith(b"#!python\n")


def test_module(tarball, tmp_path):
    """Loading it puts the command on the PATH, wherever the tree lies."""
    need("tclsh")
    root = unpacked(tarball, tmp_path)
    file = root / "share/modulefiles/autograph" / VERSION
    wanted = {"PATH": root / "bin", "CPATH": root / "include", "PKG_CONFIG_PATH": root / "lib/pkgconfig"}
    (tmp_path / "load.tcl").write_text(
        "proc prepend-path {name value} { puts \"$name $value\" }\n"
        "proc conflict {name} {}\nproc module-whatis {text} {}\n"
        f"set ModulesCurrentModulefile {file}\nsource {file}\n")
    said = dict(line.split(" ", 1) for line in tool("tclsh", tmp_path / "load.tcl").splitlines())
    assert said == {name: str(path) for name, path in wanted.items()}
    if shutil.which("modulecmd"):
        said = tool("modulecmd", "bash", "load", "autograph",
                    env={**os.environ, "MODULEPATH": str(root / "share/modulefiles")})
        assert re.search(rf"\bPATH={re.escape(str(root))}/bin:", said)


# -- What is compiled anew -------------------------------------------------------------

def test_deb(release, tmp_path):
    need("dpkg-buildpackage", "dh", "dpkg-checkbuilddeps")
    if subprocess.run(["dpkg-checkbuilddeps", PACKAGING / "debian/control"], capture_output=True,
                      check=False).returncode != 0:
        pytest.skip("what the package needs to be built is not installed")
    [package] = tool(PACKAGING / "build-deb", release, tmp_path,
                     env={**os.environ, "CUDA_HOME": helpers.config()["cuda"]}).split()
    tool("dpkg", "-x", package, tmp_path / "root")
    multiarch = helpers.tool("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
    assert [path.name for path in (tmp_path / "root/usr/lib").iterdir()] == [multiarch]
    first_report(tmp_path / "root/usr/bin/autograph", tmp_path)
    assert (tmp_path / "root/usr/share/modulefiles/autograph" / VERSION).exists()
    if shutil.which("lintian"):
        assert tool("lintian", "--allow-root", "--profile", "debian", package) == ""


def test_rpm(release, tmp_path):
    need("rpmbuild", "rpm2cpio", "cpio")
    devel, package = sorted(tool(PACKAGING / "build-rpm", release, tmp_path / "rpm", "--nodeps", env={
        **os.environ, "CUDA_HOME": helpers.config()["cuda"], "INIH": "/usr"}).split(), key=lambda name: "devel" not in name)
    needs = tool("rpm", "-qp", "--requires", package)
    assert "pkg-config" not in needs and "inih" not in needs
    assert "autograph.pc" in tool("rpm", "-qpl", devel) and "modulefiles" in tool("rpm", "-qpl", package)
    root = tmp_path / "root"
    root.mkdir()
    tool("sh", "-c", f"rpm2cpio {package} | cpio -idm", cwd=root)
    first_report(root / "usr/bin/autograph", tmp_path)


def test_tarball_for_aarch64(release, tmp_path):
    """By a cross compiler, and under QEMU where that is there."""
    need("aarch64-linux-gnu-gcc")
    if MACHINE != "x86_64" or not os.environ.get("AG_AARCH64_INIH"):
        pytest.skip("AG_AARCH64_INIH names no directory with inih for aarch64")
    tool("tar", "-C", tmp_path, "--strip-components=1", "-xf", release)
    build = tmp_path / "build"
    build.mkdir()
    tool("../configure", "--host=aarch64-linux-gnu", f"--with-inih={os.environ['AG_AARCH64_INIH']}",
         f"--with-cuda={helpers.config()['cuda']}", "CXX=aarch64-linux-gnu-g++", cwd=build)
    tool("make", "-C", build, "-j2")
    made = pathlib.Path(tool(PACKAGING / "build-tarball", build, tmp_path).strip())
    assert made.name == f"autograph-{VERSION}-linux-aarch64.tar.gz"
    root = unpacked(made, tmp_path)
    need("qemu-aarch64", "aarch64-linux-gnu-g++")
    tool("make", "-C", build, "-j2", "tests/sim/libcuda.so.1", "tests/samples/constant-sim")
    settings = {"LD_LIBRARY_PATH": build / "tests/sim", "LD_PRELOAD": root / "lib/autograph/libautograph.so",
                "AUTOGRAPH_CONFIG": "", "AUTOGRAPH_REPORT": tmp_path / "report.json", **helpers.HELD}
    tool("qemu-aarch64", *[word for name, value in settings.items() for word in ("-E", f"{name}={value}")],
         build / "tests/samples/constant-sim", "--iterations", "50", "--warmup", "2", "--kernels", "8",
         env={**os.environ, "QEMU_LD_PREFIX": "/usr/aarch64-linux-gnu"})
    assert json.loads((tmp_path / "report.json").read_text())["ops"]["replayed"] > 0
    tool(root / "bin/autograph", "report", tmp_path / "report.json")


# -- What cannot be built here ------------------------------------------------------------

def test_all_name_the_same_version():
    places = {"debian/changelog": r"^libautograph \((.+)-\d+\)", "autograph.spec": r"^Version: +(\S+)",
              "conda/meta.yaml": r'set version = "(.+)"', "spack/package.py": r'^    version\("(.+)"\)',
              "apptainer.def": r"image\.version (\S+)"}
    found = {place: re.search(pattern, (PACKAGING / place).read_text(), re.M)[1] for place, pattern in places.items()}
    assert found == dict.fromkeys(places, VERSION)


RECIPES = ["Dockerfile", "apptainer.def", "spack/package.py", "conda/build.sh", "autograph.spec", "debian/rules"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_options_that_recipes_give_to_configure_are_there(recipe):
    configure = (helpers.SOURCE / "configure.ac").read_text()
    known = {f"--with-{name}" for name in re.findall(r"AC_ARG_WITH\(\[([\w-]+)", configure)}
    assert set(re.findall(r"--with-\w+", (PACKAGING / recipe).read_text())) <= known


def test_recipes_are_well_formed():
    compile((PACKAGING / "spack/package.py").read_text(), "package.py", "exec")
    tool("sh", "-n", PACKAGING / "conda/build.sh")
    jinja2, yaml = pytest.importorskip("jinja2"), pytest.importorskip("yaml")
    text = jinja2.Template((PACKAGING / "conda/meta.yaml").read_text()).render(
        compiler=lambda language: f"{language}-compiler", stdlib=lambda language: f"{language}-stdlib",
        cuda_compiler_version="12.9")
    recipe = yaml.safe_load(text)
    assert recipe["package"]["version"] == VERSION and "cuda-version 12.9.*" in recipe["requirements"]["host"]
    assert (PACKAGING / "conda" / recipe["source"][0]["path"]).resolve() == helpers.SOURCE


def test_scripts_are_clean():
    need("shellcheck")
    tool("shellcheck", *(PACKAGING / name for name in ("build-tarball", "build-deb", "build-rpm", "conda/build.sh")),
         helpers.SOURCE / "scripts/installcheck")
