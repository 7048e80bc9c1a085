"""Followed runs: Session → Run → RunStream, and the Snapshot through which they are read."""
