"""Side-by-side measurements against peers: ``python -m benchmarks``."""
