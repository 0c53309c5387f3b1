# SPDX-License-Identifier: MIT
"""JAX: a compiled training step and unfused operations in a loop, results and times printed."""
import sys
import time

import jax
import jax.numpy as jnp


def loss(weights, x, y):
    for w in weights:
        x = jnp.tanh(x @ w)
    return jnp.mean((x - y) ** 2)


@jax.jit
def update(weights, x, y):
    return [w - 0.1 * g for w, g in zip(weights, jax.grad(loss)(weights, x, y))]


keys = jax.random.split(jax.random.PRNGKey(1), 8)
weights = [jax.random.normal(k, (64, 64)) * 0.1 for k in keys[:6]]
x, y = (jax.random.normal(k, (32, 64)) for k in keys[6:])
state = jnp.arange(1024, dtype=jnp.uint32)
for i in range(320):
    if i == 20:
        jax.block_until_ready((weights, state))
        start = time.perf_counter()
    weights = update(weights, x, y)
    state = state * jnp.uint32(1664525) + jnp.uint32(i)
jax.block_until_ready((weights, state))
print(f"time jax {(time.perf_counter() - start) / 300 * 1e6:.1f} us", file=sys.stderr)
print("loss", repr(float(loss(weights, x, y))))
print("state", int(state.astype(jnp.float32).sum()))
