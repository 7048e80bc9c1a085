"""The rules: detectors, alerts, and for each family its code and its words."""
