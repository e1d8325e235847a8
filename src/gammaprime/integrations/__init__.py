"""Adapters that add the expansions to other people's trainers, one module each.

Importing a module needs its trainer and nothing more: no JAX, unless the trainer is written in it.
The mathematics is that of `gammaprime.estimators` and of the two slots of our own agents.
"""
