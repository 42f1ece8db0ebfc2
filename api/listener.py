"""The socket that a server listens on."""

import contextlib
import errno
import resource
import socket
from collections.abc import Iterator

from galley.api.commands.errors import CannotRun
from galley.api.connection import SPARE

FILES = 128  # open files beside the connections


@contextlib.contextmanager
def claim(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to the address, not listening yet; port 0 is any free one.

    Raises CannotRun if the address cannot be had, also while the block runs.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            yield listener
    except socket.gaierror as error:
        raise CannotRun(f"{host} is no address of this machine ({error.strerror})") from error
    except OSError as error:
        if error.errno not in UNUSABLE:
            raise
        raise CannotRun(f"{host} port {port} {UNUSABLE[error.errno]}") from error


UNUSABLE = {
    errno.EADDRINUSE: "is in use; choose another with --port, or 0 for any free one",
    errno.EACCES: "is not allowed to this user; choose one above 1023 with --port",
    errno.EADDRNOTAVAIL: "is no address of this machine; choose another with --host",
}


def url_of(listener: socket.socket) -> str:
    """The base URL of a server on the socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def make_room(connections: int) -> None:
    """Lets the process open as many connections, or raises CannotRun."""
    needed = connections + SPARE + FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise CannotRun(
            f"--max-connections {connections} needs {needed} open files and the process may have "
            f"{hard}; lower it, or allow more with ulimit -n"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
