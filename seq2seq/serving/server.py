"""The server: connections with time limits, signals, and an end that loses no request."""

import asyncio
import json
import logging
import math
import signal
import socket
import sys
import threading

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from seq2seq.serving.app import Service
from seq2seq.serving.config import ServeConfig

logger = logging.getLogger(__name__)

_HEAD_SECONDS = 10.0
"""Time in which the head of a request must arrive."""
_READ_SECONDS = 30.0
"""Time in which a client must begin to read an answer that does not fit into the buffers."""
_IDLE_SECONDS = 60
"""Time after which a connection without requests is closed."""
_LAST_SECONDS = 1.0
"""Time that a client whose request is on its way has for it when the server ends."""
_PROBE_SECONDS = 0.1
"""Time between the attempts to find out whether a client that sends no more has gone."""
_BACKLOG = 1024
"""Connections that the system accepts before the server does."""


class Server(uvicorn.Server):
    """A server that SIGTERM ends after the last answer, and that reloads its models at SIGHUP.

    Args:
        service: The service.
        config: Its configuration.
        bound: A socket with an address.
    """

    def __init__(self, service: Service, config: ServeConfig, bound: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                service.application(),
                http=Connection,
                ws="none",
                loop="asyncio",
                backlog=_BACKLOG,
                lifespan="on",
                log_config=None,
                # Its warnings tell of each request that is not HTTP, or that asks for a WebSocket.
                log_level="error",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=math.ceil(config.timeout) + 5,
            )
        )
        self._service = service
        self._socket = bound
        self._reload: asyncio.Task[None] | None = None

    def serve_until_stopped(self) -> None:
        """Answer requests until SIGTERM or Ctrl-C, in the main thread or in another one."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main:  # uvicorn raises the signal again at the end, which must not end this process
            signal.signal(signal.SIGTERM, self.handle_exit)
        self.run(sockets=[self._socket])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        pairs = ", ".join("-".join(pair) for pair in self._service.models.pairs)
        logger.info("translating %s on http://%s:%d/", pairs, shown, port)
        if threading.current_thread() is threading.main_thread() and sys.platform != "win32":
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._begin_reload)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # What is answered from now on tells its client to send nothing more on this connection.
        self.server_state.default_headers.append((b"connection", b"close"))
        await super().shutdown(sockets)

    def _begin_reload(self) -> None:
        self._reload = asyncio.ensure_future(self._service.reload())


class Connection(H11Protocol):
    """A connection that ends if its client is too slow, and whose errors are JSON."""

    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _has_ended = False
    """Whether the client has closed its side behind a request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_in_request and self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        elif not self._is_in_request and self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_SECONDS, self.transport.abort)

    @property
    def _is_in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection for the answer to a request that was sent as a whole."""
        self._has_ended = self._is_in_request and not self.cycle.more_body
        self.loop.call_later(_PROBE_SECONDS, self._probe)
        return self._has_ended

    def _probe(self) -> None:
        """Send what a client skips before its answer; one that has gone ends the connection."""
        if self.conn.our_state is h11.SEND_RESPONSE and self.conn.their_http_version == b"1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.loop.call_later(_PROBE_SECONDS, self._probe)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._has_ended and not self._is_in_request:
            self.transport.close()

    def shutdown(self) -> None:
        """End the connection with its next answer, which says so, or if it stays silent."""
        if self._is_in_request:
            self.cycle.default_headers = self.server_state.default_headers
        else:
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                _LAST_SECONDS, self.timeout_keep_alive_handler
            )

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._head_timer, self._write_timer):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(_READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, or has a head that is too large; the application counts it."""
        self.app_state["count_refused"]()
        body = json.dumps({"error": msg}).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def bind(host: str, port: int) -> socket.socket:
    """Return a socket with an address, which refuses connections until a server listens.

    Raises:
        ValueError: The address is not one of this machine, or the port is in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only for sockets that name TCP as their protocol; with it,
    # the body of an answer would wait 40 ms for the client's acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform != "win32":  # a service that is started again takes its port at once
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise ValueError(
            f"host={host} port={port}: {(error.strerror or str(error)).lower()}; choose another "
            "address, or port=0 for a free port"
        ) from error
    return bound


def raise_file_limit() -> None:
    """Allow as many connections as the system permits this process."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
