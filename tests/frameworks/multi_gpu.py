#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch on all GPUs: kernels of NCCL, which wait for each other; results and times printed.

usage: multi_gpu.py [--device cuda|cpu] [--short] NAME...

In one process: one, peer, threads, workers. In a process for each GPU: reduce, ddp, fsdp. Those are started by
torchrun, or by tests/frameworks/gpus, which runs all of this.
"""
import argparse
import concurrent.futures
import os
import sys

import torch

sys.path.append(os.path.dirname(__file__))

import in_turn  # noqa: E402  (needs the path above)


class Parts:
    """Each method is a program; the devices are those that take part."""

    def __init__(self, options):
        self.cuda, self.short = options.device == "cuda", options.short
        count = torch.cuda.device_count() if self.cuda else int(os.environ.get("WORLD_SIZE", "2"))
        self.devices = [torch.device("cuda", i) if self.cuda else torch.device("cpu") for i in range(count)]

    def wait(self):
        for device in self.devices if self.cuda else []:
            torch.cuda.synchronize(device)

    def timed(self, name, step, iterations, wait=None):
        return in_turn.timed(name, step, iterations // 30 if self.short else iterations, wait or self.wait)

    # -- In one process ------------------------------------------------------------

    def one(self):
        """One thread issues to all GPUs, and each sum of NCCL waits for the kernels on the others."""
        parts = [torch.arange(4096, device=device, dtype=torch.int64) + i for i, device in enumerate(self.devices)]

        def step():
            for i, part in enumerate(parts):
                for _ in range(6):
                    part.mul_(1664525).add_(2 * i + 3)
            torch.cuda.nccl.all_reduce(parts)

        self.timed("all_reduce, one thread", step, 300)
        print("one", [part.sum().item() for part in parts])

    def peer(self):
        """Each GPU works on what another has sent it."""
        parts = [torch.arange(4096, device=device, dtype=torch.int64) for device in self.devices]

        def step():
            for i, part in enumerate(parts):
                for _ in range(6):
                    part.mul_(1664525).add_(i + 1)
                parts[(i + 1) % len(parts)].copy_(part, non_blocking=True)

        self.timed("copies between GPUs", step, 300)
        print("peer", [part.sum().item() for part in parts])

    def threads(self):
        """A thread for each GPU and step; their backward passes meet in NCCL."""
        first = self.devices[0]
        model = torch.nn.DataParallel(network(first), device_ids=self.devices)
        print("threads", self.timed("DataParallel", training(model, *batch(2, first)), 100).item())

    def workers(self):
        """A thread for each GPU trains a network of its own there; they begin their steps together."""
        pools = [concurrent.futures.ThreadPoolExecutor(1) for _ in self.devices]
        steps = [training(network(device), *batch(2 * i, device)) for i, device in enumerate(self.devices)]

        def some(step):
            for _ in range(3):
                step()
            return step()

        def step():
            futures = [pool.submit(some, own) for pool, own in zip(pools, steps)]
            return [future.result() for future in futures]

        losses = self.timed("a thread for each GPU", step, 80)
        print("workers", [loss.item() for loss in losses])

    # -- In a process for each GPU -------------------------------------------------

    def group(self):
        """This process's rank and GPU, when all have met."""
        rank = int(os.environ["LOCAL_RANK"])
        device, more = self.devices[rank], {}
        if self.cuda:
            torch.cuda.set_device(device)
            more["device_id"] = device
        if store := os.environ.get("MULTI_GPU_STORE"):
            more.update(init_method=f"file://{store}", rank=rank, world_size=int(os.environ["WORLD_SIZE"]))
        torch.distributed.init_process_group("nccl" if self.cuda else "gloo", **more)
        self.devices = [device]
        return rank, device

    def reduce(self):
        """Sums of NCCL between kernels, with nothing else."""
        rank, device = self.group()
        part = torch.arange(4096, device=device, dtype=torch.int64) + rank

        def step():
            for _ in range(6):
                part.mul_(1664525).add_(2 * rank + 3)
            torch.distributed.all_reduce(part)

        self.timed("all_reduce, a process each", step, 300)
        print(f"reduce {rank} {part.sum().item()}", flush=True)

    def train(self, name, wrap):
        """Prints the last loss, and the sum of what this process has of the parameters."""
        rank, device = self.group()
        model = wrap(network(device), device)
        loss = self.timed(name, training(model, *batch(2 * rank, device)), 200)
        parts = [getattr(part, "to_local", lambda part=part: part)() for part in model.parameters()]
        print(f"rank {rank} {loss.item()!r} {sum(part.double().sum().item() for part in parts)!r}", flush=True)

    def ddp(self):
        """Gradients are summed by NCCL in a stream of its own."""
        self.train("DistributedDataParallel", lambda model, device: torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[device] if self.cuda else None))

    def fsdp(self):
        """Each process has a part of the parameters; layers are gathered one by one."""
        from torch.distributed.fsdp import fully_shard

        def wrap(model, _):
            for layer in model:
                if isinstance(layer, torch.nn.Linear):
                    fully_shard(layer)
            return fully_shard(model)

        self.train("fully_shard", wrap)


def network(device):
    torch.manual_seed(1)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU())]
    return torch.nn.Sequential(*layers).to(device)


def batch(seed, device):
    return [torch.randn(32, 64, generator=torch.Generator().manual_seed(seed + i)).to(device) for i in range(2)]


def training(model, x, y):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--short", action="store_true", help="fewer steps")
    parser.add_argument("names", nargs="+", choices=("one", "peer", "threads", "workers", "reduce", "ddp", "fsdp"))
    options = parser.parse_args()
    for name in options.names:
        getattr(Parts(options), name)()
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
