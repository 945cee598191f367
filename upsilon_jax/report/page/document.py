"""`report.html`: what a run learned and found, in one file that needs nothing else."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from upsilon_jax.report.page import markup, outline
from upsilon_jax.report.page.comparison import comparison
from upsilon_jax.report.page.confusion import confusion
from upsilon_jax.report.page.gallery import Sheet, make_gallery
from upsilon_jax.report.page.heap import foreign_images, pseudo_labels
from upsilon_jax.report.page.history import curves
from upsilon_jax.report.page.markup import Child, Markup, tag
from upsilon_jax.report.page.phrases import count, data_name, method_title
from upsilon_jax.report.page.pictures import Album, contact_sheet
from upsilon_jax.report.page.run_files import (
    BASELINE,
    RunFiles,
    find_baseline,
    read_run,
)
from upsilon_jax.report.page.settings import baseline_hint, settings
from upsilon_jax.workdir import records
from upsilon_jax.workdir.files import REPORT
from upsilon_jax.workdir.schema import DIVERGED, Result
from upsilon_jax.workdir.whole import written_whole

MAX_BYTES = 5_000_000  # of a report
_FOR_PICTURES = 3_500_000  # at first
_SHORT, _VERY_SHORT = 6, 2  # pictures of a sheet

Named = Callable[[Sheet], tuple[str | None, str]]  # heading and note of a sheet


class Section(NamedTuple):
    """A part of the page with a heading; without content it is left out."""

    name: str  # of the link to it
    title: str
    about: str
    content: Child


def write_report(workdir: pathlib.Path) -> pathlib.Path:
    """Makes `report.html` in the workdir of a run that has ended; returns its path.

    Raises:
      WorkdirError: files of the run are missing or damaged.
    """
    return write_page(read_run(pathlib.Path(workdir)))


def write_page(run: RunFiles) -> pathlib.Path:
    """Makes `report.html` of what a run knows; `result.json` may not be there yet.

    The same values give the same bytes. Where they are too much for a page, pictures
    are made smaller, and then left out.
    """
    # As it will be read: JSON has no tuples.
    result = records.parse(Result, records.plain(run.result), str(run.workdir))
    run = run._replace(result=result)
    baseline, budget = find_baseline(run), _FOR_PICTURES
    page = render(run, baseline, budget).encode("utf-8")
    while len(page) > MAX_BYTES and budget:
        budget = budget // 2 if budget > MAX_BYTES // 100 else 0
        page = render(run, baseline, budget).encode("utf-8")
    path = run.workdir / REPORT
    with written_whole(path) as partial:
        partial.write_bytes(page)
    return path


def render(run: RunFiles, baseline: RunFiles | None, budget: int) -> str:
    """The page of a run.

    Args:
      run: what it is about.
      baseline: the labeled-only run to compare it with.
      budget: bytes that the pictures may take.
    """
    title = f"{method_title(run.method)} on {data_name(run.result.config['data'])}"
    title = title[0].upper() + title[1:]
    sections = [s for s in _sections(run, baseline, budget) if s.content]
    links = [tag("a", section.title, href=f"#{section.name}") for section in sections]
    return markup.page(
        f"{title}, seed {run.result.seed}",
        tag("a", "Skip to the results", href="#main", class_="skip"),
        tag("header", tag("p", "Run report", class_="kicker"), tag("h1", title)),
        tag("nav", links, aria_label="Sections"),
        tag(
            "main",
            tag(
                "section",
                outline.summary(run),
                outline.headline(run, baseline),
                outline.warnings(run),
            ),
            [_section(section) for section in sections],
            id="main",
        ),
        tag("footer", tag("p", f"Made by upsilon_jax from {run.workdir.name}.")),
        _ENLARGED if run.findings else None,
        script=markup.asset("page.js"),
    )


# Where a script shows the picture that is enlarged.
_ENLARGED = tag(
    "dialog",
    tag("form", tag("button", "Close"), method="dialog"),
    tag("div"),
    tag("p", "← and → show the neighbours, Esc closes.", class_="muted"),
    aria_label="Enlarged picture",
)


def _section(section: Section) -> Markup:
    return tag(
        "section",
        tag("h2", section.title, id=f"{section.name}-title"),
        tag("p", section.about) if section.about else None,
        section.content,
        id=section.name,
        aria_labelledby=f"{section.name}-title",
    )


def _sections(
    run: RunFiles, baseline: RunFiles | None, budget: int
) -> Iterator[Section]:
    """In the order of the page."""
    finished = run.result.status != DIVERGED
    if baseline is not None and finished:
        content = comparison(run, baseline)
        yield Section("comparison", "Against labeled images only", "", content)
    if run.findings is not None:
        content = foreign_images(run)
        yield Section("foreign", "Foreign images", "", content)
        yield from _gallery(run, Album(run, budget))
        if len(run.findings.unlabeled.index):
            content = pseudo_labels(run)
            yield Section("labels", "Labels for the unlabeled images", "", content)
    if run.result.confusion is not None:
        about = (
            "A row for each true class, a column for each class that the model says. "
            "Numbers are test images; the stronger the colour, the larger the share of "
            "the row."
        )
        yield Section("confusion", "What is taken for what", about, confusion(run))
    yield Section("curves", "How training went", "", curves(run.result.history))
    content = settings(run)
    if baseline is None and run.method != BASELINE and finished:
        content = [baseline_hint(run), *content]
    yield Section("settings", "To do it again", "", content)


def _gallery(run: RunFiles, album: Album) -> Iterator[Section]:
    gallery = make_gallery(run.found, run.manifest)
    classes = run.manifest.classes
    of_class = lambda sheet: (
        classes[sheet.kind],
        f"{count(sheet.size, 'image')} in all",
    )
    of_group = lambda sheet: (f"Cluster {sheet.kind}", count(sheet.size, "image"))
    alone = lambda sheet: (None, "")
    yield Section(
        "groups",
        "Foreign groups",
        "Unlabeled images that fit no class, sorted by what they have in common. Each "
        "group is shown by its most typical members. A group that you recognise may be "
        "a class that is missing.",
        _sheets(album, gallery.groups, of_group),
    )
    yield Section(
        "most-foreign",
        "Most foreign",
        "The unlabeled images that look least like any class, the most foreign first.",
        _sheets(album, gallery.foreign, alone),
    )
    yield Section(
        "surest",
        "Surest of each class",
        "Unlabeled images by suggested class, the surest first. Mistakes here weigh "
        "most: the model would bet on them.",
        _sheets(album, gallery.surest, of_class),
    )
    yield Section(
        "doubtful",
        "Most doubtful",
        "Unlabeled images that look like the classes, but the model is torn between "
        "two of them: good ones to label next.",
        _sheets(album, gallery.doubtful, alone),
    )
    yield Section(
        "mistakes",
        "Most confident mistakes",
        "Test images of the classes that the model names wrongly and is surest of. "
        "Some may be labeled wrongly themselves.",
        _sheets(album, gallery.mistakes, alone),
    )


def _sheets(album: Album, sheets: list[Sheet], named: Named) -> Child:
    """Contact sheets; short ones side by side, and very short ones as one."""
    shown = [(named(sheet), album.pictures(sheet)) for sheet in sheets]
    shown = [(name, pictures) for name, pictures in shown if pictures]
    longest = max((len(pictures) for _, pictures in shown), default=0)
    if longest <= _VERY_SHORT and len(shown) > 1:
        return contact_sheet(None, "", [one for _, some in shown for one in some])
    content = [contact_sheet(*name, pictures) for name, pictures in shown]
    return tag("div", content, class_="pairs") if 0 < longest <= _SHORT else content
