"""A certificate authority in a folder, for brokers and tables that show each other their certificates."""

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.broker import HOST

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


class Authority:
    """A certificate authority in a folder: `ca.pem`, and certificates on demand."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.issued: dict[str, x509.Certificate] = {}
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"authority {folder.name}")])
        self.ca = self._sign("ca", self._name, self._key.public_key(), NOW - DAY, NOW + 9 * DAY, ca=True)

    def issue(self, name: str, host: str = HOST, begins: dt.datetime = NOW - DAY, days: int = 5) -> tuple[str, str]:
        """Paths of a certificate for `host` and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        pem, unlocked = serialization.Encoding.PEM, serialization.NoEncryption()
        path = self._folder / f"{name}.key"
        path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, unlocked))
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        return self._sign(name, subject, key.public_key(), begins, begins + days * DAY, host=host), str(path)

    def _sign(
        self,
        name: str,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        begins: dt.datetime,
        ends: dt.datetime,
        *,
        ca: bool = False,
        host: str = "",
    ) -> str:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begins).not_valid_after(ends)
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        if host:
            names = [x509.IPAddress(ipaddress.ip_address(host))] if host[0].isdigit() else [x509.DNSName(host)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        path = self._folder / f"{name}.pem"
        certificate = self.issued[name] = builder.sign(self._key, hashes.SHA256())
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return str(path)

    def revoke(self, name: str) -> str:
        """The path of a list that says so, for mosquitto's `crlfile`."""
        gone = x509.RevokedCertificateBuilder().serial_number(self.issued[name].serial_number).revocation_date(NOW)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._name).last_update(NOW - DAY)
        revoked = builder.next_update(NOW + DAY).add_revoked_certificate(gone.build()).sign(self._key, hashes.SHA256())
        path = self._folder / "revoked.pem"
        path.write_bytes(revoked.public_bytes(serialization.Encoding.PEM))
        return str(path)


def listener(authority: Authority, cert: str, key: str, *more: str) -> tuple[str, ...]:
    return (f"cafile {authority.ca}", f"certfile {cert}", f"keyfile {key}", *more)
