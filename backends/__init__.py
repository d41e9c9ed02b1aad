"""What engines can do, told apart by their kind. The only code that speaks HTTP to them."""

from backends.make import make

__all__ = ["make"]
