"""The casino's side of the commands: a server with its own key, which signs as the feed is signed (DESIGN 7)."""

import itertools
import json
from typing import Any

from controller import feed, keys

OURS = keys.ephemeral()
STRANGER = keys.ephemeral()
FAR = "2099-01-01T00:00:00Z"
NUMBERS = itertools.count(1)


def command(
    method: str,
    params: dict[str, Any] | None = None,
    *,
    table: str = "BAC-07",
    expires: str = "2026-11-29T21:05:05Z",
    key: keys.TableKey = OURS,
    **other: Any,  # noqa: ANN401 - what JSON holds
) -> bytes:
    """The signed bytes of a command; `other` members replace or join the usual ones, and None takes one out."""
    tree = {"jsonrpc": "2.0", "id": f"c-{next(NUMBERS)}", "method": method, "params": params or {}}
    tree |= {"table": table, "expires": expires, "keyid": key.keyid, **other}
    return signed({name: value for name, value in tree.items() if value is not None}, key)


def signed(tree: dict[str, Any], key: keys.TableKey = OURS) -> bytes:
    unsigned = json.dumps(tree, separators=(",", ":")).encode("ascii")
    return feed.join_signature(unsigned, key.sign(unsigned))
