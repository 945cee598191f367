import csv
import itertools
import math
import statistics

import numpy as np
import pytest

from tests.report.page.example_run import make_findings, make_manifest, make_seen
from upsilon_jax.report.page.label_next import label_next, write_label_next


def plain_label_next(findings, manifest):
    """The same by the words of the module's docstring, a row at a time."""
    seen, num_classes = findings.unlabeled, manifest.num_classes
    features = findings.features.astype(float)
    apart = lambda i, j: math.dist(features[i], features[j])
    names = [*manifest.classes, "foreign"]
    undecided, groups = [], {}
    for i, logits in enumerate(seen.logits.astype(float)):
        f = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        readings = [*f[:num_classes], f[num_classes:].sum()]
        (p, a), (q, b) = sorted(zip(readings, range(99), strict=False), reverse=True)[
            :2
        ]
        if p - q < 0.5:
            if a == num_classes:
                (p, a), (q, b) = (q, b), (p, a)
            why = f"undecided between {names[a]} and {names[b]}"
            undecided.append((abs(p - q), i, f"{why} ({p:.0%} / {q:.0%})"))
        if seen.cluster[i] >= 0:
            groups.setdefault(int(seen.cluster[i]), []).append(i)
    kinds = [[(i, why.replace("%", " %")) for _, i, why in sorted(undecided)]]
    for k in sorted(groups, key=lambda k: (-len(groups[k]), k)):
        centre, size = features[groups[k]].mean(0), len(groups[k])
        typical = sorted(groups[k], key=lambda i: math.dist(features[i], centre))
        why = f"typical of foreign group {k} ({size} images)"
        kinds += [[(i, why) for i in typical]] if size >= 3 else []
    limit = min(100, max(10, len(features) // 10))
    chosen, turns = [], []
    for _ in range(5):
        for group in range(1, len(kinds)):
            turns += [0, group]
    for turn in turns + [0] * limit:
        rows = [i for i, _ in kinds[turn]]
        pairs = itertools.combinations(rows, 2)
        radius = statistics.median([apart(*pair) for pair in pairs] or [0]) / 4
        for i, why in kinds[turn] if len(chosen) < limit else []:
            if all(apart(i, j) > radius for j, _ in chosen):
                chosen.append((i, why))
                break
    return chosen


@pytest.mark.parametrize(
    ("num_classes", "num_clusters", "num_unlabeled"),
    [(3, 2, 90), (2, 4, 150), (5, 1, 8), (3, 2, 1)],
)
def test_suggestions_are_those_of_the_plain_words(
    num_classes, num_clusters, num_unlabeled
):
    findings = make_findings(
        num_classes=num_classes, num_clusters=num_clusters, num_unlabeled=num_unlabeled
    )
    learned = np.full(num_unlabeled, num_classes)  # a cluster
    findings = findings._replace(pseudo_label=learned)
    manifest = make_manifest("abcde"[:num_classes], num_clusters=num_clusters)
    found = label_next(findings, manifest)
    assert found == plain_label_next(findings, manifest)
    assert len(found) <= max(10, num_unlabeled // 10)
    assert len({suggestion.row for suggestion in found}) == len(found)
    typical = [s for s in found if s.reason.startswith("typical")]
    assert bool(typical) == (num_unlabeled >= 60)


@pytest.mark.parametrize("num_clusters", [0, 2])
def test_where_no_cluster_was_learned_images_far_from_the_classes_are_left_out(
    num_clusters,
):
    """What is foreign lies elsewhere, and is what the two classes disagree on most."""
    rng = np.random.default_rng(0)
    made = make_findings(num_classes=2, num_clusters=num_clusters, num_unlabeled=200)
    lead = rng.permutation(200) / 40
    lead[::2] /= 100  # every other image is foreign
    logits = np.full((200, 2 + num_clusters), -9.0)
    logits[:, 0], logits[:, 1] = np.where(rng.random(200) < 0.5, [lead], [-lead]), 0
    truth = np.arange(200) % 2 * 2
    features = rng.normal(size=(200, 6)) + 5 * np.eye(6)[logits[:, :2].argmax(1)]
    features[::2] = rng.normal(size=(100, 6)) + [0, 0, 0, 20, 0, 0]
    findings = made._replace(
        unlabeled=make_seen(logits, truth, 2),
        pseudo_label=np.full(200, -1),
        features=features.astype(np.float16),
    )
    found = label_next(findings, make_manifest("ab", num_clusters=num_clusters))
    rows = [suggestion.row for suggestion in found]
    assert len(rows) == 20 and all(row % 2 for row in rows)
    assert list(lead[rows]) == sorted(lead[rows])
    decided = [s for s in found if " rather than " in s.reason]
    assert all(np.tanh(lead[s.row] / 2) >= 0.5 for s in decided)
    # a single class leaves nothing to decide
    assert label_next(findings, make_manifest("a", num_clusters=num_clusters)) == []


def test_of_copies_one_is_suggested():
    findings = make_findings(num_unlabeled=120)
    first = label_next(findings, make_manifest())[0].row
    copies = np.r_[np.full(30, first), np.arange(120)]
    copied = findings._replace(
        unlabeled=type(findings.unlabeled)(*(x[copies] for x in findings.unlabeled)),
        features=findings.features[copies],
    )
    rows = [suggestion.row for suggestion in label_next(copied, make_manifest())]
    assert np.bincount(copies[rows]).max() == 1 and len(rows) > 5


def test_long_lists_end_and_broken_rows_are_never_suggested():
    findings = make_findings(num_unlabeled=3000)
    features = findings.features.copy()
    features[5] = np.inf
    broken = findings.unlabeled.label.copy()
    broken[::2] = -1  # where logits are not finite
    cluster = np.where(broken < 0, -1, findings.unlabeled.cluster)
    logits = np.where(broken[:, None] < 0, np.nan, findings.unlabeled.logits)
    unlabeled = findings.unlabeled._replace(
        label=broken, cluster=cluster, logits=logits
    )
    findings = findings._replace(unlabeled=unlabeled, features=features)
    rows = [suggestion.row for suggestion in label_next(findings, make_manifest())]
    assert len(rows) == 100 and all(row % 2 for row in rows)


def test_the_file_names_images_by_path_or_by_index(tmp_path):
    paths = [f"heap/{i}.png" for i in range(90)]
    for name, given in (("path", paths), ("index", None)):
        findings = make_findings(paths=given)
        write_label_next(tmp_path / "next.csv", findings, make_manifest())
        with open(tmp_path / "next.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        expected = label_next(findings, make_manifest())
        assert list(rows[0]) == ["rank", name, "reason"]
        assert [row["rank"] for row in rows] == [str(i + 1) for i in range(len(rows))]
        shown = [given[s.row] if given else str(s.row) for s in expected]
        assert [row[name] for row in rows] == shown
