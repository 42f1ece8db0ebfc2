"""A server process that lives as long as it is measured."""

import socket
import sys

import pytest

from galley.bench.client import Address, get
from galley.bench.errors import BenchError
from galley.bench.server import free_port, running, serve_command

HEALTHY = """
import http.server, sys

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"status": "ok"}')

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()
"""


def test_a_server_serves_inside_the_block_and_is_gone_after_it() -> None:
    port = free_port()
    with running([sys.executable, "-c", HEALTHY, str(port)], port) as served:
        assert served.startup_seconds is not None
        assert get(Address.parse(served.url), "/health", limit=5) == (200, b'{"status": "ok"}')
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_a_server_that_dies_has_its_last_words_reported() -> None:
    port = free_port()
    command = [sys.executable, "-c", "import sys; sys.exit('no such model')"]
    with pytest.raises(BenchError, match=r"status 1(.|\n)*no such model"), running(command, port):
        pass


def test_a_server_that_never_gets_ready_is_stopped() -> None:
    port = free_port()
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with (
        pytest.raises(BenchError, match="did not serve within"),
        running(command, port, patience=0.3),
    ):
        pass


def test_the_server_is_started_like_by_hand() -> None:
    assert serve_command("some/model", 81)[1:] == (
        ["-m", "galley", "serve", "some/model", "--port", "81"]
    )
    assert serve_command(None, 81)[-3] == "serve"
