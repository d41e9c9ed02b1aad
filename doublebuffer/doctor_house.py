"""What the gateways and workers that run tell: of themselves, and of the requests that came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from buffer.gateways import GatewayPresence, read_gateways, read_skews
from buffer.lanes import Lanes
from buffer.load import BackendState, WorkerPresence, read_states, read_workers
from buffer.names import queue_names
from buffer.setting_values import names
from buffer.store import Store
from doublebuffer import VERSION
from doublebuffer.doctor_report import Finding, fine, note, wrong

MOST_APART_S = 2.0
MANY_USERS = 3
ENOUGH_CHATS = 20


@dataclass(slots=True)
class House:
    """Of all pools together."""

    gateways: dict[str, GatewayPresence] = field(default_factory=dict)
    workers: dict[str, WorkerPresence] = field(default_factory=dict)
    states: dict[str, BackendState] = field(default_factory=dict)
    skews: dict[str, float] = field(default_factory=dict)
    """Gateway or worker → seconds by which its clock is before the store's."""

    @property
    def users(self) -> int:
        return max((gateway.users for gateway in self.gateways.values()), default=0)

    @property
    def chats(self) -> int:
        return sum(gateway.chats for gateway in self.gateways.values())

    def prompts(self, models: Iterable[str]) -> dict[str, int]:
        """Of these models: queue → tokens of the longest prompt."""
        queues = {queue for model in models for queue in queue_names(model)}
        found: dict[str, int] = {}
        for gateway in self.gateways.values():
            for queue, tokens in gateway.prompts.items():
                if queue in queues:
                    found[queue] = max(found.get(queue, 0), tokens)
        return found


async def read_house(store: Store, pools: Iterable[str]) -> House:
    """Raises ``StoreUnavailable``."""
    house = House()
    for pool in pools:
        lanes = Lanes(store, pool)
        gateways = {one.id: one for one in await read_gateways(store, lanes.keys)}
        workers = {one.id: one for one in await read_workers(store, lanes.keys)}
        house.skews |= _titled("gateway", await read_skews(lanes, list(gateways), workers=False))
        house.skews |= _titled("worker", await read_skews(lanes, list(workers), workers=True))
        house.gateways |= gateways
        house.workers |= workers
        house.states |= {state.name: state for state in await read_states(store, lanes.keys)}
    return house


def _titled(title: str, skews: Mapping[str, float]) -> dict[str, float]:
    return {f"{title} {name}": skew_s for name, skew_s in skews.items()}


def house_findings(house: House) -> list[Finding]:
    """Of those that run."""
    if not house.gateways and not house.workers:
        return [note("processes", "no gateway and no worker runs on this Redis", "start them, then ask again")]
    findings = [fine("processes", f"{_count(house.gateways, 'gateway')} and {_count(house.workers, 'worker')} run")]
    if not house.workers:
        findings = [wrong("processes", "no worker runs, so nothing is answered", "start `doublebuffer worker`")]
    return [*findings, *_versions(house), *_clocks(house), *_parallel(house), *_open_webui(house)]


def _count(found: Mapping[str, object], title: str) -> str:
    return f"{len(found)} {title}{'' if len(found) == 1 else 's'}"


def _versions(house: House) -> list[Finding]:
    told = {gateway.version for gateway in house.gateways.values()}
    told |= {worker.version for worker in house.workers.values()}
    found = sorted(version or "an older one" for version in told)
    if found == [VERSION]:
        return []
    if len(found) > 1:
        text = f"gateways and workers are of different versions: {names(found)}"
        return [wrong("processes", text, "bring all of them to one version")]
    return [note("processes", f"they are of version {found[0]}, and this command is of {VERSION}", "use one version")]


def _clocks(house: House) -> list[Finding]:
    off = {name: skew_s for name, skew_s in house.skews.items() if abs(skew_s) > MOST_APART_S}
    if not off:
        return [fine("clocks", "those of gateways and workers agree with Redis'")]
    told = [f"that of {name} by {skew_s:+.0f} s" for name, skew_s in sorted(off.items())]
    text = f"some are off from Redis': {names(told)}"
    return [wrong("clocks", text, "have all machines set their clocks by NTP (chrony or systemd-timesyncd)")]


def _parallel(house: House) -> list[Finding]:
    """One at a time is right for one person."""
    if house.users < MANY_USERS or house.chats < ENOUGH_CHATS:
        return []
    remedies = {
        "ollama": "set OLLAMA_NUM_PARALLEL=4 where Ollama runs, if its memory allows that",
        "llamacpp": "start llama-server with --parallel 4, if its memory allows that",
    }
    return [
        wrong(
            f"back end {state.name} ({state.kind})",
            f"answers one request at a time, and {house.users} people used it in the last hour",
            remedies[state.kind],
        )
        for state in house.states.values()
        if state.up and state.kind in remedies and (state.in_turn or state.slots == 1)
    ]


def _open_webui(house: House) -> list[Finding]:
    tasks = sum(gateway.tasks for gateway in house.gateways.values())
    bare = sum(gateway.tasks_without_header for gateway in house.gateways.values())
    nobody = sum(gateway.tasks_without_user for gateway in house.gateways.values())
    if not tasks:
        return []
    findings = []
    if bare:
        findings.append(
            wrong(
                "Open WebUI",
                f"{bare} of its {tasks} background requests came without the header that says so",
                "set the header X-OpenWebUI-Task to {{TASK}} for its connection; docs/open-webui.md tells where",
            )
        )
    if nobody:
        findings.append(
            wrong(
                "Open WebUI",
                f"{nobody} of its {tasks} background requests did not tell for whom, so all its people share one turn",
                "set ENABLE_FORWARD_USER_INFO_HEADERS=true for it",
            )
        )
    return findings or [fine("Open WebUI", "sends its task and user headers")]


def pools_of(pools: Sequence[str]) -> list[str]:
    return sorted(set(pools)) or ["default"]
