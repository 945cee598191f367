"""Kernels on numbers of every size: finite in, finite out, and what they promise."""

import functools

import jax
import numpy as np

from upsilon_jax import kernels

BATCH = 250  # problems at once
CLASSES = 3  # C of the logits; the other outputs are clusters
# [M, T] of the problems, few, because each is compiled.
SHAPES = ((1, 4), (33, 5), (64, 7))
MESHED = (64, 7)  # rows for 8 devices
DTYPES = ("float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool")
SOLVERS = (("sinkhorn", {"num_iters": 1}), ("sinkhorn", {}), ("newton", {}))
MODERATE = 30.0  # spread of log P / ε within which clusters can be balanced exactly


def problems(rng, shape, dtype=np.float32):
    """[B, M, T] finite numbers, every problem of a kind and scale of its own."""
    count, _, columns = shape
    info = np.finfo(dtype)
    normal = rng.standard_normal(shape)
    powers = (np.log10(info.smallest_subnormal), np.log10(info.max))
    scale = 10 ** rng.uniform(*powers, (count, 1, 1))
    with np.errstate(over="ignore", under="ignore"):
        kinds = [
            normal * scale,
            np.sign(normal) * 10 ** rng.uniform(*powers, shape),
            rng.integers(0, 3, shape) * scale,  # ties
            np.broadcast_to(normal[..., :1] * scale, shape),  # rows without preference
            normal + scale * (rng.integers(columns) == np.arange(columns)),
            rng.choice([info.min, info.max, info.tiny, 0.0, -0.0], shape),
            normal * 10 ** rng.uniform(-1, 1.5, (count, 1, 1)),
            np.broadcast_to(normal[:, :1] * scale, shape),  # one row, again and again
        ]
    chosen = np.choose(rng.integers(len(kinds), size=(count, 1, 1)), kinds)
    return np.clip(chosen, info.min, info.max).astype(dtype)


def masks(rng, shape):
    """[B, M] bool: all rows, none, one, or some."""
    share = rng.choice([0.0, 0.3, 0.9, 1.0], (shape[0], 1))
    where = rng.random(shape) < share
    one = rng.random(shape[0]) < 0.1
    where[one] = np.arange(shape[1])[None, :] == rng.integers(shape[1])
    return where


def batch(rng):
    """(logits [B, M, T], where [B, M]) of B problems of one shape."""
    shape = (BATCH, *SHAPES[rng.integers(len(SHAPES))])
    dtype = np.float64 if jax.config.jax_enable_x64 else np.float32
    return problems(rng, shape, dtype), masks(rng, shape[:2])


@functools.cache
def mapped(name, x64, **keywords):
    """A kernel over a first axis of problems."""
    del x64  # programs of both precisions are kept
    kernel = functools.partial(getattr(kernels, name), **keywords)
    return jax.jit(jax.vmap(lambda x, w: kernel(*x, where=w)))


def call(name, x, where, **keywords):
    x = x if isinstance(x, tuple) else (x,)
    found = mapped(name, jax.config.jax_enable_x64, **keywords)(x, where)
    return jax.tree.map(np.asarray, found)


def plans(rng, _):
    """Sinkhorn and balance: what a plan must be."""
    x, where = batch(rng)
    epsilon = float(rng.choice([0.05, 1.0, 1e-3]))
    solver, keywords = SOLVERS[rng.integers(len(SOLVERS))]
    found = call("assign", x, where, solver=solver, epsilon=epsilon, **keywords)
    check_plan(found.plan, where)
    if solver == "newton":
        check_columns(found.plan, x, where, epsilon)
    return len(x), len(x)


def check_plan(plan, where):
    assert np.isfinite(plan).all() and (plan >= 0).all()
    assert not plan[~where].any()
    rows = plan.sum(axis=-1, dtype=np.float64) * where.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(rows[where], 1, rtol=2e-5)


def check_columns(plan, x, where, epsilon):
    """As balanced as was asked, where rounding lets it be."""
    with np.errstate(over="ignore", invalid="ignore"):  # a NaN is no small spread
        spread = np.ptp(np.where(where[..., None], x / epsilon, 0), axis=(-1, -2))
    fit = (spread < MODERATE) & (where.sum(axis=-1) >= x.shape[-1])
    error = abs(plan[fit].sum(axis=1, dtype=np.float64) * x.shape[-1] - 1)
    assert error.max(initial=0) < 2e-4, error.max()


def selections(rng, _):
    """Pseudo-labels: who gets one, how many each class gets, and who never does."""
    x, where = batch(rng)
    bad = rng.random(x.shape[:2]) < 0.05  # rows that no kernel may choose
    x[bad, 0] = rng.choice([np.nan, np.inf, -np.inf])
    score, threshold = [
        ("confidence", 0.95),
        ("confidence", 0.4),
        ("margin", 0.5),
        ("entropy", -0.3),
    ][rng.integers(4)]
    options = dict(num_classes=CLASSES, score=score, threshold=threshold)
    every = call("pseudo_label", x, where, **options)
    even = call("rebalance", x, where, **options)
    for found in (every, even):
        check_labels(found, where & ~bad, 0, CLASSES)
    counts = np.stack([(every.label == y).sum(axis=1) for y in range(CLASSES)])
    kept = np.stack([(even.label == y).sum(axis=1) for y in range(CLASSES)])
    assert (kept == counts.min(axis=0)).all()
    assert (every.label[even.label >= 0] == even.label[even.label >= 0]).all()
    if score == "confidence":
        check_confidence(every.label, x, where & ~bad, threshold)
    return len(x), len(x)


