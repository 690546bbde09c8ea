"""What must be true of the project itself: locks, commands, generated files, units, and what the tree gives away."""

import gettext
import io
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import generate
from tests.pages import page

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the command said; a minute at most."""
    env = {**os.environ, **environment}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)


# --- locks: exact versions with hashes, no address, in step with pyproject.toml ----------------------


def requirements(lock: str) -> list[str]:
    """The lines of a lock, continuations joined, comments gone."""
    lines = re.sub(r"\s*\\\n\s*", " ", lock).splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def unlocked(lock: str) -> list[str]:
    """The lines that are anything but a name, an exact version, perhaps a marker, and hashes."""
    exact = re.compile(r"[a-z0-9-]+==\d\S*( ; [^#@/]+?)?( --hash=sha256:[0-9a-f]{64})+")
    return [line for line in requirements(lock) if not exact.fullmatch(line)]


def pins(name: str) -> dict[str, str]:
    """The packages of a lock of this tree and their versions."""
    lines = requirements((ROOT / "requirements" / f"{name}.txt").read_text())
    return dict(line.split(" ")[0].split("==") for line in lines)


@pytest.mark.parametrize("name", ["build", "run", "pi", "dev", "docs"])
def test_lock_has_exact_versions_hashes_and_no_address(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert unlocked(text) == []
    assert "://" not in text
    assert "--" not in text.replace("--hash=sha256:", "")


HASH = f"--hash=sha256:{64 * 'a'}"


@pytest.mark.parametrize(
    "line",
    [
        "rich==15.0.0",
        f"rich>=15.0.0 {HASH}",
        f"rich {HASH}",
        f"rich==15.0.0 {HASH[:-1]}",
        f"rich @ https://example.com/rich.whl {HASH}",
        "-e .",
        "--extra-option https://example.com",
    ],
)
def test_a_loose_line_is_found(line: str) -> None:
    assert unlocked(line) == [line]
    assert unlocked(f"# comment\nrich==15.0.0 ; python_version < '4' \\\n    {HASH} \\\n    {HASH}\n") == []


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("run", PROJECT["dependencies"]),
        ("pi", [*PROJECT["dependencies"], *EXTRAS["pi"]]),
        ("build", ["hatchling"]),
        ("dev", [*PROJECT["dependencies"], *EXTRAS["pi"], *EXTRAS["dev"]]),
    ],
)
def test_lock_holds_what_the_project_asks_for(name: str, asked: list[str]) -> None:
    locked = pins(name)
    for requirement in map(Requirement, asked):
        assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), f"{requirement}: make lock"


def test_the_technicians_install_brings_all_that_a_device_may_need() -> None:
    """From locks alone, hashes and all: what is installed some other way is another version at every table (G12)."""
    guide = page("docs/technician.md").text
    commands = [line for line in guide.splitlines() if "-m pip install" in line]
    locks = [name for line in commands for name in re.findall(r"-r requirements/(\w+)\.txt", line)]
    held = {package for name in locks for package in pins(name)}
    asked = [*PROJECT["dependencies"], *EXTRAS["pi"], "hatchling"]
    assert {canonicalize_name(Requirement(one).name) for one in asked} <= held
    assert all("--require-hashes -r " in line or "--no-deps" in line for line in commands)


def test_no_lock_of_a_table_needs_a_compiler_or_hides_a_stub() -> None:
    """Bug report 10, G12: none of these has a wheel for every Pi, and of one pip takes an empty first release."""
    held = {package for name in ("run", "pi") for package in pins(name)}
    assert held.isdisjoint({"lgpio", "rpi-lgpio", "rpi-gpio", "pigpio", "spidev", "evdev", "smbus"})


@pytest.mark.parametrize("name", ["run", "pi", "build"])
def test_one_version_of_a_package_in_all_locks(name: str) -> None:
    assert pins(name).items() <= pins("dev").items()


# --- commands ----------------------------------------------------------------------------------------


def targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_make_has_its_targets() -> None:
    assert {"demo", "test", "soak", "check", "bench"} <= targets()


def test_ci_runs_what_the_readme_says() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if line.startswith("make ")]
    assert commands == ["make check", "make test"]
    readme = (ROOT / "README.md").read_text()
    assert "`make demo`" in readme
    assert "`make test`" in readme


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "STYLE.md", "tests/rig/README.md"])
def test_page_names_only_targets_that_exist(page: str) -> None:
    named = set(re.findall(r"`make ([a-z]+)", (ROOT / page).read_text()))
    assert named <= targets()


def test_the_rigs_page_names_its_files() -> None:
    """`make rig` itself needs root and a kernel's sources: it stands outside of `make test`."""
    folder = ROOT / "tests" / "rig"
    named = set(re.findall(r"^\| `([^`]+)`", (folder / "README.md").read_text(), re.MULTILINE))
    assert named == {path.name for path in folder.iterdir() if path.is_file()} - {"README.md", "packages.txt"}
    assert run("sh", "-n", folder / "build.sh").stderr == run("sh", "-n", folder / "init").stderr == ""


def test_every_ignored_rule_has_its_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    lint = text[text.index("[tool.ruff.lint]") : text.index("[tool.ruff.lint.pydocstyle]")]
    rules = [line.strip() for line in lint.splitlines() if re.match(r' *"[A-Z]+\d*",', line)]
    assert len(rules) > 20
    assert [rule for rule in rules if not re.fullmatch(r'"[A-Z]+\d*", +# \S+ \S+ .+', rule)] == []


# --- the Debian packages of the tests ----------------------------------------------------------------

