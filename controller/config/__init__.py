"""The configuration: YAML in, frozen models out, or every error at once, each with its place and what to do (DESIGN 8).

Files are read, never written, and no value is guessed: what is not understood is an error.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controller.core.profile import Procedure

from . import table
from .check import Findings, validate
from .models import Config
from .profiles import check_returns, load_profile, parse_profile, profile_path
from .table import ports
from .tree import ConfigError, Problem, read_bytes, read_tree

__all__ = [
    "Config",
    "ConfigError",
    "Findings",
    "Problem",
    "check",
    "check_packages",
    "check_returns",
    "confighash",
    "load",
    "load_profile",
    "parse",
    "parse_profile",
    "ports",
    "procedure_of",
    "profile_path",
    "read_bytes",
    "schema",
    "warnings",
]


def load(path: Path) -> Config:
    """The configuration in a file; ConfigError with everything that is wrong with it."""
    return parse(read_bytes(path), str(path))


def parse(data: bytes, file: str) -> Config:
    """The configuration in a file's bytes; `file` names it in errors."""
    tree, found = read_tree(data, file)
    config, problems = validate(Config, tree, found, table.CHECKS, table.SOUND)
    if config is None:
        raise ConfigError(problems)
    return config


def procedure_of(config: Config) -> Procedure:
    """How the table is run, for the core."""
    keys, casino = config.procedure, config.casino
    return Procedure(
        open_betting=keys.open_betting,
        betting_seconds=keys.betting_seconds,
        confirm_result=keys.confirm_result,
        confirm_seconds=keys.confirm_seconds,
        offline_rounds=keys.offline_rounds == "allow",
        receipts=casino.primary != "file",
        link_grace_seconds=casino.link_grace_seconds,
        limits=casino.limits == "required" or (casino.limits is None and bool(casino.command_keys)),
        enrolment=casino.enrolment == "required",
        sensors=config.shoe.driver != "none",
        max_pending=config.scanner.max_pending,
        position=config.scanner.position,
        rescan=config.scanner.rescan,
    )


def check_packages(path: Path, config: Config, installed: Callable[[str], bool] = table.is_installed) -> list[Problem]:
    """Devices chosen in the file at `path` whose packages this Python has not; `installed` tells of a module's name."""
    tree, _ = read_tree(read_bytes(path), str(path))
    return [tree.problem(where, text) for where, text in table.packages(config, installed)]


def check(path: Path, search: Path) -> list[Problem]:
    """All that `config check` says of a table.yaml and its profile (looked up in `search`), exact returns included.

    Takes about half a second. Empty when all is well.
    """
    try:
        config = load(path)
    except ConfigError as error:
        return list(error.errors)
    problems = check_packages(path, config)
    try:
        profile = load_profile(config.profile, search)
    except ConfigError as error:
        return [*problems, *error.errors]
    return problems + check_returns(profile, profile_path(config.profile, search))


def warnings(path: Path, machine: Callable[[Config], Findings]) -> list[Problem]:
    """What stands in the file at `path`, is allowed, and is seldom meant; `machine` says more, of the machine it is on.

    Empty where the file has errors: they come first.
    """
    try:
        config = load(path)
    except ConfigError:
        return []
    tree, _ = read_tree(read_bytes(path), str(path))
    return sorted(tree.problem(where, text) for found in (table.warnings, machine) for where, text in found(config))


def confighash(*paths: Path) -> str:
    """The SHA-256, in hex, of the files' bytes one after the other: what `cat FILES | sha256sum` prints."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(read_bytes(path))
    return digest.hexdigest()


def schema() -> dict[str, Any]:
    """The JSON Schema of table.yaml, for editors. Says nothing of null, which no key may be."""
    whole = _without_null(Config.model_json_schema())
    assert isinstance(whole, dict)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


def _without_null(value: object) -> object:
    if isinstance(value, list):
        return [_without_null(item) for item in value if item != {"type": "null"}]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_null(item) for key, item in value.items() if not (key == "default" and item is None)}
    choices = kept.get("anyOf")
    if isinstance(choices, list) and len(choices) == 1:
        del kept["anyOf"]
        kept |= choices[0]
    return kept
