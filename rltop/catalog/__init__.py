"""What a metric is: its name, unit, direction and meaning; data, not code."""
