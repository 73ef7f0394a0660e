"""The two stores that a story must be the same on."""

from ..runtime.conftest import place

__all__ = ["place"]
