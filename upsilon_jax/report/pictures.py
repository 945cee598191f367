"""Contact sheets: the pictures of a gallery, each with what is said of it."""

from __future__ import annotations

import base64
import io
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from upsilon_jax.report.gallery import Sheet
from upsilon_jax.report.markup import Markup, tag
from upsilon_jax.report.run_files import RunFiles
from upsilon_jax.report.words import percent

# How pictures are stored, best first: (longest side, quality of JPEG; None is PNG).
_FORMS = ((96, None), (96, 88), (64, 85), (48, 80), (32, 75))
_DATA_URI = 4 / 3  # base64 of three bytes has four
_OVERHEAD = 700  # bytes of the markup around a picture


class Picture(NamedTuple):
    """A picture and what is said of it, in the words of the page."""

    image: str  # a data URI
    suggestion: str  # the class, cluster or "foreign" that the model suggests
    certainty: str  # its ID score
    place: str  # the path, or the number of the image
    facts: tuple[tuple[str, str], ...]  # everything, for the enlarged picture
    right: bool | None  # whether the suggestion is the truth; None if unknown


class Album:
    """The stored pictures of a run, small enough for a page."""

    def __init__(self, run: RunFiles, budget: int):
        """Stores the thumbnails of a run in the best form that the budget allows.

        Args:
          run: with findings.
          budget: bytes that all pictures may take; those beyond it are left out.
        """
        self._run = run
        found = run.findings
        images = self._fitting(found.thumbnails, budget)
        self._image = dict(zip(found.thumbnail_of.tolist(), images, strict=False))

    @staticmethod
    def _fitting(thumbnails: np.ndarray, budget: int) -> list[bytes]:
        for side, quality in _FORMS:
            images = [_stored(pixels, side, quality) for pixels in thumbnails]
            if sum(map(_cost, images)) <= budget:
                return images
        total = np.cumsum([_cost(image) for image in images])
        # A picture from here and there, so that every section keeps some.
        share = budget / max(1, total[-1]) if len(images) else 1
        keep = np.floor(np.arange(1, len(images) + 1) * share) > np.floor(
            np.arange(len(images)) * share
        )
        return [
            image if kept else b"" for image, kept in zip(images, keep, strict=True)
        ]

    def pictures(self, sheet: Sheet) -> Iterator[Picture]:
        """The pictures of a sheet that are there."""
        for row in sheet.rows.tolist():
            if data := self._image.get(row):
                yield self._picture(row, _data_uri(data))

    def _picture(self, row: int, image: str) -> Picture:
        run, manifest = self._run, self._run.manifest
        heap, num_unlabeled = run.findings.unlabeled, len(run.findings.unlabeled.index)
        is_test = row >= num_unlabeled
        seen = run.findings.test if is_test else heap
        row -= num_unlabeled * is_test
        names = run.result.classes
        label, cluster = int(seen.label[row]), int(seen.cluster[row])
        truth, score = int(seen.truth[row]), float(seen.id_score[row])
        below = manifest.foreign_below
        foreign = cluster >= 0 if below is None else score < below
        guess = names[label] if 0 <= label < len(names) else "—"
        suggestion = guess
        if not is_test and (foreign or cluster >= 0):
            suggestion = f"cluster {cluster}" if cluster >= 0 else "foreign"
        right = None
        if truth >= 0:
            is_ood = truth >= manifest.num_classes
            right = is_ood if suggestion != guess else truth == label
        path = str(seen.path[row])
        kind = "test image" if is_test else "image"
        place = path or f"{kind} {int(seen.index[row])}"
        facts = [
            ("where", place),
            ("suggested", suggestion),
            (
                "nearest class",
                f"{guess}, {percent(float(seen.probability[row]))} among "
                "the known classes",
            ),
            ("ID score", percent(score)),
        ]
        if not is_test:
            facts.append(("trained on as", _trained_as(run, row)))
        if truth >= 0:
            facts.append(("truth", names[truth]))
        return Picture(image, suggestion, percent(score), place, tuple(facts), right)


def contact_sheet(
    heading: str | None, note: str, pictures: Sequence[Picture]
) -> Markup:
    """A list of pictures under a small heading."""
    return tag(
        "div",
        tag("h3", heading, " ", tag("small", note)) if heading else None,
        tag(
            "ul", [tag("li", _figure(picture)) for picture in pictures], class_="sheet"
        ),
        class_="sheetbox",
    )


def _figure(picture: Picture) -> Markup:
    verdict = {True: "right", False: "wrong", None: None}[picture.right]
    sign = {True: " ✓", False: " ✗", None: ""}[picture.right]
    truth = dict(picture.facts).get("truth")
    really = f"truth: {truth}" if picture.right is False else None
    alt = f"suggested {picture.suggestion}, ID score {picture.certainty}"
    caption = tag(
        "figcaption",
        tag("b", picture.suggestion, sign, class_=verdict),
        tag("span", really, class_="really") if really else None,
        tag("span", picture.certainty),
        tag("span", pathlib.PurePath(picture.place).name, title=picture.place),
        tag("dl", [(tag("dt", k), tag("dd", v)) for k, v in picture.facts]),
    )
    image = tag("img", src=picture.image, alt=alt, decoding="async")
    # A script enables the button: without one there is nothing to press.
    return tag("figure", tag("button", image, type="button", disabled=True), caption)


def _trained_as(run: RunFiles, row: int) -> str:
    label, num_classes = int(run.findings.pseudo_label[row]), run.manifest.num_classes
    if label < 0:
        return "nothing"
    if label < num_classes:
        return run.result.classes[label]
    return f"cluster {label - num_classes}"


def _stored(pixels: np.ndarray, side: int, quality: int | None) -> bytes:
    """An image [h, w, 1 or 3] uint8 as a file, no side longer than `side`."""
    image = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    if quality is None:
        image.save(file, "PNG", optimize=True)
    else:
        image.save(file, "JPEG", quality=quality, optimize=True)
    return file.getvalue()


def _cost(image: bytes) -> float:
    return len(image) * _DATA_URI + _OVERHEAD


def _data_uri(image: bytes) -> str:
    kind = "png" if image.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode('ascii')}"
