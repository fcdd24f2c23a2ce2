"""Makes certificates for tests: a CA, one of the server and one of a client."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from simulator.extras import importing
from simulator.server.tls import Tls

trustme = importing("testing")("trustme")

SERVER_NAMES = ("localhost", "127.0.0.1", "::1")
_ORGANIZATION = "dlx"
_NOT_AFTER = datetime(2049, 12, 31, tzinfo=UTC)  # later times have a form in certificates that 3.10 does not read


def generated(tls: Tls, folder: Path) -> Tls:
    """Return ``tls`` with certificates and keys, written to the folder.

    The server's certificate is for localhost, 127.0.0.1 and ::1. That of the client has the distinguished name
    ``CN=guest,OU=clients,O=dlx``.
    """
    ca = trustme.CA(organization_name=_ORGANIZATION, organization_unit_name="CA")
    lasting = {"organization_name": _ORGANIZATION, "not_after": _NOT_AFTER}
    server = ca.issue_cert(*SERVER_NAMES, organization_unit_name="servers", **lasting)
    client = ca.issue_cert("guest@localhost", common_name="guest", organization_unit_name="clients", **lasting)
    files = {name: folder / f"{name}.pem" for name in ("ca", "cert", "key", "client_cert", "client_key")}
    ca.cert_pem.write_to_path(files["ca"])
    for issued, cert, key in ((server, "cert", "key"), (client, "client_cert", "client_key")):
        files[cert].write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        files[key].touch(mode=0o600)
        issued.private_key_pem.write_to_path(files[key])
    return msgspec.structs.replace(tls, **{name: str(file) for name, file in files.items()})
