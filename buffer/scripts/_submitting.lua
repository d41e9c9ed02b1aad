-- A submit, with arguments as submit.lua has them.
local id, model, lane, user, inbox = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local limit = tonumber(ARGV[15])
local key, reply = P .. 'job:' .. id, P .. 'reply:' .. id

local count = lane == 'background' and background or people
local waiting = 0
for _, each in ipairs(call('ZRANGE', P .. 'models', '0', '-1')) do
  waiting = waiting + count(each)
end
-- Of embeddings the limit counts inputs.
local inputs = tonumber(ARGV[17])
if inputs > 0 then
  if waiting == 0 then
    call('DEL', several(lane))
  end
  for _, count_of in ipairs(call('HVALS', several(lane))) do
    waiting = waiting + tonumber(count_of) - 1
  end
end

local floor, lease = tonumber(ARGV[21]), tonumber(ARGV[27])
-- Most are heard of for the first time: of those there is nothing to read, and no answer to take away.
local heard_of = call('EXISTS', key, reply) > 0
local known = heard_of and read(id)
if known and known.fence >= floor then
  if known.st == 'done' then
    call('HDEL', key, 'body')
    call('EXPIRE', key, DONE_JOB_S)
  else
    call('HSET', key, 'inbox', inbox)
    call('EXPIRE', key, JOB_S)
    call('EXPIRE', reply, JOB_S)
    if floor > 0 and call('HGET', key, 'floor') == int(floor) then
      -- The answer to this very call was lost.
      return {'restored', int(known.fence), known.st, waiting}
    end
  end
  return {'known', int(known.fence), known.st, waiting}
end
if limit > 0 and waiting + math.max(inputs, 1) > limit then
  call('DEL', key)
  local mine, users = crowd(lane, user)
  if mine > limit / users then
    return {'over', '0', 'gone', mine, users}
  end
  return {'full', '0', 'gone', waiting}
end
if call('EXISTS', P .. 'inbox:' .. inbox) == 0 then
  -- Its answer would come to nobody, and pull would drop it.
  local homeless = ARGV[14] ~= '1'
  if homeless and not known then
    -- An older state of it stands in a queue, or runs.
    call('DEL', key)
  end
  -- Where the store has lost everything, it has lost the standing orders too, and whoever trusts in one has to hear of that.
  call('XADD', P .. 'bell', 'MAXLEN', 16, '*', 'k', 'order')
  if homeless then
    return {'homeless', '0', 'gone', waiting}
  end
end

local arr = now - tonumber(ARGV[20])
local j = {
  id = id, key = key, model = model, lane = lane, user = user, inbox = inbox, entry = '', cost = tonumber(ARGV[10]),
  score = arr + tonumber(ARGV[7]), due = lane == 'background' and 0 or arr + tonumber(ARGV[8]), inputs = inputs,
  timeout = tonumber(ARGV[9]), fence = 0, kv = tonumber(ARGV[11]), prefill = tonumber(ARGV[12]), long = tonumber(ARGV[13]),
  backend = '', fails = 0, taken = 0, tries = 0, arr = arr, prompt = tonumber(ARGV[33]), splits = ARGV[34] == '1', near = ARGV[35],
  behind = ARGV[36], det = ARGV[14] == '1', base = ARGV[23], prefix = ARGV[22], body = ARGV[16],
}
-- Put back into its queue it is not late because it came long ago.
j.deadline = (floor > 0 and lease == 0 and now or arr) + j.timeout
if known then
  -- An older state of the same job: what it was charged, how often it was tried and failed, and since when, still holds.
  out(known)
  if known.entry ~= '' then
    call('XDEL', P .. 'jobs:' .. known.lane, known.entry)
  end
  local keeps = {body = true, started = true, first = true, tries = true}
  for _, field in ipairs(call('HKEYS', key)) do
    if not keeps[field] then
      call('HDEL', key, field)
    end
  end
  j.fails, j.taken, j.tag = known.fails, known.taken, known.tag
