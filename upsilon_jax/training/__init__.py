"""Algorithm 1: from a config to a trained model. `loop.py` reads from top to bottom."""
