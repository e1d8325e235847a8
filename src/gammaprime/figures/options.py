"""The table [figure] of a spec: how a sweep is shown and which variants are compared.

It is parsed once, before anything is trained, and needs neither matplotlib nor JAX.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any, Protocol

from gammaprime.types import check_count, check_keys, unknown

Table = Mapping[str, Any]

KINDS = ("curves", "finals", "ablation", "table")
BANDS = ("median_std", "iqm")
FORMATS = ("pdf", "tex")
"""Formats that are written if asked for: PDF of pictures, LaTeX of tables."""
RETURNS = ("training", "evaluations")
SHARED = ("compare", "returns", "band", "last", "spread", "levels")
OF_ABLATIONS = ("panels", "normalise_by")


class Sweep(Protocol):
    """Part of a sweep that figures read; each of its variants has a name."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def claim(self) -> str: ...
    @property
    def paper(self) -> tuple[str, ...]: ...
    @property
    def variants(self) -> Sequence[Any]: ...
    @property
    def figure_table(self) -> Table: ...
    @property
    def changed(self) -> Table: ...


@dataclass(frozen=True)
class Panel:
    """One axis of an ablation: its values, and the variant that stands for each."""

    label: str
    values: tuple[float, ...]
    variants: tuple[str, ...]


@dataclass(frozen=True)
class FigureOptions:
    """Table [figure] of a spec with all defaults, and the texts of its sweep."""

    name: str
    title: str
    claim: str
    paper: tuple[str, ...]
    changed: Table
    variants: tuple[str, ...]
    kind: str
    """curves, finals, ablation or table."""
    compare: tuple[tuple[str, str], ...]
    """Pairs of variants; the first of each is tested against the second."""
    returns: str
    """Returns of the episodes of training, or of evaluations."""
    band: str
    """Median ± standard deviation, or interquartile mean with its bootstrap interval."""
    last: int
    """Number of last evaluations behind a final return."""
    spread: float
    """Number of standard deviations behind the ± of a table."""
    levels: Mapping[str, float]
    """Return that separates the two levels of a bimodal task, by task."""
    panels: tuple[Panel, ...]
    """Axes of an ablation."""
    normalise_by: str
    """Variant by whose mean final return an ablation divides."""
    formats: tuple[str, ...] = ()
    """Formats besides PNG, SVG, Markdown and CSV: pdf for pictures, tex for tables."""

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Variants that are compared with each other, directly or through others."""
        groups = [{name} for name in self.variants]
        for first, second in self.compare:
            joined = {n for group in groups if {first, second} & group for n in group}
            groups = [group for group in groups if not group & joined] + [joined]
        ordered = [tuple(name for name in self.variants if name in group) for group in groups]
        return sorted(ordered, key=lambda group: self.variants.index(group[0]))


def read(sweep: Sweep, band: str | None = None, formats: Sequence[str] = ()) -> FigureOptions:
    """Parse the table [figure] of a sweep; ``band`` replaces the spec's."""
    check_formats(formats)
    names = tuple(variant.name for variant in sweep.variants)
    for text in (sweep.title, *names):
        _check_formula(sweep.name, text)
    # Other tasks than the spec's may leave out variants that [figure] names.
    strict = "tasks" not in sweep.changed
    try:
        shown = _parse(sweep, _Names(names, strict), band)
    except ValueError as error:
        raise ValueError(f"{sweep.name}: figure: {error}") from None
    return replace(shown, formats=tuple(formats))


def check_formats(formats: Sequence[str]) -> None:
    """Refuse a format that nothing is written in."""
    for name in formats:
        if name not in FORMATS:
            raise ValueError(f"formats: {unknown('format', name, FORMATS)}")


def _check_formula(name: str, text: str) -> None:
    """Refuse a formula between $ that matplotlib cannot draw, if it is installed."""
    if text.replace(r"\$", "").count("$") < 2:
        return
    try:
        from matplotlib.mathtext import MathTextParser
    except ImportError:
        return
    try:
        MathTextParser("path").parse(text)
    except ValueError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ValueError(
            f"{name}: {text!r}: is not a formula that can be drawn ({reason})"
        ) from None


