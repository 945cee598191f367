"""Getting a tfds data set onto this disk, in the form that can be streamed."""

from __future__ import annotations

import pathlib
import socket
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from upsilon_jax.data import records, tfds_source
from upsilon_jax.data.source import check_name
from upsilon_jax.errors import DataError

# A data set made of others is prepared when they are.
PARTS = {"cifar10_svhn": ("cifar10", "svhn")}

_CONNECT_SECONDS = 20


class Job(NamedTuple):
    """What has to be done for one tfds data set."""

    name: str  # of tfds
    action: str  # "nothing", "convert" or "download"
    builder: Any  # what is there, or what is to be made
    folder: pathlib.Path  # where the records are, or will be
    urls: Mapping[str, int] = {}  # bytes of each download

    def __str__(self) -> str:
        if self.action == "nothing":
            return f"{self.name}: ready in {self.folder}"
        if self.action == "convert":
            size = sum(split.num_bytes for split in self.builder.info.splits.values())
            return f"{self.name}: convert {_mb(size)} of tfrecord into {self.folder}"
        lines = [
            f"{self.name}: download {_mb(sum(self.urls.values()))} into {self.folder}",
            *(f"    {_mb(size):>10}  {url}" for url, size in self.urls.items()),
        ]
        manual = _manual_dir(self.folder)
        return "\n".join([*lines, f"    or taken from {manual}, if you put it there"])


def plan(name: str, data_dir: str | None = None) -> list[Job]:
    """What has to be done for a data set of `SOURCES`; looks at the disk only.

    Nothing for those that are not of tfds (digits, folder, npz).
    """
    check_name(name)
    parts = PARTS.get(name, (name,))
    return [
        _job(tfds_source.FACTS[part].builders, data_dir)
        for part in parts
        if part in tfds_source.FACTS
    ]


def prepare(job: Job, *, progress: Callable[[Any], Any] = lambda items: items) -> None:
    """Does a job: downloads or converts, and reads the records once (`records.table`).

    Args:
      job: of `plan`.
      progress: wraps an iterable, for a progress bar; tfds has its own for downloads.

    Raises:
      DataError: the network cannot be reached, or tfds is not installed.
    """
    if job.action == "nothing":
        return
    if job.action == "convert":
        records.to_array_record(job.builder, job.folder, progress=progress)
    else:
        _download(job)
    builder = tfds_source.tensorflow_datasets().builder_from_directory(job.folder)
    for split in builder.info.splits:
        records.table(builder, split)


def _job(names: tuple[str, ...], data_dir: str | None) -> Job:
    root = tfds_source.default_dir(data_dir)
    found = tfds_source.find_prepared(names, data_dir)
    if "array_record" in found:
        builder = found["array_record"]
        return Job(builder.name, "nothing", builder, pathlib.Path(builder.data_path))
    target = root / tfds_source.ARRAY_RECORD_DIR
    if "tfrecord" in found:
        builder = found["tfrecord"]
        folder = target / pathlib.Path(builder.data_path).relative_to(root)
        return Job(builder.name, "convert", builder, folder)
    builder, urls = _new_builder(names[0], target)
    return Job(names[0], "download", builder, pathlib.Path(builder.data_path), urls)


def _new_builder(name: str, target: pathlib.Path) -> tuple[Any, dict[str, int]]:
    """A builder that would write array_record files, and what it would download."""
    tfds = tfds_source.tensorflow_datasets()
    options = {"data_dir": target, "file_format": "array_record"}
    if name == "tiny_imagenet":
        from upsilon_jax.data.builders import tiny_imagenet

        urls = {tiny_imagenet.URL: tiny_imagenet.DOWNLOAD_BYTES}
        return tiny_imagenet.TinyImagenet(**options), urls
    if name == "svhn_cropped":
        from upsilon_jax.data.builders import svhn

        builder = svhn.SvhnCropped(**options)
        sizes = {url: int(builder.url_infos[url].size) for url in svhn.URLS.values()}
        return builder, sizes
    builder = tfds.builder(name, **options)
    urls = {url: int(info.size) for url, info in builder.url_infos.items()}
    if name.startswith("imagenet_resized/"):  # the list has all sizes
        size = name.rpartition("x")[2]
        urls = {url: n for url, n in urls.items() if f"Imagenet{size}_" in url}
    return builder, urls


def _download(job: Job) -> None:
    tfds = tfds_source.tensorflow_datasets()
    _check_network(job)
    manual = _manual_dir(job.folder)
    config = tfds.download.DownloadConfig(manual_dir=manual, try_download_gcs=False)
    job.builder.download_and_prepare(download_dir=manual.parent, download_config=config)


def _manual_dir(folder: pathlib.Path) -> pathlib.Path:
    """<data_dir>/downloads/manual, as tfds has it, of a folder that is written."""
    parents = [p for p in folder.parents if p.name == tfds_source.ARRAY_RECORD_DIR]
    return parents[0].parent / "downloads" / "manual"


def _check_network(job: Job) -> None:
    """Says in one line what tfds would try for minutes to do."""
    if urllib.request.getproxies():
        return  # hosts are not reached directly
    manual = _manual_dir(job.folder)
    missing = [u for u in job.urls if not (manual / u.rpartition("/")[2]).exists()]
    for host, port in {_address(url) for url in missing}:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            raise DataError(
                f"{job.name}: cannot reach {host} ({error}); get {', '.join(missing)} "
                f"in another way and put it into {manual}"
            ) from error


def _address(url: str) -> tuple[str | None, int]:
    parts = urllib.parse.urlsplit(url)
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _mb(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.0f} MB"
