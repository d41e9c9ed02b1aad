-- A job becomes a worker's.
local PACE_S, LARGE_BODY, HEED, HEED_S = '60', 65536, 60000000, '120'
-- `till`: until when it has it, in digits. `j` tells its back end, up to which token its prompt goes there now, and its texts: prefix, tokens
-- spent on that, body. Returns what the worker is told.
local function granted_to(worker, till, j)
  j.st, j.read = 'running', 0
  raise(j, 'st', j.st, 'worker', worker, 'backend', j.backend, 'started', j.started or NOW, 'tries', int(j.tries + 1),
    'upto', int(j.upto), 'had', int(j.had))
  call('ZADD', P .. 'lease', till, j.id)
  call('HSET', P .. 'load:' .. j.backend, j.id, share(j))
  mark(j, 0, 'start', j.base)
  -- What was asked goes along, but for pictures: they would hold up the store's other clients.
  return {
    j.id, j.under, j.model, j.lane, j.user, j.inbox, j.prefix or '', j.base, j.spent or '0', int(j.fails), int(j.taken), j.arr,
    now - j.arr, j.kv, j.prefill, int(j.long), j.det and '1' or '0', j.deadline, int(j.cost), j.prompt,
    j.upto < j.prompt and j.upto or 0, #j.body <= LARGE_BODY and j.body or '',
  }
end
-- So many tokens were sent to be read, or (nil) a piece that holds back the next for the whole pause. Returns until when nothing more is
-- sent to be read, but alone.
local function paced(pace_key, next_at, segment, pause, tokens)
  local part = tokens and math.min(1, tokens / math.max(1, math.floor(segment / QUARTERS))) or 1
  next_at = math.max(next_at, now + pause * part)
  call('SET', pace_key, format('%.17g', next_at), 'EX', PACE_S)
  return next_at
end
-- A queue's clock; users whose turn lies behind it are as good as new.
local function clock(fair, tag)
  call('ZREMRANGEBYSCORE', fair, '-inf', int(tag))
  call('ZADD', fair, int(tag), 'V')
  call('EXPIRE', fair, '3600')
end
