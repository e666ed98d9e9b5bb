"""Certificates made for one test."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificates:
    """An authority, a server at 127.0.0.1 and a client, as PEM files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.authority = folder / "authority.pem"
        self.server = folder / "server.pem"
        self.server_key = folder / "server-key.pem"
        self.client = folder / "client.pem"
        self.client_key = folder / "client-key.pem"
        self.password = "open-sesame"
        self._signer = ec.generate_private_key(ec.SECP256R1())
        self._issuer = _name("authority.example")
        root = self._certificate(self._issuer, self._signer.public_key(), is_authority=True)
        self.authority.write_bytes(root.public_bytes(serialization.Encoding.PEM))
        self._make(self.server, self.server_key, "server.example", None)
        self._make(self.client, self.client_key, "client.example", self.password)

    def server_context(self, *, ask_client: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server, self.server_key)
        if ask_client:
            context.load_verify_locations(self.authority)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _make(self, path: Path, key_path: Path, name: str, password: str | None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certificate(_name(name), key.public_key())
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            lock = serialization.BestAvailableEncryption(password.encode())
        key_path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
        )

    def _certificate(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, *, is_authority: bool = False
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        place = x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))
        signer = self._signer.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([place]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False
            )
            .sign(self._signer, hashes.SHA256())
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
