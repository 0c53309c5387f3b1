# SPDX-License-Identifier: MIT
"""What the commands say where the driver is the simulated one, and of a program that is not written for it."""
import re
import subprocess

import pytest

import compiled
import helpers
from commands import LOOP, WIDE, module

SAYS = module("simulated")

# With a kernel that the simulated driver does not have; it makes a context only as it is told.
STRANGER = r"""
#include <cuda.h>
#include <stdio.h>

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry add_vectors(.param .u64 a)\n{\n    ret;\n}\n";

int main(int argc, char **argv)
{
    CUcontext context;
    CUmodule module;
    CUfunction function;
    const char *text = "no context";
    CUresult result = cuInit(0);
    (void)argv;
    if (result == CUDA_SUCCESS && argc == 1 &&
        (result = cuDevicePrimaryCtxRetain(&context, 0)) == CUDA_SUCCESS &&
        (result = cuCtxSetCurrent(context)) == CUDA_SUCCESS &&
        (result = cuModuleLoadData(&module, ptx)) == CUDA_SUCCESS)
        result = cuModuleGetFunction(&function, module, "add_vectors");
    if (result != CUDA_SUCCESS)
        (void)cuGetErrorString(result, &text);
    fprintf(stderr, "stranger: %s\n", text);
    return 1;
}
"""


@pytest.fixture
def raw(tmp_path):
    """Runs the command there, with all that it says."""
    def run(*arguments, status=0, sim=True, env=None):
        env = {"AGSIM_DELAY_US": "0", "LD_PRELOAD": helpers.sanitizer_runtime(), **helpers.HELD, **WIDE, **(env or {})}
        return helpers.run([helpers.build_dir() / "autograph", *arguments], preload=False, sim=sim, env=env,
                           status=status, cwd=tmp_path)
    return run


def said(done):
    """How often a process has said that the driver is simulated, in whatever words."""
    return len(re.findall("the simulated one|he simulated driver runs", done.stdout + done.stderr))


def test_each_command_says_so_once(raw):
    assert raw("--report", "--trace", *LOOP).stderr.startswith(f"autograph: {SAYS.NOTE}\n")
    trace = "autograph-0.trace"
    for command in (["--disable", *LOOP], ["doctor"], ["doctor", LOOP[0]], ["report"], ["trace", trace],
                    ["trace", trace, "--chrome", "c.json"], ["compare", trace, trace], ["bench", "--runs", "1", "--", *LOOP],
                    ["verify", "--filter", "us_per.*", "--", *LOOP]):
        assert said(raw(*command)) == 1, command
    assert said(raw("trace", trace, "--chrome", "-")) == 1


def test_nothing_is_said_of_another_driver(raw, tmp_path):
    """One that lies before it, and a trace of a GPU."""
    (tmp_path / "libcuda.so.1").write_bytes(b"another")
    assert not SAYS.is_found({"LD_LIBRARY_PATH": f"{tmp_path}:{helpers.sim_dir()}"})
    assert not SAYS.is_found({"LD_LIBRARY_PATH": str(tmp_path)}) and not SAYS.is_found({})
    assert SAYS.is_found({"LD_LIBRARY_PATH": f"/nowhere:{helpers.sim_dir()}"})
    assert raw("true", sim=False, env={"LD_LIBRARY_PATH": None}).stderr == ""


@pytest.mark.parametrize("arguments, made", [([], "launched nothing"), (["idle"], "made no context, and launched nothing")])
def test_a_program_of_a_stranger(raw, arguments, made):
    """It ends by its own error. All that the commands say leads there, and to a GPU."""
    program = compiled.text(STRANGER)
    done = raw("--report", program, *arguments, status=1)
    assert SAYS.NOTE in done.stderr and ("stranger: " + ("no context" if arguments else "named symbol not found")) in done.stderr
    report = raw("report").stdout
    assert f"The program {made} that the library could see." in report
    assert "Next: Look at the program's own errors" in report
    assert SAYS.ONLY in report
    assert said(raw("bench", "--", program, *arguments, status=2)) == 1
    assert raw("verify", "--", program, *arguments).stdout.endswith(
        "It launched nothing: so this says little; autograph report says why. The driver is the simulated one.\n")
    doctor = raw("doctor", program, status=1).stdout
    assert "Not useful: the driver here is the simulated one, and the program has no kernels for it" in doctor


def test_a_program_that_nvcc_has_compiled(raw, tmp_path):
    """With its own kernel, as a newcomer tries it."""
    nvcc = helpers.config()["nvcc"]
    if not nvcc:
        pytest.skip("there is no nvcc")
    (tmp_path / "add.cu").write_text("""#include <cstdio>
__global__ void add_vectors(const float *a, const float *b, float *c) { c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }
int main()
{
    float *a = nullptr;
    cudaError_t error = cudaMalloc(&a, 3 * 256 * sizeof(float));
    if (error == cudaSuccess) {
        add_vectors<<<1, 256>>>(a, a + 256, a + 512);
        error = cudaGetLastError();
    }
    fprintf(stderr, "%s\\n", cudaGetErrorString(error));
    return error != cudaSuccess;
}
""")
    subprocess.run([nvcc, "-o", tmp_path / "add", tmp_path / "add.cu"], check=True, capture_output=True)
    assert "named symbol not found" in raw("--report", tmp_path / "add", status=1).stderr
    assert SAYS.ONLY in raw("report").stdout
    raw("doctor", tmp_path / "add", status=1)
