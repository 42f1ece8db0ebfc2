"""One visit of a client, who may hang up before the answer is there."""

import asyncio
import socket
import struct
import time
from dataclasses import dataclass

import h11

from galley.bench.client import Address, Recorder, written
from galley.bench.key import authorization
from galley.bench.overload_mix import Asked, Leave

STAY = Leave(reads=0, share=0.0, reset=False)
RESET = struct.pack("ii", 1, 0)  # closing throws away what is unsent and says so to the other side


@dataclass(frozen=True)
class Visit:
    """What came back, and how it ended."""

    asked: Asked
    connection: h11.Connection
    reads: list[tuple[float, bytes]]
    sent: float = 0.0  # when the request was on its way
    left: bool = False  # the client hung up
    error: str | None = None  # why there is no whole answer, otherwise

    @property
    def seconds(self) -> float:
        """Until the last of it was there."""
        return self.reads[-1][0] - self.sent if self.reads else 0.0

    @property
    def served(self) -> bool:
        """Whether the answer that begins here is not a refusal."""
        return bool(self.reads) and self.reads[0][1].startswith(b"HTTP/1.1 200")


async def pay(address: Address, asked: Asked, limit: float, usual: float) -> Visit:
    """Sends the request on a connection of its own, and reads until either side closes it.

    Answers take about `usual` seconds, which those who leave before it know.
    """
    connection = h11.Connection(h11.CLIENT)
    request = written(connection, address, "POST", asked.path, asked.body, authorization(asked.key))
    loop = asyncio.get_running_loop()
    leave = asked.leave or STAY
    arrivals = Arrivals(loop.create_future(), loop.create_future(), leave.reads)
    sent, left, error = 0.0, False, None
    try:
        async with asyncio.timeout(limit):
            transport, _ = await loop.create_connection(
                lambda: arrivals, address.host, address.port, ssl=address.secure or None
            )
            try:
                sent = time.perf_counter()
                transport.write(request)
                left = await _leaves(arrivals, asked.leave, usual)
            finally:
                _close(transport, leave.reset)
    except TimeoutError:
        error = f"not complete within {limit:g} seconds"
    except OSError as broken:
        error = f"the connection broke: {broken}"
    return Visit(asked, connection, arrivals.reads, sent, left, error)


class Arrivals(Recorder):
    """Knows when enough of an answer was read."""

    def __init__(
        self, closed: "asyncio.Future[None]", enough: "asyncio.Future[None]", reads: int
    ) -> None:
        super().__init__(closed)
        self.enough = enough
        self._most = reads

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if len(self.reads) == self._most:
            self.enough.set_result(None)


async def _leaves(arrivals: Arrivals, leave: Leave | None, usual: float) -> bool:
    """Whether the client's time comes before the server closes the connection, which may raise."""
    if leave is not None:
        wanted = {arrivals.closed, arrivals.enough} if leave.reads else {arrivals.closed}
        patience = None if leave.reads else leave.share * usual
        await asyncio.wait(wanted, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if not arrivals.closed.done():
            return True
    await arrivals.closed
    return False


def _close(transport: asyncio.WriteTransport, reset: bool) -> None:
    if reset:
        channel = transport.get_extra_info("socket")
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    transport.abort()
