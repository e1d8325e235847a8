"""What a training run will find on this machine, and what is missing."""

from __future__ import annotations

import os
import re
import shutil
from importlib import metadata
from pathlib import Path

from gammaprime.cli import video
from gammaprime.runs import provenance
from gammaprime.runs.startup import ONE_THREAD

EXTRAS = ("train", "bullet", "report", "ray", "sb3")
_REQUIREMENT = re.compile(r"""([\w.-]+).*extra == ["'](\w+)["']""")


def examine() -> list[tuple[str, str]]:
    """Name and finding, in the order in which to read them."""
    versions = provenance.versions()
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    free = shutil.disk_usage(Path.cwd()).free / 1e9
    findings = [
        ("gammaprime", metadata.version("gammaprime")),
        ("versions", packages),
        ("processor", f"{provenance.cpu_model()}, {provenance.num_cores()} cores for this process"),
        ("threads", f"a run uses one, whatever {_threads()}"),
        ("MuJoCo", provenance.mujoco_build() or "not installed"),
        ("disk", f"{free:.1f} GB free here; a million steps need 2 MB, with a replay 200 MB more"),
        ("cache", _cache()),
    ]
    rendering = video.probe_rendering() if "mujoco" in versions else "needs MuJoCo"
    return [*findings, ("rendering", rendering), *_extras()]


def _threads() -> str:
    chosen = [f"{name}={os.environ[name]}" for name in ONE_THREAD if name in os.environ]
    return ", ".join(chosen) or "the number of cores"


def _cache() -> str:
    folder = provenance.default_cache()
    programs = list(folder.glob("*-cache")) if folder.is_dir() else []
    size = sum(file.stat().st_size for file in programs) / 1e6
    nearest = next(path for path in (folder, *folder.parents) if path.is_dir())
    state = "" if os.access(nearest, os.W_OK) else ", but it cannot be written to"
    return f"{len(programs)} compiled programs, {size:.1f} MB in {folder}{state}"


def _extras() -> list[tuple[str, str]]:
    """For each extra, what of it is missing and the line that installs it."""
    found = []
    for extra in EXTRAS:
        missing = [name for name in _requirements(extra) if not _installed(name)]
        lack = f"missing {', '.join(missing)}: pip install 'gammaprime[{extra}]'"
        found.append((f"[{extra}]", lack if missing else "complete"))
    return found


def _requirements(extra: str) -> list[str]:
    matches = (_REQUIREMENT.match(line) for line in metadata.requires("gammaprime") or [])
    names = [match[1] for match in matches if match and match[2] == extra]
    return [name for name in names if name != "gammaprime"]


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
