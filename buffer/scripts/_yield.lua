-- Background work gives its place to people's jobs that lack nothing else: their workers are told, and give back what has said nothing.
-- `short`: what those jobs need. Gives when to look again: of those asked some may have said something by then, and others are asked.
local YIELD = 1000000
local function give_way(flight, credit, short)
  local willing, room = {}, {jobs = flight.all.jobs, kv = flight.all.kv, prefill = flight.all.prefill, long = flight.all.long}
  local function without(one)
    room.jobs, room.kv = room.jobs - 1, room.kv - one.kv
    room.prefill, room.long = room.prefill - one.prefill, room.long - one.long
  end
  for _, one in ipairs(flight.jobs) do
    if one.lane == 'background' then
      local told = call('HMGET', P .. 'job:' .. one.id, 'st', 'worker', 'fence', 'yield')
      if now - (tonumber(told[4] or '') or 0) < YIELD then
        without(one)
      elseif told[1] == 'running' then
        willing[#willing + 1] = {one = one, worker = told[2], fence = told[3]}
      end
    end
  end
  -- The one that came last has done least.
  table.sort(willing, function(a, b)
    return a.one.arr > b.one.arr
  end)
  local at = 1
  for _, need in ipairs(short) do
    local goes, yields = fits(need, room, credit), willing[at]
    if not goes and yields then
      local before = {jobs = room.jobs, kv = room.kv, prefill = room.prefill, long = room.long}
      without(yields.one)
      goes = fits(need, room, credit)
      if goes then
        at = at + 1
        redis.pcall('HSET', P .. 'job:' .. yields.one.id, 'yield', int(now))
        redis.pcall('XADD', P .. 'ctl:' .. yields.worker, 'NOMKSTREAM', '*', 'k', 'yield', 'id', yields.one.id, 'f', yields.fence)
      else
        room = before
      end
    end
    if goes then
      add(room, need)
    end
  end
  return at > 1 and willing[at] and now + YIELD or nil
end
