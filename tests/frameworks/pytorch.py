# SPDX-License-Identifier: MIT
"""PyTorch: training of a small network, steps of small transformers; results and times printed.

usage: pytorch.py [network] [encoder] [elementwise] [transformer]: what is run, by default all.
"""
import os
import sys

import torch

sys.path.append(os.path.dirname(__file__))

import in_turn  # noqa: E402  (needs the path above)

torch.manual_seed(1)
device = torch.device("cuda")


def timed(name, step, iterations):
    return in_turn.timed(name, step, iterations, torch.cuda.synchronize)


def training(optimizer_class, **options):
    model = torch.nn.Sequential(*[layer for _ in range(6) for layer in
                                  (torch.nn.Linear(64, 64), torch.nn.GELU())]).to(device)
    optimizer = optimizer_class(model.parameters(), **options)
    x, y = torch.randn(32, 64, device=device), torch.randn(32, 64, device=device)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    loss = timed(f"training {optimizer_class.__name__}", step, 200)
    print(f"training {optimizer_class.__name__} {loss.item()!r}")
    print(f"weights {sum(p.double().sum().item() for p in model.parameters())!r}")


def inference():
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).to(device).eval()
    state = torch.randn(2, 16, 64, device=device)

    def step():
        with torch.no_grad():
            return model(state)

    print(f"inference {timed('inference', step, 200).double().sum().item()!r}")


def elementwise():
    x = torch.arange(1024, device=device, dtype=torch.int64)

    def step():
        for k in range(16):
            x.mul_(1664525).add_(k)
        return x

    print(f"elementwise {timed('elementwise', step, 500).sum().item()}")


class Block(torch.nn.Module):
    """A layer of a language model: causal attention, then a network of two layers."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_network = (torch.nn.LayerNorm(width) for _ in range(2))
        self.project, self.join = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.network = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                           torch.nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        queries, keys, values = self.project(self.before_attention(x)).view(
            batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.network(self.before_network(x))


def transformer():
    """A language model of 4 layers of 128: forward steps, then training steps."""
    vocabulary, width = 512, 128
    model = torch.nn.Sequential(torch.nn.Embedding(vocabulary, width), *(Block(width, 4) for _ in range(4)),
                                torch.nn.LayerNorm(width), torch.nn.Linear(width, vocabulary)).to(device)
    tokens = torch.randint(vocabulary, (4, 33), device=device)
    words, following = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)

    def forward():
        with torch.no_grad():
            return model(words)

    print(f"transformer inference {timed('transformer inference', forward, 400).double().sum().item()!r}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(words).view(-1, vocabulary), following)
        loss.backward()
        optimizer.step()
        return loss

    print(f"transformer training {timed('transformer training', step, 200).item()!r}")


def network():
    training(torch.optim.SGD, lr=0.01)
    training(torch.optim.Adam, lr=0.001)


PARTS = {"network": network, "encoder": inference, "elementwise": elementwise, "transformer": transformer}
for part in sys.argv[1:] or PARTS:
    PARTS[part]()
