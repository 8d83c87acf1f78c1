"""A store of objects that speaks S3, on this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest


@contextmanager
def s3_store(bucket: str) -> Iterator[tuple[Any, dict[str, str]]]:
    """Start a server with an empty bucket, which `s3://` means in the block.

    Yields
    ------
    its file system of fsspec
    the environment by which other processes see it (after `reconfigure`)
    """
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        environment = {
            "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1",
            "FSSPEC_S3_ENDPOINT_URL": f"http://{host}:{port}",
        }  # fmt: skip
        with patch.dict(os.environ, environment):
            reconfigure(environment)
            store = fsspec.filesystem("s3")
            store.mkdir(bucket)
            yield store, environment
    finally:
        server.stop()
        fsspec.config.conf.pop("s3", None)


def reconfigure(environment: dict[str, str]) -> None:
    """Let fsspec of this process see an environment, which it reads once by itself."""
    import fsspec

    os.environ.update(environment)
    fsspec.config.set_conf_env(fsspec.config.conf)
