"""The verdicts on the paper's claims, on runs whose differences are known."""

import pytest

from tests.report import made
from upsilon_jax.paper import verdicts
from upsilon_jax.paper.claims import CLAIMS, LESS, MORE, Check, Side
from upsilon_jax.paper.verdicts import FAILS, HOLDS, NOT_RUN, OPEN
from upsilon_jax.workdir.schema import Entry, Labels

ABOVE = Check(Side("rpl"), Side("pl"))


def by_fingerprint(*results):
    found = {verdicts._fingerprint(side, "cifar10_desk"): [] for side in ABOVE[:2]}
    for run in made.runs(*results):
        found[run.fingerprint].append(run)
    return found


def runs_of(differences, status="finished"):
    """RPL is above PL by so many points, with each seed."""
    return by_fingerprint(
        *(made.desk("pl", 1.0, 0.6, seed) for seed in range(len(differences))),
        *(
            made.desk("rpl", 1.0, 0.6 + points / 100, seed, status=status)
            for seed, points in enumerate(differences)
        ),
    )


@pytest.mark.parametrize(
    ("differences", "sign", "verdict"),
    [
        # Student's 95 % interval of three is mean ± 2.48 std.
        ((1.0, 2.0, 3.0), MORE, OPEN),
        ((2.0, 2.5, 3.0), MORE, HOLDS),
        ((-2.0, -2.5, -3.0), MORE, FAILS),
        ((-2.0, -2.5, -3.0), LESS, HOLDS),
        ((2.0, 2.5, 3.0), LESS, FAILS),
        ((5.0,), MORE, OPEN),  # one seed decides nothing
        ((), MORE, NOT_RUN),
    ],
)
def test_the_whole_interval_must_be_on_one_side(differences, sign, verdict):
    check = ABOVE._replace(sign=sign)
    judged = verdicts.judge(check, runs_of(differences), "cifar10_desk")
    assert judged.verdict == verdict
    if differences:
        mean = sum(differences) / len(differences)
        assert judged.difference.mean == pytest.approx(mean)


@pytest.mark.parametrize(("sign", "verdict"), [(LESS, HOLDS), (MORE, FAILS)])
def test_runs_that_diverge_are_below_all_others(sign, verdict):
    runs = runs_of((1.0, 1.0), status="diverged")
    judged = verdicts.judge(ABOVE._replace(sign=sign), runs, "cifar10_desk")
    assert judged.verdict == verdict


def test_the_means_are_of_the_seeds_that_both_sides_have():
    judged = verdicts.judge(
        ABOVE,
        by_fingerprint(
            *(
                made.desk("pl", 1.0, height, seed)
                for seed, height in enumerate((0.6, 0.1))
            ),
            made.desk("rpl", 1.0, 0.7),
        ),
        "cifar10_desk",
    )
    assert (judged.ours.mean, judged.theirs.mean) == pytest.approx((70, 60))
    assert judged.difference.mean == pytest.approx(10)


@pytest.mark.parametrize("sign", [LESS, MORE])
def test_runs_that_survive_others_prove_nothing(sign):
    runs = by_fingerprint(
        *(made.desk("pl", 1.0, 0.6, seed) for seed in range(3)),
        *(made.desk("rpl", 1.0, 0.7 + seed / 100, seed) for seed in range(2)),
        made.desk("rpl", 1.0, None, 2, status="diverged"),
    )
    judged = verdicts.judge(ABOVE._replace(sign=sign), runs, "cifar10_desk")
    assert judged.verdict == OPEN and judged.difference is None
    assert judged.ours.diverged == 1


@pytest.mark.parametrize("sign", [LESS, MORE])
def test_runs_that_all_diverge_decide_nothing(sign):
    runs = by_fingerprint(
        *(made.desk(name, 1.0, 0.6, status="diverged") for name in ("pl", "rpl"))
    )
    judged = verdicts.judge(ABOVE._replace(sign=sign), runs, "cifar10_desk")
    assert judged.verdict == OPEN


def test_a_baseline_that_was_not_run_at_a_ratio_is_served_by_another():
    usual, own = (
        [made.desk("baseline", ratio, height, seed) for seed in range(2)]
        for ratio, height in ((1.0, 0.6), (0.5, 0.5))
    )
    ours = [made.desk("pl", 0.5, 0.7, seed) for seed in range(2)]
    check = Check(Side("pl", 0.5), Side("baseline", 0.5))

    def theirs(*results):
        found = {}
        for run in made.runs(*results):
            found.setdefault(run.fingerprint, []).append(run)
        return verdicts.judge(check, found, "cifar10_desk").theirs

    assert theirs(*ours, *usual).mean == pytest.approx(60)
    assert theirs(*ours, *usual, *own).mean == pytest.approx(50)
    assert theirs(*ours) is None


@pytest.mark.parametrize(
    ("method", "counts", "verdict"),
    [
        ("pl", (0, 1000, 1000, 6000), HOLDS),
        ("pl", (0, 6000, 6000, 1000), FAILS),
        ("rpl", (0, 1000, 1000, 6000), FAILS),
        ("rpl", (0, 6000, 6000, 1000), HOLDS),
    ],
)
def test_ever_more_is_from_the_first_refresh_to_the_last(method, counts, verdict):
    """D_u has 10,000 images, all foreign; epochs 2 and 4 end with a refresh."""
    changed = (None, 9, None, 9)
    labels = [
        Labels(count, count, 0, 0, ood_share=1.0, num_changed=number)
        for count, number in zip(counts, changed, strict=True)
    ]
    history = [Entry(i, i, {}, labels=one) for i, one in enumerate(labels, start=1)]
    runs = made.runs(
        *(made.desk(method, 1.0, 0.6, seed, history=history) for seed in (0, 1))
    )
    check = next(c for c in CLAIMS["C9"].checks if c[0].method == c[1].method == method)
    judged = verdicts.judge(check, {runs[0].fingerprint: runs}, "cifar10_desk")
    assert (judged.ours.mean, judged.theirs.mean) == (counts[-1] / 100, counts[1] / 100)
    assert judged.verdict == verdict


@pytest.mark.parametrize(
    ("several", "verdict"),
    [
        ((HOLDS, HOLDS), HOLDS),
        ((HOLDS, OPEN), OPEN),
        ((HOLDS, NOT_RUN), OPEN),
        ((OPEN, FAILS, HOLDS), FAILS),
        ((NOT_RUN, NOT_RUN), NOT_RUN),
    ],
)
def test_a_claim_holds_only_if_all_of_it_does(several, verdict):
    assert verdicts.overall(several) == verdict


def test_every_check_has_its_runs_among_the_experiments():
    planned = {name for name, _ in verdicts.planned("desk")}
    for claim in CLAIMS.values():
        for check in claim.checks:
            for side in check[:2]:
                assert verdicts._fingerprint(side, "cifar10_desk") in planned


def test_the_text_has_all_claims_and_leaves_other_seeds_out():
    of_seeds = [
        made.desk(method, 1.0, accuracy + 0.001 * seed, seed)
        for seed in (0, 1, 2, 100)
        for method, accuracy in (("baseline", 0.60), ("upsilon", 0.62))
    ]
    text = verdicts.claims_text(made.runs(*of_seeds))
    assert [f"### {name}. " in text for name in CLAIMS] == [True] * 12
    start = "| CIFAR-10 | Υ-Model at 100% above Baseline"
    (line,) = (line for line in text.splitlines() if line.startswith(start))
    assert "62.10 ± 0.10 | 60.10 ± 0.10 | +2.00 [+2.00, +2.00] (3) | +2.29" in line
