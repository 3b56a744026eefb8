"""The server: connections with a time limit, signals, and an orderly end."""

import asyncio
import json
import logging
import math
import signal
import socket
import sys
import threading

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from seq2seq.serving.app import Service
from seq2seq.serving.config import ServeConfig

logger = logging.getLogger(__name__)

_HEAD_SECONDS = 10.0
"""Seconds within which the headers of a request must arrive."""
_IDLE_SECONDS = 60
"""Seconds after which a connection without requests is closed."""
_LAST_SECONDS = 1.0
"""Seconds that a client has left to finish sending a request when the server ends."""


class Connection(H11Protocol):
    """A connection that ends if headers are too slow, and that never loses a request."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._timer = self.loop.call_later(_HEAD_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_request and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif not self._is_in_request and self._timer is None:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)

    @property
    def _is_in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def shutdown(self) -> None:
        """End the connection with its next answer, which says so, or if it stays silent."""
        if self._is_in_request:
            self.cycle.default_headers = self.server_state.default_headers
        else:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                _LAST_SECONDS, self.timeout_keep_alive_handler
            )

    def send_400_response(self, msg: str) -> None:
        """Answer requests that are not HTTP, in JSON; the application counts them."""
        self.app_state["count_refused"]()
        super().send_400_response(json.dumps({"error": msg}))


class Server(uvicorn.Server):
    """A server that, before it ends, tells each client to send nothing more on its connection."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.server_state.default_headers.append((b"connection", b"close"))
        await super().shutdown(sockets)


def make_server(service: Service, config: ServeConfig) -> Server:
    """Return a server for the service."""
    return Server(
        uvicorn.Config(
            service.application(),
            http=Connection,
            ws="none",
            loop="asyncio",
            lifespan="on",
            log_config=None,
            # uvicorn would warn about each request that is not HTTP or asks for a WebSocket.
            log_level="error",
            access_log=False,
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
    pairs = ", ".join("-".join(pair) for pair in service.models.pairs)
    logger.info("translating %s on http://%s:%d/", pairs, shown, port)
    server.run(sockets=[bound])


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        ValueError: The address does not belong to this machine, or the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(
            f"host={host} port={port}: {(error.strerror or str(error)).lower()}; choose another "
            "address, or port=0 for a free port"
        ) from error
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
