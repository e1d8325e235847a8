"""Code that all adapters share: reading slots, expanding a rollout, counting ages."""

from __future__ import annotations

import importlib.metadata
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gammaprime import estimators
from gammaprime.agents.advantages import GAE, TaylorQ
from gammaprime.agents.weightings import AveragedWeight, TaylorWeight, Uniform, WeightingSlot
from gammaprime.typing import Array

ADVANTAGES = {"gae": GAE, "taylor_q": TaylorQ}
WEIGHTINGS = {"uniform": Uniform, "taylor_weight": TaylorWeight}


class Report(NamedTuple):
    """Numbers about an expansion that adapters log."""

    added: float
    """Standard deviation of the added part over that of the advantage."""
    tail_share: float
    """Share of the expansion that lies past a cut, where the tail rule decides."""
    survival: float
    """Share of steps that did not end in a termination."""

    @classmethod
    def of(
        cls, slot: TaylorQ, before: Array, after: Array, ends: tuple[Array, Array], gamma: float
    ) -> Report:
        """Compare the advantages of a rollout before and after an expansion."""
        spread = float(before.std())
        settings = gamma, slot.gamma_prime, slot.order
        shares = estimators.tail_share(*ends, *settings, lookahead=slot.lookahead)
        return cls(
            added=float((after - before).std()) / spread if spread > 0.0 else 0.0,
            tail_share=float(shares.mean()),
            survival=float(estimators.survival_rate(ends[0])),
        )


def warn_of_tail(share: float, longer: str) -> None:
    """Warn that more than half of an expansion is left to the tail rule."""
    warnings.warn(
        f"taylor/tail_share={share:.2f}: more than half of the expansion lies beyond the ends of "
        f"rollouts, where the tail rule decides; take longer rollouts ({longer}), a lower order "
        "or a smaller gamma_prime",
        stacklevel=3,
    )


class Slots:
    """The two slots of an adapter, applied to whole rollouts.

    ``longer`` names the trainer's setting that makes rollouts longer, for a warning.
    """

    def __init__(self, advantage: Any, weighting: Any, longer: str):
        self.advantage, self.weighting = read_slots(advantage, weighting)
        self.numbers: dict[str, float] = {}
        """Numbers of the last rollout, by the names under which they are logged."""
        self._longer = longer
        self._warned = False

    def check(self, gamma: float) -> None:
        """Raise if a slot cannot work with the trainer's γ, which may change while it trains."""
        self.advantage.check(gamma)
        self.weighting.check(gamma)

    @property
    def weighs(self) -> bool:
        """True if the policy's term is weighted."""
        return not isinstance(self.weighting, Uniform)

    def expand(
        self,
        advantage: Array,
        value: Array,
        next_value: Array,
        ends: tuple[Array, Array],
        gamma: float,
    ) -> Array:
        """Return the advantages of a rollout, expanded, in NumPy and their own dtype.

        ``next_value`` is read only at cuts.  Shapes: all (T, ...) -> (T, ...).
        """
        if not isinstance(self.advantage, TaylorQ):
            return advantage
        before, values, following = (
            np.asarray(x, dtype=np.float64) for x in (advantage, value, next_value)
        )
        after = expand_rollout(self.advantage, before, values, following, ends, gamma)
        report = Report.of(self.advantage, before, after, ends, gamma)
        self.numbers |= {f"taylor/{name}": number for name, number in report._asdict().items()}
        if report.tail_share > 0.5 and not self._warned:
            self._warned = True
            warn_of_tail(report.tail_share, self._longer)
        return after.astype(advantage.dtype)

    def weigh(self, ages: Array, gamma: float) -> Array:
        """Return the weights of rows of these ages.  Shapes: (T, ...) -> (T, ...) float32."""
        weights = np.asarray(self.weighting.weights(ages, gamma), dtype=np.float32)
        self.numbers["taylor/mean_weight"] = float(weights.mean())
        return weights


