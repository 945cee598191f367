"""Data sets, splits, samplers and batches: numpy and tfds, never jax."""

from upsilon_jax.data.source import DataNotPrepared, Source, load_source

__all__ = ["DataNotPrepared", "Source", "load_source"]