else
  local fair = P .. 'fair:' .. model .. ':' .. lane
  -- Never before the user's last job, though that may have been charged too much: nobody passes himself.
  local clock, turn, last = unpack(call('ZMSCORE', fair, 'V', 'u:' .. user, 'l:' .. user))
  j.tag = math.max(tonumber(clock or '0'), tonumber(turn or '0'), tonumber(last or '0'))
  if call('ZADD', fair, int(j.tag + j.cost), 'u:' .. user, int(j.tag), 'l:' .. user) > 0 then
    -- Who is there already has a lifetime, and pulls begin it anew.
    call('EXPIRE', fair, '3600')
  end
end
if floor > 0 then
  j.fence = math.max(now, floor + 1, known and known.fence + 1 or 0)
end
if call('ZADD', P .. 'models', NOW, model) == 1 then
  -- Begun anew by each watch.
  call('EXPIRE', P .. 'models', '86400')
end
post(j)
-- A large body stands in the record already. With any body the server stores a hash in another form: it is told of it with the rest, lest it
-- make the one form of the other.
local more = {}
-- What is as it is without a word is left out.
local function note(field, value, else_it_is)
  if value ~= else_it_is then
    more[#more + 1], more[#more + 2] = field, value
  end
end
note('body', ARGV[16], '')
note('prefix', ARGV[22], '')
note('base', ARGV[23], '')
note('spent', ARGV[24], '0')
note('share', ARGV[19], '0')
note('inputs', ARGV[17], '0')
note('splits', ARGV[34], '0')
note('near', ARGV[35], '')
note('behind', ARGV[36], '')
note('trace', ARGV[37], '')
call('HSET', key, 'st', 'waiting', 'entry', j.entry, 'fence', int(j.fence), 'n', '0', 'fails', int(j.fails), 'taken', int(j.taken),
  'lane', lane, 'model', model, 'user', user, 'owner', ARGV[18], 'score', int(j.score), 'tag', int(j.tag), 'due', int(j.due),
  'arr', int(arr), 'cost', ARGV[10], 'kv', ARGV[11], 'prefill', ARGV[12], 'long', ARGV[13], 'inbox', inbox, 'det', ARGV[14],
  'timeout', ARGV[9], 'deadline', int(j.deadline), 'name', ARGV[32], 'prompt', ARGV[33], unpack(more))
-- An older record may know of more attempts; of when the first of them began it knows best.
local tries = math.max(tonumber(ARGV[29]), known and known.tries or 0)
if tries > 0 then
  call('HSET', key, 'tries', int(tries))
  call('HSETNX', key, 'started', int(now - tonumber(ARGV[30])))
end
if ARGV[31] ~= '' then
  call('HSETNX', key, 'first', int(now - tonumber(ARGV[31])))
end
call('EXPIRE', key, JOB_S)
if heard_of then
  call('DEL', reply)
end
call('XADD', reply, '0-1', 'k', 'queued', 'n', '0', 'd', ARGV[28])
if floor > 0 then
  call('HSET', key, 'floor', int(floor))
  call('XADD', reply, int(j.fence) .. '-0', 'k', 'snap', 'n', '0', 'd', ARGV[22], 's', ARGV[24])
end
call('EXPIRE', reply, JOB_S)
if lease == 0 then
  local backend = waiting == 0 and inputs == 0 and floor == 0 and not known and offered(j)
  if backend then
    return {'new', j.under, 'running', 0, 0, backend}
  end
  line_up(j)
  return {floor == 0 and 'new' or 'restored', int(j.fence), 'waiting', waiting + math.max(inputs, 1)}
end
-- Somebody may be at it still, under the fence that is the floor: a lease long it may come and take it over as it is. How far its
-- prompt was read nobody knows: it goes on with all of it.
j.backend, j.upto, j.had = ARGV[26], j.prompt, j.prompt - j.prefill
call('HSET', key, 'upto', int(j.upto), 'had', int(j.had))
if tonumber(ARGV[25]) > 0 then
  j.read = j.fence
  call('HSET', key, 'read', int(j.fence))
end
if j.backend ~= '' then
  call('SADD', P .. 'backends', j.backend)
  call('HSET', P .. 'load:' .. j.backend, id, share(j))
end
call('ZADD', P .. 'lease', int(now + lease), id)
call('HSET', key, 'st', 'running', 'adopt', int(floor), 'have', ARGV[25], 'worker', '', 'backend', j.backend)
return {'restored', int(j.fence), 'running', waiting}
