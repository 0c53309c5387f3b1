#!/bin/sh
# SPDX-License-Identifier: MIT
# Run by conda build, in a copy of the sources.
set -eu
autoreconf -fi
case ${target_platform:?conda sets it} in
linux-64) target=x86_64-linux ;;
linux-aarch64) target=sbsa-linux ;;
esac
./configure --prefix="$PREFIX" --with-cuda="$PREFIX/targets/$target" --with-inih="$SRC_DIR/inih" PYTHON="$PREFIX/bin/python"
make -j"${CPU_COUNT:-2}"
make install
