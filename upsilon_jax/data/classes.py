"""What classes are called, and random choices of them (appendix C.2)."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import partial

from upsilon_jax.data.samplers import permutation
from upsilon_jax.errors import ConfigError, DataError, nearest


def check_names(names: Sequence[str], origin: str) -> None:
    """A class is known by its name alone: two of one name would have one label.

    Names that Unicode spells in several ways are the same.

    Raises:
      DataError: a name is empty or doubled; `origin` says in which data.
    """
    if not all(name.strip() for name in names):
        raise DataError(f"{origin}: a class has an empty name")
    for same in _alike(names, lambda name: unicodedata.normalize("NFC", name)):
        raise DataError(f"{origin}: {len(same)} classes are called {same[0]!r}")


def note_likeness(names: Sequence[str]) -> tuple[str, ...]:
    """A line if names differ only in case or spaces: meant so, or one class twice."""
    alike = _alike(names, lambda name: "".join(name.casefold().split()))
    if not alike:
        return ()
    shown = ", ".join(" / ".join(map(repr, same)) for same in alike[:5])
    return (f"classes whose names differ only in case or spaces are several: {shown}",)


def _alike(names: Sequence[str], key: Callable[[str], str]) -> list[list[str]]:
    """Names that have the same key, of each key with more than one name."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return [same for same in groups.values() if len(same) > 1]


def resolve_classes(
    class_names: Sequence[str],
    id_classes: str | Sequence[str],
    ood_classes: str | Sequence[str],
    seed: int,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """ID and OOD classes by name, in label order.

    Either is a sequence of names (or of class numbers written as strings), or one of

        "all"             every class
        "rest"            every class that the other one does not take
        "random:6"        six by the seed
        "random:6:svhn/"  six by the seed, among the classes whose name begins so

    Raises:
      ConfigError: an unknown, doubled or shared class, or more than there are.
    """
    order = permutation(len(class_names), seed=seed, stream="classes")
    shuffled = [class_names[i] for i in order]
    resolve = partial(_resolve, class_names=class_names, shuffled=shuffled)
    others: tuple[str, ...] = ()
    if id_classes == "rest" != ood_classes:
        others = resolve("data.ood_classes", ood_classes, taken=())
    chosen_id = resolve("data.id_classes", id_classes, taken=others)
    chosen_ood = resolve("data.ood_classes", ood_classes, taken=chosen_id)
    if not chosen_id:
        raise ConfigError("data.id_classes is empty: there must be at least one class")
    shared = [name for name in chosen_id if name in chosen_ood]
    if shared:
        raise ConfigError(
            f"data.ood_classes: {', '.join(shared)} also in data.id_classes"
        )
    return chosen_id, chosen_ood


def _resolve(field, spec, *, class_names, shuffled, taken) -> tuple[str, ...]:
    if isinstance(spec, str):
        if spec == "all":
            return tuple(class_names)
        if spec == "rest":
            return tuple(name for name in class_names if name not in taken)
        if spec.startswith("random:"):
            return _random(field, spec, class_names, shuffled, taken)
        spec = [spec] if spec else []
    names = tuple(_class_named(field, str(name), class_names) for name in spec)
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConfigError(f"{field}: {', '.join(doubled)} given more than once")
    return names


def _class_named(field: str, name: str, class_names: Sequence[str]) -> str:
    """A name wins over a number: the classes of SVHN are called "0" .. "9"."""
    if name in class_names:
        return name
    if name.isdecimal() and int(name) < len(class_names):
        return class_names[int(name)]
    raise ConfigError(f"{field}: no class {name!r}; {nearest(name, class_names)}")


def _random(field, spec, class_names, shuffled, taken) -> tuple[str, ...]:
    _, count, *prefix = spec.split(":", 2)
    begins = prefix[0] if prefix else ""
    pool = [c for c in shuffled if c.startswith(begins) and c not in taken]
    if not count.isdecimal() or int(count) > len(pool):
        raise ConfigError(
            f"{field}={spec!r}: there are {len(pool)} classes to choose from"
        )
    chosen = set(pool[: int(count)])
    return tuple(name for name in class_names if name in chosen)
