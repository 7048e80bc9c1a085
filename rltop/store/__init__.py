"""The only mutable state, keyed by the trainer's raw keys and raw values."""
