import pytest


@pytest.fixture(autouse=True, scope="module")
def quick_runs(no_tensorboard):
    """No test here looks at what TensorBoard gets."""
