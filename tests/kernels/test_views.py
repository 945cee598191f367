from upsilon_jax.kernels.augment import AUGMENTATIONS
from upsilon_jax.kernels.views import VIEWS


def test_every_view_is_an_augmentation_that_exists():
    for view in VIEWS.values():
        assert view.keys() == {"weak", "strong"}
        assert set(view.values()) <= AUGMENTATIONS.keys()
