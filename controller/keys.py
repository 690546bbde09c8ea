"""The table's key pair (Ed25519, RFC 8032), and the one home of `cryptography`.

The private key is a PEM file that only its owner may read. This file never replaces one, and never gives it away.
"""

import os
import stat
import tempfile
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from .disk import sync_folder

PEM_BYTES_MAX = 4096  # an Ed25519 key in PEM takes 119


class KeyFileError(Exception):
    """A key file that cannot be made or used. The text says what to do."""


@dataclass(frozen=True, slots=True)
class TableKey:
    """`keyid`: the first 16 hex digits of the SHA-256 of the raw public key. `public`: base64url without padding.

    `sign` gives the raw signature of some bytes, 64 bytes.
    """

    keyid: str
    public: str
    sign: Callable[[bytes], bytes] = field(repr=False)


def make(path: Path) -> TableKey:
    """A new key pair in a new file, durable and readable by its owner only; never over an old one."""
    try:
        if path.exists():
            raise _exists(path)
        _write_new(path, _new_pem())
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise KeyFileError(
            f"{path}: the key cannot be stored: {error.strerror}; its folder must exist, "
            "belong to this user, and lie on a filesystem with permissions and links, such as ext4"
        ) from error
    return load(path)


def load(path: Path) -> TableKey:
    """The key pair of a file. Refuses a file that others may read or write: its signatures would prove nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not hang us
    except FileNotFoundError:
        raise KeyFileError(f"{path}: there is no key file; make one with `tablectl keys new`") from None
    except OSError as error:
        raise KeyFileError(f"{path}: the key file cannot be read: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise KeyFileError(f"{path} is no regular file: name the key file itself")
        if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeyFileError(
                f"{path}: others than its owner may use this key file (mode {stat.S_IMODE(found.st_mode):04o}). "
                f"Run `chmod 600 {path}`; if anyone may have read it, move it away and make a new key"
            )
        return _from_pem(os.read(descriptor, PEM_BYTES_MAX), path)
    finally:
        os.close(descriptor)


def ephemeral() -> TableKey:
    """A key pair that no file holds: for the demo and the training table, which must never speak as a live one."""
    return _from_pem(_new_pem(), None)


def verify(public: str, data: bytes, signature: bytes) -> bool:
    """Whether the holder of this public key signed exactly these bytes. ValueError when `public` is no key."""
    key = Ed25519PublicKey.from_public_bytes(_raw(public))
    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def certificate_times(path: Path) -> tuple[datetime, datetime]:
    """From when to when, UTC, the first certificate of a PEM file is valid (RFC 5280, 4.1.2.5)."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise KeyFileError(
            f"{path}: the certificate cannot be read ({error.strerror}): correct its path, or who may read it"
        ) from error
    except ValueError as error:
        raise KeyFileError(f"{path} holds no certificate in PEM: ask casino IT for one") from error
    return certificate.not_valid_before_utc, certificate.not_valid_after_utc


def keyid(public: str) -> str:
    """The id of a public key; ValueError when it is none."""
    return sha256(_raw(public)).hexdigest()[:16]


def _raw(public: str) -> bytes:
    try:
        raw = urlsafe_b64decode(public + "=")
    except ValueError:
        raw = b""
    if len(raw) != 32 or _base64url(raw) != public:  # one spelling only
        raise ValueError(f"{public!r} is no public key: 32 bytes in base64url, 43 characters, without padding")
    return raw


def _base64url(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _exists(path: Path) -> KeyFileError:
    return KeyFileError(f"{path} exists; a key is never replaced: move it away first, the old feed needs it")


def _new_pem() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _from_pem(pem: bytes, path: Path | None) -> TableKey:
    try:
        private = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # damaged; encrypted; of a kind it does not know
        raise KeyFileError(f"{path} holds no unencrypted key in PEM: move it away and make a new one") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise KeyFileError(f"{path} holds a key of another kind than Ed25519: move it away and make a new one")
    public = _base64url(private.public_key().public_bytes_raw())
    return TableKey(keyid(public), public, private.sign)


def _write_new(path: Path, content: bytes) -> None:
    """All or nothing, and durable: written under another name, which `link` then makes `path` unless that exists."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.link(temporary, path)
    finally:
        Path(temporary).unlink()
    sync_folder(path.parent)
