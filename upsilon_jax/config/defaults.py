"""Every field of a config with its default: the paper's common setting.

A benchmark's file states only what differs; `presets.py` adds `method.*`.
Durations are in epochs; an epoch is one pass over the unlabeled set.
"""

import ml_collections
from ml_collections.config_dict import placeholder


def get_config() -> ml_collections.ConfigDict:
    """The defaults; `data.name` and the classes come from a benchmark's file."""
    config = ml_collections.ConfigDict()
    config.seed = 0  # split, initialisation and all randomness of training

    data = config.data = ml_collections.ConfigDict()
    data.name = ""  # a source of upsilon_jax.data: digits, cifar10 ...
    data.data_dir = placeholder(str)  # where tfds keeps its data; None: tfds's default
    data.id_classes = ("",)  # names of the classes to learn
    data.ood_classes = ("",)  # names of the foreign classes
    data.labels_per_class = 400  # labeled images of each ID class
    data.num_unlabeled = 20_000  # |D_u|
    data.mismatch = 0.5  # share of D_u that comes from OOD classes, 0 to 1
    data.ood_imbalance = 1.0  # largest over smallest OOD class in D_u
    data.valid_per_class = 0  # held-out ID images a method may ask for, if any are left
    data.image_size = placeholder(int)  # None: the source's own
    data.augmentation = "paper"  # paper | randaug | weak | none
    data.flip = True  # horizontal flips as part of the augmentation
    data.pseudo_batches = "selected"  # unlabeled batches from P only, or "masked"
    data.residency = "auto"  # images on the device: auto | resident | stream
    data.prefetch_bytes = 256 * 2**20  # of pixels read ahead when streamed

    model = config.model = ml_collections.ConfigDict()
    model.name = "wide_resnet"
    model.depth = 28
    model.width = 2
    model.dtype = "float32"  # of the computation; parameters stay float32
    model.bn_decay = 0.999  # of the running BatchNorm statistics; lower in short runs

    train = config.train = ml_collections.ConfigDict()
    train.epochs = 400
    train.pretrain_epochs = 50  # E_pt: supervised before the first pseudo-labels
    train.refresh_epochs = 2  # E_pl: between two refreshes of the pseudo-labels
    train.batch_size = 128  # labeled rows of a step, and as many unlabeled ones
    train.learning_rate = 3e-3  # Adam
    train.lr_schedule = "step"  # a fifth of it after 80 % of training, or "constant"
    train.ema_decay = 0.999  # of the average of the weights that is evaluated
    train.report_epochs = 20  # the reported accuracy is the mean of so many last epochs
    train.save_epochs = 1  # between two checkpoints
    train.keep_checkpoints = 3
    train.log_steps = 50  # between two looks at the loss, the only waits for the device
    train.num_seeds = 1  # seed, seed + 1, ..., each in a folder seed_S of its own
    train.steps_per_call = placeholder(int)  # None: 1 on a CPU, else 8 in one dispatch
    return config
