"""The store of a URL (`remote.log.storage.url`). boto3 is imported for an S3 URL only. Does not contain: the stores."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from brokerd.remote import s3
from brokerd.remote.stores import FolderStore, ObjectStore


def store_at(url: str) -> ObjectStore:
    """The store at a URL that `config/remote` has accepted. Raises StoreUnavailable, for example if the library of the store is not installed."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return FolderStore(Path(unquote(parts.path)))
    return s3.store_at(parts.netloc, parts.path.strip("/"))
