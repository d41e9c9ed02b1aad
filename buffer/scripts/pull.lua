-- needs: core job reply place finish count seek owners notes
-- ARGV: now, worker, backend, want, slots, kv, prefill, long, reserved slots, kv reserve, lease, expired end, goes on (1: it
-- can with what others began), names, lanes, models: the number of names of back ends, these, the number of lanes, these, the models. With
-- names: only jobs that one of these has just failed and leaves to others. Returns: granted jobs, waiting, notes (stream, last id, …).
local worker, backend = ARGV[2], ARGV[3]
local want, slots = tonumber(ARGV[4]), tonumber(ARGV[5])
local kv_limit, prefill_limit, long_limit = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local reserved, kv_reserve = math.min(tonumber(ARGV[9]), slots - 1), tonumber(ARGV[10])
local lease, expired, goes_on = tonumber(ARGV[11]), ARGV[12], ARGV[13] == '1'
local LOOK, MOST_OVER, MOST_GONE = 16, 128, 64

-- Only queues where somebody waits: nothing comes into one meanwhile.
local models, queues, allowed, left_by = {}, {}, {}, {}
local stands_in = tonumber(ARGV[14])
for i = 15, 14 + stands_in do
  left_by[ARGV[i]] = true
end
local lanes_at = 15 + stands_in
local lane_count = tonumber(ARGV[lanes_at])
for _, model in ipairs(asked(lanes_at + 1 + lane_count)) do
  if people(model) > 0 or background(model) > 0 then
    models[#models + 1] = model
  end
end
for i = lanes_at + 1, lanes_at + lane_count do
  allowed[ARGV[i]] = true
  for _, model in ipairs(models) do
    local name = model .. ':' .. ARGV[i]
    if call('EXISTS', P .. 'wait:' .. name) == 1 then
      queues[#queues + 1] = {model = model, lane = ARGV[i], name = name}
    end
  end
end

-- Not written each time: when memory is full, a script that begins with it is refused, and one that begins with a release is not.
if call('SISMEMBER', P .. 'backends', backend) == 0 then
  call('SADD', P .. 'backends', backend)
end
local load_key = P .. 'load:' .. backend
local used, used_kv, used_prefill, used_long = 0, 0, 0, 0
for _, value in ipairs(call('HVALS', load_key)) do
  local kv, prefill, long = string.match(value, '^(%d+),(%d+),(%d+)$')
  used, used_kv, used_prefill, used_long = used + 1, used_kv + kv, used_prefill + prefill, used_long + long
end

-- Jobs that do not fit, and the lowest due of them: nothing that came after it may pass.
local looked, looked_count, barrier = {}, 0, nil
-- Jobs whose owners have as many places here as they may while others wait. Whoever else waits passes them, however old they are.
local over, places, others = {}, owners_at(load_key), {}

-- The lowest score first; within its queue, whose turn it is.
local function first(quiet)
  local best, best_score, head
  for _, q in ipairs(queues) do
    if q.lane ~= 'background' or quiet then
      local top = call('ZRANGE', P .. 'wait:' .. q.name, 0, 0, 'WITHSCORES')
      if top[1] and (not best or tonumber(top[2]) < best_score) then
        best, best_score, head = q, tonumber(top[2]), top[1]
      end
    end
  end
  if not best then
    return nil
  end
  local turn = call('ZRANGE', P .. 'turn:' .. best.name, 0, 0)[1]
  return {id = turn and string.sub(turn, 18) or head, model = best.model, queue = best, turn = turn}
end
-- The next by score; where owners over their share are passed over, each queue's next by turn: there the others come soon.
local function next_one(quiet)
  local best, best_score
  for _, q in ipairs(queues) do
    if q.lane ~= 'background' or quiet then
      local id, score, turn
      if #over > 0 then
        turn = unseen(P .. 'turn:' .. q.name, 18, looked)
        id, score = turn and string.sub(turn, 18), turn and tonumber(string.sub(turn, 1, 16))
      else
        id, score = unseen(P .. 'wait:' .. q.name, 1, looked)
      end
      if id and (not best or score < best_score) then
        best, best_score = {id = id, model = q.model, queue = q, turn = turn}, score
      end
    end
  end
  return best
end
-- The next that one of `left_by` leaves to others.
local function next_left()
  for _, model in ipairs(models) do
    local key = P .. 'left:' .. model
    call('ZREMRANGEBYSCORE', key, '-inf', int(now))
    for _, id in ipairs(call('ZRANGE', key, 0, -1)) do
      local told = call('HMGET', P .. 'job:' .. id, 'st', 'left')
      if told[1] == 'waiting' and left_by[told[2]] and not looked[id] then
        looked[id] = true
        return {id = id, model = model}
      end
    end
  end
  return nil
end
local function lowest_due()
  local best, best_due
  for _, model in ipairs(models) do
    local id, due = unseen(P .. 'due:' .. model, 1, looked)
    if id and (not best or due < best_due) then
      best, best_due = {id = id, model = model}, due
    end
  end
  return best, best_due
end
-- The record of a job that may be granted; nil if it was none, and is away now from wherever it was found.
local gone = 0
local function good(c)
  local j = read(c.id)
  if j then
    if j.st == 'waiting' and call('HEXISTS', j.key, 'body') == 1 and (j.det or call('EXISTS', P .. 'inbox:' .. j.inbox) == 1) then
      if j.deadline >= now then
        return j
      end
      raise(j)
      finish(j, 1, 'expired', expired)
    else
      erase(j)
    end
  end
  gone = gone + 1
  if c.queue then
    local score = call('ZSCORE', P .. 'wait:' .. c.queue.name, c.id)
    call('ZREM', P .. 'wait:' .. c.queue.name, c.id)
    if score then
      call('ZREM', P .. 'turn:' .. c.queue.name, turn_member({score = tonumber(score), id = c.id}))
    end
    if c.turn then
      call('ZREM', P .. 'turn:' .. c.queue.name, c.turn)
    end
  end
  call('ZREM', P .. 'due:' .. c.model, c.id)
  return nil
end
local function fits(j)
  local first_class = j.lane == 'fast' or j.lane == 'thinking'
  if not first_class and slots - used <= reserved then
    return false
  end
  local kv_room = kv_limit - (first_class and 0 or kv_reserve)
  if kv_limit > 0 and j.kv > 0 and used_kv > 0 and used_kv + j.kv > kv_room then
    return false
  end
  if long_limit > 0 and j.long > 0 and used_long + j.long > long_limit then
    return false
  end
  return not (prefill_limit > 0 and j.lane ~= 'fast' and j.prefill > 0 and used_prefill > 0
    and used_prefill + j.prefill > prefill_limit)
end

local granted, tags = {}, {}
local function may(j)
  return not (barrier and j.arr > barrier) and fits(j)
end
local function bar(j)
  if j.due > 0 then
    barrier = math.min(barrier or j.due, j.due)
  end
end
local function grant(j)
  local more = call('HMGET', j.key, 'prefix', 'base', 'spent', 'started', 'tries')
  j.backend = backend
  out(j)
  raise(j)
  call('HSET', j.key, 'st', 'running', 'worker', worker, 'backend', backend, 'started', more[4] or int(now), 'tries',
    int((more[5] or 0) + 1))
  call('ZADD', P .. 'lease', int(now + lease), j.id)
  call('HSET', load_key, j.id, share(j))
  tags[j.model .. ':' .. j.lane] = j.tag
  used, used_kv, used_prefill, used_long = used + 1, used_kv + j.kv, used_prefill + j.prefill, used_long + j.long
  places.take(j)
  mark(j, 0, 'start', more[2] or '')
  frame(j, 0, 'start', (more[2] or '') .. ' ' .. backend)
  granted[#granted + 1] = {
    j.id, int(j.fence), j.model, j.lane, j.user, j.inbox, more[1] or '', more[2] or '', more[3] or '0', int(j.fails),
    int(j.taken), int(j.arr), int(now - j.arr), int(j.kv), int(j.prefill), int(j.long), j.det and '1' or '0',
    int(j.deadline), int(j.cost),
  }
end

while #granted < want and used < slots and looked_count < LOOK and #over < MOST_OVER and gone < MOST_GONE do
  local c
  if stands_in > 0 then
    c = next_left()
  else
    local quiet = not anybody(models)
    c = first(quiet)
    if c and looked[c.id] then
      c = next_one(quiet)
    end
  end
  if not c then
    break
  end
  local j = good(c)
  if stands_in == 0 then
    local due, due_at = lowest_due()
    if j and due and j.arr > due_at then
      j = good(due)
    end
  end
  if j and (not allowed[j.lane] or (j.left == backend and now < j.left_until) or (now < j.able_until and not goes_on)) then
    -- For another worker; or it failed here, or needs one that can go on with it: another back end is to have it.
    looked[j.id] = true
  elseif j and places.over(j, slots) then
    looked[j.id] = true
    over[#over + 1] = j
  elseif j and may(j) then
    grant(j)
  elseif j then
    looked[j.id] = true
    looked_count = looked_count + 1
    others[j.owner] = true
    bar(j)
  end
end
-- What nobody else waits for is theirs.
for _, j in ipairs(over) do
  if #granted < want and used < slots and alone(j.owner, others) then
    if may(j) then
      grant(j)
    else
      bar(j)
    end
  end
end

-- The queue's clock; users whose turn lies behind it are as good as new.
for name, tag in pairs(tags) do
  local fair = P .. 'fair:' .. name
  call('ZREMRANGEBYSCORE', fair, '-inf', int(tag))
  call('ZADD', fair, int(tag), 'V')
  call('EXPIRE', fair, 3600)
end

local notes = {}
if #granted < want then
  notes = last_ids()
  if gone >= MOST_GONE then
    -- There may be more of them: so many at once hold up everybody. Whoever reads the bell from these notes on comes again.
    call('XADD', P .. 'bell', 'MAXLEN', 16, '*', 'k', 'pull')
  end
end
return {granted, everybody(models), notes}
