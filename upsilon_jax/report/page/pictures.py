"""Contact sheets: the pictures of a gallery, each with what is said of it."""

from __future__ import annotations

import base64
import io
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from upsilon_jax.report.page.gallery import Sheet, is_foreign
from upsilon_jax.report.page.markup import Markup, tag
from upsilon_jax.report.page.phrases import percent
from upsilon_jax.report.page.run_files import RunFiles
from upsilon_jax.report.page.unlabeled import label_names

# How pictures are stored, best first: (longest side, quality of JPEG; None is PNG).
_FORMS = ((96, None), (96, 88), (64, 85), (48, 80), (32, 75))
_DATA_URI = 4 / 3  # base64 of three bytes has four


class Picture(NamedTuple):
    """A picture and what is said of it, in the words of the page."""

    image: str  # a data URI
    suggestion: str  # the class or cluster that the model suggests, or "foreign"
    right: bool | None  # whether that is the truth; None if unknown
    truth: str | None
    score: str  # the ID score
    place: str  # the path, or the number of the image
    facts: tuple[tuple[str, str], ...]  # more, for the enlarged picture


class Album:
    """The stored pictures of a run, small enough for a page."""

    def __init__(self, run: RunFiles, budget: int):
        """Stores the thumbnails of a run in the best form that the budget allows.

        Args:
          run: with findings.
          budget: bytes that all pictures may take; if they cannot be small enough,
            only some are kept.
        """
        self._run = run
        self._is_foreign = is_foreign(run.found, run.manifest)
        rows = run.found.thumbnail_of.tolist()
        self._image = dict(zip(rows, _fitting(run, budget), strict=True))

    def pictures(self, sheet: Sheet) -> list[Picture]:
        """The pictures of a sheet, as far as they are there."""
        found = ((row, self._image.get(row)) for row in sheet.rows.tolist())
        return [self._picture(row, image) for row, image in found if image]

    def _picture(self, row: int, image: bytes) -> Picture:
        run, found = self._run, self._run.found
        num_unlabeled = len(found.unlabeled.index)
        is_test = row >= num_unlabeled
        seen = found.test if is_test else found.unlabeled
        at = row - num_unlabeled if is_test else row
        name_of = lambda labels: label_names(labels[at : at + 1], run.manifest)[0]
        guess = name_of(seen.label)
        looks_foreign = not is_test and bool(self._is_foreign[at])
        cluster, truth = int(seen.cluster[at]), int(seen.truth[at])
        suggestion = guess
        if looks_foreign:
            suggestion = f"cluster {cluster}" if cluster >= 0 else "foreign"
        name = run.result.classes[truth] if truth >= 0 else None
        share = percent(float(seen.probability[at]))
        score = percent(float(seen.id_score[at]))
        facts = {
            "suggested": suggestion,
            "truth": name,
            "ID score": score,
            "nearest class": f"{guess}, {share} among the classes",
        }
        if not is_test:
            facts["trained on as"] = name_of(found.pseudo_label) or "nothing"
        is_ood = truth >= run.num_classes
        place = f"{'test' if is_test else 'image'} {int(seen.index[at])}"
        return Picture(
            image=_data_uri(image),
            suggestion=suggestion,
            right=None if truth < 0 else is_ood if looks_foreign else name == guess,
            truth=name,
            score=score,
            place=str(seen.path[at]) or place,
            facts=tuple((key, value) for key, value in facts.items() if value),
        )


def contact_sheet(
    heading: str | None, note: str, pictures: Sequence[Picture]
) -> Markup:
    """A list of pictures under a small heading."""
    return tag(
        "div",
        tag("h3", heading, " ", tag("small", note)) if heading else None,
        tag("ul", [tag("li", _figure(one)) for one in pictures], class_="sheet"),
    )


def _figure(picture: Picture) -> Markup:
    verdict = {True: "right", False: "wrong", None: None}[picture.right]
    sign = {True: " ✓", False: " ✗", None: ""}[picture.right]
    # A class that is right says the truth already.
    told = picture.truth in (None, picture.suggestion)
    facts = [("where", picture.place), *picture.facts]
    caption = tag(
        "figcaption",
        tag("b", picture.suggestion, sign, class_=verdict, title=picture.suggestion),
        None if told else tag("span", f"truth: {picture.truth}", title=picture.truth),
        tag("span", f"ID {picture.score}"),
        tag("span", pathlib.PurePath(picture.place).stem, title=picture.place),
        tag("dl", [(tag("dt", key), tag("dd", value)) for key, value in facts]),
    )
    alt = f"suggested {picture.suggestion}, ID score {picture.score}"
    image = tag("img", src=picture.image, alt=alt, decoding="async")
    # A script enables the button: without one there is nothing to press.
    return tag("figure", tag("button", image, type="button", disabled=True), caption)


def _fitting(run: RunFiles, budget: int) -> list[bytes]:
    """The thumbnails as files; b"" for those that the budget does not allow."""
    for side, quality in _FORMS:
        images = [_stored(pixels, side, quality) for pixels in run.found.thumbnails]
        size = _DATA_URI * sum(map(len, images))
        if size <= budget:
            return images
    return _some(images, budget / size)


def _some(images: Sequence[bytes], share: float) -> list[bytes]:
    """That share of the images, from all places, so that every section keeps some."""
    kept = np.diff(np.floor(np.arange(len(images) + 1) * share)) > 0
    return [image if keep else b"" for image, keep in zip(images, kept, strict=True)]


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


def _data_uri(image: bytes) -> str:
    kind = "png" if image.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode('ascii')}"
