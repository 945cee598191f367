"""SVHN for tfds without `extra`: 1.3 GB of further images that no experiment uses."""

from __future__ import annotations

import tensorflow_datasets as tfds
from tensorflow_datasets.core import registered
from tensorflow_datasets.datasets.svhn_cropped import svhn_cropped_dataset_builder

_HOST = "http://ufldl.stanford.edu/housenumbers"
URLS = {split: f"{_HOST}/{split}_32x32.mat" for split in ("train", "test")}

with registered.skip_registration():  # the name is that of tfds's own

    class SvhnCropped(svhn_cropped_dataset_builder.Builder):
        """Its train and test images, in files as tfds would write them."""

        name = "svhn_cropped"
        pkg_dir_path = svhn_cropped_dataset_builder.Builder.pkg_dir_path
        url_infos = svhn_cropped_dataset_builder.Builder.url_infos

        def _split_generators(self, dl_manager: tfds.download.DownloadManager):
            return {
                split: self._generate_examples(f"{split}_", path)
                for split, path in dl_manager.download(URLS).items()
            }
