"""Keys of a few tenants, and who they let in."""

from typing import Any

from galley.api.access import keys
from galley.api.access.key_file import KeyEntry, KeyFile, TenantEntry
from galley.api.access.tenants import Keyed, Tenants
from galley.sched.classes import Classes, PriorityClass

ANN, BOB, ADMIN = "galley-of-ann", "galley-of-bob", "galley-of-an-admin"
CLASSES = Classes(
    [PriorityClass("interactive", 0.25), PriorityClass("usual"), PriorityClass("batch")], "usual"
)


def entry(key: str, tenant: str, **more: Any) -> KeyEntry:
    return KeyEntry(keys.digest(key.encode()), tenant, **more)


def file(**ann: Any) -> KeyFile:
    """Ann may ask for two classes; Bob has a limit of 2 + 1; the admin is of Ann's tenant."""
    return KeyFile(
        entries=[
            entry(ANN, "ann", priority=("batch", "interactive"), **ann),
            entry(BOB, "bob"),
            entry(ADMIN, "ann", admin=True),
        ],
        tenants=[TenantEntry("bob", max_running=2, max_queued=1)],
    )


def tenants() -> Tenants:
    return Tenants(Keyed(file(), CLASSES))


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
