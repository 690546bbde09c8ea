"""How a figure is told."""

from typing import NamedTuple


class Figure(NamedTuple):
    """What was measured, and what it should be."""

    name: str
    value: float
    unit: str
    target: str = ""

    def __str__(self) -> str:
        target = f"   target: {self.target}" if self.target else ""
        return f"{self.name:<62} {self.value:>12,.2f} {self.unit}{target}"
