"""An evaluation that reports the undiscounted return, J_γ and J_γ' side by side."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from gammaprime.types import check_discount


class Judge(EvalCallback):
    """Evaluation callback that logs ``eval/J_gamma`` and ``eval/J_gamma_prime`` as well.

    They stand beside ``eval/mean_reward``, the undiscounted return.  J_γ and J_γ' are of rewards
    before VecNormalize scales them; ``eval/mean_reward`` is of the rewards that a Monitor sees, or
    without a Monitor of those that the environment returns, which may be scaled.  γ is the model's.

    Args:
        eval_env: an environment of its own, wrapped as the one of training.
        gamma_prime: the discount that judges; 1 − 1/time limit is a usual choice.
        eval_freq: calls of the training environment's step between two evaluations.
        n_eval_episodes: episodes of each evaluation.
        deterministic: True takes the most likely actions, False draws them.
        best_model_save_path: folder for the model with the best undiscounted return, or None.
        log_path: folder for the returns of all episodes, or None.
        verbose: verbosity of the callback, as in Stable-Baselines3.
        callback_on_new_best: called when the undiscounted return is the best so far, or None.
        callback_after_eval: called after every evaluation, or None.
        render: True renders the environment during evaluations.
        warn: True warns if the environment has no Monitor.
    """

    def __init__(
        self,
        eval_env: Any,
        gamma_prime: float,
        eval_freq: int = 10_000,
        n_eval_episodes: int = 10,
        deterministic: bool = True,
        best_model_save_path: str | None = None,
        log_path: str | None = None,
        verbose: int = 0,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        render: bool = False,
        warn: bool = True,
    ):
        self.gamma_prime = check_discount("gamma_prime", gamma_prime, one_allowed=True)
        self._returns: dict[int, list[float]] = {}
        """Age and returns so far of each environment under evaluation."""
        super().__init__(
            eval_env,
            callback_on_new_best=callback_on_new_best,
            callback_after_eval=callback_after_eval,
            eval_freq=eval_freq,
            n_eval_episodes=n_eval_episodes,
            deterministic=deterministic,
            best_model_save_path=best_model_save_path,
            log_path=log_path,
            render=render,
            verbose=verbose,
            warn=warn,
        )

    def _on_training_start(self) -> None:
        masks = type(self.model).__name__ == "MaskablePPO"
        if masks and "use_masking" not in vars(self):
            raise ValueError(
                "Judge with MaskablePPO: must be gammaprime.integrations.contrib.Judge, "
                "which asks for action masks"
            )
        super()._on_training_start()

    def _on_step(self) -> bool:
        self._returns = {}
        return super()._on_step()

    def _log_success_callback(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        """Add one step of one environment to its returns, and log them when its episode ends."""
        super()._log_success_callback(locals_, globals_)
        i, info = locals_["i"], locals_["info"]
        discounts = {"J_gamma": self.model.gamma, "J_gamma_prime": self.gamma_prime}
        age, *returns = self._returns.get(i, [0, 0.0, 0.0])
        normaliser = unwrap_vec_normalize(self.eval_env)
        raw = locals_["reward"] if normaliser is None else normaliser.get_original_reward()[i]
        terms = [gamma**age * float(raw) for gamma in discounts.values()]
        returns = [total + term for total, term in zip(returns, terms, strict=True)]
        self._returns[i] = [age + 1, *returns]
        # A life lost is no end: with a Monitor, the info tells when the episode is over.
        if locals_["done"] and ("episode" in info or not locals_["is_monitor_wrapped"]):
            for name, number in zip(discounts, returns, strict=True):
                self.logger.record_mean(f"eval/{name}", number)
            del self._returns[i]
