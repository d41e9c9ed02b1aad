-- needs: core job reply place finish count seek owners notes flight credit queues elsewhere memory yield
-- ARGV: now, worker, backend, want, slots, kv, prefill, long, reserved slots, kv reserve, segment, pause, lease, expired end, goes on
-- (1: it can with what others began), names, lanes, memory, models: the number of names of back ends, these, the number of lanes,
-- these, the number of words on memory (0: it swaps no models), these (how long ago a worker looked, the models it found), the models.
-- With names: only jobs that one of these has just failed and leaves to others. Returns: granted jobs, waiting, notes (stream, last
-- id, …), further pieces of jobs that this worker has (id, fence, up to which token), and after how many
-- microseconds something may go for which it is only too early (0: none).
local worker, backend, want = ARGV[2], ARGV[3], tonumber(ARGV[4])
local credit = {
  slots = tonumber(ARGV[5]), kv = tonumber(ARGV[6]), prefill = tonumber(ARGV[7]), long = tonumber(ARGV[8]),
  reserved = tonumber(ARGV[9]), kv_reserve = tonumber(ARGV[10]), segment = tonumber(ARGV[11]), free = 1,
}
local pause, lease, expired, goes_on = tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14], ARGV[15] == '1'
local LOOK, MOST_OVER, MOST_GONE, MOST_LEFT, PACE_S = 16, 128, 64, 64, 60

-- Only queues where somebody waits: nothing comes into one meanwhile.
local models, allowed, allowed_lanes, left_by = {}, {}, {}, {}
local stands_in = tonumber(ARGV[16])
for i = 17, 16 + stands_in do
  left_by[ARGV[i]] = true
