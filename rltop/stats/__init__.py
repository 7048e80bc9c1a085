"""Statistics of series: rolling windows, change detection, timing trees, groups of completions; no I/O."""
