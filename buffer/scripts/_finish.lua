-- The one end of a job. `data` is the end as JSON, n its number; `said`: what its frame takes along, `noted`: what is noted besides in its
-- record, both fields and values (nil: nothing). Gives how many places at back ends became free. What was asked is dropped, unless the
-- job is `kept`: a dead letter of a detached one may be tried again by hand as long as its record stands.
local NOTHING = {}
local function finish(j, n, kind, data, said, noted)
  local freed = out(j)
  if j.entry ~= '' then
    call('XDEL', P .. 'jobs:' .. j.lane, j.entry)
  end
  call('HDEL', j.key, 'prefix', j.kept and 'prefix' or 'body')
  call('HSET', j.key, 'st', 'done', 'end', kind, 'ended', NOW, unpack(noted or NOTHING))
  mark(j, n, kind, data)
  frame(j, n, kind, data, unpack(said or NOTHING))
  call('EXPIRE', j.key, DONE_JOB_S)
  -- Of what was cancelled nobody wants a word: megabytes, where a client left that read slowly. Its end has to be seen.
  local reply_s = kind == 'cancelled' and CANCELLED_REPLY_S or DONE_REPLY_S
  call('EXPIRE', P .. 'reply:' .. j.id, j.det and DONE_JOB_S or reply_s)
  return freed
end
-- Away without an end: there is nobody to tell. What it had said goes as soon as that of others.
local function erase(j)
  local freed = out(j)
  if j.entry ~= '' then
    call('XDEL', P .. 'jobs:' .. j.lane, j.entry)
  end
  call('DEL', j.key)
  call('EXPIRE', P .. 'reply:' .. j.id, DONE_REPLY_S)
  return freed
end
-- A dead letter keeps the reason, never a text. It names the model as its clients do, if the job's record is there to tell.
local function bury(id, model, lane, user, reason)
  local name = call('HGET', P .. 'job:' .. id, 'name') or ''
  model = name ~= '' and name or model
  redis.pcall('XADD', P .. 'dead', 'MAXLEN', '~', '1000', '*', 'id', id, 'model', model, 'lane', lane, 'user', user,
    'reason', reason, 'at', NOW)
end
