"""The key index of a remote segment: an object next to its log object, in the format of `storage/key_index`.

Invariants: the broker's index file is copied if it is valid. Otherwise the helper builds the index from the segment file, so that a segment that is
copied soon after it was closed has an index too. Does not contain: searches (`key_lookups`), the records of the metadata topic (`segments`).
"""

from __future__ import annotations

from pathlib import Path

from brokerd.remote.stores import ObjectStore, Spend
from brokerd.storage import key_index
from brokerd.storage.disk import Disk
from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index import InvalidKeyIndex
from brokerd.storage.key_index_build import KeyIndexBuild, open_index

SLICE_BYTES = 1024 * 1024


def put_key_index(
    disk: Disk,
    store: ObjectStore,
    name: str,
    segment: tuple[Path, int, int],
    header_name: str,
    temporary: Path,
    spend: Spend,
) -> tuple[int, int]:
    """Store the key index of the closed segment (path, base offset, size) as the object `name`. Returns (bytes, header seed). `temporary` is
    written and removed if the broker has no valid index. Raises StoreUnavailable, DiskFailed, DiskFull, OSError."""
    path, base_offset, size = segment
    hashed = HashedKeys(header_name)
    own = path.with_suffix(key_index.SUFFIX)
    try:
        open_index(disk, path, disk.open(path), base_offset, size, hashed.seed)
        length = disk.size(own)
        store.put_file(name, own, length, spend)
        return length, hashed.seed
    except InvalidKeyIndex:
        pass
    build = KeyIndexBuild(disk, path, base_offset, size, hashed, temporary=temporary)
    try:
        while not build.finished:
            build.run(SLICE_BYTES)
        length = disk.size(temporary)
        store.put_file(name, temporary, length, spend)
        return length, hashed.seed
    finally:
        disk.unlink(temporary)
