# SPDX-License-Identifier: MIT
"""JAX: a compiled training step and unfused operations in a loop, results and times printed."""
import itertools
import os
import sys

import jax
import jax.numpy as jnp

sys.path.append(os.path.dirname(__file__))
from in_turn import timed  # noqa: E402  (needs the path above)


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

steps = itertools.count()


def step():
    global weights, state
    weights = update(weights, x, y)
    state = state * jnp.uint32(1664525) + jnp.uint32(next(steps))


timed("jax", step, 300, lambda: jax.block_until_ready((weights, state)))
print("loss", repr(float(loss(weights, x, y))))
print("state", int(state.sum(dtype=jnp.uint32)))
