import jax
import jax.numpy as jnp
import numpy as np

from upsilon_jax.kernels.disagreement import agreement, mutual_information, otsu


def distributions(*shape, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1])


def test_agreement_against_loops():
    p = distributions(4, 3, 5)
    for i, got in enumerate(np.asarray(agreement(jnp.asarray(p)))):
        apart = [np.abs(g - h).mean() for g in p[i] for h in p[i]]
        np.testing.assert_allclose(got, np.exp(-np.mean(apart)), rtol=1e-5)
    same = np.repeat(p[:, :1], 3, axis=1)
    np.testing.assert_array_equal(agreement(jnp.asarray(same)), np.ones(4))


def test_mutual_information_against_loops():
    p = distributions(6, 3, 4)
    pairs = []
    for g in range(3):
        for h in range(g + 1, 3):
            joint = np.mean([np.outer(row[g], row[h]) for row in p], axis=0)
            outer = np.outer(p[:, g].mean(0), p[:, h].mean(0))
            pairs.append((joint * np.log(joint / outer)).sum())
    got = mutual_information(jnp.asarray(p))
    np.testing.assert_allclose(got, np.mean(pairs), rtol=1e-4)


def test_equal_sure_classifiers_share_their_entropy_and_constant_ones_nothing():
    sure = jnp.asarray(np.repeat(np.eye(4)[:, None], 2, axis=1))
    np.testing.assert_allclose(mutual_information(sure), np.log(4), rtol=1e-6)
    slope = jax.grad(mutual_information)(sure)
    assert np.isfinite(slope).all()
    constant = jnp.asarray(np.repeat(distributions(1, 2, 4), 5, axis=0))
    np.testing.assert_allclose(mutual_information(constant), 0, atol=1e-6)
    assert mutual_information(constant[:, :1]) == 0


def test_otsu_parts_two_groups_best():
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(0.2, 0.05, 300), rng.normal(0.7, 0.05, 100)])
    got = float(otsu(jnp.asarray(values)))

    def between(t):
        low, high = values[values <= t], values[values > t]
        return len(low) * len(high) * (low.mean() - high.mean()) ** 2

    best = max(between(t) for t in np.sort(values)[:-1])
    width = np.ptp(values) / 256
    assert max(between(got - width / 2), between(got + width / 2)) > 0.999 * best
    assert 0.3 < got < 0.6
    np.testing.assert_allclose(otsu(jnp.full(9, 0.25)), 0.25)
