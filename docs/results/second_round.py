"""Write the specs of the second round: what the rule in ours.toml chooses from the first.

    python docs/results/second_round.py

ours_second.toml compares the two best expansions with PPO, and with PPO at the matched discount of
each; ours_trpo.toml puts the same two into TRPO.  Both are made from the published runs of `ours`,
and exist only when all of those are there.
"""

from __future__ import annotations

import json
import sys
import tomllib
from importlib import resources

import make_results
from advice import PLAIN
from claims import Shown

from gammaprime.agents import OnPolicyAgent
from gammaprime.agents.advantages import GAE
from gammaprime.sweeps.spec import load_experiment

EXPERIMENTS = make_results.ROOT / "src/gammaprime/experiments"
FIRST = "ours"
HEAD = """\
# {comment}
# Written by docs/results/second_round.py, by the rule in ours.toml, from its published runs.
title = "{title}"
base = {base}
tasks = ["HalfCheetah-v4", "Ant-v4", "Walker2d-v4"]
seeds = "{seeds}"
steps = 1_000_000
"""
FIGURE = """
[figure]
kind = "curves"
returns = "training"
band = "iqm"
compare = {compare}
levels = {{ "HalfCheetah-v4" = 2200 }}   # on its back below, on its feet above
"""


def write_specs(shown: Shown) -> dict[str, str]:
    """Return the text of each spec by its name; nothing while the first round is incomplete."""
    chosen = make_results.choose(shown)
    if not chosen:
        return {}
    texts = (write_second(chosen), write_trpo(chosen))
    return dict(zip(make_results.ROUNDS, texts, strict=True))


def write_second(chosen: list[str]) -> str:
    """Return the spec that compares the chosen expansions with PPO at their matched discounts."""
    matched = {name: matched_discount(name) for name in chosen}
    rivals = {gamma: f"PPO {gamma}" for gamma in sorted(matched.values())}
    variants = [(PLAIN, "")]
    variants += [(rival, f"gamma = {gamma}\n") for gamma, rival in rivals.items()]
    variants += [(name, read_settings()[name]) for name in chosen]
    head = HEAD.format(
        comment="The two best of the first round, on seeds that took no part in the choice.",
        title="Beyond the paper, second round: two expansions against PPO at a matched discount",
        base='"ppo"',
        seeds="0:10",
    )
    pairs = [(name, other) for name in chosen for other in (rivals[matched[name]], PLAIN)]
    pairs += [(rival, PLAIN) for rival in rivals.values()]
    return head + _variants(variants) + _figure(pairs)


def write_trpo(chosen: list[str]) -> str:
    """Return the spec that compares the chosen expansions inside TRPO with plain TRPO."""
    plain = "plain TRPO"
    names = {name: f"TRPO, {name}" for name in chosen}
    head = HEAD.format(
        comment="The same two in TRPO with normalised observations: HalfCheetah has one level.",
        title="Beyond the paper: two expansions inside TRPO with normalised observations",
        base='{ kind = "trpo", num_steps = 2048, normalise_obs = true }',
        seeds="0:5",
    )
    variants = [(plain, ""), *((names[name], read_settings()[name]) for name in chosen)]
    return head + _variants(variants) + _figure([(names[name], plain) for name in chosen])


def matched_discount(variant: str) -> float:
    """Return the discount at which PPO has the effective horizon of a variant of the first round.

    The order is that of its advantage if it expands one, otherwise that of its weights.
    """
    (agent,) = [v.config.agent for v in load_experiment(FIRST).variants if v.name == variant]
    assert isinstance(agent, OnPolicyAgent)
    slot = agent.weighting if isinstance(agent.advantage, GAE) else agent.advantage
    return make_results.match_discount(agent.gamma, slot.gamma_prime, slot.order)


def read_settings() -> dict[str, str]:
    """Return the lines that follow the name of each variant of the first round."""
    text = (resources.files("gammaprime.experiments") / f"{FIRST}.toml").read_text("utf-8")
    found = {}
    for block in text.split("[[variants]]\n")[1:]:
        name, _, rest = block.split("\n\n")[0].partition("\n")
        found[tomllib.loads(name)["name"]] = rest + "\n"
    return found


def _variants(variants: list[tuple[str, str]]) -> str:
    return "".join(f"\n[[variants]]\nname = {_quote(name)}\n{rest}" for name, rest in variants)


def _figure(pairs: list[tuple[str, str]]) -> str:
    listed = ", ".join(f"[{_quote(first)}, {_quote(second)}]" for first, second in pairs)
    return FIGURE.format(compare=f"[{listed}]")


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main() -> int:
    """Write both specs."""
    sweeps = make_results.load(make_results.PUBLISHED / "runs")
    specs = write_specs(sweeps[FIRST])
    if not specs:
        print("the first round is not complete: nothing is chosen yet", file=sys.stderr)
        return 1
    for name, text in specs.items():
        (EXPERIMENTS / f"{name}.toml").write_text(text, encoding="utf-8")
        print(EXPERIMENTS / f"{name}.toml")
    return 0


if __name__ == "__main__":
    sys.exit(main())
