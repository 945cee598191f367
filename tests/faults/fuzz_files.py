"""Files from others, damaged or made up: what they say, or one line; never code."""

import functools
import io
import json
import pickle
import types
import zipfile

import jax
import jax.export
import numpy as np

from tests.data.conftest import framed
from tests.faults import mutations
from tests.report.page.example_run import make_manifest, make_run_result
from upsilon_jax.data import load_source, records
from upsilon_jax.errors import DataError, UserError, WorkdirError
from upsilon_jax.inference import export
from upsilon_jax.inference.described import check_manifest
from upsilon_jax.inference.saved import shapes_of
from upsilon_jax.report.layout import FORMATS
from upsilon_jax.report.measures import MEASURES
from upsilon_jax.report.overview import overview
from upsilon_jax.report.page.index import write_index
from upsilon_jax.report.results import read_runs
from upsilon_jax.workdir import records as json_records
from upsilon_jax.workdir.schema import Foreign, Manifest, OpenSet, Result
from upsilon_jax.workdir.summary import summary

RUN = []  # gets an entry if something that a file holds is run


class Bomb:
    """What a pickle may hold."""

    def __reduce__(self):
        return RUN.append, (1,)


def one_line(error):
    said = str(error)
    assert said and "\n" not in said.strip() and len(said) < 600, said
    assert not RUN


@functools.cache
def arrays():
    rng = np.random.default_rng(0)
    images = lambda count: rng.integers(0, 256, (count, 5, 4, 3)).astype(np.uint8)
    return {
        "x_train": images(6),
        "y_train": np.array([0, 0, 1, 1, 2, 2]),
        "x_test": images(3),
        "y_test": np.array([0, 1, 2]),
        "x_unlabeled": images(4),
        "class_names": np.array(["a", "b", "c"]),
    }


@functools.cache
def archive():
    file = io.BytesIO()
    np.savez_compressed(file, **arrays())
    return file.getvalue()


def npz_bytes(rng, folder):
    """An archive with changed bytes: its checksums find out, or nothing has changed."""
    path = folder / "a.npz"
    path.write_bytes(mutations.of_bytes(rng, archive()))
    try:
        source = load_source("npz", path=str(path))
    except DataError as error:
        one_line(error)
        return 1, 0
    found = source.read("train", np.arange(6))
    np.testing.assert_array_equal(found, arrays()["x_train"])
    return 1, 1


ARRAYS = (
    *(
        np.zeros(0),
        np.zeros((6, 5, 4, 3)),
        np.zeros((6, 5, 4, 2), np.uint8),
        np.array(3),
    ),
    *(
        np.zeros((6, 0, 4, 3), np.uint8),
        np.full(6, -1),
        np.full(6, 2**62),
        np.arange(6),
    ),
    *(
        np.full(6, np.nan),
        np.array(list("aabbcc")),
        np.zeros((6, 1), int),
        np.array("x"),
    ),
    *(np.array(["a", "a", "b"]), np.array(["", "\0", "\ud800"]), np.zeros(6, bool)),
    *(np.array([Bomb()], object), np.zeros(3, [("a", "i4")]), np.zeros(2, "M8[s]")),
)


def npz_arrays(rng, folder):
    """Sound archives with other arrays: data to train on, or one line."""
    made = dict(arrays())
    for _ in range(rng.integers(1, 3)):
        name = list(arrays())[rng.integers(len(arrays()))]
        if rng.random() < 0.2:
            made.pop(name, None)
        elif rng.random() < 0.3:
            made[name] = rng.permutation(arrays()[name])
        else:
            made[name] = ARRAYS[rng.integers(len(ARRAYS))]
    path = folder / "b.npz"
    np.savez(path, **made)
    try:
        source = load_source("npz", path=str(path))
    except UserError as error:
        one_line(error)
        return 1, 0
    labels = source.train_labels
    assert labels.max() < len(source.class_names) == len(set(source.class_names))
    assert source.read("train", np.arange(len(labels))).shape[1:] == source.image_shape
    assert not RUN
    return 1, 1


@functools.cache
def tfrecord():
    rng = np.random.default_rng(0)
    return [rng.bytes(size) for size in (0, 1, 3, 70, 200)]


def tfrecords(rng, folder):
    """A tfrecord file with changed bytes: found out, or the very same records."""
    path, whole = folder / "a.tfrecord", tfrecord()
    path.write_bytes(mutations.of_bytes(rng, b"".join(map(framed, whole))))
    split = types.SimpleNamespace(filepaths=[path], num_examples=len(whole))
    info = types.SimpleNamespace(splits={"train": split})
    builder = types.SimpleNamespace(info=info, data_path=folder)
    try:
        found = records._TfRecords(builder, "train").__getitems__(range(len(whole)))
    except DataError as error:
        one_line(error)
        return 1, 0
    # Records that are whole may have changed places.
    assert set(found) <= set(whole)
    return 1, 1


