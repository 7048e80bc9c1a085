"""Every page of `rltop/pages`, for tests of what all pages have in common."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module

import rltop.pages
from rltop.pages.page import Page


def _concrete(page: type[Page]) -> Iterator[type[Page]]:
    if not inspect.isabstract(page):
        yield page
    for heir in page.__subclasses__():
        yield from _concrete(heir)


for module in pkgutil.iter_modules(rltop.pages.__path__, "rltop.pages."):
    import_module(module.name)
PAGES = sorted({page for page in _concrete(Page) if page.__module__.startswith("rltop.")}, key=lambda one: one.__name__)
