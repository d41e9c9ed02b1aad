-- needs: core job reply place bell enter finish
-- ARGV: now, lease, hold, end of a job taken over too often. Returns: taken over, expired, dead, freed.
local lease, hold, failed = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
local AT_ONCE, MOST_TAKEN, ENTRIES = 64, 3, 8
local leases = P .. 'lease'

local last = tonumber(call('GET', P .. 'swept') or '0')
-- When memory is full, a script is refused whose first write may take some; this one may not.
call('EXPIRE', P .. 'swept', 86400)
call('SET', P .. 'swept', int(now), 'EX', 86400)
if now - last > lease / 2 then
  -- The store was away and nobody could renew: everybody gets a whole lease.
  for _, id in ipairs(call('ZRANGEBYSCORE', leases, '-inf', '(' .. int(now + lease))) do
    call('ZADD', leases, int(now + lease), id)
  end
  return {0, 0, 0, 0}
end

local taken, dead, freed = 0, 0, 0
local ids = call('ZRANGEBYSCORE', leases, '-inf', int(now), 'LIMIT', 0, AT_ONCE)
for _, id in ipairs(ids) do
  local j = read(id)
  if not j then
    call('ZREM', leases, id)
    for _, backend in ipairs(call('SMEMBERS', P .. 'backends')) do
      freed = freed + call('HDEL', P .. 'load:' .. backend, id)
    end
  elseif j.st ~= 'running' and j.st ~= 'held' then
    call('ZREM', leases, id)
    if j.backend ~= '' then
      freed = freed + call('HDEL', P .. 'load:' .. j.backend, id)
    end
  elseif j.cancel ~= '' then
    raise(j)
    freed = freed + finish(j, 1, j.cancel, call('HGET', j.key, 'cancel_end') or '')
  elseif j.st == 'held' then
    -- Its gateway did not answer: it is gone, and its client with it.
    if j.det then
      out(j)
      -- The marks in its reply tell what tokens that took.
      call('HSET', j.key, 'prefix', '@reply', 'base', '@reply', 'spent', '0')
      enter(j)
    else
      erase(j)
    end
  elseif j.taken + 1 >= MOST_TAKEN then
    raise(j)
    j.kept = j.det
    freed = freed + finish(j, 1, 'failed', failed)
    call('HSET', j.key, 'taken', int(j.taken + 1))
    bury(id, j.model, j.lane, j.user, 'taken over three times')
    dead = dead + 1
  else
    freed = freed + out(j)
    raise(j)
    call('HSET', j.key, 'st', 'held', 'taken', int(j.taken + 1))
    call('ZADD', leases, int(now + hold), id)
    mark(j, 0, 'lost', '')
    frame(j, 0, 'lost', '')
    taken = taken + 1
  end
end
if freed > 0 then
  call('XADD', P .. 'bell', 'MAXLEN', 16, '*', 'k', 'reap')
end

-- Entries whose job is no longer open, a few a call, round and round.
local sweep = P .. 'sweep'
for _, lane in ipairs({'thinking', 'fast', 'normal', 'slow', 'background'}) do
  local jobs = P .. 'jobs:' .. lane
  local from = call('HGET', sweep, lane)
  local entries = call('XRANGE', jobs, from and '(' .. from or '-', '+', 'COUNT', ENTRIES)
  for _, entry in ipairs(entries) do
    local fields = {}
    for i = 1, #entry[2], 2 do
      fields[entry[2][i]] = entry[2][i + 1]
    end
    local id, model = fields.id or '', fields.model or ''
    local v = call('HMGET', P .. 'job:' .. id, 'st', 'entry')
    if not v[1] or v[1] == 'done' or v[2] ~= entry[1] then
      call('XDEL', jobs, entry[1])
      if not v[1] then
        local queue = model .. ':' .. lane
        local score = call('ZSCORE', P .. 'wait:' .. queue, id)
        if score then
          call('ZREM', P .. 'wait:' .. queue, id)
          call('ZREM', P .. 'turn:' .. queue, turn_member({score = tonumber(score), id = id}))
        end
        call('ZREM', P .. 'due:' .. model, id)
      end
      bury(id, model, lane, fields.user or '', 'left over')
      dead = dead + 1
    end
  end
  if #entries == ENTRIES then
    call('HSET', sweep, lane, entries[ENTRIES][1])
    call('EXPIRE', sweep, 86400)
  elseif from then
    call('HDEL', sweep, lane)
  end
end
return {taken, #ids, dead, freed}