MODEL = {"name": "wide_resnet", "depth": 10, "width": 1, "dtype": "float32"}
MANIFEST = make_manifest(
    ["a", "b"],
    num_clusters=1,
    ood_classes=["c"],
    image_shape=[8, 8, 1],
    mean=[0.5],
    std=[0.5],
    fit="stretch",
    model={**MODEL, "bn_decay": 0.9},
    heads={"logits": {"size": 3}},
    data_digest={"train": "0"},
)


def written(rng, value, path):
    """The value as JSON, something in it changed; rarely the bytes, not the values."""
    if rng.random() < 0.8:
        for _ in range(rng.integers(1, 3)):
            value = mutations.of_json(rng, value)
        path.write_text(json.dumps(value), "utf-8")
    else:
        path.write_bytes(mutations.of_bytes(rng, json.dumps(value).encode()))


def manifests(rng, folder):
    """manifest.json: a network that can be built, or one line."""
    path = folder / "manifest.json"
    written(rng, json_records.plain(MANIFEST), path)
    try:
        manifest = json_records.read(Manifest, path)
        check_manifest(manifest, str(path))
        shapes_of(manifest)
    except WorkdirError as error:
        one_line(error)
        return 1, 0
    return 1, 1


RESULT = make_run_result(
    foreign=Foreign(0.5, 0.4, 0.6, 0.3), open_set=OpenSet(balanced_accuracy=0.5)
)


def results(rng, folder):
    """result.json: a record that all readers can tell of, or one line."""
    path = folder / "result.json"
    value = json_records.plain(RESULT)
    if rng.random() < 0.5:  # a small part of the file, and much is read of it
        value["config"] = mutations.of_json(rng, value["config"])
    written(rng, value, path)
    try:
        result = json_records.plain(json_records.read(Result, path))
    except WorkdirError as error:
        one_line(error)
        return 1, 0
    assert json_records.plain(json_records.parse(Result, result, "")) == result
    summary(result, folder)
    table = overview(read_runs(folder), MEASURES["accuracy"])
    for written_as in FORMATS.values():
        written_as(table)
    write_index(folder)
    return 1, 1


@functools.cache
def exported():
    """(manifest as text, program) of a tiny function."""
    logits = lambda x: x.reshape(x.shape[0], 64)[:, :3].astype(np.float32)
    (batch,) = jax.export.symbolic_shape("batch")
    images = jax.ShapeDtypeStruct((batch, 8, 8, 1), np.uint8)
    program = bytes(jax.export.export(jax.jit(logits))(images).serialize())
    return json.dumps(json_records.plain(MANIFEST)).encode(), program


def packed(text, program):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(export.MANIFEST, text)
        opened.writestr(export.PROGRAM, program)
        opened.writestr(export.DIGEST, export._digest(text, program))
    return file.getvalue()


def export_bytes(rng, folder):
    """An exported model with changed bytes: found out, or nothing has changed."""
    path = folder / "model"
    path.write_bytes(mutations.of_bytes(rng, packed(*exported())))
    try:
        manifest, _ = export.read_export(path)
    except WorkdirError as error:
        one_line(error)
        return 1, 0
    assert manifest == MANIFEST
    return 1, 1


def export_manifests(rng, folder):
    """Sound archives whose manifest says something else: refused, or it fits."""
    path, (_, program) = folder / "model", exported()
    changed = mutations.of_json(rng, json_records.plain(MANIFEST))
    path.write_bytes(packed(json.dumps(changed).encode(), program))
    try:
        manifest, _ = export.read_export(path)
    except WorkdirError as error:
        one_line(error)
        return 1, 0
    assert manifest.image_shape == [8, 8, 1]
    assert manifest.num_classes + manifest.num_clusters == 3
    return 1, 1


def export_pickles(rng, folder):
    """Pickles in the place of a model, whole or cut: never loaded."""
    bomb = pickle.dumps(Bomb(), protocol=int(rng.integers(2, 6)))
    text, program = exported()
    path = folder / "model"
    path.write_bytes(bomb if rng.random() < 0.5 else packed(bomb, program))
    try:
        export.read_export(path)
    except WorkdirError as error:
        assert not RUN and str(error)
        return 1, 0
    raise AssertionError("a pickle was taken for a model")
