"""From results to tables and figures, and to the page of one run. Imports no jax."""
