"""How RabbitMQ keeps passwords: four bytes of salt, then the hash of salt and password together.

Source: rabbit_password.erl; rabbit_auth_backend_internal.erl user_login_authentication, hashing_algorithm.
"""

from __future__ import annotations

import hashlib
import re

_PREFIX = "rabbit_password_hashing_"
SHA256, SHA512, MD5 = f"{_PREFIX}sha256", f"{_PREFIX}sha512", f"{_PREFIX}md5"
NO_PASSWORD = b""
"""The hash of a user who cannot log in with any password."""
_HASHES = {SHA256: hashlib.sha256, SHA512: hashlib.sha512, MD5: hashlib.md5}
_SALT_BYTES = 4
_BEFORE_ALGORITHMS_WERE_NAMED = re.compile(r"3\.[0-5]\.")


def password_hash(password: str, algorithm: str = SHA256) -> bytes:
    """Return salt and hash of a password. The salt is made of the password, so that every run makes the same hash."""
    return _salted(hashlib.sha256(_bytes(password)).digest()[:_SALT_BYTES], password, algorithm)


def is_password(password: str, hashed: bytes, algorithm: str) -> bool:
    """Return whether it is the password behind the hash. The empty password never is."""
    salt = hashed[:_SALT_BYTES]
    if not password or len(salt) < _SALT_BYTES or algorithm not in _HASHES:
        return False
    return hashed == _salted(salt, password, algorithm)


def algorithm_of(version: str | None) -> str:
    """Return the algorithm of the hashes in an export of that version that names none."""
    old = version is not None and _BEFORE_ALGORITHMS_WERE_NAMED.match(version)
    return MD5 if old else SHA256


def _salted(salt: bytes, password: str, algorithm: str) -> bytes:
    return salt + _HASHES[algorithm](salt + _bytes(password)).digest()


def _bytes(password: str) -> bytes:
    return password.encode(errors="surrogateescape")
