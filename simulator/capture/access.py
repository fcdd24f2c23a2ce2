"""How dlx gets into a running server: user and password, certificates, and URLs that show no password.

A URL may leave out the user and the password, or the password alone. ``complete`` finds them, in this order: what the
command was told (``Access.password``), netrc, and ``guest`` on this machine. Certificates go along in the query of the
URL, under the names that RabbitMQ's own URIs have: ``cacertfile``, ``certfile``, ``keyfile``.
"""

from __future__ import annotations

import netrc
import os
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

PASSWORD_FILE = "DLX_PASSWORD_FILE"
_GUEST = "guest"
_WITH_TLS = ("amqps", "https")
_SCHEMES = ("amqp", "http", *_WITH_TLS)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_FILES = {"cacertfile": "DLX_TLS_CA", "certfile": "DLX_TLS_CERT", "keyfile": "DLX_TLS_KEY"}
_ESCAPE = "write special characters in user and password as %XX"
_HOW = "--ask-password, --password-file (DLX_PASSWORD_FILE) or an entry in ~/.netrc"


class AccessError(ValueError):
    """A URL leaves out what is needed, or a file with a password or a certificate cannot be used."""


class Secret(str):
    """A password, or a URL that may hold one, which reports of tests and tracebacks show without it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(hidden(str(self))) if "://" in self else "'...'"


class TLS(msgspec.Struct, frozen=True):
    """Certificates, as files in PEM; what is left out comes from ``DLX_TLS_CA``, ``DLX_TLS_CERT`` and ``DLX_TLS_KEY``.

    Attributes:
        ca: the server's certificate must be signed by one of these. By default those of the system, or of
            ``SSL_CERT_FILE``.
        cert: the certificate of this client. Without a user in an AMQP URL it logs in by it (``EXTERNAL``).
        key: its key, if it is not in the file of ``cert``.
    """

    ca: str | os.PathLike[str] | None = None
    cert: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None


class Access(msgspec.Struct, frozen=True):
    """What a client got beside a URL.

    Attributes:
        password: returns the password of a user at a host (``USER at HOST``) for a URL that has none.
        tls: certificates.
    """

    password: Callable[[str], str] | None = None
    tls: TLS = TLS()


def complete(url: str, access: Access | None = None) -> str:
    """Return an AMQP or management URL with user, password and certificates; one that has all of it stays as it is.

    So does what is no such URL, which is for others to refuse.

    Raises ``AccessError``, which repeats no password.
    """
    if url.partition("://")[0].lower() not in _SCHEMES:
        return url
    parts = _split(url)
    access = access or Access()
    parts = _with_certificates(parts, access.tls)
    _check_certificates(parts)
    if (parts.username and parts.password) or logs_in_by_certificate(parts.geturl()):
        return Secret(parts.geturl())
    return Secret(_with_login(parts, *_login(parts, access.password)).geturl())


def with_certificates(url: str, tls: TLS) -> str:
    """Return a URL with certificates, and without a login if it has none. Raises ``AccessError``."""
    parts = _with_certificates(_split(url), tls)
    _check_certificates(parts)
    return Secret(parts.geturl())


def with_user_of(url: str, other: str) -> str:
    """Return ``url`` with the user and password, and the certificates, of another URL, where it has none itself."""
    parts, from_ = urlsplit(url), urlsplit(other)
    user, at, _ = from_.netloc.rpartition("@")
    if "@" not in parts.netloc:
        parts = parts._replace(netloc=f"{user}{at}{parts.netloc}")
    return Secret(_with_certificates(parts, certificates_of(other)).geturl())


_API = {"amqp": ("http", 15672), "amqps": ("https", 15671)}


def usual_api(amqp_url: str) -> str:
    """Return the management URL at the usual port of the same host, with the same user and certificates."""
    parts = urlsplit(amqp_url)
    scheme, port = _API[parts.scheme]
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    return with_user_of(f"{scheme}://{host}:{port}", amqp_url)


def certificates_of(url: str) -> TLS:
    """Return the certificates that a URL names."""
    return TLS(*map(_given_files(urlsplit(url)).get, _FILES))


def credentials(url: str) -> tuple[str, str]:
    """Return the user and the password of a URL, as ``complete`` finds them. Raises ``AccessError``."""
    parts = urlsplit(url)
    if not (parts.username and parts.password):
        parts = urlsplit(complete(url))
    return unquote(parts.username or _GUEST), Secret(unquote(parts.password or ""))


def logs_in_by_certificate(url: str) -> bool:
    """Return whether an AMQP client logs in by its certificate: it has one, and the URL names no user."""
    parts = urlsplit(url)
    return parts.scheme == "amqps" and not parts.username and "certfile" in _files(parts)


def tls_context(url: str) -> ssl.SSLContext | None:
    """Return what a client of this URL trusts and shows; ``None`` without TLS. Raises ``AccessError``."""
    parts = urlsplit(url)
    return _context(_files(parts)) if parts.scheme in _WITH_TLS else None


def without_certificates(url: str) -> str:
    """Return the URL without the files of certificates in its query."""
    parts = urlsplit(url)
    kept = [each for each in parts.query.split("&") if each.partition("=")[0] not in _FILES]
    return Secret(parts._replace(query="&".join(kept)).geturl())


# What a URL leaves out


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  which raises if it is not a number
    except ValueError:  # whose text may repeat a password
        raise AccessError(f"not the URL of a server: {_ESCAPE}") from None
    if "@" not in parts.netloc and "@" in parts.path + parts.query + parts.fragment:
        raise AccessError(f"there is an @ after the host: {_ESCAPE}")
    if not parts.hostname:
        raise AccessError("the URL has no host")
    return parts


def _login(parts: SplitResult, told: Callable[[str], str] | None) -> tuple[str, str]:
    """Return user and password, as they stand in a URL."""
    host, user = str(parts.hostname), unquote(parts.username or "")
    password = unquote(parts.password or "")
    if password:
        return _GUEST, password
    if told is None and (file := os.environ.get(PASSWORD_FILE)):
        told = password_in(file)
    if told is not None:
        return user or _GUEST, told(f"{user or _GUEST!r} at {host}")
    if found := _in_netrc(host, user):
        return found
    if user in ("", _GUEST) and (host in _LOOPBACK or host.startswith("127.")):
        return _GUEST, _GUEST
    if user:
        raise AccessError(f"no password for {user!r} at {host}: give {_HOW}")
    raise AccessError(f"no user for {host}: the default is guest, who may connect only from the server's own machine")


def _with_login(parts: SplitResult, user: str, password: str) -> SplitResult:
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{host}")


def password_in(path: str | os.PathLike[str]) -> Callable[[str], str]:
    """Return what gives the password in the first line of a file. Raises ``AccessError`` if there is none."""
    try:
        password = Path(path).read_text(encoding="utf-8").partition("\n")[0].removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise AccessError(f"the file of the password, {path}: {getattr(error, 'strerror', 'not UTF-8')}") from None
    if not password:
        raise AccessError(f"the file of the password, {path}: its first line is empty")
    return lambda _who: password


def _in_netrc(host: str, user: str) -> tuple[str, str] | None:
    """Return user and password of a host, or ``None``. Raises ``AccessError`` for a file that cannot be read."""
    named = os.environ.get("NETRC")
    try:
        found = netrc.netrc(named).hosts.get(host)  # not the default entry: it is for any server, also others' tests
    except FileNotFoundError:
        return None
    except netrc.NetrcParseError as error:
        where = f"{error.filename or '~/.netrc'}" + (f", line {error.lineno}" if error.lineno else "")
        raise AccessError(f"{where}: {_why_no_netrc(error.msg)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise AccessError(f"{named or '~/.netrc'}: {getattr(error, 'strerror', 'not UTF-8')}") from None
    if found is None or not found[2] or user not in ("", found[0]):
        return None
    return found[0], found[2]


def _why_no_netrc(problem: str) -> str:
    """Return what netrc says, without the word that it quotes, which may be a password, and without its jargon."""
    if "access too permissive" in problem:
        return "others may read it; make it yours alone: chmod 600 ~/.netrc"
    if "bad follower token" in problem:
        return "expected login, account or password, each with its value"
    return re.sub(r"\s*'.*'", "", problem, flags=re.DOTALL).removeprefix("~/.netrc ")


# Certificates


def _given_files(parts: SplitResult) -> dict[str, str]:
    return {name: value for name, value in parse_qsl(parts.query) if name in _FILES}


def _files(parts: SplitResult) -> dict[str, str]:
    """Return the files of certificates by name, those of the URL before those of the environment."""
    said = {name: os.environ[variable] for name, variable in _FILES.items() if os.environ.get(variable)}
    return {**said, **_given_files(parts)}


def _with_certificates(parts: SplitResult, tls: TLS) -> SplitResult:
    files = dict(zip(_FILES, (tls.ca, tls.cert, tls.key), strict=True))
    there = _given_files(parts)
    added = {name: os.fspath(file) for name, file in files.items() if file is not None and name not in there}
    if not added or parts.scheme not in _WITH_TLS:
        return parts
    return parts._replace(query="&".join(filter(None, [parts.query, urlencode(added)])))


def _check_certificates(parts: SplitResult) -> None:
    if parts.scheme in _WITH_TLS:
        _context(_files(parts))


def _context(files: dict[str, str]) -> ssl.SSLContext:
    ca, cert, key = (files.get(name) for name in _FILES)
    if key and not cert:
        raise AccessError(f"{key} is the key of a certificate that is not given: give --tls-cert (DLX_TLS_CERT)")
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        raise AccessError(f"the CA's file, {ca}: {_why_no_file(error)}") from None
    try:
        if cert:
            context.load_cert_chain(cert, key, password=_refuse_passphrase)
    except (OSError, ValueError) as error:
        if cert and key is None and _has_certificate_alone(cert):
            raise AccessError(f"{cert} has no private key: give --tls-key (DLX_TLS_KEY)") from None
        where = f"the client certificate, {cert}{f' with the key {key}' if key else ''}"
        raise AccessError(f"{where}: {_why_no_file(error)}") from None
    return context


def _has_certificate_alone(path: str) -> bool:
    """Return whether there is a certificate in a file and no key."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "-----BEGIN CERTIFICATE-----" in text and "PRIVATE KEY-----" not in text


