"""Every contest by its name; a later room adds its module here."""

from __future__ import annotations

from benchmarks import estimators, start_up, tabular
from benchmarks.harness import Contest, Measurement

CONTESTS: dict[str, Contest | Measurement] = {
    contest.name: contest
    for module in (start_up, tabular, estimators)
    for contest in module.CONTESTS
}
