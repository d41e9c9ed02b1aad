"""The stores of the buffer's own tests."""

from tests.buffer.conftest import lanes, store

__all__ = ["lanes", "store"]
