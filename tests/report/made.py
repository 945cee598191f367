"""Results that never ran, for tests of tables and figures."""

import json
import pathlib

import numpy as np

from tests.workdir.test_schema import make_result
from upsilon_jax.config import load_config
from upsilon_jax.report.runs import as_runs
from upsilon_jax.workdir.findings import Findings, Seen
from upsilon_jax.workdir.records import plain
from upsilon_jax.workdir.schema import Entry, Imbalance, Labels


def result(method, mismatch, accuracy, seed=0, config="digits", fields=None, **record):
    """A result of a config's method; `fields` are changed in the config."""
    made = load_config(config, method)
    made.seed, made.data.mismatch = seed, mismatch
    made.update_from_flattened_dict(fields or {})
    record = {"accuracy": accuracy, "params_digest": f"{accuracy}", **record}
    return make_result(config=plain(made.to_dict()), seed=seed, **record)


def runs(*results):
    """Runs of results, each in a file of its own."""
    folder = pathlib.Path("runs")
    return as_runs((folder / f"{i}" / "result.json", r) for i, r in enumerate(results))


def write(folder, *results):
    """Writes each result into a folder of its own."""
    for number, one in enumerate(results):
        (folder / f"{number}").mkdir(parents=True)
        path = folder / f"{number}" / "result.json"
        path.write_text(json.dumps(plain(one)), "utf-8")


def history(method, epochs=6, seconds=1.0):
    """Epochs whose labels behave as the paper says."""
    falls = method != "pl"
    entries = []
    for epoch in range(1, epochs + 1):
        share = max(0.0, 0.8 - 0.1 * epoch) if falls else 0.4 + 0.05 * epoch
        labels = Labels(120, 100, 10, 20, ood_share=share, pseudo_accuracy=0.9)
        entries.append(
            Entry(
                epoch,
                10 * epoch,
                {"loss": 1.0 / epoch},
                accuracy=0.5 + 0.01 * epoch,
                labels=labels,
                train_seconds=seconds,
                refresh_seconds=0.1 * seconds,
            )
        )
    return entries


CLASSES = ["bird", "cat", "deer", "dog", "frog", "horse"]
CLASSES += ["airplane", "automobile", "ship", "truck"]


def desk(method, mismatch, accuracy, seed=0, **more):
    """A result of CIFAR-10 at the scale of a desk, with all that figures ask for."""
    rng = np.random.default_rng(seed)
    confusion = rng.integers(20, 60, (10, 6))
    confusion[np.arange(6), np.arange(6)] += 300
    confusion[6:, 0] += 200
    measured = {
        "classes": CLASSES,
        "confusion": confusion.tolist(),
        "auroc": 0.6 + 0.01 * seed,
        "imbalance": Imbalance(0.01 + 0.001 * seed, 1.5, 0.3 + 0.01 * seed, 18.0),
        "history": history(method),
    }
    config = more.pop("config", "cifar10_desk")
    return result(method, mismatch, accuracy, seed, config, **{**measured, **more})


def _seen(rng, truth, logits):
    label = logits[:, :6].argmax(1).astype(np.int32)
    count, zeros = len(truth), np.zeros(len(truth), np.float32)
    return Seen(
        index=np.arange(count),
        path=np.full(count, ""),
        truth=truth.astype(np.int32),
        label=label,
        probability=zeros,
        id_score=rng.random(count, np.float32),
        log_odds=zeros,
        cluster=np.full(count, -1, np.int32),
        logits=logits.astype(np.float32),
    )


def found(seed=0, mismatch=0.5, count=300, tested=200):
    """Of a network that knows most ID images and takes most others for birds."""
    rng = np.random.default_rng(seed)

    def seen(truth):
        centers = np.concatenate([4 * np.eye(6), np.eye(6)[[0, 0, 0, 4]] * 3])
        return _seen(rng, truth, centers[truth] + rng.normal(size=(len(truth), 6)))

    foreign = round(mismatch * count)
    truth = np.concatenate([np.arange(count - foreign) % 6, 6 + np.arange(foreign) % 4])
    unlabeled, test = seen(truth), seen(np.arange(tested) % 10)
    return Findings(
        unlabeled=unlabeled,
        test=test,
        pseudo_label=np.full(count, -1, np.int32),
        features=np.tile(unlabeled.logits, 2).astype(np.float16),
        thumbnails=np.zeros((0, 8, 8, 3), np.uint8),
        thumbnail_of=np.zeros(0, np.int64),
        test_features=np.tile(test.logits, 2).astype(np.float16),
    )
