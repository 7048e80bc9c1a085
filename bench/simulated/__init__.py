"""Simulated runs: healthy ones, and the same with one fault of a known kind and step.

A run is a series of canonical metrics (levels, noise and trends as in published runs and
the fixtures), written as a trainer would: with its keys, cadence and precision, as JSON
lines or as a console log, and with keys missing. From a record on, a fault moves the
metrics that it moves in reality. Everything is determined by a seed.
"""
