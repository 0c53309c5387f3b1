# SPDX-License-Identifier: MIT
"""JAX without jit: each operation is a call of its own. Results and times are printed."""
import os
import sys

import jax
import jax.numpy as jnp

sys.path.append(os.path.dirname(__file__))
from in_turn import timed  # noqa: E402  (needs the path above)

keys = jax.random.split(jax.random.PRNGKey(1), 6)
weights = [jax.random.normal(k, (64, 64)) * 0.1 for k in keys[:4]]
x, y = (jax.random.normal(k, (32, 64)) for k in keys[4:])


def forward(state):
    for w in weights:
        state = jnp.tanh(state @ w) * 0.9 + state * 0.1
    return state


def step():
    """A step of Runge and Kutta; its error is read back."""
    global x
    first = forward(x)
    second = forward(x + 0.05 * first)
    x = x + 0.1 * second
    return float(jnp.mean((x - y) ** 2))


error = timed("jax_eager", step, 300, lambda: jax.block_until_ready(x))
print("error", repr(error))
print("state", repr(float(x.sum())))
