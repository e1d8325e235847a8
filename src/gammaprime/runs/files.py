"""Files that are whole or not there, and JSON that is an object or refused."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: bytes) -> None:
    """All of the file or nothing of it, whenever the machine stops or the disk is full."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder as durable as the files."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove_leftovers(path: Path) -> None:
    """Remove what a process that was killed while it wrote has left in a folder."""
    for stale in path.glob(".*.tmp"):
        stale.unlink(missing_ok=True)


def to_json(value: Mapping[str, Any], indent: int | None = 2) -> bytes:
    """One text for equal values.  NaN and infinity are no JSON, and refused."""
    text = json.dumps(value, sort_keys=True, indent=indent, allow_nan=False)
    return (text + "\n").encode()


def from_json(path: Path) -> dict[str, Any]:
    """The object in a file; anything else is named and refused."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: must be a JSON object")
    return value
