"""Recommendation of docs/results.md, with its lines of Python and shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import claims
from claims import Decision, Shown

from gammaprime.figures import comparisons
from gammaprime.runs.config import RunConfig, kind_of

PLAIN, SECOND = "PPO", "ours_second"
WAITING = """\
The second round decides this, and it is not complete. Until then, no expansion is recommended."""


def recommend(decisions: Sequence[Decision]) -> str:
    """Return the first variant that ends higher than all it is compared with in the second round.

    Expansions are compared with PPO at their matched discount and with PPO, and are listed first;
    then comes PPO at matched discounts, compared with PPO.  If there is none, it is PPO.
    """
    verdicts: dict[str, list[str]] = {}
    for claim, _, verdict in decisions:
        if claim.sweep == SECOND:
            verdicts.setdefault(claim.first, []).append(verdict)
    winners = [name for name, own in verdicts.items() if set(own) == {claims.HOLDS}]
    return winners[0] if winners else PLAIN


def is_complete(shown: Shown | None) -> bool:
    """Return whether the second round has been chosen and all its runs are published."""
    return shown is not None and all(result.done for result in shown.results)


def evidence(shown: Shown | None, decisions: Sequence[Decision]) -> str:
    """Return the sentence of README on expansions against a matched discount."""
    if not is_complete(shown):
        return (
            "No expansion has been shown to end higher than both PPO and PPO at its matched "
            "discount."
        )
    name = recommend(decisions)
    return f"Use {name}: {_reason(name, decisions)}."


def use_block(shown: Shown | None, decisions: Sequence[Decision]) -> str:
    """Return the recommendation, its lines of Python and shell, and how sure it is."""
    if shown is None or not is_complete(shown):
        return WAITING
    name = recommend(decisions)
    run = next(result for result in shown.results if result.variant == name)
    agent = RunConfig.from_table(run.config).agent
    judged = [d for d in decisions if d.claim.sweep == SECOND and name in (d.claim.first, PLAIN)]
    shell = f"gammaprime train {in_shell(agent, run.task)}"
    code = f"```python\nagent = {in_python(agent)}\n```\n\n```sh\n{shell}\n```"
    sure = "\n".join(f"- {_describe(decision)}" for decision in judged)
    reason = _reason(name, decisions)
    return f"**{name}**: {reason}.\n\n{code}\n\nHow sure this is:\n\n{sure}"


def _reason(name: str, decisions: Sequence[Decision]) -> str:
    rivals = [d.claim.second for d in decisions if (d.claim.sweep, d.claim.first) == (SECOND, name)]
    if not rivals:
        own = [d.comparison for d in decisions if (d.claim.sweep, d.claim.second) == (SECOND, name)]
        missed = max(found.detectable for found in own if found is not None)
        return (
            "no expansion and no matched discount of our second round was shown to end higher\n"
            "(three MuJoCo tasks; gains below "
            f"{comparisons.show_detectable(missed)} could be missed)"
        )
    return f"it ended higher than {' and than '.join(rivals)}"


def _describe(decision: Decision) -> str:
    claim, found, verdict = decision
    assert found is not None  # the round is complete
    numbers = (
        f"probability {comparisons.show_interval(found.probability)}",
        f"difference {comparisons.show_percent(found.difference)}",
        f"p {comparisons.show_p(found.p_holm)}",
        f"detectable {comparisons.show_detectable(found.detectable)}",
    )
    return f"{claim.text} {verdict.capitalize()}: {', '.join(numbers)}."


def in_python(value: Any) -> str:
    """Return an agent or a slot as it is written with ``import gammaprime as gp``."""
    if not is_dataclass(value):
        return 'float("inf")' if value == float("inf") else repr(value)
    given = ", ".join(f"{name}={in_python(own)}" for name, own in differing(value).items())
    return f"gp.{type(value).__name__}({given})"


def in_shell(agent: Any, task: str) -> str:
    """Return the words after `gammaprime train` that train an agent on a task."""
    words = [_dashed(kind_of(type(agent))), "--task", task]
    for name, value in differing(agent).items():
        if is_dataclass(value):
            words.append(f"{name}:{_dashed(kind_of(type(value)))}")
            for inner, own in differing(value).items():
                words += _option(f"{name}.", inner, own)
        else:
            words += _option("", name, value)
    return " ".join(words)


def differing(value: Any) -> dict[str, Any]:
    """Return the settings that are not the defaults of their class."""
    plain = vars(type(value)())
    own = {item.name: vars(value)[item.name] for item in fields(value)}
    return {name: x for name, x in own.items() if x != plain[name]}


def _option(prefix: str, name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{prefix}{'' if value else 'no-'}{_dashed(name)}"]
    return [f"--{prefix}{_dashed(name)}", str(value)]


def _dashed(name: str) -> str:
    return name.replace("_", "-")