@dataclass(frozen=True)
class _Names:
    """Variants that a figure may name; unknown names are dropped unless ``strict``."""

    known: tuple[str, ...]
    strict: bool

    def keep(self, key: str, wanted: Any) -> tuple[str, ...]:
        """Return those of a list of variants that exist."""
        if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
            raise ValueError(f"{key}={wanted!r}: must be a list of variants")
        if len(set(wanted)) < len(wanted):
            raise ValueError(f"{key}={wanted!r}: must name each once")
        for name in wanted:
            if self.strict and name not in self.known:
                raise ValueError(unknown("variant", name, self.known))
        return tuple(name for name in wanted if name in self.known)


def _parse(sweep: Sweep, names: _Names, band: str | None) -> FigureOptions:
    table = sweep.figure_table
    kind = _one_of("kind", table.get("kind"), KINDS)
    is_ablation = kind == "ablation"
    for key in OF_ABLATIONS:
        if key in table and not is_ablation:
            raise ValueError(f"{key}: is for the kind ablation, not {kind}")
    check_keys(table, ("kind", "panels") if is_ablation else ("kind",), (*SHARED, *OF_ABLATIONS))
    unit = names.keep("normalise_by", [table.get("normalise_by", names.known[0])])
    normalise_by = unit[0] if unit else names.known[0]
    everyone = [[name, normalise_by] for name in names.known if name != normalise_by]
    return FigureOptions(
        sweep.name,
        sweep.title,
        sweep.claim,
        sweep.paper,
        sweep.changed,
        names.known,
        kind,
        _pairs(table.get("compare", everyone), names),
        _one_of("returns", table.get("returns", "training"), RETURNS),
        _one_of("band", band or table.get("band", "median_std"), BANDS),
        check_count("last", table.get("last", 10)),
        _spread(table.get("spread", 1.0)),
        _levels(table.get("levels", {})),
        _panels(table["panels"], names) if is_ablation else (),
        normalise_by,
    )


def _pairs(lists: Any, names: _Names) -> tuple[tuple[str, str], ...]:
    if not isinstance(lists, list) or any(not isinstance(p, list) or len(p) != 2 for p in lists):
        raise ValueError(f"compare={lists!r}: must be a list of pairs of variants")
    pairs = [names.keep("compare", pair) for pair in lists]
    if len({frozenset(pair) for pair in lists}) < len(lists):
        raise ValueError(f"compare={lists!r}: must name each pair once")
    return tuple((pair[0], pair[1]) for pair in pairs if len(pair) == 2)


def _panels(tables: Any, names: _Names) -> tuple[Panel, ...]:
    if (
        not isinstance(tables, list)
        or not tables
        or not all(isinstance(t, Mapping) for t in tables)
    ):
        raise ValueError("panels: must be tables, at least one: [[figure.panels]]")
    panels = [_panel(table, names) for table in tables]
    kept = tuple(panel for panel in panels if panel.variants)
    if not kept:
        raise ValueError("panels: none of their variants is trained on these tasks")
    return kept


def _panel(table: Table, names: _Names) -> Panel:
    check_keys(table, ("label", "values", "variants"))
    about = f"panel {table['label']!r}"
    values, variants = table["values"], table["variants"]
    kept = names.keep(f"{about}: variants", variants)
    if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
        raise ValueError(f"{about}: values={values!r}: must be a list of numbers")
    if len(values) != len(variants) or not values:
        raise ValueError(f"{about}: must have as many values as variants, at least one")
    pairs = [(float(value), name) for value, name in zip(values, variants, strict=True)]
    return Panel(str(table["label"]), tuple(v for v, name in pairs if name in kept), kept)


def _levels(table: Any) -> dict[str, float]:
    if not isinstance(table, Mapping):
        raise ValueError(f"levels={table!r}: must be a table of tasks and returns")
    for task, level in table.items():
        if type(level) not in (int, float) or not isfinite(level):
            raise ValueError(f"levels: {task}={level!r}: must be a finite number")
    return {str(task): float(level) for task, level in table.items()}


def _one_of(key: str, value: Any, allowed: Collection[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(unknown(key, value, allowed))
    return value


def _spread(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value < inf:
        raise ValueError(f"spread={value!r}: must be a number above 0")
    return float(value)
