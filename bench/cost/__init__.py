"""What standing in between costs: the mock engine, the load, the paths beside one another, and the page about it."""
