"""W&B's own run files."""
