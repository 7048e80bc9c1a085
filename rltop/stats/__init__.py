"""What follows from series: baselines, timing trees, group statistics; no I/O."""
