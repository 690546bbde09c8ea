"""The baccarat dealer-table controller. Start reading at `controller/core/table.py`."""

__version__ = "0.1.0"
