"""Every estimator once more, as a sum written out for one episode at a time.

Plain loops over Python floats, no recursion over time and nothing of the package.  An episode is
a list of rows with one end: dead, or cut with the value ``boot`` of the state that follows.
"""

import math
from typing import NamedTuple

import numpy as np


class Episode(NamedTuple):
    rows: range
    dead: bool


def episodes(terminated, truncated):
    """The episodes of one column: rows up to a flag or up to the last row; death wins."""
    found, start = [], 0
    for t in range(len(terminated)):
        if terminated[t] or truncated[t] or t == len(terminated) - 1:
            found.append(Episode(range(start, t + 1), bool(terminated[t])))
            start = t + 1
    return found


def by_episode(function, terminated, truncated, *arrays):
    """function(dead, *lists), a list in time for one episode, over all episodes of a batch."""
    shape = np.shape(terminated)
    terminated, truncated = (np.reshape(x, (shape[0], -1)) for x in (terminated, truncated))
    columns = [np.reshape(x, (shape[0], -1)) for x in arrays]
    out = np.full(terminated.shape, np.nan)
    for n in range(out.shape[1]):
        for rows, dead in episodes(terminated[:, n], truncated[:, n]):
            lists = [[float(x[t, n]) for t in rows] for x in columns]
            out[rows.start : rows.stop, n] = function(dead, *lists)
    return out.reshape(shape)


def ahead(y, index, dead, boot):
    """y at an index that may lie past the end."""
    if index < len(y):
        return y[index]
    return 0.0 if dead else boot


def discounted_return(dead, reward, next_value, *, gamma):
    n = len(reward)
    tail = 0.0 if dead else next_value[-1]
    return [
        sum(gamma ** (u - t) * reward[u] for u in range(t, n)) + gamma ** (n - t) * tail
        for t in range(n)
    ]


def gae(dead, reward, value, next_value, *, gamma, lam):
    n = len(reward)
    following = [0.0 if dead and u == n - 1 else next_value[u] for u in range(n)]
    errors = [reward[u] + gamma * following[u] - value[u] for u in range(n)]
    return [sum((gamma * lam) ** (u - t) * errors[u] for u in range(t, n)) for t in range(n)]


def lambda_return(dead, reward, next_value, *, gamma, lam):
    """Σ_m (1−λ)λ^{m−1} (m-step return), all of the rest on the longest one."""
    n = len(reward)

    def return_of(t, m):
        last = t + m - 1
        boot = 0.0 if dead and last == n - 1 else next_value[last]
        return sum(gamma**u * reward[t + u] for u in range(m)) + gamma**m * boot

    return [
        sum((1 - lam) * lam ** (m - 1) * return_of(t, m) for m in range(1, n - t))
        + lam ** (n - t - 1) * return_of(t, n - t)
        for t in range(n)
    ]


def tail_ratio(gamma, gamma_prime, survival):
    return (gamma_prime - gamma) * survival / (1 - gamma * survival)


def term(dead, y, next_value, *, gamma, gamma_prime, k, survival):
    """D_k, by counting the ways in which k of the steps to a base value are jumps.

    With m steps to go to the end, j ≥ 1 jumps may still be ahead there: the tail's ρ^j V.
    """
    delta, ratio = gamma_prime - gamma, tail_ratio(gamma, gamma_prime, survival)
    if k == 0:
        return y

    def landing(s):
        return math.comb(s - 1, k - 1) * delta**k * gamma ** (s - k) if s >= k else 0.0

    def still_open(m, j):
        return math.comb(m, k - j) * delta ** (k - j) * gamma ** (m - k + j) if m >= k - j else 0.0

    out = []
    for t in range(len(y)):
        m = len(y) - t
        total = sum(landing(s) * y[t + s] for s in range(1, m))
        if not dead:
            beyond = sum(still_open(m, j) * ratio**j for j in range(max(1, k - m), k + 1))
            total += (landing(m) + beyond) * next_value[-1]
        out.append(total)
    return out


def expand(dead, y, next_value, *, order, **discounts):
    """The sum of the terms; 400 of them are all of them, where the ratio is below .9."""
    last = 400 if math.isinf(order) else order
    terms = [term(dead, y, next_value, k=k, **discounts) for k in range(last + 1)]
    return [math.fsum(column) for column in zip(*terms, strict=True)]


def window(dead, y, next_value, *, gamma, gamma_prime, order, lookahead):
    c = (gamma_prime - gamma) / (1 - gamma)
    mass = sum(gamma ** (s - 1) for s in range(1, lookahead + 1))
    boot, last, total = next_value[-1], y, list(y)
    for _ in range(order):
        last = [
            c
            * sum(
                gamma ** (s - 1) / mass * ahead(last, t + s, dead, boot)
                for s in range(1, lookahead + 1)
            )
            for t in range(len(y))
        ]
        boot = c * boot
        total = [a + b for a, b in zip(total, last, strict=True)]
    return total


def at_random_times(dead, y, next_value, *jumps, gamma, gamma_prime):
    c = (gamma_prime - gamma) / (1 - gamma)
    out = []
    for t in range(len(y)):
        total, time = y[t], t
        for k, jump in enumerate(jumps, start=1):
            time += int(jump[t])
            total += c**k * ahead(y, time, dead, next_value[-1])
        out.append(total)
    return out
