"""From results to tables and figures. Nothing here imports jax."""
