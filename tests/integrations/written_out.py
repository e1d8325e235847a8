"""Expansions and weights as sums over the steps of an episode, in plain Python."""

import math


def update_weight(t, gamma, gamma_prime, order):
    """w_K(t)."""
    if math.isinf(order):
        return gamma_prime**t
    jump = gamma_prime - gamma
    return sum(math.comb(t, k) * jump**k * gamma ** (t - k) for k in range(min(order, t) + 1))


def value_weight(s, gamma, gamma_prime, order):
    """f(K, s), s ≥ 1."""
    if order == 0:
        return 0.0
    return (gamma_prime - gamma) * update_weight(s - 1, gamma, gamma_prime, order - 1)


def segments(terminated, truncated):
    """First and last row of every part of a column that no end divides."""
    first = 0
    for t in range(len(terminated)):
        if terminated[t] or truncated[t] or t == len(terminated) - 1:
            yield first, t
            first = t + 1


def advantages(rewards, values, boots, terminated, truncated, gamma, lam):
    """GAE of one column; ``boots`` holds the value of the successor at a cut."""
    result = [0.0] * len(rewards)
    for first, last in segments(terminated, truncated):
        for t in range(first, last + 1):
            total = 0.0
            for u in range(t, last + 1):
                after_end = 0.0 if terminated[u] else boots[u]
                following = values[u + 1] if u < last else after_end
                error = rewards[u] + gamma * following - values[u]
                total += (gamma * lam) ** (u - t) * error
            result[t] = total
    return result


def added(base, boots, terminated, truncated, discounts, order, survival, horizon=2000):
    """Σ_s f(K, s) y_{t+s} of one column; past a cut y is V qʲ, past a death 0."""
    weights = [0.0] + [value_weight(s, *discounts, order) for s in range(1, horizon)]
    result = [0.0] * len(base)
    for first, last in segments(terminated, truncated):
        for t in range(first, last + 1):
            total = sum(weights[u - t] * base[u] for u in range(t + 1, last + 1))
            if not terminated[last]:
                beyond = last + 1 - t
                total += sum(
                    weights[s] * boots[last] * survival ** (s - beyond)
                    for s in range(beyond, horizon)
                )
            result[t] = total
    return result


def baseline(value, gamma, gamma_prime, order):
    """(Σ_{k=1}^K c^k) V."""
    c = (gamma_prime - gamma) / (1.0 - gamma)
    scale = c / (1.0 - c) if math.isinf(order) else sum(c**k for k in range(1, order + 1))
    return scale * value


def expanded(slot, columns, gamma, lam):
    """Advantages of every column after an expansion.

    A column is (rewards, values, boots, terminated, truncated), each a list over time; ``boots``
    holds values of successors and is read at cuts.
    """
    deaths = [flag for *_, terminated, _ in columns for flag in terminated]
    rate = 1.0 - sum(map(bool, deaths)) / len(deaths)
    survival = {"survival": rate, "zero": 0.0, "constant": 1.0}[slot.tail]
    discounts = gamma, slot.gamma_prime
    result = []
    for rewards, values, boots, *ends in columns:
        gae = advantages(rewards, values, boots, *ends, gamma, lam)
        base = [a + v for a, v in zip(gae, values, strict=True)]
        extra = added(base, boots, *ends, discounts, slot.order, survival)
        off = [baseline(v, *discounts, slot.order) if slot.center else 0.0 for v in values]
        more = [slot.eta * (x - y) for x, y in zip(extra, off, strict=True)]
        result.append([a + x for a, x in zip(gae, more, strict=True)])
    return result
