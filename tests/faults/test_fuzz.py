"""Made-up and damaged input of every kind: `docs/fuzzing.md` counts the cases."""

import os
import re
import subprocess
import sys

import pytest

from tests.faults import campaigns, fuzz_files, fuzz_images
from tests.faults.campaigns import CAMPAIGNS
from tests.faults.processes import ROOT
from upsilon_jax.data import images

FEW = [name for name, campaign in CAMPAIGNS.items() if campaign.few]
KERNELS = ["kernels: plans", "kernels: selections", "kernels: explorations"]
OTHERWISE = 1_000  # cases of each of these in double precision, and without C++


@pytest.fixture(autouse=True)
def small_images(monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", fuzz_images.MAX_PIXELS)


@pytest.mark.parametrize("name", FEW)
def test_a_few(name, tmp_path):
    campaigns.run(name, CAMPAIGNS[name].few, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_many(name, tmp_path, record_property):
    cases = campaigns.run(name, CAMPAIGNS[name].cases, tmp_path)
    record_property("cases", (name, cases))


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_double_precision(name, tmp_path, x64, record_property):
    cases = campaigns.run(name, OTHERWISE, tmp_path)
    record_property("cases", (f"{name}, float64", cases))


WITHOUT = """
import pathlib, sys
from tests.faults import campaigns
from upsilon_jax import native
for name in sys.argv[2:]:
    campaigns.run(name, int(sys.argv[1]), pathlib.Path("."))
assert not native.in_use()
"""


@pytest.mark.slow
def test_without_the_compiled_code(record_property):
    command = [sys.executable, "-c", WITHOUT, str(OTHERWISE), *KERNELS]
    environment = os.environ | {"UPSILON_NATIVE": "0"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=900)
    for name in KERNELS:
        record_property("cases", (f"{name}, without C++", OTHERWISE))


def test_the_page_counts_what_is_tried():
    text = (ROOT / "docs" / "fuzzing.md").read_text("utf-8")
    told = dict(re.findall(r"^\| `([^`]+)` \|.*?\| ([\d,]+) \|", text, re.M))
    told = {name: int(count.replace(",", "")) for name, count in told.items()}
    expected = {name: campaign.cases for name, campaign in CAMPAIGNS.items()}
    for way in ("float64", "without C++"):
        expected |= {f"{name}, {way}": OTHERWISE for name in KERNELS}
    assert told == expected
    total = sum(expected.values())
    assert total >= 100_000 and f"{total:,} cases" in text


def test_a_campaign_can_fail(tmp_path, monkeypatch):
    """Were the checks of shares left out, the campaign would say so."""
    from tests.faults import fuzz_splits

    lost = lambda total, room: 0 * room
    monkeypatch.setattr(fuzz_splits, "apportion", lost)
    with pytest.raises(AssertionError):
        campaigns.run("splits: shares", 20, tmp_path)


def test_a_campaign_whose_files_are_all_refused_fails(tmp_path, monkeypatch):
    """It would try nothing that lies behind the first check."""
    monkeypatch.setattr(fuzz_files, "RESULT", fuzz_files.RESULT._replace(format=1))
    with pytest.raises(AssertionError, match="only 0 of 20 were taken"):
        campaigns.run("result.json", 20, tmp_path)
