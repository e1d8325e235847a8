"""A training run: its folder and what is in it, or what `train` made of it in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gammaprime.networks import Policy
from gammaprime.runs.directory import METRICS, from_json, read_lines
from gammaprime.runs.metrics import STEPS, Metrics, Row, parse_rows, read_checked_rows

if TYPE_CHECKING:
    from gammaprime.runs.config import RunConfig


@dataclass(frozen=True, eq=False)
class Run:
    """A training run, finished or not."""

    path: Path | None
    """Its folder; None for a run that was kept in memory."""
    config: RunConfig
    """Configuration."""
    rows: list[Row]
    """The lines of metrics.jsonl."""
    done: bool
    """False if it was stopped before its last step."""
    trained: Policy | None = None
    """The policy in memory; None to read it from the folder."""
    trained_best: Policy | None = None
    """The policy that was evaluated best, in memory."""

    @classmethod
    def load(cls, path: str | Path) -> Run:
        """Return the run in a folder."""
        folder = Path(path)
        config = read_config(folder)
        done, rows = read_checked_rows(folder, from_json(folder / "config.json"))
        return cls(folder, config, rows, done)

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else str(self.path)
        state = "done" if self.done else "not done"
        total = f"{self.steps:,} of {self.config.total_steps:,} steps"
        return f"Run({self.config.name}, {total}, {state}, {where})"

    @property
    def steps(self) -> int:
        """Environment steps so far."""
        return int(self.rows[-1][STEPS]) if self.rows else 0

    @cached_property
    def policy(self) -> Policy:
        """The newest policy."""
        if self.trained is not None:
            return self.trained
        if self.path is None:
            raise ValueError("this run has neither a policy nor a folder")
        return Policy.load(self.path)

    @cached_property
    def best_policy(self) -> Policy:
        """The policy of the evaluation with the highest mean return; a choice biased upwards."""
        if self.trained_best is not None:
            return self.trained_best
        if self.path is None:
            raise ValueError("this run has no evaluation")
        return Policy.load(self.path, best=True)

    @property
    def metrics(self) -> Metrics:
        """Its metrics as columns."""
        return Metrics(self.rows)


def read_config(path: Path) -> RunConfig:
    """Return the configuration of the training run in a folder."""
    from gammaprime.runs.config import RunConfig, check_imports

    file = path / "config.json"
    if not file.is_file():
        raise FileNotFoundError(f"{path}: is not a run directory (it has no config.json)")
    table = from_json(file)
    try:
        settings = table.get("settings", {})
        check_imports(settings.get("agent"), tasks=[settings.get("task")])
        return RunConfig.from_table(table)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file}: {error}") from None


def load_policy(run: Run | str | Path, best: bool = False) -> Policy:
    """Return the newest policy of a run, to be called with observations; NumPy is enough.

    ``best`` returns the policy that was evaluated best instead.

    Example:
        >>> policy = load_policy("results/runs/ppo-Hopper-v4-s0-0a316337f9b6")  # doctest: +SKIP
        >>> action = policy(obs)  # doctest: +SKIP
    """
    if isinstance(run, Run):
        return run.best_policy if best else run.policy
    return Policy.load(run, best)


def read_metrics(run: Run | str | Path) -> Metrics:
    """Return the metrics of a run, finished or not, as NumPy arrays by name.

    Example:
        >>> metrics = read_metrics("results/runs/ppo-Hopper-v4-s0-0a316337f9b6")  # doctest: +SKIP
        >>> metrics["time/total_timesteps"], metrics["rollout/ep_rew_mean"]  # doctest: +SKIP
    """
    if isinstance(run, Run):
        return run.metrics
    lines = read_lines(Path(run))
    if not lines:
        raise FileNotFoundError(f"{Path(run) / METRICS}: no metrics here")
    return Metrics(parse_rows(lines, Path(run) / METRICS))
