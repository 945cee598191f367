"""What was trained and how well it does, in a few numbers and sentences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from upsilon_jax.report.markup import Child, Markup, scrolling, table, tag
from upsilon_jax.report.run_files import RunFiles, changed_settings
from upsilon_jax.report.words import (
    count,
    duration,
    listed,
    margin_of_error,
    method_story,
    method_title,
    of_hundred,
    percent,
    points,
)
from upsilon_jax.workdir.schema import DIVERGED

_MOST_FOREIGN = (25, 50, 100, 200, 500, 1000)


class Card(NamedTuple):
    """A number that counts, and what it means."""

    name: str
    value: str
    meaning: Child


def headline(run: RunFiles, baseline: RunFiles | None) -> Markup:
    """The numbers that count, each with what it means."""
    result = run.result
    if result.status == DIVERGED:
        return tag(
            "p",
            tag("b", "This run failed. "),
            f"At step {count(result.diverged_step or 0)} the training loss stopped being "
            "a number, so there is no model to speak of. A smaller "
            "train.learning_rate usually helps.",
            class_="warning",
        )
    cards = [_accuracy_card(run), _gain_card(run, baseline), _auroc_card(run)]
    cards.append(_foreign_card(run))
    shown = [
        tag(
            "div",
            tag("dt", card.name),
            tag("dd", tag("strong", card.value), tag("p", card.meaning)),
        )
        for card in cards
        if card
    ]
    return tag("dl", shown, class_="cards")


def summary(run: RunFiles) -> Markup:
    """What was trained, on what, and how it went."""
    config, history = run.result.config, run.result.history
    sentences = [_task(run), method_story(run.method)]
    if history:
        time = sum(entry.epoch_seconds for entry in history)
        sentences.append(
            f"Training took {count(len(history), 'epoch')} "
            f"({count(history[-1].step, 'step')}, {duration(time)})."
        )
    if run.result.resumed_from:
        times = count(len(run.result.resumed_from), "time")
        sentences.append(f"It was interrupted and went on {times}.")
    if run.findings is None and run.result.status != DIVERGED:
        sentences.append("The run kept no findings, so there are no pictures to show.")
    network = config["model"]
    size = f"{network.get('name')}, depth {network.get('depth')}"
    facts = [
        f"Network: {size}, width {network.get('width')}.",
        f"Seed {run.result.seed}.",
    ]
    return tag(
        "div",
        tag("p", " ".join(filter(None, sentences)), class_="lead"),
        tag("p", " ".join(facts), class_="muted"),
    )


def comparison(run: RunFiles, baseline: RunFiles) -> list[Child]:
    """This run against the one that learned from labeled images only."""
    ours, theirs = run.result, baseline.result
    this, that = method_title(run.method), method_title(baseline.method)
    rows = [
        ("accuracy on test images", ours.accuracy, theirs.accuracy),
        ("telling known from foreign (AUROC)", ours.auroc, theirs.auroc),
        *_foreign_rows(run, baseline),
    ]
    lines = [
        (name, percent(one), percent(two), points(one - two))
        for name, one, two in rows
        if one is not None and two is not None
    ]
    changed = changed_settings(run, baseline)
    return [
        tag("p", _changed_verdicts(run, baseline)),
        scrolling(
            "Comparison",
            table(["", this, that, "gain"], lines, "The same split and seed for both."),
        ),
        tag("p", f"The two runs also differ in {listed(changed)}.", class_="muted")
        if changed
        else None,
    ]


def precision_of_foreign(run: RunFiles, number: int) -> float | None:
    """Share of foreign images among the `number` that look most foreign."""
    seen = run.findings.unlabeled
    order = np.argsort(seen.log_odds, kind="stable")[:number]
    return float((seen.truth[order] >= run.num_classes).mean())


def numbers_of_foreign(run: RunFiles) -> list[int]:
    """How many of the most foreign to look at: no more than there are."""
    if not run.truth_is_known:
        return []
    foreign = int((run.findings.unlabeled.truth >= run.num_classes).sum())
    return [number for number in _MOST_FOREIGN if number <= foreign]


def _foreign_rows(run: RunFiles, baseline: RunFiles) -> list[tuple]:
    if baseline.findings is None:
        return []
    return [
        (
            f"foreign among the {count(number)} most foreign",
            precision_of_foreign(run, number),
            precision_of_foreign(baseline, number),
        )
        for number in numbers_of_foreign(run)
    ]


def _changed_verdicts(run: RunFiles, baseline: RunFiles) -> str:
    """Test images that one model gets right and the other wrong."""
    difference = (run.result.accuracy or 0) - (baseline.result.accuracy or 0)
    gain = f"The unlabeled images brought {points(difference)} of test accuracy."
    if run.findings is None or baseline.findings is None:
        return gain
    test, other = run.findings.test, baseline.findings.test
    is_id = test.truth < run.num_classes
    right, before = (t.label[is_id] == t.truth[is_id] for t in (test, other))
    won, lost = int((right & ~before).sum()), int((before & ~right).sum())
    # The sign test at about 5 %: a difference of 2 √(won + lost) is beyond luck.
    luck = abs(won - lost) <= 2 * (won + lost) ** 0.5
    return (
        f"{gain} With the last weights {count(won, 'test image')} became right and "
        f"{count(lost)} became wrong"
        + (
            ": few enough that it may be luck."
            if luck
            else ": more than luck explains."
        )
    )


def _task(run: RunFiles) -> str:
    config, classes = run.result.config, run.manifest.classes
    data = config["data"]
    per_class = data.get("labels_per_class")
    labeled = (
        f"{count(per_class)} labeled images of each" if per_class else "all labels"
    )
    text = (
        f"This model tells {count(len(classes), 'class', 'classes')} apart: "
        f"{listed(classes)}. It was trained by {method_title(run.method)}, with {labeled}"
    )
    if run.findings is not None:
        number = len(run.findings.unlabeled.index)
        text += f" and {count(number, 'unlabeled image')}"
    mismatch = data.get("mismatch")
    if mismatch is not None:
        text += f", {percent(mismatch, 0)} of them of other, foreign classes"
    elif run.method != "baseline":
        text += ", some of which may show something else altogether"
    return text + "."


def num_test(run: RunFiles) -> int:
    """Test images of ID classes."""
    rows = (run.result.confusion or [])[: run.num_classes]
    return sum(map(sum, rows))


def _accuracy_card(run: RunFiles) -> Card | None:
    result, number = run.result, num_test(run)
    if result.accuracy is None:
        return None
    epochs = min(result.config["train"]["report_epochs"], len(result.history))
    meaning = (
        f"Of new images of the known classes, {of_hundred(result.accuracy)} get the "
        f"right name; guessing would get {of_hundred(1 / run.num_classes)}."
    )
    details = f"Mean of the last {count(epochs, 'epoch')}"
    if number:
        right = sum(result.confusion[i][i] for i in range(run.num_classes))
        error = margin_of_error(result.accuracy, number)
        details += (
            f"; the saved weights: {percent(right / number)}. With "
            f"{count(number, 'test image')} good to ± {100 * error:.1f} points"
        )
    return Card(
        "Test accuracy",
        percent(result.accuracy),
        [meaning, tag("span", f"{details}.", class_="muted")],
    )


def _gain_card(run: RunFiles, baseline: RunFiles | None) -> Card | None:
    if baseline is None or None in (run.result.accuracy, baseline.result.accuracy):
        return None
    difference = run.result.accuracy - baseline.result.accuracy
    meaning = (
        f"Against {percent(baseline.result.accuracy)} of the same network that saw the "
        "labeled images only."
    )
    return Card("Thanks to the unlabeled images", points(difference), meaning)


def _auroc_card(run: RunFiles) -> Card | None:
    auroc = run.result.auroc
    if auroc is None:
        return None
    meaning = (
        "Shown a known and a foreign test image, the model is surer of the known one "
        f"{of_hundred(auroc)} times. A coin would be right 50 times."
    )
    return Card("Known or foreign (AUROC)", percent(auroc), meaning)


def _foreign_card(run: RunFiles) -> Card | None:
    """The estimated share of foreign images, and the true one where it is known."""
    estimate = getattr(run.result, "foreign", None)
    known = run.truth_is_known
    truth = None
    if known and len(run.findings.unlabeled.truth):
        truth = float((run.findings.unlabeled.truth >= run.num_classes).mean())
    if estimate is None or estimate.share is None:
        return None
    meaning = "Estimated share of the unlabeled images that show none of the classes"
    if estimate.low is not None and estimate.high is not None:
        between = f"{percent(estimate.low, 0)} and {percent(estimate.high, 0)}"
        meaning += f", probably between {between}"
    if truth is not None:
        meaning += f"; the truth is {percent(truth, 0)}"
    return Card("Foreign images", percent(estimate.share, 0), f"{meaning}.")
