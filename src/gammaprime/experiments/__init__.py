"""Experiments as data: one TOML for each figure or table, named by its label in the paper."""
