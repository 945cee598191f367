"""`foreign_share` on mixtures whose share is known, and where nothing can be said."""

import jax
import numpy as np
import pytest

from upsilon_jax import kernels


def foreign_share(*args, **options):
    return jax.tree.map(float, kernels.foreign_share(*args, **options))


def mixture(share, num=2000, *, foreign=-5.0, known=5.0, gap=2.0, seed=0):
    """Scores of D_u, and of 60 images whose labels were learned."""
    draw = np.random.default_rng(seed)
    num_foreign = round(share * num)
    scores = np.concatenate(
        [
            draw.normal(foreign, 2, num_foreign),
            draw.normal(known, 1.5, num - num_foreign)
            - draw.exponential(gap, num - num_foreign),
        ]
    )
    labeled = draw.normal(known, 1.5, 60)
    return draw.permutation(scores).astype("f"), labeled.astype("f")


@pytest.mark.parametrize("share", (0, 0.1, 0.25, 0.5, 0.9, 1))
def test_finds_the_share_of_a_mixture(share):
    found = foreign_share(*mixture(share))
    assert found.share == pytest.approx(share, abs=0.05)
    assert found.low <= share <= found.high
    assert found.low < found.share < found.high or share in (0, 1)


@pytest.mark.parametrize("share", (0, 0.5, 1))
def test_finds_the_share_where_the_network_is_unsure_of_all(share):
    # As in short training: labels are not memorised, all scores are around 0.
    scores, labeled = mixture(share, foreign=-4, known=0, gap=0.01)
    assert foreign_share(scores, labeled).share == pytest.approx(share, abs=0.1)


def test_held_out_images_need_no_gap():
    scores, _ = mixture(0.3)
    held_out, _ = mixture(0, 300, seed=1)
    found = foreign_share(scores, held_out, held_out=True)
    assert found.share == pytest.approx(0.3, abs=0.03)


def test_the_thresholds_cut_off_as_many_rows_as_estimated():
    scores, labeled = mixture(0.4)
    found = foreign_share(scores, labeled)
    below = lambda c: np.mean(1 / (1 + np.exp(-scores)) < c)
    assert below(found.threshold) == pytest.approx(found.share, abs=0.01)
    assert below(found.sure) == pytest.approx(found.low, abs=0.01)
    assert below(found.most) == pytest.approx(found.high, abs=0.01)
    assert foreign_share(*mixture(0)).sure == 0  # nothing is foreign for sure


def test_the_interval_is_wider_where_the_kinds_overlap():
    width = lambda found: found.high - found.low
    apart, close = mixture(0.5, foreign=-8), mixture(0.5, foreign=-1)
    assert width(foreign_share(*apart)) < width(foreign_share(*close))


def test_order_padding_and_nan_do_not_matter():
    scores, labeled = mixture(0.5)
    expected = foreign_share(scores, labeled)
    padded = np.concatenate([scores[::-1], np.full(7, np.nan, "f"), scores[:20]])
    where = np.arange(padded.size) < scores.size + 7
    assert foreign_share(padded, labeled[::-1], where=where) == expected


def test_scores_may_be_anything():
    scores, labeled = mixture(0.5)
    for odd in (np.full(40, 3, "f"), np.array([-np.inf, np.inf], "f"), scores[:1]):
        found = foreign_share(odd, labeled)
        assert 0 <= found.low <= found.share <= found.high <= 1
        assert 0 <= found.sure <= found.threshold <= found.most <= 1
    for equal in (-20, 0, 20):
        found = foreign_share(np.full(9, equal, "f"), np.full(9, equal, "f"))
        assert 0 <= found.low <= found.share <= found.high <= 1


def test_nothing_can_be_said_of_nothing():
    scores, labeled = mixture(0.5)
    nothing = np.zeros(0, "f")
    unknown = np.full(3, np.nan, "f")
    for found in (
        foreign_share(nothing, labeled),
        foreign_share(scores, nothing),
        foreign_share(unknown, labeled),
        foreign_share(scores, labeled, where=np.zeros(scores.shape, bool)),
    ):
        assert np.isnan(found).all()


def test_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"\[M\] and \[n\]"):
        kernels.foreign_share(np.zeros((3, 2)), np.zeros(3))


def test_is_the_same_on_8_devices_and_gathers_no_rows(rows_over_8_devices):
    scores, labeled = mixture(0.3)
    expected = foreign_share(scores, labeled)
    sharded = rows_over_8_devices(scores)
    assert foreign_share(sharded, labeled) == expected
    program = jax.jit(kernels.foreign_share).lower(sharded, labeled).compile()
    assert "all-gather" not in program.as_text()


def test_traces_once_however_many_are_foreign():
    traces = []
    estimate = jax.jit(lambda *x: (traces.append(0), kernels.foreign_share(*x))[1])
    shares = [round(float(estimate(*mixture(s)).share), 1) for s in (0, 0.5, 1)]
    assert len(traces) == 1 and shares == [0, 0.5, 1]


@pytest.mark.parametrize("where", [6, np.ones(5, bool), np.ones((6, 1), bool)])
def test_a_mask_of_another_shape_is_refused(where):
    with pytest.raises(ValueError, match=r"where must be \[M\] = \[6\]"):
        kernels.foreign_share(np.zeros(6), np.zeros(6), where=where)
