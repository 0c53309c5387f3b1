# SPDX-License-Identifier: MIT
"""The networks that tests/frameworks/variants.py measures: WORKLOADS makes each from a size.

A network is a module, its inputs, and what its output should be in training (None: it is not trained).
Size "small" is bound by launches, "full" fills a GPU, "tiny" is for tests.
"""
import torch
from torch import nn

SIZES = ("tiny", "small", "full")


def pick(size, *values):
    return values[SIZES.index(size)]


class Block(nn.Module):
    """A layer of a language model: causal attention, then a network of two layers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_network = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def split(self, x):
        batch, length, width = x.shape
        parts = self.project(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        return parts.permute(2, 0, 3, 1, 4)

    def finish(self, x, mixed):
        x = x + self.join(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.network(self.before_network(x))

    def forward(self, x):
        queries, keys, values = self.split(x)
        return self.finish(x, attention(queries, keys, values, x.shape[1]))

    def step(self, x, keys, values, position, allowed):
        """One token; keys and values of earlier ones are in the cache."""
        query, key, value = self.split(x)
        keys.index_copy_(2, position, key)
        values.index_copy_(2, position, value)
        return self.finish(x, mix(query, keys, values, allowed))


def mix(queries, keys, values, allowed):
    if hasattr(nn.functional, "scaled_dot_product_attention"):
        return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed)
    weights = (queries @ keys.transpose(-1, -2)) * queries.shape[-1] ** -0.5
    return weights.masked_fill(~allowed, float("-inf")).softmax(-1) @ values


def attention(queries, keys, values, length):
    if hasattr(nn.functional, "scaled_dot_product_attention"):
        return nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return mix(queries, keys, values, torch.ones(length, length, dtype=torch.bool, device=queries.device).tril())


def transformer(size):
    vocabulary, width, layers, batch, length = pick(size, (64, 32, 1, 1, 8), (512, 128, 4, 4, 32),
                                                    (8192, 1024, 12, 16, 512))
    model = nn.Sequential(nn.Embedding(vocabulary, width), *(Block(width, width // 32) for _ in range(layers)),
                          nn.LayerNorm(width), nn.Linear(width, vocabulary))
    return model, (torch.randint(vocabulary, (batch, length)),), torch.randn(batch, length, vocabulary)


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.path = nn.Sequential(nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
                                  nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        self.beside = nn.Conv2d(before, after, 1, stride) if stride > 1 or before != after else nn.Identity()

    def forward(self, x):
        return torch.relu(self.path(x) + self.beside(x))


def resnet(size):
    """18 layers, as the smallest of its authors."""
    width, batch, side = pick(size, (4, 1, 16), (32, 4, 32), (64, 64, 112))
    layers = [nn.Conv2d(3, width, 3, 1, 1), nn.BatchNorm2d(width), nn.ReLU()]
    before = width
    for stage in range(4):
        after = width << stage
        layers += [Residual(before, after, 1 if stage == 0 else 2), Residual(after, after, 1)]
        before = after
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))
    return model, (torch.randn(batch, 3, side, side),), torch.randn(batch, 10)


class Gnn(nn.Module):
    """Messages along edges, their sum at each node, and an update of the node."""

    def __init__(self, width, layers):
        super().__init__()
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.updates = nn.ModuleList(nn.GRUCell(width, width) for _ in range(layers))

    def forward(self, nodes, sources, targets):
        for message, update in zip(self.messages, self.updates):
            sent = torch.relu(message(torch.cat([nodes[sources], nodes[targets]], 1)))
            nodes = update(torch.zeros_like(nodes).index_add(0, targets, sent), nodes)
        return nodes


def gnn(size):
    width, layers, nodes, edges = pick(size, (8, 1, 10, 20), (64, 4, 500, 2000), (256, 4, 200000, 800000))
    ends = torch.randint(nodes, (2, edges))
    return Gnn(width, layers), (torch.randn(nodes, width), ends[0], ends[1]), torch.randn(nodes, width)


class Lstm(nn.Module):
    """Cells in a loop of Python: a launch or two for each step of the sequence."""

    def __init__(self, width):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(width, width), nn.Linear(width, width)

    def forward(self, sequence):
        state = (torch.zeros_like(sequence[0]), torch.zeros_like(sequence[0]))
        for x in sequence:
            state = self.cell(x, state)
        return self.out(state[0])


def lstm(size):
    width, length, batch = pick(size, (8, 4, 2), (128, 32, 16), (2048, 32, 1024))
    return Lstm(width), (torch.randn(length, batch, width),), torch.randn(batch, width)


class NeuralOde(nn.Module):
    """Steps of Runge and Kutta's method of order 4 with a network as the derivative."""

    def __init__(self, width, steps):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                                   nn.Linear(width, width))
        self.steps = steps

    def forward(self, y):
        h = 1 / self.steps
        for _ in range(self.steps):
            a = self.field(y)
            b = self.field(y + h / 2 * a)
            c = self.field(y + h / 2 * b)
            d = self.field(y + h * c)
            y = y + h / 6 * (a + 2 * b + 2 * c + d)
        return y


