"""``doublebuffer simulate``: the simulated back end as a server of its own."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from buffer.setting_sources import SettingsError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

DEFAULT_PORT = 11500


def add_parser(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "the simulated back end as a server of its own, speaking Ollama's and OpenAI's API"
    parser = commands.add_parser("simulate", help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument(
        "--port", type=int, default=DEFAULT_PORT, help=f"port to listen on, 0 for a free one (default: {DEFAULT_PORT})"
    )
    parser.add_argument(
        "--profile",
        default="rtx4090-vllm",
        help="whose timing: rtx4090-ollama, rtx4090-vllm (the default) or h100-vllm",
    )
    parser.add_argument(
        "--model",
        action="append",
        dest="models",
        metavar="NAME",
        help="a model it pretends to serve, simulated-…; may be given several times",
    )
    parser.add_argument("--slots", type=int, help="sequences side by side (default: the profile's)")
    parser.add_argument("--num-ctx", type=int, help="longest prompt and answer together, in tokens")
    parser.add_argument(
        "--time-scale",
        type=float,
        default=1.0,
        help="wall seconds for a modelled second; 0 is as fast as this machine goes (default: 1)",
    )
    parser.add_argument(
        "--ignore-eos",
        action="store_true",
        help="answers go on to their max_tokens, as if each request said ignore_eos",
    )


async def run(arguments: argparse.Namespace) -> None:
    """Serves until a signal. Raises ``SettingsError``."""
    from simulate.server import serve
    from simulate.site import DEFAULT_MODEL

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    models = arguments.models or [DEFAULT_MODEL]

    def ready(host: str, port: int) -> None:
        print(f"Doublebuffer's SIMULATED back end, timed as {arguments.profile}; its answers mean nothing", flush=True)
        print(f"  address    http://{host}:{port}", flush=True)
        print(f"  models     {', '.join(models)}", flush=True)

    try:
        await serve(
            arguments.host,
            arguments.port,
            profile_name=arguments.profile,
            models=models,
            time_scale=arguments.time_scale,
            slots=arguments.slots,
            num_ctx=arguments.num_ctx,
            ignore_eos=arguments.ignore_eos,
            ready=ready,
        )
    except ValueError as error:
        raise SettingsError(f"simulate: {str(error).rstrip('.')}.") from None
    except OSError as error:
        where = f"{arguments.host}:{arguments.port}"
        raise SettingsError(f"--host and --port: cannot listen on {where}: {error.strerror or error}.") from None
