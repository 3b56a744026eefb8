"""The server: connections, signals, and an orderly shutdown."""

import asyncio
import errno
import json
import logging
import math
import signal
import socket
import sys
import threading
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from seq2seq.serving.app import Service
from seq2seq.serving.models import ServeConfig
from seq2seq.version import __version__

logger = logging.getLogger(__name__)

_HEADER_BYTES = 65536
"""Largest size of request headers that arrive in several packets."""
_IDLE_SECONDS = 60
"""Seconds after which a connection without requests is closed."""
_LAST_SECONDS = 1.0
"""Seconds that a client has left to finish sending a request when the server ends."""
_SPARED_SECONDS = 1.0
"""Seconds of silence after which a connection is closed if there is no room for a new one."""
_REPORT_SECONDS = 60.0
"""Seconds between two log lines about missing file descriptors."""


class Connection(H11Protocol):
    """An HTTP connection that can be closed without losing a request."""

    _last_time: float = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._last_time = self.loop.time()

    def data_received(self, data: bytes) -> None:
        self._last_time = self.loop.time()
        super().data_received(data)

    @property
    def _is_in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def close_if_idle(self) -> None:
        """Close the connection if it has been silent for a while and no answer is pending."""
        if not self._is_in_request and self.loop.time() > self._last_time + _SPARED_SECONDS:
            self.transport.close()

    def shutdown(self) -> None:
        """Close the connection after its next answer, which announces the end, or after silence."""
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
    """A server that shuts down in order, and frees connections when no file descriptor is left.

    Before the server ends, it tells each client to send nothing more on its connection.
    """

    _next_report = 0.0
    _makes_room = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._handle)
        await super().startup(sockets)

    def _handle(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error outside of a request; asyncio tries again to accept a connection."""
        error = context.get("exception")
        if self.should_exit and "_start_serving" in context.get("message", ""):
            return  # asyncio still tries, once for each connection that it could not accept
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
            return
        if loop.time() >= self._next_report:
            self._next_report = loop.time() + _REPORT_SECONDS
            logger.warning(
                "no file descriptor is left for another connection; silent connections are closed; "
                "raise the limit with ulimit -n"
            )
        if not self._makes_room:  # asyncio reports the error once for each waiting connection
            self._makes_room = True
            loop.call_later(_SPARED_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        self._makes_room = False
        for connection in list(self.server_state.connections):
            if isinstance(connection, Connection):
                connection.close_if_idle()

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
            # uvicorn would warn about each request that asks for a WebSocket or is not HTTP.
            log_level="error",
            access_log=False,
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
    described = service.models.described
    logger.info("seq2seq %s, translating %s on http://%s:%d/", __version__, described, shown, port)
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
