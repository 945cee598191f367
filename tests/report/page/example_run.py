"""A finished run as it may lie on a disk, made without training."""

import numpy as np

from tests.workdir.test_schema import make_result
from upsilon_jax.config import load_config
from upsilon_jax.report.page.gallery import wanted_rows
from upsilon_jax.workdir import files
from upsilon_jax.workdir.findings import Findings, Seen, save
from upsilon_jax.workdir.schema import FORMAT, Entry, Labels, Manifest

CLASSES, OOD_CLASSES = ("cat", "dog", "cow"), ("car", "boat")


def make_manifest(classes=CLASSES, *, num_clusters=2, foreign_below=0.3, **fields):
    manifest = Manifest(
        format=FORMAT,
        classes=list(classes),
        ood_classes=list(OOD_CLASSES),
        image_shape=[8, 8, 3],
        mean=[0.5] * 3,
        std=[0.25] * 3,
        fit="crop",
        model={"name": "wide_resnet"},
        heads={},
        method={"name": "upsilon"},
        num_classes=len(classes),
        num_clusters=num_clusters,
        foreign_below=foreign_below,
        native=False,
        versions={"jax": "0.10.2"},
        split_digest="0" * 64,
        data_digest={},
    )
    return manifest._replace(**fields)


def make_seen(logits, truth, num_classes, paths=None):
    """What a model with these logits says; equations as in `Seen`."""
    logits = np.asarray(logits, np.float64)
    softmax = lambda x: np.exp(x - x.max(1, keepdims=True))
    f, among = softmax(logits), softmax(logits[:, :num_classes])
    f, among = f / f.sum(1, keepdims=True), among / among.sum(1, keepdims=True)
    label = among.argmax(1)
    score = f[np.arange(len(f)), label]
    top = f.argmax(1)
    count = len(logits)
    return Seen(
        index=np.arange(count, dtype=np.int64),
        path=np.array([""] * count if paths is None else paths, dtype=str),
        truth=np.asarray(truth, np.int32),
        label=label.astype(np.int32),
        probability=among.max(1, initial=0).astype(np.float32),
        id_score=score.astype(np.float32),
        log_odds=(np.log(score) - np.log1p(-score)).astype(np.float32),
        cluster=np.where(top < num_classes, -1, top - num_classes).astype(np.int32),
        logits=logits.astype(np.float32),
    )


def make_findings(
    *, num_classes=3, num_clusters=2, num_unlabeled=90, num_test=60, seed=0, paths=None
):
    """Images of C known and two foreign classes; the latter lean to the clusters."""
    rng = np.random.default_rng(seed)
    outputs = num_classes + num_clusters
    true = lambda count: np.arange(count) % (num_classes + 2)

    def logits(truth):
        lean = np.where(truth < num_classes, truth, num_classes + truth % 2) % outputs
        return rng.normal(size=(len(truth), outputs)) + 2.5 * np.eye(outputs)[lean]

    heap, test = true(num_unlabeled), true(num_test)
    unlabeled = make_seen(logits(heap), heap, num_classes, paths)
    chosen = np.where(unlabeled.cluster < 0, unlabeled.label, -1)
    chosen = np.where(unlabeled.id_score > 0.8, chosen, -1)
    explored = (unlabeled.id_score < 0.3) & (unlabeled.cluster >= 0)
    return Findings(
        unlabeled=unlabeled,
        test=make_seen(logits(test), test, num_classes),
        pseudo_label=np.where(explored, num_classes + unlabeled.cluster, chosen),
        features=rng.normal(size=(num_unlabeled, 6)).astype(np.float16),
        thumbnails=np.zeros((0, 8, 8, 3), np.uint8),
        thumbnail_of=np.zeros(0, np.int64),
    )


def make_run_result(manifest=None, **fields):
    """A result of the Υ-Model on a composed data set, with two epochs of history."""
    manifest = manifest or make_manifest()
    config = load_config("digits", "upsilon").to_dict()
    classes = [*manifest.classes, *manifest.ood_classes]
    config["data"] |= {
        "id_classes": tuple(manifest.classes),
        "ood_classes": tuple(manifest.ood_classes),
    }
    common = dict(
        config=config,
        classes=classes,
        accuracy=0.875,
        auroc=0.75,
        confusion=_confusion(len(manifest.classes), len(classes)),
        history=[
            Entry(1, 10, {"loss": 1.5, "labeled_loss": 1.5}, 0.5, 0.25),
            Entry(
                2,
                20,
                {"loss": 1.0, "labeled_loss": 0.75, "unlabeled_loss": 0.25},
                0.875,
                0.75,
                Labels(30, 18, 6, 12, ood_share=0.25, pseudo_accuracy=1.0),
                epoch_seconds=75.0,
            ),
        ],
    )
    return make_result(**common | fields)


def _confusion(num_classes, num_true):
    rows = np.full((num_true, num_classes), 2)
    np.fill_diagonal(rows, 16)
    return rows.tolist()


def write_run(
    workdir, *, result=None, manifest=None, findings=None, side=8, grey=False
):
    """Writes the files of a run; `findings=False` leaves these out."""
    manifest = manifest or make_manifest()
    result = result or make_run_result(manifest)
    workdir.mkdir(parents=True)
    files.write_json(workdir / files.CONFIG, result.config)
    files.write_json(workdir / files.MANIFEST, manifest)
    files.write_json(workdir / files.RESULT, result)
    if findings is not False:
        found = findings or make_findings()
        rows = wanted_rows(found, manifest)
        shape = (len(rows), side, side, 1 if grey else 3)
        pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        found = found._replace(thumbnails=pixels, thumbnail_of=rows)
        save(workdir / files.FINDINGS, found)
    return workdir
