"""Our time against our peers': ``python -m benchmarks.compare``."""
