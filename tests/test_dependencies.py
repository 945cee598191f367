"""No dependency is older than its vulnerabilities; CI's audit says what it finds."""

import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys

import pytest
from packaging.requirements import Requirement

ROOT = pathlib.Path(__file__).parents[1]
# "pillow>=11.3",  # earlier ones write beyond a buffer (CVE-2025-48379)
_FLOOR = re.compile(r'^ *"([\w-]+>=[\d.]+)",  # .*CVE-\d', re.MULTILINE)


def floors():
    return [Requirement(found) for found in _FLOOR.findall(setup_text())]


def setup_text():
    return (ROOT / "setup.py").read_text("utf-8")


def test_every_vulnerability_is_the_reason_of_a_floor():
    assert {floor.name for floor in floors()} >= {"pillow", "protobuf"}
    assert len(floors()) == len(re.findall("CVE-", setup_text()))


@pytest.mark.parametrize("floor", floors(), ids=str)
def test_what_is_installed_is_not_older_than_its_vulnerabilities(floor):
    assert floor.specifier.contains(importlib.metadata.version(floor.name))


def audited(path, report):
    if report is not None:
        path.write_text(json.dumps(report) if isinstance(report, dict) else report)
    command = [sys.executable, str(ROOT / ".ci/audit.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


SKIPPED = {"name": "a", "skip_reason": "not found"}
SOUND = {"name": "b", "version": "1", "vulns": []}
FLAW = {"id": "CVE-2025-1", "fix_versions": ["2", "3"]}


@pytest.mark.parametrize("report", [None, "", {"dependencies": [SKIPPED], "fixes": []}])
def test_an_audit_without_its_lists_is_one_line_and_no_failure(tmp_path, report):
    """A mirror of packages has no list: pip-audit then skips them, and ends with 0."""
    line = "dependencies not checked: the public lists cannot be had\n"
    assert audited(tmp_path / "report", report) == (0, line, "")


def test_an_audit_fails_with_what_it_finds_and_only_then(tmp_path):
    path, line = tmp_path / "report", "{} packages checked, 1 not in the lists\n"
    assert audited(path, {"dependencies": [SKIPPED, SOUND]}) == (0, line.format(1), "")
    bad = {"name": "c", "version": "1", "vulns": [FLAW, {**FLAW, "fix_versions": []}]}
    code, said, found = audited(path, {"dependencies": [SKIPPED, SOUND, bad]})
    assert code == 1 and said == line.format(2)
    assert found.splitlines() == [
        "c 1: CVE-2025-1, mended in 2, 3",
        "c 1: CVE-2025-1, mended in no version yet",
    ]
