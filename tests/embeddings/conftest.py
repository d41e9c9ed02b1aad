"""The stores of the buffer's own tests."""

from tests.buffer.conftest import lanes, oldest_redis_server, store

__all__ = ["lanes", "oldest_redis_server", "store"]