def neural_ode(size):
    width, steps, batch = pick(size, (8, 2, 2), (64, 10, 128), (2048, 10, 8192))
    return NeuralOde(width, steps), (torch.randn(batch, width),), torch.randn(batch, width)


class Unet(nn.Module):
    """A network that takes noise out of an image, told of the time by an embedding."""

    def __init__(self, width, levels):
        super().__init__()
        widths = [width << level for level in range(levels)]
        self.first, self.last = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, 3, 3, 1, 1)
        self.time = nn.ModuleList(nn.Linear(1, w) for w in widths)
        self.down = nn.ModuleList(self.block(a, b) for a, b in zip([width, *widths], widths))
        self.up = nn.ModuleList(self.block(2 * w if k else w, widths[max(levels - 2 - k, 0)])
                                for k, w in enumerate(reversed(widths)))

    @staticmethod
    def block(before, after):
        return nn.Sequential(nn.Conv2d(before, after, 3, 1, 1), nn.GroupNorm(4, after), nn.SiLU(),
                             nn.Conv2d(after, after, 3, 1, 1), nn.GroupNorm(4, after), nn.SiLU())

    def forward(self, image, time):
        x, kept = self.first(image), []
        for level, (block, embedding) in enumerate(zip(self.down, self.time)):
            x = block(nn.functional.avg_pool2d(x, 2) if level else x) + embedding(time)[:, :, None, None]
            kept.append(x)
        x = kept.pop()
        for level, block in enumerate(self.up):
            x = block(torch.cat([x, kept.pop()], 1) if level else x)
            if kept:
                x = nn.functional.interpolate(x, scale_factor=2.0)
        return self.last(x)


def unet(size):
    width, levels, batch, side = pick(size, (4, 2, 1, 8), (32, 4, 4, 32), (64, 4, 32, 128))
    return (Unet(width, levels), (torch.randn(batch, 3, side, side), torch.rand(batch, 1)),
            torch.randn(batch, 3, side, side))


class Generator(nn.Module):
    """A language model that takes one token and gives the next; keys and values stay where they are."""

    def __init__(self, vocabulary, width, layers, length):
        super().__init__()
        self.embedding, self.out = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.blocks = nn.ModuleList(Block(width, width // 32) for _ in range(layers))
        self.register_buffer("places", torch.arange(length))
        self.register_buffer("cache", torch.zeros(layers, 2, 1, width // 32, length, 32))

    def forward(self, token, position):
        x, allowed = self.embedding(token)[None], self.places <= position
        for block, (keys, values) in zip(self.blocks, self.cache):
            x = block.step(x, keys, values, position, allowed)
        best = self.out(x)[0].argmax(-1)
        token.copy_(best)
        position.add_(1).remainder_(len(self.places))
        return best


def generation(size):
    vocabulary, width, layers, length = pick(size, (64, 32, 1, 16), (512, 256, 6, 256), (32000, 2048, 24, 1024))
    return (Generator(vocabulary, width, layers, length),
            (torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)), None)


WORKLOADS = {"transformer": transformer, "ResNet": resnet, "GNN": gnn, "LSTM": lstm, "neural ODE": neural_ode,
             "UNet": unet, "generation": generation}
