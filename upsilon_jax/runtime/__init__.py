"""How the process uses the machine: devices, compilation, memory and signals.

Nothing here knows what is computed.
"""

import logging


def setup() -> None:
    """Settings of the whole process, for programs whose business is to train.

    Commands call it, and a notebook may, before anything else uses JAX. Freed memory
    stays with the process, compiled programs are kept on disk for the next start unless
    the user has chosen a place, and the first Ctrl-C or SIGTERM waits until training
    has saved.
    """
    import jax

    from upsilon_jax.runtime import compilation, folders, interrupts, memory

    memory.keep_freed()
    # jax adds the attributes of its config when it is imported.
    if not jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        try:
            compilation.enable_cache(folders.private_cache("compiled"))
        except OSError as error:
            message = "compiled programs are not kept: %s"
            logging.getLogger(__name__).warning(message, error)
    interrupts.install()
