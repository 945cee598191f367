"""What the server of `forked.py` imports; nothing here may touch a device."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["UPSILON_PIXEL_CACHE"] = "0"

import matplotlib.figure  # noqa: F401
import pytest

from tests.no_writers import leave_out_writers
from upsilon_jax.report.page import workdir_files  # noqa: F401
from upsilon_jax.training import seeds  # noqa: F401

leave_out_writers(pytest.MonkeyPatch())
