# SPDX-License-Identifier: MIT
"""Spack's recipe. It goes into packages/libautograph/ of a repository of recipes (spack repo create)."""
from spack.package import *


class Libautograph(AutotoolsPackage):
    """Makes an unmodified CUDA program submit its repeating work as CUDA graphs, by a preloaded library."""

    license("MIT")

    # A release gets its address and checksum here. Without one, in a checkout:
    # spack dev-build libautograph@0.1.0
    version("0.1.0")

    depends_on("c", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.7:", type=("build", "run"))
    resource(name="inih", git="https://github.com/benhoyt/inih.git", tag="r58", placement="inih")
    depends_on("cuda@12.4:", type="build")  # headers, and nvcc for one kernel

    conflicts("platform=darwin", msg="libautograph runs on Linux")

    def configure_args(self):
        return [f"--with-cuda={self.spec['cuda'].prefix}", f"--with-inih={self.stage.source_path}/inih",
                f"PYTHON={self.spec['python'].command.path}"]

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def installcheck(self):
        make("installcheck")
