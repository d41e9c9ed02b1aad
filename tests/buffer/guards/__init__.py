"""Each guard of each script, tried by itself: a test that holds with the guard in and fails with it taken out.

``python -m tests.buffer.guards`` takes each one out.
"""
