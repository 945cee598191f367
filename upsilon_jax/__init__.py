"""Class-mismatched semi-supervised learning in JAX."""

from upsilon_jax.types import PseudoLabels

__all__ = ["PseudoLabels"]
__version__ = "0.1.0"
