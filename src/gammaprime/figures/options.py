"""How a spec wants its sweep shown: the table [figure], checked when it is drawn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gammaprime.suite.spec import check_keys, unknown

if TYPE_CHECKING:
    from gammaprime.suite.sweep import Sweep

BANDS = {
    "median_std": "median ± standard deviation",
    "iqm": "interquartile mean with its 95 % bootstrap interval",
}
RETURNS = ("training", "evaluations")
OPTIONAL = ("returns", "band", "baseline", "focus", "panels", "groups", "last", "spread")


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
    baseline: str
    """Measures the others; the first variant unless named."""
    focus: str | None
    """Compared with each other variant, if named; else each other is with the baseline."""
    panels: tuple[Panel, ...]
    groups: tuple[tuple[str, ...], ...]
    """Columns of a table that compete; the first of each is compared with its others."""
    last: int
    """A final return is over so many last evaluations."""
    spread: float
    """Standard deviations behind the ± of a table."""

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Which variants are compared."""
        if self.kind == "table":
            return [(group[0], other) for group in self.groups for other in group[1:]]
        (names,) = self.groups
        if self.focus is not None:
            return [(self.focus, name) for name in names if name != self.focus]
        return [(name, self.baseline) for name in names if name != self.baseline]


def read(sweep: Sweep, band: str | None = None) -> Options:
    """The options of a sweep; ``band`` replaces the spec's."""
    table = sweep.figure
    names = tuple(variant.name for variant in sweep.variants)
    # With other tasks than the spec's, variants may be gone that it speaks of.
    strict = not sweep.changed
    try:
        check_keys(table, ("kind",), OPTIONAL)
        baseline = _kept([table.get("baseline", names[0])], names, strict)
        focus = _kept([table["focus"]], names, strict) if "focus" in table else ()
        groups = [_kept(group, names, strict) for group in table.get("groups", [names])]
        return Options(
            table["kind"],
            _one_of("returns", table.get("returns", "training"), RETURNS),
            _one_of("band", band or table.get("band", "median_std"), BANDS),
            baseline[0] if baseline else names[0],
            focus[0] if focus else None,
            tuple(_panel(panel, names, strict) for panel in table.get("panels", ())),
            tuple(group for group in groups if group),
            int(_positive("last", table.get("last", 10))),
            _positive("spread", table.get("spread", 0.5)),
        )
    except ValueError as error:
        raise ValueError(f"{sweep.name}: figure: {error}") from None


def _panel(table: Mapping[str, Any], names: Collection[str], strict: bool) -> Panel:
    check_keys(table, ("label", "values", "variants"))
    values, variants = table["values"], table["variants"]
    if len(values) != len(variants):
        raise ValueError(f"panel {table['label']!r}: must have as many values as variants")
    kept = _kept(variants, names, strict)
    pairs = [(float(value), name) for value, name in zip(values, variants, strict=True)]
    return Panel(str(table["label"]), tuple(v for v, name in pairs if name in kept), kept)


def _kept(wanted: Sequence[str], names: Collection[str], strict: bool) -> tuple[str, ...]:
    for name in wanted:
        if strict and name not in names:
            raise ValueError(unknown("variant", name, names))
    return tuple(name for name in wanted if name in names)


def _one_of(key: str, value: Any, allowed: Collection[str]) -> str:
    if value not in allowed:
        raise ValueError(unknown(key, value, allowed))
    return value


def _positive(key: str, value: Any) -> float:
    if type(value) not in (int, float) or not value > 0:
        raise ValueError(f"{key}={value!r}: must be a number above 0")
    return value
