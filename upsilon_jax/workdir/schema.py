"""What `result.json` and `manifest.json` hold: every field with its type and meaning.

No other file spells the names of these fields; `records.py` reads and writes them.
`docs/result.md` is made from here:

    python -m upsilon_jax.workdir > docs/result.md
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

FORMAT = 2  # of both files; a file of another one is refused

FINISHED, DIVERGED = "finished", "diverged"


class Imbalance(NamedTuple):
    """How unevenly plain argmax labels fall on the classes (appendix C).

    Known only where the true classes of D_u are.
    """

    kl_id: Annotated[float | None, "KL of the labels of ID images from uniform"] = None
    ratio_id: Annotated[float | None, "their largest over their smallest count"] = None
    kl_ood: Annotated[float | None, "the same for OOD images"] = None
    ratio_ood: Annotated[float | None, "the same for OOD images"] = None


class Foreign(NamedTuple):
    """About how many images of D_u are of none of the classes (an estimate)."""

    share: Annotated[float, "estimated share, 0 to 1"]
    low: Annotated[float, "the true share is probably not below this"]
    high: Annotated[float, "nor above this"]
    threshold: Annotated[float, "ID confidence below which that share of D_u lies"]


class OpenSet(NamedTuple):
    """What others measure on test images of ID and foreign classes (EMA model).

    Foreign are the test images of the OOD classes, "unseen" those of `data.unseen`. ID
    confidence tells them apart.
    """

    balanced_accuracy: Annotated[
        float | None,
        "mean recall of the ID classes and of all foreign images as one more class; "
        "predicted as foreign is what lies below `foreign_below`",
    ] = None
    calibration_error: Annotated[
        float | None, "of ID images, expected, in 15 bins of equal width"
    ] = None
    accuracy_all: Annotated[
        float | None,
        "over all classes, outputs and classes matched to one another (Hungarian); "
        "null without clusters",
    ] = None
    accuracy_old: Annotated[float | None, "the same on ID images"] = None
    accuracy_new: Annotated[float | None, "the same on foreign images"] = None
    fpr95: Annotated[
        float | None, "share of foreign images that pass where 95 % of ID images do"
    ] = None
    aupr: Annotated[
        float | None, "average precision, ID images positive, against foreign ones"
    ] = None
    unseen_auroc: Annotated[float | None, "`auroc` against unseen images"] = None
    unseen_fpr95: Annotated[float | None, "`fpr95` against unseen images"] = None
    unseen_aupr: Annotated[float | None, "`aupr` against unseen images"] = None


class Labels(NamedTuple):
    """The pseudo-labels P at the end of an epoch.

    Between two refreshes P stays as it is, and so do these values; `num_changed` stands
    only in epochs that end with a refresh. Fields that need the truth, or clusters, are
    absent without them.
    """

    num_selected: Annotated[int, "images of D_u in P"]
    num_confident: Annotated[int, "those with the label of an ID class"]
    per_class: Annotated[int, "the least count of an ID class, the paper's N"]
    num_explored: Annotated[int, "those with the label of a cluster, the paper's M"]
    ood_share: Annotated[float | None, "share of ID labels on OOD images"] = None
    pseudo_accuracy: Annotated[float | None, "of ID labels on ID images"] = None
    num_changed: Annotated[
        int | None, "images whose label, or lack of one, the refresh changed"
    ] = None
    cluster_counts: Annotated[
        list[int] | None, "images with the label of each cluster"
    ] = None
    effective_clusters: Annotated[
        float | None, "so many equal clusters would have the entropy of their sizes"
    ] = None
    explored_precision: Annotated[
        float | None, "share of OOD images among those with the label of a cluster"
    ] = None
    explored_recall: Annotated[
        float | None, "share of all OOD images that have the label of a cluster"
    ] = None
    cluster_purity: Annotated[
        float | None,
        "of these OOD images, the share whose class is the commonest of its cluster",
    ] = None
    cluster_nmi: Annotated[
        float | None,
        "normalised mutual information of their clusters and classes, 0 to 1",
    ] = None


class Entry(NamedTuple):
    """An epoch of `history`.

    In the file the fields of `metrics`, `labels` and `imbalance` are not nested, and
    those without a value are left out.
    """

    epoch: Annotated[int, "its number, from 1"]
    step: Annotated[int, "optimizer steps taken at its end"]
    metrics: Annotated[
        dict[str, float],
        "means over the steps of the epoch, as the method names them; `loss` always",
    ]
    accuracy: Annotated[float | None, "of the EMA model on ID test images"] = None
    accuracy_live: Annotated[float | None, "of the live model on them"] = None
    labels: Annotated[Labels | None, "of methods that have P"] = None
    imbalance: Annotated[Imbalance | None, "where D_u was predicted"] = None
    foreign_share: Annotated[
        float | None, "estimated share of foreign images in D_u, where it was predicted"
    ] = None
    train_seconds: Annotated[float, "in the train steps"] = 0.0
    refresh_seconds: Annotated[float, "in the refresh"] = 0.0
    evaluate_seconds: Annotated[float, "in the evaluation"] = 0.0
    epoch_seconds: Annotated[float, "since the last entry, with the checkpoint"] = 0.0


class Result(NamedTuple):
    """The contents of `result.json`."""

    format: Annotated[int, f"of this file: {FORMAT}"]
    status: Annotated[str, "`finished`, or `diverged` if the loss was not finite"]
    seed: Annotated[int, "of the split, the initial weights and all else"]
    config: Annotated[dict[str, Any], "every field, none left open"]
    classes: Annotated[list[str], "ID classes in the order of labels, then OOD classes"]
    accuracy: Annotated[
        float | None,
        "of the EMA model on test images of the ID classes, 0 to 1, mean of the last "
        "`train.report_epochs` epochs",
    ]
    accuracy_live: Annotated[float | None, "the same of the live model"]
    confusion: Annotated[
        list[list[int]] | None,
        "[classes, ID classes] counts of all test images: true by predicted class",
    ]
    auroc: Annotated[
        float | None, "how well ID confidence tells ID from OOD test images"
    ]
    imbalance: Annotated[Imbalance | None, "of the last EMA model on D_u"]
    diverged_step: Annotated[int | None, "the first step whose loss was not finite"]
    resumed_from: Annotated[list[int], "steps from which the run went on"]
    split_digest: Annotated[str, "sha256 of the split"]
    params_digest: Annotated[
        str, "sha256 of parameters, statistics, their averages and optimizer state"
    ]
    native: Annotated[bool, "whether C++ code ran; it rounds otherwise than XLA"]
    versions: Annotated[dict[str, str], "of what decides the numbers"]
    history: Annotated[list[Entry], "an entry for every epoch"]
    accuracy_last: Annotated[
        float | None, "`accuracy` of the last epoch alone, whose weights are saved"
    ] = None
    warnings: Annotated[
        list[str] | None, "what looked wrong with the pseudo-labels, and when"
    ] = None
    data_digest: Annotated[
        dict[str, str] | None, "of summaries: what `manifest.json` says of the data"
    ] = None
    unlabeled_confusion: Annotated[
        list[list[int]] | None,
        "of summaries: [classes, ID classes] counts of D_u, true by predicted class",
    ] = None
    foreign: Annotated[
        Foreign | None, "how much of D_u the last EMA model takes for foreign"
    ] = None
    open_set: Annotated[
        OpenSet | None, "what others measure on ID and foreign test images"
    ] = None


class Seeds(NamedTuple):
    """What training several seeds returns; each has a `result.json` of its own."""

    status: Annotated[str, "`finished` if all of them are"]
    accuracy: Annotated[float | None, "mean over those that finished"]
    accuracy_live: Annotated[float | None, "the same of the live model"]
    seeds: Annotated[list[Result], "the result of each"]


class Manifest(NamedTuple):
    """The contents of `manifest.json`: what a checkpoint needs to be used anywhere."""

    format: Annotated[int, f"of this file: {FORMAT}"]
    classes: Annotated[list[str], "the ID classes in the order of labels"]
    ood_classes: Annotated[list[str], "the OOD classes, where they have names"]
    image_shape: Annotated[list[int], "height, width, channels"]
    mean: Annotated[list[float], "per channel, of images in 0 to 1"]
    std: Annotated[list[float], "per channel"]
    fit: Annotated[str, "how an image is brought to that shape"]
    model: Annotated[dict[str, Any], "the fields `model.*` of the config"]
    heads: Annotated[dict[str, Any], "the outputs of the network, by name"]
    method: Annotated[dict[str, Any], "the fields `method.*` of the config"]
    num_classes: Annotated[int, "C, the number of ID classes"]
    num_clusters: Annotated[int, "K, the further outputs of the head `logits`"]
    foreign_below: Annotated[
        float | None, "ID confidence below which an image counts as foreign; γ"
    ]
    native: Annotated[bool, "whether C++ code ran; it rounds otherwise than XLA"]
    versions: Annotated[dict[str, str], "of what decides the numbers"]
    split_digest: Annotated[str, "sha256 of the split"]
    data_digest: Annotated[dict[str, str], "sha256 of names and contents of the data"]


# Records that are not nested: their fields stand next to those of their holder.
GROUPS = {Entry: {"labels": Labels, "imbalance": Imbalance}}
