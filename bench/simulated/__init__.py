"""Runs that were never made: healthy ones, and the same with one fault of a known kind and step.

A run is a series in canonical terms (levels, noise and trends as published runs and
the fixtures have them), then written as a trainer would: with its keys, its cadence,
its precision, as JSON lines or as a console log, and with keys missing. A fault moves
the metrics that it moves in reality from a record on. Everything follows from a seed.
"""
