"""The files of this tree that are made from others: `python -m tests.generate` writes them, `--check` names the stale.

They are committed, so that a table needs no tool to run. To add one, write a function that yields each file's path and
its bytes, the same bytes from the same sources at any time and on any machine, and list it in `MAKERS`.
"""

import argparse
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from controller import config
from firmware.protocol import generate as protocol
from tests.diagram import diagram
from tests.glyphs import fonts
from tests.panel_sheet import sheets

Maker = Callable[[Path], Iterator[tuple[Path, bytes]]]
"""Takes the root of the tree; yields files."""

ROOT = Path(__file__).parent.parent


def catalogues(root: Path) -> Iterator[tuple[Path, bytes]]:
    """The compiled prompts of each language, beside their source."""
    for source in sorted(root.glob("controller/locale/**/*.po")):
        with source.open("rb") as file:
            catalogue = read_po(file, abort_invalid=True)
        compiled = io.BytesIO()
        write_mo(compiled, catalogue)
        yield source.with_suffix(".mo"), compiled.getvalue()


def config_schema(root: Path) -> Iterator[tuple[Path, bytes]]:
    """What editors check table.yaml against, from the models that read it."""
    schema = json.dumps(config.schema(), indent=2, ensure_ascii=False) + "\n"
    yield root / "config" / "table.schema.json", schema.encode()


MAKERS: tuple[Maker, ...] = (catalogues, config_schema, diagram, fonts, protocol.files, sheets)


def stale(root: Path, makers: Sequence[Maker]) -> dict[Path, bytes]:
    """The files that are missing or differ from what they are made from, and what they should hold."""
    made = [file for maker in makers for file in maker(root)]
    return {path: data for path, data in made if not path.is_file() or path.read_bytes() != data}


def main(arguments: Sequence[str], root: Path = ROOT, makers: Sequence[Maker] = MAKERS) -> int:
    """The program; its exit code, 1 where `--check` finds a stale file."""
    parser = argparse.ArgumentParser(prog="python -m tests.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is stale")
    check = parser.parse_args(arguments).check
    files = stale(root, makers)
    for path, data in files.items():
        if check:
            print(f"{path.relative_to(root)} is stale: run `make generate` and commit it", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            print(f"wrote {path.relative_to(root)}")
    return 1 if check and files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
