"""Install with `pip install -e '.[cpu]'`; see README.md."""

import pathlib
import re

from setuptools import find_packages, setup

HERE = pathlib.Path(__file__).parent
VERSION = re.search(
    r'__version__ = "(.+?)"', (HERE / "upsilon_jax" / "__init__.py").read_text("utf-8")
)[1]

# The core trains on one's own images and on the embedded digits without TensorFlow.
CORE = [
    "absl-py",
    "clu>=0.0.12",
    "flax>=0.12.8",
    "jax>=0.10.2",
    "matplotlib>=3.10",
    "ml-collections>=1.1",
    "numpy>=2.1",
    "optax>=0.2.8",
    "orbax-checkpoint>=0.12",
    "pillow>=11.3",  # earlier ones write beyond a buffer (CVE-2025-48379)
    "scipy",
    "tqdm",
]
# tensorflow-datasets uses importlib_resources, and clu tensorboard, without saying so.
TFDS = [
    "array_record",
    "importlib_resources",
    "protobuf>=6.31.1",  # it parses records; earlier ones: CVE-2025-4565
    "tensorflow-datasets>=4.9.10",
]
TENSORBOARD = ["tensorboard>=2.21,<2.22"]
CPU = [*TFDS, *TENSORBOARD, "tensorflow-cpu>=2.21,<2.22"]
# torch exactly: other versions bring gigabytes of CUDA along.
BENCH = ["POT>=0.9.7", "ott-jax>=0.6", "torch==2.13.0"]
# mkdocs 2 will drop the plugins that these need.
DOCS = ["mkdocs>=1.6,<2", "mkdocs-material>=9.6,<10", "mkdocstrings[python]>=1.0,<2"]
CHECKS = ["hypothesis", "mypy>=1.18", "pytest>=8", "pytest-xdist", "ruff"]
SLURM = ["submitit>=1.5"]
WANDB = ["wandb>=0.19.10"]
RELEASE = ["build", "setuptools>=68", "twine"]
TEST = [*CPU, *SLURM, *CHECKS, *RELEASE, "POT>=0.9.7", "scikit-learn>=1.6"]
PACKAGE_DATA = [
    "py.typed",
    *(f"**/*.{end}" for end in "cc h txt css js csv npz".split()),
]

setup(
    name="upsilon_jax",
    version=VERSION,
    description="Class-mismatched semi-supervised learning in JAX",
    long_description=(HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=[*find_packages(include=["upsilon_jax*"]), "upsilon_jax.configs"],
    package_dir={"upsilon_jax.configs": "configs"},
    package_data={"upsilon_jax": PACKAGE_DATA},
    entry_points={"console_scripts": ["upsilon-jax = upsilon_jax.__main__:start"]},
    install_requires=CORE,
    extras_require={
        "bench": BENCH,
        "cpu": CPU,
        "cuda": [*CPU, "jax[cuda12]>=0.10.2"],
        "tpu": [*CPU, "jax[tpu]>=0.10.2"],
        "slurm": SLURM,
        "docs": DOCS,
        "test": TEST,
        "wandb": WANDB,
    },
)
