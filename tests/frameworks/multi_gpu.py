# SPDX-License-Identifier: MIT
"""PyTorch on two GPUs: kernels of NCCL, which wait for each other; results and times printed.

usage: multi_gpu.py [one] [peer] [threads]; torchrun --nproc_per_node 2 multi_gpu.py
"""
import os
import sys

import torch

sys.path.append(os.path.dirname(__file__))

import in_turn  # noqa: E402  (needs the path above)

DEVICES = [torch.device("cuda", i) for i in range(2)]


def wait():
    for device in DEVICES:
        torch.cuda.synchronize(device)


def one():
    """One thread issues to both GPUs, and each sum of NCCL waits for the kernel on the other."""
    parts = [torch.arange(4096, device=device, dtype=torch.int64) + i for i, device in enumerate(DEVICES)]

    def step():
        for part, k in zip(parts, (3, 5)):
            for _ in range(6):
                part.mul_(1664525).add_(k)
        torch.cuda.nccl.all_reduce(parts)

    in_turn.timed("all_reduce, one thread", step, 300, wait)
    print("one", [part.sum().item() for part in parts])


def peer():
    """Each GPU works on what the other has sent it."""
    parts = [torch.arange(4096, device=device, dtype=torch.int64) for device in DEVICES]

    def step():
        for i in range(2):
            for _ in range(6):
                parts[i].mul_(1664525).add_(i + 1)
            parts[1 - i].copy_(parts[i], non_blocking=True)

    in_turn.timed("copies between GPUs", step, 300, wait)
    print("peer", [part.sum().item() for part in parts])


def network(device):
    torch.manual_seed(1)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())]
    return torch.nn.Sequential(*layers).to(device)


def training(model, x, y):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def threads():
    """A thread for each GPU and step; their backward passes meet in NCCL."""
    x, y = (torch.randn(32, 64, generator=torch.Generator().manual_seed(i)).to(DEVICES[0]) for i in (2, 3))
    step = training(torch.nn.DataParallel(network(DEVICES[0]), device_ids=[0, 1]), x, y)
    print("threads", in_turn.timed("DataParallel", step, 100, wait).item())


def ranks():
    """A process for each GPU; gradients are summed by NCCL in a stream of its own."""
    import torch.distributed
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", device_id=DEVICES[rank])
    x, y = (torch.randn(32, 64, generator=torch.Generator().manual_seed(2 * rank + i)).to(DEVICES[rank])
            for i in range(2))
    model = torch.nn.parallel.DistributedDataParallel(network(DEVICES[rank]), device_ids=[rank])
    loss = in_turn.timed("DistributedDataParallel", training(model, x, y), 200, torch.cuda.synchronize)
    print(f"rank {rank} {loss.item()!r} {sum(p.double().sum().item() for p in model.parameters())!r}", flush=True)
    torch.distributed.destroy_process_group()


if "LOCAL_RANK" in os.environ:
    ranks()
else:
    parts = {"one": one, "peer": peer, "threads": threads}
    for part in sys.argv[1:] or parts:
        parts[part]()
