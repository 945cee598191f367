"""Finding the files of a folder of images, and the classes its sub-folders name."""

from __future__ import annotations

import os
import unicodedata

from upsilon_jax.errors import ConfigError, DataError


def directory(field: str, path: str | None) -> str:
    """The folder that `data.<field>` names."""
    if not path:
        raise ConfigError(f"data.{field} is empty: it must name a folder of images")
    path = os.path.expanduser(path)
    if not os.path.isdir(path):
        raise DataError(f"data.{field}={path}: there is no such folder")
    return path


def list_files(folder: str, skipped: list[tuple[str, str]]) -> list[str]:
    """All files below, sorted; links are followed, each folder is entered once."""
    entered: set[str] = set()
    found: list[str] = []
    failed = lambda error: skipped.append(
        (printable(error.filename), f"cannot be read ({error.strerror})")
    )
    for here, folders, files in os.walk(folder, followlinks=True, onerror=failed):
        real = os.path.realpath(here)
        if real in entered:
            skipped.append((printable(here), "a link to a folder that is read already"))
            folders.clear()
            continue
        entered.add(real)
        folders.sort()
        found.extend(os.path.join(here, name) for name in sorted(files))
    return found


def class_folders(folder: str, skipped: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Class name -> the sub-folders of that name; what is none goes to `skipped`."""
    folders: dict[str, list[str]] = {}
    spelled: dict[str, str] = {}
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        if not os.path.isdir(path):
            skipped.append((printable(path), "not inside the folder of a class"))
        elif entry.startswith("."):
            skipped.append((printable(path), "a hidden folder"))
        else:  # one name may be spelled in several ways in Unicode
            entry = unicodedata.normalize("NFC", entry)
            name = printable(entry)
            if spelled.setdefault(name, entry) != entry:
                raise DataError(f"{folder}: two folders would be the class {name}")
            folders.setdefault(name, []).append(path)
    return folders


def class_files(
    field: str, folder: str, skipped, class_names: tuple[str, ...] | None = None
) -> tuple[tuple[str, ...], list[tuple[str, int]]]:
    """Class names, and (file, label) of the sub-folders of `folder`."""
    folders = class_folders(folder, skipped)
    names = class_names or tuple(sorted(folders))
    unknown = sorted(set(folders) - set(names))
    if unknown:
        raise DataError(
            f"data.{field}={folder}: {unknown[0]} is no class of data.labeled"
        )
    if len(names) < 2:
        raise DataError(
            f"data.{field}={folder}: must have a sub-folder for each of at least two "
            f"classes, has {len(names)}"
        )
    return names, [
        (path, label)
        for label, name in enumerate(names)
        for sub in folders.get(name, ())
        for path in list_files(sub, skipped)
    ]


def printable(path: str) -> str:
    """A path that any terminal, any UTF-8 file and any list with a line each takes."""
    escape = lambda char: char.encode("unicode_escape").decode()
    return "".join(char if char.isprintable() else escape(char) for char in path)
