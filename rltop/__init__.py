"""rltop: top for reinforcement-learning runs of language models."""

__version__ = "0.1.0"