MAY, MAY_NOT = '[ "$1" = -n ] && shift; exec "$@"', "exit 1"  # what sudo does
INSTALLS = "apt-get update -qq\napt-get install -y -qq --no-install-recommends absent\n"


@pytest.mark.parametrize(
    ("wanted", "uid", "sudo", "code", "asked"),
    [
        ("there", 1000, MAY_NOT, 0, ""),
        ("absent", 0, MAY_NOT, 0, INSTALLS),
        ("absent", 1000, MAY, 0, INSTALLS),
        ("absent", 1000, MAY_NOT, 1, ""),
    ],
)
def test_packages_are_installed_or_named(
    tmp_path: Path, wanted: str, uid: int, sudo: str, code: int, asked: str
) -> None:
    log, probes = tmp_path / "log", {"there": "command -v sh", "absent": "command -v no-such-program"}
    log.touch()
    (tmp_path / "wanted.txt").write_text(f"# a comment\n\n{wanted}   {probes[wanted]}\n")
    for name, body in {"id": f"echo {uid}", "sudo": sudo, "apt-get": f'echo "apt-get $*" >>{log}'}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    said = run(ROOT / "tests" / "packages.sh", tmp_path / "wanted.txt", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (said.returncode, log.read_text()) == (code, asked)
    assert ("Run: sudo apt-get update && sudo apt-get install -y absent" in said.stderr) == (code == 1)


# --- generated files ---------------------------------------------------------------------------------


def test_generated_files_are_fresh(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_file_is_found_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "old").write_bytes(b"1")
    (tmp_path / "right").write_bytes(b"2")
    makers = (lambda root: iter([(root / "old", b"2"), (root / "right", b"2"), (root / "made" / "new", b"2")]),)
    assert generate.main(["--check"], tmp_path, makers) == 1
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["old", "made/new"]
    assert generate.main([], tmp_path, makers) == 0
    assert (tmp_path / "made" / "new").read_bytes() == (tmp_path / "old").read_bytes() == b"2"
    assert generate.main(["--check"], tmp_path, makers) == 0


def test_a_catalogue_is_made_from_its_source(tmp_path: Path) -> None:
    source = tmp_path / "controller" / "locale" / "es" / "LC_MESSAGES" / "panel.po"
    source.parent.mkdir(parents=True)
    source.write_text(
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=utf-8\\n"\n\nmsgid "draw"\nmsgstr "SAQUE ♠ Ñ"\n'
    )
    ((path, data),) = generate.catalogues(tmp_path)
    assert path == source.with_suffix(".mo")
    assert gettext.GNUTranslations(io.BytesIO(data)).gettext("draw") == "SAQUE ♠ Ñ"


# --- units -------------------------------------------------------------------------------------------


def verified(unit: Path, folder: Path) -> str:
    """What systemd says against a unit. Its programs are not installed here: /bin/true stands for each."""
    text = re.sub(r"^(Exec\w+=[-@:+!|]*)\S+", r"\1/bin/true", unit.read_text(), flags=re.MULTILINE)
    (folder / unit.name).write_text(text)
    said = run("systemd-analyze", "verify", folder / unit.name)
    return said.stderr + said.stdout + (f"exit code {said.returncode}" if said.returncode else "")


def test_units_hold_nothing_that_systemd_ignores(tmp_path: Path) -> None:
    units = sorted((ROOT / "systemd").glob("*.service"))
    assert "baccarat-table.service" in [unit.name for unit in units]
    assert [said for unit in units if (said := verified(unit, tmp_path))] == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("Restart=always", ""),
        ("Restrat=always", "Unknown key"),
        ("Restart=allways", "Failed to parse"),
        ("WatchdogSec=10\nNoNewPrivileges=yes", ""),
    ],
)
def test_a_wrong_unit_is_found(tmp_path: Path, line: str, complaint: str) -> None:
    unit = tmp_path / "a.service"
    unit.write_text(f"[Unit]\nDescription=a\n[Service]\nExecStart=/opt/no-such-program --x\n{line}\n")
    (tmp_path / "copy").mkdir()
    said = verified(unit, tmp_path / "copy")
    assert (complaint in said) if complaint else (said == "")


# --- what the tree gives away ------------------------------------------------------------------------

PRIVATE = re.compile(
    r"(?<![\w.*}>)-])/(home|root|Users|work|farm|tmp)/"  # somebody's folder
    r"|file:/{2,}|(find-?links|index[-_]url)|//([\w-]+\.)*(pypi|pythonhosted|piwheels)\."  # somebody's index
)


def test_no_tracked_file_names_a_folder_or_an_index_of_its_maker() -> None:
    listed = run("git", "ls-files", "-z")
    assert listed.returncode == 0, listed.stderr
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        data = (ROOT / name).read_bytes()
        if b"\0" not in data:
            lines = enumerate(data.decode().splitlines(), 1)
            found += [f"{name}:{number}: {line.strip()[:100]}" for number, line in lines if PRIVATE.search(line)]
    assert found == []


@pytest.mark.parametrize(
    ("line", "private"),
    [
        ("cd /" + "home/me/table", True),
        ("PATH=/" + "root/.local/bin", True),
        ("x = '/" + "tmp/journal.db'", True),
        ("--extra-index" + "-url x", True),
        ("https://" + "pypi.org/project/rich", True),
        ("file:/" + "//opt/wheels", True),
        ("/var/lib/baccarat-table/feed.jsonl", False),
        ("BAC-07/work/1", False),
        ("https://cloudevents.io", False),
    ],
)
def test_what_is_private(line: str, *, private: bool) -> None:
    assert bool(PRIVATE.search(line)) == private
