"""TLS in front of a server that has none, with certificates made for the test."""

from __future__ import annotations

import contextlib
import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

trustme = pytest.importorskip("trustme", reason="certificates are made by trustme, which the extra testing has")


class Certificates:
    """A CA, and the files of certificates that it has signed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._ca = folder, trustme.CA()
        self.ca = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.ca)

    def client(self) -> tuple[Path, Path]:
        """Return the files of a client's certificate and of its key."""
        signed = self._ca.issue_cert("client@example.org")
        cert, key = self._folder / "client.pem", self._folder / "client-key.pem"
        signed.cert_chain_pems[0].write_to_path(cert)
        signed.private_key_pem.write_to_path(key)
        return cert, key

    def server(self, *hosts: str, asks_clients: bool = False) -> ssl.SSLContext:
        """Return what a server with a certificate for these hosts shows, and whether it wants one of its clients."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._ca.issue_cert(*hosts).configure_cert(context)
        if asks_clients:
            self._ca.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


@contextlib.contextmanager
def tls_before(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """Take TLS connections and hand what they say to a port of this machine; yield the port where they are taken."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with (
                contextlib.suppress(OSError),  # a handshake that fails is what a test is about
                context.wrap_socket(self.request, server_side=True) as client,
                socket.create_connection(("127.0.0.1", port)) as behind,
            ):
                behind.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pass_on(client, behind)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def pass_on(client: ssl.SSLSocket, behind: socket.socket) -> None:
    """Pass on what each side says, until one of them ends."""
    while True:
        ready = [client] if client.pending() else select.select([client, behind], [], [])[0]
        for one in ready:
            some = one.recv(65_536)
            if not some:
                return
            (behind if one is client else client).sendall(some)
