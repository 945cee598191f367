"""Fixtures of the parts that are put to the test here."""

from tests.native.conftest import cache, compiler  # noqa: F401
