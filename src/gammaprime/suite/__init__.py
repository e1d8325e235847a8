"""Experiments from TOML to run directories: what to run, how, and where it is kept."""
