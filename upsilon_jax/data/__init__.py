"""Data sets, splits, samplers and batches: numpy and tfds, never jax.

Nothing here knows of configs or of training.
"""

from upsilon_jax.data.source import Source, load_source

__all__ = ["Source", "load_source"]