def read_slots(advantage: Any, weighting: Any) -> tuple[GAE | TaylorQ, WeightingSlot]:
    """Return the two slots of an adapter from slots, mappings or None.

    A mapping holds the settings of `TaylorQ` or `TaylorWeight`, or of the slot that its entry
    ``kind`` names, so that a YAML or TOML file can spell them.
    """
    if advantage is None and weighting is None:
        raise ValueError("advantage=None, weighting=None: at least one of them must be given")
    if isinstance(advantage, Mapping):
        advantage = _from_mapping("advantage", advantage, ADVANTAGES, "taylor_q")
    if isinstance(weighting, Mapping):
        weighting = _from_mapping("weighting", weighting, WEIGHTINGS, "taylor_weight")
    advantage = GAE() if advantage is None else advantage
    weighting = Uniform() if weighting is None else weighting
    if isinstance(advantage, TaylorWeight):
        raise ValueError(f"advantage={advantage!r}: must be TaylorQ; weights go to weighting")
    if not isinstance(advantage, GAE | TaylorQ):
        raise ValueError(
            f"advantage={advantage!r}: must be TaylorQ or a mapping of its settings; other slots "
            "need a critic with heads or targets of their own"
        )
    # Its averages are learned inside our own agents.
    if not isinstance(weighting, WeightingSlot) or isinstance(weighting, AveragedWeight):
        raise ValueError(
            f"weighting={weighting!r}: must be TaylorWeight, a mapping of its settings or a slot "
            "with its methods"
        )
    return advantage, weighting


def _from_mapping(
    name: str, settings: Mapping[str, Any], kinds: Mapping[str, Any], usual: str
) -> Any:
    own = dict(settings)
    kind = own.pop("kind", usual)
    if kind not in kinds:
        raise ValueError(f"{name}: kind={kind!r} must be one of {', '.join(map(repr, kinds))}")
    try:
        return kinds[kind](**own)
    except TypeError as error:
        raise ValueError(f"{name}={dict(settings)!r}: {error}") from None


def expand_rollout(
    slot: TaylorQ,
    advantage: Array,
    value: Array,
    next_value: Array,
    ends: tuple[Array, Array],
    gamma: float,
) -> Array:
    """Return the advantages of a rollout with the expansion of a slot added.

    ``next_value`` holds the values of true successors and is read only at cuts; ``ends`` are
    ``terminated`` and ``truncated``.  Shapes: all (T, ...) -> (T, ...).
    """
    return estimators.expand_advantage(
        advantage,
        value,
        next_value,
        *ends,
        gamma,
        slot.gamma_prime,
        slot.order,
        slot.eta,
        tail=slot.tail,
        lookahead=slot.lookahead,
        center=slot.center,
    )


def count_ages(starts: Array, first: Array) -> Array:
    """Return the age of each row inside its episode, 0 for the row that opens it.

    ``starts`` flags rows that open an episode, ``first`` holds the ages of the first row, whose
    flags are not read.  Shapes: starts (T, ...), first (...) -> (T, ...), integers.
    """
    row = np.arange(len(starts)).reshape(-1, *(1 for _ in starts.shape[1:]))
    opened = np.where(np.asarray(starts, dtype=bool), row, -1)
    opened[0] = -1
    opened = np.maximum.accumulate(opened, axis=0)
    return np.where(opened < 0, first + row, row - opened)


def missing(extra: str, error: ImportError) -> ImportError:
    """Return the error of a trainer that is not installed, with the line that installs it."""
    return ImportError(f"{error}: this adapter needs pip install 'gammaprime[{extra}]'")


def check_version(package: str, oldest: str, newest: str) -> None:
    """Warn if the installed version of a trainer is outside the range that is tested."""
    version = importlib.metadata.version(package)
    if not _numbers(oldest) <= _numbers(version) <= _numbers(newest):
        warnings.warn(
            f"{package} {version}: gammaprime.integrations is tested with {oldest} to {newest}",
            stacklevel=3,
        )


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split("+")[0].split(".")[:3]
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in parts)


def check_names(kind: type, *names: str) -> None:
    """Raise if a trainer's class lacks a name that an adapter leans on."""
    missing = [name for name in names if name not in dir(kind)]
    if missing:
        raise ImportError(
            f"{kind.__module__}.{kind.__name__} has no {', '.join(missing)}: this version of the "
            "trainer has changed, and gammaprime.integrations does not know it"
        )
