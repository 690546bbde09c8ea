"""What a module of the program may say: its own sentences, found in its source, so that no page forgets one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SENTENCE = re.compile(r"[a-z]{2}.* .*[a-z]{2}")
TO_PROGRAMMERS = re.compile(r"ValueError|AssertionError|Pin(?!sError)\w+")  # what they raise, nobody at a table meets


def said_in(path: Path) -> set[str]:
    """The sentences of a module, with … for each value in them; not what is for programmers alone."""
    texts = {text.strip("…:;, ") for text in _texts(ast.parse(path.read_text(encoding="utf-8")))}
    return {text for text in texts if SENTENCE.search(text) and len(text.split()) >= 3}


def is_told(sentence: str, page: str) -> bool:
    """Whether a page has it, whatever stands there for each value; up to a backquote, which no span can hold."""
    parts = [re.escape(part) for part in sentence.partition("`")[0].strip().split("…")]
    return re.search(".*".join(parts), page) is not None


def _texts(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assert() | ast.Expr(value=ast.Constant()):  # no docstrings
            return
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name))) if TO_PROGRAMMERS.fullmatch(name):
            return
        case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr="debug")):
            return
        case ast.Constant(value=str() as text):
            yield re.sub(r"%[sdgr]", "…", text)
        case ast.JoinedStr(values=values):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in values)
            values = [part for part in values if not isinstance(part, ast.Constant)]
            for part in values:
                yield from _texts(part)
        case _:
            for name, value in ast.iter_fields(node):
                if name not in ("annotation", "returns"):
                    for child in value if isinstance(value, list) else [value]:
                        if isinstance(child, ast.AST):
                            yield from _texts(child)
