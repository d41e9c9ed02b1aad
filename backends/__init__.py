"""What speaks to engines: chat for the worker, model management for the gateway."""
