"""The table's key: RFC 8032's own vector, a file that is never replaced, and refusals that say what to do."""

import os
import subprocess
import sys
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controller import keys
from controller.keys import KeyFileError, TableKey

# RFC 8032, section 7.1, test 2: one byte of message.
SEED = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = "PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw"
SIGNATURE = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)
PKCS8 = bytes.fromhex("302e020100300506032b657004220420")  # RFC 8410: what stands before the seed
PEM = b"-----BEGIN PRIVATE KEY-----\n" + b64encode(PKCS8 + SEED) + b"\n-----END PRIVATE KEY-----\n"


def key_file(folder: Path, content: bytes = PEM, mode: int = 0o600) -> Path:
    path = folder / "table.key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_the_vector_of_the_standard(tmp_path: Path) -> None:
    key = keys.load(key_file(tmp_path))
    assert key.public == PUBLIC
    assert key.sign(b"\x72") == SIGNATURE
    assert keys.verify(PUBLIC, b"\x72", SIGNATURE)


def test_the_key_id_is_of_the_raw_public_key() -> None:
    """sha256 of 3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c, computed with coreutils."""
    assert keys.keyid(PUBLIC) == "39f713d0a644253f"


@pytest.mark.parametrize(
    ("data", "signature"),
    [
        (b"\x73", SIGNATURE),
        (b"", SIGNATURE),
        (b"\x72", SIGNATURE[:-1] + b"\x01"),
        (b"\x72", SIGNATURE[1:]),
        (b"\x72", SIGNATURE + b"\x00"),
        (b"\x72", bytes(64)),
        (b"\x72", b""),
    ],
)
def test_anything_else_is_not_signed(data: bytes, signature: bytes) -> None:
    assert not keys.verify(PUBLIC, data, signature)


@pytest.mark.parametrize(
    "public",
    ["", PUBLIC[:-1], PUBLIC + "=", PUBLIC + "A", PUBLIC[:-1] + "x", PUBLIC.replace("-", "+"), "ñ" + PUBLIC[1:]],
)
def test_a_public_key_has_one_spelling(public: str) -> None:
    with pytest.raises(ValueError, match="is no public key: 32 bytes in base64url, 43 characters, without padding"):
        keys.verify(public, b"\x72", SIGNATURE)


def test_a_new_key_is_durable_private_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "table.key"
    before = os.umask(0)
    try:
        made = keys.make(path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]
    assert keys.load(path).public == made.public
    assert keys.verify(made.public, b"1041", keys.load(path).sign(b"1041"))


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "table.key"
    made = keys.make(path)
    with pytest.raises(KeyFileError, match="exists; a key is never replaced: move it away first"):
        keys.make(path)
    assert keys.load(path).public == made.public


def test_of_many_makers_at_once_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "table.key"

    def maker(_: int) -> TableKey | None:
        try:
            return keys.make(path)
        except KeyFileError:
            return None

    with ThreadPoolExecutor(8) as pool:
        made = [key for key in pool.map(maker, range(8)) if key]
    assert [key.public for key in made] == [keys.load(path).public]
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, sys
from pathlib import Path
from controller import keys

count = 0
def hook(name, arguments):
    global count
    if name in ("open", "os.link", "os.remove") and str(arguments[0]).startswith(sys.argv[1]):
        count += 1
        if count == int(sys.argv[2]):
            os._exit(9)

sys.addaudithook(hook)
keys.make(Path(sys.argv[1]) / "table.key")
"""


def test_a_power_cut_leaves_a_whole_key_or_none(tmp_path: Path) -> None:
    """The maker dies before its first step that touches the folder, before its second, and so on to its end."""
    for step in range(1, 20):
        folder = tmp_path / str(step)
        folder.mkdir()
        command = [sys.executable, "-c", KILLED, str(folder), str(step)]
        run = subprocess.run(command, check=False, cwd=Path(__file__).parent.parent, timeout=60)
        path = folder / "table.key"
        if path.exists():
            keys.load(path)
        else:
            keys.make(path)
        if run.returncode == 0:
            break
        assert run.returncode == 9
    assert 3 <= step < 19, "the maker was killed at several steps, and at last came to its end"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o660])
def test_a_key_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = key_file(tmp_path, mode=mode)
    with pytest.raises(KeyFileError, match=rf"mode 0{mode:o}\)\. Run `chmod 600 {path}`; if anyone may have read it"):
        keys.load(path)


OTHER_KIND = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VuBCIEIHcHbQpzGKV9PBbBclGyZkXfTC+H68CZKrF3+6UduSwq
-----END PRIVATE KEY-----
"""  # RFC 7748, 6.1: an X25519 key


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no unencrypted key in PEM: move it away and make a new one"),
        (PEM[:60], "holds no unencrypted key in PEM"),
        (b"\x00" * 119, "holds no unencrypted key in PEM"),
        (SEED, "holds no unencrypted key in PEM"),
        (OTHER_KIND, "holds a key of another kind than Ed25519: move it away and make a new one"),
    ],
)
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(KeyFileError, match=message):
        keys.load(key_file(tmp_path, content))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="there is no key file; make one with `tablectl keys new`"):
        keys.load(tmp_path / "table.key")
    with pytest.raises(KeyFileError, match="is no regular file"):
        keys.load(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError, match="is no regular file"):
        keys.load(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(KeyFileError, match="the key file cannot be read: Too many levels of symbolic links"):
        keys.load(tmp_path / "loop")


def test_a_key_needs_its_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="the key cannot be stored: No such file or directory; its folder must"):
        keys.make(tmp_path / "nowhere" / "table.key")


def test_an_ephemeral_key_is_new_each_time_and_says_nothing_of_itself() -> None:
    key, other = keys.ephemeral(), keys.ephemeral()
    assert key.public != other.public
    assert key.keyid == keys.keyid(key.public)
    assert keys.verify(key.public, b"x", key.sign(b"x"))
    assert not keys.verify(other.public, b"x", key.sign(b"x"))
    assert repr(key) == f"TableKey(keyid={key.keyid!r}, public={key.public!r})"
