"""The server: its address, its signals and its access log."""

import logging
import math
import signal
import socket
import sys
import threading

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from seq2seq.files.paths import reading
from seq2seq.serving.app import Service
from seq2seq.serving.models import ServeConfig
from seq2seq.version import __version__

logger = logging.getLogger(__name__)

_HEADER_BYTES = 65536
"""Largest size of request headers that arrive in several packets."""
_IDLE_SECONDS = 60
"""Seconds after its last answer that an idle connection stays open."""


class Connection(H11Protocol):
    """An HTTP connection that can be wrong after its answer."""

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP, unless it has an answer already, because its body was
        too large; uvicorn would log a traceback."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()


class Server(uvicorn.Server):
    """A server whose last answers close their connections."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn would keep a connection open that is accepted at this moment, and cancel what its
        # client asks until the timeout.
        self.server_state.default_headers.append((b"connection", b"close"))
        await super().shutdown(sockets)


def without_query(record: logging.LogRecord) -> bool:
    """Cut the path in a line of uvicorn's access log at `?`, because a text or an API key may
    follow."""
    if isinstance(record.args, tuple):
        client, method, path, *rest = record.args
        record.args = (client, method, str(path).partition("?")[0], *rest)
    return True


def make_server(service: Service, config: ServeConfig) -> Server:
    """Return a server for the service."""
    # uvicorn would warn about each request that asks for a WebSocket or is not HTTP.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.access").addFilter(without_query)
    return Server(
        uvicorn.Config(
            service.application(),
            http=Connection,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            h11_max_incomplete_event_size=_HEADER_BYTES,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_IDLE_SECONDS,
            timeout_graceful_shutdown=math.ceil(config.timeout) + 5,
        )
    )


def serve_until_stopped(service: Service, config: ServeConfig, bound: socket.socket) -> None:
    """Answer requests until SIGTERM or Ctrl-C; SIGHUP reads models and API keys again."""
    server = make_server(service, config)
    # uvicorn raises the signal again when it ends; the signal must not kill this process.
    signal.signal(signal.SIGTERM, server.handle_exit)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, lambda *_: threading.Thread(target=service.reload).start())
    host, port = bound.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    line = "seq2seq %s, translating %s on http://%s:%d/"
    logger.info(line, __version__, service.models, shown, port)
    server.run(sockets=[bound])


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        OSError: The address does not belong to this machine, or the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with reading(f"host={host} port={port}"):
        bound = socket.create_server((host, port), family=family)
    # With Nagle's algorithm, the body of an answer would wait 40 ms for an acknowledgement. asyncio
    # turns the algorithm off only for sockets that name TCP as their protocol. Connections inherit
    # the option of this socket.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
    return bound


def raise_file_limit() -> None:
    """Allow as many connections as the system permits this process."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
