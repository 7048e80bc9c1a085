"""Printed and written output: pages as text, reports with charts, JSON documents."""
