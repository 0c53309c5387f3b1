# SPDX-License-Identifier: MIT
"""Hugging Face Transformers: greedy generation by a GPT-2 with random weights, tokens and times printed."""
import os
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402  (the variable must be set before)
import transformers  # noqa: E402

torch.manual_seed(1)
config = transformers.GPT2Config(n_layer=6, n_head=8, n_embd=512, vocab_size=5000, n_positions=512)
model = transformers.GPT2LMHeadModel(config).to("cuda").eval()
prompt = torch.randint(5000, (1, 16), device="cuda")


def generate(count):
    with torch.no_grad():
        return model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count,
                              min_new_tokens=count, do_sample=False, pad_token_id=0)


generate(32)
torch.cuda.synchronize()
start = time.perf_counter()
tokens = [generate(128) for _ in range(3)]
torch.cuda.synchronize()
print(f"time a token {(time.perf_counter() - start) / (3 * 128) * 1e6:.1f} us", file=sys.stderr)
print("tokens", [row.tolist() for each in tokens for row in each])
