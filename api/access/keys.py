"""API keys: how one is made, what is kept of it, and how it is recognized."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

PREFIX = "galley-"  # by which people, and tools that look for leaked secrets, know a key
DOMAIN = b"galley api key\0"  # so that the hash of a key is the hash of nothing else


@dataclass(frozen=True)
class Key:
    """What is kept of a key: enough to recognize it and to say what it allows."""

    hash: str  # hexadecimal
    tenant: str  # whose it is
    priority: tuple[str, ...] = ()  # classes it may ask for, its usual one first; (): the server's
    admin: bool = False  # whether it may change how the engine runs


def make() -> str:
    """A new key, of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(key: bytes) -> str:
    """What is kept of a key.

    A plain hash is enough. Slow and salted ones protect what can be guessed; nobody guesses 256
    random bits, and a slow one would cost every request its time.
    """
    return hashlib.sha256(DOMAIN + key).hexdigest()


class Keyring:
    """Recognizes keys. How long it takes does not tell how much of a key was right."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = [(each.hash.encode(), each) for each in keys]

    def find(self, presented: bytes) -> Key | None:
        """The key that was presented, if it is one."""
        asked = digest(presented).encode()
        found = None
        for kept, key in self._keys:  # all of them: leaving early would tell where it was found
            if hmac.compare_digest(kept, asked):
                found = key
        return found
