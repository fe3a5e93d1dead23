"""Other projects' suites: how each is set up and run."""

from .databases import databases
from .suites import SUITES

__all__ = ["SUITES", "databases"]
