import jax
import pytest
from jax.sharding import AxisType


@pytest.fixture(
    params=[AxisType.Auto, pytest.param(AxisType.Explicit, marks=pytest.mark.slow)],
    ids=lambda axis_type: axis_type.name,
)
def rows_over_8_devices(request):
    """Places rows on a mesh of either kind; jax makes those with Explicit axes."""
    mesh = jax.make_mesh((8,), ("data",), axis_types=(request.param,))
    sharding = jax.NamedSharding(mesh, jax.P("data"))
    return lambda tree: jax.device_put(tree, sharding)
