"""What makes files last: of the file itself its writer takes care."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable, new ones and changed ones (fsync(2)). OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
