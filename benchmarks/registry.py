"""Every contest by its name; a later room adds its module here."""

from __future__ import annotations

from benchmarks import (
    adapters,
    bullet,
    estimators,
    off_policy,
    on_policy,
    on_policy_peers,
    on_policy_slots,
    start_up,
    tabular,
    threads,
)
from benchmarks.harness import Contest, Measurement

MODULES = (
    *(start_up, tabular, estimators),
    *(on_policy, on_policy_slots, on_policy_peers, off_policy, bullet, threads, adapters),
)

CONTESTS: dict[str, Contest | Measurement] = {
    contest.name: contest for module in MODULES for contest in module.CONTESTS
}
