"""Loads, direct and through the gateway, and what they come to. Measured over HTTP, against real processes."""
