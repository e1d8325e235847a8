"""How a spec wants its sweep shown: the table [figure], checked before anything is trained."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from gammaprime.sweeps.spec import check_keys
from gammaprime.types import check_count, unknown

if TYPE_CHECKING:
    from gammaprime.sweeps.sweep import Sweep

BANDS = {
    "median_std": "median ± standard deviation",
    "iqm": "interquartile mean with its 95 % bootstrap interval",
}
RETURNS = ("training", "evaluations")
SHARED = ("returns", "band", "last", "spread")
COMPARED = ("baseline", "focus", "against_baseline")
REQUIRED = {"curves": (), "ablation": ("panels",), "table": ()}
OPTIONAL = {
    "curves": (*SHARED, *COMPARED, "groups"),
    "ablation": (*SHARED, *COMPARED),
    "table": (*SHARED, "groups"),
}


@dataclass(frozen=True)
class Panel:
    """One axis of an ablation: its values, and the variants that stand for them."""

    label: str
    values: tuple[float, ...]
    variants: tuple[str, ...]


@dataclass(frozen=True)
class Options:
    """What [figure] says, and what stands for what it does not say."""

    kind: str
    returns: str
    """Judged by the episodes of training, or by evaluations."""
    band: str
    baseline: str | None
    """Measures the others; the first variant unless named, None where groups compete: the first of
    each is compared with its others."""
    focus: str | None
    """Compared with each other variant, if named; else each other is with the baseline."""
    against_baseline: tuple[str, ...]
    """Besides the focus, these are compared with the baseline."""
    panels: tuple[Panel, ...]
    groups: tuple[tuple[str, ...], ...]
    """Variants that stand side by side: all, or those that compete by the spec."""
    last: int
    """A final return is over so many last evaluations."""
    spread: float
    """Standard deviations behind the ± of a table."""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Which variants are compared."""
        if self.baseline is None:
            return [(group[0], other) for group in self.groups for other in group[1:]]
        (names,) = self.groups
        if self.focus is None:
            return [(name, self.baseline) for name in names if name != self.baseline]
        pairs = [(self.focus, name) for name in names if name != self.focus]
        # Where other tasks left the baseline out, another stands for it.
        more = () if self.focus == self.baseline else self.against_baseline
        return pairs + [(name, self.baseline) for name in more if name != self.baseline]


def read(sweep: Sweep, band: str | None = None) -> Options:
    """The options of a sweep; ``band`` replaces the spec's."""
    table = sweep.figure
    kind = table["kind"]
    # On other tasks than the spec's, variants may be gone that it speaks of.
    names = _Names(tuple(v.name for v in sweep.variants), strict="tasks" not in sweep.changed)
    try:
        _check_kind(table)
        return Options(
            kind,
            _one_of("returns", table.get("returns", "training"), RETURNS),
            _one_of("band", band or table.get("band", "median_std"), BANDS),
            None if _compete(table) else names.one("baseline", table) or names.known[0],
            names.one("focus", table),
            _against_baseline(table, names),
            _panels(table["panels"], names) if kind == "ablation" else (),
            _groups(table.get("groups", [list(names.known)]), names),
            check_count("last", table.get("last", 10)),
            _number("spread", table.get("spread", 0.5)),
        )
    except ValueError as error:
        raise ValueError(f"{sweep.name}: figure: {error}") from None


@dataclass(frozen=True)
class _Names:
    """The variants that a figure may speak of."""

    known: tuple[str, ...]
    strict: bool

    def one(self, key: str, table: Mapping[str, Any]) -> str | None:
        """The variant under a key, if there is one."""
        if key not in table:
            return None
        if not isinstance(table[key], str):
            raise ValueError(f"{key}={table[key]!r}: must be the name of a variant")
        kept = self.kept(key, [table[key]])
        return kept[0] if kept else None

    def kept(self, key: str, wanted: Any) -> tuple[str, ...]:
        """Those of a list that are there; all must be, unless other tasks were asked for."""
        if not isinstance(wanted, list) or not all(isinstance(name, str) for name in wanted):
            raise ValueError(f"{key}={wanted!r}: must be a list of variants")
        if len(set(wanted)) < len(wanted):
            raise ValueError(f"{key}={wanted!r}: must name each once")
        for name in wanted:
            if self.strict and name not in self.known:
                raise ValueError(unknown("variant", name, self.known))
        return tuple(name for name in wanted if name in self.known)


def _check_kind(table: Mapping[str, Any]) -> None:
    """Every key is one that this kind of figure reads."""
    kind = table["kind"]
    for key in table:
        readers = [k for k in OPTIONAL if key in (*REQUIRED[k], *OPTIONAL[k])]
        if readers and kind not in readers:
            raise ValueError(f"{key}: is for the kind {' or '.join(readers)}, not {kind}")
    check_keys(table, ("kind", *REQUIRED[kind]), OPTIONAL[kind])


def _against_baseline(table: Mapping[str, Any], names: _Names) -> tuple[str, ...]:
    if "against_baseline" not in table:
        return ()
    wanted = names.kept("against_baseline", table["against_baseline"])
    if "focus" not in table:
        raise ValueError("against_baseline: needs a focus; without one, all are")
    for key in ("baseline", "focus"):
        if table.get(key) in wanted:
            raise ValueError(f"against_baseline: {table[key]!r} is the {key}")
    return wanted


def _panels(tables: Any, names: _Names) -> tuple[Panel, ...]:
    if not isinstance(tables, list) or not tables:
        raise ValueError("panels: must be tables, at least one: [[figure.panels]]")
    panels = [_panel(table, names) for table in tables]
    kept = tuple(panel for panel in panels if panel.variants)
    if not kept:
        raise ValueError("panels: none of their variants is trained on these tasks")
    return kept


def _panel(table: Any, names: _Names) -> Panel:
    if not isinstance(table, Mapping):
        raise ValueError("panels: must be tables, at least one: [[figure.panels]]")
    check_keys(table, ("label", "values", "variants"))
    about = f"panel {table['label']!r}"
    values, variants = table["values"], table["variants"]
    kept = names.kept(f"{about}: variants", variants)
    if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
        raise ValueError(f"{about}: values={values!r}: must be a list of numbers")
    if len(values) != len(variants) or not values:
        raise ValueError(f"{about}: must have as many values as variants, at least one")
    pairs = [(float(value), name) for value, name in zip(values, variants, strict=True)]
    return Panel(str(table["label"]), tuple(v for v, name in pairs if name in kept), kept)


def _compete(table: Mapping[str, Any]) -> bool:
    """Whether variants are compared inside their groups."""
    for key in COMPARED:
        if key in table and "groups" in table:
            raise ValueError(f"groups: say who is compared, and so does {key}; choose one")
    return table["kind"] == "table" or "groups" in table


def _groups(lists: Any, names: _Names) -> tuple[tuple[str, ...], ...]:
    if not isinstance(lists, list) or not lists:
        raise ValueError(f"groups={lists!r}: must be lists of variants, at least one")
    groups = [names.kept("groups", group) for group in lists]
    return tuple(group for group in groups if group)


def _one_of(key: str, value: Any, allowed: Collection[str]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(unknown(key, value, allowed))
    return value


def _number(key: str, value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value < inf:
        raise ValueError(f"{key}={value!r}: must be a number above 0")
    return value
