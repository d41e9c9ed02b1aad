-- An engine that loads another model in place of the one that it has (Ollama): whose jobs may go there now, as policy/placing.py has it.
-- Its hash tells of which model the last job went there, since when, and when the swap for it began (0: not yet, jobs of another still run).
local SWAP = 15000000
local function memory_of(backend, flight)
  local key = P .. 'memory:' .. backend
  local told = call('HMGET', key, 'model', 'at', 'since')
  local memory, model, at, since = {}, told[1], tonumber(told[2] or '') or -1e18, tonumber(told[3] or '') or 0
  local function only(one)
    for _, other in ipairs(flight.jobs) do
      if call('HGET', P .. 'job:' .. other.id, 'model') ~= one then
        return false
      end
    end
    return true
  end
  if at == 0 and only(model) then
    at = now
    redis.pcall('HSET', key, 'at', int(now))
  end
  -- What is in memory: what a look found (ARGV from `first` on: how long ago, and the models); but what a job was sent for since may not be
  -- there yet.
  local function in_memory(first, last)
    local found = {}
    for i = first + 1, last do
      found[ARGV[i]] = true
    end
    if not found[model] and now - tonumber(ARGV[first]) < since + SWAP then
      return {[model] = true}
    end
    return found
  end
  -- When the person's job came that has waited longest, of those that may go here.
  local function oldest(one, ours)
    for _, id in ipairs(call('ZRANGE', P .. 'due:' .. one, 0, 7)) do
      local j = read(id)
      if j and ours(j) then
        return j.arr
      end
    end
    return nil
  end
  -- The lowest score of a model's jobs, and whose it is.
  local function lowest(one, lanes)
    local score, id
    for _, lane in ipairs(lanes) do
      local top = call('ZRANGE', P .. 'wait:' .. one .. ':' .. lane, 0, 0, 'WITHSCORES')
      if top[1] and (not score or tonumber(top[2]) < score) then
        score, id = tonumber(top[2]), top[1]
      end
    end
    return score, id
  end
  -- Where people wait for the model that is there: the other one that somebody has waited for longest, and from when on it may be had.
  local function due(others, ours)
    local best, since
    for _, one in ipairs(others) do
      local arr = oldest(one, ours)
      if arr and (not best or arr < since) then
        best, since = one, arr
      end
    end
    return best, since and math.max(since, at) + SWAP
  end
  -- Else: the other one whose job has the lowest score, and when that one came.
  local function next_one(others, lanes)
    local best, best_score, best_id
    for _, one in ipairs(others) do
      local score, id = lowest(one, lanes)
      if score and (not best or score < best_score) then
        best, best_score, best_id = one, score, id
      end
    end
    return best, best and tonumber(call('HGET', P .. 'job:' .. best_id, 'arr') or '0')
  end
  -- Those of `models` whose jobs may go now. `ours`: whether a job may go here at all.
  function memory.serves(models, first, last, ours, elsewhere)
    local loaded, here, others = in_memory(first, last), {}, {}
    for _, one in ipairs(models) do
      table.insert(loaded[one] and here or others, one)
    end
    local persons = anybody(others)
    if #here > 0 and not persons then
      return here
    end
    if anybody(here) then
      local best, from = due(others, ours)
      if best and at ~= 0 and now >= from then
        return {best}
      end
      memory.look_at = best and at ~= 0 and from or nil
      return here
    end
    local best, came = next_one(others, persons and {'thinking', 'fast', 'normal', 'slow'} or {'background'})
    if not best then
      return here
    end
    if now < came + NEAR and elsewhere.ready(best) then
      memory.look_at = came + NEAR
      return here
    end
    if flight.all.jobs > 0 and (at == 0 or now < at + SWAP) then
      memory.look_at = at ~= 0 and at + SWAP or nil
      return here
    end
    return {best}
  end
  -- A job goes there: its model is the one in memory from now on.
  function memory.sent(j)
    if model ~= j.model then
      model, at = j.model, only(j.model) and now or 0
      call('HSET', key, 'model', model, 'since', int(now), 'at', int(at))
      call('EXPIRE', key, 86400)
    end
  end
  return memory
end
