"""What a finished run says to the person who started it."""

from __future__ import annotations

import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from upsilon_jax.workdir.files import CURVES, LABEL_NEXT, REPORT, RESULT, UNLABELED
from upsilon_jax.workdir.records import parse
from upsilon_jax.workdir.schema import DIVERGED, FINISHED, Result, Seeds


def summary(result: Mapping[str, Any], workdir: pathlib.Path) -> str:
    """A few lines on what `upsilon_jax.train` returned."""
    parsed = lambda one: parse(Result, one, str(workdir))
    if "seeds" in result:
        return _text_of_seeds([parsed(one) for one in result["seeds"]], workdir)
    return _text_of_run(parsed(result), workdir)


def _text_of_run(result: Result, workdir: pathlib.Path) -> str:
    config, last = result.config, result.history[-1] if result.history else None
    epochs = min(config["train"]["report_epochs"], len(result.history))
    at = "" if result.diverged_step is None else f" at step {result.diverged_step}"
    lines = [
        f"{config['method']['name']} on {config['data']['name']}: {result.status}{at}",
        f"  test accuracy      {_percent(result.accuracy)}  "
        f"(EMA model, ID classes, mean of the last {epochs} epochs)",
        f"  of the live model  {_percent(result.accuracy_live)}",
        f"  of what is saved   {_percent(result.accuracy_last)}  "
        "(EMA model, last epoch: the weights that predict and export use)",
    ]
    labels = last and last.labels
    if labels:
        lines.append(
            f"  pseudo-labels      {labels.num_confident} on ID classes "
            f"({labels.per_class} or more each), {labels.num_explored} on clusters"
        )
    if labels and labels.ood_share is not None:
        lines.append(
            f"  OOD among the former {labels.ood_share:.1%}, "
            f"right on ID images {_percent(labels.pseudo_accuracy)}"
        )
    if result.foreign is not None:
        share, low, high, _ = result.foreign
        lines.append(
            f"  foreign images     about {share:.0%} of the unlabeled ones "
            f"({low:.0%} to {high:.0%})"
        )
    lines += [f"  warning            {line}" for line in result.warnings or ()]
    if result.status == FINISHED:
        lines.append(f"  unlabeled images   {workdir / UNLABELED}, {LABEL_NEXT}")
    lines += [
        f"  report             {workdir / REPORT}",
        f"  results            {workdir / RESULT}, {CURVES}",
        "  start anew         with another --workdir, or with --start_over",
    ]
    return "\n".join(lines)


def _text_of_seeds(results: Sequence[Result], workdir: pathlib.Path) -> str:
    config = results[0].config
    lines = [f"{config['method']['name']} on {config['data']['name']}, test accuracy"]
    for one in results:
        shown = _percent(one.accuracy) if one.status == FINISHED else one.status
        lines.append(f"  seed {one.seed:<6} {shown}")
    measured = [one.accuracy for one in results if one.status == FINISHED]
    finished = [100 * accuracy for accuracy in measured if accuracy is not None]
    if len(finished) > 1:
        mean, spread = statistics.mean(finished), statistics.stdev(finished)
        lines.append(f"  mean ± std  {mean:.2f} ± {spread:.2f} %")
    return "\n".join([*lines, f"  results     {workdir}/seed_*/{RESULT}"])


def _percent(value: float | None) -> str:
    return "—" if value is None else f"{value:.2%}"


def of_seeds(results: Sequence[Result]) -> Seeds:
    """Results of several seeds as one, with means of those that finished."""
    finished = [result for result in results if result.status == FINISHED]
    mean = lambda values: statistics.mean(values) if finished else None
    return Seeds(
        status=FINISHED if len(finished) == len(results) else DIVERGED,
        accuracy=mean(result.accuracy for result in finished),
        accuracy_live=mean(result.accuracy_live for result in finished),
        seeds=list(results),
    )
