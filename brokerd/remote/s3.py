"""A remote store in S3, or in a service with the same protocol. Uses boto3, which is an optional dependency (`weir[s3]`).

Credentials, region and endpoint come from the environment and the files of the AWS tools (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL_S3, ~/.aws/config); they
are never in the broker's settings. An upload of a large file has several parts; the object is visible when it is complete.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from brokerd.remote.stores import ObjectMissing, Spend, StoreUnavailable

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 5, 20
ATTEMPTS_MAX = 2
"""Maximum number of attempts of one request in the library. The broker repeats a failed copy or read later."""
MISSING_CODES = frozenset({"404", "NoSuchKey"})


def store_at(bucket: str, prefix: str) -> S3Store:
    """Raises StoreUnavailable if boto3 is not installed."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError as e:
        raise StoreUnavailable(
            "remote.log.storage.url is an S3 URL, but boto3 is not installed: install weir[s3]"
        ) from e

    def client() -> Any:
        return boto3.session.Session().client(
            "s3",
            config=Config(
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                retries={"max_attempts": ATTEMPTS_MAX, "mode": "standard"},
                max_pool_connections=32,
            ),
        )

    return S3Store(client, bucket, prefix)


class _Limited:
    """The first `size` bytes of an open file, for an upload. Applies the copy quota."""

    def __init__(self, file: BinaryIO, size: int, spend: Spend) -> None:
        self._file, self._left, self._spend = file, size, spend

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        if data:
            self._spend(len(data))
        return data


class S3Store:
    def __init__(self, client: Callable[[], object], bucket: str, prefix: str) -> None:
        self._new_client, self._bucket, self._prefix = client, bucket, f"{prefix}/" if prefix else ""
        self._client: object = None
        self._lock = threading.Lock()

    @contextmanager
    def _with_client(self, name: str) -> Iterator[Any]:
        """A client that threads share. Errors of the library are translated."""
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            with self._lock:
                if self._client is None:
                    self._client = self._new_client()
            yield self._client
        except ClientError as e:
            if e.response.get("Error", {}).get("Code", "") in MISSING_CODES:
                raise ObjectMissing(name) from e
            raise StoreUnavailable(f"s3://{self._bucket}/{self._prefix}{name}: {e}") from e
        except (BotoCoreError, Boto3Error) as e:
            raise StoreUnavailable(f"s3://{self._bucket}/{self._prefix}{name}: {e}") from e

    def put_file(self, name: str, path: Path, size: int, spend: Spend) -> None:
        with open(path, "rb") as file, self._with_client(name) as client:
            client.upload_fileobj(_Limited(file, size, spend), self._bucket, self._prefix + name)

    def put_bytes(self, name: str, data: bytes) -> None:
        with self._with_client(name) as client:
            client.put_object(Bucket=self._bucket, Key=self._prefix + name, Body=data)

    def get(self, name: str, position: int, length: int) -> bytes:
        with self._with_client(name) as client:
            span = f"bytes={position}-{position + length - 1}"
            found = client.get_object(Bucket=self._bucket, Key=self._prefix + name, Range=span)
            data: bytes = found["Body"].read()
            return data

    def delete(self, name: str) -> None:
        with self._with_client(name) as client:
            client.delete_object(Bucket=self._bucket, Key=self._prefix + name)

    def names(self, prefix: str) -> Iterator[str]:
        with self._with_client(prefix) as client:
            pages = client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix):
                for found in page.get("Contents", ()):
                    yield found["Key"].removeprefix(self._prefix)
