"""The official clients, as they come, in front of every kind of back end; and what docs/compatibility.md says of it."""