end
local lanes_at = 17 + stands_in
local memory_at = lanes_at + 1 + tonumber(ARGV[lanes_at])
local models_at = memory_at + 1 + tonumber(ARGV[memory_at])
for _, model in ipairs(asked(models_at)) do
  if people(model) > 0 or background(model) > 0 then
    models[#models + 1] = model
  end
end
for i = lanes_at + 1, memory_at - 1 do
  allowed[ARGV[i]] = true
  allowed_lanes[#allowed_lanes + 1] = ARGV[i]
end

-- Not written each time: when memory is full, a script that begins with it is refused, and one that begins with a release is not.
if call('SISMEMBER', P .. 'backends', backend) == 0 then
  call('SADD', P .. 'backends', backend)
end
local load_key, pace_key = P .. 'load:' .. backend, P .. 'pace:' .. backend
local flight = flight_at(load_key)
local next_piece_at = credit.segment > 0 and tonumber(call('GET', pace_key) or '0') or 0
local function sent_to_be_read()
  if credit.segment > 0 then
    next_piece_at = now + pause
    call('SET', pace_key, int(next_piece_at), 'EX', PACE_S)
  end
end
-- When something may go for which it is only too early.
local look_at
local function look(at)
  if at and at >= now and (not look_at or at < look_at) then
    look_at = at
  end
end
-- Not for another worker; it did not fail here, nor needs one that can go on with it: another back end is to have those.
local function ours(j)
  return allowed[j.lane] and not (j.left == backend and now < j.left_until) and (goes_on or now >= j.able_until)
end
local everyone, elsewhere, memory = models, elsewhere_of(backend, credit.slots, models), nil
if models_at > memory_at + 1 then
  memory = memory_of(backend, flight)
  if stands_in == 0 then
    models = memory.serves(models, memory_at + 1, models_at - 1, ours, elsewhere)
    look(memory.look_at)
  end
end
local queues = waiting_queues(models, allowed_lanes)

-- Jobs that were looked at and left; the lowest due of those that do not fit, and what that one takes: whoever came after that has to
-- leave its room alone. `read_later`: something would go if less were being read.
local looked, looked_count, due_looks, barrier, barred, read_later = {}, 0, 0, nil, nil, false
-- Jobs whose owners have as many places here as they may while others wait. Whoever else waits passes them, however old they are.
local over, places, others = {}, owners_at(load_key), {}
-- What people's jobs need that found no room here; and how many jobs were left to other back ends.
local short, left_count = {}, 0

-- The record of a job that may be granted; nil if it was none, and is away now from wherever it was found.
local gone = 0
local function good(c)
  local j = read(c.id)
  if j then
    if j.st == 'waiting' and call('HEXISTS', j.key, 'body') == 1 and (j.det or call('EXISTS', P .. 'inbox:' .. j.inbox) == 1) then
      if j.deadline >= now then
        if j.near ~= '' and j.near ~= backend then
          j.prefill = j.prompt
        end
        return j
      end
      raise(j)
      finish(j, 1, 'expired', expired)
    else
      erase(j)
    end
  end
  gone = gone + 1
  away(c)
  return nil
end
-- An engine that tells no memory: places that are kept free are places lost, so none is once somebody has waited for long.
if credit.kv == 0 and credit.reserved > 0 then
  local oldest = lowest_due(models, looked)
  local told = oldest and call('HMGET', P .. 'job:' .. oldest.id, 'arr', 'due') or {}
  if told[1] and now - tonumber(told[1]) > (tonumber(told[2]) - tonumber(told[1])) / 4 then
    credit.reserved = 0
  end
end

local function upto_of(j)
  return next_upto(j.lane, j.prompt, j.prompt - j.prefill, j.splits and j.base == '', credit)
end
local function need_of(j)
  local tokens = upto_of(j) - j.prompt + j.prefill
  if credit.segment > 0 and j.lane ~= 'fast' and flight.reads_before(j.lane) then
    -- One prompt of a lane is read after the other: side by side both would be late.
    tokens = NOT_NOW
  end
  return {lane = j.lane, kv = j.kv, prefill = tokens, long = j.long}
end

local granted, pieces, tags = {}, {}, {}
local function may(j, need)
  return (not barrier or j.arr <= barrier or may_pass(need, barred, flight.some(barrier), credit)) and fits(need, flight.all, credit)
end
local function bar(j, need)
  need.prefill = 0
  if fits(need, flight.all, credit) then
    -- It waits for a prompt under way, and is asked first when that is read.
    read_later = true
  elseif j.due > 0 and (not barrier or j.due < barrier) then
    barrier, barred = j.due, need
  end
end
local function grant(j)
  local more = call('HMGET', j.key, 'prefix', 'spent', 'started', 'tries')
  j.backend, j.upto, j.had, j.read = backend, upto_of(j), j.prompt - j.prefill, 0
  out(j)
  raise(j)
  call('HSET', j.key, 'st', 'running', 'worker', worker, 'backend', backend, 'started', more[3] or int(now), 'tries',
    int((more[4] or 0) + 1), 'upto', int(j.upto), 'had', int(j.had))
  call('ZADD', P .. 'lease', int(now + lease), j.id)
  call('HSET', load_key, j.id, share(j))
  tags[j.model .. ':' .. j.lane] = j.tag
  flight.take({
    id = j.id, kv = j.kv, prefill = j.lane == 'fast' and 0 or j.upto - j.had, long = j.long, lane = j.lane, arr = j.arr,
    score = j.score, prompt = j.prompt, upto = j.upto, had = j.had,
  })
  if memory then
    memory.sent(j)
  end
  if j.lane ~= 'fast' then
    sent_to_be_read()
  end
  places.take(j)
  mark(j, 0, 'start', j.base)
  frame(j, 0, 'start', j.base .. ' ' .. backend)
  granted[#granted + 1] = {
    j.id, int(j.fence), j.model, j.lane, j.user, j.inbox, more[1] or '', j.base, more[2] or '0', int(j.fails),
    int(j.taken), int(j.arr), int(now - j.arr), int(j.kv), int(j.prefill), int(j.long), j.det and '1' or '0',
    int(j.deadline), int(j.cost), int(j.prompt), j.upto < j.prompt and int(j.upto) or '0',
  }
end
-- The next piece of a prompt, if it may go now.
local function go_on(half)
  read_later = true
  local upto = next_upto(half.lane, half.prompt, half.upto, true, credit)
  if flight.all.prefill > 0 and flight.all.prefill + upto - half.upto > credit.prefill then
    return false
  end
  local j = read(half.id)
  if not j then
    return false
  end
  flight.send(half, upto)
  j.upto = upto
  call('HSET', j.key, 'upto', int(upto))
  call('HSET', load_key, j.id, share(j))
  sent_to_be_read()
  local told = upto < half.prompt and int(upto) or '0'
  if j.worker == worker then
    pieces[#pieces + 1] = {j.id, int(j.fence), told}
  else
    redis.pcall('XADD', P .. 'ctl:' .. j.worker, 'NOMKSTREAM', '*', 'k', 'piece', 'id', j.id, 'f', int(j.fence), 'u', told)
  end
  return true
end
local function left_to_others(j)
  local us = stands_in == 0 and elsewhere.left(j, flight.all.jobs) or 0
  if us > 0 then
    left_count = left_count + 1
    look(now + us)
  end
  return us > 0
end
-- The next that waits, and whether it goes before all others whatever the scores say. nil, and true: one that was none is away now.
local function next_job()
  if #granted >= want or flight.all.jobs >= credit.slots or looked_count >= LOOK or left_count >= MOST_LEFT or #over >= MOST_OVER
    or gone >= MOST_GONE then
    return nil, false
  end
  if stands_in > 0 then
    local c = next_left(models, left_by, looked)
    local j = c and good(c)
    return j, c and not j
  end
  local quiet, by_turn = not anybody(everyone), #over > 0
  local c = candidate(queues, looked, quiet, false, by_turn)
  if not c then
    return nil, false
  end
  local first = candidate(queues, looked, quiet, true, by_turn)
  local short = first and good(first)
  local jumps = short and may_go_first(need_of(short), flight.some(-1, true), credit)
  local j = (jumps or (first and first.id == c.id)) and short or good(c)
  if not j or (first and not short) then
    return nil, true
  end
  if due_looks < LOOK_LANE then
    local due, due_at = lowest_due(models, looked)
    if due and due_at < j.arr then
      due_looks, jumps = due_looks + 1, false
      j = good(due)
    end
  end
  return j, j and jumps or not j
end
local function half_read()
  for _, half in ipairs(flight.half_read()) do
    if half.upto == half.had and not looked[half.id] then
      return half
    end
  end
  return nil
end

while true do
  measure(credit, flight.all, now < next_piece_at)
  local j, jumps = next_job()
  local half = half_read()
  if half and ((not j and not jumps) or (j and not jumps and half.score <= j.score)) then
    looked[half.id] = flight.reads_before(half.lane) or not go_on(half) or nil
    read_later = true
  elseif j and (not ours(j) or left_to_others(j)) then
    looked[j.id] = true
  elseif j and places.over(j, credit.slots) then
    looked[j.id] = true
    over[#over + 1] = j
  elseif j then
    local need = need_of(j)
    if may(j, need) then
      grant(j)
    else
      looked[j.id] = true
      looked_count = looked_count + 1
      for _, q in ipairs(queues) do
        if q.model == j.model and q.lane == j.lane then
          q.looks = q.looks + 1
        end
      end
      others[j.owner] = true
      if j.lane ~= 'background' then
        short[#short + 1] = {lane = need.lane, kv = need.kv, prefill = need.prefill, long = need.long}
      end
      bar(j, need)
    end
  elseif not jumps then
    break
  end
end
-- What nobody else waits for is theirs.
for _, j in ipairs(over) do
  if #granted < want and flight.all.jobs < credit.slots and alone(j.owner, others) then
    measure(credit, flight.all, now < next_piece_at)
    local need = need_of(j)
    if may(j, need) then
      grant(j)
    else
      bar(j, need)
    end
  end
end
-- The prompts that are being read go on where nothing else may go.
for _, half in ipairs(flight.half_read()) do
  if half.upto > half.had then
    measure(credit, flight.all, now < next_piece_at)
    go_on(half)
  end
end

if stands_in == 0 and flight.carries('background') then
  -- Where no place is left, those that would come next have not been looked at.
  local looks = 0
  while flight.all.jobs >= credit.slots and #short < LOOK and looks < LOOK do
    local c = candidate(queues, looked, false, false, #over > 0)
    local j = c and good(c)
    if not c then
      break
    end
    looks = looks + 1
    if j then
      looked[j.id] = true
      if ours(j) and not places.over(j, credit.slots) and not left_to_others(j) then
        short[#short + 1] = need_of(j)
      end
    end
  end
  look(give_way(flight, credit, short))
end

-- The queue's clock; users whose turn lies behind it are as good as new.
for name, tag in pairs(tags) do
  local fair = P .. 'fair:' .. name
  call('ZREMRANGEBYSCORE', fair, '-inf', int(tag))
  call('ZADD', fair, int(tag), 'V')
  call('EXPIRE', fair, 3600)
end

local notes = {}
if #granted < want or want == 0 then
  notes = last_ids()
  if gone >= MOST_GONE then
    -- There may be more of them: so many at once hold up everybody. Whoever reads the bell from these notes on comes again.
    call('XADD', P .. 'bell', 'MAXLEN', 16, '*', 'k', 'pull')
  end
end
look(read_later and next_piece_at or nil)
return {granted, everybody(everyone), notes, pieces, look_at and int(look_at - now) or '0'}
