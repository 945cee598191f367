"""What was trained and how well it does, in a few numbers and sentences."""

from __future__ import annotations

from typing import NamedTuple

from upsilon_jax.report.page.markup import Child, Markup, tag
from upsilon_jax.report.page.phrases import (
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
from upsilon_jax.report.page.run_files import RunFiles
from upsilon_jax.workdir.schema import DIVERGED


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
            f"At step {count(result.diverged_step or 0)} the training loss stopped "
            "being a number, so there is no model to speak of. A smaller "
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


def warnings(run: RunFiles) -> Markup | None:
    """What looked wrong while it trained; the numbers above are to be read with it."""
    lines = run.result.warnings
    if not lines:
        return None
    return tag(
        "div",
        tag("p", tag("b", "While it trained, something looked wrong:")),
        tag("ul", [tag("li", line) for line in lines]),
        class_="warning",
    )


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
    facts = [f"Seed {run.result.seed}."]
    if network := config.get("model"):
        size = f"depth {network.get('depth')}, width {network.get('width')}"
        facts.insert(0, f"Network: {network.get('name')}, {size}.")
    return tag(
        "div",
        tag("p", " ".join(filter(None, sentences)), class_="lead"),
        tag("p", " ".join(facts), class_="muted"),
    )


def _task(run: RunFiles) -> str:
    config, classes = run.result.config, run.manifest.classes
    data = config["data"]
    per_class = data.get("labels_per_class")
    labeled = "every labeled image"
    if per_class:
        labeled = f"{count(per_class, 'labeled image')} of each"
    text = (
        f"This model tells {count(len(classes), 'class', 'classes')} apart: "
        f"{listed(classes)}. It was trained by {method_title(run.method)}, with "
        f"{labeled}"
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
    if number and result.confusion:
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
    ours, theirs = run.result.accuracy, baseline and baseline.result.accuracy
    if ours is None or theirs is None:
        return None
    difference = ours - theirs
    meaning = (
        f"Against {percent(theirs)} of the same network that saw the labeled images "
        "only."
    )
    return Card("Gain from the unlabeled images", points(difference), meaning)


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
    estimate = run.result.foreign
    if estimate is None or estimate.share is None:
        return None
    meaning = "Estimated share of the unlabeled images that show none of the classes"
    if estimate.low is not None and estimate.high is not None:
        between = f"{percent(estimate.low, 0)} and {percent(estimate.high, 0)}"
        meaning += f", probably between {between}"
    if run.truth_is_known:
        truth = float((run.found.unlabeled.truth >= run.num_classes).mean())
        meaning += f"; the truth is {percent(truth, 0)}"
    return Card("Foreign images", percent(estimate.share, 0), f"{meaning}.")
