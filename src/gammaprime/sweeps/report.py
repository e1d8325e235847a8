"""Reports of a folder of runs, and the notes in it of what was run into it.

sweeps/<name>-<hash>.json    the spec's name, the changes, and its text if it does not ship
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gammaprime.runs import directory
from gammaprime.runs.directory import folder_name, from_json, to_json, write_whole
from gammaprime.sweeps import PAGE, RUNS
from gammaprime.sweeps.spec import KINDS, Sweep, load_experiment, parse, read_title, shipped

if TYPE_CHECKING:
    from gammaprime.figures.report import Picture
    from gammaprime.runs.results import Stored

NOTES = "sweeps"
UNREADABLE = (ValueError, OSError, ImportError, LookupError, TypeError, ArithmeticError)
"""Errors of reading or drawing a damaged sweep or run."""


def write_note(sweep: Sweep, out: Path) -> Path:
    """Note in a folder that a sweep was run into it."""
    entry: dict[str, Any] = {"name": sweep.name, "changed": dict(sweep.changed)}
    if sweep.text:
        # The file may change or be removed; the runs that it stood for stay.
        entry["text"] = sweep.text
    path = out / NOTES / f"{folder_name(sweep.name, entry)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    directory.remove_leftovers(path.parent, seconds=60.0)
    write_whole(path, to_json(entry))
    return path


def find_notes(out: Path) -> list[Path]:
    """Return the notes in a folder, by name."""
    return sorted((out / NOTES).glob("*.json"))


def read_note(file: Path) -> Sweep:
    """Return the sweep of a note; `ValueError` if it can no longer be read."""
    from gammaprime.runs.config import check_imports

    entry = from_json(file)
    name, changed, text = entry.get("name"), entry.get("changed"), entry.get("text", "")
    if not (isinstance(name, str) and isinstance(changed, dict)):
        raise ValueError(f"{file}: is not the note of a sweep")
    if not isinstance(text, str):
        raise ValueError(f"{file}: text={text!r}: must be that of a spec")
    if set(changed) - {"steps", "seeds", "tasks"}:
        raise ValueError(f"{file}: changes {', '.join(changed)}: from another version?")
    check_imports(tasks=changed.get("tasks", ()))
    sweep = parse(text, name, where=f"{name}.toml") if text else load_experiment(name)
    if not isinstance(sweep, Sweep):
        raise ValueError(f"{file}: {name} is not a sweep")
    return sweep.change(**changed)


def report(
    runs: str | Path = RUNS,
    out: str | Path = PAGE,
    say: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write one HTML page of everything that was run into a folder and has begun.

    Args:
        runs: folder of the runs, or of one run.
        out: file of the page.
        say: called with a line for each thing that cannot be read and is left out.

    Returns:
        The file.  The page names what was left out.
    """
    from gammaprime.figures import options
    from gammaprime.figures.report import write

    folder = Path(runs)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder")
    sweeps, pictures, left_out = [], [], []
    shown: set[Path] = set()
    stored: dict[Path, Stored] = {}

    def leave_out(path: Path, error: Exception) -> None:
        if path.name not in left_out:
            left_out.append(path.name)
            say(f"left out {path.name}: {error}")

    single: list[Path] = []
    own = [folder / "config.json"] if (folder / "config.json").is_file() else []
    for path in [*find_notes(folder), *own, *sorted(folder.glob("*/config.json"))]:
        name = path.parent.name if path.name == "config.json" else path.name.removesuffix(".json")
        try:
            if path.name == "config.json":
                if path.parent not in shown and from_json(path).get("kind") == "train":
                    single.append(path.parent)
                else:
                    pictures += _pictures(path)
                continue
            sweep = read_note(path)
            results = sweep.results(folder, leave_out, stored)
            if any(result.reached for result in results):
                sweeps.append((options.read(sweep), results))
                shown |= {result.path for result in results}
        except UNREADABLE as error:
            leave_out(Path(name), error)
    pictures += _single_runs(single, leave_out)
    if not sweeps and not pictures:
        if left_out:
            raise ValueError(f"{folder}: nothing is left to show")
        raise FileNotFoundError(f"{folder}: nothing was run here; first: gammaprime run demo")
    return write(Path(out), sweeps, pictures, left_out)


def _single_runs(
    folders: Sequence[Path], leave_out: Callable[[Path, Exception], None]
) -> list[Picture]:
    """Return one picture of all runs that belong to no sweep and have begun."""
    from gammaprime.figures import plots
    from gammaprime.figures.report import Picture
    from gammaprime.runs.results import read_history

    runs = []
    for folder in folders:
        try:
            run = read_history(folder)
        except UNREADABLE as error:
            leave_out(folder, error)
            continue
        if len(run.metrics):
            runs.append(run)
    if not runs:
        return []
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''}"
    figure = plots.plot(runs, plots.Options(title=f"Returns of {count}"))
    names = ", ".join(run.path.name for run in runs)
    return [Picture(names, "Single runs", [figure], runs[0].manifest, count)]


def _pictures(file: Path) -> list[Picture]:
    """Return the picture of a finished computation, given its config.json; none of other runs."""
    from gammaprime.figures import plot_computed
    from gammaprime.figures.report import Picture

    config = from_json(file)
    kind, path = config.get("kind"), file.parent
    if not isinstance(kind, str):
        raise directory.DamagedError(f"{file}: kind={kind!r}: must be a name")
    if kind not in KINDS or not directory.is_done(path, config):
        return []
    run = directory.read(path, config)
    name = path.name.rpartition("-")[0]
    title = read_title(name) if name in shipped() else name
    return [Picture(name, title, plot_computed(run.config, run.data), run.manifest)]
