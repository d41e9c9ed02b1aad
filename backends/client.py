"""One back end's HTTP connections: kept open between requests, closed at once when an answer is left half read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, cast

import aiohttp
import httpx
import msgspec

from backends.arriving import NoHttpError
from backends.asking import Asking
from backends.base import BackendError
from backends.failures import early_end, from_status
from backends.http import Connection
from backends.kept import KEEP_ALIVE_S, SlowError, UnreachableError
from backends.transport import Transport
from buffer.backend import BackendSpec

log = logging.getLogger("doublebuffer.backends")

ERROR_BODY_LIMIT = 256 * 1024
LOOK_LIMIT = 32 * 1024 * 1024
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})
TAIL_S = 0.05
"""How long the end of a complete answer's body is waited for, so that the connection can be used again."""


LEAST_KEY = 4
"""Letters below which a key is a word like any other."""
_NOBODY = (aiohttp.ClientConnectorError, UnreachableError)
_SLOW = (aiohttp.ConnectionTimeoutError, SlowError)


class Client:
    """Sends requests to one back end. Its methods raise ``BackendError``; trouble amid an answer is ``failed``."""

    def __init__(self, spec: BackendSpec, *, connect_timeout_s: float) -> None:
        self.name = spec.name
        self.connect_timeout_s = connect_timeout_s
        self._url = _base(spec)
        self._headers = {"Content-Type": "application/json", "User-Agent": "doublebuffer"}
        self._key = spec.api_key
        if spec.api_key:
            self._headers["Authorization"] = f"Bearer {spec.api_key}"
        # For jobs: what stands between an engine and a gateway is paid for each token.
        self._asking = Asking(self._url, self._headers, connect_timeout_s=connect_timeout_s)
        # For looks, and for what passes through as it is.
        self._http = httpx.AsyncClient(
            transport=Transport(self._session),
            timeout=httpx.Timeout(None, connect=connect_timeout_s),
            trust_env=False,
            # What one client's answer had set would come back with the next one's request.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    def _session(self) -> aiohttp.ClientSession:
        tls = httpx.create_ssl_context(trust_env=False) if self._url.startswith("https:") else False
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S, ssl=tls)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
        )

    async def aclose(self) -> None:
        self._asking.close()
        await self._http.aclose()

    async def ask(self, path: str, body: bytes, headers: Mapping[str, str], until_at: float) -> Connection:
        """Posts JSON and gives the answer, of status 200, once its headers have come; ``put_back`` it at last.
        ``until_at``: loop time.
        """
        try:
            connection = await self._asking.ask(path, body, headers, until_at)
        except TimeoutError:
            raise early_end(self.name, "did not begin to answer in time") from None
        except (httpx.InvalidURL, OSError) as error:
            raise self.trouble(error) from error
        if connection.status_code == 200:
            return connection
        try:
            raise await self.refusal(connection)
        finally:
            self.put_back(connection)

    def put_back(self, connection: Connection) -> None:
        """Its answer is not read any further."""
        self._asking.put_back(connection)

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str], *, until_at: float
    ) -> AsyncIterator[Connection]:
        """As ``ask``, and put back behind it."""
        connection = await self.ask(path, body, headers, until_at)
        try:
            yield connection
        finally:
            self.put_back(connection)

    @asynccontextmanager
    async def pass_on(
        self, method: str, path: str, content: bytes | AsyncIterable[bytes], headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """Sends a request and gives the answer, whatever it is, once its headers have come, however long it takes."""
        headers = {**self._headers, **headers, "Accept-Encoding": "identity"}
        request = self._http.build_request(method, self._url + path, content=content, headers=headers)
        try:
            response = await self._http.send(request, stream=True)
        except (httpx.HTTPError, aiohttp.ClientError, OSError) as error:
            raise self.trouble(error) from error
        try:
            yield response
        finally:
            await response.aclose()

    async def refusal(self, response: Connection | httpx.Response) -> BackendError:
        """The error that an answer of another status than 2xx tells of."""
        body = bytearray()
        try:
            async with asyncio.timeout(self.connect_timeout_s + 1):
                async for data in response if isinstance(response, Connection) else response.aiter_bytes():
                    body += data
                    if len(body) > ERROR_BODY_LIMIT:
                        break
        except (TimeoutError, httpx.HTTPError, aiohttp.ClientError, OSError):
            log.debug("back end %s: the body of an error was cut short", self.name)
        return self.hushed(from_status(self.name, response.status_code, bytes(body)))

    def hushed(self, error: BackendError) -> BackendError:
        """The error, without the key that this back end is sent: some repeat it when they complain of it."""
        if len(self._key) >= LEAST_KEY:
            for name in ("message", "code", "param"):
                setattr(error, name, getattr(error, name).replace(self._key, "…"))
            error.args = (error.message,)
        return error

    def passed(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        """The body of what is passed on, as the network gives it."""
        plain = response.headers.get("content-encoding", "identity").lower() == "identity"
        return cast("AsyncGenerator[bytes, None]", response.aiter_raw() if plain else response.aiter_bytes())

    async def next(self, connection: Connection, until_at: float) -> bytes | None:
        """The next piece of a job's answer, as the network gives it; None at the body's end."""
        try:
            return await connection.next(until_at)
        except OSError as error:
            raise self.amid(error) from error

    def amid(self, error: OSError) -> BackendError:
        """What it means that an answer was not read to its end."""
        if isinstance(error, TimeoutError):
            return early_end(self.name, "stopped sending in the middle of an answer")
        return self.trouble(error)

    async def tail(self, connection: Connection) -> None:
        """Reads what is left of a body whose content is complete. If that fails, it costs the connection only."""
        if connection.at_end:
            return
        until_at = asyncio.get_running_loop().time() + TAIL_S
        try:
            while await connection.next(until_at) is not None:
                pass
        except OSError:
            log.debug("back end %s: a complete answer's body did not end", self.name)

    async def look(self, path: str, body: Any = None) -> httpx.Response | None:
        """A GET, or a POST of ``body`` as JSON, read whole. None for a status other than 200, 401, 403, 429 and 5xx."""
        deadline_s = self.connect_timeout_s + 1
        try:
            async with asyncio.timeout(deadline_s):
                response = await self._read(
                    self._http.build_request(
                        "GET" if body is None else "POST",
                        self._url + path,
                        content=None if body is None else msgspec.json.encode(body),
                        headers={**self._headers, "Accept-Encoding": "identity"},
                    )
                )
        except TimeoutError:
            message = f"Back end '{self.name}' did not answer within {deadline_s:g} s."
            raise BackendError(message, kind="refused", status=503) from None
        except (httpx.HTTPError, aiohttp.ClientError, OSError) as error:
            raise self.trouble(error) from error
        if response.status_code == 200:
            return response
        if response.status_code in (401, 403, 429, 500, 502, 503, 504):
            raise self.hushed(from_status(self.name, response.status_code, response.content[:ERROR_BODY_LIMIT]))
        return None

    async def _read(self, request: httpx.Request) -> httpx.Response:
        """The answer, read whole. Raises ``BackendError`` on one that is too large to be a look's."""
        response = await self._http.send(request, stream=True)
        body = bytearray()
        try:
            async for data in response.aiter_bytes():
                body += data
                if len(body) > LOOK_LIMIT:
                    raise early_end(self.name, "answers a look with more than there can be to say")
        finally:
            await response.aclose()
        headers = {name: value for name, value in response.headers.items() if name not in _OF_THE_BODY}
        return httpx.Response(response.status_code, headers=headers, content=bytes(body), request=request)

    def trouble(self, error: Exception) -> BackendError:
        """httpx-aiohttp gives lost connections out as connect timeouts, so the cause beneath decides."""
        cause = error if isinstance(error, OSError) else error.__cause__ or error
        if isinstance(
            cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | UnreachableError | SlowError
        ):
            nobody = isinstance(cause, aiohttp.ClientConnectorError | UnreachableError)
            code = "unreachable" if nobody else "upstream_error"
            return BackendError(f"Back end '{self.name}' cannot be reached.", kind="refused", status=503, code=code)
        if isinstance(cause, aiohttp.ClientResponseError | httpx.InvalidURL | httpx.UnsupportedProtocol | NoHttpError):
            return early_end(self.name, "does not speak HTTP as it should")
        return early_end(self.name, "closed the connection before the answer was complete")


def decode_json(name: str, body: bytes) -> Any:
    """Raises ``BackendError`` on what is no JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise early_end(name, "sent something that is no JSON") from None


def _base(spec: BackendSpec) -> str:
    """Operators write the address with or without the API's own first part."""
    url = spec.url.rstrip("/")
    return url.removesuffix("/api" if spec.kind == "ollama" else "/v1").rstrip("/")
