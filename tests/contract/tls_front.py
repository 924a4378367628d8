"""A TLS front for a server on loopback, with certificates of an authority made for the test."""

import datetime as dt
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sls_io.values.clock import SYSTEM_CLOCK

_BYTES = 64 * 1024


@dataclass(frozen=True)
class Papers:
    """Files in PEM form: the authority's certificate; a server's certificate and key."""

    authority: Path
    certificate: Path
    key: Path


def make_papers(
    folder: Path, *, address: str = "127.0.0.1", more: Sequence[str] = (), days: int = 1
) -> Papers:
    """An authority and a certificate for `address` and `more` that it signed; over since yesterday with
    days=-1."""
    now = dt.datetime.fromtimestamp(SYSTEM_CLOCK.now(), dt.UTC)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority for one test")])

    # From 3.13 on Python takes no certificate without it (ssl.VERIFY_X509_STRICT).
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())

    def signed(subject: x509.Name, public: ec.EllipticCurvePublicKey, ca: bool) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=30))
            .not_valid_after(now + dt.timedelta(days=1 if ca else days))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(issuer, critical=False)
        )

    root = signed(authority, authority_key.public_key(), True).add_extension(
        x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        ),
        critical=True,
    )  # fmt: skip
    leaf = signed(x509.Name([]), key.public_key(), False).add_extension(
        x509.SubjectAlternativeName([_name(each) for each in (address, *more)]), critical=True
    )
    papers = Papers(folder / "authority.pem", folder / "server.pem", folder / "server.key")
    for path, builder in ((papers.authority, root), (papers.certificate, leaf)):
        certificate = builder.sign(authority_key, hashes.SHA256())
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    papers.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return papers


def _name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def carry_both(outer: socket.socket, inner: socket.socket) -> None:
    """Bytes of each to the other, until both have ended."""
    back = threading.Thread(target=_carry, args=(inner, outer))
    back.start()
    _carry(outer, inner)
    back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(_BYTES):
            target.sendall(part)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def tls_front(port: int, papers: Papers) -> Iterator[tuple[str, list[ssl.SSLSocket]]]:
    """While the block runs: (https address that stands for the server on `port`, connections so far)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(papers.certificate, papers.key)
    listener = socket.create_server(("127.0.0.1", 0))
    shaken: list[ssl.SSLSocket] = []
    threads: list[threading.Thread] = []

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=connect, args=(plain,))
            threads.append(thread)
            thread.start()

    def connect(plain: socket.socket) -> None:
        with plain:
            try:
                outer = context.wrap_socket(plain, server_side=True)
            except (ssl.SSLError, OSError):
                return
        with outer, socket.create_connection(("127.0.0.1", port)) as inner:
            shaken.append(outer)
            carry_both(outer, inner)

    acceptor = threading.Thread(target=serve)
    acceptor.start()
    try:
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", shaken
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for each in shaken:
            # A test that fails holds its connection, and is to end all the same.
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in (acceptor, *threads):
            thread.join()
