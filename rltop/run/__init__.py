"""Runs being followed: Session → Run → RunStream, and the Snapshot that is read of them."""
