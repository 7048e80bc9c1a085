"""Console logs."""
