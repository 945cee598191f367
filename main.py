"""Trains a config, or uses a run that was trained:  python main.py --help."""

from upsilon_jax.__main__ import start

if __name__ == "__main__":
    start()
