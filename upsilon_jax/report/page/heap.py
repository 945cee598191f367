"""What became of the unlabeled images: foreign or not, labels kept or dropped."""

from __future__ import annotations

import numpy as np

from upsilon_jax.report.page.bars import Bar, bar_chart
from upsilon_jax.report.page.charts import histogram
from upsilon_jax.report.page.comparison import (
    numbers_of_foreign,
    precision_of_foreign,
)
from upsilon_jax.report.page.gallery import is_foreign
from upsilon_jax.report.page.markup import Child, Markup, tag
from upsilon_jax.report.page.phrases import count, percent
from upsilon_jax.report.page.run_files import RunFiles

_BINS = 20


def foreign_images(run: RunFiles) -> list[Child]:
    """How many look foreign, how they spread, and how good the ranking is."""
    seen, below = run.found.unlabeled, run.manifest.foreign_below
    foreign, total = is_foreign(run.found, run.manifest), len(seen.index)
    if not total:
        return []
    rule = (
        "are nearer to a group of foreign images than to any class"
        if below is None
        else f"have an ID score below {percent(below, 0)}, the bound of this run"
    )
    parts = [
        tag(
            "p",
            f"{count(int(foreign.sum()))} of {count(total, 'unlabeled image')} "
            f"({percent(float(foreign.mean()))}) {rule}: the model takes them for "
            "foreign.",
        )
        if below is not None or run.manifest.num_clusters
        else None,
    ]
    charts = [_score_histogram(run)]
    numbers = numbers_of_foreign(run)
    if numbers:
        bars = []
        for number in numbers:
            share = precision_of_foreign(run, number)
            right = round(share * number)
            said = f"{count(right)} foreign, {percent(share, 0)}"
            bars.append(Bar(count(number), [(right, 4), (number - right, 1)], said))
        title = "Of the images that look most foreign, so many are foreign"
        keys = [("foreign", 4), ("of a known class", 1)]
        charts.append(bar_chart(title, "most foreign", bars, keys, relative=True))
    return [*parts, tag("div", charts, class_="charts")]


def pseudo_labels(run: RunFiles) -> list[Child]:
    """How the final model's labels fall on the classes, and what was kept of them."""
    return [_label_histograms(run), *_kept(run)]


def _score_histogram(run: RunFiles) -> Markup:
    seen = run.found.unlabeled
    counts = lambda where: np.histogram(seen.id_score[where], _BINS, (0, 1))[0].tolist()
    if run.truth_is_known:
        known = seen.truth < run.num_classes
        parts = [
            ("of a known class", 1, counts(known)),
            ("foreign", 4, counts(~known)),
        ]
    else:
        parts = [("unlabeled images", 1, counts(np.isfinite(seen.id_score)))]
    below = run.manifest.foreign_below
    mark = None if below is None else (below, f"foreign below {percent(below, 0)}")
    return histogram(
        "How sure the model is that an unlabeled image is of a known class",
        parts,
        x_label="ID score (100 % = surely known)",
        y_label="images",
        mark=mark,
    )


def _label_histograms(run: RunFiles) -> Markup:
    """Most probable classes of D_u: of ID and OOD images apart where that is known."""
    seen, names = run.found.unlabeled, run.manifest.classes
    kinds = [("all unlabeled images", 1, np.full(len(seen.label), True))]
    if run.truth_is_known:
        known = seen.truth < run.num_classes
        kinds = [("images of a known class", 1, known), ("foreign images", 4, ~known)]
    charts = []
    for title, color, where in kinds:
        label = seen.label[where & (seen.label >= 0)]
        counts = np.bincount(label, minlength=len(names)).tolist()
        bars = [
            Bar(name, [(number, color)], count(number))
            for name, number in zip(names, counts, strict=True)
        ]
        charts.append(bar_chart(f"Most probable class of {title}", "class", bars, []))
    return tag("div", charts, class_="charts")


def _kept(run: RunFiles) -> list[Child]:
    """Confident guesses per class, and how many of them are trained on."""
    label = run.found.pseudo_label
    if not (label >= 0).any():
        return []
    chosen = (label >= 0) & (label < run.num_classes)
    sure = _candidates(run)
    seen, bars = run.found.unlabeled, []
    for kind, name in enumerate(run.manifest.classes):
        kept = chosen & (label == kind)
        segments = [(int(kept.sum()), 3)]
        said = f"{count(int(kept.sum()))} kept"
        if run.truth_is_known and kept.any():
            right = float((seen.truth[kept] == kind).mean())
            said += f" ({percent(right, 0)} right)"
        if sure is not None:
            dropped = sure & (seen.label == kind) & ~kept
            segments.append((int(dropped.sum()), 2))
            said += f", {count(int(dropped.sum()))} dropped"
        bars.append(Bar(name, segments, said))
    keys = [("kept: the model trains on them", 3)]
    if sure is not None:
        keys.append(("dropped, though confident", 2))
    explored = int((label >= run.num_classes).sum())
    return [
        tag("p", _story_of_kept(run, explored)),
        bar_chart("Confident guesses by class", "class", bars, keys),
    ]


def _story_of_kept(run: RunFiles, explored: int) -> str:
    fields = _fields(run)
    text = f"At the end the model trained on {count(_num_kept(run))} of its own guesses"
    if explored:
        text += f" and on {count(explored, 'image')} sorted into foreign groups"
    text += "."
    if fields.get("rebalance"):
        text += (
            " So that no class drowns the others, each may keep only as many confident "
            "guesses as the rarest class has (RPL)."
        )
    if _candidates(run) is not None:
        sure = percent(fields["threshold"], 0)
        text += (
            f" Dropped are those whose ID score is above {sure} now, but which the "
            "last choice did not take."
        )
    return text


def _num_kept(run: RunFiles) -> int:
    label = run.found.pseudo_label
    return int(((label >= 0) & (label < run.num_classes)).sum())


def _candidates(run: RunFiles) -> np.ndarray | None:
    """[N] bool, above τ by the final model; None if τ bounds something else."""
    fields = _fields(run)
    threshold = fields.get("threshold")
    if threshold is None or fields.get("score", "confidence") != "confidence":
        return None
    return run.found.unlabeled.id_score > threshold


def _fields(run: RunFiles) -> dict:
    """The fields that decide about P: of the wrapper if the method is composed."""
    method = run.result.config["method"]
    return method.get("upsilon", method)
