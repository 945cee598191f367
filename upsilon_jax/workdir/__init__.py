"""What a run leaves on disk and shows while it goes on.

Nothing here trains. Importing this package loads neither jax nor orbax.
"""
