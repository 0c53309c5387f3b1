# SPDX-License-Identifier: MIT
"""PyTorch: training of a small network and steps of a small transformer, results and times printed."""
import sys
import time

import torch

torch.manual_seed(1)
device = torch.device("cuda")


def timed(name, step, iterations):
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(iterations):
        result = step()
    torch.cuda.synchronize()
    print(f"time {name} {(time.perf_counter() - start) / iterations * 1e6:.1f} us", file=sys.stderr)
    return result


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


training(torch.optim.SGD, lr=0.01)
training(torch.optim.Adam, lr=0.001)
inference()
elementwise()
