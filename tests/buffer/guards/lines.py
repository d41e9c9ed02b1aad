"""Which lines of the scripts guard something, and which of them no test takes out."""

from __future__ import annotations

import re
from importlib import resources

from tests.buffer.guards.changing import text_of
from tests.buffer.guards.mutants import mutants

GUARDING = re.compile(r"\b(?:if|elseif|while)\b|\bNOMKSTREAM\b|\braise\(j\b|\bmath\.(?:min|max)\(|\bpcall\b")
"""A condition; what keeps a key from being made; a new fence; a bound; what may be refused."""

SAVES = "what it saves is work; nothing else becomes of it"
LEADS = "without it the script cannot run on"
NEVER = "it never is otherwise, and the server would refuse the command behind it"
WAIVED = {
    "_count: if people(model) > 0 then": LEADS,
    "_crowd: return tonumber(call('HGET', key, user) or '0'), math.max(call('HLEN', key), 1)": "a number to divide by",
    "_elsewhere: if j.behind ~= '' and age < BEHIND then": SAVES,
    "_elsewhere: if not others[model] then": SAVES,
    "_elsewhere: if known[name] == nil then": SAVES,
    "_finish: if j.entry ~= '' then": NEVER,
    "_finish: redis.pcall('XADD', P .. 'dead', 'MAXLEN', '~', '1000', '*', 'id', id, 'model', model, 'lane', lane, "
    "'user', user,": "the last write of its script, which must not fail after the others",
    "_flight: if flight.halves == 0 then": SAVES,
    "_flight: if upto >= one.prompt then": SAVES,
    "_flight: if not looked[half.id] then": LEADS,
    "_place: local function raise(j, ...)": "where it is told what that is",
    "_submitting: if call('ZADD', fair, int(j.tag + j.cost), 'u:' .. user, int(j.tag), 'l:' .. user) > 0 then": SAVES,
    "_queues: if q.top == nil then": SAVES,
    "_queues: if q.turn == nil then": SAVES,
    "_queues: if top_of(q) then": SAVES,
    "_queues: if not best then": LEADS,
    "_seek: while true do": LEADS,
    "offline_settle: if #new == 0 then": SAVES,
    "append: if v[3] == '0' then": SAVES,
    "peek: if some > 0 then": SAVES,
    "peek: if quiet > 0 then": SAVES,
    "_sending: if not heed then": SAVES,
    "_offer: if not worker then": LEADS,
    "_offer: local told = redis.pcall('PUBSUB', 'NUMSUB', ctl)": "who may not ask is given no answer",
    "_submitting: if backend then": LEADS,
    "_homes: if homes[inbox] == nil then": SAVES,
    "pull: if not c then": LEADS,
    "pull: while true do": LEADS,
    "settle: if ARGV[13] ~= '' then": SAVES,
}
"""Lines without a test of their own, as they stand in the files → why."""


def lines() -> dict[str, list[int]]:
    """``<file>: <line>`` of each guarding line → where in the file, from 0."""
    folder = resources.files("buffer") / "scripts"
    found: dict[str, list[int]] = {}
    for file in sorted(one.name.removesuffix(".lua") for one in folder.iterdir() if one.name.endswith(".lua")):
        for number, line in enumerate(text_of(file).splitlines()):
            code = line.strip()
            if GUARDING.search(code) and not code.startswith("--"):
                found.setdefault(f"{file}: {code}", []).append(number)
    return found


def unguarded() -> list[str]:
    """Each guarding line that no mutant touches and that is not waived."""
    touched: dict[str, set[int]] = {}
    for mutant in mutants():
        text, where = text_of(mutant.file), mutant.where or mutant.old
        if text.count(where) == 1:
            first = text.count("\n", 0, text.index(where) + where.index(mutant.old))
            touched.setdefault(mutant.file, set()).update(range(first, first + mutant.old.count("\n") + 1))
    return [
        f"{line} (line {number + 1})"
        for line, numbers in lines().items()
        for number in numbers
        if line not in WAIVED and number not in touched.get(line.partition(":")[0], set())
    ]
