"""The unit and the proxy of docs/how-to/operating.md are valid."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from documents import ROOT, Page
from tiny_service import running

from seq2seq.cli.command_line import load_command
from seq2seq.serving.interface import most_bytes
from seq2seq.serving.models import ServeConfig

PAGE = Page("docs/how-to/operating.md")
[UNIT] = PAGE.blocks("ini")
[PROXY] = PAGE.blocks("nginx")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def check(*command: str | Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "warn" in done.stderr) == (0, False), done.stderr


def test_the_command_of_the_unit_is_one_and_ends_before_systemd_kills_it() -> None:
    [command] = re.findall(r"^ExecStart=\S+/seq2seq-serve (.*)$", UNIT, re.MULTILINE)
    arguments = shlex.split(command.replace("%i", "5000"))
    config = load_command("serve", ServeConfig, arguments)

    assert (config.checkpoint, config.port) == (["/srv/models/current"], 5000)
    [seconds] = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(seconds) >= config.timeout + 5
    assert "server 127.0.0.1:5000 " in PROXY
    assert "client_max_body_size 64k;" in PROXY
    assert most_bytes(config) <= 64 * 1024


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "seq2seq@5000.service"
    path.write_text(UNIT.replace("/opt/seq2seq/bin/seq2seq-serve", "/bin/echo"))

    check("systemd-analyze", "verify", path)


def test_nginx_accepts_the_proxy(tmp_path: Path) -> None:
    names = {"/etc/ssl/certs/translate.pem": "cert", "/etc/ssl/private/translate.key": "key"}
    text = PROXY
    for name, file in names.items():
        assert name in text
        text = text.replace(name, str(tmp_path / file))
    check(
        *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a"),
        *("-keyout", tmp_path / "key", "-out", tmp_path / "cert"),
    )
    path = tmp_path / "nginx.conf"
    path.write_text(f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{text}}}\n")

    check("nginx", "-t", "-e", tmp_path / "log", "-c", path)


def test_the_container_without_torch_has_the_packages_of_the_guide() -> None:
    commands = Page("docs/how-to/serving.md").commands()
    packages, package = (
        each for each in commands if each.startswith("pip install") and "-e" not in each
    )

    packages = packages.replace("install", "install --constraint constraints.txt")
    assert {f"RUN {packages}", f"RUN {package}"} <= set(DOCKERFILE.splitlines())


@pytest.mark.parametrize("given", [None, "port={}", "++port={}", "port='{}'", 'port=" {}"'])
def test_the_health_check_of_the_container_follows_the_port(
    tmp_path: Path, given: str | None
) -> None:
    [check_text] = re.findall(r"^HEALTHCHECK .*\\\n +CMD (.*)$", DOCKERFILE, re.MULTILINE)
    python, option, code = json.loads(check_text)
    arguments = tmp_path / "cmdline"

    with running() as live:
        port = str(live.port)
        command = ["seq2seq-serve", "host=0.0.0.0", "checkpoint=/models/port=1"]
        command += ["port=1", given.format(port)] if given else []
        arguments.write_bytes("".join(f"{each}\0" for each in command).encode())
        code = code.replace("/proc/1/cmdline", str(arguments))
        code = code if given else code.replace("5000", port)
        done = subprocess.run([sys.executable, option, code], capture_output=True, check=False)

    assert (python, done.returncode) == ("python", 0), done.stderr


def test_each_container_has_a_limit_of_memory() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))["services"]

    assert all("mem_limit" in service for service in services.values())
