-- needs: core job place enter count
-- ARGV: now, id, model, lane, user, inbox, offset, max wait, timeout, cost, kv, prefill, long, det, limit, body, inputs
-- An empty body has been put into the record already. Returns: status, fence, state, waiting.
local id, model, lane, user, inbox = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local limit = tonumber(ARGV[15])
local key = P .. 'job:' .. id

local count = lane == 'background' and background or people
local waiting = 0
for _, each in ipairs(call('ZRANGE', P .. 'models', 0, -1)) do
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

local known = read(id)
if known then
  if known.st == 'done' then
    call('HDEL', key, 'body')
    call('EXPIRE', key, DONE_JOB_S)
  else
    call('HSET', key, 'inbox', inbox)
    call('EXPIRE', key, JOB_S)
    call('EXPIRE', P .. 'reply:' .. id, JOB_S)
  end
  return {'known', int(known.fence), known.st, waiting}
end
if limit > 0 and waiting + math.max(inputs, 1) > limit then
  call('DEL', key)
  return {'full', '0', 'gone', waiting}
end
if ARGV[14] ~= '1' and call('EXISTS', P .. 'inbox:' .. inbox) == 0 then
  -- Its answer would come to nobody, and pull would drop it.
  call('DEL', key)
  return {'homeless', '0', 'gone', waiting}
end

local fair = P .. 'fair:' .. model .. ':' .. lane
local tag = math.max(tonumber(call('ZSCORE', fair, 'V') or '0'), tonumber(call('ZSCORE', fair, 'u:' .. user) or '0'))
local j = {
  id = id, key = key, model = model, lane = lane, user = user, entry = '', tag = tag, cost = tonumber(ARGV[10]),
  score = now + tonumber(ARGV[7]), due = lane == 'background' and 0 or now + tonumber(ARGV[8]),
  inputs = inputs,
}
call('ZADD', fair, int(tag + j.cost), 'u:' .. user)
call('EXPIRE', fair, 3600)
call('ZADD', P .. 'models', int(now), model)
call('EXPIRE', P .. 'models', 86400)
call('HSET', key, 'st', 'waiting', 'fence', '0', 'n', '0', 'fails', '0', 'taken', '0', 'lane', lane, 'model', model, 'user', user,
  'score', int(j.score), 'tag', int(tag), 'due', int(j.due), 'arr', int(now), 'cost', ARGV[10], 'kv', ARGV[11],
  'prefill', ARGV[12], 'long', ARGV[13], 'inbox', inbox, 'det', ARGV[14], 'deadline', int(now + tonumber(ARGV[9])),
  'prefix', '', 'base', '', 'spent', '0', 'inputs', int(inputs))
if ARGV[16] ~= '' then
  call('HSET', key, 'body', ARGV[16])
end
call('EXPIRE', key, JOB_S)
call('DEL', P .. 'reply:' .. id)
call('XADD', P .. 'reply:' .. id, '0-1', 'k', 'queued', 'n', '0', 'd', '')
call('EXPIRE', P .. 'reply:' .. id, JOB_S)
enter(j)
return {'new', '0', 'waiting', waiting + math.max(inputs, 1)}
