r"""Your own photos: a folder with one sub-folder a class, and a folder of any images.

    python main.py --config=configs/folder.py --config.data.labeled=DIR \
        --config.data.unlabeled=DIR [--config.data.test=DIR]

It prints the classes, what it has chosen from your images (size, batch, epochs, K, γ),
how many files it could not use (`skipped.txt` in the workdir lists them with the
reason), its progress, and the test accuracy. Without `test` a fifth of the labeled
images is held out. How many of the unlabeled images show other classes need not be
known. docs/your_own_images.md goes through an example.

At most about 20,000 steps. The network is a WRN-16-2, half the work of the paper's: the
2,400 steps for 400 photos of 32×32 take about an hour on two CPU cores. Thousands of
photos at 64×64 want a GPU, and then `--config.model.depth=28` is worth its time.
"""

from upsilon_jax.config import own_data_config


def get_config(method: str = "upsilon"):
    """Fields that are None are chosen from the data; each can be given instead."""
    config = own_data_config("folder", method)
    for field in ("id_classes", "ood_classes", "ood_imbalance"):
        del config.data[field]  # nobody knows the classes of the unlabeled images
    return config
