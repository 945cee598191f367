"""What MkDocs needs to make a site of pages that are also read on their own.

Links that leave this folder work in the repository, not on the site: pictures are taken
along, other files are named. Headings have the anchors that GitHub gives them, and
griffe knows a docstring's examples by the plural.
"""

from __future__ import annotations

import pathlib
import re

import griffe
from mkdocs.structure.files import File, Files
from pymdownx.slugs import slugify

HERE = pathlib.Path(__file__).parent
_OUTSIDE = re.compile(r"(!?)\[([^\]]*)\]\(\.\./([^)#]+)[^)]*\)")


def on_config(config) -> None:
    """Keeps Greek letters in anchors."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")


def on_files(files: Files, config) -> Files:
    """Takes the pictures along that pages show from other folders."""
    for page in HERE.glob("*.md"):
        for is_picture, _, path in _OUTSIDE.findall(page.read_text("utf-8")):
            if is_picture and path not in files.src_uris:
                source = str(HERE.parent / path)
                files.append(File.generated(config, path, abs_src_path=source))
    return files


def on_page_markdown(markdown: str, **_) -> str:
    """Leads to what the site has, and names the rest by its path."""
    return _OUTSIDE.sub(_inside, markdown)


def _inside(link: re.Match) -> str:
    is_picture, text, path = link.groups()
    if is_picture:
        return f"![{text}]({path})"
    return text if path in text else f"{text} (`{path}`)"


class Examples(griffe.Extension):
    """Shows what stands under `Example:` as code and its output."""

    def on_function(self, *, func: griffe.Function, **_) -> None:
        """Renames the section."""
        if func.docstring:
            value = func.docstring.value
            func.docstring.value = value.replace("\nExample:\n", "\nExamples:\n")
