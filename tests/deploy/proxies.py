"""The examples for nginx and Caddy, run as they stand, but for the addresses and the certificate."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx

from tests.deploy.files import DEPLOY
from tests.rig.redis_server import free_port

START_S = 40.0

NGINX = """
{user}
daemon off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/doublebuffer.conf;
}}
"""


def certificate(folder: Path) -> tuple[Path, Path]:
    """One that nobody trusts, and its key."""
    made, key = folder / "it.pem", folder / "it.key"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    subprocess.run([*command.split(), "-out", str(made), "-keyout", str(key)], check=True, capture_output=True)
    return made, key


def nginx(folder: Path, gateway: str) -> tuple[list[str], str]:
    """The command, and the address that it then listens on."""
    port = free_port()
    made, key = certificate(folder)
    text = (DEPLOY / "nginx" / "doublebuffer.conf").read_text()
    for before, after in (
        ("127.0.0.1:11435", gateway.removeprefix("http://")),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/llm.example.org.pem", str(made)),
        ("/etc/ssl/llm.example.org.key", str(key)),
    ):
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    (folder / "doublebuffer.conf").write_text(text)
    user = "user root;" if os.geteuid() == 0 else ""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, user=user))
    return ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")], f"https://127.0.0.1:{port}"


def caddy(folder: Path, gateway: str) -> tuple[list[str], str]:
    """The command, and the address that it then listens on."""
    address = f"http://127.0.0.1:{free_port()}"
    text = (DEPLOY / "caddy" / "Caddyfile").read_text()
    for before, after in (
        ("127.0.0.1:11435", gateway.removeprefix("http://")),
        ("llm.example.org {", "{\n\tadmin off\n}\n\n" + address + " {"),
    ):
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    (folder / "Caddyfile").write_text(text)
    return ["caddy", "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"], address


@contextlib.asynccontextmanager
async def run_proxy(
    make: Callable[[Path, str], tuple[list[str], str]], folder: Path, gateway: str
) -> AsyncIterator[httpx.AsyncClient]:
    """``nginx`` or ``caddy`` before the gateway at ``gateway``; a client of it."""
    command, address = make(folder, gateway)
    environment = os.environ | {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    environment["PATH"] = f"{environment.get('PATH', '')}:/usr/sbin"
    with (folder / "log").open("wb") as log:
        child = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, env=environment)
    try:
        async with httpx.AsyncClient(base_url=address, verify=False, trust_env=False, timeout=30) as client:
            async with asyncio.timeout(START_S):
                while not await _listens(client):
                    assert child.returncode is None, (folder / "log").read_text()[-2000:]
                    await asyncio.sleep(0.02)
            yield client
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


async def _listens(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/health")).status_code == 200
    except httpx.HTTPError:
        return False
