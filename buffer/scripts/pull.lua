-- needs: core job reply place finish count seek homes owners flight credit segment queues places elsewhere memory yield grant sending
-- ARGV: now, worker, backend, want, slots, kv, prefill, long, reserved slots, kv reserve, segment, pause, lease, expired end, goes on
-- (1: it can with what others began), names, lanes, memory, models: the number of names of back ends, these, the number of lanes,
-- these, the number of words on memory (0: it swaps no models), these (how long ago a worker looked, the models it found), the models.
-- With names: only jobs that one of these has just failed and leaves to others. Returns: granted jobs, waiting,
-- further pieces of jobs that this worker has (id, fence, up to which token), and after how many
-- microseconds something may go for which it is only too early (0: none); and whether the worker's standing order for this back end
-- stands (1).
local worker, backend, want = ARGV[2], ARGV[3], tonumber(ARGV[4])
local credit = {
  slots = tonumber(ARGV[5]), kv = tonumber(ARGV[6]), prefill = tonumber(ARGV[7]), long = tonumber(ARGV[8]),
  reserved = tonumber(ARGV[9]), kv_reserve = tonumber(ARGV[10]), segment = tonumber(ARGV[11]), free = 1,
}
local pause, lease, expired, goes_on = tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14], ARGV[15] == '1'
local LOOK, MOST_OVER, MOST_GONE, MOST_LEFT = 16, 128, 64, 64

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
  note_places(backend, stands_in == 0 and credit.slots or 0, model)
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
local flight = flight_at(P .. 'load:' .. backend)
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
local everyone, elsewhere, memory = models, elsewhere_of(backend, credit.slots), nil
if models_at > memory_at + 1 then
  memory = memory_of(backend, flight)
  if stands_in == 0 then
    models = memory.serves(models, memory_at + 1, models_at - 1, ours, elsewhere)
    look(memory.look_at)
  end
end
local queues = waiting_queues(models, allowed_lanes)

-- Jobs that were looked at and left; the lowest due of those that do not fit, and what that one takes: whoever came after that has to
-- leave its room alone.
local looked, looked_count, due_looks, by_due, earliest_due, barrier, barred = {}, 0, 0, 0, 0, nil, nil
-- Jobs whose owners have as many places here as they may while others wait. Whoever else waits passes them, however old they are.
local over, places, others = {}, owners_at(P .. 'load:' .. backend), {}
-- What people's jobs need that found no room here; and how many jobs were left to other back ends.
local short, left_count = {}, 0

-- The record of a job that may be granted; nil if it was none, and is away now from wherever it was found.
local gone = 0
local function good(c)
  local j = read(c.id)
  if j then
    if j.st == 'waiting' and (j.det or at_home(j.inbox)) then
      if j.deadline >= now then
        if j.near ~= '' and j.near ~= backend then
          j.prefill = j.prompt
        end
        return j
      end
      -- First what takes no memory: so it ends also where there is none.
      out(j)
      raise(j)
      finish(j, 1, 'expired', expired)
    else
      erase(j)
    end
  end
  gone = gone + 1
  away(c)
  look_anew(queues)
  return nil
end
-- An engine that tells no memory: places that are kept free are places lost.
if credit.kv == 0 and credit.reserved > 0 and somebody_waited(models) then
  credit.reserved = 0
end

local sending = sending_of({
  worker = worker, backend = backend, lease = lease, pause = pause, credit = credit, flight = flight, places = places, memory = memory,
})
local granted, need_of = sending.granted, sending.need
local function grant(j)
  sending.grant(j)
  look_anew(queues, j)
end
local function may(j, need)
  return (not barrier or j.arr <= barrier or may_pass(need, barred, flight.some(barrier), credit)) and fits(need, flight.all, credit)
end
local function bar(j, need)
  need.prefill = 0
  if fits(need, flight.all, credit) then
    -- It waits for a prompt under way, and is asked first when that is read.
    sending.read_later = true
  elseif j.due > 0 and (not barrier or j.due < barrier) then
    barrier, barred = j.due, need
  end
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
  local quiet, by_turn = not queues.background or not anybody(everyone), #over > 0
  local c = candidate(queues, looked, quiet, false, by_turn)
  if not c then
    return nil, false
  end
  local first = candidate(queues, looked, quiet, true, by_turn)
  local short = first and good(first)
  local jumps = short and may_go_first(need_of(short), flight.short, credit)
  local j = short
  if not first or (short and not jumps and short.id ~= c.id) then
    j = good(c)
  end
  if not j then
    return nil, true
  end
  by_due = 0
  -- The lowest can only rise meanwhile.
  if due_looks < LOOK_LANE and earliest_due < j.arr then
    local due, due_at = lowest_due(models, looked)
    earliest_due = due_at or math.huge
    if due and due_at < j.arr then
      by_due, jumps = 1, false
      j = good(due)
    end
  end
  return j, j and jumps or not j
end
local function leave(j)
  looked[j.id] = true
  due_looks = due_looks + by_due
end

while true do
  sending.measure()
  local j, jumps = next_job()
  local half = flight.next_half(looked)
  if half and ((not j and not jumps) or (j and not jumps and half.score <= j.score)) then
    looked[half.id], sending.read_later = true, true
    if sending.in_turn(half) then
      sending.go_on(half)
    end
  elseif j and (not ours(j) or left_to_others(j)) then
    leave(j)
  elseif j and places.over(j, credit.slots) then
    leave(j)
    over[#over + 1] = j
  elseif j then
    local need = need_of(j)
    if may(j, need) and not sending.waits_behind(j.lane, need.prefill) then
      grant(j)
    else
      leave(j)
      looked_count = looked_count + 1
      looked_at(queues, j)
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
  if #granted < want and alone(j.owner, others) then
    sending.measure()
    local need = need_of(j)
    if may(j, need) and not sending.waits_behind(j.lane, need.prefill) then
      grant(j)
    else
      bar(j, need)
    end
  end
end
-- The prompts that are being read go on where nothing else may go.
for _, half in ipairs(flight.half_read()) do
  if half.upto > half.had then
    sending.measure()
    sending.go_on(half)
  end
end
if stands_in == 0 and flight.carries('background') then
  -- Where no place is left, those that would come next have not been looked at.
  local looks = 0
  while flight.all.jobs >= credit.slots and looks < LOOK do
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
sending.clocks()
if gone >= MOST_GONE then
  -- There may be more of them: so many at once hold up everybody. Whoever waits for the bell comes again.
  call('XADD', P .. 'bell', 'MAXLEN', 16, '*', 'k', 'pull')
end
look(sending.read_later and sending.next_at or nil)
look(sending.careful_at)
local stands = call('HEXISTS', P .. 'orders:' .. worker, backend)
return {granted, everybody(everyone), sending.pieces, look_at and format('%.0f', look_at - now) or '0', stands}
