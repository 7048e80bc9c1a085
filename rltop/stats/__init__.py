"""What follows from series: rolling statistics, changes, timing trees, groups; no I/O."""
