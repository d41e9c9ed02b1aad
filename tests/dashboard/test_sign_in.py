"""Who may see what, where keys are set."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from buffer.setting_values import ApiKey
from buffer.settings import Settings
from buffer.trouble import StoreUnavailable
from gateway.app import create_app
from gateway.auth import Keyring
from gateway.dashboard.sessions import COOKIE, SIGNED_IN_S, Sessions
from tests.gateway.rig import Rig, free_store, ollama, rig, served

ANN, BOB, ROOT = "k-ann-0123456789", "k-bob-0123456789", "k-root-0123456789"
KEYS = [ApiKey(name="ann", key=ANN), ApiKey(name="bob", key=BOB), ApiKey(name="root", key=ROOT, admin=True)]


@asynccontextmanager
async def keyed() -> AsyncIterator[Rig]:
    async with rig(api_keys=list(KEYS)) as r:
        yield r


@asynccontextmanager
async def signed_in(r: Rig, key: str) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=r.url, timeout=20) as client:
        answer = await client.post("/dashboard/sign-in", data={"key": key})
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
        yield client


async def test_without_a_key_there_is_a_sign_in_and_nothing_else() -> None:
    async with keyed() as r:
        answer = await r.client.get("/dashboard")
        assert answer.status_code == 401
        assert 'action="/dashboard/sign-in"' in answer.text
        assert "www-authenticate" not in answer.headers
        for path in ("/dashboard/data", f"/dashboard/requests/{'0' * 32}"):
            answer = await r.client.get(path)
            assert answer.status_code == 401
            assert "seen" not in answer.text
        assert (await r.client.get("/dashboard/files/base.css")).status_code == 200
        assert (await r.client.get("/dashboardx")).status_code == 401


async def test_a_key_is_traded_for_a_cookie_that_no_script_and_no_other_page_can_use() -> None:
    async with keyed() as r:
        answer = await r.client.post("/dashboard/sign-in", data={"key": ANN})
        cookie = answer.headers["set-cookie"]
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert parts == {"httponly", "samesite=strict", "path=/dashboard", f"max-age={SIGNED_IN_S}"}
        assert ANN not in cookie
        told = (await r.client.get("/dashboard/data")).json()
        assert told["viewer"] == {"name": "ann", "signed_in": True, "admin": False}
        assert (await r.client.get("/dashboard")).status_code == 200
        # It opens the dashboard and no other door.
        value = r.client.cookies[COOKIE]
        assert (await r.client.get("/metrics", headers={"cookie": f"{COOKIE}={value}"})).status_code == 401
        await r.client.post("/dashboard/sign-out")
        assert (await r.client.get("/dashboard/data")).status_code == 401


async def test_behind_tls_the_cookie_is_for_tls_alone() -> None:
    async with keyed() as r:
        headers = {"x-forwarded-proto": "https"}
        answer = await r.client.post("/dashboard/sign-in", data={"key": ANN}, headers=headers)
        assert "; secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize("form", [{"key": "wrong"}, {"key": ""}, {}, {"key": "x" * 9000}])
async def test_a_wrong_key_signs_nobody_in(form: dict[str, str]) -> None:
    async with keyed() as r:
        answer = await r.client.post("/dashboard/sign-in", data=form)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert "Nobody has this key." in answer.text
        assert "xxx" not in answer.text


async def test_a_page_of_another_origin_signs_nobody_in() -> None:
    async with keyed() as r:
        headers = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        answer = await r.client.post("/dashboard/sign-in", data={"key": ANN}, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


async def test_a_page_of_another_origin_signs_nobody_out() -> None:
    async with keyed() as r, signed_in(r, ANN) as client:
        headers = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
        answer = await client.post("/dashboard/sign-out", headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


async def test_each_key_sees_its_own_requests_and_an_admin_all() -> None:
    async with keyed() as r, AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        headers = {"authorization": f"Bearer {ANN}"}
        asked = group.create_task(r.client.post("/api/chat", json=ollama(stream=False), headers=headers))
        job = await r.hands.take()
        ann, bob, root = [await stack.enter_async_context(signed_in(r, key)) for key in (ANN, BOB, ROOT)]
        own = await ann.get(f"/dashboard/requests/{job.id}")
        assert (own.status_code, own.json()["state"]) == (200, "running")
        assert (await bob.get(f"/dashboard/requests/{job.id}")).status_code == 404
        assert (await root.get(f"/dashboard/requests/{job.id}")).status_code == 200
        # Parts of ids are for admins, who find them in the list.
        ref = (await root.get("/dashboard/data")).json()["seen"]["under_way"][0]["ref"]
        assert (await root.get(f"/dashboard/requests/{ref}")).status_code == 200
        assert (await ann.get(f"/dashboard/requests/{ref}")).status_code == 404
        seen = (await ann.get("/dashboard/data")).json()["seen"]
        assert seen["running"] == 1
        assert not {"under_way", "letters"} & seen.keys()
        await r.hands.end(job)
        await asked


async def test_the_only_key_sees_all_since_all_is_its_own() -> None:
    async with rig(api_keys=[ApiKey(name="ann", key=ANN)]) as r:
        answer = await r.client.get("/dashboard/data", headers={"x-api-key": ANN})
        assert answer.json()["viewer"]["admin"] is True


async def test_a_sign_in_holds_at_every_gateway_on_the_same_store() -> None:
    async with keyed() as r:
        other = create_app(Settings(api_keys=list(KEYS)), r.store)
        stranger = await free_store()
        elsewhere = create_app(Settings(api_keys=list(KEYS)), stranger)
        async with served(other) as port, served(elsewhere) as far, signed_in(r, ANN) as client:
            cookie = {"cookie": f"{COOKIE}={client.cookies[COOKIE]}"}
            for at, status in ((port, 200), (far, 401)):
                assert (await client.get(f"http://127.0.0.1:{at}/dashboard/data", headers=cookie)).status_code == status
        await stranger.aclose()


async def test_a_sign_in_ends_with_its_day_and_with_its_key() -> None:
    store = await free_store()
    try:
        now = 1000.0
        sessions = Sessions(store, Keyring(KEYS), clock=lambda: now)
        token = await sessions.sign_in(f" {ANN} ")
        assert token is not None
        headers = {b"cookie": f"other=1; {COOKIE}={token}; more=2".encode()}
        found = await sessions.viewer(headers)
        assert found is not None
        assert found.name == "ann"
        changed = Sessions(store, Keyring([ApiKey(name="ann", key="another"), KEYS[1]]), clock=lambda: now)
        assert await changed.viewer(headers) is None
        until, _, rest = token.partition(".")
        for forged in (
            f"{int(until) + 1}.{rest}",
            f"{until}.{rest[:-1]}",
            f"x.{rest}",
            f"{until}.%%.00",
            "..",
            until,
            "é",
        ):
            assert await sessions.viewer({b"cookie": f"{COOKIE}={forged}".encode()}) is None
        now += SIGNED_IN_S
        assert await sessions.viewer(headers) is None
    finally:
        await store.aclose()


async def test_while_the_store_is_away_who_is_signed_in_stays_so_and_nobody_else_is() -> None:
    store = await free_store()
    try:
        sessions, fresh = (Sessions(store, Keyring(KEYS)) for _ in range(2))
        token = await sessions.sign_in(ANN)
        headers = {b"cookie": f"{COOKIE}={token}".encode()}

        async def away(*_: object, **__: object) -> list[object]:
            raise StoreUnavailable("Redis cannot be reached.")

        store.eager = away  # type: ignore[method-assign]
        assert await sessions.viewer(headers) is not None
        with pytest.raises(StoreUnavailable):
            await fresh.viewer(headers)
        with pytest.raises(StoreUnavailable):
            await fresh.sign_in(ANN)
    finally:
        await store.aclose()


async def test_no_key_is_in_a_log_or_in_the_store(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with keyed() as r, signed_in(r, ANN) as client:
            await client.get("/dashboard/data")
            await client.post("/dashboard/sign-in", data={"key": "k-wrong-0123"})
            values = [await r.store.redis.dump(key) for key in await r.store.redis.keys("*")]
    assert ANN.encode() not in b"".join(values)
    assert ANN not in caplog.text
    assert "k-wrong-0123" not in caplog.text


@pytest.mark.parametrize("forged", ["9" * 5000 + ".{name}.00", "99999999999.{name}.é", "٩٩٩٩٩٩٩٩٩٩٩.{name}.00"])
async def test_a_cookie_that_is_nonsense_is_nobodys_and_no_failure(forged: str) -> None:
    async with keyed() as r, signed_in(r, ANN) as client:
        name = client.cookies[COOKIE].split(".")[1]
        cookie = {b"cookie": f"{COOKIE}={forged.format(name=name)}".encode()}
        async with httpx.AsyncClient(base_url=r.url) as stranger:
            for path in ("/dashboard", "/dashboard/data"):
                assert (await stranger.get(path, headers=cookie)).status_code == 401
