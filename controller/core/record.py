"""The decorator of events and facts: a value that nobody changes."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """A dataclass with slots, frozen to the type checker.

    Not frozen at run time: a frozen `__init__` costs four plain ones, and a round makes some twenty of these. mypy
    refuses every assignment to a field, as attrs' documentation recommends for the same reason.
    """
    return dataclass(slots=True)(cls)