def _refuse_passphrase() -> NoReturn:
    raise AccessError("the key has a passphrase; give one without")


def _why_no_file(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return "the key is not that of the certificate" if "MISMATCH" in str(error) else "not a file in PEM"
    return str(getattr(error, "strerror", None) or error)


_WRONG_HOST = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
_EXPIRED = 10
_UNKNOWN_CA = (18, 19, 20, 21)  # X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT and the next


def why_no_tls(error: ssl.SSLError) -> str:
    """Say why there is no TLS with a server."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _WRONG_HOST:
            return f"the server's certificate is for another host: {error.verify_message.rstrip('.')}"
        if error.verify_code == _EXPIRED:
            return "the server's certificate has expired"
        if error.verify_code in _UNKNOWN_CA:
            return (
                f"the server's certificate is not signed by a CA that is trusted here ({error.verify_message}); "
                "name the file of its CA with --tls-ca (DLX_TLS_CA)"
            )
        return f"the server's certificate is refused: {error.verify_message}"
    return why_tls_ended("UNEXPECTED_EOF" if isinstance(error, ssl.SSLEOFError) else str(error.reason or error))


def why_tls_ended(reason: str) -> str:
    """Say the same for what OpenSSL calls the reason."""
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return (
            f"the server refuses the handshake; it may want a client certificate: --tls-cert, DLX_TLS_CERT ({reason})"
        )
    if "UNEXPECTED_EOF" in reason:
        return (
            "the server ended the connection: it speaks no TLS, or wants another client certificate "
            "(--tls-cert, DLX_TLS_CERT)"
        )
    if "ALERT" in reason and ("UNKNOWN_CA" in reason or "CERTIFICATE" in reason):
        return f"the server does not trust the client certificate ({reason})"
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return f"what listens there does not speak TLS ({reason})"
    return reason


# URLs in output


_NEXT_URL = re.compile(r"\|(?=https?://)")
_NO_PORT = re.compile(r"^(\[[^]]*\]|[^:/?#[]*):(?!\d+(?:[/?#]|$)).*", re.DOTALL)


def hidden(url: str) -> str:
    """Return a URL, or ``AMQP_URL|MANAGEMENT_URL``, without its passwords, also if it is written wrongly."""
    return "|".join(map(_hidden, _NEXT_URL.split(url)))


def _hidden(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    login, at, where = rest.rpartition("@")
    if not separator:
        return url
    user, colon, _ = login.partition(":")
    shown = _NO_PORT.sub(r"\1:...", where)
    return f"{scheme}://{user}{':...' if colon else ''}{at}{shown}"
