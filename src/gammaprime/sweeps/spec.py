"""From a TOML to checked settings: an experiment that ships with the package, or your own file.

A spec has a ``title``, a ``kind`` (which code runs it) and a table of ``settings``; one that has
a ``base`` and ``variants`` instead is a sweep of training runs (`gammaprime.sweeps.sweep`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from gammaprime.experiments import toy, weights
from gammaprime.types import check_keys, unknown

if TYPE_CHECKING:
    from gammaprime.sweeps.sweep import Sweep

KINDS = {"toy": toy, "weights": weights}
"""Each kind is a module with frozen ``Settings`` and ``run(settings, report) -> arrays``."""

Settings = toy.Settings | weights.Settings


@dataclass(frozen=True)
class Spec:
    """An experiment, ready to run."""

    name: str
    title: str
    kind: str
    settings: Settings

    @property
    def config(self) -> dict[str, Any]:
        """What decides the numbers, and so the identity of a run; the title does not."""
        return {"kind": self.kind, "settings": asdict(self.settings)}


def shipped() -> list[str]:
    """Names of the experiments in the package."""
    files = resources.files("gammaprime.experiments").iterdir()
    return sorted(Path(file.name).stem for file in files if file.name.endswith(".toml"))


def load(name: str) -> Spec | Sweep:
    """The experiment of this name, or in this TOML file."""
    return parse(*_find(name))


def title(name: str) -> str:
    """What the experiment of this name is called; nothing that would run it is imported."""
    text, _, where = _find(name)
    return str(_read(text, where).get("title", ""))


def _find(name: str) -> tuple[str, str, str]:
    """The text of an experiment, its short name, and where it came from."""
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise FileNotFoundError(f"{name}: no such file")
        return path.read_text(encoding="utf-8"), path.stem, name
    names = shipped()
    if name not in names:
        raise ValueError(f"{unknown('experiment', name, names)} (a file's name ends in .toml)")
    file = resources.files("gammaprime.experiments") / f"{name}.toml"
    return file.read_text(encoding="utf-8"), name, f"{name}.toml"


def parse(text: str, name: str, where: str) -> Spec | Sweep:
    """The experiment written in this TOML; ``where`` it came from is told in errors."""
    table = _read(text, where)
    try:
        is_sweep = "base" in table or "variants" in table
        return _sweep(table, name) if is_sweep else _single(table, name)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _read(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where}: not valid TOML: {error}") from None


def _sweep(table: Mapping[str, Any], name: str) -> Sweep:
    # Agents are imported for those who train them: the other kinds need the core alone.
    try:
        from gammaprime.sweeps import sweep
    except ImportError as error:
        raise ImportError(
            f"{name} trains agents, which needs {error.name}: pip install 'gammaprime[train]'"
        ) from error
    return sweep.parse(table, name)


def _single(table: Mapping[str, Any], name: str) -> Spec:
    check_keys(table, required=("title", "kind", "settings"))
    if table["kind"] not in KINDS:
        raise ValueError(unknown("kind", table["kind"], KINDS))
    settings = _settings(KINDS[table["kind"]].Settings, table["settings"])
    return Spec(name, str(table["title"]), table["kind"], settings)


def _settings(cls: type[Settings], table: Any) -> Settings:
    """The dataclass from its table: every key there, no other, each of its type."""
    if not isinstance(table, dict):
        raise ValueError(f"settings={table!r}: must be a table")
    check_keys(table, required=[field.name for field in fields(cls)])
    hints = get_type_hints(cls)
    return cls(**{key: _typed(key, value, hints[key]) for key, value in table.items()})


def _typed(key: str, value: Any, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise ValueError(f"{key}={value!r}: must be a list")
        return tuple(_typed(f"{key}[{i}]", item, get_args(kind)[0]) for i, item in enumerate(value))
    if kind is int and type(value) is int:
        return value
    if kind is float and type(value) in (int, float):
        return float(value)
    raise ValueError(f"{key}={value!r}: must be {'an integer' if kind is int else 'a number'}")
