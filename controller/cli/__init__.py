"""`tablectl`. Of our own it imports the control socket's client and what works with the daemon down, nothing else."""

from .tablectl import main

__all__ = ["main"]
