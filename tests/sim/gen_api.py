#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the simulated driver's doors from the CUDA headers.

usage: gen_api.py INCLUDE_DIR OUT_DIR CC...

impl.h  prototypes of sim_NAME for every driver function, weak: what no file
        defines is not modelled and answers CUDA_ERROR_NOT_SUPPORTED.
api.c   the exported functions, with the checks that all of them share, and the
        table that cuGetProcAddress searches.
"""
import pathlib
import re
import subprocess
import sys

BEFORE_INIT = {"cuInit", "cuDriverGetVersion", "cuGetErrorString", "cuGetErrorName",
               "cuGetProcAddress", "cuGetProcAddress_v2", "cuGetExportTable"}
# What the real driver lets a host function call, of the functions that its
# documentation forbids there without exception (seen with driver 580).
IN_CALLBACK = re.compile(r"cu(Stream(Query|Synchronize|Get\w+|IsCapturing|WaitEvent|WriteValue\d+|"
                         r"WaitValue\d+|AddCallback|BeginCapture\w*|EndCapture|Destroy)|"
                         r"Event(Query|Record\w*|Synchronize|Destroy|ElapsedTime)|"
                         r"ThreadExchangeStreamCaptureMode|"
                         r"Memset\w+Async|LaunchHostFunc|Graph(Launch|Upload|Exec\w+Params))")
NEWER = pathlib.Path(__file__).with_name("newer.h")
SOURCE = ("#define __CUDA_API_VERSION_INTERNAL\n"
          f'#include <cuda.h>\n#include <cudaProfiler.h>\n#include "{NEWER.resolve()}"\n')


def prototypes(include, cc):
    text = subprocess.run([*cc, "-E", "-P", "-x", "c", "-I", include, "-"], input=SOURCE,
                          capture_output=True, text=True, check=True).stdout
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", text)
    found = {}
    for name, args in re.findall(r"CUresult\s+(cu\w+)\s*\(([^()]*)\)\s*;", text):
        found[name] = " ".join(args.split())
    return found


def argument_names(args):
    if args in ("", "void"):
        return []
    return [re.search(r"(\w+)\s*(\[\w*\])?$", a.strip()).group(1) for a in args.split(",")]


def plain(name):
    return re.sub(r"_pt[sd][sz]$", "", name)


def base(name):
    return re.sub(r"_v\d+$", "", plain(name))


def newer():
    """(name, version, has it a per-thread form?) of what newer.h declares."""
    return [(name, int(version), bool(thread)) for name, version, thread in re.findall(
        r"^CUresult (cu\w+)\([^;]*\); +/\* (\d+)( ptsz)? \*/", NEWER.read_text(), re.M)]


def look_ups(include, names):
    """(base name, version, is per-thread, symbol), the versions from cudaTypedefs.h."""
    text = (pathlib.Path(include) / "cudaTypedefs.h").read_text()
    versions = {}
    for name, version, thread in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_pt[sd][sz])?\)", text):
        versions.setdefault(name, (set(), set()))[bool(thread)].add(int(version))
    for name, version, thread in newer():
        for variant in [False] + [True] * thread:
            versions.setdefault(base(name), (set(), set()))[variant].add(version)
    abis = {}
    for name in names:
        if name == plain(name):
            abis.setdefault(base(name), []).append(name)
    rows = []
    for name, symbols in sorted(abis.items()):
        symbols.sort(key=lambda s: int((re.search(r"_v(\d+)$", s) or [0, 1])[1]))
        legacy, thread = versions.get(name, ({4000}, set()))
        legacy = sorted(legacy)
        if len(legacy) > len(symbols):
            # A version that only names the arrival of the per-thread variant.
            legacy = [v for v in legacy if v not in thread or v != 7000]
        if len(legacy) != len(symbols):
            sys.exit(f"gen_api.py: {name}: versions {legacy} for {symbols}")
        rows += [(name, v, 0, s) for v, s in zip(legacy, symbols)]
        for v in sorted(thread):
            s = [s for u, s in zip(legacy, symbols) if u <= v][-1]
            variant = [n for n in (s + "_ptsz", s + "_ptds") if n in names]
            if not variant:
                sys.exit(f"gen_api.py: {s} has no per-thread variant")
            rows.append((name, v, 1, variant[0]))
    return rows


def main():
    include, out, cc = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    found = prototypes(include, cc)
    for name in re.findall(r"__CUDA_API_PT[SD][SZ]\((\w+)\)",
                           (pathlib.Path(include) / "cuda.h").read_text()):
        if name == "api" or any(name + s in found for s in ("_ptsz", "_ptds")):
            continue
        found[name + ("_ptds" if is_sync_copy(name) else "_ptsz")] = found[name]
    for name, _, thread in newer():
        if thread:
            found[name + "_ptsz"] = found[name]
    rows = look_ups(include, found)
    since = {}
    for _, version, _, symbol in rows:
        since[symbol] = min(version, since.get(symbol, version))

    head = "/* Written by gen_api.py. */\n"
    with open(out / "impl.h", "w") as f:
        f.write(head + "#pragma GCC visibility push(hidden)\n")
        for name, args in sorted(found.items()):
            if name == plain(name):
                f.write(f"CUresult sim_{name}({args}) __attribute__((weak));\n")
        f.write("#pragma GCC visibility pop\n")
    with open(out / "api.c", "w") as f:
        f.write(head + '#include "sim.h"\n\n')
        f.write("struct sim_api sim_apis[] = {\n")
        for name in sorted(found):
            flag = "true" if plain(name) in BEFORE_INIT else "false"
            callback = "true" if IN_CALLBACK.fullmatch(base(name)) else flag
            f.write(f'    {{"{name}", {since.get(name, 4000)}, {flag}, {callback}, 0, 0}},\n')
        f.write(f"}};\nconst unsigned sim_napis = {len(found)};\n\n")
        for i, (name, args) in enumerate(sorted(found.items())):
            thread = name != plain(name)
            call = f"sim_{plain(name)}({', '.join(argument_names(args))})"
            f.write(f"EXPORT CUresult {name}({args})\n{{\n")
            f.write(f"    CUresult r = sim_enter(&sim_apis[{i}], RETURN_ADDRESS);\n")
            f.write("    if (r != CUDA_SUCCESS)\n        return r;\n")
            f.write(f"    if (!sim_{plain(name)})\n        return CUDA_ERROR_NOT_SUPPORTED;\n")
            if thread:
                f.write("    sim_tls.per_thread = true;\n")
            f.write(f"    r = {call};\n")
            if thread:
                f.write("    sim_tls.per_thread = false;\n")
            left = "r" if plain(name) in BEFORE_INIT else "sim_leave(r)"
            f.write(f"    return {left};\n}}\n\n")
        f.write("const struct sim_look_up sim_look_ups[] = {\n")
        for name, version, thread, symbol in sorted(rows):
            f.write(f'    {{"{name}", {version}, {thread}, (void *){symbol}}},\n')
        f.write(f"}};\nconst unsigned sim_nlook_ups = {len(rows)};\n")


def is_sync_copy(name):
    return bool(re.match(r"cu(Memcpy|Memset)", name)) and not re.search(r"Async", name)


if __name__ == "__main__":
    main()
