"""Measure the service: requests per second and latency, with and without batching, in turn.

    python benchmarks/serve_speed.py --checkpoint checkpoints/NAME --clients 1,8,32

Each server is a process on one core; the clients run on another core, if there is one, and send
single sentences over connections that stay open, each the next one when it has an answer. Every
answer is compared with the offline translation. Other programs on the machine make all figures
worse: requests per second of the server's processor time are steadier, and servers are compared in
turn, round by round.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq.inference.translator import Translator
from seq2seq.search.config import BeamConfig, GreedyConfig

SEARCHES = {
    "greedy": (["decoding=greedy"], GreedyConfig()),
    "beam 5": (["decoding=beam", "decoding.beam_size=5"], BeamConfig(beam_size=5)),
}
BATCH_SIZES = {"no batching": 1, "batching": 32}


class Server(NamedTuple):
    """A service of this benchmark."""

    search: str
    name: str
    port: int


class Run(NamedTuple):
    """The result of one load on a server."""

    rate: float
    """Requests per second."""
    rate_of_cpu: float
    """Requests per second of the server's processor time."""
    seconds: list[float]
    """Latency of each request, sorted."""
    num_wrong: int

    def quantile(self, share: float) -> float:
        return 1000 * self.seconds[int(share * (len(self.seconds) - 1))]


class Client:
    """A connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, path: str, content: object = None) -> tuple[int, bytes]:
        body = b"" if content is None else json.dumps(content).encode()
        method = "GET" if content is None else "POST"
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", answer)
        assert length
        return int(answer.split()[1]), await self._reader.readexactly(int(length[1]))

    def close(self) -> None:
        self._writer.close()


async def connect(port: int) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", port))


def main(argv: Sequence[str] | None = None) -> None:
    options, keys = parse(argv)
    source = options.input or f"{options.checkpoint}/test.src"
    lines = [line for line in Path(source).read_text(encoding="utf-8").splitlines() if line.strip()]
    translator = Translator.load(options.checkpoint, device="cpu")
    chosen = {name: SEARCHES[name] for name in options.searches.split(",")}
    expected = {
        name: [each.text for each in translator(lines, config)]
        for name, (_, config) in chosen.items()
    }
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(serving(options, search, name, [*given, *keys]))
            for search, (given, _) in chosen.items()
            for name in BATCH_SIZES
        ]
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        if len(cores) > 1:
            os.sched_setaffinity(0, cores[:-1])
        print(
            f"{len(lines)} sentences, {options.requests} requests, {len(cores)} cores, load",
            end=" ",
        )
        print(f"{os.getloadavg()[0]:.1f}\n")
        print("| search | clients | server | requests/s | of CPU | p50 ms | p95 ms | wrong |")
        print("|---|--:|---|--:|--:|--:|--:|--:|")
        runs: dict[tuple[Server, int], list[Run]] = {}
        for _ in range(options.repeats):
            for clients in map(int, options.clients.split(",")):
                for server in servers:
                    run = asyncio.run(
                        load(server, clients, options.requests, lines, expected[server.search])
                    )
                    runs.setdefault((server, clients), []).append(run)
    for (server, clients), found in runs.items():
        print(row(server, clients, found))
    num_wrong = sum(run.num_wrong for found in runs.values() for run in found)
    if num_wrong:
        sys.exit(f"error: {num_wrong} answers are wrong or missing")


def parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description="Arguments with = are keys of seq2seq-serve.")
    parser.add_argument("--checkpoint", required=True, help="a run, or an exported folder")
    parser.add_argument("--input", help="a file of sentences; default: test.src of the run")
    parser.add_argument("--clients", default="1,8,32", help="numbers of clients")
    parser.add_argument("--searches", default="greedy,beam 5", help="greedy, beam 5")
    parser.add_argument("--requests", type=int, default=1000, help="requests of each load")
    parser.add_argument("--repeats", type=int, default=3, help="rounds, of which medians are shown")
    return parser.parse_known_args(argv)


@contextlib.contextmanager
def serving(
    options: argparse.Namespace, search: str, name: str, keys: Sequence[str]
) -> Iterator[Server]:
    """Start a server on the last core, and stop it at the end."""
    command = [sys.executable, "-m", "seq2seq.cli.serve", f"checkpoint={options.checkpoint}"]
    command += ["port=0", f"batch_size={BATCH_SIZES[name]}", *keys]
    if hasattr(os, "sched_getaffinity"):
        core = max(os.sched_getaffinity(0))
        command = ["taskset", "--cpu-list", str(core), *command]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stderr
    try:
        line = process.stderr.readline()
        found = re.search(r":(\d+)/$", line)
        if not found:
            sys.exit(f"the server did not start: {line}{process.stderr.read()}")
        # Somebody must read the access log, or the server would wait.
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        yield Server(search, name, int(found[1]))
        process.terminate()
        reader.join(30)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


async def load(
    server: Server,
    num_clients: int,
    num_requests: int,
    lines: Sequence[str],
    expected: Sequence[str],
) -> Run:
    """Let clients ask a server for the translations of random lines."""
    clients = [await connect(server.port) for _ in range(num_clients)]
    seconds: list[float] = []
    num_wrong = 0

    async def work(client: Client, number: int) -> None:
        nonlocal num_wrong
        generator = random.Random(number)
        for _ in range(num_requests // num_clients):
            index = generator.randrange(len(lines))
            begin = time.perf_counter()
            status, body = await client.ask(
                "/translate", {"q": lines[index], "source": "auto", "target": target}
            )
            seconds.append(time.perf_counter() - begin)
            num_wrong += status != 200 or json.loads(body)["translatedText"] != expected[index]

    _, languages = await clients[0].ask("/languages")
    target = next(each["targets"][0] for each in json.loads(languages) if each["targets"])
    before = await cpu_seconds(clients[0])
    begin = time.perf_counter()
    await asyncio.gather(*(work(client, number) for number, client in enumerate(clients)))
    wall = time.perf_counter() - begin
    cpu = await cpu_seconds(clients[0]) - before
    for client in clients:
        client.close()
    count = len(seconds)
    return Run(count / wall, count / cpu, sorted(seconds), num_wrong)


async def cpu_seconds(client: Client) -> float:
    """Return the processor time of a server so far."""
    _, text = await client.ask("/metrics")
    found = re.search(rb"(?m)^process_cpu_seconds_total (\S+)", text)
    return float(found[1]) if found else 0.0


def row(server: Server, clients: int, runs: Sequence[Run]) -> str:
    columns = [
        [run.rate for run in runs],
        [run.rate_of_cpu for run in runs],
        [run.quantile(0.5) for run in runs],
        [run.quantile(0.95) for run in runs],
    ]
    cells = [server.search, str(clients), server.name]
    cells += [f"{statistics.median(values):.0f}" for values in columns]
    cells.append(str(sum(run.num_wrong for run in runs)))
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
