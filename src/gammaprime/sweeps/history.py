"""What was run into a folder, and what the command line changed: for its report.

sweeps/<name>-<hash>.json    the spec's name, its text where it is no shipped one, the changes
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gammaprime.runs import store
from gammaprime.runs.files import from_json, to_json, write_whole
from gammaprime.sweeps import spec

if TYPE_CHECKING:  # it imports the agents, which what is computed does not need
    from gammaprime.sweeps.sweep import Sweep

FOLDER = "sweeps"


def note(root: Path, name: str, sweep: Sweep) -> Path:
    """Remember that a sweep was asked for; ``name`` is what it was asked by."""
    entry: dict[str, Any] = {"name": sweep.name, "changed": dict(sweep.changed)}
    if name.endswith(".toml"):
        # The file may change or go; the runs it stood for stay.
        entry["text"] = Path(name).read_text(encoding="utf-8")
    path = store.run_path(root / FOLDER, sweep.name, entry).with_suffix(".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, to_json(entry))
    return path


def noted(root: Path) -> list[Path]:
    """The notes of sweeps that were asked for in a folder, by name."""
    return sorted((root / FOLDER).glob("*.json"))


def recall(file: Path) -> Sweep:
    """The sweep of a note; `ValueError` if it can no longer be read."""
    entry = from_json(file)
    changed, text = entry.get("changed"), entry.get("text", "")
    if not (isinstance(entry.get("name"), str) and isinstance(changed, dict)):
        raise ValueError(f"{file}: is not the record of a sweep")
    if not isinstance(text, str):
        raise ValueError(f"{file}: text={text!r}: must be that of a spec")
    if set(changed) - {"steps", "seeds", "tasks"}:
        raise ValueError(f"{file}: changes {', '.join(changed)}: from another version?")
    if "text" in entry:
        found = spec.parse(text, entry["name"], where=str(file))
    else:
        found = spec.load(entry["name"])
    if isinstance(found, spec.Spec):
        raise ValueError(f"{file}: {entry['name']} is no sweep")
    return found.change(**changed)


def computed(root: Path) -> list[tuple[str, str, store.Run]]:
    """The finished runs of a folder that are of no sweep: name, title, and what was stored."""
    found = []
    for file in sorted(root.glob("*/config.json")):
        config = from_json(file)
        if config.get("kind") in spec.KINDS and store.is_done(file.parent, config):
            name = file.parent.name.rpartition("-")[0]
            title = spec.title(name) if name in spec.shipped() else name
            found.append((name, title, store.read(file.parent, config)))
    return found
