"""Train with one discount, be judged by another: Taylor expansions of discount factors.

    import gammaprime as gp

    run = gp.train(gp.PPO(advantage=gp.TaylorQ(gamma_prime=0.999)), "Hopper-v4", steps=1e6)
    gp.read_metrics(run)["rollout/ep_rew_mean"]

Nothing is imported before it is used: ``import gammaprime`` needs the standard library alone,
``gp.tabular`` and ``gp.estimators`` NumPy and SciPy, agents JAX when they learn.
"""

__version__ = "0.1.0.dev0"

_MODULES = {
    "agents": (
        *("PPO", "TRPO", "PG", "TD3", "DDPG", "SAC", "PRESETS"),
        *("GAE", "TaylorQ", "TaylorGradient", "TaylorCritic", "TDDelta"),
        *("Uniform", "TaylorWeight", "AveragedWeight", "DensityRatio"),
    ),
    "envs": ("make",),
    "runs.config": ("Evaluation",),
    "runs.run": ("load_policy", "read_metrics"),
    "runs.session": ("Callback",),
    "runs.training": ("train", "resume", "evaluate"),
    "sweeps.spec": ("load_experiment",),
    "sweeps.report": ("report",),
}
_ROOMS = ("tabular", "estimators", "integrations")
_WHERE = {
    name: f"gammaprime.{module}:{name}" for module, names in _MODULES.items() for name in names
}
_WHERE |= {room: f"gammaprime.{room}" for room in _ROOMS}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> object:
    """Import a name when it is first used (PEP 562)."""
    if name not in _WHERE:
        raise AttributeError(f"module 'gammaprime' has no attribute {name!r}")
    from pkgutil import resolve_name

    globals()[name] = found = resolve_name(_WHERE[name])
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
