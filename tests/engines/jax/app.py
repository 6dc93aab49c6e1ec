"""Compiles a made-up network forward and backward by JAX, and tells what its persistent cache did.

By default JAX keeps only what took longer than a second to compile. Here it keeps all (spec.startKit), so that what is found
does not depend on how busy the machine is.
"""

import json
import time

import jax
import jax.numpy as jnp

LAYERS = 48
WIDTH = 64
counted = {"/jax/compilation_cache/cache_hits": 0, "/jax/compilation_cache/cache_misses": 0}
spent = {"/jax/core/compile/backend_compile_duration": 0.0}


def count(event, **_):
    if event in counted:
        counted[event] += 1


def add(event, seconds, **_):
    if event in spent:
        spent[event] += seconds


def forward(weights, x):
    for number, weight in enumerate(weights):
        x = jnp.tanh(x @ weight) + (number + 1) * jnp.sin(x)
    return jnp.sum(x * x)


def main():
    jax.monitoring.register_event_listener(count)
    jax.monitoring.register_event_duration_secs_listener(add)
    keys = jax.random.split(jax.random.key(0), LAYERS)
    weights = [jax.random.normal(key, (WIDTH, WIDTH)) for key in keys]
    began = time.monotonic()
    jax.jit(jax.value_and_grad(forward))(weights, jnp.ones((8, WIDTH)))[0].block_until_ready()
    print(json.dumps({
        "release": jax.__version__,
        "seconds": time.monotonic() - began,
        "compile_seconds": sum(spent.values()),
        "hits": counted["/jax/compilation_cache/cache_hits"],
        "misses": counted["/jax/compilation_cache/cache_misses"],
    }))


if __name__ == "__main__":
    main()
