"""Chroma servers for tests: real ones, on loopback, and a relay before them that looks at what goes through."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.lab import wait_until
from tests.ports import free_port

_PATIENCE_S = 30.0


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class ChromaServer:
    """`chroma run`, which can be stopped and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = Path(sys.executable).parent / "chroma"
        address = ("--host", "127.0.0.1", "--port", str(self.port))
        self._process = subprocess.Popen(
            [command, "run", "--path", self.folder, *address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: listens(self.port), within_s=_PATIENCE_S)

    def stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def chroma_server(folder: Path) -> Generator[ChromaServer]:
    server = ChromaServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Relay:
    """Hands connections on to another port of loopback, and keeps the first bytes of every piece that clients send."""

    def __init__(self, target: int, context: ssl.SSLContext | None = None) -> None:
        self.seen: list[bytes] = []
        self._target = target
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def heads(self) -> list[str]:
        """Every request's head that came through."""
        return [piece.decode("latin-1") for piece in self.seen if b"HTTP/1.1\r\n" in piece]

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(_PATIENCE_S)
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(_PATIENCE_S)
            assert not thread.is_alive()
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            if self._context:
                try:
                    client.settimeout(_PATIENCE_S)
                    client = self._context.wrap_socket(client, server_side=True)
                except OSError:  # the client does not trust the certificate
                    continue
                client.settimeout(None)
                self._open.append(client)
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open.append(server)
            for source, sink, seen in ((client, server, self.seen), (server, client, None)):
                self._threads.append(threading.Thread(target=self._copy, args=(source, sink, seen)))
                self._threads[-1].start()

    def _copy(self, source: socket.socket, sink: socket.socket, seen: list[bytes] | None) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                if seen is not None:
                    seen.append(piece[:2_000])
                sink.sendall(piece)
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@contextmanager
def relay(target: int, context: ssl.SSLContext | None = None) -> Generator[Relay]:
    made = Relay(target, context)
    try:
        yield made
    finally:
        made.close()


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A self-made certificate for 127.0.0.1: its file, for whoever is to trust it, and what a server needs."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vault-sidecar test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return public, context
