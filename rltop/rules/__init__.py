"""The rules: detectors, alerts, and one file for each family."""
