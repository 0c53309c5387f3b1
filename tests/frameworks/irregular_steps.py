# SPDX-License-Identifier: MIT
"""Small programs of which every step has other sizes, and some of everyday calls, whose steps hardly change;
tests/frameworks/irregular runs them.

usage: irregular_steps.py NAME: says "ready", or "missing" and why. Then each line of the input is a number of steps;
the answer is "took", the seconds, and a checksum of all results so far.
"""
import itertools
import os
import random
import sys
import time
import zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # PyTorch's deterministic algorithms need it
NODES = (200, 2000)
CACHE = 256  # tokens
WORDS = 1000


class Checksum:
    """Of all arrays so far."""

    def __init__(self):
        self.value = 0

    def add(self, array):
        self.value = zlib.crc32(array.tobytes(), self.value)


def prepared_torch():
    import torch
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    return torch


def served(torch, call):
    """A program that reads the result of every call, as a server does."""
    checksum = Checksum()

    def step():
        with torch.inference_mode():
            checksum.add(call().cpu().numpy())

    return step, torch.cuda.synchronize, lambda: checksum.value


def trained(torch, model, batch):
    """A program that trains on batch after batch, and does not wait."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        inputs, target = batch()
        torch.nn.functional.mse_loss(model(*inputs), target).backward()
        optimizer.step()

    def result():
        checksum = Checksum()
        for parameter in model.parameters():
            checksum.add(parameter.detach().cpu().numpy())
        return checksum.value

    return step, torch.cuda.synchronize, result


# -- Programs -------------------------------------------------------------------------

def encoder():
    """Hugging Face Transformers: a BERT of 4 layers; each call has 16 to 512 tokens, half a multiple of 8."""
    import transformers
    torch = prepared_torch()
    config = transformers.BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4,
                                     intermediate_size=1024, vocab_size=WORDS)
    model = transformers.BertModel(config).to("cuda").eval()
    tokens = torch.randint(WORDS, (1, 512))
    chance = random.Random(1)

    def call():
        length = chance.randint(16, 512)
        if chance.random() < 0.5:
            length -= length % 8
        return model(tokens[:, :length].to("cuda")).pooler_output

    return served(torch, call)


def graphs():
    """PyTorch: training of a graph network; messages by gather and index_add, 200 to 2,000 nodes a batch."""
    torch = prepared_torch()
    width = 64

    class Network(torch.nn.Module):
        """Three rounds of messages along the edges."""

        def __init__(self):
            super().__init__()
            self.messages, self.own = (
                torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(3)) for _ in range(2))

        def forward(self, x, source, target):
            for message, own in zip(self.messages, self.own):
                sums = torch.zeros_like(x).index_add(0, target, message(x)[source])
                x = torch.relu(own(x) + sums * 0.25)
            return x

    def batch(nodes):
        edges = torch.randint(nodes, (2, 4 * nodes))
        return [each.to("cuda") for each in (torch.randn(nodes, width), edges[0], edges[1],
                                             torch.randn(nodes, width))]

    chance = random.Random(1)
    batches = [batch(chance.randint(*NODES)) for _ in range(64)]

    def choose():
        *inputs, target = chance.choice(batches)
        return inputs, target

    return trained(torch, Network().to("cuda"), choose)


def generation():
    """PyTorch: a language model of 4 layers; a token a step, which the program reads, and a cache that grows."""
    torch = prepared_torch()
    width, heads = 256, 4
    functional = torch.nn.functional

    class Block(torch.nn.Module):
        """A layer, which gets and returns its keys and values."""

        def __init__(self):
            super().__init__()
            self.before_attention, self.before_network = (torch.nn.LayerNorm(width) for _ in range(2))
            self.project, self.join = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.network = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                               torch.nn.Linear(4 * width, width))

        def forward(self, x, cache):
            query, *new = self.project(self.before_attention(x)).view(1, 1, 3, heads, -1).permute(2, 0, 3, 1, 4)
            cache = [torch.cat(pair, dim=2) for pair in zip(cache, new)] if cache else new
            mixed = functional.scaled_dot_product_attention(query, *cache)
            x = x + self.join(mixed.transpose(1, 2).reshape(1, 1, width))
            return x + self.network(self.before_network(x)), cache

    embedding, positions = (torch.nn.Embedding(count, width).to("cuda") for count in (WORDS, CACHE))
    blocks = torch.nn.ModuleList(Block() for _ in range(4)).to("cuda").eval()
    out = torch.nn.Linear(width, WORDS).to("cuda")
    numbers = torch.arange(CACHE, device="cuda")
    steps = itertools.count()
    token, caches = None, []

    def call():
        nonlocal token, caches
        texts, place = divmod(next(steps), CACHE)
        if place == 0:
            token, caches = torch.tensor([[texts % WORDS]], device="cuda"), [None] * len(blocks)
        x = embedding(token) + positions(numbers[place:place + 1])
        for i, block in enumerate(blocks):
            x, caches[i] = block(x, caches[i])
        token = out(x).argmax(-1)
        return token

    return served(torch, call)


def batches():
    """PyTorch: training of a network of 6 layers on batches of 1 to 256."""
    torch = prepared_torch()
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())]
    data, wanted = (torch.randn(2048, 64).to("cuda") for _ in range(2))
    chance = random.Random(1)

    def batch():
        size = chance.randint(1, 256)
        first = chance.randrange(len(data) - size)
        return [data[first:first + size]], wanted[first:first + size]

    return trained(torch, torch.nn.Sequential(*layers).to("cuda"), batch)


def arrays():
    """CuPy: element-wise work on arrays that grow from 1,000 to 50,000 numbers, then begin anew."""
    import cupy
    total = cupy.zeros(50_000, dtype=cupy.float32)
    steps = itertools.count()

    def step():
        size = 1000 + next(steps) * 37 % 49_000
        x = cupy.arange(size, dtype=cupy.float32)
        for _ in range(4):
            x = cupy.sqrt(x * 0.5 + 1.0)
        total[:size] += x

    def result():
        checksum = Checksum()
        checksum.add(total.get())
        return checksum.value

    return step, cupy.cuda.Device().synchronize, result


def grids():
    """Numba: two kernels in turn, over 1 to 16,384 numbers."""
    import numpy
    if not hasattr(numpy, "row_stack"):  # newer than some Numba, which names it
        numpy.row_stack = numpy.vstack
    import warnings
    from numba import cuda
    from numba.core.errors import NumbaPerformanceWarning
    warnings.simplefilter("ignore", NumbaPerformanceWarning)  # short kernels are what is measured

    @cuda.jit
    def mix(data, size, k):
        i = cuda.grid(1)
        if i < size:
            data[i] = data[i] * numpy.uint32(1664525) + k

    @cuda.jit
    def fold(data, other, size):
        i = cuda.grid(1)
        if i < size:
            other[i] += data[size - 1 - i]

    data, other = (cuda.to_device(numpy.arange(16_384, dtype=numpy.uint32)) for _ in range(2))
    chance = random.Random(1)

    def step():
        for k in range(4):
            size = chance.randint(1, len(data))
            blocks = (size + 255) // 256
            mix[blocks, 256](data, numpy.uint32(size), numpy.uint32(k))
            fold[blocks, 256](data, other, numpy.uint32(size))

    def result():
        checksum = Checksum()
        checksum.add(data.copy_to_host())
        checksum.add(other.copy_to_host())
        return checksum.value

    return step, cuda.synchronize, result


def constant():
    """timm: a MobileNetV3 for one image of 224 x 224, always. Nothing changes."""
    import timm
    torch = prepared_torch()
    model = timm.create_model("mobilenetv3_small_100", pretrained=False).to("cuda").eval()
    image = torch.randn(1, 3, 224, 224, device="cuda")
    return served(torch, lambda: model(image))


def images():
    """torchvision: a ResNet-18 for one image of 64 to 224 pixels a side, in steps of 16."""
    import torchvision
    torch = prepared_torch()
    model = torchvision.models.resnet18(weights=None).to("cuda").eval()
    image = torch.randn(1, 3, 224, 224, device="cuda")
    chance = random.Random(1)

    def call():
        height, width = (chance.randrange(64, 225, 16) for _ in range(2))
        return model(image[:, :, :height, :width])

    return served(torch, call)


# -- Programs of everyday calls: library calls, numbers read back, small uploads -----------

def training():
    """torchvision: training of a ResNet-18 on batches of 4 images of 64 x 64."""
    import torchvision
    torch = prepared_torch()
    data = [torch.randn(*shape, device="cuda") for shape in ((4, 3, 64, 64), (4, 1000))]
    return trained(torch, torchvision.models.resnet18(weights=None).to("cuda"), lambda: (data[:1], data[1]))


def cells():
    """PyTorch: training of an LSTM cell, called 16 times in a Python loop."""
    torch = prepared_torch()

    class Unrolled(torch.nn.Module):
        """A cell, and what it says in the end."""

        def __init__(self):
            super().__init__()
            self.cell, self.out = torch.nn.LSTMCell(64, 128), torch.nn.Linear(128, 8)

        def forward(self, x):
            state = None
            for part in x:
                state = self.cell(part, state)
            return self.out(state[0])

    data = [torch.randn(*shape, device="cuda") for shape in ((16, 8, 64), (8, 8))]
    return trained(torch, Unrolled().to("cuda"), lambda: (data[:1], data[1]))


def lbfgs():
    """PyTorch: a network of 2 layers fitted by LBFGS, which reads numbers back; anew every 16 steps."""
    torch = prepared_torch()
    x, y = (torch.randn(256, 16, device="cuda") for _ in range(2))
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16)).to("cuda")
    first = [parameter.detach().clone() for parameter in model.parameters()]
    steps, checksum, optimizer = itertools.count(), Checksum(), None

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    def step():
        nonlocal optimizer
        if next(steps) % 16 == 0:
            with torch.no_grad():
                for parameter, value in zip(model.parameters(), first):
                    parameter.copy_(value)
            optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
        checksum.add(optimizer.step(closure).detach().cpu().numpy())

    return step, torch.cuda.synchronize, lambda: checksum.value


def process():
    """GPyTorch: the hyperparameters of a Gaussian process of 100 points, by Adam."""
    import gpytorch
    torch = prepared_torch()

    class Process(gpytorch.models.ExactGP):
        """A constant mean, and a scaled RBF kernel."""

        def __init__(self, x, y, likelihood):
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    x = torch.linspace(0, 1, 100, device="cuda")
    y = torch.sin(6 * x)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(x, y, likelihood).to("cuda").train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loss_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    checksum = Checksum()

    def step():
        optimizer.zero_grad()
        loss = -loss_of(model(x), y)
        loss.backward()
        checksum.add(loss.detach().cpu().numpy())
        optimizer.step()

    return step, torch.cuda.synchronize, lambda: checksum.value


def rollout():
    """PyTorch: a policy of 3 layers; each step uploads what it sees, and reads its choice back."""
    torch = prepared_torch()
    layers = [layer for width in (8, 64, 64) for layer in (torch.nn.Linear(width, 64), torch.nn.Tanh())]
    policy = torch.nn.Sequential(*layers, torch.nn.Linear(64, 4)).to("cuda").eval()
    checksum, seen = Checksum(), torch.zeros(1, 8)

    def step():
        with torch.inference_mode():
            choice = policy(seen.to("cuda")).argmax().item()
        seen.mul_(0.9)
        seen[0, 2 * choice] += 1
        seen[0, 1] = choice / 4
        checksum.add(seen.numpy())

    return step, torch.cuda.synchronize, lambda: checksum.value


PROGRAMS = {each.__name__: each for each in
            (encoder, graphs, generation, batches, arrays, grids, constant, images,
             training, cells, lbfgs, process, rollout)}


# -- Turns ----------------------------------------------------------------------------

def serve(program):
    """Makes as many steps as each line of the input says, and answers with their time and the checksum."""
    try:
        step, wait, result = program()
    except ImportError as problem:
        print("missing", problem, flush=True)
        return
    print("ready", flush=True)
    for line in iter(sys.stdin.readline, ""):
        start = time.perf_counter()
        for _ in range(int(line)):
            step()
        wait()
        seconds = time.perf_counter() - start
        print("took", seconds, f"{result():08x}", flush=True)


if __name__ == "__main__":
    serve(PROGRAMS[sys.argv[1]])
