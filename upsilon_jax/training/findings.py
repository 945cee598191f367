"""What a finished run found: the EMA weights on all of D_u and on the test images."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from upsilon_jax.data.thumbnails import make_thumbnails
from upsilon_jax.inference import metrics
from upsilon_jax.inference.predicted import columns
from upsilon_jax.report.open_set import measure_open_set
from upsilon_jax.report.page.gallery import wanted_rows
from upsilon_jax.runtime import sharding
from upsilon_jax.training.refresh import predict, predict_images, predict_sets
from upsilon_jax.training.setup import Run
from upsilon_jax.types import Outputs, TrainState
from upsilon_jax.workdir.findings import Findings, Seen
from upsilon_jax.workdir.schema import Foreign, Manifest


class Found(NamedTuple):
    """What the passes at the end of a run give."""

    findings: Findings
    foreign: Foreign | None  # about how much of D_u is foreign
    unseen: np.ndarray | None = None  # [m] log-odds of the images of `data.unseen`


def find(run: Run, state: TrainState) -> Found:
    """One pass over D_u and one over the test images of all classes; no thumbnails.

    The processes predict together, so each of them has to call this.
    """
    unlabeled, test = run.splits.unlabeled, np.flatnonzero(run.test_classes >= 0)
    sets, where = predict_sets(run, state.ema)
    outputs = sets.unlabeled
    test_outputs = predict(run, state.ema, "test", test)
    labels = run.method.selection(state.method)
    nothing = np.full(len(unlabeled), -1, np.int32)
    found = Findings(
        unlabeled=_seen(run, "train", unlabeled, run.hidden, outputs["logits"]),
        test=_seen(run, "test", test, run.test_classes[test], test_outputs["logits"]),
        pseudo_label=nothing if labels is None else metrics.labels_of(labels),
        features=_features(outputs, len(unlabeled)),
        thumbnails=np.empty((0, *run.source.image_shape), np.uint8),
        thumbnail_of=np.empty(0, np.int64),
        test_features=_features(test_outputs, len(test)),
    )
    foreign = metrics.measure_foreign(sets, run.splits.num_classes, where)
    return Found(found, foreign, _log_odds_of_unseen(run, state))


def _features(outputs: Outputs, count: int) -> np.ndarray:
    return sharding.fetch(outputs["features"].astype(jnp.float16))[:count]


def _log_odds_of_unseen(run: Run, state: TrainState) -> np.ndarray | None:
    if run.unseen is None:
        return None
    logits = predict_images(run, state.ema, run.unseen)["logits"]
    logits = sharding.fetch(logits)[: len(run.unseen)]
    return columns(logits, run.splits.num_classes).log_odds


def _seen(run: Run, split: str, index: np.ndarray, truth: np.ndarray, logits) -> Seen:
    logits = np.asarray(sharding.fetch(logits)[: len(index)], np.float32)
    paths = run.source.paths
    return Seen(
        index=index.astype(np.int64),
        path=np.array([paths[split][i] if paths else "" for i in index], np.str_),
        truth=truth.astype(np.int32),
        logits=logits,
        **columns(logits, run.splits.num_classes)._asdict(),
    )


def final_measures(
    run: Run, found: Found, foreign_below: float | None
) -> dict[str, Any]:
    """Fields of a result that are measured once, at the end.

    `foreign_below` is the ID confidence below which an image counts as foreign.
    """
    findings = found.findings
    num_classes = run.splits.num_classes
    logits, label = findings.test.logits, findings.test.truth
    confusion = metrics.confusion(logits, label, num_classes, len(run.splits.classes))
    imbalance = None
    if run.truth_is_known:
        imbalance = metrics.measure_imbalance(
            findings.unlabeled.logits, run.hidden, num_classes
        )
    return {
        "confusion": confusion.tolist(),
        "auroc": metrics.id_auroc(logits, label, num_classes),
        "imbalance": imbalance,
        "foreign": found.foreign,
        "open_set": measure_open_set(
            findings.test, num_classes, foreign_below, found.unseen
        ),
    }


def with_thumbnails(run: Run, findings: Findings, manifest: Manifest) -> Findings:
    """The same with a small picture of every image that the report shows."""
    rows = wanted_rows(findings, manifest)
    num_unlabeled = len(findings.unlabeled.index)
    of_test = rows >= num_unlabeled
    index = np.concatenate([findings.unlabeled.index, findings.test.index])[rows]
    wanted = [
        ("test" if t else "train", i) for t, i in zip(of_test, index, strict=True)
    ]
    pictures, made = make_thumbnails(run.source, wanted)
    return findings._replace(thumbnails=pictures, thumbnail_of=rows[made])
