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

from ml_collections.config_dict import placeholder

from upsilon_jax.config import defaults as base
from upsilon_jax.config.presets import with_method


def get_config(method: str = "upsilon"):
    """Fields that are None are chosen from the data; each can be given instead."""
    config = base.get_config()
    data = config.data
    data.name = "folder"
    data.labeled = placeholder(str)  # folder with one sub-folder a class
    data.unlabeled = placeholder(str)  # folder with any images, at any depth
    data.test = placeholder(str)  # like labeled; None holds out a fifth of it
    data.channels = placeholder(int)  # 1 or 3
    for field in ("id_classes", "ood_classes", "ood_imbalance"):
        del data[field]  # nobody knows the classes of the unlabeled images
    return with_own_data(config, method)


def with_own_data(config, method: str):
    """What all data of one's own share; `configs/npz.py` has it too."""
    config.data.labels_per_class = 0  # all there are
    config.data.num_unlabeled = 0  # all there are
    config.data.mismatch = placeholder(float)  # not known
    config.model.update(depth=16, width=2, bn_decay=0.95)
    train = config.train
    train.ema_decay = 0.99  # runs may have but a few hundred steps
    # Chosen from the number of images and classes (upsilon_jax/data/defaults.py).
    train.batch_size = placeholder(int)
    train.epochs = placeholder(int)
    train.pretrain_epochs = placeholder(int)
    chosen = dict(num_clusters=placeholder(int), ood_threshold=placeholder(float))
    return with_method(config, method, pseudo_label=chosen)
