-- What a back end carries, job by job. Its hash has of each: kv, prefill, long, lane, arrival, score, prompt, upto, had.
local PLACE = {thinking = 1, fast = 2, normal = 3, slow = 4, background = 5}
local function first_class(lane)
  return lane == 'fast' or lane == 'thinking'
end
local function no_load()
  return {jobs = 0, kv = 0, prefill = 0, long = 0}
end
local function add(load, one)
  load.jobs, load.kv = load.jobs + 1, load.kv + one.kv
  load.prefill, load.long = load.prefill + one.prefill, load.long + one.long
end
local function flight_at(load_key)
  -- `short`: what jobs of the short lanes have, but for prefill; `halves`: of how many prompts there is more to send.
  local flight = {all = no_load(), short = no_load(), jobs = {}, halves = 0}
  function flight.take(one)
    flight.jobs[#flight.jobs + 1] = one
    add(flight.all, one)
    if first_class(one.lane) then
      add(flight.short, one)
    end
    if one.upto < one.prompt then
      flight.halves = flight.halves + 1
    end
  end
  function flight.send(one, upto)
    flight.all.prefill = flight.all.prefill + upto - one.upto
    one.prefill, one.upto = one.prefill + upto - one.upto, upto
    if upto >= one.prompt then
      flight.halves = flight.halves - 1
    end
  end
  -- What those have that came later than so.
  function flight.some(after)
    local load = no_load()
    for _, one in ipairs(flight.jobs) do
      if one.arr > after then
        add(load, one)
      end
    end
    return load
  end
  function flight.carries(lane)
    for _, one in ipairs(flight.jobs) do
      if one.lane == lane then
        return true
      end
    end
    return false
  end
  function flight.has_people()
    for _, one in ipairs(flight.jobs) do
      if one.lane ~= 'background' then
        return true
      end
    end
    return false
  end
  -- Whether a prompt of a person's is being read; `fast` too.
  function flight.reads_people()
    for _, one in ipairs(flight.jobs) do
      if one.lane ~= 'background' and one.upto > one.had then
        return true
      end
    end
    return false
  end
  -- Prompts of which there is more to send, the lowest score first.
  local NONE = {}
  function flight.half_read()
    if flight.halves == 0 then
      return NONE
    end
    local some = {}
    for _, one in ipairs(flight.jobs) do
      if one.upto < one.prompt then
        some[#some + 1] = one
      end
    end
    table.sort(some, function(a, b)
      return a.score < b.score or (a.score == b.score and a.id < b.id)
    end)
    return some
  end
  function flight.next_half(looked)
    for _, half in ipairs(flight.half_read()) do
      if not looked[half.id] then
        return half
      end
    end
    return nil
  end
  -- Whether one is under way that is to be read before those of this lane: one of its own, or of a higher one.
  function flight.reads_before(lane)
    for _, one in ipairs(flight.jobs) do
      if one.upto < one.prompt and one.upto > one.had and PLACE[one.lane] <= PLACE[lane] then
        return true
      end
    end
    return false
  end
  local all = call('HGETALL', load_key)
  for i = 1, #all, 2 do
    local kv, prefill, long, lane, arr, score, prompt, upto, had =
      string.match(all[i + 1], '^(%d+),(%d+),(%d+),(%a+),(%d+),(%d+),(%d+),(%d+),(%d+)$')
    flight.take({
      id = all[i], kv = tonumber(kv), prefill = tonumber(prefill), long = tonumber(long), lane = lane, arr = tonumber(arr),
      score = tonumber(score), prompt = tonumber(prompt), upto = tonumber(upto), had = tonumber(had),
    })
  end
  return flight
end
