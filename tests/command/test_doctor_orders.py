"""What ``doctor`` tells of a Redis user that may not have standing orders."""

from __future__ import annotations

import pytest

from buffer.settings import Settings
from buffer.store import open_store
from doublebuffer.doctor_redis import redis_findings
from tests.rig.redis_server import run_redis


@pytest.mark.parametrize(
    ("rules", "notes"),
    [
        ("+@all &*", 0),
        ("+@all resetchannels &doublebuffer:*", 0),
        ("+@all resetchannels", 1),
        ("+@all -subscribe &*", 1),
        ("+@all -pubsub &*", 1),
    ],
)
async def test_a_user_that_may_not_subscribe_is_worth_a_note(rules: str, notes: int) -> None:
    with run_redis("--appendonly", "yes") as server:
        admin = await open_store(server.url)
        await admin.redis.execute_command("ACL", "SETUSER", "few", "reset", "on", ">pw", "~*", *rules.split())
        few = await open_store(server.url.replace("redis://", "redis://few:pw@"))
        try:
            findings = await redis_findings(Settings(), few)
        finally:
            await few.aclose()
            await admin.aclose()
    assert [finding.text for finding in findings if finding.level == "wrong"] == []
    assert sum("SUBSCRIBE" in finding.text for finding in findings if finding.level == "note") == notes
