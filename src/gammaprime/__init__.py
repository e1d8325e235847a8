"""gammaprime: train with one discount, be judged by another."""

__version__ = "0.1.0.dev0"
