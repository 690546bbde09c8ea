"""The pure wire: bytes in, messages out. Nothing here opens a port or reads a clock."""