def check_labels(found, allowed, low, high):
    chosen = found.label >= 0
    assert (chosen <= allowed).all()
    assert ((found.label[chosen] >= low) & (found.label[chosen] < high)).all()
    assert (found.label[~chosen] == -1).all()
    assert (found.weight == chosen).all()


def check_confidence(label, x, allowed, threshold):
    """Against softmax in float64, but for rows that are as near as rounding.

    XLA takes subnormal numbers for 0.
    """
    normal = allowed[..., None] & (abs(x) >= np.finfo(x.dtype).tiny)
    x = np.where(normal, x, 0).astype(np.float64)
    with np.errstate(over="ignore"):
        f = np.exp(x - x.max(axis=-1, keepdims=True))
    sure = (f / f.sum(axis=-1, keepdims=True))[..., :CLASSES].max(axis=-1)
    clear = allowed & (abs(sure - threshold) > 1e-4)
    expected = np.where(sure > threshold, x[..., :CLASSES].argmax(axis=-1), -1)
    assert (label[clear] == expected[clear]).all()


def explorations(rng, _):
    """Cluster labels of rows that are no class, in any case of finite ones."""
    x, where = batch(rng)
    bad = rng.random(x.shape[:2]) < 0.02
    x[bad, -1] = rng.choice([np.nan, np.inf, -np.inf])
    solver, keywords = SOLVERS[rng.integers(1, len(SOLVERS))]
    threshold = float(rng.choice([0.3, 0.9]))
    options = dict(num_classes=CLASSES, solver=solver, threshold=threshold, **keywords)
    found = call("explore", x, where, **options)
    check_labels(found, where & ~bad, CLASSES, x.shape[-1])
    return len(x), len(x)


def imbalances(rng, _):
    """Against counts, for labels of any size, known or not."""
    count, rows = BATCH, int(rng.choice([1, 7, 100]))
    labels = rng.integers(-2, CLASSES + 2, (count, rows))
    labels[rng.random(labels.shape) < 0.02] = rng.choice([-(2**31), 2**31 - 1])
    where = masks(rng, labels.shape)
    kl, ratio = call("imbalance", labels.astype(np.int32), where, num_classes=CLASSES)
    counted = np.where(where, labels, -1)
    share = np.stack([(counted == y).sum(axis=1) for y in range(CLASSES)], axis=1)
    share = share / np.maximum(share.sum(axis=1, keepdims=True), 1)
    some = share.sum(axis=1) > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = share * np.log(np.where(share > 0, share * CLASSES, 1))
        expected = share.max(axis=1) / share.min(axis=1, initial=np.inf)
    np.testing.assert_allclose(kl[some], terms.sum(axis=1)[some], atol=2e-6)
    np.testing.assert_allclose(ratio[some], expected[some], rtol=1e-5)
    assert np.isnan(kl[~some]).all() and np.isnan(ratio[~some]).all()
    return count, count


def shares(rng, _):
    """The share of foreign rows: in 0..1, inside its interval."""
    count = BATCH
    x = problems(rng, (count, 64, 2))
    where = masks(rng, (count, 64))
    found = call("foreign_share", (x[..., 0], x[..., 1]), where)
    some = where.any(axis=1)
    for value in found:
        assert np.isnan(value[~some]).all()
        assert ((value[some] >= 0) & (value[some] <= 1)).all()
    order = np.stack([found.low, found.share, found.high])[:, some]
    assert (np.diff(order, axis=0) >= 0).all()
    return count, count


def dtypes(rng, _):
    """Any kind of numbers, as they are and as float32: the same result."""
    x, where = problems(rng, (1, *MESHED))[0], masks(rng, (1, MESHED[0]))[0]
    dtype = DTYPES[rng.integers(len(DTYPES))]
    most = {"float32": 3e38, "bfloat16": 3e38, "float16": 6e4, "int32": 2e9}
    x = np.clip(x, 0 if dtype == "uint8" else None, most.get(dtype, 127))
    narrow = jax.numpy.asarray(np.maximum(x, -most.get(dtype, 128))).astype(dtype)
    wide = np.asarray(narrow.astype(np.float32))
    assert np.isfinite(wide).all()
    for kernel in (
        kernels.sinkhorn,
        kernels.balance,
        functools.partial(kernels.rebalance, num_classes=CLASSES, threshold=0.4),
        functools.partial(kernels.explore, num_classes=CLASSES),
    ):
        found, same = (kernel(v, where=where) for v in (narrow, wide))
        for one, other in zip(*map(jax.tree.leaves, (found, same)), strict=True):
            assert one.dtype == other.dtype and np.isfinite(one).all()
            np.testing.assert_array_equal(one, other)
    return 1, 1


def meshes(rng, _):
    """Rows over 8 devices, with Auto or Explicit axes: as on one of them."""
    kind = rng.choice([jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
    mesh = jax.make_mesh((8,), ("data",), axis_types=(kind,))
    x, where = problems(rng, (1, *MESHED))[0], masks(rng, (1, MESHED[0]))[0]
    spread = jax.device_put((x, where), jax.NamedSharding(mesh, jax.P("data")))
    for kernel in (kernels.sinkhorn, kernels.balance):
        plan = np.asarray(kernel(spread[0], where=spread[1]))
        check_plan(plan[None], where[None])
    for kernel in (kernels.pseudo_label, kernels.rebalance):
        found, alone = (
            kernel(v, CLASSES, threshold=0.4, where=w) for v, w in (spread, (x, where))
        )
        np.testing.assert_array_equal(found.label, alone.label)
    found = jax.tree.map(np.asarray, kernels.explore(x, CLASSES, where=spread[1]))
    check_labels(found, where, CLASSES, MESHED[1])
    return 1, 1
